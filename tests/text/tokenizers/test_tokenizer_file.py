"""A tokenizer's file: what is saved comes back, and what is damaged or hostile is refused in one sentence."""

import json
import re

import pytest

from regard.config import (
    BPEConfig,
    CharactersConfig,
    DataConfig,
    SpacyConfig,
    TokenizersConfig,
    UnigramConfig,
    WhitespaceConfig,
    WordsConfig,
)
from regard.errors import BundleError, ConfigError
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizers

TEXTS = ["She kissed him.", "Don't go, Ümit!", "a <s> b"] * 3
CONFIGS = [
    WordsConfig(lowercase=True),
    WhitespaceConfig(),
    SpacyConfig(),
    CharactersConfig(),
    BPEConfig(size=60),
    UnigramConfig(size=60),
]


def build(config) -> Tokenizer:
    data = DataConfig(source="en", target="de", normalization="nfkc")
    return build_tokenizers([(TEXTS, ["x"])], TokenizersConfig(source=config), data)[0]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokenizer.json"


def damage(path, config=None, /, **changes):
    """Save a sound tokenizer with some fields changed; a dotted name reaches inside."""
    build(config or BPEConfig(size=60)).save(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    for name, value in changes.items():
        *way, last = name.split("__")
        inner = content
        for step in way:
            inner = inner[step]
        inner[last] = value(inner[last]) if callable(value) else value
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
def test_what_is_saved_comes_back(config, path):
    if isinstance(config, SpacyConfig):
        pytest.importorskip("spacy")
    tokenizer = build(config)
    tokenizer.save(path)
    loaded = Tokenizer.load(path)
    for text in [*TEXTS, "Unseen ﬁ ☃", ""]:
        assert loaded.encode(text) == tokenizer.encode(text)
        assert loaded.decode(loaded.encode(text).ids) == tokenizer.decode(tokenizer.encode(text).ids)
    assert repr(loaded) == repr(tokenizer)
    loaded.save(path.with_suffix(".again"))
    assert path.read_bytes() == path.with_suffix(".again").read_bytes()


def test_spacys_version_is_in_the_file_and_compared(path):
    spacy = pytest.importorskip("spacy")
    build(SpacyConfig()).save(path)
    assert json.loads(path.read_text(encoding="utf-8"))["spacy"] == spacy.__version__
    damage(path, SpacyConfig(), spacy="1.0.0")
    with pytest.warns(UserWarning, match="was made with spaCy 1.0.0, but .* is installed: words may be split differently"):
        Tokenizer.load(path)


def test_a_missing_file_is_named(path):
    with pytest.raises(
        BundleError,
        match=f"^{re.escape(str(path))} cannot be read: No such file.*check that this is the folder of a trained model",
    ):
        Tokenizer.load(path)


def test_every_cut_of_a_file_is_refused(path):
    build(BPEConfig(size=40)).save(path)
    whole = path.read_bytes()
    for end in range(0, len(whole) - 2, 97):
        path.write_bytes(whole[:end])
        with pytest.raises(BundleError, match=r"it is not JSON \(.*copy the file from the trained model again"):
            Tokenizer.load(path)


@pytest.mark.parametrize("content", ["{}", "[]", "3", '{"version": "1.0", "model": {}}'])
def test_other_json_is_refused(path, content):
    path.write_text(content)
    with pytest.raises(
        BundleError, match=r'it has no "format": "regard-tokenizer"; name a tokenizer\*.json of a trained model$'
    ):
        Tokenizer.load(path)


def test_files_too_large_are_not_read(path, monkeypatch):
    monkeypatch.setattr("regard.text.tokenizers.file._MOST_BYTES", 1000)
    build(WordsConfig()).save(path)
    with pytest.raises(BundleError, match=r"bytes; a tokenizer has at most 1,000$"):
        Tokenizer.load(path)


DAMAGES = [
    ({"version": 2}, "its format version is 2, but this regard reads 1; upgrade regard"),
    ({"version": 0}, "its format version is 0, but this regard reads 1"),
    ({"version": True}, "its version is not a int as expected, but 'True'"),
    ({"kind": "pickle"}, "unknown kind 'pickle' or normalization 'nfkc'"),
    ({"normalization": "nfd"}, "unknown kind 'bpe' or normalization 'nfd'"),
    ({"lowercase": "yes"}, "its lowercase is not a bool as expected, but 'yes'"),
    ({"language": "x" * 101}, "its language is not a str as expected"),
    ({"code": "import os"}, "it is damaged or was edited (missing or unknown fields: code)"),
    ({"tokenizer": None}, "its vocabulary is damaged"),
    ({"tokenizer": {}}, "its vocabulary is damaged"),
    ({"kind": "words"}, "a WordLevel model was expected, not BPE"),
    ({"tokenizer__model__vocab": []}, "its vocabulary is damaged"),
    ({"tokenizer__model__vocab": {}}, "its first symbols are not <pad>, <unk>, <s>, </s>"),
    ({"tokenizer__model__vocab": lambda vocab: vocab | {"a": 999}}, "its ids are not 0, 1, 2, … without gaps"),
    ({"tokenizer__model__vocab": lambda vocab: vocab | {"": len(vocab)}}, "is empty"),
    ({"tokenizer__model__vocab": lambda vocab: vocab | {"\ud800": len(vocab)}}, "contains half of a surrogate pair"),
    (
        {"tokenizer__model__vocab": lambda vocab: vocab | {"\x1b]0;x\x07": len(vocab)}},
        "its symbol '\\x1b]0;x\\x07' contains a control character, which could control a terminal",
    ),
    ({"tokenizer__model__vocab": lambda vocab: vocab | {"a\x9b": len(vocab)}}, "contains a control character"),
    ({"tokenizer__model__merges": [["a"]]}, "its vocabulary is damaged"),
    ({"tokenizer__model__merges": [[1, 2]]}, "'1' is not a string"),
    ({"tokenizer__model__merges": [["q", "q"]]}, "its merge of 'q' and 'q' contains a subword that is not in the vocabulary"),
]


@pytest.mark.parametrize(
    ("changes", "message"), DAMAGES, ids=lambda value: next(iter(value)) if isinstance(value, dict) else " "
)
def test_damage_is_named(path, changes, message):
    damage(path, **changes)
    with pytest.raises(BundleError, match=re.escape(message)) as error:
        Tokenizer.load(path)
    assert str(error.value).startswith(f"{path} is not a tokenizer that regard can read: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("score", [float("nan"), float("inf"), 1.0, -1e9, 10**400], ids=["nan", "inf", "1", "-1e9", "10^400"])
def test_scores_that_are_none_are_refused(path, score):
    damage(path, UnigramConfig(size=60), tokenizer__model__vocab=lambda vocab: [*vocab[:-1], [vocab[-1][0], score]])
    with pytest.raises(BundleError, match=r"score of a subword is not a log-probability|vocabulary is damaged"):
        Tokenizer.load(path)


def test_pieces_that_stand_twice_are_refused(path):
    damage(path, UnigramConfig(size=60), tokenizer__model__vocab=lambda vocab: [*vocab, vocab[-1]])
    with pytest.raises(BundleError, match="occurs twice"):
        Tokenizer.load(path)


def test_long_unigram_pieces_are_refused_because_time_grows_with_their_square(path):
    pieces = [["a" * size, -float(size)] for size in range(2, 70)]
    damage(path, UnigramConfig(size=60), tokenizer__model__vocab=lambda vocab: [*vocab, *pieces])
    with pytest.raises(BundleError, match="a subword has 69 characters, expected at most 64"):
        Tokenizer.load(path)


def test_the_rules_in_a_file_are_not_used(path):
    """A pattern made to run for ever, in the library's part, is never looked at."""
    damage(
        path,
        tokenizer__pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False},
    )
    assert Tokenizer.load(path).encode("a" * 40 + "!").words == ["a" * 40, "!"]


def test_unknown_languages_of_spacy_are_refused(path):
    pytest.importorskip("spacy")
    damage(path, SpacyConfig(), language="../evil")
    with pytest.raises(ConfigError, match=r"spaCy has no language '\.\./evil'"):
        Tokenizer.load(path)
