"""Models that copy: searches over the extended vocabulary, gradients, and what they share with models that do not copy."""

import itertools
from dataclasses import replace

import pytest
import torch

from regard.config import (
    BahdanauDecoderConfig,
    CoverageConfig,
    EncoderConfig,
    LuongDecoderConfig,
    MultiHeadConfig,
    RecurrentConfig,
    TransformerConfig,
)
from regard.decoding import Guidance, Sampling, beam_search, force, greedy, sample
from regard.errors import ConfigError, RequestError
from regard.export.onnx import graphs_of
from regard.inference import pack
from regard.inference.ctranslate2 import check_convertible
from regard.models.build import build_translator
from regard.models.copying import CopyingModel
from regard.models.ensemble import Ensemble
from regard.tasks.objective import objective
from regard.text.batching import Batch
from regard.text.symbols import END, PAD, START, UNKNOWN

SOURCES, TARGETS = 13, 7
RECURRENT = RecurrentConfig(copy=True, embedding_size=5, encoder=EncoderConfig(hidden_size=3))
CASES = {
    "bahdanau": replace(RECURRENT, decoder=BahdanauDecoderConfig(hidden_size=11)),
    "coverage": replace(RECURRENT, decoder=BahdanauDecoderConfig(hidden_size=11, attention=CoverageConfig(), readout="concat")),
    "feeding": replace(RECURRENT, decoder=LuongDecoderConfig(hidden_size=11, input_feeding=True), tie_embeddings="target"),
    "heads": replace(RECURRENT, decoder=LuongDecoderConfig(hidden_size=12, attention=MultiHeadConfig(num_heads=2))),
    "transformer": TransformerConfig(
        copy=True, hidden_size=10, num_heads=2, feed_forward_size=9, encoder_layers=1, decoder_layers=2,
        embedding_dropout=0, layer_dropout=0,
    ),
}  # fmt: skip


def create(config, seed=0):
    torch.manual_seed(seed)
    model = build_translator(config, source_size=SOURCES, target_size=TARGETS).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


@pytest.fixture(params=CASES.values(), ids=CASES)
def model(request):
    return create(request.param)


@pytest.fixture
def batch():
    """Two sources: five tokens with an unknown word that occurs twice, and one token with the end symbol."""
    source = torch.tensor([[[4, 5], [1, 8], [6, 9], [1, 8], [3, 3]], [[1, 7], [3, 3], [0, 0], [0, 0], [0, 0]]])
    target_out = torch.tensor([[4, 8, 9, END], [7, END, PAD, PAD]])
    target_in = torch.tensor([[START, 4, 1, 1], [START, 1, PAD, PAD]])
    return Batch(source, source[..., 0] != PAD, target_in, target_out, target_out != PAD, torch.arange(2))


def test_step_by_step_equals_all_at_once(model, batch):
    """Also with the ids of copied words as input, which are unknown words to the model."""
    whole = model(batch.source, batch.target_in)
    assert whole.shape == (2, 4, TARGETS + 5)
    sums = whole.exp().sum(-1)[batch.target_mask]  # at padding, coverage has no weights
    torch.testing.assert_close(sums, torch.ones_like(sums))
    fed = torch.cat((batch.target_in[:, :1], batch.target_out[:, :-1]), 1)
    torch.testing.assert_close(model(batch.source, fed)[0], whole[0])
    state, steps = model.encode(batch.source, batch.source_mask), []
    for tokens in fed.split(1, 1):
        logits, maps, state = model.step(tokens, state, record=("cross", "p_gen"))
        steps.append(logits)
        assert bool(((maps["p_gen"] > 0) & (maps["p_gen"] < 1)).all())
    torch.testing.assert_close(torch.cat(steps, 1)[0], whole[0])
    alone = model(batch.source[1:, :2], batch.target_in[1:, :2])  # no padding, and a batch of one
    torch.testing.assert_close(alone[0, :, : TARGETS + 2], whole[1, :2, : TARGETS + 2])


def test_a_certain_gate_generates_as_without_copying(model, batch):
    with torch.no_grad():
        model.gate.weight.zero_()
        model.gate.bias.fill_(1e6)
    state = model.translator.encode(batch.source[..., 0], batch.source_mask)
    plain = model.output(model.translator.decode(batch.target_in, state)[0]).log_softmax(-1)
    torch.testing.assert_close(model(batch.source, batch.target_in)[..., :TARGETS], plain, rtol=1e-13, atol=0)


def test_every_parameter_gets_a_gradient(model, batch):
    loss, nll = objective(model, batch, attention_loss_weight=1.0)
    assert nll > 0
    loss.backward()
    assert all(one.grad is not None and bool(one.grad.isfinite().all()) for one in model.parameters())
    assert float(model.gate.weight.grad.abs().min()) > 0


def test_the_loss_is_that_of_the_scores_of_given_targets(model, batch):
    _, nll = objective(model, batch)
    forced = force(model, batch.source, batch.source_mask, batch.target_in, batch.target_out)
    assert float(nll) == pytest.approx(-sum(one.log_probability for one in forced), rel=1e-5)


