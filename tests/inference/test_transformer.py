"""The packed decoder against the plain one, step by step, as hypotheses move and sentences leave."""

from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.attention import ALiBi, MultiHead, RelativePositions, Rotary
from regard.errors import RequestError
from regard.inference.transformer import PackedDecoder, PooledCache, pack_decoder
from regard.layers.cache import LayerCaches
from regard.layers.pool import Pool
from regard.layers.transformer import DecoderLayer, DecoderRequest, TransformerDecoder
from regard.layers.transformer_build import Blueprint, build_decoder

WIDTH, HEADS, LAYERS, SOURCE = 12, 3, 2, 7
RECORD = DecoderRequest(own=(0, 1), across=(1,))
NOTHING = DecoderRequest()


def build(**changes: object) -> TransformerDecoder:
    torch.manual_seed(0)
    settings = {"size": WIDTH, "num_heads": HEADS, "feed_forward_size": 17, **changes}
    return build_decoder(Blueprint(**settings), num_layers=LAYERS).eval()


def texts(rows: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(rows, SOURCE, WIDTH), torch.arange(SOURCE) < torch.randint(1, SOURCE + 1, (rows, 1))


@pytest.fixture(autouse=True, scope="module")
def nothing_relies_on_new_memory():
    """Fill the memory of new pools with NaN, which attention must not read."""
    empty = Pool._empty

    def damaged(pool: Pool, *sizes: object) -> Pool:
        made = empty(pool, *sizes)
        made.storage.fill_(torch.nan)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pool, "_empty", damaged)
        yield


class Plain:
    """A search by the plain decoder: the whole past of each hypothesis, read anew at every step."""

    def __init__(self, decoder: TransformerDecoder, states: Tensor, mask: Tensor) -> None:
        self.decoder, self.states, self.mask = decoder, states, mask
        self.past = states.new_zeros(len(states), 1, 0, WIDTH)

    def step(self, x: Tensor) -> tuple[Tensor, dict[int, Tensor], dict[int, Tensor]]:
        self.past = torch.cat([self.past, x[:, :, None]], 2)
        rows, count = x.shape[:2]
        states, mask = (part.repeat_interleave(count, 0) for part in (self.states, self.mask))
        found, weights = self.decoder(self.past.flatten(0, 1), self.decoder.prepare(states, mask), RECORD)
        last = found[:, -1].unflatten(0, (rows, count))
        own, across = (
            {number: each[:, :, -1].unflatten(0, (rows, count)).transpose(1, 2) for number, each in kind.items()}
            for kind in (weights.own, weights.across)
        )
        return last, own, across

    def select(self, beam: Tensor) -> None:
        self.past = self.past[torch.arange(len(beam))[:, None], beam]

    def keep(self, rows: Tensor) -> None:
        self.past, self.states, self.mask = self.past[rows], self.states[rows], self.mask[rows]


@dataclass(frozen=True)
class Search:
    """A packed decoder, its source, and the words so far."""

    packed: PackedDecoder
    memories: tuple
    cache: PooledCache | None = None

    def advance(self, x: Tensor, request: DecoderRequest):
        found, weights, cache = self.packed.step(x, self.memories, self.cache, request)
        assert isinstance(cache, PooledCache)
        return found, weights, replace(self, cache=cache)

    def select(self, beam: Tensor):
        return replace(self, cache=self.cache.select(beam))

    def keep(self, rows: Tensor):
        return replace(self, memories=tuple(each.select(rows) for each in self.memories), cache=self.cache.keep(rows))


def begin(decoder: TransformerDecoder, states: Tensor, mask: Tensor) -> Search:
    packed = pack_decoder(decoder, len(mask))
    assert packed is not None
    return Search(packed, packed.prepare(states, mask))


