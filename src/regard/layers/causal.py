"""A Transformer's decoder without a source: the encoder's layers, each of whose words sees those before it and itself.

Letters: B batch, T target, N hypotheses of a sentence, D width.
"""

from collections.abc import Collection, Sequence
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.multihead import MultiHead
from regard.errors import ConfigError
from regard.layers.cache import KeyValueCache
from regard.layers.residual import Residual
from regard.layers.transformer import EncoderLayer, TransformerEncoder, attend_within


class CausalLayer(EncoderLayer):
    """Causal self-attention, then the feed-forward part."""

    attention: MultiHead

    def __init__(
        self, *, attention: MultiHead, attention_residual: Residual, feed_forward: nn.Module, feed_forward_residual: Residual
    ) -> None:
        """Args:
        attention: Causal, of width D.
        attention_residual: How it joins the stream.
        feed_forward: From (…,D) to (…,D).
        feed_forward_residual: How it joins the stream.

        Raises:
            ConfigError: If the attention sees later words.
        """
        super().__init__(
            attention=attention,
            attention_residual=attention_residual,
            feed_forward=feed_forward,
            feed_forward_residual=feed_forward_residual,
        )
        if not attention.causal:
            raise ConfigError("CausalLayer: its attention sees later words; build it with causal=True")

    def step(
        self, x: Float[Tensor, "B N D"], cache: KeyValueCache | None, *, need_weights: bool = False
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B H N t"] | None, KeyValueCache]:
        """The stream of one more word of each hypothesis; its keys join those of the words before."""
        context, weights, cache = attend_within(
            self.attention, self.attention_residual.before(x), cache, need_weights=need_weights
        )
        x = self.attention_residual.after(x, context)
        return self.feed_forward_residual.after(x, self.feed_forward(self.feed_forward_residual.before(x))), weights, cache


class CausalDecoder(TransformerEncoder):
    """A stack of causal layers. `forward` takes a whole target, `step` a word more of it."""

    def __init__(self, layers: Sequence[CausalLayer], *, norm: nn.Module | None = None) -> None:
        """Args:
        layers: One or more, all of one width.
        norm: Of what leaves the last layer; for layers that leave the stream without one.
        """
        super().__init__(layers, norm=norm)

    def step(
        self, x: Float[Tensor, "B N D"], caches: Sequence[KeyValueCache] | None, *, record: Collection[int] = ()
    ) -> tuple[Float[Tensor, "B N D"], dict[int, Tensor], tuple[KeyValueCache, ...]]:
        """Run all layers over one more word of each hypothesis.

        Args:
            x: Embeddings with their positions.
            caches: Of the words before; None begins.
            record: Numbers of the layers whose weights are wanted, from 0.

        Returns:
            The states, the weights (B,H,N,t) by layer, and the caches with these words.
        """
        found: dict[int, Tensor] = {}
        after = []
        for number, layer in enumerate(self.layers):
            before = None if caches is None else caches[number]
            x, weights, cache = cast(CausalLayer, layer).step(x, before, need_weights=number in record)
            if weights is not None:
                found[number] = weights
            after.append(cache)
        return x if self.norm is None else self.norm(x), found, tuple(after)
