"""Layers of a Transformer, and stacks of layers, composed of parts that the caller gives.

A `Residual` connects each part to the residual stream and applies the norm. A stack gets a `Sites` object, which says which
attention weights to return or to replace; the other layers use the fastest code, which does not return them.

Letters: B batch, S source, T target, N hypotheses of a sentence, t words so far, H heads, D width.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.attention.base import Attention, Memory
from regard.attention.capabilities import Reweight, is_exactly
from regard.attention.heads.attend import is_joint, join_maps, split_heads
from regard.attention.heads.memory import HeadMemory
from regard.attention.heads.multihead import MultiHead
from regard.attention.masks import KeyMask, resolve_key_mask, zero_masked
from regard.attention.precision import compute_dtype
from regard.errors import ConfigError
from regard.layers.cache import DecoderCache, begin_cache
from regard.layers.residual import Residual
from regard.private_torch import forget_compiled
from regard.reweight import Sites


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward part.

    Args:
        attention: Attention whose queries, keys, values and context all have the width D.
        attention_residual: Residual connection of the attention.
        feed_forward: Module that maps features (…,D) to features (…,D).
        feed_forward_residual: Residual connection of the feed-forward part.
    """

    recomputed = False
    """Whether its gradient computes the layer again from its input; see `running_layers`."""

    def __init__(
        self, *, attention: Attention, attention_residual: Residual, feed_forward: nn.Module, feed_forward_residual: Residual
    ) -> None:
        super().__init__()
        check_width(type(self).__name__, attention)
        self.size = attention.query_size
        self.attention, self.attention_residual = attention, attention_residual
        self.feed_forward, self.feed_forward_residual = feed_forward, feed_forward_residual

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B S"] | KeyMask | None = None,
        *,
        reweight: Reweight | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "B S D"], Tensor | None]:
        """Return the output features of this layer, and the attention weights.

        Args:
            x: Input features of the layer.
            mask: True at tokens, False at padding; None if there is no padding. A `KeyMask` if it was resolved for all layers.
            reweight: Function that replaces the attention weights.
            need_weights: Whether to return the weights, (B,H,S,S) or, without heads, (B,S,S). If False, None replaces them.
        """
        read = self.attention_residual.before(x)
        if isinstance(mask, KeyMask):
            memory = self.attention.prepare_self(read, key_mask=mask)
            out, _ = self.attention.attend(read, memory, reweight=reweight, need_weights=need_weights)
        else:
            out = self.attention(read, read, key_mask=mask, reweight=reweight, need_weights=need_weights)
        x = self.attention_residual.after(x, out.context)
        return self.feed_forward_residual.after(x, self.feed_forward(self.feed_forward_residual.before(x))), out.weights


