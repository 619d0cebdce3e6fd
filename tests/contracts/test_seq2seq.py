"""The battery that every model must pass: what search and training rely on, and nothing of a model's insides.

Sizes are distinct primes, so that two axes cannot be mixed up unseen. Weights are in float64 where two ways of computing are
compared.
"""

from dataclasses import replace

import pytest
import torch
from encoders import tiny_encoder
from quick import quick
from torch import Tensor

from regard.attention import Coverage, LocalMonotonic, MultiHead
from regard.attention.scores.linear import LinearConcat
from regard.bundle import weights as stored
from regard.config import (
    AdditiveConfig,
    BahdanauDecoderConfig,
    ConcatConfig,
    DotConfig,
    EncoderConfig,
    GeneralConfig,
    LanguageModelConfig,
    LinearConfig,
    LuongDecoderConfig,
    ModelConfig,
    PretrainedSourceConfig,
    RecurrentConfig,
    SumConcatConfig,
    TransformerConfig,
)
from regard.decoding import beam_search, force, greedy
from regard.inference import pack
from regard.models.build import build_language_model, build_translator
from regard.models.language.transformer import TransformerLanguageModel
from regard.models.pretrained import read_encoder
from regard.models.seq2seq import Seq2Seq
from regard.text.symbols import END, PAD, START

SOURCES, TARGETS, WIDTH, HIDDEN, BATCH, SOURCE, TARGET = 29, 31, 13, 17, 5, 11, 7

ENCODER = EncoderConfig(hidden_size=19)
ONE_WAY = EncoderConfig(hidden_size=HIDDEN, bidirectional=False)


def bahdanau(**settings) -> RecurrentConfig:
    model = {name: settings.pop(name) for name in ("encoder", "bridge", "tie_embeddings") if name in settings}
    decoder = BahdanauDecoderConfig(hidden_size=HIDDEN, **settings)
    return RecurrentConfig(**{"embedding_size": WIDTH, "encoder": ENCODER, "decoder": decoder} | model)


def luong(**settings) -> RecurrentConfig:
    model = {name: settings.pop(name) for name in ("encoder", "bridge", "tie_embeddings") if name in settings}
    decoder = LuongDecoderConfig(hidden_size=HIDDEN, **settings)
    return RecurrentConfig(**{"embedding_size": WIDTH, "encoder": ENCODER, "decoder": decoder} | model)


def transformer(**settings) -> TransformerConfig:
    sizes = {"hidden_size": 20, "num_heads": 2, "feed_forward_size": 23, "encoder_layers": 2, "decoder_layers": 3}
    dropouts = {"embedding_dropout": 0.0, "layer_dropout": 0.0}
    return TransformerConfig(**{**sizes, **dropouts, **settings})


def language(**settings) -> LanguageModelConfig:
    sizes = {"hidden_size": 20, "num_heads": 2, "feed_forward_size": 23, "num_layers": 3}
    return LanguageModelConfig(**{**sizes, "embedding_dropout": 0.0, "layer_dropout": 0.0, **settings})


def pretrained(**settings) -> PretrainedSourceConfig:
    return read_encoder(
        PretrainedSourceConfig(**{"name": tiny_encoder(), "tuning": "whole", "dropout": 0.0, "output_dropout": 0.0} | settings)
    )


CASES: dict[str, ModelConfig | LanguageModelConfig] = {
    "bahdanau": bahdanau(),
    "bahdanau-lstm": bahdanau(cell="lstm", encoder=replace(ENCODER, cell="lstm"), readout="deep", bridge="mean"),
    "bahdanau-deep": bahdanau(num_layers=3, encoder=replace(ENCODER, num_layers=2), readout="attentional"),
    "bahdanau-tied": bahdanau(readout="deep", tie_embeddings="target"),
    "bahdanau-linear": bahdanau(attention=LinearConfig(), encoder=ONE_WAY, bridge="copy"),
    "bahdanau-zeros": bahdanau(attention=ConcatConfig(attention_size=23), readout="concat", bridge="zeros"),
    "luong": luong(),
    "luong-dot": luong(attention=DotConfig(), encoder=replace(ONE_WAY, cell="lstm"), readout="concat", bridge="copy"),
    "luong-general": luong(attention=GeneralConfig(), cell="gru", num_layers=2, readout="attentional"),
    "luong-sum": luong(attention=SumConcatConfig(), encoder=ONE_WAY, readout="concat"),
    "luong-feeding": luong(input_feeding=True, attention=AdditiveConfig(attention_size=23, bias=True)),
    "luong-feeding-deep": luong(input_feeding=True, readout="deep", num_layers=2, cell="gru", tie_embeddings="target"),
    "transformer": transformer(),
    "transformer-post": transformer(norm_order="post", feed_forward="gelu", tie_embeddings="none", output_bias=True),
    "transformer-deep": transformer(norm_order="deep", positions="learned", num_heads=5, decoder_layers=1),
    "transformer-rotary": transformer(norm="rms", feed_forward="swiglu", positions="rotary"),
    "luong-pretrained": luong(encoder=pretrained(), attention=DotConfig(), bridge="copy", readout="concat"),
    "transformer-pretrained": transformer(encoder=pretrained(), positions="learned"),
    "language": language(),
    "language-post": language(norm_order="post", positions="sinusoidal", tie_embeddings=False, output_bias=True),
    "language-deep": language(norm_order="deep", positions="learned", feed_forward="relu", num_layers=1),
}


