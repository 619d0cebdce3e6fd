"""Every preset, and every attention, normalizer and pooling of a config: an export that equals the model, or a refusal."""

import pytest
import torch
from export.page_models import RECURRENT, TRANSFORMER, make_translator
from quick import quick

from regard.config.attention import AttentionConfig
from regard.config.loading import load_config
from regard.config.normalizers import NormalizerConfig
from regard.config.pooling import PoolingConfig
from regard.errors import RequestError
from regard.export import export_onnx
from regard.export.graphs import write_graph
from regard.export.onnx import graphs_of
from regard.export.verification import verify
from regard.models.build import build_classifier, build_language_model, build_translator
from regard.presets import load_preset, preset_names

WORDS = 23
STATEFUL = {
    "coverage": "Coverage",
    "fertility_coverage": "FertilityCoverage",
    "local_monotonic": "LocalMonotonic",
    "location_sensitive": "LocationSensitive",
    "monotonic": "HardMonotonic",
    "hard_monotonic": "HardMonotonic",
    "mocha": "HardMoChA",
    "hard_mocha": "HardMoChA",
}
WITHOUT_OPERATIONS = {"gated_delta_net": "GatedDeltaNet"}
OWN = {kind for kind, cls in AttentionConfig.kinds().items() if cls.__module__.startswith("regard.")}  # without those of tests
KINDS = sorted(OWN - {*STATEFUL} - {*WITHOUT_OPERATIONS})
NORMALIZERS = [*sorted(NormalizerConfig.kinds()), "temperature", "soft_cap"]


def check(model, folder, *, overridable=False):
    """Export a model with random weights; the graphs are compared with it on six sizes, one of everything included."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.eval()
    for graph in graphs_of(model, overridable=overridable):
        write_graph(graph, folder)
    assert verify(model, folder, source_size=WORDS, target_size=WORDS) <= 1e-4


def build(task, model):
    """Build a model from its settings."""
    config = load_config({"task": task, "model": model})
    if task == "translation":
        return build_translator(config.model, source_size=WORDS, target_size=WORDS)
    return build_classifier(config.model, vocabulary_size=WORDS, num_labels=3)


BUILT = ("translation", "language", "classification")


def normalizer_of(name):
    changes = {"temperature": {"temperature": 0.5}, "soft_cap": {"soft_cap": 2}}
    return {"kind": "softmax", **changes[name]} if name in changes else {"kind": name}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in preset_names() if load_preset(name).task in BUILT and "pretrained" not in name]
)
def test_every_preset(name, tmp_path):
    config = load_preset(name)
    if config.task == "translation":
        model = build_translator(config.model, source_size=WORDS, target_size=WORDS)
    elif config.task == "language":
        model = build_language_model(config.model, vocabulary_size=WORDS)
    else:
        model = build_classifier(config.model, vocabulary_size=WORDS, num_labels=3)
    check(model, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["luong", "bahdanau"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_attention_of_a_recurrent_model(kind, order, tmp_path):
    decoder = {"kind": order, "hidden_size": 24, "attention": {"kind": kind}}
    model = build("translation", RECURRENT | {"decoder": decoder, "encoder": {"hidden_size": 12}})
    check(model, tmp_path, overridable=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_attention_of_a_transformer_to_its_source(kind, tmp_path):
    check(build("translation", TRANSFORMER | {"cross_attention": {"kind": kind}}), tmp_path, overridable=True)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_replace_attention_to_the_source_have_an_axis_for_its_heads(kind):
    [_, step] = graphs_of(build("translation", TRANSFORMER | {"cross_attention": {"kind": kind}}).eval(), overridable=True)
    found = dict(zip(step.outputs, step.module(*step.example.values()), strict=True))
    assert step.example["override"].shape == found["cross_heads"].shape


@pytest.mark.slow
@pytest.mark.parametrize("name", NORMALIZERS)
def test_every_normalizer(name, tmp_path):
    settings = {"normalizer": normalizer_of(name), "positions": "sinusoidal", "norm_order": "deep"}
    attention = {"kind": "multi_head", "num_kv_heads": 2, "normalizer": normalizer_of(name)}
    check(build("translation", TRANSFORMER | settings | {"cross_attention": attention}), tmp_path, overridable=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", NORMALIZERS)
@pytest.mark.parametrize("kind", sorted({*PoolingConfig.kinds()} - {"mean"}))
def test_every_pooling_with_every_normalizer(kind, name, tmp_path):
    settings = {"kind": "recurrent", "embedding_size": 8, "hidden_size": 6}
    settings["pooling"] = {"kind": kind, "normalizer": normalizer_of(name)}
    check(build("classification", settings), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("pooling", [{"kind": "additive"}, {"kind": "multi_head", "num_heads": 2}])
def test_sentences_of_a_hierarchical_model(pooling, tmp_path):
    settings = {"kind": "hierarchical", "embedding_size": 8, "hidden_size": 6, "max_sentence": 5, "pooling": pooling}
    model = build("classification", settings)
    model.ends_sentence[5:10] = True
    check(model, tmp_path)


def test_pooling_by_the_mean(tmp_path):
    check(build("classification", {"kind": "bag", "embedding_size": 8, "pooling": {"kind": "mean"}}), tmp_path)


@pytest.mark.parametrize("kind", quick(STATEFUL, lambda kind: kind in ("coverage", "location_sensitive"), key=True))
def test_attention_with_a_state_is_refused_before_anything_is_written(kind, tmp_path):
    decoder = {"kind": "bahdanau", "hidden_size": 20, "attention": {"kind": kind}}
    run = make_translator(tmp_path / "run", RECURRENT | {"decoder": decoder, "encoder": {"hidden_size": 10}})
    with pytest.raises(RequestError, match=f"the decoder's attention is a {STATEFUL[kind]}, which passes earlier weights"):
        export_onnx(run, tmp_path / "exported")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("kind", WITHOUT_OPERATIONS)
@pytest.mark.parametrize("family", ["recurrent", "transformer"])
def test_attention_that_onnx_cannot_compute_is_refused_by_its_name(kind, family):
    attention = {"kind": kind}
    settings = {
        "recurrent": RECURRENT | {"decoder": {"kind": "luong", "hidden_size": 16, "attention": attention}},
        "transformer": TRANSFORMER | {"cross_attention": attention},
    }
    with pytest.raises(RequestError, match=f"is a {WITHOUT_OPERATIONS[kind]}, which needs operations that ONNX does not have"):
        graphs_of(build("translation", settings[family]))
