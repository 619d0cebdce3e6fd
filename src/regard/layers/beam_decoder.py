"""A Transformer's decoder made ready for a search on a CPU: `TransformerDecoder.step` with fewer and larger products.

* The hypotheses of a sentence share one pool of keys and values, to which each step adds those of its N words. A mask says
  which of them are a hypothesis's own past. So nothing moves where hypotheses change places, and the N queries of a sentence
  meet all N·t keys in one product, which takes no longer than N small ones.
* Query, key and value of a word come of one product.
* Sentences that leave stay in the pools until a quarter has left; then the others move together, once.

Letters: B sentences, R sentences in the pools (R ≥ B), N hypotheses of a sentence, M places for them in a pool, t words so far,
C ≥ t room for words, H heads, E width of a head, S source.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.base import Memory
from regard.attention.multihead import HeadMemory, MultiHead
from regard.attention.normalizers import Softmax
from regard.attention.positions import RelativePositions, Rotary
from regard.layers.ready import ReadyLinear, is_packing_fast, is_plain, ready_linear
from regard.layers.transformer import DecoderLayer, Given, TransformerDecoder, Wanted

_ROOM = 8
"""Words for which a pool has room when it grows."""
_FULL = 0.75
"""Below this share of sentences that are still searched for, the others move together."""


@dataclass(frozen=True)
class Pools:
    """What the steps of a search go on from."""

    sources: tuple[HeadMemory, ...]
    """Of each layer, (R,H,S,E), laid out so."""
    source_bias: Float[Tensor, "RH 1 S"]
    """0 at the source's words, −∞ at padding."""
    words: tuple[Float[Tensor, "2 R H C M E"], ...]
    """Keys and values of each layer."""
    bias: Float[Tensor, "B N t M"]
    """0 at a hypothesis's own past, −∞ at that of others."""
    used: list[int]
    """How many words the pools hold, for this state or for another that goes on from it: it writes only behind them."""
    alive: Int[Tensor, " B"] | None = None
    """Where in the pools each sentence is; None where it has its own place."""

    def select(self, beam: Int[Tensor, "B N"]) -> "Pools":
        """For each new hypothesis, the index of the one it goes on from."""
        return replace(self, bias=self.bias.gather(1, beam[:, :, None, None].expand(-1, -1, *self.bias.shape[2:])))

    def keep(self, rows: Int[Tensor, " M"]) -> "Pools":
        """Go on with these sentences only."""
        alive, bias = rows if self.alive is None else self.alive[rows], self.bias[rows]
        if len(rows) >= _FULL * self.num_rows:
            return replace(self, alive=alive, bias=bias)
        heads = self.sources[0].key.shape[1]
        return Pools(
            sources=tuple(HeadMemory(one.key.index_select(0, alive), one.value.index_select(0, alive)) for one in self.sources),
            source_bias=self.source_bias.unflatten(0, (-1, heads))[alive].flatten(0, 1),
            words=tuple(pool.index_select(1, alive) for pool in self.words),
            bias=bias,
            used=[self.length],
        )

    @property
    def num_rows(self) -> int:
        """R."""
        return len(self.sources[0].key)

    @property
    def length(self) -> int:
        """t."""
        return self.bias.shape[2]

    def grown(self, count: int) -> "Pools":
        """With room for one more word of N = `count` hypotheses, each of which sees its own."""
        length, places = self.length, self.bias.shape[3]
        words, used, bias = self.words, self.used, self.bias
        room = words[0].shape[3]
        if count > places or length == room or length < used[0]:
            room = room + _ROOM if length == room else room
            wider = max(count, places)
            words = tuple(_enlarged(pool, length, room, wider) for pool in words)
            bias = torch.nn.functional.pad(bias, (0, wider - places), value=-torch.inf)
            used, places = [length], wider
        used[0] = length + 1
        own = torch.full((count, places), -torch.inf).fill_diagonal_(0)[:, None].expand(len(bias), -1, -1, -1)
        return replace(self, words=words, bias=torch.cat([bias, own], 2), used=used)

    def source(self, number: int) -> HeadMemory:
        """What a layer reads of the source, (B,H,S,E)."""
        return self.sources[number] if self.alive is None else self.sources[number].select(self.alive)

    def place(self, x: Tensor) -> Tensor:
        """(B,…) to (R,…), as the pools have the sentences."""
        return x if self.alive is None else x.new_zeros(self.num_rows, *x.shape[1:]).index_copy_(0, self.alive, x)

    def take(self, x: Tensor) -> Tensor:
        """(R,…) to (B,…)."""
        return x if self.alive is None else x.index_select(0, self.alive)