def create(config: ModelConfig | LanguageModelConfig) -> Seq2Seq:
    """As its weights are drawn; a language model is a model whose source says nothing."""
    if isinstance(config, LanguageModelConfig):
        return build_language_model(config, vocabulary_size=TARGETS).double().eval()
    sizes = {"source_size": SOURCES, "target_size": TARGETS, "encoder_ids": range(SOURCES)}
    return build_translator(config, **sizes).double().eval()


def build(config: ModelConfig | LanguageModelConfig) -> Seq2Seq:
    torch.manual_seed(0)
    model = create(config)
    with torch.no_grad():
        for parameter in model.parameters():  # sharper than at the start of training, so that differences show
            parameter.mul_(2)
    return model


DIFFERENT = {
    "bahdanau",
    "bahdanau-deep",
    "luong-general",
    "luong-feeding",
    "luong-feeding-deep",
    "transformer",
    "transformer-deep",
    "transformer-rotary",
    "luong-pretrained",
    "transformer-pretrained",
    "language",
    "language-deep",
}
"""Cases that `make test` runs: those whose code differs; `make test-slow` takes the others, too."""


@pytest.fixture(params=quick(CASES, DIFFERENT.__contains__))
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    return build(request.param)


@pytest.fixture
def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Source, its mask, target in and out; lengths differ, and one source is a lone end symbol."""
    draw = torch.Generator().manual_seed(3)
    source = torch.randint(4, SOURCES, (BATCH, SOURCE), generator=draw)
    lengths = torch.tensor([SOURCE, 1, 4, 8, 2])
    mask = torch.arange(SOURCE) < lengths[:, None]
    source[torch.arange(BATCH), lengths - 1] = END
    words = torch.randint(4, TARGETS, (BATCH, TARGET - 1), generator=draw)
    target_in = torch.cat([torch.full((BATCH, 1), START), words], 1)
    target_out = torch.cat([words, torch.full((BATCH, 1), END)], 1)
    return source.masked_fill(~mask, PAD), mask, target_in, target_out


def read(model: Seq2Seq, batch, **options) -> tuple[Tensor, dict[str, Tensor]]:
    source, mask, target_in, _ = batch
    state = model.encode(source, mask, record=model.sites)
    features, attention = model.decode(target_in, state, record=model.sites, **options)
    return model.logits(features), attention


def step_by_step(model: Seq2Seq, batch) -> tuple[Tensor, dict[str, Tensor]]:
    source, mask, target_in, _ = batch
    state, logits, maps = model.encode(source, mask, record=model.sites), [], []
    for tokens in target_in.split(1, 1):
        scores, attention, state = model.step(tokens, state, record=model.sites)
        logits.append(scores)
        maps.append(attention)
    return torch.cat(logits, 1), {site: joined([step[site] for step in maps], site) for site in model.sites}


def joined(steps: list[Tensor], site: str) -> Tensor:
    """The weights of all steps as one call gives them."""
    if site.startswith("encoder"):
        return steps[0]
    widest = max(step.shape[-1] for step in steps)
    return torch.cat([torch.nn.functional.pad(step, (0, widest - step.shape[-1])) for step in steps], -2)


def sides(site: str, source: int, target: int) -> tuple[int, int]:
    """Rows and columns of a site's weights."""
    return source if site.startswith("encoder") else target, target if site.startswith("decoder") else source


