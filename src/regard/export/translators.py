"""The graphs of models that produce a target word by word: an encoder, and a step of the decoder.

The encoder's outputs are the memory (the source, prepared once) and the first state. The step takes tokens, the memory and the
state, and returns log probabilities, attention and the next state, whose tensors have the prefix `next_`. Every tensor of the
state begins with the axes B (sentences) and N (hypotheses), so that a search selects hypotheses by indexing these two.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.base import Attention, Memory
from regard.attention.capabilities import Reweight
from regard.attention.head_memory import HeadMemory
from regard.attention.multihead import MultiHead
from regard.errors import RequestError
from regard.export.graphs import Graph
from regard.export.recurrence import with_native_layers
from regard.export.runtime import NEXT
from regard.layers.causal import CausalLayer
from regard.layers.residual import Residual
from regard.layers.transformer import DecoderLayer
from regard.models.language.transformer import TransformerLanguageModel
from regard.models.recurrent.decoder import RecurrentState
from regard.models.recurrent.translator import RecurrentTranslator
from regard.models.transformer.translator import TransformerTranslator

SOURCE = {"source": "BS", "source_mask": "BS"}


def check_exportable(attention: Attention, place: str) -> None:
    """Check that an attention can be part of a graph.

    Args:
        attention: The mechanism.
        place: Where it is, for the message.

    Raises:
        RequestError: If the mechanism has a state that changes from step to step.
    """
    if attention.stateful:
        raise RequestError(
            f"{place} is a {type(attention).__name__}, which passes earlier weights from step to step; export supports "
            "mechanisms without such a state, for example additive, dot, general or multi-head attention"
        )


class RecurrentEncoderGraph(nn.Module):
    """The encoder of a recurrent translator: memory and first state.

    Args:
        model: The translator.
    """

    def __init__(self, model: RecurrentTranslator) -> None:
        super().__init__()
        self.model = with_native_layers(model)

    def forward(self, source: Tensor, source_mask: Tensor) -> tuple[Tensor, ...]:
        """Return `key`, `value` and the state's tensors."""
        model = self.model
        states, finals = model.encoder(model.source_embedding(source), source_mask)
        hidden, cell = model.bridge(states, source_mask, finals)
        memory = model.decoder.attention.prepare(states, key_mask=source_mask)
        first = [hidden[:, :, None].permute(1, 2, 0, 3)]
        if cell is not None:
            first.append(cell[:, :, None].permute(1, 2, 0, 3))
        if model.decoder.feeds_readout:
            first.append(hidden.new_zeros(source.shape[0], 1, model.decoder.readout.size))
        return memory.key, memory.value, *first


