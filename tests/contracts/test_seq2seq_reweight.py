"""The part of the battery for models that changes attention weights: at every site, step and search, with one result."""

import pytest
import torch
from contracts.test_seq2seq import BATCH, CASES, bahdanau, batch, build, joined, language, luong, same, transformer
from quick import quick
from torch import Tensor

from regard.attention import Coverage
from regard.decoding import Sampling, beam_search, force, greedy, sample
from regard.errors import RequestError
from regard.inference import pack
from regard.models.build import build_translator
from regard.models.ensemble import Ensemble
from regard.models.language.transformer import TransformerLanguageModel
from regard.models.seq2seq import Seq2Seq
from regard.reweight import at_step, attend_to, chain, erase, flatten, sharpen
from regard.text.symbols import END, START

__all__ = ["batch"]
DIFFERENT = {"bahdanau-deep", "luong", "luong-feeding", "transformer", "transformer-rotary", "language"}
"""Cases that `make test` runs; `make test-slow` takes the others, too."""


@pytest.fixture(params=quick(CASES, DIFFERENT.__contains__))
def model(request) -> Seq2Seq:
    return build(request.param)


def used(model: Seq2Seq) -> list[str]:
    """Sites whose weights can be changed; `cross` of a Transformer is all of its layers."""
    return [site for site in model.sites if site not in model.derived and (site != "cross" or "cross.0" not in model.sites)]


def kinds(model: Seq2Seq) -> list[str]:
    return sorted({site.partition(".")[0] for site in used(model)})


def everywhere(model: Seq2Seq, function) -> dict:
    return dict.fromkeys(kinds(model), function)


def read(model: Seq2Seq, batch, reweight, target_in: Tensor | None = None) -> tuple[Tensor, dict[str, Tensor]]:
    source, mask = batch[:2]
    state = model.encode(source, mask, record=model.sites, reweight=reweight)
    features, attention = model.decode(
        batch[2] if target_in is None else target_in, state, record=model.sites, reweight=reweight
    )
    return model.logits(features), attention


def step_by_step(model: Seq2Seq, batch, reweight) -> tuple[Tensor, dict[str, Tensor]]:
    state, logits, maps = model.encode(*batch[:2], record=model.sites, reweight=reweight), [], []
    for tokens in batch[2].split(1, 1):
        scores, attention, state = model.step(tokens, state, record=model.sites, reweight=reweight)
        logits.append(scores)
        maps.append(attention)
    return torch.cat(logits, 1), {site: joined([step[site] for step in maps], site) for site in model.sites}


def test_the_same_weights_change_nothing(model, batch):
    plain, maps = read(model, batch, None)
    found, changed = read(model, batch, everywhere(model, lambda weights, mask: weights))
    same(found, plain)
    for site in model.sites:
        same(changed[site], maps[site])


CHANGES = {
    "flatten": flatten,
    "sharpen": sharpen(3),
    "erase": erase(1),
    "attend_to": attend_to(0, 2),
    "one step": at_step(2, attend_to(1)),
    "several": chain(at_step((1, 3), attend_to(0)), at_step(4, flatten), erase(2)),
}


@pytest.mark.parametrize("change", quick(CHANGES, lambda name: name == "several"))
def test_step_by_step_equals_all_at_once(model, batch, change):
    for site in [*used(model), *kinds(model)]:
        reweight = {site: change}
        (logits, attention), (steps, by_steps) = read(model, batch, reweight), step_by_step(model, batch, reweight)
        same(logits, steps)
        for each in model.sites:
            same(attention[each], by_steps[each])


def test_every_site_is_changed_and_recorded(model, batch):
    plain, maps = read(model, batch, None)
    for site in used(model):
        logits, changed = read(model, batch, {site: flatten})
        assert not torch.allclose(logits, plain)
        allowed = (maps[site] > 0).double()
        same(changed[site], allowed / allowed.sum(-1, keepdim=True))


