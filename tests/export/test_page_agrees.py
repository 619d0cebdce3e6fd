"""The page's JavaScript against Python, in a browser: tokenizers, searches and detokenising on hundreds of texts."""

import json
from itertools import islice

import numpy as np
import pytest
from export.page_models import RECURRENT, TRANSFORMER, make_classifier, make_language_model, make_translator

import regard
from regard.demo import DemoCorpus, ReviewCorpus
from regard.export.page import write_page
from regard.export.page.contents import describe_tokenizer
from regard.text.tokenizers.detokenizer import detokenize
from regard.text.tokenizers.tokenizer import build_tokenizer

pytestmark = [pytest.mark.browser, pytest.mark.slow]

BAHDANAU = RECURRENT | {"decoder": {"kind": "bahdanau", "cell": "lstm", "hidden_size": 12}, "bridge": "mean"}
MODELS = {
    "words, recurrent": (make_translator, {}),
    "characters, recurrent": (make_translator, {"model": BAHDANAU, "kind": "characters"}),
    "restricted": (
        make_translator,
        {"length_reward": 0.4, "min_length": 4, "no_repeat_ngrams": 2, "repetition_penalty": 1.3, "suppress_unknown": True},
    ),
    "unknown words replaced": (make_translator, {"replace_unknown": True, "length_penalty": 0.6, "kind": "bpe"}),
    "bpe, transformer": (make_translator, {"model": TRANSFORMER, "kind": "bpe"}),
    "bpe, language": (make_language_model, {}),
    "words, language": (make_language_model, {"kind": "words", "repetition_penalty": 1.3, "no_repeat_ngrams": 2}),
    "characters, classifier": (make_classifier, {"kind": "characters"}),
    "unigram, classifier": (make_classifier, {"kind": "unigram"}),
}
ODD = [
    "",
    " ",
    "a",
    "  two  spaces ",
    "tab\tand\nline",
    "don't can't won't 'tis she's THEY'RE o'clock rock'n'roll",
    "R&B AT&T at&t",
    "3.14 1,000 10:30 1.2.3 -5 +7 −9 5-6 A-1",
    "well-known Vor- und Nachname „Stop“-Schild x-",
    "e-mail@example.org http://a.b/c?d=e&f",
    "!!! ?! ... …… --- –– a—b",
    "“quoted” ‘single’ «guillemets» »deutsch«",
    "naïve café e\u0301 a\u0308 \u0130stanbul ΣΑΣ ΟΔΟΣ ß ẞ ﬁ Ǆ",
    "日本語のテキスト 中文，标点。 한국어 텍스트",
    "नमस्ते दुनिया किताब",
    "今天天气很好。我们去公园吧 iPhone手机！",
    "สวัสดีครับ ผมชื่อสมชาย",
    "ភាសាខ្មែរ မြန်မာဘာသာ ພາສາລາວ བོད་སྐད",
    "العربية نص עברית",
    "👍🏽 👨‍👩‍👧 🇩🇪🇫🇷 ❤️ 1️⃣ #️⃣ ☺",
    "a\u00a0b\u2009c\u3000d\u2028e\u0085f\u001cg",
    "<unk> <pad> <s> </s>",
    "▁mark ▁▁ a▁b _under_score__",
    "\ufeffbom zero\u200bwidth \u200d",
    "a" * 60,
    "ſhe'ſ x'ſ 'S 'Re",
    "½ ² x² 10³ Ⅳ ①",
    "\ud83d lone \ude00",
    "'",
    "''",
    "``a''",
    '"',
    "n't N’T",
    "`",
    "$5 #1 ~3 50% 50 %",
    "( [ {a} ] )",
    "/ and/or @ me@ -",
    "word. Word.word U.S. e.g. Ph.D",
    "a\u0300\u0301\u0302 \u0301",
]
COUNTS = pytest.mark.parametrize("count", [60, pytest.param(500, marks=pytest.mark.slow)])
WHOLE = [text for text in ODD if not any("\ud800" <= character <= "\udfff" for character in text)]