class RecurrentStepGraph(nn.Module):
    """One step of a recurrent translator's decoder.

    Args:
        model: The translator.
        names: Names of the state's tensors.
        overridable: Whether the last two inputs are `override` (B,N,S) and `overridden` (B,N), which replace the model's
            attention weights.
    """

    def __init__(self, model: RecurrentTranslator, names: Sequence[str], *, overridable: bool = False) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)
        self.memory, self.overridable = memory_type(model.decoder.attention), overridable

    def forward(self, tokens: Tensor, source_mask: Tensor, key: Tensor, value: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Return log probabilities, `cross`, and the next state's tensors."""
        reweight = None
        if self.overridable:
            *state, override, overridden = state  # type: ignore[assignment]
            reweight = {"cross": overriding(override, overridden)}
        given = dict(zip(self.names, state, strict=True))
        before = RecurrentState(
            memory=self.memory(key, value, source_mask),
            hidden=given["hidden"].permute(2, 0, 1, 3),
            cell=given["cell"].permute(2, 0, 1, 3) if "cell" in given else None,
            feed=given.get("feed"),
        )
        logits, attention, after = self.model.step(tokens, before, record=("cross",), reweight=reweight)
        found = {"hidden": after.hidden.permute(1, 2, 0, 3), "feed": after.feed}
        found["cell"] = None if after.cell is None else after.cell.permute(1, 2, 0, 3)
        return logits.log_softmax(-1), attention["cross"], *(cast(Tensor, found[name]) for name in self.names)


def overriding(override: Tensor, overridden: Tensor) -> Reweight:
    """Return a function that replaces a mechanism's weights by given ones.

    Args:
        override: The weights, (…,Q,S).
        overridden: True for rows to replace, (…,Q).
    """
    return lambda weights, mask: torch.where(overridden[..., None], override, weights)


def recurrent_graphs(model: RecurrentTranslator, *, overridable: bool = False) -> list[Graph]:
    """Return the graphs of a recurrent translator.

    Args:
        model: The translator.
        overridable: Whether the step accepts attention weights that replace the model's own.

    Raises:
        RequestError: If its attention cannot be part of a graph.
    """
    check_exportable(model.decoder.attention, "the decoder's attention")
    axes = {"hidden": "BNLH"}
    if model.decoder.is_lstm:
        axes["cell"] = "BNLH"
    if model.decoder.feeds_readout:
        axes["feed"] = "BNR"
    source, mask = example_source(model.source_embedding.num_embeddings)
    with torch.no_grad():
        encoded = model.encode(source, mask)
        layers, _, _, width = encoded.hidden.shape
        example = {
            "tokens": torch.full((len(source), 2), 4),
            "source_mask": mask,
            "key": encoded.memory.key,
            "value": encoded.memory.value,
            **{name: torch.zeros(len(source), 2, layers, width) for name in axes if name != "feed"},
        }
    if "feed" in axes:
        example["feed"] = torch.zeros(len(source), 2, model.decoder.readout.size)
    inputs = {"tokens": "BN", "source_mask": "BS", **(memory := {"key": "BSD", "value": "BSE"}), **axes}
    if overridable:
        example |= {"override": torch.zeros(len(source), 2, mask.shape[1]), "overridden": torch.zeros(len(source), 2) > 0}
        inputs |= {"override": "BNS", "overridden": "BN"}
    return [
        Graph("encoder", RecurrentEncoderGraph(model), {"source": source, "source_mask": mask}, SOURCE, memory | axes),
        Graph(
            "step",
            RecurrentStepGraph(model, tuple(axes), overridable=overridable),
            example,
            inputs,
            {"log_probabilities": "BNV", "cross": "BNS", **{NEXT + name: each for name, each in axes.items()}},
        ),
    ]


class TransformerEncoderGraph(nn.Module):
    """The encoder of a Transformer: memory, first state, and its own attention.

    Args:
        model: The translator.
    """

    def __init__(self, model: TransformerTranslator) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, source_mask: Tensor) -> tuple[Tensor, ...]:
        """Return `key` and `value` of all layers, empty caches, and `encoder`, the weights of all layers and heads."""
        model = self.model
        embedded = model.source_positions(model.source_embedding(source) * model.scale)
        numbers = range(len(model.encoder.layers))
        states, weights = model.encoder(embedded, source_mask, record=numbers)
        memories = model.decoder.prepare(states, source_mask)
        key = torch.stack([memory.key for memory in memories], 1)
        value = torch.stack([memory.value for memory in memories], 1)
        cache = empty_cache(model.decoder.layers, key.new_zeros(source.shape[0], 1))
        return key, value, cache, cache.clone(), torch.stack([weights[number] for number in numbers], 1)


