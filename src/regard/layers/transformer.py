"""Layers and stacks of a Transformer, made of parts that are given to them; `transformer_build` makes the usual ones.

A part joins the stream by a `Residual`, which knows where the norm is. Weights are returned by the layers that are asked for
them; the others take the fastest path.

Letters: B batch, S source, T target, N hypotheses of a sentence, D width.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.base import Attention, HeadMaps, Memory
from regard.attention.capabilities import Reweight, capability
from regard.attention.multihead import MultiHead
from regard.errors import ConfigError
from regard.layers.cache import KeyValueCache
from regard.layers.residual import Residual
from regard.reweight import per_hypothesis


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward part.

    Args:
        attention: Of queries, keys and values of width D, with a context of width D.
        attention_residual: How it joins the stream.
        feed_forward: From (…,D) to (…,D).
        feed_forward_residual: How it joins the stream.
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
        """Return the features after this layer, and the weights (B,H,S,S) if they are wanted.

        Args:
            x: The features before it.
            mask: True at tokens.
            reweight: Maps the attention weights to those used in their place.
            need_weights: Whether to return the weights.
        """
        read = self.attention_residual.before(x)
        out = self.attention(read, read, key_mask=mask, reweight=reweight, need_weights=need_weights)
        x = self.attention_residual.after(x, out.context)
        return self.feed_forward_residual.after(x, self.feed_forward(self.feed_forward_residual.before(x))), out.weights


class TransformerEncoder(nn.Module):
    """A stack of encoder layers.

    Args:
        layers: One or more, all of one width.
        norm: Of what leaves the last layer; for layers that leave the stream without one.
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
            mask: True at tokens; padding is read by nobody.
            reweight: By number of the layer, what maps its weights to those used in their place.
            record: Numbers of the layers whose weights are wanted, from 0.

        Returns:
            The states, and the weights (B,H,S,S) by layer.
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
    """What a decoder layer does with its weights, beside using them."""

    need_own: bool = False
    """Whether to return the weights of self-attention."""
    need_across: bool = False
    """Whether to return the weights of attention to the source."""
    reweight_own: Reweight | None = None
    """Maps the weights of self-attention to those used in their place."""
    reweight_across: Reweight | None = None
    """Maps the weights of attention to the source to those used in their place."""


@dataclass(frozen=True)
class DecoderRequest:
    """What a decoder does with its weights, by number of the layer from 0."""

    own: Collection[int] = ()
    """Layers whose self-attention is recorded."""
    across: Collection[int] = ()
    """Layers whose attention to the source is recorded."""
    reweight_own: Mapping[int, Reweight] = field(default_factory=dict)
    """What maps weights of self-attention to those used in their place."""
    reweight_across: Mapping[int, Reweight] = field(default_factory=dict)
    """What maps weights of attention to the source to those used in their place."""

    @property
    def reweights(self) -> bool:
        """Whether weights of some layer are changed."""
        return bool(self.reweight_own or self.reweight_across)

    def layer(self, number: int) -> LayerRequest:
        """Return the part for one layer."""
        return LayerRequest(
            number in self.own, number in self.across, self.reweight_own.get(number), self.reweight_across.get(number)
        )


@dataclass(frozen=True)
class LayerWeights:
    """The weights of the recorded layers: (B,H,T,T) and (B,H,T,S); from a step, N in place of the first T."""

    own: dict[int, Tensor] = field(default_factory=dict)
    across: dict[int, Tensor] = field(default_factory=dict)

    def add(self, number: int, own: Tensor | None, across: Tensor | None) -> None:
        """Store a layer's weights; None is skipped."""
        if own is not None:
            self.own[number] = own
        if across is not None:
            self.across[number] = across


@dataclass(frozen=True)
class LayerParts:
    """The parts of a decoder layer, whose step is own attention, then attention to the source, then the feed-forward part."""

    own: HeadMaps
    own_residual: Residual
    across: tuple[HeadMaps, Residual] | None
    """The attention to the source and its residual; None in a decoder without a source."""
    feed_forward: nn.Module
    feed_forward_residual: Residual


@dataclass(frozen=True)
class DecoderParts:
    """The parts of a decoder whose step runs the layers one after the other, and then the norm if there is one."""

    layers: tuple[LayerParts, ...]
    norm: nn.Module | None


NOTHING, NOTHING_OF_ALL = LayerRequest(), DecoderRequest()
"""The weights are used, and neither returned nor changed: by a layer, and by all layers."""


