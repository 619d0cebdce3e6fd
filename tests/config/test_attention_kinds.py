"""Every mechanism, pooling and normalizer by its config: in Python, in YAML and as overrides; and kinds of the user's own."""

import subprocess
import sys

import pytest

import regard.attention
from regard.attention import (
    Attention,
    Entmax,
    Entmax15,
    General,
    MultiHead,
    Pooling,
    Sigmoid,
    SoftCap,
    Softmax,
    SoftmaxSink,
    Softpick,
    Sparsemax,
    StickBreaking,
    Temperature,
)
from regard.attention.ordered.monotonic import SoftToHard
from regard.attention.scores.base import ScoredAttention
from regard.config import (
    AdditiveConfig,
    AttentionConfig,
    GeneralConfig,
    MultiHeadConfig,
    NormalizerConfig,
    PoolingConfig,
    ScorerConfig,
    SigmoidConfig,
)
from regard.config.attention import NormalizedSettings
from regard.config.describe import describe
from regard.config.loading import check_config, dump_config, load_config, override_layer, parse_layer, render_config
from regard.config.settings import changed_settings
from regard.errors import ConfigError
from regard.tasks.translation.config import TranslationConfig


def ours(family):
    """The kinds of the package, without those of other tests."""
    return {kind: cls for kind, cls in family.kinds().items() if cls.__module__.startswith("regard.")}


ATTENTION, NORMALIZERS, POOLINGS = ours(AttentionConfig), ours(NormalizerConfig), ours(PoolingConfig)


def mechanisms_of(base):
    found = [getattr(regard.attention, name) for name in regard.attention.__all__]
    kinds = {each for each in found if isinstance(each, type) and issubclass(each, base)}
    return {each for each in kinds if not getattr(each, "__abstractmethods__", None)}


def built(attention):
    """The mechanism's class, that inside of the wrapper included."""
    return type(attention.soft) if isinstance(attention, SoftToHard) else type(attention)


def test_every_mechanism_of_the_package_has_a_kind():
    made = {built(cls().build(query_size=8, key_size=8)) for cls in ATTENTION.values()}
    made.add(type(ATTENTION["dot"](scaled=True).build(query_size=8, key_size=8)))
    assert made == mechanisms_of(Attention)


def test_every_pooling_has_a_kind():
    assert {type(cls().build(size=8)) for cls in POOLINGS.values()} == mechanisms_of(Pooling)


def test_every_normalizer_has_a_kind():
    made = {name: type(cls().build()) for name, cls in NORMALIZERS.items()}
    assert made == {
        "softmax": Softmax,
        "sparsemax": Sparsemax,
        "entmax15": Entmax15,
        "entmax": Entmax,
        "sigmoid": Sigmoid,
        "sink": SoftmaxSink,
        "softpick": Softpick,
        "stick_breaking": StickBreaking,
    }
    warmer = SigmoidConfig(temperature=2.0).build()
    assert isinstance(warmer, Temperature)
    assert (warmer.temperature, type(warmer.normalizer)) == (2.0, Sigmoid)
    bounded = SigmoidConfig(soft_cap=5.0).build()
    assert isinstance(bounded, SoftCap)
    assert (bounded.cap, type(bounded.normalizer)) == (5.0, Sigmoid)


@pytest.mark.parametrize(("kind", "parameter"), [("sink", "sink"), ("entmax", "raw_alpha")])
def test_what_a_normalizer_learns_is_learned_for_each_head(kind, parameter):
    attention = MultiHeadConfig(num_heads=2, normalizer=NORMALIZERS[kind]()).build(query_size=8, key_size=8)
    assert getattr(attention.normalizer, parameter).shape == (2, 1, 1)
    alone = GeneralConfig(normalizer=NORMALIZERS[kind](learned=False)).build(query_size=8, key_size=8)
    assert not list(alone.normalizer.parameters())


@pytest.mark.parametrize("kind", ATTENTION)
def test_by_yaml_and_by_overrides(kind):
    by_yaml = load_config(parse_layer(f"model: {{decoder: {{attention: {{kind: {kind}}}}}}}", "run.yaml"))
    by_name = load_config(override_layer({"model.decoder.attention.kind": kind}))
    assert by_yaml == by_name
    assert type(by_yaml.model.decoder.attention) is ATTENTION[kind]
    assert load_config(parse_layer(render_config(by_yaml), "again.yaml")) == by_yaml
    assert load_config(dump_config(by_yaml)) == by_yaml
    assert load_config(changed_settings(by_yaml)) == by_yaml


@pytest.mark.parametrize("kind", NORMALIZERS)
def test_normalizers_inside_an_attention(kind):
    config = load_config(override_layer({"model.decoder.attention.normalizer.kind": kind}))
    assert config.model.decoder.attention == AdditiveConfig(normalizer=NORMALIZERS[kind]())
    attention = config.model.decoder.attention.build(query_size=4, key_size=6)
    assert type(attention.normalizer) is type(NORMALIZERS[kind]().build())


@pytest.mark.parametrize("kind", [kind for kind, cls in ATTENTION.items() if issubclass(cls, NormalizedSettings)])
def test_scale_and_dropout_of_every_mechanism_with_a_normalizer(kind):
    given = {f"model.decoder.attention.{name}": value for name, value in (("kind", kind), ("scale", 0.5), ("dropout", 0.1))}
    attention = load_config(override_layer(given)).model.decoder.attention.build(query_size=8, key_size=8)
    assert attention.dropout == 0.1
    assert (attention.gain.item() if kind == "cosine" else attention.scale) == 0.5