def test_a_step_leaves_earlier_ones_alone(model, batch):
    plain, _ = read(model, batch, None)
    kind = "decoder" if isinstance(model, TransformerLanguageModel) else "cross"
    found, _ = read(model, batch, {kind: at_step(3, attend_to(0))})
    same(found[:, :3], plain[:, :3])
    assert not torch.allclose(found[:, 3], plain[:, 3])


def test_a_layer_of_its_own_comes_first(batch):
    model = build(CASES["transformer"])
    one = read(model, batch, {"cross": flatten, "cross.1": sharpen(3)})[0]
    same(one, read(model, batch, {"cross.0": flatten, "cross.1": sharpen(3), "cross.2": flatten})[0])


def test_a_call_takes_it_too(model, batch):
    reweight = everywhere(model, flatten)
    given = (batch[2],) if isinstance(model, TransformerLanguageModel) else (batch[0], batch[2], batch[1])
    same(model(*given, reweight=reweight), read(model, batch, reweight)[0])


def test_its_own_words_are_those_of_greedy_search(model, batch):
    """With nothing gold but the start, the words that are fed are chosen under the changed weights."""
    reweight, use_gold = everywhere(model, sharpen(3)), torch.zeros_like(batch[2], dtype=torch.bool)
    use_gold[:, 0] = True
    state = model.encode(*batch[:2], reweight=reweight)
    logits = model.logits(model.decode(batch[2], state, use_gold=use_gold, reweight=reweight)[0])
    own = torch.cat([batch[2][:, :1], logits.argmax(-1)[:, :-1]], 1)
    same(logits, read(model, batch, reweight, own)[0])


def check_search(model: Seq2Seq, batch, searched, reweight) -> None:
    """What a search reports is what the model gives for its words under the same weights."""
    source, mask = batch[:2]
    for row, hypotheses in enumerate(searched):
        one = slice(row, row + 1)
        for hypothesis in [h for h in hypotheses if h.finished]:
            target_in, target_out = torch.tensor([[START, *hypothesis.tokens]]), torch.tensor([[*hypothesis.tokens, END]])
            given = (source[one], mask[one], target_in, target_out)
            [forced] = force(model, *given, record=model.sites, reweight=reweight)
            assert hypothesis.log_probability == pytest.approx(forced.log_probability, rel=1e-4, abs=1e-4)
            for site in model.sites:
                ours, expected = (torch.tensor(one.attention[site]) for one in (hypothesis, forced))
                torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "change", quick({"flatten": flatten, "steps": at_step((0, 2), attend_to(0))}, lambda name: name == "steps")
)
def test_searches_keep_the_changed_weights(model, batch, change):
    reweight = everywhere(model, change)
    options = {"max_length": 9, "record": model.sites, "reweight": reweight}
    beams = beam_search(model, *batch[:2], beam_size=4, n_best=4, **options)
    check_search(model, batch, beams, reweight)
    found = greedy(model, *batch[:2], **options)
    check_search(model, batch, [[one] for one in found], reweight)
    check_search(model, batch, sample(model, *batch[:2], Sampling(count=3), **options), reweight)
    for one, [other] in zip(found, beam_search(model, *batch[:2], beam_size=1, **options), strict=True):
        assert one.tokens == other.tokens
    plain = beam_search(model, *batch[:2], beam_size=4, n_best=4, max_length=9)
    assert [h.score for each in plain for h in each] != [h.score for each in beams for h in each]


def test_what_a_stateful_mechanism_carries_is_the_changed_weights(batch):
    for name in ("bahdanau-deep", "luong-general", "luong-feeding"):
        torch.manual_seed(0)
        mechanism = Coverage(17, key_size=38)
        model = build_translator(CASES[name], source_size=29, target_size=31, attention=mechanism).double().eval()
        test_searches_keep_the_changed_weights(model, batch, at_step((0, 2), attend_to(0)))
        test_step_by_step_equals_all_at_once(model, batch, at_step((1, 3), attend_to(0)))