class TransformerStepGraph(nn.Module):
    """One step of a Transformer's decoder, with a cache of keys and values that grows.

    Args:
        model: The translator.
    """

    def __init__(self, model: TransformerTranslator) -> None:
        super().__init__()
        self.model = model
        self.memory_types = [memory_type(cast(DecoderLayer, layer).cross_attention) for layer in model.decoder.layers]

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
        """Return log probabilities, `cross`, the weights of all layers and heads, and the next caches.

        `override` (B,N,L,H,S) replaces the weights of attention to the source where `overridden` (B,N,L,H) is True.
        """
        model = self.model
        x = embed_step(model.target_positions, model.target_embedding(tokens) * model.scale, own_key.shape[4])
        caches, across = StepCaches(own_key, own_value), []
        for number, module in enumerate(model.decoder.layers):
            layer = cast(DecoderLayer, module)
            memory = self.memory_types[number](key[:, number], value[:, number], source_mask)
            x = caches.attend(number, layer.self_attention, layer.self_residual, x)
            reweight = None
            if override is not None and overridden is not None:
                reweight = _overriding_layer(override[:, :, number], overridden[:, :, number])
            read = layer.cross_residual.before(x)
            out, _ = layer.cross_attention.attend(read, memory, reweight=reweight, need_weights=True)
            x = layer.cross_residual.after(x, out.context)
            x = apply_feed_forward(layer, x)
            across.append(_by_hypothesis(cast(Tensor, out.weights)))
        cross = across[model.alignment_layer]
        cross = cross.mean(2) if model.alignment_head is None else cross[:, :, model.alignment_head]
        return read_out(model, x), cross, torch.stack(across, 2), *caches.outputs()


def transformer_graphs(model: TransformerTranslator, *, overridable: bool = False) -> list[Graph]:
    """Return the graphs of a Transformer that translates; see `recurrent_graphs`."""
    source, mask = example_source(model.source_embedding.num_embeddings)
    encoder = TransformerEncoderGraph(model)
    with torch.no_grad():
        key, value, cache, _, _ = encoder(source, mask)
    past = cache.new_zeros(*cache.shape[:1], 2, *cache.shape[2:4], 3, cache.shape[5])
    example = {"tokens": torch.full((len(source), 2), 4), "source_mask": mask, "key": key, "value": value}
    memory = {"key": "BLGSD" if key.ndim == 5 else "BLSD", "value": "BLGSE" if value.ndim == 5 else "BLSE"}
    caches = {"own_key": "BNLGTD", "own_value": "BNLGTD"}
    example |= {"own_key": past, "own_value": past.clone()}  # two tensors, because the same tensor twice becomes one input
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
            TransformerStepGraph(model),
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


def memory_type(attention: Attention) -> type[Memory]:
    """Return the class of an attention's memory."""
    with torch.no_grad():
        return type(attention.prepare(torch.zeros(1, 2, attention.key_size)))


def example_source(vocabulary_size: int) -> tuple[Tensor, Tensor]:
    """Return three example sources of up to seven words, and their mask."""
    source = torch.arange(21).remainder(vocabulary_size).view(3, 7)
    mask = torch.ones(3, 7, dtype=torch.bool)
    mask[1, 5:] = False
    return source, mask


def empty_cache(layers: nn.ModuleList, like: Tensor) -> Tensor:
    """Return the cache before the first word, (B,N,L,G,0,D).

    Args:
        layers: The decoder's layers.
        like: Tensor (B,N) with the sizes and the device.
    """
    attention = self_attention_of(layers[0])
    return like.new_zeros(*like.shape, len(layers), attention.num_kv_heads, 0, attention.head_size)


def self_attention_of(layer: nn.Module) -> MultiHead:
    """Return the causal attention of a decoder's layer."""
    attention = layer.self_attention if isinstance(layer, DecoderLayer) else layer.attention
    return cast(MultiHead, attention)


def embed_step(positions: nn.Module, embedded: Tensor, length: int) -> Tensor:
    """Add the position of a step, which is the same for all hypotheses (B,N,D)."""
    return cast(Tensor, positions(embedded.flatten(0, 1)[:, None], length)).view(embedded.shape)


