"""How often symbols occur in training, in the report of each kind of data."""

from regard.config import DataConfig, LabelledDataConfig, TextDataConfig, TokenizersConfig, WhitespaceConfig
from regard.text.labelled.prepare import LabelledSchema
from regard.text.pairs.prepare import PairSchema
from regard.text.plain import TextSchema
from regard.text.preparation import prepare_data

WORDS = WhitespaceConfig(min_count=2)


def test_pairs(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("a b\tx y\na c\tx x\n")
    data = DataConfig(train=(str(file),), dev_size=0, cache=str(tmp_path / "cache"))
    for _ in range(2):  # made, and found in the cache
        found = prepare_data(
            PairSchema(data, TokenizersConfig(source=WORDS, target=WORDS)), seed=1, progress=False
        ).report.symbols
        assert found == {
            "source": {"tokens": 4, "unknown": 2, "seen_once": 0, "never_seen": 0, "most_frequent": [["a", 2]]},
            "target": {"tokens": 4, "unknown": 1, "seen_once": 0, "never_seen": 0, "most_frequent": [["x", 3]]},
        }


def test_labelled_texts(tmp_path):
    file = tmp_path / "texts.tsv"
    file.write_text("text\tlabel\na b\tgood\na c\tbad\nb a\tgood\nd d\tbad\n")
    data = LabelledDataConfig(train=(str(file),), dev_size=0, max_tokens=2, cache=str(tmp_path / "cache"))
    found = prepare_data(LabelledSchema(data, WhitespaceConfig()), seed=1, progress=False).report.symbols
    most = [["a", 3], ["b", 2], ["d", 2], ["c", 1]]
    assert found == {"text": {"tokens": 8, "unknown": 0, "seen_once": 1, "never_seen": 0, "most_frequent": most}}


def test_texts(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("a b b\nc b a\n")
    data = TextDataConfig(train=(str(file),), dev_size=0, cache=str(tmp_path / "cache"))
    found = prepare_data(TextSchema(data, WhitespaceConfig()), seed=1, progress=False).report.symbols
    most = [["b", 3], ["a", 2], ["c", 1]]
    assert found == {"text": {"tokens": 6, "unknown": 0, "seen_once": 1, "never_seen": 0, "most_frequent": most}}