def test_a_scorer_inside_an_attention():
    given = {
        "model.decoder.attention.kind": "local_predictive",
        "model.decoder.attention.window": "3",
        "model.decoder.attention.scorer.kind": "additive",
        "model.decoder.attention.scorer.normalizer.kind": "sparsemax",
    }
    attention = load_config(override_layer(given)).model.decoder.attention.build(query_size=4, key_size=6)
    assert (attention.window, type(attention.scorer).__name__) == (3, "Additive")
    assert isinstance(attention.scorer.normalizer, Sparsemax)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"kind": "covrage"},
            r"model.decoder.attention.kind is 'covrage', expected one of: .*coverage.*did you mean 'coverage'",
        ),
        (
            {"kind": "coverage", "window": "3"},
            r"of kind 'coverage' has no setting 'window'; it belongs to kind: local_monotonic",
        ),
        ({"kind": "mocha", "chunk_size": "0"}, r"model.decoder.attention.chunk_size is 0, expected from 1 to 1000"),
        (
            {"kind": "mocha", "initial_offset": "-inf"},
            r"model.decoder.attention.initial_offset is '-inf', expected a finite number",
        ),
        ({"normalizer": "entmax15"}, r"normalizer is 'entmax15', expected settings below it \(write 'model.*normalizer.kind'"),
        ({"normalizer.temperature": "0"}, r"model.decoder.attention.normalizer.temperature is 0, expected more than 0"),
        ({"kind": "local_monotonic", "scorer.kind": "coverage"}, r"scorer.kind is 'coverage', expected one of: additive, dot"),
    ],
    ids=["misspelt", "of another kind", "out of range", "not finite", "without kind", "inside", "no scorer"],
)
def test_mistakes(settings, message):
    with pytest.raises(ConfigError, match=message):
        load_config(override_layer({f"model.decoder.attention.{name}": value for name, value in settings.items()}))


def test_offsets_below_zero():
    config = load_config(
        override_layer({"model.decoder.attention.kind": "mocha", "model.decoder.attention.initial_offset": "-4"})
    )
    assert config.model.decoder.attention.build(query_size=4, key_size=4).soft.offset == -4


def test_heads_of_a_transformer_go_to_the_attention_to_the_source():
    assert MultiHeadConfig().within(num_heads=8, dropout=0.2) == MultiHeadConfig(num_heads=8, dropout=0.2)
    assert MultiHeadConfig(num_heads=2, dropout=0.1).within(num_heads=8, dropout=0.2) == MultiHeadConfig(
        num_heads=2, dropout=0.1
    )
    assert GeneralConfig().within(num_heads=8, dropout=0.2) == GeneralConfig()
    attention = MultiHeadConfig().build(query_size=8, key_size=6)
    assert isinstance(attention, MultiHead)
    assert attention.num_heads == 4


def test_a_kind_of_your_own_joins_by_its_class():
    class DoubledConfig(ScorerConfig, kind="doubled"):
        shift: float = -2.0

        def build(self, *, query_size: int, key_size: int) -> ScoredAttention:
            return General(query_size, key_size=key_size, normalizer=self.normalizer.build())

    given = {"model.decoder.attention.kind": "doubled", "model.decoder.attention.normalizer.kind": "sparsemax"}
    config = load_config(override_layer(given))
    assert type(config.model.decoder.attention) is DoubledConfig
    assert config.model.decoder.attention.shift == -2
    inner = load_config(
        override_layer({"model.decoder.attention.kind": "mocha", "model.decoder.attention.scorer.kind": "doubled"})
    )
    assert type(inner.model.decoder.attention.scorer) is DoubledConfig
    check_config(config)


def test_two_classes_of_one_kind_are_refused():
    class Pie(NormalizerConfig):
        """A family of the test's own, so that no other test sees the clash."""

    class First(Pie, kind="apple"):
        def build_plain(self):
            return Softmax()

    class Second(First, kind="apple"):
        pass

    try:
        with pytest.raises(ConfigError, match=r"First and .*Second have the same kind, 'apple'; give one of them another kind"):
            Pie.kinds()
    finally:
        Second.kind, First.kind = "apple-2", "apple-1"


@pytest.mark.parametrize("deeper_first", [True, False])
def test_the_class_defined_last_is_meant_whatever_its_base(deeper_first):
    class Pie(NormalizerConfig):
        """A family of the test's own."""

    class Fruit(Pie):
        """A base without a kind, which `kinds` reads first."""

    def define(base: type) -> type:
        class Cherry(base, kind="cherry"):
            def build_plain(self):
                return Softmax()

        return Cherry

    first, last = (define(base) for base in ((Fruit, Pie) if deeper_first else (Pie, Fruit)))
    try:
        assert Pie.kinds() == {"cherry": last}
    finally:
        first.kind, last.kind = "cherry-1", "cherry-2"


def test_help_lists_every_kind_once():
    settings = list(describe(TranslationConfig))
    choices = next(s.choices for s in settings if s.name == "model.decoder.attention.kind")
    assert set(choices) >= {"coverage", "mocha", "multi_head", "monotonic", "location_sensitive"}
    headings = [s for s in settings if s.heading and s.name == "model.decoder.attention"]
    assert len({s.kind for s in headings}) == len(headings)
    below = [s for s in settings if s.name.startswith("model.decoder.attention.") and not s.heading]
    assert [s.name for s in below if not s.doc and not s.name.endswith(".shift")] == []  # of a kind of another test's own


def test_configs_are_read_without_torch():
    code = (
        "import sys, regard.config.loading as l; "
        "l.load_config(l.override_layer({'model.decoder.attention.kind': 'mocha'})); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
