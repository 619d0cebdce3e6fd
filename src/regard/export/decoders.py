"""The graphs of translators and language models: an encoder, and a step of the decoder.

Both run the model's own `encode` and `step`; this module converts a model's states to tensors with names, and back. The encoder
returns the memory (`key` and `value` of the source) and the first state. The step takes tokens, the source mask, the memory and
the state. It returns log probabilities, attention and the next state, whose tensors have names with the prefix `next_`. Every
tensor of the state begins with the axes B (sentences) and N (hypotheses), so that a search can select hypotheses by indexing
these two axes.

Letters: B sentences, N hypotheses of a sentence, S source, T target words so far, L layers, H heads, G heads of keys and
values, E width of a head, R width of the readout, V vocabulary.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.base import Attention, Memory
from regard.attention.capabilities import Reweight
from regard.attention.heads.memory import HeadMemory
from regard.attention.heads.multihead import MultiHead
from regard.attention.ordered.monotonic import SoftToHard
from regard.errors import RequestError
from regard.export.graphs import Graph
from regard.export.recurrence import with_native_layers
from regard.export.runtime import NEXT
from regard.layers.cache import RowCache
from regard.models.language.transformer import TransformerLanguageModel
from regard.models.policies import WaitK
from regard.models.recurrent.decoder import RecurrentState
from regard.models.recurrent.translator import RecurrentTranslator
from regard.models.sources import PretrainedSource
from regard.models.transformer.model import TransformerState
from regard.models.transformer.translator import TransformerTranslator

Decoding = RecurrentTranslator | TransformerTranslator | TransformerLanguageModel


def check_reads_words(model: nn.Module) -> None:
    """Raise a `RequestError` if a model reads its source in a way that graphs and pages do not."""
    if getattr(model, "copies", False):
        raise RequestError(
            "the model copies source words (model.copy), which neither ONNX graphs nor pages can express: use it with "
            "`regard serve`, or train a model without model.copy to export it"
        )
    if getattr(model, "source_axes", "B S") != "B S":
        raise RequestError(
            "this model reads images, and an export or a page supports only models that read words; use regard serve instead"
        )
    if isinstance(getattr(model, "policy", None), WaitK):
        raise RequestError(
            "this model waits for source words (model.wait_k), which the graphs of an export or a page cannot do; use "
            "`regard translate --live-words` or `regard serve`"
        )
    if isinstance(getattr(model, "encoder", None), PretrainedSource):
        raise RequestError(
            "this model has a pretrained encoder, which an export or a page does not support; use `regard serve` instead"
        )


# Axes of a Transformer's state: keys and values of the words so far, in all layers.
_CACHES = {"own_key": "BNLGTD", "own_value": "BNLGTD"}


class EncoderGraph(nn.Module):
    """The encoder of a translator."""

    def __init__(self, model: RecurrentTranslator | TransformerTranslator) -> None:
        super().__init__()
        self.model = with_native_layers(model)

    def forward(self, source: Tensor, source_mask: Tensor) -> tuple[Tensor, ...]:
        """Return the tensors of `pack_state`, and for a Transformer the weights of all layers and heads, (B,L,H,S,S)."""
        sites = [site for site in self.model.sites if site.startswith("encoder.")]
        state = self.model.encode(source, source_mask, record=sites)
        weights = [_with_heads(state.encoder[site]) for site in sites] if isinstance(state, TransformerState) else []
        return *pack_state(self.model, state).values(), *([_join_layers(weights)] if weights else [])


class StepGraph(nn.Module):
    """One step of a decoder, whose inputs after the tokens have the given names.

    The input `override` (B,N,S), or (B,N,L,H,S) for a Transformer, contains attention weights that replace the model's own
    where `overridden`, which has no axis S, is True.
    """

    def __init__(self, model: Decoding, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)

    def forward(self, tokens: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return log probabilities, attention as in `_join_maps`, and the next state's tensors."""
        given = dict(zip(self.names, inputs, strict=True))
        sites = [site for site in self.model.sites if site.partition(".")[0] in ("cross", "decoder")]
        reweight = _overriding(self.model, given["override"], given["overridden"]) if "override" in given else None
        state: Any = unpack_state(self.model, given)
        logits, maps, after = self.model.step(tokens, state, record=sites, reweight=reweight)
        # The memory of the source is the same at every step, so it is an input only.
        changed = [tensor for name, tensor in pack_state(self.model, after).items() if name not in ("key", "value")]
        return logits.log_softmax(-1), *_join_maps(maps).values(), *changed


