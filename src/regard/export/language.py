"""The graph of a language model: a step of its decoder."""

from typing import cast

import torch
from torch import Tensor, nn

from regard.export.graphs import Graph
from regard.export.runtime import NEXT
from regard.export.translators import (
    StepCaches,
    apply_feed_forward,
    embed_step,
    empty_cache,
    overriding,
    read_out,
    self_attention_of,
)
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

    def forward(
        self,
        tokens: Tensor,
        own_key: Tensor,
        own_value: Tensor,
        override: Tensor | None = None,
        overridden: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Return log probabilities, the weights of all layers and heads, and the next caches.

        `override` (B,N,L,H,T+1) replaces the weights where `overridden` (B,N,L,H) is True.
        """
        model = self.model
        x = embed_step(model.positions, model.embedding(tokens) * model.scale, own_key.shape[4])
        caches = StepCaches(own_key, own_value)
        for number, module in enumerate(model.decoder.layers):
            layer, reweight = cast(CausalLayer, module), None
            if override is not None and overridden is not None:
                given, where = (tensor.flatten(0, 1)[:, number, :, None] for tensor in (override, overridden))
                reweight = overriding(given, where)
            x = caches.attend(number, layer.attention, layer.attention_residual, x, reweight)
            x = apply_feed_forward(layer, x)
        return read_out(model, x), *caches.outputs()


def language_graphs(model: TransformerLanguageModel, *, overridable: bool = False) -> list[Graph]:
    """Return the graph of a language model; see `recurrent_graphs`."""
    cache = empty_cache(model.decoder.layers, model.output.weight.new_zeros(3, 2))
    past = cache.new_zeros(*cache.shape[:4], 3, cache.shape[5])
    axes = {"own_key": "BNLGTD", "own_value": "BNLGTD"}
    example = {"tokens": torch.full((3, 2), 4), "own_key": past, "own_value": past.clone()}
    inputs = {"tokens": "BN", **axes}
    if overridable:
        heads = self_attention_of(model.decoder.layers[0]).num_heads
        example["override"] = torch.zeros(3, 2, len(model.decoder.layers), heads, past.shape[4] + 1)
        example["overridden"] = torch.zeros(example["override"].shape[:-1]) > 0
        inputs |= {"override": "BNLHS", "overridden": "BNLH"}
    outputs = {"log_probabilities": "BNV", "decoder_heads": "BNLHT", **{NEXT + name: each for name, each in axes.items()}}
    return [Graph("step", LanguageStepGraph(model), example, inputs, outputs)]
