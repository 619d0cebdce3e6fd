"""Pretrained tokenizers: ids of the encoder, words with their case, truncation, files."""

import json
import random
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from encoders import save_encoder, tiny_encoder
from tokenizers import Tokenizer as Library

from regard.config import PretrainedTokenizerConfig
from regard.errors import BundleError, ConfigError, RegardError
from regard.text.corpora import cut_rows
from regard.text.symbols import END, START
from regard.text.tokenizers.pretrained import PretrainedScheme
from regard.text.tokenizers.resolve import resolve_kinds
from regard.text.tokenizers.tokenizer import Tokenizer, build_tokenizer

pytest.importorskip("transformers")
TEXTS = ["The film is good, very dull.", "", "NOT goodly [SEP] zebra", "fun\tsad the plot is the actors not very great a a a"]


def build(family: str = "bert") -> Tokenizer:
    return build_tokenizer([], PretrainedTokenizerConfig(name=tiny_encoder(family)))


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_ids_are_those_of_the_library(family):
    tokenizer, library = build(family), Library.from_file(f"{tiny_encoder(family)}/tokenizer.json")
    library.no_truncation()
    library.encode_special_tokens = True
    ids, offsets = tokenizer.encode_batch(TEXTS)
    for number, text in enumerate(TEXTS):
        row = ids[offsets[number] : offsets[number + 1]]
        encoding = tokenizer.encode(text)
        assert [tokenizer.encoder_ids[each] for each in row] == library.encode(text).ids
        assert row.tolist() == encoding.ids
        assert (row[0], row[-1]) == (START, END)
    assert sorted(tokenizer.encoder_ids) == list(range(tokenizer.size))


def test_words_have_their_case_and_the_ends_belong_to_none():
    encoding = build().encode("The GOODLY  zebra[SEP]")
    assert encoding.tokens == ["<s>", "the", "good", "##ly", "<unk>", "<unk>", "<unk>", "<unk>", "</s>"]
    assert encoding.words == ["The", "GOODLY", "zebra", "[", "SEP", "]"]
    assert encoding.word_of == [-1, 0, 1, 1, 2, 3, 4, 5, -1]
    assert build().unknown_words(["the zebra"]) == ["zebra"]
    assert build().decode(build().encode("The film is goodly").ids) == "the film is goodly"


def test_a_truncated_text_keeps_its_end():
    (ids, offsets), cut = cut_rows(*build().encode_batch(TEXTS), 5)
    assert np.diff(offsets).tolist() == [5, 2, 5, 5]
    assert cut.tolist() == [True, False, True, True]
    assert ids[offsets[1:] - 1].tolist() == [END] * 4
    whole, _ = build().encode_batch(TEXTS[:1])
    assert ids[:4].tolist() == whole[:4].tolist()


def test_save_and_load(tmp_path):
    tokenizer = build()
    tokenizer.save(tmp_path / "tokenizer.json")
    other = Tokenizer.load(tmp_path / "tokenizer.json")
    assert other.digest() == tokenizer.digest() != build("roberta").digest()
    assert [other.encode(text) for text in TEXTS] == [tokenizer.encode(text) for text in TEXTS]
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["tokenizer"]["model"]["vocab"] = 3
    with pytest.raises(BundleError, match="is not a tokenizer of the tokenizers library"):
        Tokenizer.load(tmp_path / "tokenizer.json", data=json.dumps(content).encode())


def test_a_damaged_file_gives_a_tokenizer_or_an_error(tmp_path):
    build().save(tmp_path / "tokenizer.json")
    content, draw = (tmp_path / "tokenizer.json").read_bytes(), random.Random(3)
    places = [match.span() for match in re.finditer(rb'"[^"]*"|[0-9]+|null|false', content)]
    opened = 0
    for _ in range(300):
        start, stop = draw.choice(places)
        other = draw.choice((b"null", b'"x"', b"-1", b"7", b"[]", b"{}", b"1e30"))
        with suppress(RegardError):
            tokenizer = Tokenizer.load(tmp_path / "tokenizer.json", data=content[:start] + other + content[stop:])
            opened += 1
            tokenizer.encode_batch(TEXTS)
            tokenizer.decode(tokenizer.encode(TEXTS[0]).ids)
    assert 5 < opened < 200


def test_the_hash_is_in_the_settings():
    [config] = resolve_kinds([PretrainedTokenizerConfig(name=tiny_encoder())], [])
    assert len(config.checksum) == 64
    assert resolve_kinds([config], []) == (config,)


@pytest.mark.parametrize(("symbol", "lacks"), [("[PAD]", "padding"), ("[UNK]", "unknown words")])
def test_symbols_that_are_missing(symbol, lacks, tmp_path):
    path = save_encoder(tmp_path) / "tokenizer.json"
    content = json.loads(path.read_text())
    content["added_tokens"] = [each for each in content["added_tokens"] if each["content"] != symbol]
    content["model"]["vocab"] = {word: number for word, number in content["model"]["vocab"].items() if word != symbol}
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=f"has no symbols of its own for {lacks}"):
        PretrainedScheme.of(str(tmp_path))


def test_an_id_that_would_need_any_memory(tmp_path):
    path = save_encoder(tmp_path) / "tokenizer.json"
    path.write_text(path.read_text().replace('"film": 7', '"film": 4000000000'))
    with pytest.raises(ConfigError, match="a symbol with the id 4,000,000,000, expected less than"):
        PretrainedScheme.of(str(tmp_path))


def test_ends_that_are_missing(tmp_path):
    path = save_encoder(tmp_path) / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"post_processor": None}))
    with pytest.raises(ConfigError, match="for the start and the end of a text"):
        PretrainedScheme.of(str(tmp_path))
    Path(path).write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        PretrainedScheme.of(str(tmp_path))