def same(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_shapes(model, batch):
    logits, attention = read(model, batch)
    assert logits.shape == (BATCH, TARGET, TARGETS)
    assert set(attention) == set(model.sites) != set()
    for site, weights in attention.items():
        assert (weights.shape[0], *weights.shape[-2:]) == (BATCH, *sides(site, SOURCE, TARGET))


def test_a_call_gives_the_scores(model, batch):
    source, mask, target_in, _ = batch
    expected = read(model, batch)[0]
    if model.sites and all(site.startswith("decoder") for site in model.sites):  # a language model
        same(model(target_in), expected)
        return
    same(model(source, target_in), expected)
    same(model(source, target_in, mask), expected)


def test_attention_stays_on_the_source(model, batch):
    _, attention = read(model, batch)
    earlier = torch.ones(TARGET, TARGET, dtype=torch.bool).tril()
    for site, weights in attention.items():
        same(weights.sum(-1), torch.ones_like(weights[..., 0]))
        heads = weights if weights.ndim == 4 else weights[:, None]
        allowed = earlier if site.startswith("decoder") else batch[1][:, None, None]
        assert not heads.masked_select(~allowed.expand_as(heads)).any()
        assert (weights >= 0).all()


def test_output_weight_is_that_of_logits(model):
    weight, bias = model.output_weight()
    features = torch.randn(3, 2, weight.shape[1], dtype=torch.float64)
    same(model.logits(features), torch.nn.functional.linear(features, weight, bias))


def test_step_by_step_equals_all_at_once(model, batch):
    logits, attention = read(model, batch)
    by_steps, attention_by_steps = step_by_step(model, batch)
    same(logits, by_steps)
    for site in model.sites:
        same(attention[site], attention_by_steps[site])


def test_training_mode_without_dropout_computes_the_same(model, batch):
    logits, _ = read(model, batch)
    same(read(model.train(), batch)[0], logits)


def test_without_recording_nothing_changes(model, batch):
    source, mask, target_in, _ = batch
    features, attention = model.decode(target_in, model.encode(source, mask))
    assert attention == {}
    same(model.logits(features), read(model, batch)[0])


def test_batch_equals_one_by_one_and_padding_changes_nothing(model, batch):
    logits, attention = read(model, batch)
    for row in range(BATCH):
        size = int(batch[1][row].sum())
        source, mask, target_in, target_out = (part[row : row + 1] for part in batch)
        alone, own = read(model, (source[:, :size], mask[:, :size], target_in, target_out))
        same(logits[row], alone[0])
        for site in model.sites:
            rows, columns = sides(site, size, TARGET)
            same(attention[site][row][..., :rows, :columns], own[site][0])


def test_what_stands_behind_the_mask_does_not_matter(model, batch):
    source, mask, target_in, target_out = batch
    other = source.masked_fill(~mask, 9)
    same(read(model, batch)[0], read(model, (other, mask, target_in, target_out))[0])


def test_later_targets_change_nothing(model, batch):
    source, mask, target_in, target_out = batch
    changed = target_in.clone()
    changed[:, 4:] = 5
    one, other = read(model, batch)[0], read(model, (source, mask, changed, target_out))[0]
    same(one[:, :4], other[:, :4])
    assert not torch.allclose(one[:, 4:], other[:, 4:])


def test_earlier_targets_and_the_source_matter(model, batch):
    source, mask, target_in, target_out = batch
    logits = read(model, batch)[0]
    changed = target_in.clone()
    changed[:, 1] = 4 + (changed[:, 1] == 4)
    assert not torch.allclose(logits[:, -1], read(model, (source, mask, changed, target_out))[0][:, -1])
    other = torch.where(mask, (source + 1).clamp(max=SOURCES - 1), source)
    moved = (logits - read(model, (other, mask, target_in, target_out))[0]).abs().flatten(1).amax(1)
    assert (moved == 0).all() if isinstance(model, TransformerLanguageModel) else moved.gt(1e-9).all()


def test_every_parameter_gets_a_gradient(model, batch):
    model.train()
    logits, _ = read(model, batch)
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[3].flatten()).backward()
    size = {
        name: 0.0 if parameter.grad is None else float(parameter.grad.abs().max())
        for name, parameter in model.named_parameters()
    }
    cancels = cancelled(model)
    assert [name for name, largest in size.items() if not largest > 1e-9 and name not in cancels] == []
    assert [name for name in cancels if not size[name] < 1e-9] == []