class DecoderLayer(nn.Module):
    """Causal self-attention, then attention to the source, then the feed-forward part.

    Args:
        self_attention: Causal, of width D.
        self_residual: How it joins the stream.
        cross_attention: Of queries and keys of width D, with a context of width D; without a state.
        cross_residual: How it joins the stream.
        feed_forward: From (…,D) to (…,D).
        feed_forward_residual: How it joins the stream.
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
                f"DecoderLayer: a {type(cross_attention).__name__} remembers earlier queries, which a layer that reads a whole "
                "target at once does not have; take a mechanism without a state, such as MultiHead, Additive or LocalPredictive"
            )
        check_width("DecoderLayer", self_attention, cross_attention)
        self.size = self_attention.query_size
        self.self_attention, self.self_residual = self_attention, self_residual
        self.cross_attention, self.cross_residual = cross_attention, cross_residual
        self.feed_forward, self.feed_forward_residual = feed_forward, feed_forward_residual

    def forward(
        self, x: Float[Tensor, "B T D"], memory: Memory, request: LayerRequest = NOTHING
    ) -> tuple[Float[Tensor, "B T D"], Tensor | None, Tensor | None]:
        """Return the features of a whole target after this layer, and the weights that are wanted."""
        read = self.self_residual.before(x)
        own = self.self_attention(read, read, reweight=request.reweight_own, need_weights=request.need_own)
        x, across = self._rest(self.self_residual.after(x, own.context), memory, request)
        return x, own.weights, across

    def step(
        self,
        x: Float[Tensor, "B N D"],
        memory: Memory,
        cache: KeyValueCache | None,
        request: LayerRequest = NOTHING,
    ) -> tuple[Float[Tensor, "B N D"], Tensor | None, Tensor | None, KeyValueCache]:
        """Return the features of one more word of each hypothesis; its keys join those of the words before.

        The hypotheses of a sentence are so many queries of one row to the source, whose keys they share.
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

    @capability
    def parts(self) -> LayerParts | None:
        """Return the parts if `step` computes the formula of `LayerParts` and nothing else."""
        own, across = self.self_attention.head_maps(), self.cross_attention.head_maps()
        if own is None or across is None:
            return None
        return LayerParts(own, self.self_residual, (across, self.cross_residual), self.feed_forward, self.feed_forward_residual)

    def _rest(self, x: Tensor, memory: Memory, request: LayerRequest) -> tuple[Tensor, Tensor | None]:
        read = self.cross_residual.before(x)
        out, _ = self.cross_attention.attend(read, memory, reweight=request.reweight_across, need_weights=request.need_across)
        x = self.cross_residual.after(x, out.context)
        return self.feed_forward_residual.after(x, self.feed_forward(self.feed_forward_residual.before(x))), out.weights


class TransformerDecoder(nn.Module):
    """A stack of decoder layers.

    Args:
        layers: One or more, all of one width.
        norm: Of what leaves the last layer; for layers that leave the stream without one.
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
        """Run all layers over a whole target: embeddings with their positions."""
        weights = LayerWeights()
        for number, (layer, memory) in enumerate(zip(self.layers, memories, strict=True)):
            x, own, across = layer(x, memory, request.layer(number))
            weights.add(number, own, across)
        return x if self.norm is None else self.norm(x), weights

    def step(
        self,
        x: Float[Tensor, "B N D"],
        memories: Sequence[Memory],
        caches: Sequence[KeyValueCache] | None,
        request: DecoderRequest = NOTHING_OF_ALL,
    ) -> tuple[Float[Tensor, "B N D"], LayerWeights, tuple[KeyValueCache, ...]]:
        """Run all layers over one more word of each hypothesis; `caches` None begins."""
        weights, after = LayerWeights(), []
        for number, (layer, memory) in enumerate(zip(self.layers, memories, strict=True)):
            before = None if caches is None else caches[number]
            x, own, across, cache = cast(DecoderLayer, layer).step(x, memory, before, request.layer(number))
            weights.add(number, own, across)
            after.append(cache)
        return x if self.norm is None else self.norm(x), weights, tuple(after)

    @capability
    def parts(self) -> DecoderParts | None:
        """Return the parts if `step` computes the formula of `DecoderParts` and nothing else."""
        layers = [cast(DecoderLayer, layer).parts() for layer in self.layers]
        return join_parts(layers, self.norm)


def join_parts(layers: Sequence[LayerParts | None], norm: nn.Module | None) -> DecoderParts | None:
    """Return the parts of a decoder; None if a layer did not say what it consists of, or there is no layer."""
    known = tuple(layer for layer in layers if layer is not None)
    return DecoderParts(known, norm) if known and len(known) == len(layers) else None


def attend_within(
    attention: MultiHead,
    read: Float[Tensor, "B N D"],
    cache: KeyValueCache | None,
    *,
    reweight: Reweight | None = None,
    need_weights: bool,
) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B H N t"] | None, KeyValueCache]:
    """Return causal self-attention of one more word of each hypothesis to the words before it and itself.

    Args:
        attention: Causal.
        read: Queries, and the keys and values that join those of the words before.
        cache: The words before; None before the first.
        reweight: Maps the weights (B,H,N,t) to those used in their place.
        need_weights: Whether weights are wanted.
    """
    rows = read.flatten(0, 1)[:, None]
    new = attention.prepare(rows)
    cache = KeyValueCache.begin(new) if cache is None else cache.append(new)
    change = per_hypothesis(reweight, len(read))
    out, _ = attention.attend(rows, cache.memory, reweight=change, need_weights=need_weights)
    weights = None if out.weights is None else out.weights[:, :, 0].unflatten(0, read.shape[:2]).transpose(1, 2)
    return out.context.view(read.shape), weights, cache


def check_width(name: str, *attentions: Attention) -> None:
    """Refuse an attention that cannot read the stream, or whose loss would not reach the training loss."""
    for attention in attentions:
        if attention.has_loss:
            raise ConfigError(
                f"{name}: a {type(attention).__name__} has a loss of its own, which a Transformer does not add to the training "
                "loss; take another mechanism here, or a recurrent decoder"
            )
        if attention.query_size != attention.key_size:
            raise ConfigError(
                f"{name}: its attention reads queries {attention.query_size} wide and keys {attention.key_size} wide, and both "
                "come from streams of one width: make key_size equal to size"
            )


def check_stack(name: str, layers: Sequence[nn.Module]) -> int:
    """Return the width that all layers share."""
    sizes = sorted({cast(int, layer.size) for layer in layers})
    if len(sizes) != 1:
        got = f"layers of widths {', '.join(map(str, sizes))}" if sizes else "no layer"
        raise ConfigError(f"{name} got {got}; expected one layer or more, all of one width")
    return sizes[0]