def _enlarged(pool: Tensor, length: int, room: int, places: int) -> Tensor:
    made = pool.new_zeros(*pool.shape[:3], room, places, pool.shape[5])  # what a place does not hold has a weight of 0
    made[:, :, :, :length, : pool.shape[4]] = pool[:, :, :, :length]
    return made


@dataclass(frozen=True)
class _Layer:
    layer: DecoderLayer
    own: ReadyLinear
    """Query, key and value of a word."""
    own_output: ReadyLinear
    across: ReadyLinear
    """The query to the source."""
    across_output: ReadyLinear


@dataclass(frozen=True)
class BeamDecoder:
    """The layers of a decoder, their maps made ready."""

    layers: tuple[_Layer, ...]
    decoder: TransformerDecoder

    def begin(self, memories: Sequence[Memory], mask: Bool[Tensor, "B S"], count: int) -> Pools:
        """The state before the first word of N = `count` hypotheses."""
        sources = tuple(
            HeadMemory(memory.key.contiguous(), memory.value.contiguous()) for memory in cast(Sequence[HeadMemory], memories)
        )
        rows, heads, _, width = sources[0].key.shape
        bias = torch.zeros(mask.shape).masked_fill_(~mask, -torch.inf)
        return Pools(
            sources=sources,
            source_bias=bias.repeat_interleave(heads, 0)[:, None],
            words=tuple(sources[0].key.new_zeros(2, rows, heads, 0, 1, width) for _ in sources),
            bias=torch.zeros(rows, count, 0, 1),
            used=[0],
        )

    def step(self, x: Float[Tensor, "B N D"], pools: Pools, *, wanted: Wanted) -> tuple[Float[Tensor, "B N D"], Given, Pools]:
        """Run all layers over one more word of each hypothesis; as `TransformerDecoder.step`."""
        given, count = Given(), x.shape[1]
        pools = pools.grown(count)
        heads = pools.sources[0].key.shape[1]
        bias = None
        if pools.bias.shape[3] > 1:
            bias = pools.place(pools.bias.flatten(2))[:, None].expand(-1, heads, -1, -1).flatten(0, 1)
        for number, part in enumerate(self.layers):
            layer, pool, source = part.layer, pools.words[number], pools.sources[number]
            read = pools.place(part.own(layer.self_residual.before(x))).unflatten(-1, (3, heads, -1))
            if layer.self_attention.positions is not None:
                read = _turned(layer.self_attention.positions, read, pools.length - 1)
            query, *new = read.unbind(2)
            pool[:, :, :, pools.length - 1, :count] = torch.stack(new).transpose(2, 3)
            key, value = pool.flatten(3, 4)[..., : pools.length * pool.shape[4], :]
            context, weights = _attend(query, key, value, bias)
            own = None
            if number in wanted.own:  # all but one of a word's places have weight 0
                own = pools.take(weights.unflatten(-1, (pools.length, -1)).sum(-1))
            x = layer.self_residual.after(x, part.own_output(pools.take(context)))
            query = pools.place(part.across(layer.cross_residual.before(x))).unflatten(-1, (heads, -1))
            context, weights = _attend(query, source.key, source.value, pools.source_bias)
            x = layer.cross_residual.after(x, part.across_output(pools.take(context)))
            x = layer.feed_forward_residual.after(x, layer.feed_forward(layer.feed_forward_residual.before(x)))
            given.add(number, own, pools.take(weights) if number in wanted.across else None)
        return x if self.decoder.norm is None else self.decoder.norm(x), given, pools