class Shift(RelativePositions):
    """Adds a number that depends on the position, so that twice the query does not give twice the result."""

    def rotate(self, heads, start):
        return heads + (start + torch.arange(heads.shape[2], dtype=heads.dtype)).sin()[:, None]


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
    "changes",
    [
        {"order": "post"},
        {"order": "pre"},
        {"order": "pre", "build_positions": Rotary},
        {"order": "pre", "build_positions": Shift},
        {"order": "pre", "build_positions": PerHead},
        {"order": "pre", "build_positions": replaced},
    ],
    ids=["post", "pre", "rotary", "own positions", "own positions of each head", "replaced rotate"],
)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10_000), beam_size=st.integers(1, 4), rows=st.integers(4, 9))
@torch.no_grad()
def test_equals_the_plain_decoder(changes, seed, beam_size, rows):
    decoder = build(**changes)
    states, mask = texts(rows)
    plain, state = Plain(decoder, states, mask), begin(decoder, states, mask)
    draw = torch.Generator().manual_seed(seed)
    count = 1
    for _ in range(13):  # beyond the room of a pool
        x = torch.randn(rows, count, WIDTH, generator=draw)
        wanted, own, across = plain.step(x)
        found, given, state = state.advance(x, RECORD)
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
        for weights, expected in ((given.own, own), (given.across, across)):
            assert weights.keys() == expected.keys()
            for number in expected:
                torch.testing.assert_close(weights[number], expected[number], atol=1e-5, rtol=1e-5)
        if rows > 1 and torch.rand((), generator=draw) < 0.4:
            kept = (torch.rand(rows, generator=draw) < 0.8).nonzero()[:, 0]
            kept = kept if len(kept) else torch.tensor([0])
            plain.keep(kept)
            state, rows = state.keep(kept), len(kept)
        size = beam_size if torch.rand((), generator=draw) < 0.7 else 1  # fewer hypotheses than the pool has places for
        beam = torch.randint(0, count, (rows, size), generator=draw)
        plain.select(beam)
        state, count = state.select(beam), size


@torch.no_grad()
def test_two_steps_from_one_state_do_not_disturb_each_other():
    decoder = build()
    state = begin(decoder, *texts(5))
    _, _, state = state.advance(torch.randn(5, 1, WIDTH), NOTHING)
    x, other = torch.randn(2, 5, 1, WIDTH)
    _, _, one = state.advance(x, NOTHING)
    before, _, _ = one.advance(x, NOTHING)
    state.advance(other, NOTHING)
    after, _, _ = one.advance(x, NOTHING)
    assert torch.equal(before, after)


@torch.no_grad()
@pytest.mark.parametrize("positions", [None, Rotary, partial(Rotary, layout="half"), Shift])
@pytest.mark.parametrize("wanted", [NOTHING, RECORD])
def test_no_sentences(wanted, positions):
    decoder = build(**({"build_positions": positions} if positions else {}))
    state = begin(decoder, *texts(5))
    _, _, state = state.advance(torch.randn(5, 1, WIDTH), NOTHING)
    none = state.select(torch.zeros(5, 2, dtype=torch.long)).keep(torch.empty(0, dtype=torch.long))
    found, _, _ = none.advance(torch.randn(0, 2, WIDTH), wanted)
    assert found.shape == (0, 2, WIDTH)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=["float64", "bfloat16"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"order": "pre", "norm": "rms", "feed_forward": "swiglu", "build_positions": Rotary},
        {"order": "deep", "feed_forward": "gelu"},
        {"order": "pre", "build_positions": PerHead},
    ],
    ids=["post", "pre", "deep", "own positions"],
)
def test_other_dtypes(dtype, changes):
    """The packed decoder in float64 is exact; in bfloat16 it is at least as close to float64 as the plain one."""
    exact = build(**changes).double()
    decoder = build(**changes).to(dtype)
    for ours, reference in zip(decoder.parameters(), exact.parameters(), strict=True):
        reference.copy_(ours)
    states, mask = texts(6)
    plain, other, state = Plain(exact, states.double(), mask), Plain(decoder, states.to(dtype), mask), None
    errors, others = [], []
    with torch.autocast("cpu", dtype, enabled=dtype == torch.bfloat16):
        state = begin(decoder, states.to(dtype), mask)
        for _ in range(9):
            x = torch.randn(6, 2 if state.cache else 1, WIDTH).to(dtype)
            with torch.autocast("cpu", enabled=False):
                expected, own, across = plain.step(x.double())
            found, given, state = state.advance(x, RECORD)
            assert found.dtype == torch.promote_types(dtype, torch.float32)
            errors.append((found - expected).abs().max().item())
            others.append((other.step(x)[0] - expected).abs().max().item())
            if dtype == torch.float64:
                torch.testing.assert_close(given.own[1], own[1])
                torch.testing.assert_close(given.across[1], across[1])
            beam = torch.randint(0, x.shape[1], (6, 2))
            for one in (plain, other):
                one.select(beam)
            state = state.select(beam)
    assert max(errors) < 1e-12 if dtype == torch.float64 else max(errors) <= 1.1 * max(others) < 0.2


