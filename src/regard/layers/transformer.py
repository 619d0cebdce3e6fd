"""Layers of a Transformer, and stacks of layers. The caller gives their parts; `transformer_build` builds all from settings.

A `Residual` connects each part to the residual stream and applies the norm. Only the requested layers return attention
weights; the other layers use the fastest code, which does not return them.

Letters: B batch, S source, T target, N hypotheses of a sentence, t words so far, H heads, D width.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.base import Attention, Memory
from regard.attention.capabilities import Reweight
from regard.attention.head_memory import HeadMemory
from regard.attention.multihead import MultiHead
from regard.errors import ConfigError
from regard.layers.cache import KeyValueCache, LayerCaches
from regard.layers.residual import Residual
from regard.reweight import per_hypothesis


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward part.

    Args:
        attention: Attention whose queries, keys, values and context all have the width D.
        attention_residual: Residual connection of the attention.
        feed_forward: Module that maps features (…,D) to features (…,D).
        feed_forward_residual: Residual connection of the feed-forward part.
    """

    def __init__(
        self, *, attention: Attention, attention_residual: Residual, feed_forward: nn.Module, feed_forward_residual: Residual
    ) -> None:
        super().__init__()
        check_width("EncoderLayer", attention)
        self.size = attention.query_size
        self.attention, self.attention_residual = attention, attention_residual
        self.feed_forward, self.feed_forward_residual = feed_forward, feed_forward_residual

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B S"] | None = None,
        *,
        reweight: Reweight | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "B S D"], Tensor | None]:
        """Return the output features of this layer, and the attention weights.

        Args:
            x: Input features of the layer.
            mask: True at tokens, False at padding; None if there is no padding.
            reweight: Function that replaces the attention weights.
            need_weights: Whether to return the weights, (B,H,S,S) or, without heads, (B,S,S). If False, None replaces them.
        """
        read = self.attention_residual.before(x)
        out = self.attention(read, read, key_mask=mask, reweight=reweight, need_weights=need_weights)
        x = self.attention_residual.after(x, out.context)
        return self.feed_forward_residual.after(x, self.feed_forward(self.feed_forward_residual.before(x))), out.weights


class TransformerEncoder(nn.Module):
    """A stack of encoder layers.

    Args:
        layers: One or more layers of the same width.
        norm: Norm after the last layer, for layers that do not end with a norm.
    """

    def __init__(self, layers: Sequence[EncoderLayer], *, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.size = check_stack("TransformerEncoder", layers)
        self.layers = nn.ModuleList(layers)
        self.norm = norm

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B S"] | None = None,
        *,
        reweight: Mapping[int, Reweight] | None = None,
        record: Collection[int] = (),
    ) -> tuple[Float[Tensor, "B S D"], dict[int, Tensor]]:
        """Run all layers.

        Args:
            x: Embeddings with their positions.
            mask: True at tokens, False at padding; no query attends to padding. None if there is no padding.
            reweight: Functions that replace attention weights, by the number of the layer, from 0.
            record: Numbers of the layers whose weights are returned, from 0.

        Returns:
            The states after the last layer and the norm, and the weights (B,H,S,S), or (B,S,S) without heads, of the layers in
            `record`, by the number of the layer.
        """
        found: dict[int, Tensor] = {}
        for number, layer in enumerate(self.layers):
            change = None if reweight is None else reweight.get(number)
            x, weights = cast(EncoderLayer, layer)(x, mask, reweight=change, need_weights=number in record)
            if weights is not None:
                found[number] = weights
        return x if self.norm is None else self.norm(x), found


@dataclass(frozen=True)
class LayerRequest:
    """Attention weights that a decoder layer should return or replace."""

    need_own: bool = False
    """Whether to return the weights of self-attention."""
    need_across: bool = False
    """Whether to return the weights of attention to the source."""
    reweight_own: Reweight | None = None
    """Function that replaces the weights of self-attention."""
    reweight_across: Reweight | None = None
    """Function that replaces the weights of attention to the source."""


@dataclass(frozen=True)
class DecoderRequest:
    """Attention weights that the layers of a decoder should return or replace; layers are numbered from 0."""

    own: Collection[int] = ()
    """Numbers of the layers that return the weights of self-attention."""
    across: Collection[int] = ()
    """Numbers of the layers that return the weights of attention to the source."""
    reweight_own: Mapping[int, Reweight] = field(default_factory=dict)
    """Functions that replace the weights of self-attention; each key is the number of a layer."""
    reweight_across: Mapping[int, Reweight] = field(default_factory=dict)
    """Functions that replace the weights of attention to the source; each key is the number of a layer."""

    @property
    def reweights(self) -> bool:
        """Whether the weights of at least one layer are replaced."""
        return bool(self.reweight_own or self.reweight_across)

    def layer(self, number: int) -> LayerRequest:
        """Return the request for one layer."""
        return LayerRequest(
            number in self.own, number in self.across, self.reweight_own.get(number), self.reweight_across.get(number)
        )