def apply_feed_forward(layer: DecoderLayer | CausalLayer, x: Tensor) -> Tensor:
    """Return the stream after the feed-forward part of a layer."""
    return layer.feed_forward_residual.after(x, layer.feed_forward(layer.feed_forward_residual.before(x)))


def read_out(model: TransformerTranslator | TransformerLanguageModel, x: Tensor) -> Tensor:
    """Return the log probabilities of the next words from the stream after the last layer."""
    return model.output(x if model.decoder.norm is None else model.decoder.norm(x)).log_softmax(-1)


class StepCaches:
    """The caches of the self-attention of all layers, which a step reads and extends by one word.

    Args:
        key: Keys of the earlier words, (B,N,L,G,T,D/H).
        value: Values of the earlier words, with the same shape.
    """

    def __init__(self, key: Tensor, value: Tensor) -> None:
        self._key, self._value = key, value
        self._weights: list[Tensor] = []
        self._after: list[tuple[Tensor, Tensor]] = []

    def attend(
        self, layer: int, attention: MultiHead, residual: Residual, x: Tensor, reweight: Reweight | None = None
    ) -> Tensor:
        """Return the stream (B,N,D) after the self-attention of a layer. `reweight` gets weights (BN,H,1,T+1)."""
        cache = self._key[:, :, layer], self._value[:, :, layer]
        context, weights, after = attend_to_cache(attention, residual.before(x), cache, reweight)
        self._weights.append(weights)
        self._after.append(after)
        return residual.after(x, context)

    def outputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the weights (B,N,L,H,T+1), and keys and values including those of the new word."""
        keys, values = zip(*self._after, strict=True)
        return torch.stack(self._weights, 2), torch.stack(keys, 2), torch.stack(values, 2)


def attend_to_cache(
    attention: MultiHead, read: Tensor, cache: tuple[Tensor, Tensor], reweight: Reweight | None = None
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    """Attend from one new word of each hypothesis to itself and the earlier words.

    Args:
        attention: A causal attention.
        read: Input of the attention, (B,N,D).
        cache: Keys and values of the earlier words, (B,N,G,T,D/H) each.
        reweight: Function that changes the weights (BN,H,1,T+1).

    Returns:
        The context (B,N,D), the weights (B,N,H,T+1), and keys and values including those of the new word.
    """
    batch, count = read.shape[:2]
    rows = read.flatten(0, 1)[:, None]
    state = HeadMemory(cache[0].flatten(0, 1), cache[1].flatten(0, 1))
    out, after = attention.attend(rows, attention.prepare(rows), state, reweight=reweight, need_weights=True)
    assert out.weights is not None
    assert after is not None
    weights = out.weights[:, :, 0].unflatten(0, (batch, count))
    both = after.key.unflatten(0, (batch, count)), after.value.unflatten(0, (batch, count))
    return out.context.view(read.shape), weights, both


def cross_heads(model: TransformerTranslator) -> int:
    """Return the number of heads that attend to the source in each layer; 1 for a mechanism without heads."""
    attention = cast(DecoderLayer, model.decoder.layers[0]).cross_attention
    return attention.num_heads if isinstance(attention, MultiHead) else 1


def _overriding_layer(override: Tensor, overridden: Tensor) -> Reweight:
    """Return the function for one layer: `override` (B,N,H,S), `overridden` (B,N,H), weights (B,H,N,S) or (B,N,S)."""

    def reweight(weights: Tensor, mask: Tensor) -> Tensor:
        if weights.ndim == 3:
            return torch.where(overridden, override[:, :, 0], weights)
        return torch.where(overridden.transpose(1, 2)[..., None], override.transpose(1, 2), weights)

    return reweight


def _by_hypothesis(weights: Tensor) -> Tensor:
    """Move the axis of hypotheses: (B,H,N,S) → (B,N,H,S); without heads (B,N,S) → (B,N,1,S)."""
    return weights.transpose(1, 2) if weights.ndim == 4 else weights[:, :, None]
