"""A Transformer's decoder packed for a search on a CPU: the formula of its `step`, with fewer and larger operations.

* The hypotheses of a sentence share one pool of keys and values; each step adds the keys and values of its N words. A bias of
  −∞ hides words of other hypotheses. So no key or value is copied when hypotheses are reordered, and one product of the N
  queries with all N·t keys takes no longer than N small products.
* One product gives query, key and value of a word.
* Products with weights run in autocast's dtype, such as bfloat16. The features between the layers, the keys, values, scores
  and sums are in float32, or in float64 for a float64 model.

Letters: L layers, B sentences, N hypotheses of a sentence, M places for them in the pool, t words so far, C ≥ t places for
words, H heads, E width of a head, S source.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.base import Attention, Memory
from regard.attention.capabilities import is_exactly
from regard.attention.head_memory import HeadMemory
from regard.errors import RequestError
from regard.inference.linear import PackedMap, pack_linear
from regard.layers.cache import LayerCaches
from regard.layers.causal import CausalDecoder, CausalLayer
from regard.layers.dropout import Dropout
from regard.layers.feed_forward import FeedForward, GatedFeedForward
from regard.layers.pool import Pool
from regard.layers.residual import PreNorm, Residual
from regard.layers.transformer import NOTHING_OF_ALL, DecoderLayer, DecoderRequest, LayerWeights, TransformerDecoder

_IGNORED = {dtype: torch.zeros((), dtype=dtype, device="cpu") for dtype in (torch.float32, torch.float64)}
"""First argument of `torch.baddbmm`, which does not read it if beta is 0. The product is scaled by the argument alpha."""

Module = TypeVar("Module", bound=nn.Module)
Decoder = TransformerDecoder | CausalDecoder
Before = Callable[[Tensor], Tensor]
After = Callable[[Tensor, Tensor], Tensor]


class _Heads(NamedTuple):
    """The packed maps of an attention, and the two functions of its residual connection."""

    read: PackedMap
    """Map to the concatenated query, key and value; for attention to the source, to the query only."""
    output: PackedMap
    before: Before
    after: After
    rotate_one: Callable[[Tensor, int], None] | None
    """Function of queries or keys (…,H,E) and their position, which rotates them in place; None without positions."""


class _Layer(NamedTuple):
    """The packed parts of a decoder layer."""

    own: _Heads
    across: _Heads | None
    feed_forward: Callable[[Tensor], Tensor]
    before: Before
    after: After


@dataclass(frozen=True)
class PooledCache:
    """The keys and values of all words so far, shared by the hypotheses of a sentence."""

    words: Pool
    """Keys and values (L,2,B,H,C,M,E)."""
    bias: Float[Tensor, "B N t M"]
    """0 at the words of the hypothesis itself, −∞ at words of other hypotheses."""
    source_bias: Float[Tensor, "B 1 1 S"] | None
    """0 at the source's tokens, −∞ at padding; None without padding, or in a decoder without a source."""

    @property
    def length(self) -> int:
        """The number of words read so far, t."""
        return self.words.length

    def select(self, beam: Int[Tensor, "B N"]) -> "PooledCache":
        """Return the cache in which new hypothesis n of sentence b continues the old hypothesis `beam[b, n]`."""
        return replace(self, bias=self.bias.gather(1, beam[:, :, None, None].expand(-1, -1, *self.bias.shape[2:])))

    def keep(self, rows: Int[Tensor, " M"]) -> "PooledCache":
        """Return the cache of the sentences with the indices `rows` only, in this order."""
        source_bias = None if self.source_bias is None else self.source_bias[rows]
        return PooledCache(self.words.index_select(2, rows), self.bias[rows], source_bias)

    def extended(self, count: int) -> "PooledCache":
        """Return a cache with space for one more word of each of N = `count` hypotheses.

        The bias lets each hypothesis attend to its new word, and hides the new words of other hypotheses.
        """
        words, bias, places = self.words, self.bias, self.bias.shape[3]
        if count > places:
            wider = words.storage.new_zeros(*words.storage.shape[:5], count, words.storage.shape[6])
            wider[..., :places, :] = words.storage
            words = Pool(wider, words.axis, words.length, [words.length])
            bias, places = nn.functional.pad(bias, (0, count - places), value=-torch.inf), count
        own = _own_words(count, places, bias.dtype).expand(len(bias), -1, -1, -1)
        words = words.extended()
        if count < places:  # no hypothesis writes there, and undefined values could be NaN
            words.storage[:, :, :, :, words.length - 1, count:] = 0
        return replace(self, words=words, bias=torch.cat([bias, own], 2))