@torch.no_grad()
def test_packed_models_change_weights_too(model, batch):
    packed, reweight = pack(model, BATCH), everywhere(model, sharpen(3))
    assert packed is not model
    for ours, expected in zip(step_by_step(packed, batch, reweight), step_by_step(model, batch, reweight), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-8, atol=1e-10)


@torch.no_grad()
def test_a_packed_model_changes_weights_that_its_encoder_left_alone(model, batch):
    packed, whole = pack(model, BATCH), torch.ones_like(batch[1])
    kind = "decoder" if isinstance(model, TransformerLanguageModel) else "cross"
    source = batch[0].masked_fill(batch[0] == 0, 5)
    words, reweight = batch[2][:, :1], {kind: attend_to(0)}
    found = [one.step(words, one.encode(source, whole), reweight=reweight)[0] for one in (packed, model)]
    same(*found)


def test_ensembles_change_the_weights_of_all_members(batch):
    members = [build(CASES["transformer"]), build(CASES["luong"])]
    reweight = {"cross": sharpen(2)}
    ensemble = Ensemble(members)
    logits, _ = read(ensemble, batch, reweight)
    each = torch.stack([read(one, batch, reweight)[0].softmax(-1) for one in members])
    same(logits.exp(), each.mean(0))
    same(logits, step_by_step(ensemble, batch, reweight)[0])
    options = {"max_length": 9, "record": ensemble.sites, "reweight": reweight}
    check_search(ensemble, batch, beam_search(ensemble, *batch[:2], beam_size=3, n_best=3, **options), reweight)
    with pytest.raises(
        RequestError, match=r"^reweight names the attention 'cross.0'; this model has: cross; did you mean 'cross'\?$"
    ):
        read(ensemble, batch, {"cross.0": flatten})


@pytest.mark.parametrize("call", ["encode", "decode", "step", "greedy"])
def test_unknown_sites_are_refused(model, batch, call):
    state, wrong = model.encode(*batch[:2]), {"crss": flatten}
    calls = {
        "encode": lambda: model.encode(*batch[:2], reweight=wrong),
        "decode": lambda: model.decode(batch[2], state, reweight=wrong),
        "step": lambda: model.step(batch[2][:, :1], state, reweight=wrong),
        "greedy": lambda: greedy(model, *batch[:2], reweight=wrong),
    }
    with pytest.raises(RequestError, match=r"^reweight names the attention 'crss'; this model has: "):
        calls[call]()


def test_sites_that_are_computed_from_others_are_refused(batch):
    with pytest.raises(RequestError, match=r"^reweight names the attention 'norm.1'; this model has: cross, cross.0"):
        read(build(CASES["transformer"]), batch, {"norm.1": flatten})


def test_what_is_no_function_is_refused(model, batch):
    with pytest.raises(RequestError, match=r"^reweight is a function, expected functions by site, as in reweight={'cross': f"):
        model.encode(*batch[:2], reweight=flatten)
    kind = kinds(model)[0]
    with pytest.raises(RequestError, match=rf"^reweight\['{kind}'\]: got a float, expected a function of weights and mask"):
        model.encode(*batch[:2], reweight={kind: 0.5})


def attended(attention, query: Tensor, states: Tensor, allowed: Tensor, even: bool) -> Tensor:
    """Multi-head attention by its formula, head by head; with `even` all that may be attended to counts the same.

    Args:
        attention: Whose maps are used.
        query: (Q,D).
        states: (K,D).
        allowed: (Q,K).
        even: Whether weights are uniform.
    """
    maps = (attention.query_projection, attention.key_projection, attention.value_projection)
    heads = attention.num_heads
    (q, k, v) = (map(x).unflatten(-1, (heads, -1)) for map, x in zip(maps, (query, states, states), strict=True))
    context = []
    for head in range(heads):
        scores = (q[:, head] @ k[:, head].T / q.shape[-1] ** 0.5).exp() * allowed
        weights = allowed.double() if even else scores
        context.append(weights / weights.sum(-1, keepdim=True) @ v[:, head])
    return attention.output_projection(torch.cat(context, -1))


