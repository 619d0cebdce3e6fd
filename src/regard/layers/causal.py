"""A Transformer decoder without a source: encoder layers with causal attention.

Letters: B batch, T target, N hypotheses of a sentence, t words so far, H heads, D width.
"""

from collections.abc import Sequence
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.base import Memory
from regard.attention.capabilities import Reweight, capability
from regard.attention.multihead import MultiHead
from regard.errors import ConfigError
from regard.layers.cache import KeyValueCache
from regard.layers.residual import Residual
from regard.layers.transformer import (
    DecoderParts,
    DecoderRequest,
    EncoderLayer,
    LayerParts,
    LayerWeights,
    TransformerEncoder,
    attend_within,
    join_parts,
)


class CausalLayer(EncoderLayer):
    """Causal self-attention, then the feed-forward part.

    Args:
        attention: A causal attention of width D.
        attention_residual: Residual connection of the attention.
        feed_forward: Module that maps features (…,D) to features (…,D).
        feed_forward_residual: Residual connection of the feed-forward part.

    Raises:
        ConfigError: If the attention is not causal, or its queries, keys, values and context have different widths.
    """

    attention: MultiHead

    def __init__(
        self, *, attention: MultiHead, attention_residual: Residual, feed_forward: nn.Module, feed_forward_residual: Residual
    ) -> None:
        super().__init__(
            attention=attention,
            attention_residual=attention_residual,
            feed_forward=feed_forward,
            feed_forward_residual=feed_forward_residual,
        )
        if not attention.causal:
            raise ConfigError("CausalLayer: its attention sees later words; build it with causal=True")

    def step(
        self,
        x: Float[Tensor, "B N D"],
        cache: KeyValueCache | None,
        *,
        reweight: Reweight | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B H N t"] | None, KeyValueCache]:
        """Run this layer over one new word of each hypothesis; `cache` is None for the first word.

        The results are the features, the attention weights (None if not needed), and a cache that also contains the keys and
        values of the new words.
        """
        context, weights, cache = attend_within(
            self.attention, self.attention_residual.before(x), cache, reweight=reweight, need_weights=need_weights
        )
        x = self.attention_residual.after(x, context)
        return self.feed_forward_residual.after(x, self.feed_forward(self.feed_forward_residual.before(x))), weights, cache

    @capability
    def parts(self) -> LayerParts | None:
        """Return the modules of this layer, for code that computes a step without calling `step`.

        Returns None if the layer overrides a method or has hooks around `forward`, or if `head_maps` of its attention is None.
        """
        own = self.attention.head_maps()
        if own is None:
            return None
        return LayerParts(own, self.attention_residual, None, self.feed_forward, self.feed_forward_residual)


class CausalDecoder(TransformerEncoder):
    """A stack of causal layers. `forward` computes a whole target, and `step` one more word.

    Args:
        layers: One or more layers of the same width.
        norm: Norm after the last layer, for layers that do not end with a norm.
    """

    def __init__(self, layers: Sequence[CausalLayer], *, norm: nn.Module | None = None) -> None:
        super().__init__(layers, norm=norm)

    def step(
        self,
        x: Float[Tensor, "B N D"],
        memories: Sequence[Memory],
        caches: Sequence[KeyValueCache] | None,
        request: DecoderRequest,
    ) -> tuple[Float[Tensor, "B N D"], LayerWeights, tuple[KeyValueCache, ...]]:
        """Run all layers over one new word of each hypothesis.

        Args:
            x: Embeddings with their positions.
            memories: Empty, because there is no source.
            caches: The keys and values of the earlier words; None for the first word.
            request: Weights to return or to replace, by the number of the layer.

        Returns:
            The features, the requested weights, and the caches with the new words. The weights are (B,H,N,t) for N hypotheses
            of each sentence and t words so far.
        """
        weights, after = LayerWeights(), []
        for number, layer in enumerate(self.layers):
            before = None if caches is None else caches[number]
            x, own, cache = cast(CausalLayer, layer).step(
                x, before, reweight=request.reweight_own.get(number), need_weights=number in request.own
            )
            weights.add(number, own, None)
            after.append(cache)
        return x if self.norm is None else self.norm(x), weights, tuple(after)

    @capability
    def parts(self) -> DecoderParts | None:
        """Return the modules of this decoder, for code that computes a step without calling `step`.

        Returns None if the decoder overrides a method or has hooks around `forward`, or if the parts of a layer are None.
        """
        layers = [cast(CausalLayer, layer).parts() for layer in self.layers]
        return join_parts(layers, self.norm)
