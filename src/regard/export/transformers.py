"""The graphs of Transformers: an encoder, and a step of the decoder with a cache of keys and values that grows.

See `translators` for what a step takes and returns, and `heads` for how attention is computed and for the letters of shapes.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.capabilities import Reweight
from regard.attention.multihead import MultiHead
from regard.export.graphs import Graph
from regard.export.heads import SelfHeads, across, cross_maps, join_maps, within
from regard.export.memory import pack_memory
from regard.export.runtime import NEXT
from regard.export.translators import SOURCE, check_exportable, example_source, overriding
from regard.layers.causal import CausalLayer
from regard.layers.transformer import DecoderLayer, EncoderLayer
from regard.models.language.transformer import TransformerLanguageModel
from regard.models.transformer.translator import TransformerTranslator


class EncoderGraph(nn.Module):
    """The encoder of a Transformer; it returns the memory, the first state, and its own attention.

    Args:
        model: The translator.
    """

    def __init__(self, model: TransformerTranslator) -> None:
        super().__init__()
        self.model = model
        self.own = nn.ModuleList(within(cast(EncoderLayer, layer).attention) for layer in model.encoder.layers)
        self.memory = SourceMemory(model)

    def forward(self, source: Tensor, source_mask: Tensor) -> tuple[Tensor, ...]:
        """Return `key` and `value` of all layers, empty caches, and `encoder` (the weights of all layers and heads)."""
        model, found = self.model, []
        x = model.source_positions(model.source_embedding(source) * model.scale).flatten(0, 1)
        for own, module in zip(self.own, model.encoder.layers, strict=True):
            layer = cast(EncoderLayer, module)
            context, weights = own(layer.attention_residual.before(x), source_mask)
            x = apply_feed_forward(layer, layer.attention_residual.after(x, context))
            found.append(weights)
        states = x if model.encoder.norm is None else model.encoder.norm(x)
        key, value = self.memory(states, source_mask)
        cache = empty_cache(model.decoder.layers, key.new_zeros(source.shape[0], 1))
        return key, value, cache, cache.clone(), torch.cat(found, 1).unflatten(1, (len(found), -1))


class SourceMemory(nn.Module):
    """Keys and values of the source for all layers of a decoder.

    Args:
        model: The translator.
    """

    def __init__(self, model: TransformerTranslator) -> None:
        super().__init__()
        self.decoder = model.decoder
        attentions = [cast(DecoderLayer, layer).cross_attention for layer in model.decoder.layers]
        self.maps: nn.Linear | None = None
        maps = [maps for attention in attentions if (maps := cross_maps(attention))]
        if len(maps) == len(attentions):
            linears = [one.key for one in maps] + [one.value for one in maps]
            self.maps, self.num_layers = join_maps(linears), len(maps)
            self.head_size = maps[0].key.out_features // maps[0].num_heads

    def forward(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values (B,L,H,S,E), or (B,L,S,D) for attention without heads."""
        if self.maps is None:
            memories = [pack_memory(one) for one in self.decoder.prepare(states.view(*mask.shape, -1), mask)]
            return torch.stack([key for key, _ in memories], 1), torch.stack([value for _, value in memories], 1)
        heads = self.maps(states).view(*mask.shape, -1, self.head_size).transpose(1, 2)
        key, value = heads.unflatten(1, (2, self.num_layers, -1)).unbind(1)
        return key, value