def _overriding(model: Decoding, override: Tensor, overridden: Tensor) -> dict[str, Reweight]:
    """Return functions, by site, that replace attention weights; see `StepGraph`."""

    def replacing(new: Tensor, rows: Tensor) -> Reweight:
        def reweight(weights: Tensor, mask: Tensor) -> Tensor:
            own, where = new, rows[..., None]
            if own.ndim < weights.ndim:  # one matrix for all heads
                own, where = own[:, None], where[:, None]
            elif own.ndim > weights.ndim:  # a mechanism without heads
                own, where = own[:, 0], where[:, 0]
            return torch.where(where, own, weights)

        return reweight

    if isinstance(model, RecurrentTranslator):
        return {"cross": replacing(override, overridden)}
    kind = "decoder" if isinstance(model, TransformerLanguageModel) else "cross"
    by_layer = zip(override.transpose(1, 3).unbind(2), overridden.transpose(1, 3).unbind(2), strict=True)  # (B,H,N,S) each
    return {f"{kind}.{number}": replacing(*both) for number, both in enumerate(by_layer)}


def _join_maps(maps: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return `cross` (B,N,S), and the weights of all layers and heads, `cross_heads` and `decoder_heads` (B,N,L,H,·)."""
    joined: dict[str, Tensor] = {}
    if (cross := maps.get("cross")) is not None:
        joined["cross"] = cross if cross.ndim == 3 else cross.mean(1)
        if cross.ndim == 4:  # a recurrent decoder with one layer of heads
            joined["cross_heads"] = cross.transpose(1, 2)[:, :, None]
    for kind in ("cross", "decoder"):
        if layers := [_with_heads(weights) for site, weights in maps.items() if site.startswith(f"{kind}.")]:
            joined[f"{kind}_heads"] = _join_layers(layers).permute(0, 3, 1, 2, 4)
    return joined


def _join_layers(layers: Sequence[Tensor]) -> Tensor:
    """Return the tensors (R,H,…) of L layers as one, (R,L,H,…); or (R,L,S,D) for tensors (R,S,D) without heads."""
    if layers[0].ndim == 3:
        return torch.stack(list(layers), 1)
    # The time of a small graph depends on its number of operations, and `torch.stack` would take one more for each layer.
    return torch.cat(list(layers), 1).unflatten(1, (len(layers), -1))


def _split_layers(tensor: Tensor) -> Sequence[Tensor]:
    """Return the tensor of each layer from a result of `_join_layers`."""
    return tensor.unbind(1) if tensor.ndim == 4 else tensor.flatten(1, 2).split(tensor.shape[2], 1)


def _with_heads(weights: Tensor) -> Tensor:
    """Return weights (B,Q,K) as (B,1,Q,K); weights with heads stay unchanged."""
    return weights if weights.ndim == 4 else weights[:, None]


def _pack_memory(memory: Memory) -> tuple[Tensor, Tensor]:
    """Return keys and values; if keys have gates, the gates are appended to the features of the keys."""
    if isinstance(memory, HeadMemory) and memory.gates is not None:
        return torch.cat([memory.key, memory.gates.to(memory.key.dtype)], -1), memory.value
    return memory.key, memory.value


def _unpack_memory(attention: Attention, key: Tensor, value: Tensor, mask: Tensor) -> Memory:
    """Return the memory from the results of `_pack_memory`."""
    with torch.no_grad():  # only a memory that the mechanism makes shows its class, and the width of keys without gates
        example = attention.prepare(torch.zeros(1, 2, attention.key_size))
    if isinstance(example, HeadMemory) and example.gates is not None:
        features = example.key.shape[-1]
        return HeadMemory(key[..., :features], value, mask, gates=key[..., features:])
    return type(example)(key, value, mask)


def pack_state(model: Decoding, state: Any) -> dict[str, Tensor]:
    """Return a state as tensors by name: the memory of the source, if there is one, and then what changes with each step."""
    if isinstance(model, RecurrentTranslator):
        key, value = _pack_memory(state.memory)
        tensors = {"key": key, "value": value, "hidden": state.hidden.permute(1, 2, 0, 3)}
        if state.cell is not None:
            tensors["cell"] = state.cell.permute(1, 2, 0, 3)
        if model.decoder.feeds_readout:
            first = key.new_zeros(key.shape[0], 1, model.decoder.readout.size)
            tensors["feed"] = first if state.feed is None else state.feed
        return tensors
    memories = [_pack_memory(memory) for memory in state.memories]
    both = zip(*memories, strict=True)  # nothing in a language model
    tensors = {name: _join_layers(layers) for name, layers in zip(("key", "value"), both, strict=False)}
    if state.cache is None:
        cache = empty_cache(model, tensors["key"].new_zeros(tensors["key"].shape[0], 1))
        return tensors | {"own_key": cache, "own_value": cache.clone()}  # a tensor that is given twice becomes one output
    pairs = [(layer.key, layer.value) for layer in state.cache.states]
    caches = (_join_layers(layers).unflatten(0, (-1, state.cache.count)) for layers in zip(*pairs, strict=True))
    return tensors | dict(zip(_CACHES, caches, strict=True))


def unpack_state(model: Decoding, tensors: Mapping[str, Tensor]) -> RecurrentState | TransformerState:
    """Return the state from the tensors of `pack_state` and the `source_mask`."""
    if isinstance(model, RecurrentTranslator):
        return RecurrentState(
            memory=_unpack_memory(model.decoder.attention, tensors["key"], tensors["value"], tensors["source_mask"]),
            hidden=tensors["hidden"].permute(2, 0, 1, 3),
            cell=tensors["cell"].permute(2, 0, 1, 3) if "cell" in tensors else None,
            feed=tensors.get("feed"),
        )
    own_key = tensors["own_key"]
    # The cache has a row for each hypothesis, (B·N,G,T,D) in each layer.
    caches = list(map(HeadMemory, *(_split_layers(tensors[name].flatten(0, 1)) for name in _CACHES)))
    pairs = zip(*(_split_layers(tensors[name]) for name in ("key", "value") if name in tensors), strict=True)
    memories = [
        _unpack_memory(attention, key, value, tensors["source_mask"])
        for attention, (key, value) in zip(_cross_attentions(model), pairs, strict=True)
    ]
    return TransformerState(tuple(memories), {}, RowCache(caches, own_key.shape[1], own_key.shape[4]))


def _cross_attentions(model: Decoding) -> list[Attention]:
    """Return the attention of each decoder layer to the source."""
    if isinstance(model, RecurrentTranslator):
        return [model.decoder.attention]
    layers: Any = model.decoder.layers
    return [] if isinstance(model, TransformerLanguageModel) else [layer.cross_attention for layer in layers]


def self_attention_of(model: TransformerTranslator | TransformerLanguageModel) -> MultiHead:
    """Return the causal attention of a decoder's first layer."""
    layer: Any = model.decoder.layers[0]
    attention: MultiHead = layer.attention if isinstance(model, TransformerLanguageModel) else layer.self_attention
    return attention


def count_heads(model: TransformerTranslator | TransformerLanguageModel) -> tuple[int, int]:
    """Return the number of layers, and of heads in each, that attend to the source or, in a language model, to the text.

    A mechanism without heads counts as one head.
    """
    [attention, *_] = _cross_attentions(model) or [self_attention_of(model)]
    return len(model.decoder.layers), attention.num_heads if isinstance(attention, MultiHead) else 1


def empty_cache(model: TransformerTranslator | TransformerLanguageModel, like: Tensor) -> Tensor:
    """Return keys or values before the first word, (B,N,L,G,0,E); `like` is a tensor (B,N)."""
    attention = self_attention_of(model)
    return like.new_zeros(*like.shape, len(model.decoder.layers), attention.num_kv_heads, 0, attention.head_size)


def check_exportable(attention: Attention, place: str) -> None:
    """Check that an attention can be part of a graph; `place` says where it is used, for the error message."""
    if not attention.supports_onnx:
        raise RequestError(
            f"{place} is a {type(attention).__name__}, which needs operations that ONNX does not have; export supports "
            "other mechanisms without a state, for example additive, dot, general, linear or multi-head attention"
        )
    if attention.stateful:
        used = attention.form() if isinstance(attention, SoftToHard) else attention
        raise RequestError(
            f"{place} is a {type(used).__name__}, which passes earlier weights from step to step; export supports "
            "mechanisms without such a state, for example additive, dot, general or multi-head attention"
        )


def decoder_graphs(model: Decoding, *, overridable: bool = False) -> list[Graph]:
    """Return the graphs of a translator or a language model; an `overridable` step accepts weights, see `StepGraph`."""
    recurrent = isinstance(model, RecurrentTranslator)
    for attention in _cross_attentions(model):
        check_exportable(attention, "the decoder's attention" if recurrent else "the decoder's attention to the source")
    inputs, example, outputs = {"tokens": "BN"}, {"tokens": torch.full((3, 2), 4)}, {"log_probabilities": "BNV"}
    graphs, first, length = [], {}, 4
    if isinstance(model, TransformerLanguageModel):
        first = dict.fromkeys(_CACHES, empty_cache(model, torch.zeros(3, 1)))
    else:
        encoder, first = _encoder_graph(model)
        memory = {name: str(encoder.outputs[name]) for name in ("key", "value")}
        inputs |= {"source_mask": "BS", **memory}
        example |= {"source_mask": encoder.example["source_mask"], **{name: first[name] for name in memory}}
        outputs |= {"cross": "BNS"} if memory["key"] == "BSD" else {"cross": "BNS", "cross_heads": "BNLHS"}
        graphs, length = [encoder], encoder.example["source"].shape[1]
    state = {"hidden": "BNLH", "cell": "BNLH", "feed": "BNR"} if recurrent else _CACHES
    state = {name: axes for name, axes in state.items() if name in first}
    # The exporter fixes an axis of length 0 or 1, so the example has two hypotheses after three words.
    for name in state:
        example[name] = torch.zeros([{1: 2, 4: 3}.get(axis, size) for axis, size in enumerate(first[name].shape)])
    inputs |= state
    if overridable:
        heads = () if isinstance(model, RecurrentTranslator) else count_heads(model)
        example["override"] = torch.zeros(3, 2, *heads, length)
        example["overridden"] = torch.zeros(3, 2, *heads, dtype=torch.bool)
        inputs |= {"override": "BNLHS", "overridden": "BNLH"} if heads else {"override": "BNS", "overridden": "BN"}
    outputs |= {} if recurrent else {"decoder_heads": "BNLHT"}
    outputs |= {NEXT + name: axes for name, axes in state.items()}
    return [*graphs, Graph("step", StepGraph(model, [*inputs][1:]), example, inputs, outputs)]


def _encoder_graph(model: RecurrentTranslator | TransformerTranslator) -> tuple[Graph, dict[str, Tensor]]:
    """Return the graph of an encoder, and what it returns for its example, by name."""
    assert isinstance(model.source_embedding, nn.Embedding)
    source, mask = torch.arange(21).remainder(model.source_embedding.num_embeddings).view(3, 7), torch.ones(3, 7) > 0
    mask[1, 5:] = False
    with torch.no_grad():
        first = pack_state(model, model.encode(source, mask))
    layers, heads = ("", 4) if isinstance(model, RecurrentTranslator) else ("L", 5)
    groups = "G" if first["key"].ndim == heads else ""
    axes = {"key": f"B{layers}{groups}SD", "value": f"B{layers}{groups}SE"}
    axes |= {"hidden": "BNLH", "cell": "BNLH", "feed": "BNR"} if not layers else _CACHES
    outputs = {name: axes[name] for name in first} | ({"encoder": "BLHSS"} if layers else {})
    example, inputs = {"source": source, "source_mask": mask}, {"source": "BS", "source_mask": "BS"}
    return Graph("encoder", EncoderGraph(model), example, inputs, outputs), first
