"""Trained translators in other runtimes: the same words for the 1,000 test sentences of Multi30k."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.export import compare

import regard
from regard.export import export_ctranslate2, export_onnx
from regard.export.runtime import OnnxSeq2Seq
from regard.presets import load_preset
from regard.text.symbols import END

pytestmark = [pytest.mark.slow, pytest.mark.real]
DATA = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[3] / "shared" / "data")) / "multi30k"


@pytest.fixture(scope="module", params=["luong", "transformer-tiny"])
def trained(request, tmp_path_factory):
    """Train a translator for some minutes: its words are no longer random, and its translations end."""
    if not DATA.exists():
        pytest.skip(f"there is no {DATA}")
    folder = tmp_path_factory.mktemp(request.param)
    settings = {
        "data.train": [str(DATA / "train.en"), str(DATA / "train.de")],
        "data.cache": str(folder / "cache"),
        "out": str(folder / "run"),
        "training.max_steps": 300,
        "training.batch_tokens": 1500,
        "training.tensorboard": False,
        "training.precision": "float32",
        "training.validate_every": 300,
        "training.validation_pairs": 100,
        "threads": 1,
    }
    return regard.fit(load_preset(request.param, settings), progress=False)


def sentences():
    return (DATA / "test_2016_flickr.en").read_text(encoding="utf-8").splitlines()[:1000]


def test_exported_graphs_write_the_same_words_with_the_same_attention(trained, tmp_path):
    done = export_onnx(trained, tmp_path / "onnx")
    sources = [[*trained.bundle.parts.source.encode(line).ids, END] for line in sentences()]
    same, attention = compare(trained.model, OnnxSeq2Seq(done.folder), sources)
    assert len(sources) == 1000
    assert same == 1
    assert attention < 1e-4


def test_ctranslate2_translates_alike(trained, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="pip install '.[ctranslate2]'")
    if "Transformer" not in type(trained.model).__name__:
        pytest.skip("CTranslate2 has Transformers only")
    done = export_ctranslate2(trained, tmp_path / "ctranslate2")
    reader, writer = trained.bundle.parts.source, trained.bundle.parts.target
    ids = [reader.encode(line).ids for line in sentences()]
    program = ctranslate2.Translator(str(done.folder), device="cpu", compute_type="float32", intra_threads=1)
    numbers = {token: number for number, token in enumerate(writer.symbols.tokens)}
    plain = replace(trained.config.decoding, length_penalty=0.0, length_reward=0.0, max_length=200, precision="float32")
    translator = type(trained)(replace(trained.bundle, config=replace(trained.config, decoding=plain)))
    for beam_size, least in ((1, 1000), (5, 985)):  # the two programs end a beam search by different rules
        found = program.translate_batch(
            [[reader.symbols.tokens[number] for number in row] for row in ids],
            beam_size=beam_size,
            length_penalty=0,
            min_decoding_length=0,
            max_decoding_length=200,
            max_batch_size=2048,
            batch_type="tokens",
        )
        theirs = [writer.decode([numbers[token] for token in one.hypotheses[0]]) for one in found]
        ours = [one.text for one in translator.translate(sentences(), beam_size=beam_size, record=())]
        assert sum(one == other for one, other in zip(ours, theirs, strict=True)) >= least
