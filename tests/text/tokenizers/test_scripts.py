"""Words in the scripts of the world, compared with the rules of UAX 29 in the library `regex`."""

import time
import unicodedata
from itertools import accumulate, pairwise

import pytest
import regex

from regard.config import BPEConfig, CharactersConfig, UnigramConfig, WordsConfig
from regard.text.strings import to_form
from regard.text.tokenizers.detokenizer import detokenize
from regard.text.tokenizers.schemes import SubwordScheme, WordsScheme
from regard.text.tokenizers.tokenizer import build_tokenizer

TEXTS = {
    "Arabic": "هل قرأتَ الكتاب، أم لا؟ نعم؛ قرأته.",
    "Persian": "می\u200cخواهم کتاب\u200cها را بخوانم.",
    "Urdu": "کیا آپ ٹھیک ہیں؟ جی ہاں۔",
    "Arabic numbers": "١٬٢٣٤٫٥ و ۱۲٫۵",
    "Uyghur": "ئۇ كىتابنى ئوقۇدى.",
    "Sindhi": "هي ڪتاب ۽ قلم آهي.",
    "Kurdish": "ئەم کتێبە باشە.",
    "Hebrew": "הוא ראה את צה״ל ואת צה\"ל, ג׳ירפה וצ'ק.",
    "Hebrew points": "בְּרֵאשִׁית בָּרָא אֱלֹהִים",
    "Yiddish": "װאָס מאַכט איר?",
    "Hindi": "यह किताब है। क्\u200dष और क्\u200cष",
    "Marathi": "र्\u200dहस्व आणि दऱ्याखोऱ्या.",
    "Nepali": "म घर जान्छु।",
    "Sanskrit": "रामो राजमणिः सदा विजयते॥",
    "Bengali": "আমি বই পড়ি। র\u200d্যাব",
    "Punjabi": "ਮੈਂ ਕਿਤਾਬ ਪੜ੍ਹਦਾ ਹਾਂ।",
    "Gujarati": "હું પુસ્તક વાંચું છું.",
    "Odia": "ମୁଁ ବହି ପଢ଼େ।",
    "Tamil": "நான் புத்தகம் படிக்கிறேன்.",
    "Telugu": "నేను పుస్తకం చదువుతాను.",
    "Kannada": "ನಾನು ಪುಸ್ತಕ ಓದುತ್ತೇನೆ. ರ\u200d್ಯಾಂಕ್",
    "Malayalam": "ഞാൻ പുസ്തകം വായിക്കുന്നു. അവന്\u200d",
    "Sinhala": "ශ්\u200dරී ලංකාව ලස්සනයි.",
    "Thai": "ฉันอ่านหนังสือทุกวัน แล้ว",
    "Lao": "ຂ້ອຍອ່ານປຶ້ມ ທຸກມື້",
    "Khmer": "ខ្ញុំ\u200bអាន\u200bសៀវភៅ។",
    "Burmese": "ကျွန်တော် စာအုပ်ဖတ်သည်။ ဟုတ်ကဲ့၊ ကောင်းတယ်။",
    "Tibetan": "བོད་སྐད་ཤེས་ཀྱི་ཡོད། ང་ཚོ།",
    "Dzongkha": "ང་གི་མིང་",
    "Georgian": "მე წიგნს ვკითხულობ.",
    "Armenian": "Ինչպե՞ս ես, բարե՛ւ։ Լավ եմ։",
    "Greek": "Τι κάνεις; Καλά, ευχαριστώ· εσύ;",
    "Greek polytonic": "Ἐν ἀρχῇ ἦν ὁ λόγος",
    "Russian": "Он какой-то не тот.",
    "Ukrainian": "Об'єкт і м’ята.",
    "Church Slavonic": "Въ нача́лѣ бѣ̀ сло́во",
    "Amharic": "ሰላም፣ እንዴት ነህ? ደህና ነኝ።",
    "Ethiopic wordspace": "ሰላም፡ለዓለም።",
    "Cherokee": "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ.",
    "Mongolian": "ᠮᠣᠩᠭᠣᠯ ᠬᠡᠯᠡ\u180eᠠ ᠪᠠᠷ᠃",
    "Manchu": "ᠮᠠᠨᠵᡠ ᡤᡳᠰᡠᠨ᠂",
    "Korean": "나는 책을 읽는다.",
    "Jamo": "나는 책을 읽는다.",
    "Japanese": "私は本を読みます。",
    "Katakana": "コンピューターが壊れた。",
    "Japanese dakuten": "がぎ",
    "Japanese VS": "葛󠄀城市",
    "Chinese": "我喜欢读书，你呢？",
    "Bopomofo": "ㄅㄆㄇ ㄈ",
    "Yi": "ꆈꌠꉙ ꁱꂷ",
    "Vietnamese": "Tôi đọc sách.",
    "Vietnamese decomposed": "Tôi đọc sách.",
    "Yoruba": "Ẹ káàárọ̀ ọ̀rẹ́ mi.",
    "NKo": "ߒߞߏ ߞߊ߲߫߸ ߌ ߣߌ߫ ߗߋ߹",
    "Adlam": "𞤀𞤣𞤤𞤢𞤥 𞤆𞤵𞤤𞤢𞤪⹁ 𞤥𞤭⹎",
    "Tifinagh": "ⵜⴰⵎⴰⵣⵉⵖⵜ ⴰⵡⴰⵍ",
    "Osmanya": "𐒈𐒝𐒑𐒛𐒐𐒘 𐒖𐒍",
    "Vai": "ꕙꔤ ꕮꔷ",
    "Syriac": "ܫܠܡܐ ܥܠܘܟ܀ \u070fܐܒ",
    "Thaana": "ދިވެހި ބަސް",
    "Samaritan": "ࠁࠓࠀࠔࠉࠕ",
    "Javanese": "ꦱꦸꦒꦼꦁ ꦲꦺꦚ꧀ꦗꦁ꧉",
    "Balinese": "ᬩᬮᬶ ᬓᬭᬸᬦ",
    "Sundanese": "ᮞᮥᮔ᮪ᮓ",
    "Cham": "ꨌꩌ ꨚꨭ",
    "Meetei": "ꯃꯤꯇꯩ ꯂꯣꯟ",
    "Ol Chiki": "ᱥᱟᱱᱛᱟᱲᱤ ᱯᱟᱹᱨᱥᱤ",
    "Chakma": "𑄌𑄋𑄴𑄟𑄳𑄦",
    "Limbu": "ᤛᤡᤖᤡᤈᤨᤅ",
    "Tai Le": "ᥖᥭᥰ ᥘᥫᥴ",
    "New Tai Lue": "ᦎᦷᦑᦺ",
    "Tagalog": "ᜊᜌ᜔ᜊᜌᜒᜈ᜔",
    "Cree": "ᓀᐦᐃᔭᐍᐏᐣ ᐊᔨᒧᐃᐧᐣ",
    "Runic": "ᚠᚢᚦ ᚨᚱᚲ",
    "Ogham": "ᚑᚌᚐᚋ",
    "Gothic": "𐌲𐌿𐍄𐌹𐍃𐌺",
    "Coptic": "ϯⲙⲉⲧⲣⲉⲙⲛ̀ⲭⲏⲙⲓ",
    "Glagolitic": "ⰃⰎⰀⰃⰑⰎⰉⰜⰀ",
    "Deseret": "𐐔𐐯𐑅𐐨𐑉𐐯𐐻",
    "Cuneiform": "𒀭𒈾 𒁀",
    "Hieroglyphs": "𓀀𓐍𓂋",
    "Miao": "𖼀𖽑 𖼁𖽔",
    "Warang": "𑢹𑣀𑣜",
    "Lisu": "ꓡꓲꓢꓴ ꓫꓳ",
    "Hmong": "𖬌𖬣𖬵",
    "Old Persian": "𐎠𐎹",
    "Emoji": "ok 👩\u200d👩\u200d👧 👩🏽\u200d🚀 ❤️\u200d🔥 "
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f 🇩🇪 5️⃣ ✌🏽",
    "Marks": "a̐éö̲ n̈ ĝ",
    "Soft hyphen": "co\u00adoperate un\u00adbe\u00adliev\u00adable",
    "Word joiner": "a\u2060b foo\u2060bar",
    "Direction": "\u200fשלום\u200e \u202babc\u202c \u2067نص\u2069",
    "BOM": "foo\ufeffbar",
    "German": "„Stop“, sagte er.",
    "French": "l’école aujourd’hui",
    "Finnish": "EU:n USA:ssa",
    "Catalan": "col·lecció",
    "Hawaiian": "Hawaiʻi Hawai‘i Hawai’i",
    "Turkish": "İstanbul'da ılık",
    "IPA": "ˈkʰæt ˌɪn.təˈnæ.ʃə.nəl",
    "Math": "ℝ ≠ 3⁄4",
    "Names": "snake_case foo‿bar",
}
_SPLIT_INTO_CHARACTERS = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}ー]")