def _turned(positions: RelativePositions, read: Float[Tensor, "R N 3 H E"], position: int) -> Float[Tensor, "R N 3 H E"]:
    """Queries and keys turned by the position that all hypotheses are at; values as they are."""
    turned = positions.rotate(read[:, :, :2].flatten(2, 3).flatten(0, 1)[:, :, None], position)
    return torch.cat([turned.view_as(read[:, :, :2]), read[:, :, 2:]], 2)


def _attend(
    query: Float[Tensor, "R N H E"], key: Float[Tensor, "R H K E"], value: Float[Tensor, "R H K E"], bias: Tensor | None
) -> tuple[Float[Tensor, "R N D"], Float[Tensor, "R H N K"]]:
    """softmax(q kᵀ / √E + bias) v, and the weights."""
    rows, _, heads, width = query.shape
    keys, values, scale = key.flatten(0, 1).transpose(1, 2), value.flatten(0, 1), width**-0.5
    queries = query.transpose(1, 2).flatten(0, 1)
    scores = (queries * scale) @ keys if bias is None else torch.baddbmm(bias, queries, keys, alpha=scale)
    weights = scores.softmax(-1)
    context = (weights @ values).unflatten(0, (rows, heads))
    return context.transpose(1, 2).flatten(2), weights.unflatten(0, (rows, heads))


def beam_decoder(decoder: TransformerDecoder, mask: Bool[Tensor, "B S"]) -> BeamDecoder | None:
    """The decoder made ready.

    None where the plain one is to be used: with gradients, elsewhere than on a CPU in float32, for few sentences, for an empty
    source, and for layers of other parts than usual.
    """
    layers = [cast(DecoderLayer, layer) for layer in decoder.layers]
    if torch.is_grad_enabled() or decoder.training:
        return None
    if type(decoder) is not TransformerDecoder or not all(map(_is_plain, layers)):
        return None
    if not is_packing_fast(layers[0].self_attention.output_projection.weight, len(mask)) or not bool(mask.any(1).all()):
        return None
    ready = [[cast(ReadyLinear, ready_linear(linears, len(mask))) for linears in _maps(layer)] for layer in layers]
    return BeamDecoder(tuple(_Layer(layer, *own) for layer, own in zip(layers, ready, strict=True)), decoder)


def _maps(layer: DecoderLayer) -> list[tuple[nn.Linear, ...]]:
    """Those that `_Layer` has, in its order; of the same input where there are several."""
    own, across = layer.self_attention, cast(MultiHead, layer.cross_attention)
    return [
        (own.query_projection, own.key_projection, own.value_projection),
        (own.output_projection,),
        (across.query_projection,),
        (across.output_projection,),
    ]


def _is_plain(layer: DecoderLayer) -> bool:
    """Whether what is computed here is what the layer would compute."""
    attentions = (layer.self_attention, layer.cross_attention)
    if type(layer) is not DecoderLayer or "step" in vars(layer) or not all(map(_is_plain_attention, attentions)):
        return False
    return all(is_plain(linear) for linears in _maps(layer) for linear in linears)


def _is_plain_attention(attention: object) -> bool:
    """Whether it is the scaled dot product of as many heads of keys as of queries, turned or not, all seen, unwatched.

    Who wants to see every call, as `regard.capture` does, puts another `attend` on the object.
    """
    return (
        type(attention) is MultiHead
        and type(attention.normalizer) is Softmax
        and attention.num_kv_heads == attention.num_heads
        and (attention.positions is None or type(attention.positions) is Rotary)
        and attention.window is None
        and vars(attention).keys().isdisjoint(("attend", "prepare"))
    )