def cancelled(model: Seq2Seq) -> list[str]:
    """Parameters that cannot learn, as a test of the mechanism proves: what a linear score adds to all positions alike."""
    modules = dict(model.named_modules())
    linear = [f"{name}.projection.bias" for name, module in modules.items() if isinstance(module, LinearConcat)]
    unturned = [name for name, module in modules.items() if isinstance(module, MultiHead) and module.positions is None]
    theirs = [name for name in dict(model.named_parameters()) if name.endswith("self.key.bias")]
    return [*linear, *(f"{name}.key_projection.bias" for name in unturned), *theirs]


def test_feeding_its_own_words_equals_greedy(model, batch):
    """With nothing gold but the start, the words fed are the model's own best ones."""
    source, mask, target_in, _ = batch
    use_gold = torch.zeros_like(target_in, dtype=torch.bool)
    use_gold[:, 0] = True
    features, _ = model.decode(target_in, model.encode(source, mask), use_gold=use_gold)
    logits = model.logits(features)
    own = torch.cat([target_in[:, :1], logits.argmax(-1)[:, :-1]], 1)
    same(logits, read(model, (source, mask, own, None))[0])


def test_gold_where_it_says_so(model, batch):
    source, mask, target_in, _ = batch
    use_gold = torch.ones_like(target_in, dtype=torch.bool)
    use_gold[2:4, 3:] = False
    features, _ = model.decode(target_in, model.encode(source, mask), use_gold=use_gold)
    mixed, gold = model.logits(features), read(model, batch)[0]
    same(mixed[[0, 1, 4]], gold[[0, 1, 4]])
    same(mixed[2:4, :3], gold[2:4, :3])


def test_own_words_leave_the_encoders_state_unchanged(model, batch):
    source, mask, target_in, _ = batch
    use_gold = torch.ones_like(target_in, dtype=torch.bool)
    use_gold[2:4, 3:] = False
    state = model.encode(source, mask)
    fed = model.draft(target_in, state, use_gold, None)
    assert torch.equal(fed[[0, 1, 4]], target_in[[0, 1, 4]])
    same(model.logits(model.decode(fed, state)[0]), read(model, (source, mask, fed, None))[0])


def test_select_moves_hypotheses_and_keep_drops_sentences(model, batch):
    """Two hypotheses of each sentence, crossed, with sentences dropped, equal each on its own."""
    source, mask, target_in, _ = batch
    state = model.encode(source, mask, record=model.sites)
    _, _, state = model.step(target_in[:, :1], state)
    state = state.select(torch.zeros(BATCH, 2, dtype=torch.int64))
    words = torch.stack([target_in[:, 1], target_in[:, 2]], 1)
    _, _, state = model.step(words, state)
    state = state.keep(torch.tensor([3, 0])).select(torch.tensor([[1, 0, 1], [0, 0, 1]]))
    logits, attention, _ = model.step(torch.tensor([[4, 5, 6], [7, 8, 9]]), state, record=model.sites)
    assert logits.shape == (2, 3, TARGETS)
    beams = {(0, 0): (3, 1, 4), (0, 1): (3, 0, 5), (0, 2): (3, 1, 6), (1, 0): (0, 0, 7), (1, 1): (0, 0, 8), (1, 2): (0, 1, 9)}
    for (place, slot), (row, beam, word) in beams.items():
        prefix = torch.tensor([[START, int(words[row, beam]), word]])
        alone, own = read(model, (source[row : row + 1], mask[row : row + 1], prefix, None))
        same(logits[place, slot], alone[0, -1])
        for site in model.sites:
            if site.startswith("encoder"):
                same(attention[site][place], own[site][0])
            else:
                same(attention[site][place][..., slot, :], own[site][0][..., -1, :])


def test_beam_of_one_equals_greedy(model, batch):
    found = greedy(model, batch[0], batch[1], max_length=9, record=model.sites)
    beams = beam_search(model, batch[0], batch[1], beam_size=1, max_length=9, record=model.sites)
    for one, [other] in zip(found, beams, strict=True):
        assert (one.tokens, one.finished) == (other.tokens, other.finished)
        assert one.score == pytest.approx(other.score, rel=1e-5)


def test_searched_and_forced_agree(model, batch):
    source, mask, _, _ = batch
    for row, hypotheses in enumerate(beam_search(model, source, mask, beam_size=4, n_best=4, max_length=9, record=model.sites)):
        for hypothesis in [h for h in hypotheses if h.finished]:
            target_in, target_out = torch.tensor([[START, *hypothesis.tokens]]), torch.tensor([[*hypothesis.tokens, END]])
            one = slice(row, row + 1)
            [forced] = force(model, source[one], mask[one], target_in, target_out, record=model.sites)
            assert hypothesis.log_probability == pytest.approx(forced.log_probability, rel=1e-4, abs=1e-4)
            for site in model.sites:
                torch.testing.assert_close(
                    torch.tensor(hypothesis.attention[site]), torch.tensor(forced.attention[site]), rtol=1e-5, atol=1e-6
                )