@torch.no_grad()
def test_other_formulas_are_not_packed():
    assert pack_decoder(build(), 6) is not None
    for change in (
        hook_a_projection,
        hook_the_feed_forward,
        take_own_layers,
        take_own_attention,
        take_own_maps,
        take_biased_positions,
        take_fewer_heads,
        patch_a_step,
        patch_the_keys,
    ):
        other = build()
        change(other)
        assert pack_decoder(other, 6) is None


@torch.no_grad()
def test_empty_sources_and_changed_weights_are_left_to_the_decoder_itself():
    decoder, (states, mask) = build(), texts(5)
    packed, x = pack_decoder(decoder, 5), torch.randn(5, 1, WIDTH)
    some = mask & (torch.arange(5) > 0)[:, None]
    halved = DecoderRequest(reweight_across={1: lambda weights, mask: weights / 2})
    for each, request in ((some, RECORD), (mask, halved)):
        found, _, cache = packed.step(x, packed.prepare(states, each), None, request)
        expected, _, _ = decoder.step(x, decoder.prepare(states, each), None, request)
        assert isinstance(cache, LayerCaches)
        assert torch.equal(found, expected)
    _, _, cache = packed.step(x, packed.prepare(states, mask), None)
    with pytest.raises(RequestError, match="give the same reweight to the first step"):
        packed.step(x, packed.prepare(states, mask), cache, halved)


def take_biased_positions(decoder: TransformerDecoder) -> None:
    decoder.layers[1].self_attention.positions = ALiBi(HEADS)


def take_fewer_heads(decoder: TransformerDecoder) -> None:
    decoder.layers[0].cross_attention = MultiHead(WIDTH, num_heads=2)


def hook_the_feed_forward(decoder: TransformerDecoder) -> None:
    decoder.layers[0].feed_forward.register_forward_hook(lambda module, inputs, output: 0 * output)


def hook_a_projection(decoder: TransformerDecoder) -> None:
    decoder.layers[0].cross_attention.output_projection.register_forward_hook(lambda module, inputs, output: 0 * output)


def take_own_layers(decoder: TransformerDecoder) -> None:
    decoder.layers[1].__class__ = type("Mine", (DecoderLayer,), {"step": lambda self, *inputs, **options: None})


def take_own_attention(decoder: TransformerDecoder) -> None:
    mine = type("Mine", (MultiHead,), {"attend": lambda self, *inputs, **options: None})
    decoder.layers[1].cross_attention.__class__ = mine


def take_own_maps(decoder: TransformerDecoder) -> None:
    decoder.layers[1].self_attention.value_projection.__class__ = type("Mine", (nn.Linear,), {"forward": lambda self, x: 0 * x})


def patch_a_step(decoder: TransformerDecoder) -> None:
    decoder.layers[1].step = decoder.layers[1].step


def patch_the_keys(decoder: TransformerDecoder) -> None:
    decoder.layers[1].self_attention.prepare = decoder.layers[1].self_attention.prepare
