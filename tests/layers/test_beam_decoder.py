"""The decoder made ready for a search against the plain one, step by step, as hypotheses move and sentences leave."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.attention import ALiBi
from regard.layers.beam_decoder import BeamDecoder, Pools, beam_decoder
from regard.layers.transformer import DecoderLayer, TransformerDecoder, Wanted
from regard.layers.transformer_build import Blueprint, build_decoder

WIDTH, HEADS, LAYERS, SOURCE = 12, 3, 2, 7
WANTED = Wanted(own=(0, 1), across=(1,))


def build(**changes: object) -> TransformerDecoder:
    torch.manual_seed(0)
    settings = {"size": WIDTH, "num_heads": HEADS, "feed_forward_size": 17, **changes}
    return build_decoder(Blueprint(**settings), num_layers=LAYERS).eval()


def texts(rows: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(rows, SOURCE, WIDTH), torch.arange(SOURCE) < torch.randint(1, SOURCE + 1, (rows, 1))


class Plain:
    """A search by the plain decoder: the whole past of each hypothesis, read anew at every step."""

    def __init__(self, decoder: TransformerDecoder, states: Tensor, mask: Tensor) -> None:
        self.decoder, self.states, self.mask = decoder, states, mask
        self.past = torch.zeros(len(states), 1, 0, WIDTH)

    def step(self, x: Tensor) -> tuple[Tensor, dict[int, Tensor], dict[int, Tensor]]:
        self.past = torch.cat([self.past, x[:, :, None]], 2)
        rows, count = x.shape[:2]
        states, mask = (part.repeat_interleave(count, 0) for part in (self.states, self.mask))
        found, weights = self.decoder(self.past.flatten(0, 1), self.decoder.prepare(states, mask), wanted=WANTED)
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


def ready(decoder: TransformerDecoder, states: Tensor, mask: Tensor, count: int = 1) -> tuple[BeamDecoder, Pools]:
    made = beam_decoder(decoder, mask)
    assert made is not None
    return made, made.begin(decoder.prepare(states, mask), mask, count)


@pytest.mark.parametrize(("order", "rotary"), [("post", False), ("pre", False), ("pre", True)])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), beam_size=st.integers(1, 4), rows=st.integers(4, 9))
@torch.no_grad()
def test_equals_the_plain_decoder(order, rotary, seed, beam_size, rows):
    decoder = build(order=order, rotary=rotary)
    states, mask = texts(rows)
    plain, (fast, pools) = Plain(decoder, states, mask), ready(decoder, states, mask)
    draw = torch.Generator().manual_seed(seed)
    count = 1
    for _ in range(13):  # beyond the room of a pool
        x = torch.randn(rows, count, WIDTH, generator=draw)
        wanted, own, across = plain.step(x)
        found, given, pools = fast.step(x, pools, wanted=WANTED)
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
        for weights, expected in ((given.own, own), (given.across, across)):
            assert weights.keys() == expected.keys()
            for number in expected:
                torch.testing.assert_close(weights[number], expected[number], atol=1e-5, rtol=1e-5)
        if rows > 1 and torch.rand((), generator=draw) < 0.4:
            kept = (torch.rand(rows, generator=draw) < 0.8).nonzero()[:, 0]
            kept = kept if len(kept) else torch.tensor([0])
            plain.keep(kept)
            pools, rows = pools.keep(kept), len(kept)
        beam = torch.randint(0, count, (rows, beam_size), generator=draw)
        plain.select(beam)
        pools, count = pools.select(beam), beam_size


@torch.no_grad()
def test_two_steps_from_one_state_do_not_disturb_each_other():
    decoder = build()
    fast, pools = ready(decoder, *texts(5))
    _, _, pools = fast.step(torch.randn(5, 1, WIDTH), pools, wanted=Wanted())
    x, other = torch.randn(2, 5, 1, WIDTH)
    _, _, one = fast.step(x, pools, wanted=Wanted())
    before, _, _ = fast.step(x, one, wanted=Wanted())
    fast.step(other, pools, wanted=Wanted())
    after, _, _ = fast.step(x, one, wanted=Wanted())
    assert torch.equal(before, after)


@torch.no_grad()
def test_sentences_move_together_once_a_quarter_has_left():
    fast, pools = ready(build(), *texts(8))
    _, _, pools = fast.step(torch.randn(8, 1, WIDTH), pools, wanted=Wanted())
    some = pools.keep(torch.tensor([0, 2, 3, 4, 5, 7]))
    assert some.num_rows == 8
    assert some.words[0] is pools.words[0]
    fewer = some.keep(torch.tensor([0, 5]))
    assert fewer.num_rows == 2
    torch.testing.assert_close(fewer.source(1).key, pools.source(1).key[[0, 7]])


def test_the_plain_decoder_is_kept_where_the_other_would_not_do():
    _, mask = texts(6)
    assert beam_decoder(build(), mask) is None  # gradients
    with torch.no_grad():
        assert beam_decoder(build(), mask) is not None
        assert beam_decoder(build(), mask[:2]) is None
        assert beam_decoder(build().train(), mask) is None
        assert beam_decoder(build().double(), mask) is None
        other = build()
        other.layers[1].self_attention.positions = ALiBi(HEADS)
        assert beam_decoder(other, mask) is None
        assert beam_decoder(build(), mask & (torch.arange(6) > 0)[:, None]) is None  # an empty source
        for change in (hook_a_projection, take_own_layers, take_own_maps, patch_a_step, patch_the_keys):
            other = build()
            change(other)
            assert beam_decoder(other, mask) is None


def hook_a_projection(decoder: TransformerDecoder) -> None:
    decoder.layers[0].cross_attention.output_projection.register_forward_hook(lambda module, inputs, output: 0 * output)


def take_own_layers(decoder: TransformerDecoder) -> None:
    decoder.layers[1].__class__ = type("Mine", (DecoderLayer,), {})


def take_own_maps(decoder: TransformerDecoder) -> None:
    decoder.layers[1].self_attention.value_projection.__class__ = type("Mine", (nn.Linear,), {})


def patch_a_step(decoder: TransformerDecoder) -> None:
    decoder.layers[1].step = decoder.layers[1].step


def patch_the_keys(decoder: TransformerDecoder) -> None:
    decoder.layers[1].self_attention.prepare = decoder.layers[1].self_attention.prepare