def ends(parts):
    return set(accumulate(map(len, parts)))


@pytest.mark.parametrize("scheme", [WordsScheme(), SubwordScheme("bpe")], ids=["words", "subwords"])
@pytest.mark.parametrize("name", TEXTS)
def test_no_word_ends_where_unicode_has_no_boundary(name, scheme):
    for chunk in TEXTS[name].split():
        words = scheme.split(chunk)
        assert "".join(words) == chunk
        extra = ends(words) - ends(regex.split(r"(?V1w)\b", chunk))
        assert not {end for end in extra if not _SPLIT_INTO_CHARACTERS.match(chunk[end - 1])}, words


@pytest.mark.parametrize(
    "config", [WordsConfig(), CharactersConfig(), UnigramConfig(size=3000), BPEConfig(size=3000, min_count=1)], ids=str
)
def test_texts_in_all_scripts_come_back_exactly(config):
    texts = [unicodedata.normalize("NFC", text) for name, text in TEXTS.items() if name != "Greek"]
    tokenizer = build_tokenizer([texts], config)
    assert [tokenizer.decode(tokenizer.encode(text).ids) for text in texts] == texts
    ids, offsets = tokenizer.encode_batch(texts)
    assert [ids[start:stop].tolist() for start, stop in pairwise(offsets)] == [tokenizer.encode(text).ids for text in texts]


def test_a_raised_dot_is_a_semicolon_in_greek_and_a_bullet_elsewhere():
    assert detokenize(["καλά", "·", "εσύ"], "el") == "καλά· εσύ"
    assert detokenize(["well", "·", "you"], "en") == "well · you"


@pytest.mark.parametrize("form", ["nfc", "nfkc"])
def test_time_of_the_unicode_form_is_linear_in_the_number_of_combining_marks(form):
    text = "a" + "\u0316\u0301" * 50_000
    begin = time.perf_counter()
    assert len(build_tokenizer([["a"]], WordsConfig(), normalization=form).encode(text).ids) == 1
    assert time.perf_counter() - begin < 1.5  # with the square of the number, more than 7 s


@pytest.mark.parametrize("text", ["e\u0301" + "\u2026" * 50, "\u1100\u1161" * 40, "か\u3099" * 100, "q\u0307\u0323" * 30])
def test_the_unicode_form_of_usual_texts_is_exact(text):
    assert to_form(text, "nfc") == unicodedata.normalize("NFC", text)
