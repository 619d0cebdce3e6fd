"""A Transformer decoder without a source: encoder layers with causal attention.

Letters: B batch, T target, N hypotheses of a sentence, t words so far, H heads, D width.
"""

from collections.abc import Sequence
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.base import Memory
from regard.attention.capabilities import Reweight
from regard.attention.head_memory import HeadMemory
from regard.attention.multihead import MultiHead
from regard.errors import ConfigError
from regard.layers.cache import LayerCaches
from regard.layers.residual import Residual
from regard.layers.transformer import DecoderRequest, EncoderLayer, LayerWeights, TransformerEncoder, attend_within


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
        cache: HeadMemory | None,
        *,
        reweight: Reweight | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B H N t"] | None, HeadMemory]:
        """Run this layer over one new word of each hypothesis; `cache` is None for the first word.

        The results are the features, the attention weights (None if not needed), and a cache that also contains the keys and
        values of the new words.
        """
        context, weights, cache = attend_within(
            self.attention, self.attention_residual.before(x), cache, reweight=reweight, need_weights=need_weights
        )
        x = self.attention_residual.after(x, context)
        return self.feed_forward_residual.after(x, self.feed_forward(self.feed_forward_residual.before(x))), weights, cache


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
        cache: LayerCaches | None,
        request: DecoderRequest,
    ) -> tuple[Float[Tensor, "B N D"], LayerWeights, LayerCaches]:
        """Run all layers over one new word of each hypothesis.

        Args:
            x: Embeddings with their positions.
            memories: Empty, because there is no source.
            cache: The keys and values of the earlier words; None for the first word.
            request: Weights to return or to replace, by the number of the layer.

        Returns:
            The features, the requested weights, and a cache with the new words. The weights are (B,H,N,t) for N hypotheses
            of each sentence and t words so far.
        """
        weights, after = LayerWeights(), []
        before = [None] * len(self.layers) if cache is None else cache.read()
        for number, layer in enumerate(self.layers):
            x, own, new = cast(CausalLayer, layer).step(
                x, before[number], reweight=request.reweight_own.get(number), need_weights=number in request.own
            )
            weights.add(number, own, None)
            after.append(new)
        return x if self.norm is None else self.norm(x), weights, LayerCaches(tuple(after), x.shape[1])
