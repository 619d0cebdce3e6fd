"""Steps of a decoder against whole targets, as hypotheses move and sentences leave, with both caches."""

from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.attention import ALiBi, RelativePositions, Rotary
from regard.config import TransformerConfig
from regard.layers.cache import DecoderCache, PooledCache, RowCache
from regard.layers.transformer import TransformerDecoder
from regard.models.transformer.build import build_decoder
from regard.reweight import Sites, sharpen

WIDTH, HEADS, SOURCE = 12, 3, 7
CONFIG = TransformerConfig(hidden_size=WIDTH, num_heads=HEADS, feed_forward_size=17, decoder_layers=2)
RECORD = ("decoder.0", "decoder.1", "cross.1")


def build(positions: RelativePositions | None = None, **changes: object) -> TransformerDecoder:
    torch.manual_seed(0)
    decoder = build_decoder(replace(CONFIG, **changes)).eval()
    for layer in decoder.layers:
        layer.self_attention.positions = positions or layer.self_attention.positions
    return decoder


def texts(rows: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(rows, SOURCE, WIDTH), torch.arange(SOURCE) < torch.randint(1, SOURCE + 1, (rows, 1))


@pytest.fixture(autouse=True)
def nothing_relies_on_new_memory():
    """Fill new memory with NaN, which attention must not read."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


class Plain:
    """A search by whole targets: the past of each hypothesis is read anew at every step."""

    def __init__(self, decoder: TransformerDecoder, states: Tensor, mask: Tensor) -> None:
        self.decoder, self.states, self.mask = decoder, states, mask
        self.past = states.new_zeros(len(states), 1, 0, WIDTH)

    def step(self, x: Tensor, reweight: dict | None = None) -> tuple[Tensor, dict[str, Tensor]]:
        self.past = torch.cat([self.past, x[:, :, None]], 2)
        rows, count = x.shape[:2]
        states, mask = (part.repeat_interleave(count, 0) for part in (self.states, self.mask))
        sites = Sites(RECORD, reweight)
        found = self.decoder(self.past.flatten(0, 1), self.decoder.prepare(states, mask), sites)
        maps = {site: each[:, :, -1].unflatten(0, (rows, count)).transpose(1, 2) for site, each in sites.maps.items()}
        return found[:, -1].unflatten(0, (rows, count)), maps

    def select(self, beam: Tensor) -> None:
        self.past = self.past[torch.arange(len(beam))[:, None], beam]

    def keep(self, rows: Tensor) -> None:
        self.past, self.states, self.mask = self.past[rows], self.states[rows], self.mask[rows]


@dataclass(frozen=True)
class Search:
    """A decoder, its source, and the words so far."""

    decoder: TransformerDecoder
    memories: tuple
    cache: DecoderCache | None = None

    def advance(self, x: Tensor, reweight: dict | None = None):
        sites = Sites(RECORD, reweight)
        found, cache = self.decoder.step(x, self.memories, self.cache, sites)
        return found, sites.maps, replace(self, cache=cache)

    def select(self, beam: Tensor):
        return replace(self, cache=self.cache.select(beam))

    def keep(self, rows: Tensor):
        return replace(self, memories=tuple(each.select(rows) for each in self.memories), cache=self.cache.keep(rows))


def begin(decoder: TransformerDecoder, states: Tensor, mask: Tensor) -> Search:
    return Search(decoder, decoder.prepare(states, mask))


class PerHead(RelativePositions):
    """Adds a learned number for each head, which differs from step to step."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(1.0, HEADS + 1))

    def rotate(self, heads, start):
        steps = start + torch.arange(heads.shape[2], dtype=self.weight.dtype)
        return heads + (self.weight[:, None] * steps).sin()[..., None]


def replaced() -> Rotary:
    rotary = Rotary()
    rotary.rotate = Rotary(3.0).rotate
    return rotary


@pytest.mark.parametrize(
    ("positions", "changes", "cls"),
    [
        (None, {"norm_order": "post"}, PooledCache),
        (Rotary, {}, PooledCache),
        (partial(Rotary, layout="half"), {}, PooledCache),
        (replaced, {}, PooledCache),
        (None, {"norm_order": "deep", "heads": {"talking_heads": True}}, RowCache),
        (PerHead, {}, RowCache),
        (lambda: ALiBi(HEADS), {}, RowCache),
    ],
    ids=["post", "rotary", "half", "replaced rotate", "modifier", "own positions", "bias"],
)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10_000), beam_size=st.integers(1, 4), rows=st.integers(1, 9))
@torch.no_grad()
def test_steps_equal_whole_targets(positions, changes, cls, seed, beam_size, rows):
    if "heads" in changes:
        changes = {**changes, "heads": replace(CONFIG.heads, talking_heads=True)}
    decoder = build(positions and positions(), **changes)
    states, mask = texts(rows)
    plain, state = Plain(decoder, states, mask), begin(decoder, states, mask)
    draw = torch.Generator().manual_seed(seed)
    count = 1
    for number in range(13):  # beyond the first free places of a pool
        reweight = {"decoder.1": sharpen(2), "cross": sharpen(3)} if number % 5 == 4 else None
        x = torch.randn(rows, count, WIDTH, generator=draw)
        if reweight is None:
            expected, expected_maps = plain.step(x)
        found, maps, after = state.advance(x, reweight)
        assert isinstance(after.cache, cls)
        assert maps.keys() == set(RECORD)
        if reweight is None:
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
            for site, weights in maps.items():
                torch.testing.assert_close(weights, expected_maps[site], atol=1e-5, rtol=1e-5)
        else:  # the keys of the second layer depend on the replaced weights of the first, so the search ends here
            found, _, after = state.advance(x)
            expected, _ = plain.step(x)
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        state = after
        if rows > 1 and torch.rand((), generator=draw) < 0.4:
            kept = (torch.rand(rows, generator=draw) < 0.8).nonzero()[:, 0]
            kept = kept if len(kept) else torch.tensor([0])
            plain.keep(kept)
            state, rows = state.keep(kept), len(kept)
        size = beam_size if torch.rand((), generator=draw) < 0.7 else 1
        beam = torch.randint(0, count, (rows, size), generator=draw)
        plain.select(beam)
        state, count = state.select(beam), size


