"""Transformers in CTranslate2's format: the same translations with the same scores, and refusals by name."""

import json
import subprocess
import sys

import pytest
import torch
from benchmarks.conversion import joeynmt_lacks, read_spelt, spell, spellings
from export.models import CONVERTED, LIMIT, SOURCES, WORDS, build, draw_model, draw_sources, pad
from export.page_models import RECURRENT, TRANSFORMER, make_translator

import regard
from regard.attention import ALiBi
from regard.cli.main import main
from regard.decoding import beam_search
from regard.errors import RequestError
from regard.export.ctranslate2 import export_ctranslate2
from regard.inference.ctranslate2 import check_convertible, read_parts, unscaled, write_ctranslate2
from regard.text.symbols import END, PAD, START


@torch.no_grad()
def scores_of(model, source, targets):
    """Log probabilities of targets, the end symbol's with them where they are not as long as the limit lets them be."""
    target = pad([[START, *tokens, END] for tokens in targets])
    features, _ = model.decode(target[:, :-1], model.encode(source, source != PAD))
    found = model.logits(features).log_softmax(-1).gather(-1, target[:, 1:, None])[..., 0]
    counted = torch.tensor([min(len(tokens) + 1, LIMIT) for tokens in targets])
    return (found * (torch.arange(found.shape[1]) < counted[:, None])).sum(1).tolist()


SOME = CONVERTED[::4]  # a step without a common factor with the number of values of each part


@pytest.mark.parametrize(
    ("norm", "norm_order", "feed_forward", "positions"),
    [row if row in SOME else pytest.param(*row, marks=pytest.mark.slow) for row in CONVERTED],
)
def test_ctranslate2_finds_the_same_translations_with_the_same_scores(tmp_path, norm, norm_order, feed_forward, positions):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="pip install '.[ctranslate2]'")
    sources = draw_sources()
    ids = pad([[*source, END] for source in sources])
    model = draw_model(ids, norm=norm, norm_order=norm_order, feed_forward=feed_forward, positions=positions)
    write_ctranslate2(check_convertible(model), tmp_path, source_tokens=spellings(WORDS), target_tokens=spellings(WORDS))
    translator = ctranslate2.Translator(str(tmp_path), compute_type="float32", intra_threads=1)

    def translate(beam_size, num_hypotheses):
        options = {"length_penalty": 0, "min_decoding_length": 0, "max_decoding_length": LIMIT, "max_batch_size": 16}
        pieces = [spell(source).split() for source in sources]
        counts = {"beam_size": beam_size, "num_hypotheses": num_hypotheses}
        found = translator.translate_batch(pieces, return_scores=True, **counts, **options)
        texts = [[read_spelt(" ".join(words)) for words in result.hypotheses] for result in found]
        return texts, [result.scores for result in found]

    for beam_size in (1, 5):
        texts, scores = translate(beam_size, 1)
        hypotheses = [
            found for [found] in beam_search(model, ids, ids != PAD, beam_size=beam_size, length_penalty=0.0, max_length=LIMIT)
        ]
        ours = [(found.tokens, found.log_probability) for found in hypotheses]
        # Where a beam is cut at the limit, regard ranks what has ended first and CTranslate2 does not.
        alike = [
            beam_size == 1 or (found.finished and len(text) < LIMIT) for found, [text] in zip(hypotheses, texts, strict=True)
        ]
        assert sum(alike) >= 30
        for (tokens, score), [text], [their], counts in zip(ours, texts, scores, alike, strict=True):
            if counts:
                assert tokens == text
                assert their == pytest.approx(score, abs=1e-4)
    # All five that its beam ends with, long and cut ones too, have the scores that regard gives them.
    texts, scores = translate(5, 5)
    flat = [text for found in texts for text in found]
    assert max(map(len, flat)) >= 8
    wanted = scores_of(model, ids.repeat_interleave(torch.tensor([len(found) for found in texts]), 0), flat)
    assert [score for found in scores for score in found] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize(("norm", "norm_order", "feed_forward", "positions"), CONVERTED)
