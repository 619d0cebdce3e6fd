import os
from pathlib import Path

import pytest

from regard.config import AutoConfig, DataConfig, TokenizersConfig, WhitespaceConfig, WordsConfig
from regard.text.pairs.prepare import PairSchema
from regard.text.preparation import prepare_data
from regard.text.reasons import HEADER

pytestmark = pytest.mark.real
FOLDER = Path(os.environ.get("REGARD_DATA") or Path(__file__).parents[4] / "shared" / "data")


def real(name: str) -> str:
    if not (FOLDER / name).exists():
        pytest.skip(f"{FOLDER / name} is not there: set REGARD_DATA to the folder with the real data")
    return str(FOLDER / name)


def test_tatoeba(tmp_path):
    data = DataConfig(train=(real("tatoeba/deu.txt"),), source="en", target="de", cache=str(tmp_path))
    prepared = prepare_data(
        PairSchema(data, TokenizersConfig(source=AutoConfig(), target=AutoConfig())), seed=1, progress=False
    )
    assert prepared.configs == (WordsConfig(), WordsConfig())
    report = prepared.report.train
    assert report.read == 50_002 == len(prepared.train) + len(prepared.dev) + report.num_skipped
    assert report.skipped[HEADER].lines == [1]
    assert len(prepared.dev) == 1000
    train, dev = (corpus.texts(range(len(corpus))) for corpus in (prepared.train, prepared.dev))
    for side in (0, 1):
        assert not set(train[side]) & set(dev[side])
    assert ("Go.", "Geh.") in set(zip(*train, strict=True)) | set(zip(*dev, strict=True))
    assert not any(text.endswith("\r") for text in train[1])


def test_tatoeba_first_ten_thousand(tmp_path):
    data = DataConfig(train=(real("tatoeba/deu.txt"),), max_pairs=10_000, cache=str(tmp_path))
    prepared = prepare_data(PairSchema(data, TokenizersConfig()), seed=1, progress=False)
    with open(real("tatoeba/deu.txt"), encoding="utf-8", newline="\n") as file:
        lines = [line.rstrip("\r\n").split("\t") for line in file][1:10_001]
    assert prepared.train.texts(range(10_000)) == ([line[0] for line in lines], [line[1] for line in lines])
    assert len(prepared.dev) == 1000


def test_multi30k(tmp_path):
    files = {part: tuple(real(f"multi30k/{part}.lc.norm.tok.{side}") for side in ("en", "de")) for part in ("train", "val")}
    words = AutoConfig(min_count=2)
    data = DataConfig(train=files["train"], dev=files["val"], drop_repeats=False, cache=str(tmp_path))
    prepared = prepare_data(PairSchema(data, TokenizersConfig(source=words, target=words)), seed=1, progress=False)
    assert prepared.configs == (WhitespaceConfig(min_count=2),) * 2
    assert (prepared.report.train.read, len(prepared.train), len(prepared.dev)) == (29_000, 29_000, 1_014)
    # Published as 5,922 and 7,859: there, the nothing between two spaces that stand together is a word of English.
    assert (prepared.tokenizers[0].size, prepared.tokenizers[1].size) == (5_921, 7_859)