class StepGraph(nn.Module):
    """One step of a Transformer's decoder.

    Args:
        model: The translator.
    """

    def __init__(self, model: TransformerTranslator) -> None:
        super().__init__()
        self.model = model
        layers = [cast(DecoderLayer, layer) for layer in model.decoder.layers]
        self.own = nn.ModuleList(within(layer.self_attention) for layer in layers)
        self.across = nn.ModuleList(across(layer.cross_attention) for layer in layers)

    def forward(
        self,
        tokens: Tensor,
        source_mask: Tensor,
        key: Tensor,
        value: Tensor,
        own_key: Tensor,
        own_value: Tensor,
        override: Tensor | None = None,
        overridden: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Return the log probabilities, `cross`, `cross_heads`, `decoder_heads`, and the next caches.

        `override` (B,N,L,H,S) replaces the weights of attention to the source where `overridden` (B,N,L,H) is True.
        """
        model, layers = self.model, len(self.own)
        x = embed_step(model.target_positions, model.target_embedding(tokens) * model.scale, own_key.shape[4])
        caches = StepCaches(own_key, own_value)
        found: list[Tensor] = []
        keys, values = split_layers(key), split_layers(value)
        for number in range(layers):
            layer = cast(DecoderLayer, model.decoder.layers[number])
            x = layer.self_residual.after(x, caches.attend(self.own[number], layer.self_residual.before(x)))
            read = layer.cross_residual.before(x).view(*tokens.shape, -1)
            change = None
            if override is not None and overridden is not None:
                change = overriding(override[:, :, number].transpose(1, 2), overridden[:, :, number].transpose(1, 2))
            context, weights = self.across[number](read, keys[number], values[number], source_mask, change)
            x = apply_feed_forward(layer, layer.cross_residual.after(x, context))
            found.append(weights)
        cross = found[model.alignment_layer]
        cross = cross.mean(1) if model.alignment_head is None else cross[:, model.alignment_head]
        heads = torch.cat(found, 1).unflatten(1, (layers, -1)).permute(0, 3, 1, 2, 4)
        return read_out(model, x, tokens), cross, heads, *caches.outputs()


class LanguageStepGraph(nn.Module):
    """One step of a language model.

    Args:
        model: The language model.
    """

    def __init__(self, model: TransformerLanguageModel) -> None:
        super().__init__()
        self.model = model
        self.own = nn.ModuleList(within(cast(CausalLayer, layer).attention) for layer in model.decoder.layers)

    def forward(
        self,
        tokens: Tensor,
        own_key: Tensor,
        own_value: Tensor,
        override: Tensor | None = None,
        overridden: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Return the log probabilities, `decoder_heads` (the weights of all layers and heads), and the next caches.

        `override` (B,N,L,H,T+1) replaces the weights where `overridden` (B,N,L,H) is True.
        """
        model = self.model
        x = embed_step(model.positions, model.embedding(tokens) * model.scale, own_key.shape[4])
        caches = StepCaches(own_key, own_value)
        for number, (own, module) in enumerate(zip(self.own, model.decoder.layers, strict=True)):
            layer, change = cast(CausalLayer, module), None
            if override is not None and overridden is not None:
                given, where = (tensor.flatten(0, 1)[:, number, :, None] for tensor in (override, overridden))
                change = overriding(given, where)
            x = layer.attention_residual.after(x, caches.attend(own, layer.attention_residual.before(x), change))
            x = apply_feed_forward(layer, x)
        return read_out(model, x, tokens), *caches.outputs()


class StepCaches:
    """The caches of the self-attention of all layers. A step reads them and extends them by one word.

    Args:
        key: Keys of the earlier words, (B,N,L,G,T,E), for G heads of keys and values.
        value: Values of the earlier words, with the same shape.
    """

    def __init__(self, key: Tensor, value: Tensor) -> None:
        self._sizes = key.shape[:3]
        self._past = [iter(each.flatten(2, 3).flatten(0, 1).split(key.shape[3], 1)) for each in (key, value)]
        self._weights: list[Tensor] = []
        self._after: tuple[list[Tensor], list[Tensor]] = ([], [])

    def attend(self, own: nn.Module, x: Tensor, reweight: Reweight | None = None) -> Tensor:
        """Run the next layer's self-attention `own`, a result of `heads.within`, and return its context (R,D)."""
        key, value = (next(each) for each in self._past)
        context, weights, *after = cast(SelfHeads, own).step(x, key, value, reweight)
        self._weights.append(weights)
        for tensors, tensor in zip(self._after, after, strict=True):
            tensors.append(tensor)
        return context

    def outputs(self) -> tuple[Tensor, ...]:
        """Return the weights (B,N,L,H,T+1), and keys and values including those of the new word."""
        weights = torch.cat(self._weights, 1)[:, :, 0].unflatten(1, (len(self._weights), -1))
        both = (torch.cat(each, 1).unflatten(1, (len(each), -1)) for each in self._after)
        return tuple(each.unflatten(0, self._sizes[:2]) for each in (weights, *both))


def transformer_graphs(model: TransformerTranslator, *, overridable: bool = False) -> list[Graph]:
    """Return the graphs of a Transformer translator; see `translators.recurrent_graphs`."""
    for layer in model.decoder.layers:
        check_exportable(cast(DecoderLayer, layer).cross_attention, "the decoder's attention to the source")
    source, mask = example_source(model.source_embedding.num_embeddings)
    encoder = EncoderGraph(model)
    with torch.no_grad():
        key, value, cache, _, _ = encoder(source, mask)
    past = cache.new_zeros(*cache.shape[:1], 2, *cache.shape[2:4], 3, cache.shape[5])
    example = {"tokens": torch.full((len(source), 2), 4), "source_mask": mask, "key": key, "value": value}
    memory = {"key": "BLGSD" if key.ndim == 5 else "BLSD", "value": "BLGSE" if value.ndim == 5 else "BLSE"}
    caches = {"own_key": "BNLGTD", "own_value": "BNLGTD"}
    example |= {"own_key": past, "own_value": past.clone()}  # a copy, because a tensor that is given twice becomes one input
    inputs = {"tokens": "BN", "source_mask": "BS", **memory, **caches}
    if overridable:
        heads = cross_heads(model)
        example["override"] = torch.zeros(len(source), 2, len(model.decoder.layers), heads, mask.shape[1])
        example["overridden"] = torch.zeros(example["override"].shape[:-1]) > 0
        inputs |= {"override": "BNLHS", "overridden": "BNLH"}
    return [
        Graph("encoder", encoder, {"source": source, "source_mask": mask}, SOURCE, {**memory, **caches, "encoder": "BLHSS"}),
        Graph(
            "step",
            StepGraph(model),
            example,
            inputs,
            {
                "log_probabilities": "BNV",
                "cross": "BNS",
                "cross_heads": "BNLHS",
                "decoder_heads": "BNLHT",
                **{NEXT + name: axes for name, axes in caches.items()},
            },
        ),
    ]


def language_graphs(model: TransformerLanguageModel, *, overridable: bool = False) -> list[Graph]:
    """Return the graph of a language model; see `translators.recurrent_graphs`."""
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


def empty_cache(layers: nn.ModuleList, like: Tensor) -> Tensor:
    """Return the cache before the first word, (B,N,L,G,0,E), for G heads of keys and values.

    Args:
        layers: The decoder's layers.
        like: Tensor (B,N) whose sizes, dtype and device the cache gets.
    """
    attention = self_attention_of(layers[0])
    return like.new_zeros(*like.shape, len(layers), attention.num_kv_heads, 0, attention.head_size)


def self_attention_of(layer: nn.Module) -> MultiHead:
    """Return the causal attention of a decoder's layer."""
    return cast(MultiHead, layer.self_attention if isinstance(layer, DecoderLayer) else layer.attention)


def split_layers(memory: Tensor) -> Sequence[Tensor]:
    """Return the keys or values of each layer: (B,H,S,E) from (B,L,H,S,E), or (B,S,D) from (B,L,S,D)."""
    return memory.flatten(1, 2).split(memory.shape[2], 1) if memory.ndim == 5 else memory.unbind(1)


def embed_step(positions: nn.Module, embedded: Tensor, length: int) -> Tensor:
    """Add positions to words (B,N,D), which are all at position `length`, and return (B·N,D)."""
    return cast(Tensor, positions(embedded.flatten(0, 1)[:, None], length))[:, 0]


def apply_feed_forward(layer: EncoderLayer | DecoderLayer, x: Tensor) -> Tensor:
    """Return the residual stream after the feed-forward part of a layer."""
    return layer.feed_forward_residual.after(x, layer.feed_forward(layer.feed_forward_residual.before(x)))


def read_out(model: TransformerTranslator | TransformerLanguageModel, x: Tensor, tokens: Tensor) -> Tensor:
    """Return the log probabilities (B,N,V) of the next words from the residual stream after the last layer."""
    scores = model.output(x if model.decoder.norm is None else model.decoder.norm(x))
    return scores.log_softmax(-1).unflatten(0, tokens.shape)


def cross_heads(model: TransformerTranslator) -> int:
    """Return the number of heads that attend to the source in each layer; 1 for a mechanism without heads."""
    attention = cast(DecoderLayer, model.decoder.layers[0]).cross_attention
    return attention.num_heads if isinstance(attention, MultiHead) else 1
