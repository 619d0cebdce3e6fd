"""The graph of a language model: a step of its decoder."""

from typing import cast

import torch
from torch import Tensor, nn

from regard.errors import RequestError
from regard.export.graphs import Graph
from regard.export.runtime import NEXT
from regard.export.translators import StepCaches, apply_feed_forward, embed_step, empty_cache, read_out
from regard.layers.causal import CausalLayer
from regard.models.language.transformer import TransformerLanguageModel


class LanguageStepGraph(nn.Module):
    """One step of a language model, with a cache of keys and values that grows.

    Args:
        model: The language model.
    """

    def __init__(self, model: TransformerLanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, own_key: Tensor, own_value: Tensor) -> tuple[Tensor, ...]:
        """Return log probabilities, the weights of all layers and heads, and the next caches."""
        model = self.model
        x = embed_step(model.positions, model.embedding(tokens) * model.scale, own_key.shape[4])
        caches = StepCaches(own_key, own_value)
        for number, module in enumerate(model.decoder.layers):
            layer = cast(CausalLayer, module)
            x = caches.attend(number, layer.attention, layer.attention_residual, x)
            x = apply_feed_forward(layer, x)
        return read_out(model, x), *caches.outputs()


def language_graphs(model: TransformerLanguageModel, *, overridable: bool = False) -> list[Graph]:
    """Return the graph of a language model.

    Raises:
        RequestError: If `overridable` is True, which is for translators only.
    """
    if overridable:
        raise RequestError("overridable is for translators, whose decoders attend to a source; leave it out")
    cache = empty_cache(model.decoder.layers, model.output.weight.new_zeros(3, 2))
    past = cache.new_zeros(*cache.shape[:4], 3, cache.shape[5])
    axes = {"own_key": "BNLGTD", "own_value": "BNLGTD"}
    return [
        Graph(
            "step",
            LanguageStepGraph(model),
            {"tokens": torch.full((3, 2), 4), "own_key": past, "own_value": past.clone()},
            {"tokens": "BN", **axes},
            {
                "log_probabilities": "BNV",
                "decoder_heads": "BNLHT",
                **{NEXT + name: each for name, each in axes.items()},
            },
        )
    ]