@dataclass(frozen=True)
class LayerWeights:
    """Attention weights of a decoder, by the number of the layer, from 0.

    For a whole target, the weights of self-attention (`own`) are (B,H,T,T), and those of attention to the source (`across`)
    are (B,H,T,S), or (B,T,S) without heads. For one decoding step, with N hypotheses of each sentence and t words so far, they
    are (B,H,N,t) and (B,H,N,S), or (B,N,S) without heads.
    """

    own: dict[int, Tensor] = field(default_factory=dict)
    across: dict[int, Tensor] = field(default_factory=dict)

    def add(self, number: int, own: Tensor | None, across: Tensor | None) -> None:
        """Store the weights of the layer `number`; weights that are None are not stored."""
        if own is not None:
            self.own[number] = own
        if across is not None:
            self.across[number] = across


NOTHING, NOTHING_OF_ALL = LayerRequest(), DecoderRequest()
"""Requests that neither return nor replace weights: `NOTHING` for one layer, `NOTHING_OF_ALL` for a whole decoder."""


class DecoderLayer(nn.Module):
    """Causal self-attention, then attention to the source, then the feed-forward part.

    Args:
        self_attention: A causal attention of width D.
        self_residual: Residual connection of the self-attention.
        cross_attention: Attention to the source, with queries, keys and context of width D. It must not be `stateful`.
        cross_residual: Residual connection of the attention to the source.
        feed_forward: Module that maps features (…,D) to features (…,D).
        feed_forward_residual: Residual connection of the feed-forward part.
    """

    def __init__(
        self,
        *,
        self_attention: MultiHead,
        self_residual: Residual,
        cross_attention: Attention,
        cross_residual: Residual,
        feed_forward: nn.Module,
        feed_forward_residual: Residual,
    ) -> None:
        super().__init__()
        if not self_attention.causal:
            raise ConfigError("DecoderLayer: its self-attention sees later words; build it with causal=True")
        if cross_attention.stateful:
            raise ConfigError(
                f"DecoderLayer: a {type(cross_attention).__name__} remembers earlier queries, but this layer computes all "
                "queries of a target at once; use a mechanism without a state, such as MultiHead, Additive or LocalPredictive"
            )
        check_width("DecoderLayer", self_attention, cross_attention)
        self.size = self_attention.query_size
        self.self_attention, self.self_residual = self_attention, self_residual
        self.cross_attention, self.cross_residual = cross_attention, cross_residual
        self.feed_forward, self.feed_forward_residual = feed_forward, feed_forward_residual

    def forward(
        self, x: Float[Tensor, "B T D"], memory: Memory, request: LayerRequest = NOTHING
    ) -> tuple[Float[Tensor, "B T D"], Tensor | None, Tensor | None]:
        """Return the output features of this layer for a whole target, and the requested weights.

        The second result is the weights of self-attention, the third those of attention to the source; None if not requested.
        """
        read = self.self_residual.before(x)
        own = self.self_attention(read, read, reweight=request.reweight_own, need_weights=request.need_own)
        x, across = self._rest(self.self_residual.after(x, own.context), memory, request)
        return x, own.weights, across

    def step(
        self,
        x: Float[Tensor, "B N D"],
        memory: Memory,
        cache: HeadMemory | None,
        request: LayerRequest = NOTHING,
    ) -> tuple[Float[Tensor, "B N D"], Tensor | None, Tensor | None, HeadMemory]:
        """Run this layer over one new word of each hypothesis; `cache` is None for the first word.

        The results are the features, the weights of self-attention, the weights of attention to the source (None if not
        requested), and a cache that also contains the keys and values of the new words. The N hypotheses of a sentence are N
        queries in the same row of the batch, because they share the keys of the source.
        """
        context, own, cache = attend_within(
            self.self_attention,
            self.self_residual.before(x),
            cache,
            reweight=request.reweight_own,
            need_weights=request.need_own,
        )
        x, across = self._rest(self.self_residual.after(x, context), memory, request)
        return x, own, across, cache

    def _rest(self, x: Tensor, memory: Memory, request: LayerRequest) -> tuple[Tensor, Tensor | None]:
        read = self.cross_residual.before(x)
        out, _ = self.cross_attention.attend(read, memory, reweight=request.reweight_across, need_weights=request.need_across)
        x = self.cross_residual.after(x, out.context)
        return self.feed_forward_residual.after(x, self.feed_forward(self.feed_forward_residual.before(x))), out.weights