@pytest.mark.parametrize("steps", [1, 4])
def test_both_caches_replace_weights_alike(steps):
    decoder, change = build(Rotary()), {"decoder.1": sharpen(2), "cross.0": sharpen(3)}
    found = []
    for gradients in (True, False):
        torch.manual_seed(3)
        with torch.set_grad_enabled(gradients):
            state = begin(decoder, *texts(4))
            for _ in range(steps):
                _, _, state = state.advance(torch.randn(4, 1, WIDTH))
            state = state.select(torch.zeros(4, 3, dtype=torch.long))
            _, _, state = state.advance(torch.randn(4, 3, WIDTH))
            state = state.select(torch.tensor([[2, 0, 1]] * 4))
            found.append(state.advance(torch.randn(4, 3, WIDTH), change))
    (rows, row_maps, _), (pooled, pooled_maps, _) = found
    torch.testing.assert_close(rows, pooled, atol=1e-5, rtol=1e-5)
    for site in RECORD:
        torch.testing.assert_close(row_maps[site], pooled_maps[site], atol=1e-5, rtol=1e-5)


def test_gradients_flow_through_the_steps():
    decoder, (states, mask) = build(), texts(2)
    x = torch.randn(3, 2, 1, WIDTH, requires_grad=True)
    state = begin(decoder, states, mask)
    for word in x:
        found, _, state = state.advance(word)
    assert isinstance(state.cache, RowCache)
    found.sum().backward()
    assert (x.grad.abs().sum((1, 2, 3)) > 0).all()


@torch.no_grad()
def test_two_steps_from_one_state_do_not_disturb_each_other():
    decoder = build()
    state = begin(decoder, *texts(5))
    _, _, state = state.advance(torch.randn(5, 1, WIDTH))
    x, other = torch.randn(2, 5, 1, WIDTH)
    _, _, one = state.advance(x)
    before, _, _ = one.advance(x)
    state.advance(other)
    after, _, _ = one.advance(x)
    assert torch.equal(before, after)


@torch.no_grad()
def test_a_step_copies_nothing_where_there_is_space():
    state = begin(build(), *texts(5))
    for _ in range(2):
        before = state
        _, _, state = state.advance(torch.randn(5, 1, WIDTH))
    assert state.cache.pool is before.cache.pool
    moved = state.select(torch.zeros(5, 1, dtype=torch.long))
    assert moved.cache.pool is state.cache.pool


@torch.no_grad()
@pytest.mark.parametrize("positions", [None, Rotary, partial(Rotary, layout="half"), PerHead])
def test_no_sentences(positions):
    state = begin(build(positions and positions()), *texts(5))
    _, _, state = state.advance(torch.randn(5, 1, WIDTH))
    none = state.select(torch.zeros(5, 2, dtype=torch.long)).keep(torch.empty(0, dtype=torch.long))
    assert none.advance(torch.randn(0, 2, WIDTH))[0].shape == (0, 2, WIDTH)


@torch.no_grad()
def test_hooked_and_replaced_parts_are_called():
    for change in (hook_the_attention, patch_the_keys):
        decoder, x = build(), torch.randn(2, 1, WIDTH)
        before = begin(decoder, *texts(2)).advance(x)[0]
        change(decoder)
        found, _, state = begin(decoder, *texts(2)).advance(x)
        assert isinstance(state.cache, RowCache)
        if change is patch_the_keys:
            assert torch.equal(found, before)


def hook_the_attention(decoder: TransformerDecoder) -> None:
    decoder.layers[1].self_attention.register_forward_hook(lambda module, inputs, output: None)


def patch_the_keys(decoder: TransformerDecoder) -> None:
    decoder.layers[1].self_attention.prepare = decoder.layers[1].self_attention.prepare
