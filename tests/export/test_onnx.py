"""Exported graphs: the same words, scores and attention as the model's own, and examples that need no torch."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import regard
from regard.bundle import save_bundle
from regard.cli.main import main
from regard.config.loading import load_config
from regard.decoding import beam_search, greedy
from regard.errors import RequestError
from regard.export import export_onnx
from regard.export.examples import onnx as example
from regard.export.runtime import OnnxClassifier, OnnxSeq2Seq, Session
from regard.models.build import build_translator
from regard.reweight import on_heads
from regard.task import Bundle
from regard.tasks.translation.data import Tokenizers
from regard.text.tokenizers.tokenizer import build_tokenizers

TEXTS = ["a blue car stops .", "two men see a dog .", "she sees the blue house .", "a dog ."]
TARGETS = ["ein blaues Auto hält .", "zwei Männer sehen einen Hund .", "sie sieht das blaue Haus .", "ein Hund ."]
LUONG = {"kind": "recurrent", "embedding_size": 12, "tie_embeddings": "none", "bridge": "linear"}
LUONG |= {"encoder": {"hidden_size": 10}}
TRANSFORMER = {"kind": "transformer", "hidden_size": 16, "num_heads": 4, "feed_forward_size": 24, "encoder_layers": 1}
TRANSFORMER |= {"decoder_layers": 2}
MODELS = {
    "input feeding": LUONG | {"decoder": {"kind": "luong", "hidden_size": 10, "attention": {"kind": "additive"}}},
    "rotary": TRANSFORMER | {"positions": "rotary", "norm_order": "pre"},
}
SLOW = {
    "bahdanau": LUONG | {"decoder": {"kind": "bahdanau", "cell": "lstm", "hidden_size": 10}, "bridge": "mean"},
    "general": LUONG
    | {"decoder": {"kind": "luong", "input_feeding": False, "hidden_size": 10, "attention": {"kind": "general"}}},
    "linear": LUONG | {"decoder": {"kind": "luong", "hidden_size": 10, "attention": {"kind": "linear"}}},
    "post-norm": TRANSFORMER | {"norm_order": "post", "positions": "sinusoidal"},
    "learned": TRANSFORMER | {"positions": "learned", "feed_forward": "swiglu", "norm": "rms"},
}


def make(folder, model):
    kinds = {"source": {"kind": "whitespace"}, "target": {"kind": "whitespace"}}
    config = load_config({"data": {"source": "en", "target": "de"}, "tokenizers": kinds}, {"model": model})
    source, target = build_tokenizers([(TEXTS, TARGETS)], config.tokenizers, config.data)
    torch.manual_seed(3)
    built = build_translator(config.model, source_size=source.size, target_size=target.size)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)  # so that words differ
    made = Bundle(config=config, model=built, parts=Tokenizers(source, target), custom="", signature={"seed": 1})
    save_bundle(folder, made)
    return folder


@pytest.fixture(scope="module", params=["input feeding", pytest.param("rotary", marks=pytest.mark.slow)])
def exported(request, tmp_path_factory):
    return _export(request.param, MODELS[request.param], tmp_path_factory)


def _export(name, model, tmp_path_factory):
    folder = tmp_path_factory.mktemp(name.replace(" ", "-"))
    run = make(folder / "run", model)
    done = export_onnx(run, folder / "onnx", overridable=True)
    return regard.load(run, device="cpu"), done


def batch(translator):
    ids = [[*translator.bundle.parts.source.encode(text).ids, 3] for text in TEXTS]
    width = max(map(len, ids))
    return torch.tensor([row + [0] * (width - len(row)) for row in ids]), torch.tensor(
        [[True] * len(row) + [False] * (width - len(row)) for row in ids]
    )


def check_searches(translator, done):
    source, mask = batch(translator)
    ours, theirs = translator.model, OnnxSeq2Seq(done.folder)
    options = {"max_length": 9, "record": ("cross",)}
    for own, other in zip(greedy(ours, source, mask, **options), greedy(theirs, source, mask, **options), strict=True):
        assert own.tokens == other.tokens
        assert np.abs(own.attention["cross"] - other.attention["cross"]).max() < 1e-4
    for own, other in zip(
        beam_search(ours, source, mask, beam_size=3, n_best=3, max_length=9),
        beam_search(theirs, source, mask, beam_size=3, n_best=3, max_length=9),
        strict=True,
    ):
        assert [one.tokens for one in own] == [one.tokens for one in other]
        assert [one.score for one in own] == pytest.approx([one.score for one in other], abs=1e-4)
    assert done.largest_difference <= 1e-4


def test_searches_find_the_same_translations(exported):
    check_searches(*exported)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SLOW))
def test_searches_find_the_same_translations_with_other_models(name, tmp_path_factory):
    check_searches(*_export(name, SLOW[name], tmp_path_factory))


def test_overriding_attention_equals_reweight(exported):
    translator, done = exported
    source, mask = batch(translator)
    theirs, step = OnnxSeq2Seq(done.folder), Session(done.folder / "step.onnx")
    state = theirs.encode(source, mask)
    moved = torch.zeros(len(source), 1, source.shape[1])
    moved[..., 1] = 1  # all weight on the second word
    tokens = torch.full((len(source), 1), 2)
    given = {"tokens": tokens.numpy(), **state.memory, **state.steps}
    rows = step.inputs["override"][2:-1]  # layers and heads, if there are some
    given["override"] = moved.view(*moved.shape[:2], *[1] * len(rows), -1).expand(-1, -1, *rows, -1).contiguous().numpy()
    given["overridden"] = np.ones(given["override"].shape[:-1], bool)
    found = step(given)
    assert np.allclose(found["cross"], moved)
    own = translator.model.encode(source, mask)

    def reweight(weights, mask):
        return moved.expand_as(weights) if weights.ndim == 3 else moved[:, None].expand_as(weights)

    with torch.inference_mode():
        expected = translator.model.step(tokens, own, reweight={"cross": reweight})[0]
    assert np.abs(found["log_probabilities"] - expected.log_softmax(-1).numpy()).max() < 1e-4
    plain = theirs.step(tokens, state)[0]
    assert np.abs(found["log_probabilities"] - plain.numpy()).max() > 1e-3


def test_the_example_runs_without_torch(exported, tmp_path):
    translator, done = exported
    blocker = tmp_path / "torch.py"
    blocker.write_text("raise ImportError('no torch here')\n")
    command = [sys.executable, str(done.folder / "example.py"), *TEXTS[0].split()]
    ran = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path), "PATH": ""})
    assert ran.returncode == 0, ran.stderr
    [expected] = translator.translate([TEXTS[0]], beam_size=1, replace_unknown=False, max_length=100)
    assert ran.stdout.splitlines()[0].split() == [
        translator.bundle.parts.target.describe([number]).tokens[0]
        for number in greedy(translator.model, *[part[:1] for part in batch(translator)], max_length=100)[0].tokens
    ]
    assert expected.text.split()[0] == ran.stdout.split()[0]


@pytest.mark.parametrize(
    ("kind", "tokens", "text"),
    [
        ("characters", list("Der Mann"), "Der Mann"),
        ("bpe", ["▁Der", "▁Ma", "nn"], "Der Mann"),
        ("words", ["Der", "Mann"], "Der Mann"),
    ],
)
def test_the_example_joins_tokens(kind, tokens, text, capsys):
    example.show_text(tokens, kind)
    assert capsys.readouterr().out == text + "\n"
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys(tokens), 4)}
    saved = {"kind": kind, "lowercase": False, "tokenizer": {}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "tokenizers", None)  # as without the package
        assert example.encode(text, saved, vocabulary) == [vocabulary[token] for token in tokens]


def test_the_folder_describes_itself(exported):
    _, done = exported
    described = json.loads((done.folder / "onnx.json").read_text())
    assert described["task"] == "translation"
    step = described["graphs"]["step"]
    assert [one["name"] for one in step["inputs"]][:2] == ["tokens", "source_mask"]
    assert step["inputs"][0]["axes"] == ["B", "N"]
    tensors = [one for graph in described["graphs"].values() for one in graph["inputs"] + graph["outputs"]]
    assert {axis for one in tensors for axis in one["axes"] if isinstance(axis, str)} <= set(described["axes"])
    assert set(described["state"]) <= {one["name"] for one in step["inputs"]}
    assert "model.safetensors" not in done.files
    assert {"config.yaml", "README.md", "example.py", "encoder.onnx", "step.onnx"} <= set(done.files)


def test_folders_that_are_refused(exported, tmp_path, capsys):
    translator, done = exported
    with pytest.raises(RequestError, match="already holds an export; replace it with overwrite"):
        export_onnx(translator, done.folder)
    (tmp_path / "mine").mkdir()
    with pytest.raises(RequestError, match="exists and is not an export"):
        export_onnx(translator, tmp_path / "mine", overwrite=True)
    assert main(["export", str(tmp_path / "nothing"), "--to", str(tmp_path / "there")]) == 2
    assert "nothing" in capsys.readouterr().err
    assert not (tmp_path / "there").exists()


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    path = tmp_path_factory.mktemp("reviews") / "reviews.tsv"
    lines = [f"a {word} film number {number}\t{label}\n" for number in range(12) for word, label in (("good", 1), ("bad", 0))]
    path.write_text("text\tlabel\n" + "".join(lines))
    return path


@pytest.mark.parametrize("preset", ["bilstm", *(pytest.param(name, marks=pytest.mark.slow) for name in ("combined", "bag"))])
def test_classifiers(reviews, tmp_path, preset):
    settings = {"data.train": [str(reviews)], "out": str(tmp_path / "run"), "training.max_steps": 2}
    trained = regard.fit(regard.load_preset(preset, settings), progress=False)
    done = export_onnx(trained, tmp_path / "onnx")
    assert done.largest_difference <= 1e-4
    ids = trained.encode(["a bad film"])[0]
    tokens = torch.tensor([ids.tolist()])
    found = OnnxClassifier(done.folder, sites=trained.model.sites)(
        tokens, torch.ones_like(tokens, dtype=torch.bool), record=("pool",)
    )
    assert found.attention["pool"].shape[-1] == len(ids)
    ran = subprocess.run(
        [sys.executable, str(done.folder / "example.py"), *["a", "bad", "film"]], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    [one] = trained.classify(["a bad film"])
    shown = dict(line.split() for line in ran.stdout.splitlines()[:2])
    for label, probability in one.probabilities.items():
        assert float(shown[label]) == pytest.approx(probability, abs=2e-3)


def test_the_example_gives_each_of_several_labels_its_own_probability(tmp_path):
    path = tmp_path / "reviews.tsv"
    path.write_text("text\tlabel\n" + "".join(f"a good film {number}\ta\nan odd film {number}\ta,b\n" for number in range(12)))
    settings = {"data.train": [str(path)], "data.label_separator": ",", "out": str(tmp_path / "run"), "training.max_steps": 2}
    trained = regard.fit(regard.load_preset("bag", settings), progress=False)
    assert trained.bundle.parts.labels.multiple
    done = export_onnx(trained, tmp_path / "onnx")
    ran = subprocess.run([sys.executable, str(done.folder / "example.py"), "an", "odd", "film"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    [one] = trained.classify(["an odd film"])
    shown = dict(line.split() for line in ran.stdout.splitlines()[:2])
    assert {label: float(shown[label]) for label in "ab"} == pytest.approx(one.probabilities, abs=2e-3)


@pytest.mark.slow
def test_language_models(tmp_path):
    (tmp_path / "texts.txt").write_text("".join(f"a dog sees {number} cats .\n" for number in range(60)))
    settings = {"data.train": [str(tmp_path / "texts.txt")], "out": str(tmp_path / "run"), "training.max_steps": 2}
    settings |= {"model.num_layers": 2, "model.hidden_size": 16, "model.num_heads": 2, "tokenizer.size": 60}
    trained = regard.fit(regard.load_preset("language-tiny", settings), progress=False)
    trained.model.train()
    done = export_onnx(trained, tmp_path / "onnx")
    assert trained.model.training  # the caller's model stays as it was
    trained.model.eval()
    assert done.largest_difference <= 1e-4
    source, mask = torch.tensor([[3]]), torch.tensor([[True]])
    own = greedy(trained.model, source, mask, max_length=12)
    other = greedy(OnnxSeq2Seq(done.folder), source, mask, max_length=12)
    assert own[0].tokens == other[0].tokens
    overridable = export_onnx(trained, tmp_path / "other", overridable=True).folder
    ran = [
        subprocess.run([sys.executable, str(folder / "example.py"), "a", "dog"], capture_output=True, text=True)
        for folder in (done.folder, overridable)
    ]
    assert ran[0].returncode == ran[1].returncode == 0, ran[1].stderr
    assert ran[0].stdout == ran[1].stdout != "\n"
    step = Session(overridable / "step.onnx")
    cache = np.zeros([1, 1, *step.inputs["own_key"][2:4], 0, step.inputs["own_key"][5]], np.float32)
    chosen = np.zeros((1, 1, 2, 2), bool)
    chosen[0, 0, 1, 0] = True
    weights = np.zeros((*chosen.shape, 1), np.float32)
    given = {"tokens": np.array([[2]]), "own_key": cache, "own_value": cache, "override": weights, "overridden": chosen}
    found = step(given)
    assert found["decoder_heads"].flatten().tolist() == [1, 1, 0, 1]  # the first token reads itself alone
    reweight = {"decoder.1": on_heads(0, lambda weights, mask: weights * 0)}
    logits, _, _ = trained.model.step(torch.tensor([[2]]), trained.model.encode(source, mask), reweight=reweight)
    assert np.abs(found["log_probabilities"] - logits.log_softmax(-1).detach().numpy()).max() < 1e-4
    with pytest.raises(RequestError, match="precision is 'int4', expected float32 or int8"):
        export_onnx(trained, tmp_path / "other", precision="int4")
    with pytest.raises(RequestError, match="check measures the loss of quality with 8-bit weights; choose precision int8"):
        export_onnx(trained, tmp_path / "other", check="texts.txt")


@pytest.mark.slow
def test_weights_of_8_bits_report_what_they_cost(reviews, tmp_path, capsys):
    settings = {"data.train": [str(reviews)], "out": str(tmp_path / "run"), "training.max_steps": 2}
    regard.fit(regard.load_preset("bilstm", settings), progress=False)
    command = ["export", str(tmp_path / "run"), "--to"]
    assert main([*command, str(tmp_path / "plain")]) == 0
    assert main([*command, str(tmp_path / "int8"), "--precision", "int8", "--check", str(reviews)]) == 0
    printed = capsys.readouterr().out
    card = (tmp_path / "int8" / "README.md").read_text()
    sizes = [(tmp_path / name / "classifier.onnx").stat().st_size for name in ("plain", "int8")]
    assert sizes[1] < 0.5 * sizes[0]
    lines = [line for line in printed.splitlines() if line.startswith(("accuracy: ", "loss: "))]
    assert len(lines) == 2
    assert all("with the model" in line and "with 8-bit weights" in line and f"- {line}" in card for line in lines)
    assert "8-bit" not in (tmp_path / "plain" / "README.md").read_text()
    assert json.loads((tmp_path / "int8" / "onnx.json").read_text())["precision"] == "int8"
    trained, exact = regard.load(tmp_path / "run"), {}
    for name in ("plain", "int8"):
        tokens = torch.from_numpy(trained.encode(["a bad film"])[0])[None].long()
        runs = OnnxClassifier(tmp_path / name, sites=trained.model.sites)
        with torch.inference_mode():
            expected = trained.model(tokens, tokens != 0).logits
        exact[name] = float((runs(tokens, tokens != 0).logits - expected).abs().max())
    assert exact["plain"] < 1e-5 < exact["int8"] < 0.1


@pytest.mark.slow
def test_weights_of_8_bits_of_a_translator(tmp_path):
    run = make(tmp_path / "run", MODELS["rotary"])
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("en\tde\n" + "".join(f"{one}\t{other}\n" for one, other in zip(TEXTS, TARGETS, strict=True)))
    done = export_onnx(run, tmp_path / "drawn", precision="int8")
    [quality] = done.quality
    assert quality.name == "share of next words equal to the original model's, on random tokens"
    assert 0.5 < quality.exported <= quality.model == 1
    done = export_onnx(run, tmp_path / "checked", precision="int8", check=str(pairs))
    assert [one.name for one in done.quality][:2] == ["loss", "perplexity"]
    assert {one.name for one in done.quality} >= {"loss", "perplexity", "bleu", "chrf", "length_ratio", "exact_match"}
    [loss] = [one for one in done.quality if one.name == "loss"]
    assert 0 < abs(loss.exported - loss.model) < 0.2 * loss.model