def test_a_wide_beam_finds_the_best_of_all_targets(model, batch):
    """Of all targets of up to three symbols, the extended vocabulary included."""
    source, mask = batch.source[:1], batch.source_mask[:1]
    words = [word for word in range(TARGETS + 5) if word not in (PAD, START, END)]
    targets = [[*some, END] for size in range(3) for some in itertools.product(words, repeat=size)]
    possible = [one for one in targets if not set(one) & {TARGETS + 0, TARGETS + 3, TARGETS + 4}]  # ids of no word
    scores = {}
    for size in (1, 2, 3):
        same = torch.tensor([one for one in possible if len(one) == size])
        read = torch.cat((torch.full_like(same[:, :1], START), same[:, :-1]), 1)
        found = force(model, source.expand(len(same), -1, -1), mask.expand(len(same), -1), read, same)
        scores |= {tuple(one.tokens): one.log_probability for one in found}
    [best] = beam_search(model, source, mask, beam_size=150, max_length=3, length_penalty=0.0)
    assert best[0].log_probability == pytest.approx(max(scores.values()), rel=1e-4)
    assert scores[tuple(best[0].tokens)] == pytest.approx(best[0].log_probability, rel=1e-4)


def test_searches(model, batch):
    arguments = model, batch.source, batch.source_mask
    best = greedy(*arguments, max_length=6, no_repeat_ngrams=1, repetition_penalty=1.2)
    assert all(len(set(one.tokens)) == len(one.tokens) for one in best)
    drawn = sample(*arguments, Sampling(count=20), max_length=4, record=("p_gen",))[1]
    assert max(token for one in drawn for token in one.tokens) == TARGETS  # its one unknown word
    assert all(one.attention["p_gen"].shape == (len(one.token_log_probabilities), 1) for one in drawn)
    wanted = Guidance([[], []], [[[TARGETS + 1]], [[TARGETS, 4]]])
    for one, phrase in zip(beam_search(*arguments, beam_size=4, guidance=wanted), ([8], [7, 4]), strict=True):
        tokens = one[0].tokens
        assert any(tokens[start : start + len(phrase)] == phrase for start in range(len(tokens)))
    with pytest.raises(RequestError, match=r"record names the attention 'p_'"):
        greedy(*arguments, record=("p_",))


def test_packed(batch):
    for name in ("bahdanau", "transformer"):
        model = create(CASES[name]).float()
        with torch.inference_mode():
            packed = pack(model, 2)
            assert packed.packed
            assert packed.translator.packed
            state, own = (one.encode(batch.source, batch.source_mask) for one in (model, packed))
            tokens = torch.tensor([[TARGETS + 1], [4]])
            torch.testing.assert_close(packed.step(tokens, own)[0], model.step(tokens, state)[0])
        with torch.autocast("cpu", torch.bfloat16):
            assert all(one.finished or one.tokens for one in greedy(model, batch.source, batch.source_mask))


def test_an_ensemble_averages_the_extended_vocabulary(batch):
    one, two = create(CASES["bahdanau"]), create(CASES["coverage"], seed=1)
    both = Ensemble([one, two])
    mean = (one(batch.source, batch.target_in).exp() + two(batch.source, batch.target_in).exp()) / 2
    found = both(batch.source, batch.target_in).exp()
    torch.testing.assert_close(found[batch.target_mask], mean[batch.target_mask])
    [found, _] = greedy(both, batch.source, batch.source_mask, record=("p_gen",))
    fed = torch.tensor([[START, *found.tokens]])
    forced = force(both, batch.source[:1], batch.source_mask[:1], fed, torch.tensor([[*found.tokens, END]]))
    if found.finished:
        assert forced[0].log_probability == pytest.approx(found.log_probability, rel=1e-4)
    plain = build_translator(replace(RECURRENT, copy=False), source_size=SOURCES, target_size=TARGETS)
    with pytest.raises(RequestError, match="with and without"):
        Ensemble([one, plain])


def test_scheduled_sampling_feeds_copied_words_as_unknown_ones(batch):
    model = create(CASES["feeding"])
    with torch.no_grad():
        model.gate.bias.fill_(-50)  # it always copies
    fed = model.draft(batch.target_in, model.encode(batch.source, batch.source_mask), batch.target_in == START, None)
    assert set(fed[0, 1:].tolist()) <= {5, TARGETS + 1, TARGETS + 2, END}
    assert set(model._known(fed)[0, 1:].tolist()) <= {5, UNKNOWN, END}
    assert fed[1, 2:].tolist() == [PAD, PAD]
    objective(model, batch, use_gold=batch.target_in == START)[0].backward()


def test_padding_does_not_count_in_the_loss_of_coverage(batch):
    model, losses = create(CASES["coverage"]), []
    for padding in (0, 7):
        words = torch.tensor([[START, 1, *[PAD] * padding]])
        state = model.encode(batch.source[1:], batch.source_mask[1:])
        losses.append(model.decode(words, state, use_gold=words == START)[1].loss)
    torch.testing.assert_close(losses[1], losses[0])


def test_the_end_is_allowed_where_no_other_word_is(batch):
    limits = {"min_length": 25, "no_repeat_ngrams": 1, "suppress_unknown": True}
    found = greedy(create(CASES["transformer"]), batch.source, batch.source_mask, max_length=30, **limits)
    assert [(one.finished, len(set(one.tokens)) == len(one.tokens)) for one in found] == [(True, True)] * 2


def test_refusals():
    model = create(CASES["transformer"])
    with pytest.raises(RequestError, match=r"copies source words \(model.copy\), which neither ONNX graphs nor pages"):
        graphs_of(model)
    with pytest.raises(RequestError, match=r"copies source words \(model.copy\), which CTranslate2 cannot express"):
        check_convertible(model)
    blind = create(CASES["bahdanau"]).translator
    blind.sites = ()
    with pytest.raises(ConfigError, match="has no attention to its source"):
        CopyingModel(blind)
