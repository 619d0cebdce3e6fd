"""How BLEU reads a text: as it is where it was tokenised already."""

import pytest

from regard.config import BPEConfig, CharactersConfig, DataConfig, TokenizersConfig, WhitespaceConfig, WordsConfig
from regard.tasks.translation.metrics import suitable_metrics, suitable_monitor
from regard.text.tokenizers.tokenizer import build_tokenizers

TOKENISED = ["he 's here , she is not .", "where is the cat ?"]
PLAIN = ["He's here, she is not.", "Where is the cat?"]


@pytest.mark.parametrize(
    ("kind", "references", "tokenize"),
    [
        (BPEConfig(size=60), TOKENISED, "none"),
        (BPEConfig(size=60), PLAIN, "13a"),
        (WordsConfig(), PLAIN, "13a"),
        (WordsConfig(), TOKENISED, "13a"),  # its translations come without the space before a full stop
        (WhitespaceConfig(), PLAIN, "none"),
    ],
)
def test_the_references_say_how_bleu_reads(kind, references, tokenize):
    _, target = build_tokenizers([(references, references)], TokenizersConfig(source=kind, target=kind), DataConfig())
    bleu, _ = suitable_metrics(target, references)
    score = bleu.corpus_score(references, [references])
    assert score.score == pytest.approx(100)
    assert f"tok:{tokenize}" in str(bleu.get_signature())


@pytest.mark.parametrize(
    ("references", "tokenize"),
    [
        (["你有九支小的笔。", "我 们买了 iPhone 手机。"], "zh"),
        (["小さいペンが九本あります。", "今日は晴れです"], "char"),  # ja-mecab, if it were installed
        (["คุณมีปากกาเล็กเก้าด้าม", "วันนี้ฝนตก"], "char"),
        (["ທ່ານມີປາກການ້ອຍ", "ອ່ານປຶ້ມ"], "char"),
        (["អ្នកមានប៊ិចតូចប្រាំបួន"], "char"),
        (["သင့်တွင် ဘောပင်ငယ် ကိုးချောင်းရှိသည်"], "char"),
        (["ཁྱེད་ལ་སྨྱུ་གུ་ཆུང་ཆུང་དགུ་ཡོད།"], "char"),
        (["작은 펜이 아홉 개 있습니다."], "13a"),  # ko-mecab, if it were installed
        (["У вас девять маленьких ручек.", "Bạn có chín cây bút nhỏ."], "13a"),
        (["The Chinese word for pen is 笔."], "13a"),
        (["2024-11-28", "3.5 - 4.5"], "13a"),
    ],
)
def test_the_script_of_the_references_decides_the_tokenisation(references, tokenize):
    kind = CharactersConfig()
    _, target = build_tokenizers([(references, references)], TokenizersConfig(source=kind, target=kind), DataConfig())
    bleu, _ = suitable_metrics(target, references)
    score = bleu.corpus_score(references, [references])
    assert f"tok:{tokenize}|" in str(bleu.get_signature())
    assert score.score == pytest.approx(100)


def test_mecab_is_used_where_it_is_installed(monkeypatch):
    class Installed:
        def __init__(self, **settings):
            self.settings = settings

    monkeypatch.setattr("sacrebleu.metrics.BLEU", Installed)
    references = ["小さいペンが九本あります。"]
    _, target = build_tokenizers([(references, references)], TokenizersConfig(), DataConfig())
    assert suitable_metrics(target, references)[0].settings["tokenize"] == "ja-mecab"


@pytest.mark.parametrize(
    ("references", "monitor"),
    [
        (["cats", "two dogs", "one"], "chrf"),
        (["a dog runs away", "she sleeps", "he is not here"], "bleu"),
        (["a dog runs away", "she sleeps", "he is not here", "cats"], "bleu"),
        (["你有九支小的笔。", "好。"] * 2 + ["我们买了书。"], "bleu"),
        (["猫", "苹果", "你好"], "chrf"),
        (["K AE T S", "D AO G Z", "AH"], "bleu"),
    ],
)
def test_the_monitor_can_tell_models_apart(references, monitor):
    _, target = build_tokenizers([(references, references)], TokenizersConfig(), DataConfig())
    assert suitable_monitor(target, references) == monitor