def walk(model: Seq2Seq, batch) -> list[Tensor]:
    """Logits and weights of steps in which hypotheses change places and sentences finish."""
    source, mask, _, _ = batch
    draw = torch.Generator().manual_seed(5)
    state, rows, count, found = model.encode(source, mask, record=model.sites), BATCH, 1, []
    for step in range(9):
        tokens = torch.randint(4, TARGETS, (rows, count), generator=draw)
        logits, attention, state = model.step(tokens, state, record=model.sites)
        found += [logits, *(attention[site] for site in model.sites)]
        if step in (3, 5):
            state, rows = state.keep(torch.arange(1, rows)), rows - 1
        state, count = state.select(torch.randint(0, count, (rows, 3), generator=draw)), 3
    return found


@torch.no_grad()
def test_packed_steps_equal_plain_ones(model, batch):
    packed = pack(model, BATCH)
    assert packed is not model
    assert pack(packed, BATCH) is packed
    for ours, expected in zip(walk(packed, batch), walk(model, batch), strict=True):
        same(ours, expected)
    same(read(packed, batch)[0], read(model, batch)[0])


@torch.no_grad()
@pytest.mark.parametrize("name", quick(CASES, DIFFERENT.__contains__, key=True))
def test_packed_steps_in_bfloat16_are_as_exact_as_plain_ones(name, batch):
    torch.manual_seed(0)
    model = create(CASES[name])
    model.to(torch.bfloat16).double()  # rounded weights: what is compared is the arithmetic
    exact = walk(model, batch)
    model.to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        plain, packed = walk(model, batch), walk(pack(model, BATCH), batch)
    for number, expected in enumerate(exact):
        assert packed[number].shape == expected.shape
        plain_error, error = ((found[number].double() - expected).abs().max() for found in (plain, packed))
        assert error <= 1.25 * plain_error + 0.005 * expected.abs().max()


@pytest.mark.parametrize("name", quick(CASES, DIFFERENT.__contains__, key=True))
def test_save_and_load_are_equal(name, batch):
    model = build(CASES[name])
    torch.manual_seed(99)
    other = create(CASES[name])
    stored.fill(other, stored.read_tensors(stored.pack(model), name), name)
    assert torch.equal(read(model, batch)[0], read(other, batch)[0])
    assert stored.pack(other) == stored.pack(model)


def test_bfloat16_autocast_runs_and_stays_near(model, batch):
    model = model.float()
    with torch.no_grad():
        for parameter in model.parameters():  # as they are drawn: sharper ones amplify every rounding, layer after layer
            parameter.mul_(0.5)
    exact = read(model, batch)[0].log_softmax(-1)
    with torch.autocast("cpu", torch.bfloat16):
        near = read(model, batch)[0].float().log_softmax(-1)
    assert near.isfinite().all()
    assert (near.exp() - exact.exp()).abs().max() < 0.1


def test_a_mechanism_of_ones_own(batch):
    config = CASES["luong"]
    mechanism = GeneralConfig().build(query_size=HIDDEN, key_size=38)
    model = build_translator(config, source_size=SOURCES, target_size=TARGETS, attention=mechanism).double().eval()
    assert any(module is mechanism for module in model.modules())
    same(read(model, batch)[0], step_by_step(model, batch)[0])


@pytest.mark.parametrize("name", ["bahdanau-deep", "luong-general", "luong-feeding"])
@pytest.mark.parametrize("kind", [Coverage, LocalMonotonic])
def test_a_mechanism_with_a_state(name, kind, batch):
    """What it carries follows its hypothesis, and all the queries of a known target in one call give the same."""
    torch.manual_seed(0)
    mechanism = kind(HIDDEN, key_size=2 * ENCODER.hidden_size)
    model = build_translator(CASES[name], source_size=SOURCES, target_size=TARGETS, attention=mechanism).double().eval()
    for check in (
        test_step_by_step_equals_all_at_once,
        test_feeding_its_own_words_equals_greedy,
        test_select_moves_hypotheses_and_keep_drops_sentences,
        test_beam_of_one_equals_greedy,
        test_searched_and_forced_agree,
    ):
        check(model, batch)
