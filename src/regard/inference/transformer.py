"""A Transformer's decoder packed for a search on a CPU: the formula of its `step`, with fewer and larger operations.

* The hypotheses of a sentence share one pool of keys and values; each step adds the keys and values of its N words. A bias of
  −∞ hides words of other hypotheses. So no key or value is copied when hypotheses are reordered, and one product of the N
  queries with all N·t keys takes no longer than N small products.
* One product gives query, key and value of a word.
* Finished sentences stay in the pool until more than a quarter of the pool has finished; then the other sentences are copied to
  a new pool.
* Products with weights run in autocast's dtype, such as bfloat16. The features between the layers, the keys, values, scores
  and sums are in float32, or in float64 for a float64 model.

Letters: L layers, B sentences, R sentences in the pool (R ≥ B), N hypotheses of a sentence, M places for them in the pool,
t words so far, C ≥ t places for words, H heads, E width of a head, S source.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.base import HeadMaps
from regard.attention.capabilities import is_unchanged
from regard.attention.head_memory import HeadMemory
from regard.errors import RequestError
from regard.inference.linear import PackedMap, pack_linear
from regard.layers.dropout import Dropout
from regard.layers.feed_forward import PositionWise
from regard.layers.pool import Pool
from regard.layers.recurrent import compute_dtype
from regard.layers.residual import PreNorm, Residual
from regard.layers.transformer import DecoderParts, DecoderRequest, LayerParts, LayerWeights

_FULL = 0.75
"""If the share of unfinished sentences in the pool is below this value, the unfinished ones are copied to a new pool."""
_IGNORED = {dtype: torch.zeros((), dtype=dtype, device="cpu") for dtype in (torch.float32, torch.float64)}
"""First argument of `torch.baddbmm`, which does not read it if beta is 0. The product is scaled by the argument alpha."""

Module = TypeVar("Module", bound=nn.Module)


class PackedResidual(NamedTuple):
    """The two functions of a residual connection in evaluation mode: before and after the part that it surrounds."""

    before: Callable[[Tensor], Tensor]
    after: Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class PackedHeads:
    """The packed linear maps of an attention (its projections), and the residual connection around it."""

    read: PackedMap
    """Map to the concatenated query, key and value; for attention to the source, to the query only."""
    output: PackedMap
    residual: PackedResidual
    rotate_one: Callable[[Tensor, int], None] | None
    """Function of queries or keys (…,H,E) and their position, which rotates them in place; None without positions."""


@dataclass(frozen=True)
class PackedLayer:
    """The packed parts of a decoder layer."""

    own: PackedHeads
    across: PackedHeads | None
    feed_forward: Callable[[Tensor], Tensor]
    feed_forward_residual: PackedResidual


@dataclass(frozen=True)
class PackedFeedForward:
    """The packed maps of outer(activation(inner(x))), or, with a gate, of outer(activation(gate(x)) ⊙ inner(x))."""

    gate: PackedMap | None
    inner: PackedMap
    activation: Callable[[Tensor], Tensor]
    outer: PackedMap

    def __call__(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
        """Transform each position."""
        if self.gate is None:
            return self.outer(self.activation(self.inner(x)))
        x = x.to(self.inner.dtype)  # once for both maps
        return self.outer(self.activation(self.gate(x)) * self.inner(x))


@dataclass(frozen=True)
class PackedDecoder:
    """The packed layers of a decoder."""

    layers: tuple[PackedLayer, ...]
    norm: Callable[[Tensor], Tensor] | None
    num_heads: int
    head_size: int
    dtype: torch.dtype
    """The dtype of features, keys, values and sums."""

    def begin(self, state: Any, mask: Bool[Tensor, "B S"]) -> Any:
        """Build the state before the first word.

        Args:
            state: The state of the plain decoder (`CachedState`).
            mask: True at the source's tokens.

        Returns:
            A `PooledState`. If a source is empty, the given `state`, because only the plain decoder supports attention to an
            empty source.
        """
        memories = state.memories
        if memories and not bool(mask.any(1).all()):
            return state
        rows, heads = len(mask), self.num_heads
        sources = tuple(
            HeadMemory(memory.key.to(self.dtype).contiguous(), memory.value.to(self.dtype).contiguous(), mask)
            for memory in memories
        )
        hidden = torch.zeros(mask.shape, dtype=self.dtype).masked_fill_(~mask, -torch.inf)
        words = hidden.new_empty(len(self.layers), 2, rows, heads, 0, 1, self.head_size)
        return PooledState(
            decoder=self,
            encoder=state.encoder,
            sources=sources,
            source_bias=hidden[:, None, None] if sources and not bool(mask.all()) else None,
            words=Pool.empty(words, 4),
            bias=hidden.new_zeros(rows, state.count, 0, 1),
            num_rows=rows,
        )


@dataclass(frozen=True)
class PooledState:
    """The decoding state of a packed decoder."""

    decoder: PackedDecoder
    encoder: dict[str, Tensor]
    """The attention weights recorded in the encoder, (B,H,S,S), by site."""
    sources: tuple[HeadMemory, ...]
    """The keys and values of the source for each layer, contiguous; empty in a decoder without a source. Their shape is
    (R,H,S,E), for R sentences in the pool, H heads of width E, and S source positions.
    """
    source_bias: Float[Tensor, "R 1 1 S"] | None
    """0 at the source's tokens, −∞ at padding; None without padding, or in a decoder without a source."""
    words: Pool
    """The keys and values of all words so far, (L,2,R,H,C,M,E), for L layers, R sentences in the pool, and H heads of width E,
    with places for C words of M hypotheses.
    """
    bias: Float[Tensor, "B N t M"]
    """0 at the words of the hypothesis itself, −∞ at words of other hypotheses."""
    num_rows: int
    """The number of sentences in the pool, R, including finished ones that are still there."""
    alive: Int[Tensor, " B"] | None = None
    """The place in the pool of each unfinished sentence; None if sentence i has place i."""

    @property
    def length(self) -> int:
        """The number of words read so far, t."""
        return self.words.length

    def memory(self, number: int) -> HeadMemory:
        """Return the keys and values of the source to which the layer `number` attends, (B,H,S,E) for H heads of width E."""
        return self.sources[number] if self.alive is None else self.sources[number].select(self.alive)

    def select(self, beam: Int[Tensor, "B N"]) -> "PooledState":
        """Return the state in which new hypothesis n of sentence b continues the old hypothesis `beam[b, n]`."""
        return replace(self, bias=self.bias.gather(1, beam[:, :, None, None].expand(-1, -1, *self.bias.shape[2:])))

    def keep(self, rows: Int[Tensor, " M"]) -> "PooledState":
        """Return the state of the sentences with the indices `rows` only, in this order."""
        encoder = {site: weights[rows] for site, weights in self.encoder.items()}
        alive = rows if self.alive is None else self.alive[rows]
        kept = replace(self, encoder=encoder, alive=alive, bias=self.bias[rows])
        if len(rows) >= _FULL * self.num_rows:
            return kept
        bias = self.source_bias
        return replace(
            kept,
            sources=tuple(source.select(alive) for source in self.sources),
            source_bias=None if bias is None else bias.index_select(0, alive),
            words=self.words.index_select(2, alive),
            num_rows=len(rows),
            alive=None,
        )

    def advance(
        self, decoder: object, x: Float[Tensor, "B N D"], request: DecoderRequest
    ) -> tuple[Float[Tensor, "B N D"], LayerWeights, "PooledState"]:
        """Run the packed layers over one more word of each hypothesis.

        Args:
            decoder: The decoder of the model; it is not used, because the packed decoder replaces it.
            x: Embeddings with their positions.
            request: The layers whose weights are returned.

        Raises:
            RequestError: If the request replaces weights, which packed layers do not support.
        """
        if request.reweights:
            raise RequestError(
                "step got a reweight, but the state belongs to a packed decoder, which cannot replace attention weights; give "
                "encode the same reweight, so that the model's own decoder runs"
            )
        with torch.autocast("cpu", enabled=False):
            return self._advance(x.to(self.decoder.dtype), request)

    def _advance(self, x: Tensor, request: DecoderRequest) -> tuple[Tensor, LayerWeights, "PooledState"]:
        count, weights, state = x.shape[1], LayerWeights(), self._extended(x.shape[1])
        bias, storage = state._own_bias(), state.words.storage
        # Views for all layers at once: with one sentence, the time of a step is proportional to its number of operations.
        places = storage[:, :, :, :, state.length - 1]
        places[..., count:, :] = 0  # no hypothesis writes these places, and undefined values could be NaN
        new = places[..., :count, :].unbind(0)
        past = storage.flatten(4, 5)[..., : state.length * storage.shape[5], :].flatten(2, 3).unbind(0)
        for number, layer in enumerate(self.decoder.layers):
            x, own = state._attend_within(layer.own, x, new[number], past[number], bias, need_weights=number in request.own)
            across = None
            if layer.across is not None:
                x, across = state._attend_across(number, layer.across, x, need_weights=number in request.across)
            residual = layer.feed_forward_residual
            x = residual.after(x, layer.feed_forward(residual.before(x)))
            weights.add(number, own, across)
        return x if self.decoder.norm is None else self.decoder.norm(x), weights, state

    def _extended(self, count: int) -> "PooledState":
        """Return a state with space for one more word of each of N = `count` hypotheses.

        The bias lets each hypothesis attend to its new word, and hides the new words of other hypotheses.
        """
        words, bias, places = self.words, self.bias, self.bias.shape[3]
        if count > places:
            wider = words.storage.new_zeros(*words.storage.shape[:5], count, words.storage.shape[6])
            wider[..., :places, :] = words.storage
            words = Pool(wider, words.axis, words.length, [words.length])
            bias, places = torch.nn.functional.pad(bias, (0, count - places), value=-torch.inf), count
        own = bias.new_full((count, places), -torch.inf).fill_diagonal_(0)[:, None].expand(len(bias), -1, -1, -1)
        return replace(self, words=words.extended(), bias=torch.cat([bias, own], 2))

    def _own_bias(self) -> Float[Tensor, "R 1 N tM"] | None:
        """Return the bias of self-attention; None if each sentence has one hypothesis, to which all words belong."""
        return None if self.bias.shape[3] == 1 else self._place(self.bias.flatten(2))[:, None]

    def _attend_within(
        self,
        heads: PackedHeads,
        x: Float[Tensor, "B N D"],
        new: Float[Tensor, "2 R H N E"],
        past: Float[Tensor, "2 RH tM E"],
        bias: Tensor | None,
        *,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Return x after self-attention with its residual connection, and the weights.

        Args:
            heads: The packed maps.
            x: The features of the new words.
            new: A view of the pool, to which the keys and values of the new words are written.
            past: The keys and values of all words, including the new ones; a view of the pool.
            bias: Result of `_own_bias`.
            need_weights: Whether to return the weights.
        """
        read = self._place(_as(heads.read(heads.residual.before(x)), x))
        read = read.view(*read.shape[:2], 3, self.decoder.num_heads, self.decoder.head_size)
        if heads.rotate_one is not None:
            heads.rotate_one(read[:, :, :2], self.length - 1)
        new.copy_(read[:, :, 1:].permute(2, 0, 3, 1, 4))
        context, weights = _attend(read[:, :, 0], past[0], past[1], bias)
        own = None
        if need_weights:  # sum over M: at each position, only the word of the hypothesis itself has a weight above 0
            shape = (self.num_rows, self.decoder.num_heads, x.shape[1], self.length, self.words.storage.shape[5])
            own = self._take(weights.view(shape).sum(-1))
        return heads.residual.after(x, heads.output(self._take(context))), own

    def _attend_across(self, number: int, heads: PackedHeads, x: Tensor, *, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Return x after attention to the source with its residual connection, and the weights."""
        query = self._place(_as(heads.read(heads.residual.before(x)), x))
        query = query.view(*query.shape[:2], self.decoder.num_heads, self.decoder.head_size)
        source = self.sources[number]
        context, weights = _attend(query, source.key.flatten(0, 1), source.value.flatten(0, 1), self.source_bias)
        after = heads.residual.after(x, heads.output(self._take(context)))
        if not need_weights:
            return after, None
        return after, self._take(weights.unflatten(0, (self.num_rows, self.decoder.num_heads)))

    def _place(self, x: Tensor) -> Tensor:
        """Reorder (B,…) to (R,…), in the order of the pool, with zeros for finished sentences."""
        return x if self.alive is None else x.new_zeros(self.num_rows, *x.shape[1:]).index_copy_(0, self.alive, x)

    def _take(self, x: Tensor) -> Tensor:
        """Reorder (R,…), in the order of the pool, to (B,…), without finished sentences."""
        return x if self.alive is None else x.index_select(0, self.alive)


def _as(tensor: Tensor, like: Tensor) -> Tensor:
    """Convert a tensor to the dtype of another, if it differs."""
    return tensor if tensor.dtype == like.dtype else tensor.to(like.dtype)


def _attend(
    query: Float[Tensor, "R N H E"], key: Float[Tensor, "RH K E"], value: Float[Tensor, "RH K E"], bias: Tensor | None
) -> tuple[Float[Tensor, "R N D"], Float[Tensor, "RH N K"]]:
    """Return softmax(q kᵀ / √E + bias) v, and the weights."""
    rows, count, heads, width = query.shape
    queries = query.transpose(1, 2).reshape(rows * heads, count, width)
    scores = torch.baddbmm(_IGNORED[query.dtype], queries, key.transpose(1, 2), beta=0, alpha=width**-0.5)
    if bias is not None:  # `torch.baddbmm` would first copy the bias for each head
        scores.view(rows, heads, count, key.shape[1]).add_(bias)
    weights = scores.softmax(-1)
    context = torch.bmm(weights, value).view(rows, heads, count, width)
    return context.transpose(1, 2).reshape(rows, count, heads * width), weights


def pack_decoder(parts: DecoderParts, rows: int) -> PackedDecoder | None:
    """Pack a decoder.

    Args:
        parts: The parts of the decoder.
        rows: Number of sentences in the search.

    Returns:
        The packed decoder. None if gradients are enabled, if a linear map of an attention computes more than x Wᵀ + b (an
        adapter, a hook, a subclass), or if attentions have different numbers of heads.
    """
    across = [layer.across[0].num_heads for layer in parts.layers if layer.across is not None]
    if len({*across, *(layer.own.num_heads for layer in parts.layers)}) > 1:
        return None
    weight = parts.layers[0].own.output.weight
    dtype = torch.promote_types(weight.dtype, torch.float32)
    layers = [_pack_layer(layer, rows, dtype) for layer in parts.layers]
    if any(layer is None for layer in layers):
        return None
    return PackedDecoder(
        layers=tuple(cast(list[PackedLayer], layers)),
        norm=None if parts.norm is None else _pack_norm(_in_dtype(parts.norm, dtype)),
        num_heads=parts.layers[0].own.num_heads,
        head_size=len(weight) // parts.layers[0].own.num_heads,
        dtype=dtype,
    )


def _pack_layer(layer: LayerParts, rows: int, dtype: torch.dtype) -> PackedLayer | None:
    own = _pack_heads(layer.own, (layer.own.query, layer.own.key, layer.own.value), layer.own_residual, rows, dtype)
    across = None
    if layer.across is not None:
        maps, residual = layer.across
        across = _pack_heads(maps, (maps.query,), residual, rows, dtype)
        if across is None:
            return None
    if own is None:
        return None
    feed_forward = _pack_feed_forward(layer.feed_forward, rows)
    return PackedLayer(own, across, feed_forward, _pack_residual(layer.feed_forward_residual, dtype))


def _pack_heads(
    maps: HeadMaps, read: Sequence[nn.Linear], residual: Residual, rows: int, dtype: torch.dtype
) -> PackedHeads | None:
    packed, output = pack_linear(read, rows), pack_linear(maps.output, rows)
    if packed is None or output is None:
        return None
    rotate_one = None if maps.positions is None else _in_dtype(maps.positions, dtype).rotate_one
    return PackedHeads(packed, output, _pack_residual(residual, dtype), rotate_one)


def _pack_residual(residual: Residual, dtype: torch.dtype) -> PackedResidual:
    """Return the two functions of a residual connection, without module calls where a PyTorch function gives the same result.

    With one sentence, calling a module takes as long as computing the norm.
    """
    residual = _in_dtype(residual, dtype)
    if is_unchanged(residual, PreNorm) and is_unchanged(residual.dropout, Dropout):
        return PackedResidual(_pack_norm(residual.norm), torch.add)
    return PackedResidual(residual.before, residual.after)


def _pack_norm(norm: nn.Module) -> Callable[[Tensor], Tensor]:
    if not is_unchanged(norm, nn.LayerNorm):
        return norm
    assert isinstance(norm, nn.LayerNorm)
    shape, weight, bias, eps = list(norm.normalized_shape), norm.weight, norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


def _pack_feed_forward(module: nn.Module, rows: int) -> Callable[[Tensor], Tensor]:
    """Pack the maps of a feed-forward part; a part that does not return its maps is used unchanged."""
    maps = module.maps() if isinstance(module, PositionWise) else None
    if maps is not None:
        gate = None if maps.gate is None else pack_linear(maps.gate, rows)
        inner, outer = pack_linear(maps.inner, rows), pack_linear(maps.outer, rows)
        if inner is not None and outer is not None and (gate is None) == (maps.gate is None):
            activation = torch.relu if is_unchanged(maps.activation, nn.ReLU) else maps.activation  # without a module call
            return PackedFeedForward(gate, inner, activation, outer)
    parameter = next(module.parameters(), torch.empty(0))
    dtype = compute_dtype(parameter)
    if dtype == parameter.dtype == torch.promote_types(dtype, torch.float32):
        return module

    def call(x: Tensor) -> Any:
        with torch.autocast("cpu", dtype):
            return module(x.to(parameter.dtype))

    return call


def _in_dtype(module: Module, dtype: torch.dtype) -> Module:
    """Return the module, or a copy in another dtype if its parameters have a different one."""
    return module if all(p.dtype == dtype for p in module.parameters()) else deepcopy(module).to(dtype)