class TransformerDecoder(nn.Module):
    """A stack of decoder layers.

    Args:
        layers: One or more layers of the same width.
        norm: Norm after the last layer, for layers that do not end with a norm.
    """

    def __init__(self, layers: Sequence[DecoderLayer], *, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.size = check_stack("TransformerDecoder", layers)
        self.layers = nn.ModuleList(layers)
        self.norm = norm

    def prepare(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"] | None) -> tuple[Memory, ...]:
        """Return the source's keys and values for each layer, computed once."""
        return tuple(cast(DecoderLayer, layer).cross_attention.prepare(states, key_mask=mask) for layer in self.layers)

    def forward(
        self, x: Float[Tensor, "B T D"], memories: Sequence[Memory], request: DecoderRequest = NOTHING_OF_ALL
    ) -> tuple[Float[Tensor, "B T D"], LayerWeights]:
        """Run all layers over a whole target, and return its features and the requested weights.

        `x` contains the embeddings of the target with their positions, and `memories` is the result of `prepare`.
        """
        weights = LayerWeights()
        for number, (layer, memory) in enumerate(zip(self.layers, memories, strict=True)):
            x, own, across = layer(x, memory, request.layer(number))
            weights.add(number, own, across)
        return x if self.norm is None else self.norm(x), weights

    def step(
        self,
        x: Float[Tensor, "B N D"],
        memories: Sequence[Memory],
        cache: LayerCaches | None,
        request: DecoderRequest = NOTHING_OF_ALL,
    ) -> tuple[Float[Tensor, "B N D"], LayerWeights, LayerCaches]:
        """Run all layers over one new word of each hypothesis; `cache` is None for the first word.

        The results are the features, the requested weights, and a new cache, which the next step needs. `x` contains embeddings
        with their positions, and `memories` is the result of `prepare`.
        """
        weights, after = LayerWeights(), []
        before = [None] * len(self.layers) if cache is None else cache.read()
        for number, (layer, memory) in enumerate(zip(self.layers, memories, strict=True)):
            x, own, across, new = cast(DecoderLayer, layer).step(x, memory, before[number], request.layer(number))
            weights.add(number, own, across)
            after.append(new)
        return x if self.norm is None else self.norm(x), weights, LayerCaches(tuple(after), x.shape[1])


def attend_within(
    attention: MultiHead,
    read: Float[Tensor, "B N D"],
    cache: HeadMemory | None,
    *,
    reweight: Reweight | None = None,
    need_weights: bool,
) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B H N t"] | None, HeadMemory]:
    """Compute causal self-attention in one step: each hypothesis's new word attends to itself and to its earlier words.

    Args:
        attention: A causal attention.
        read: Features of the new words, from which queries, keys and values are computed.
        cache: Keys and values of the earlier words; None for the first word.
        reweight: Function that replaces the weights (B,H,N,t), for N hypotheses of each sentence and t words so far.
        need_weights: Whether to return the weights.

    Returns:
        The context, the weights (None if not needed), and a cache that also contains the new words.
    """
    rows = read.flatten(0, 1)[:, None]
    change = per_hypothesis(reweight, read.shape[0])
    out, state = attention.attend(rows, attention.prepare(rows), cache, reweight=change, need_weights=need_weights)
    assert state is not None
    if type(attention) is MultiHead and cache is None:  # others may keep gates, or keys and values of different widths
        state = KeyValueCache.begin(state)
    weights = None if out.weights is None else out.weights[:, :, 0].unflatten(0, read.shape[:2]).transpose(1, 2)
    return out.context.view(read.shape), weights, state


def check_width(name: str, *attentions: Attention) -> None:
    """Raise an error for an attention whose queries, keys, values and context differ in width, or that has its own loss."""
    for attention in attentions:
        if attention.has_loss:
            raise ConfigError(
                f"{name}: a {type(attention).__name__} has a loss of its own, which a Transformer does not add to the training "
                "loss; take another mechanism here, or a recurrent decoder"
            )
        if attention.query_size != attention.key_size:
            raise ConfigError(
                f"{name}: its attention has query_size={attention.query_size} and key_size={attention.key_size}, but "
                "queries and keys of a Transformer have the same width; make key_size equal to query_size (`size` of a "
                "MultiHead)"
            )
        value_size = getattr(attention, "value_size", attention.key_size)
        if value_size != attention.key_size:
            raise ConfigError(
                f"{name}: its attention has key_size={attention.key_size} and value_size={value_size}, but keys and values of "
                "a Transformer are the same features; leave value_size out"
            )
        width = attention.context_size(attention.key_size)
        if width != attention.query_size:
            raise ConfigError(
                f"{name}: its attention has query_size={attention.query_size} and a context of width {width}, but a "
                "Transformer adds the context to the features of the queries; make both equal (`output_size` of a MultiHead)"
            )


def check_stack(name: str, layers: Sequence[nn.Module]) -> int:
    """Return the width of the layers; raise an error if there is no layer, or their widths differ."""
    sizes = sorted({cast(int, layer.size) for layer in layers})
    if len(sizes) != 1:
        got = f"layers of widths {', '.join(map(str, sizes))}" if sizes else "no layer"
        raise ConfigError(f"{name} got {got}; expected at least one layer, all of the same width")
    return sizes[0]