@lru_cache(64)
def _own_words(count: int, places: int, dtype: torch.dtype) -> Float[Tensor, "N 1 M"]:
    """Return the bias of new words, which is equal in all steps: 0 at a hypothesis's own word, −∞ at those of the others."""
    return torch.full((count, places), -torch.inf, dtype=dtype).fill_diagonal_(0)[:, None]


class PackedDecoder(nn.Module):
    """A decoder whose step runs packed layers; whole targets and replaced weights are left to the decoder itself.

    Args:
        decoder: The decoder.
        layers: Its packed layers.
        num_heads: The number of heads.
        dtype: The dtype of features, keys, values and sums.
    """

    def __init__(self, decoder: Decoder, layers: Sequence[_Layer], num_heads: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.decoder, self.layers, self.size = decoder, decoder.layers, decoder.size
        self._layers, self._num_heads, self._dtype = layers, num_heads, dtype
        self._norm = None if decoder.norm is None else _pack_norm(_in_dtype(decoder.norm, dtype))

    def prepare(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"] | None) -> tuple[Memory, ...]:
        """Return the source's keys and values for each layer, contiguous and in the dtype of the sums."""
        assert isinstance(self.decoder, TransformerDecoder)
        return _converted(self.decoder.prepare(states, mask), self._dtype)

    def forward(
        self, x: Tensor, memories: Sequence[Memory] = (), request: DecoderRequest = NOTHING_OF_ALL, **options: Any
    ) -> Any:
        """Run the decoder itself over a whole target."""
        if isinstance(self.decoder, CausalDecoder):
            return self.decoder(x, **options)
        return self.decoder(x, _converted(memories, x.dtype), request)

    def step(
        self,
        x: Float[Tensor, "B N D"],
        memories: Sequence[Memory],
        cache: PooledCache | LayerCaches | None,
        request: DecoderRequest = NOTHING_OF_ALL,
    ) -> tuple[Float[Tensor, "B N D"], LayerWeights, PooledCache | LayerCaches]:
        """Run all layers over one new word of each hypothesis; see `TransformerDecoder.step`.

        Targets whose first step replaces weights, or whose source is empty, are left to the decoder itself.

        Raises:
            RequestError: If only a later step replaces weights.
        """
        sources = cast(Sequence[HeadMemory], memories)
        if cache is None:
            masks = [each.key_mask for each in sources[:1] if each.key_mask is not None]
            if not request.reweights and all(bool(mask.any(1).all()) for mask in masks):
                cache = self._begin(x, masks)
        if cache is None or isinstance(cache, LayerCaches):
            return self.decoder.step(x, _converted(memories, x.dtype), cache, request)
        if request.reweights:
            raise RequestError(
                "step got a reweight, but the earlier steps ran in a packed decoder, which cannot replace attention weights; "
                "give the same reweight to the first step, so that the model's own decoder runs"
            )
        with torch.autocast("cpu", enabled=False):
            return self._step(x.to(self._dtype), sources, cache.extended(x.shape[1]), request)

    def _begin(self, x: Float[Tensor, "B N D"], masks: Sequence[Bool[Tensor, "B S"]]) -> PooledCache:
        """Return the cache before the first word."""
        rows, count, size = x.shape
        words = x.new_empty(len(self._layers), 2, rows, self._num_heads, 0, 1, size // self._num_heads, dtype=self._dtype)
        hidden = [(~mask)[:, None, None] for mask in masks if not bool(mask.all())]
        bias = words.new_zeros(hidden[0].shape).masked_fill_(hidden[0], -torch.inf) if hidden else None
        return PooledCache(Pool.empty(words, 4), words.new_zeros(rows, count, 0, 1), bias)

    def _step(
        self, x: Tensor, sources: Sequence[HeadMemory], cache: PooledCache, request: DecoderRequest
    ) -> tuple[Tensor, LayerWeights, PooledCache]:
        """Run the packed layers; the cache already has space for the new words."""
        weights, storage, length, (batch, count, _) = LayerWeights(), cache.words.storage, cache.length, x.shape
        places, heads, width = storage.shape[5], self._num_heads, storage.shape[6]
        # Views for all layers at once: with one sentence, the time of a step is proportional to its number of operations.
        new = storage[:, :, :, :, length - 1, :count].unbind(0)
        past = storage.flatten(4, 5)[..., : length * places, :].flatten(2, 3).unbind(0)
        hidden = None if places == 1 else cache.bias.flatten(2)[:, None]  # one hypothesis attends to all words
        for number, layer in enumerate(self._layers):
            read = _as(layer.own.read(layer.own.before(x)), x).view(batch, count, 3, heads, width)
            if layer.own.rotate_one is not None:
                layer.own.rotate_one(read[:, :, :2], length - 1)
            new[number].copy_(read[:, :, 1:].permute(2, 0, 3, 1, 4))
            context, found = _attend(read[:, :, 0], past[number][0], past[number][1], hidden)
            x = layer.own.after(x, layer.own.output(context))
            if number in request.own:  # at each position, only the word of the hypothesis itself has a weight above 0
                weights.own[number] = found.view(batch, heads, count, length, places).sum(-1)
            if layer.across is not None:
                query = _as(layer.across.read(layer.across.before(x)), x).view(batch, count, heads, width)
                key, value = sources[number].key.flatten(0, 1), sources[number].value.flatten(0, 1)
                context, found = _attend(query, key, value, cache.source_bias)
                x = layer.across.after(x, layer.across.output(context))
                if number in request.across:
                    weights.across[number] = found.unflatten(0, (batch, heads))
            x = layer.after(x, layer.feed_forward(layer.before(x)))
        return x if self._norm is None else self._norm(x), weights, cache


def _converted(memories: Sequence[Memory], dtype: torch.dtype) -> tuple[Memory, ...]:
    """Return the keys and values of all layers, contiguous and in this dtype."""
    found = cast(Sequence[HeadMemory], memories)
    return tuple(replace(each, key=each.key.to(dtype).contiguous(), value=each.value.to(dtype).contiguous()) for each in found)


def _as(tensor: Tensor, like: Tensor) -> Tensor:
    """Convert a tensor to the dtype of another, if it differs."""
    return tensor if tensor.dtype == like.dtype else tensor.to(like.dtype)


def _attend(
    query: Float[Tensor, "B N H E"], key: Float[Tensor, "BH K E"], value: Float[Tensor, "BH K E"], bias: Tensor | None
) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "BH N K"]]:
    """Return softmax(q kᵀ / √E + bias) v, and the weights."""
    rows, count, heads, width = query.shape
    queries = query.transpose(1, 2).reshape(rows * heads, count, width)
    scores = torch.baddbmm(_IGNORED[query.dtype], queries, key.transpose(1, 2), beta=0, alpha=width**-0.5)
    if bias is not None:  # `torch.baddbmm` would first copy the bias for each head
        scores.view(rows, heads, count, key.shape[1]).add_(bias)
    weights = scores.softmax(-1)
    context = torch.bmm(weights, value).view(rows, heads, count, width)
    return context.transpose(1, 2).reshape(rows, count, heads * width), weights


def pack_decoder(decoder: nn.Module, rows: int, int8: bool = False) -> PackedDecoder | None:
    """Pack a decoder.

    Args:
        decoder: A module.
        rows: Number of sentences in the search.
        int8: Whether products run in 8-bit integers.

    Returns:
        The packed decoder. None if the module is no Transformer decoder, is not on a CPU, or has a part whose formula is not
        known here: an adapter, a hook, a subclass, another mechanism, or layers with different numbers of heads.
    """
    if not (is_exactly(decoder, TransformerDecoder) or is_exactly(decoder, CausalDecoder)):
        return None
    made = cast(Decoder, decoder)
    weight = next(made.parameters())
    dtype = torch.promote_types(weight.dtype, torch.float32)
    layers = [None if weight.device.type != "cpu" else _pack_layer(layer, rows, int8, dtype) for layer in made.layers]
    known = [layer for layer in layers if layer is not None]
    attentions = [part for layer in made.layers for part in layer.children() if isinstance(part, Attention)]
    heads = {getattr(attention, "num_heads", 0) for attention in attentions}
    return PackedDecoder(made, known, heads.pop(), dtype) if len(known) == len(layers) and len(heads) == 1 else None


def _pack_layer(layer: nn.Module, rows: int, int8: bool, dtype: torch.dtype) -> _Layer | None:
    """Return the packed parts of a layer; None if the formula of a part is not known here."""
    across = None
    if isinstance(layer, DecoderLayer) and is_exactly(layer, DecoderLayer):
        own = _pack_heads(layer.self_attention, layer.self_residual, rows, int8, dtype)
        across = _pack_heads(layer.cross_attention, layer.cross_residual, rows, int8, dtype, within=False)
        if across is None:
            return None
    elif isinstance(layer, CausalLayer) and is_exactly(layer, CausalLayer):
        own = _pack_heads(layer.attention, layer.attention_residual, rows, int8, dtype)
    else:
        return None
    feed_forward = _pack_feed_forward(layer.feed_forward, rows, int8)
    if own is None or feed_forward is None:
        return None
    return _Layer(own, across, feed_forward, *_pack_residual(layer.feed_forward_residual, dtype))


def _pack_heads(
    attention: Attention, residual: Residual, rows: int, int8: bool, dtype: torch.dtype, *, within: bool = True
) -> _Heads | None:
    maps = attention.head_maps()
    if maps is None:
        return None
    read = pack_linear([maps.query, maps.key, maps.value] if within else [maps.query], rows, int8)
    output = pack_linear([maps.output], rows, int8)
    if read is None or output is None:
        return None
    rotate_one = None if maps.positions is None else _in_dtype(maps.positions, dtype).rotate_one
    return _Heads(read, output, *_pack_residual(residual, dtype), rotate_one)


def _pack_residual(residual: Residual, dtype: torch.dtype) -> tuple[Before, After]:
    """Return the two functions of a residual connection, without module calls where a PyTorch function gives the same result.

    With one sentence, calling a module takes as long as computing the norm.
    """
    residual = _in_dtype(residual, dtype)
    if is_exactly(residual, PreNorm) and is_exactly(residual.dropout, Dropout):
        return _pack_norm(residual.norm), torch.add
    return residual.before, residual.after


def _pack_norm(norm: nn.Module) -> Before:
    if not isinstance(norm, nn.LayerNorm) or not is_exactly(norm, nn.LayerNorm):
        return norm
    shape, weight, bias, eps = list(norm.normalized_shape), norm.weight, norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


def _pack_feed_forward(part: nn.Module, rows: int, int8: bool) -> Callable[[Tensor], Tensor] | None:
    """Return outer(activation(inner(x))), or with a gate outer(activation(gate(x)) ⊙ inner(x)); None for other formulas."""
    gated = isinstance(part, GatedFeedForward) and is_exactly(part, GatedFeedForward)
    if not (gated or is_exactly(part, FeedForward)) or not is_exactly(cast(nn.Module, part.dropout), Dropout):
        return None
    linears = [part.inner, part.outer, *([part.gate] if gated else [])]
    maps = [pack_linear([linear], rows, int8) for linear in cast(list[nn.Linear], linears)]
    if any(each is None for each in maps):
        return None
    inner, outer, *rest = cast(list[PackedMap], maps)
    activation = cast(Before, torch.relu if is_exactly(cast(nn.Module, part.activation), nn.ReLU) else part.activation)
    if not rest:
        return lambda x: outer(activation(inner(x)))
    [gate] = rest
    return lambda x: outer(activation(gate(x)) * inner(x))


def _in_dtype(module: Module, dtype: torch.dtype) -> Module:
    """Return the module, or a copy in another dtype if its parameters have a different one."""
    return module if all(p.dtype == dtype for p in module.parameters()) else deepcopy(module).to(dtype)