def by_hand(model, source: Tensor, target_in: Tensor, even: str) -> Tensor:
    """The scores of one target by a Transformer of one layer and one: pre-norm, sinusoidal positions."""
    size, width = len(target_in), model.decoder.size

    def embed(embedding, positions, tokens):
        return positions(embedding(tokens)[None] * width**0.5)[0]

    def layer(x, each, parts):
        for attention, residual, states, allowed, is_even in parts:
            read = residual.norm(x)
            x = x + attended(attention, read, read if states is None else states, allowed, is_even)
        return x + each.feed_forward(each.feed_forward_residual.norm(x))

    own = torch.ones(size, size).tril().bool()
    if isinstance(model, TransformerLanguageModel):
        each = model.decoder.layers[0]
        x = embed(model.embedding, model.positions, target_in)
        x = layer(x, each, [(each.attention, each.attention_residual, None, own, even == "decoder")])
        return model.output(model.decoder.norm(x))
    each = model.encoder.layers[0]
    x = embed(model.source_embedding, model.source_positions, source)
    all_words = torch.ones(len(source), len(source)).bool()
    x = layer(x, each, [(each.attention, each.attention_residual, None, all_words, even == "encoder")])
    states, each = model.encoder.norm(x), model.decoder.layers[0]
    x = embed(model.target_embedding, model.target_positions, target_in)
    to_source = torch.ones(size, len(source)).bool()
    parts = [
        (each.self_attention, each.self_residual, None, own, even == "decoder"),
        (each.cross_attention, each.cross_residual, states, to_source, even == "cross"),
    ]
    return model.output(model.decoder.norm(layer(x, each, parts)))


@pytest.mark.parametrize("site", ["", "cross", "encoder", "decoder"])
def test_uniform_weights_of_a_transformer_by_hand(site, batch):
    model = build(transformer(encoder_layers=1, decoder_layers=1, positions="sinusoidal"))
    source, target = batch[0][0], batch[2][0]
    found = model(source[None], target[None], reweight={site: flatten} if site else None)[0]
    same(found, by_hand(model, source, target, site))


@pytest.mark.parametrize("site", ["", "decoder"])
def test_uniform_weights_of_a_language_model_by_hand(site, batch):
    model = build(language(num_layers=1, positions="sinusoidal"))
    found = model(batch[2][:1], reweight={site: flatten} if site else None)[0]
    same(found, by_hand(model, batch[0][0], batch[2][0], site))


RECURRENT = {"luong": luong(), "bahdanau": bahdanau(readout="deep"), "feeding": luong(input_feeding=True)}


@pytest.mark.parametrize("name", RECURRENT)
def test_uniform_weights_of_a_recurrent_model_by_hand(name, batch):
    """With the same weight everywhere, the context is the mean of the source's states at every step."""
    model = build(RECURRENT[name])
    source, target = batch[0][:1], batch[2][:1]
    state = model.encode(source, source > 0)
    states, decoder = state.memory.value[0], model.decoder
    context, [layer] = states.mean(0)[None, None], decoder.layers
    hidden, features = (state.hidden[0], None if state.cell is None else state.cell[0]), []
    fed = torch.zeros(1, 1, decoder.readout.size, dtype=torch.float64)
    for word in model.target_embedding(target).split(1, 1):
        beside = {"luong": [], "bahdanau": [context], "feeding": [fed]}[name]
        output, cell = layer.step(torch.cat([word, *beside], -1), hidden)
        hidden = output, cell
        fed = decoder.readout(output, context, word)
        features.append(fed)
    same(model(source, target, reweight={"cross": flatten}), model.output(torch.cat(features, 1)))