def test_parts_are_read_from_the_model(norm, norm_order, feed_forward, positions):
    model = build(norm=norm, norm_order=norm_order, feed_forward=feed_forward, positions=positions)
    parts = read_parts(check_convertible(model))
    assert (parts.norm, parts.norm_order, parts.feed_forward, parts.positions) == (norm, norm_order, feed_forward, positions)
    assert bool(joeynmt_lacks(model)) == (norm == "rms" or feed_forward == "swiglu" or positions == "rotary")


@pytest.mark.parametrize("changes", [{}, {"norm": "rms", "feed_forward": "swiglu", "positions": "rotary"}])
def test_a_model_without_scales_computes_the_same(changes):
    source = pad(draw_sources())
    model = draw_model(source, norm_order="deep", **changes).double()
    plain = unscaled(model)
    assert (read_parts(model).norm_order, read_parts(plain).norm_order) == ("deep", "post")
    target = torch.randint(4, WORDS, (SOURCES, 8))
    ours, theirs = (
        each.logits(each.decode(target, each.encode(source, source != PAD))[0]).log_softmax(-1) for each in (model, plain)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_what_has_no_counterpart_is_refused_by_its_setting():
    with pytest.raises(
        RequestError,
        match=r"the model has positions: learned, which CTranslate2 cannot express; it can .*norm_order: pre or post or deep, ",
    ):
        check_convertible(build(positions="learned"))


def test_parts_of_ones_own_are_refused_by_their_names():
    with pytest.raises(RequestError, match="the model is a Linear, which CTranslate2 cannot express; expected a Transformer"):
        check_convertible(torch.nn.Linear(1, 1))
    model = build()
    model.decoder.layers[0].self_attention.positions = ALiBi(2)
    with pytest.raises(RequestError, match="positions: MultiHead of another form and sinusoidal"):
        check_convertible(model)
    model = build(positions="rotary")
    model.decoder.layers[0].cross_attention.positions = model.decoder.layers[0].self_attention.positions
    with pytest.raises(RequestError, match="positions: MultiHead of another form and rotary"):
        check_convertible(model)
    model = build()
    model.encoder.layers[1].feed_forward.activation = torch.nn.GELU(approximate="tanh")
    with pytest.raises(RequestError, match="feed_forward: GELU and relu"):
        check_convertible(model)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    pytest.importorskip("ctranslate2", reason="pip install '.[ctranslate2]'")
    folder = tmp_path_factory.mktemp("ctranslate2")
    run = make_translator(folder / "run", TRANSFORMER, kind="bpe", noise=0.2)
    return regard.load(run, device="cpu"), export_ctranslate2(run, folder / "exported")


def test_the_folder_runs_without_regard(exported):
    translator, done = exported
    assert done.largest_difference < 1e-3
    assert {"model.bin", "config.json", "ctranslate2.json", "config.yaml", "README.md", "example.py"} <= set(done.files)
    assert "model.safetensors" not in done.files
    assert json.loads((done.folder / "ctranslate2.json").read_text())["task"] == "translation"
    text = "The old man sees a dog."
    ran = subprocess.run([sys.executable, str(done.folder / "example.py"), text], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    [found] = translator.translate([text], beam_size=5, length_penalty=0, max_length=256, replace_unknown=False)
    assert ran.stdout.split() == found.text.split()


def test_other_models_are_refused_before_anything_is_written(tmp_path):
    for name, model, message in (
        ("recurrent", RECURRENT, "the model is a RecurrentTranslator, which CTranslate2 cannot express"),
        ("additive", TRANSFORMER | {"cross_attention": {"kind": "additive"}}, "positions: Additive of another form"),
        ("sparse", TRANSFORMER | {"normalizer": {"kind": "sparsemax"}}, "positions: MultiHead of another form"),
    ):
        run = make_translator(tmp_path / name, model)
        with pytest.raises(RequestError, match=message):
            export_ctranslate2(run, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_the_command_refuses_options_of_the_other_format(tmp_path, capsys):
    run = make_translator(tmp_path / "run", TRANSFORMER)
    command = ["export", str(run), "--to", str(tmp_path / "exported"), "--format", "ctranslate2"]
    assert main([*command, "--overridable"]) == 2
    assert "--overridable is for --format onnx; leave it out" in capsys.readouterr().err
    assert main([*command, "--precision", "int8"]) == 2
    assert "CTranslate2 rounds weights when it loads a model, with compute_type='int8'" in capsys.readouterr().err
    assert not (tmp_path / "exported").exists()