class CausalLayer(EncoderLayer):
    """Causal self-attention, then the feed-forward part: a layer of a decoder without a source.

    Args:
        attention: A causal attention of width D.
        parts: The other arguments of `EncoderLayer`.

    Raises:
        ConfigError: If the attention is not causal, or its queries, keys, values and context have different widths.
    """

    attention: MultiHead

    def __init__(self, *, attention: MultiHead, **parts: Any) -> None:
        super().__init__(attention=attention, **parts)
        check_causal("CausalLayer", attention)

    @property
    def self_attention(self) -> MultiHead:
        """The attention, as a `DecoderLayer` names it."""
        return self.attention

    @property
    def self_residual(self) -> Residual:
        """The residual connection of the attention, as a `DecoderLayer` names it."""
        return self.attention_residual


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

    recomputed = False
    """As for `EncoderLayer`."""

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
        check_causal("DecoderLayer", self_attention)
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
        self, x: Float[Tensor, "B T D"], memory: Memory, own: dict[str, Any], across: dict[str, Any]
    ) -> tuple[Float[Tensor, "B T D"], Tensor | None, Tensor | None]:
        """Return the output features and the weights of both attentions, whose options are `own` and `across`."""
        read = self.self_residual.before(x)
        out = self.self_attention(read, read, **own)
        x, weights = self.finish(self.self_residual.after(x, out.context), memory, across)
        return x, out.weights, weights

    def finish(self, x: Tensor, memory: Memory, across: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
        """Apply the parts after the self-attention; also return the weights of the attention to the source."""
        out, _ = self.cross_attention.attend(self.cross_residual.before(x), memory, **across)
        x = self.cross_residual.after(x, out.context)
        return self.feed_forward_residual.after(x, self.feed_forward(self.feed_forward_residual.before(x))), out.weights


class TransformerEncoder(nn.Module):
    """A stack of encoder layers, whose sites are `encoder.i`.

    Args:
        layers: One or more layers of the same width.
        norm: Norm after the last layer, for layers that do not end with a norm.
    """

    layers: Sequence[EncoderLayer]

    def __init__(self, layers: Sequence[EncoderLayer], *, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.size = check_stack(type(self).__name__, layers)
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]  # a module list is such a sequence
        self.norm = norm
        self.sites = tuple(f"encoder.{number}" for number in range(len(layers)))

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"] | KeyMask | None = None, sites: Sites | None = None
    ) -> Float[Tensor, "B S D"]:
        """Return the states after the last layer and the norm.

        Args:
            x: Embeddings with their positions.
            mask: True at tokens, False at padding; no query attends to padding. None if there is no padding. A `KeyMask` if
                `share_mask` resolved it.
            sites: Weights to return, (B,H,S,S) or (B,S,S) without heads, or to replace; None for neither.
        """
        sites = sites or Sites()
        mask = share_mask(mask, [layer.attention for layer in self.layers], x)
        if isinstance(mask, KeyMask):
            x = zero_masked(x, mask.exists)
        for number, layer in enumerate(self.layers):
            site = f"encoder.{number}"
            x, weights = run_layer(layer, x, mask, **sites.options(site))
            sites.add(site, weights)
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(nn.Module):
    """A stack of decoder layers, whose sites are `decoder.i` (self-attention) and `cross.i` (attention to the source).

    Args:
        layers: One or more layers of the same width; a `CausalLayer` has no source, so that there are no `memories` and no
            sites `cross.i`.
        norm: Norm after the last layer, for layers that do not end with a norm.
    """

    layers: Sequence[DecoderLayer]

    def __init__(self, layers: Sequence[DecoderLayer] | Sequence[CausalLayer], *, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.size = check_stack(type(self).__name__, layers)
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]  # a module list is such a sequence
        self.norm = norm

    def prepare(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"] | KeyMask | None) -> tuple[Memory, ...]:
        """Return the source's keys and values for each layer, computed once."""
        attentions = [layer.cross_attention for layer in self.layers]
        mask = share_mask(mask, attentions, states)
        if isinstance(mask, KeyMask):
            memories = _prepare_together(cast(list[MultiHead], attentions), zero_masked(states, mask.exists), mask)
        else:
            memories = [attention.prepare(states, key_mask=mask) for attention in attentions]
        # Each step of a search reads keys and values, which products would copy first if the heads were interleaved.
        return tuple(one.contiguous() if _searches() and type(one) is HeadMemory else one for one in memories)

    def forward(
        self, x: Float[Tensor, "B T D"], memories: Sequence[Memory], sites: Sites | None = None
    ) -> Float[Tensor, "B T D"]:
        """Return the features of a whole target.

        Args:
            x: Embeddings of the target with their positions.
            memories: Result of `prepare`.
            sites: Weights (B,H,T,T) and (B,H,T,S), or (B,T,S) without heads, to return or to replace; None for neither.
        """
        sites = sites or Sites()
        for number, layer in enumerate(self.layers):
            own, across = sites.options(f"decoder.{number}"), sites.options(f"cross.{number}")
            if memories:
                x, weights, crossed = run_layer(layer, x, memories[number], own, across)
            else:
                (x, weights), crossed = run_layer(layer, x, **own), None
            sites.add(f"decoder.{number}", weights)
            sites.add(f"cross.{number}", crossed)
        return x if self.norm is None else self.norm(x)

    def step(
        self, x: Float[Tensor, "B N D"], memories: Sequence[Memory], cache: DecoderCache | None, sites: Sites | None = None
    ) -> tuple[Float[Tensor, "B N D"], DecoderCache]:
        """Run all layers over one new word of each hypothesis.

        The N hypotheses of a sentence are N queries in the same row of the batch, because they share the keys of the source.

        Args:
            x: Embeddings with their positions.
            memories: Result of `prepare`.
            cache: The earlier words; None for the first word.
            sites: Weights (B,H,N,t) and (B,H,N,S), or (B,N,S) without heads, to return or to replace; None for neither.

        Returns:
            The features, and a cache with the new words, which the next step needs.
        """
        sites = sites or Sites()
        cache = (cache or begin_cache([layer.self_attention for layer in self.layers], x)).extended(x.shape[1])
        for number, layer in enumerate(self.layers):
            read = layer.self_residual.before(x)
            context, weights = cache.attend(number, layer.self_attention, read, **sites.options(f"decoder.{number}"))
            sites.add(f"decoder.{number}", weights)
            x = layer.self_residual.after(x, context)
            if memories:
                x, crossed = layer.finish(x, memories[number], sites.options(f"cross.{number}"))
                sites.add(f"cross.{number}", crossed)
            else:
                x = layer.feed_forward_residual.after(x, layer.feed_forward(layer.feed_forward_residual.before(x)))
        return x if self.norm is None else self.norm(x), cache


def run_layer(layer: Any, *inputs: Any, **options: Any) -> Any:
    """Call a layer; if it is `recomputed`, keep only its inputs for the backward pass, which calls it again."""
    if layer.recomputed and torch.is_grad_enabled():
        return checkpoint(layer, *inputs, use_reentrant=False, **options)
    return layer(*inputs, **options)


@contextmanager
def running_layers(model: nn.Module, *, compiled: bool, recomputed: bool) -> Iterator[None]:
    """Compile or recompute the layers of a model's Transformers while the context is open."""
    layers: list[Any] = [part for part in model.modules() if isinstance(part, EncoderLayer | DecoderLayer)]
    if (compiled or recomputed) and not layers:
        raise ConfigError(
            f"training.compile_layers and training.recompute_layers are for layers of Transformers, and {type(model).__name__} "
            "has none; set both to false"
        )
    for layer in layers:
        layer.recomputed = recomputed
        if compiled:
            layer.compile(dynamic=True)  # batches have many shapes; all layers share what is compiled
    try:
        yield
    finally:
        for layer in layers:
            layer.recomputed = False
            forget_compiled(layer)


def _searches() -> bool:
    return torch.is_inference_mode_enabled() and not torch.compiler.is_compiling()


def share_mask(
    mask: Bool[Tensor, "B S"] | KeyMask | None, attentions: Sequence[Attention], like: Tensor
) -> Bool[Tensor, "B S"] | KeyMask | None:
    """Return the mask of several attentions, resolved once for all if they are a `MultiHead` each."""
    if mask is None or isinstance(mask, KeyMask):
        return mask
    if _searches() and mask.is_cpu and bool(mask.all()):
        return None  # a mask that hides nothing would cost time in each step of a search
    shared = all(is_exactly(attention, MultiHead) for attention in attentions)
    return resolve_key_mask(mask, compute_dtype(like)) if shared else mask


def _prepare_together(attentions: Sequence[MultiHead], states: Float[Tensor, "B S D"], mask: KeyMask) -> list[Memory]:
    """Return the memories of several attentions to the same keys, whose maps form one product where that is faster."""
    linears = [linear for one in attentions for linear in (one.key_projection, one.value_projection)]
    if not is_joint(states, linears):
        return [attention.prepare(states, key_mask=mask) for attention in attentions]
    parts = iter(join_maps(states, linears).split([linear.out_features for linear in linears], -1))
    return [one.remember(*(split_heads(next(parts), one.num_kv_heads) for _ in range(2)), key_mask=mask) for one in attentions]


def check_causal(name: str, attention: MultiHead) -> None:
    """Raise an error for a self-attention that is not causal."""
    if not attention.causal:
        raise ConfigError(f"{name}: its self-attention sees later words; build it with causal=True")


def check_width(name: str, *attentions: Attention) -> None:
    """Raise an error for an attention whose queries, keys, values and context differ in width, or that has its own loss."""
    for attention in attentions:
        if attention.has_loss:
            raise ConfigError(
                f"{name}: a {type(attention).__name__} has a loss of its own, which a Transformer does not add to the training "
                "loss; take another mechanism here, or a recurrent decoder"
            )
        key_size = attention.key_size
        value_size, context_size = getattr(attention, "value_size", key_size), attention.context_size(key_size)
        if {key_size, value_size, context_size} != {attention.query_size}:
            raise ConfigError(
                f"{name}: its attention has query_size={attention.query_size}, key_size={key_size}, value_size={value_size} "
                f"and a context of width {context_size}, but a Transformer reads all of them from features of one width and "
                "adds the context to them; make these widths equal"
            )


def check_stack(name: str, layers: Sequence[EncoderLayer | DecoderLayer]) -> int:
    """Return the width of the layers; raise an error if there is no layer, or their widths differ."""
    sizes = sorted({layer.size for layer in layers})
    if len(sizes) != 1:
        got = f"layers of widths {', '.join(map(str, sizes))}" if sizes else "no layer"
        raise ConfigError(f"{name} got {got}; expected at least one layer, all of the same width")
    return sizes[0]