_QUICK = ("bpe, transformer", "bpe, language")


@pytest.fixture(
    scope="module", params=[name if name in _QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def shown(request, browser, tmp_path_factory):
    build, options = MODELS[request.param]
    folder = tmp_path_factory.mktemp("model")
    run = build(folder / "run", **options)
    page = write_page(run, folder / "page.html", examples=["a"])
    browser.open(page.path)
    browser.wait("document.body.dataset.runs")
    return regard.load(run, device="cpu")


def ask(browser, texts, body):
    """Call a JavaScript function `(model, text)` for every text."""
    return json.loads(
        browser.run(
            "(async () => { const found = [], model = globalThis.regard.views[0].model;"
            f"const one = {body}; for (const text of {json.dumps(texts)}) found.push(await one(model, text));"
            "return JSON.stringify(found); })()"
        )
    )


def tokenizer_of(predictor):
    return predictor.bundle.parts.source if isinstance(predictor, regard.Translator) else predictor.tokenizer


def sentences(predictor, count):
    if isinstance(predictor, regard.Classifier):
        corpus = ReviewCorpus()
        return [corpus[number].text for number in range(1000, 1000 + count)]
    return [source for source, _ in islice(DemoCorpus().pairs(1000), count)]


def test_tokenizers_give_the_same_ids_and_words(browser, shown):
    tokenizer = tokenizer_of(shown)
    texts = [*ODD, *sentences(shown, 500)]
    found = ask(browser, texts, "(model, text) => model.source.encode(text)")
    for text, one in zip(texts, found, strict=True):
        expected = tokenizer.encode(text)
        assert (one["ids"], one["wordOf"]) == (expected.ids, expected.word_of), text
        assert one["words"] == expected.words, text


def shown_words(record, side):
    return [word.replace(" ", "␣") for word in getattr(record.in_units("auto"), f"{side}_words")]


@COUNTS
@pytest.mark.parametrize("beam", [1, 4])
def test_searches_find_the_same_targets(browser, shown, beam, count):
    if not isinstance(shown, regard.Translator):
        pytest.skip("no translator")
    texts = [*(text for text in WHOLE if text.strip()), *sentences(shown, count)]
    texts = [text for text in texts if 0 < len(shown.bundle.parts.source.encode(text).ids) <= 200]
    body = (
        f"async (model, text) => {{ const {{ best }} = await model.run({{ text, beamSize: {beam}, numBest: 1 }});"
        "return { text: best.text, tokens: best.tokens, words: best.words, score: best.score, finished: best.finished,"
        "cross: best.path.map((step) => [...step.attention.cross]) }; }"
    )
    found = ask(browser, texts, body)
    for one, expected in zip(found, shown.translate(texts, beam_size=beam), strict=True):
        assert one["text"] == expected.text, expected.source
        assert one["finished"] == expected.finished
        assert one["score"] == pytest.approx(expected.score, abs=1e-4)
        assert one["words"] == shown_words(expected.attention, "target")
        assert np.abs(np.array(one["cross"]) - expected.attention.weights["cross"]).max() < 1e-4


@COUNTS
def test_language_models_write_the_same_texts(browser, shown, count):
    if not isinstance(shown, regard.LanguageModel):
        pytest.skip("no language model")
    texts = [" ".join(text.split(" ")[: 1 + number % 9]) for number, text in enumerate(sentences(shown, count))]
    texts = [text for text in [*WHOLE, *texts] if len(shown.tokenizer.encode(text).ids) <= 50]
    body = (
        "async (model, text) => { const { best, source } = await model.run({ text, beamSize: 1 });"
        "return { text: best.text, words: source.words, finished: best.finished, heads: best.path.map((step) =>"
        "[...step.attention.heads.data]), each: best.path.map((step) => step.logProbability) }; }"
    )
    expected = shown.generate(texts, temperature=0, record=shown.model.sites)
    for one, [generated] in zip(ask(browser, texts, body), expected, strict=True):
        assert one["text"] == generated.text, generated.prompt
        assert one["finished"] == generated.finished
        assert sum(one["each"][len(one["each"]) - generated.num_tokens - generated.finished :]) == pytest.approx(
            generated.log_probability, abs=1e-3
        )
        record = generated.attention
        assert one["words"] == shown_words(record, "target")
        weights = np.stack([record.weights[site] for site in shown.model.sites])  # (layers, heads, T, T)
        for step, heads in enumerate(one["heads"]):
            assert np.abs(np.array(heads) - weights[:, :, step, : step + 1].flatten()).max() < 1e-4


@COUNTS
def test_classifiers_give_the_same_probabilities(browser, shown, count):
    if not isinstance(shown, regard.Classifier):
        pytest.skip("no classifier")
    texts = [*WHOLE, *sentences(shown, count)]
    body = (
        "async (model, text) => { const found = await model.run({ text });"
        "return { label: found.label, probabilities: found.probabilities, weights: [...model.wordWeights(found)] }; }"
    )
    for one, expected in zip(ask(browser, texts, body), shown.classify(texts), strict=True):
        assert one["label"] == expected.label
        probabilities = [expected.probabilities[name] for name in shown.labels.names]
        assert one["probabilities"] == pytest.approx(probabilities, abs=1e-5)
        weights = expected.attention.word_weights()
        assert one["weights"][: len(weights)] == pytest.approx(weights, abs=1e-5)


@pytest.mark.parametrize("shown", ["words, recurrent"], indirect=True)
@pytest.mark.parametrize("kind", ["whitespace", "words", "characters", "bpe", "unigram"])
def test_every_kind_of_tokenizer_agrees_on_text_of_many_scripts(browser, shown, kind):
    settings = {"kind": kind} | ({"size": 300} if kind in ("bpe", "unigram") else {})
    config = regard.load_config({"tokenizers": {"source": settings}})
    texts = [*ODD, *sentences(shown, 300)]
    learned = build_tokenizer([[text.encode("utf-8", "replace").decode() for text in texts[::2]]], config.tokenizers.source)
    saved = json.dumps(describe_tokenizer(learned, read="text"))
    browser.run(f"(globalThis.regard.other = new globalThis.regard.views[0].model.source.constructor({saved}), 0)")
    found = ask(
        browser,
        texts,
        "(model, text) => { const one = globalThis.regard.other.encode(text);"
        "return { ...one, text: globalThis.regard.other.decode(one.ids),"
        " described: globalThis.regard.other.describe([...one.ids, 3]) }; }",
    )
    for text, one in zip(texts, found, strict=True):
        expected = learned.encode(text)
        assert (one["ids"], one["words"], one["wordOf"]) == (expected.ids, expected.words, expected.word_of), text
        assert one["text"] == learned.decode(expected.ids), text
        described = learned.describe([*expected.ids, 3])
        assert (one["described"]["words"], one["described"]["wordOf"]) == (described.words, described.word_of), text


@pytest.mark.parametrize("shown", ["words, recurrent"], indirect=True)
@pytest.mark.parametrize("language", ["en", "de", "fr", "zh", ""])
def test_words_are_joined_alike(browser, shown, language):
    tokenizer = shown.bundle.parts.source
    lists = [tokenizer.encode(text).words for text in [*WHOLE, *sentences(shown, 100), " ".join(WHOLE)]]
    body = (
        f"(model, words) => {{ const T = model.source.constructor;"
        f"const t = new T({{ kind: 'words', language: {json.dumps(language)}, tokens: [] }}); return t.scheme.join(words); }}"
    )
    found = ask(browser, lists, body)
    for words, one in zip(lists, found, strict=True):
        assert one == detokenize(words, language), words
