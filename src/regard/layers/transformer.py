"""Layers and stacks of a Transformer, made of parts that are given to them; `transformer_build` makes the usual ones.

A part joins the stream by a `Residual`, which knows where the norm is. Weights are returned by the layers that are asked for
them; the others take the fastest path.

Letters: B batch, S source, T target, N hypotheses of a sentence, D width.
"""

from collections.abc import Collection, Sequence
from typing import cast

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.base import Attention
from regard.errors import ConfigError
from regard.layers.residual import Residual


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward part."""

    def __init__(
        self, *, attention: Attention, attention_residual: Residual, feed_forward: nn.Module, feed_forward_residual: Residual
    ) -> None:
        """Args:
        attention: Of queries, keys and values of width D, with a context of width D.
        attention_residual: How it joins the stream.
        feed_forward: From (…,D) to (…,D).
        feed_forward_residual: How it joins the stream.
        """
        super().__init__()
        check_width("EncoderLayer", attention)
        self.size = attention.query_size
        self.attention, self.attention_residual = attention, attention_residual
        self.feed_forward, self.feed_forward_residual = feed_forward, feed_forward_residual

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"] | None = None, *, need_weights: bool = False
    ) -> tuple[Float[Tensor, "B S D"], Tensor | None]:
        """The stream after this layer, and the weights (B,H,S,S) if they are wanted."""
        read = self.attention_residual.before(x)
        out = self.attention(read, read, key_mask=mask, need_weights=need_weights)
        x = self.attention_residual.after(x, out.context)
        return self.feed_forward_residual.after(x, self.feed_forward(self.feed_forward_residual.before(x))), out.weights


class TransformerEncoder(nn.Module):
    """A stack of encoder layers."""

    def __init__(self, layers: Sequence[EncoderLayer], *, norm: nn.Module | None = None) -> None:
        """Args:
        layers: One or more, all of one width.
        norm: Of what leaves the last layer; for layers that leave the stream without one.
        """
        super().__init__()
        self.size = check_stack("TransformerEncoder", layers)
        self.layers = nn.ModuleList(layers)
        self.norm = norm

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"] | None = None, *, record: Collection[int] = ()
    ) -> tuple[Float[Tensor, "B S D"], dict[int, Tensor]]:
        """Run all layers.

        Args:
            x: Embeddings with their positions.
            mask: True at tokens; padding is read by nobody.
            record: Numbers of the layers whose weights are wanted, from 0.

        Returns:
            The states, and the weights (B,H,S,S) by layer.
        """
        found: dict[int, Tensor] = {}
        for number, layer in enumerate(self.layers):
            x, weights = cast(EncoderLayer, layer)(x, mask, need_weights=number in record)
            if weights is not None:
                found[number] = weights
        return x if self.norm is None else self.norm(x), found


def check_width(name: str, *attentions: Attention) -> None:
    """Refuse an attention that cannot read the stream."""
    for attention in attentions:
        if attention.query_size != attention.key_size:
            raise ConfigError(
                f"{name}: its attention reads queries {attention.query_size} wide and keys {attention.key_size} wide, and both "
                "come from streams of one width: make key_size equal to size"
            )


def check_stack(name: str, layers: Sequence[nn.Module]) -> int:
    """The width that all layers share."""
    sizes = sorted({cast(int, layer.size) for layer in layers})
    if len(sizes) != 1:
        got = f"layers of widths {', '.join(map(str, sizes))}" if sizes else "no layer"
        raise ConfigError(f"{name} got {got}; expected one layer or more, all of one width")
    return sizes[0]
