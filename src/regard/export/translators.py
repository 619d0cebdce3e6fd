"""The graphs of recurrent models that produce a target word by word: an encoder, and a step of the decoder.

The encoder's outputs are the memory (the source, prepared once) and the first state. The step takes tokens, the source mask,
the memory and the state. It returns log probabilities, attention and the next state, whose tensors have names with the prefix
`next_`. Every tensor of the state begins with the axes B (sentences) and N (hypotheses), so that a search can select hypotheses
by indexing these two axes.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.base import Attention
from regard.attention.capabilities import Reweight
from regard.attention.soft_to_hard import SoftToHard
from regard.errors import RequestError
from regard.export.graphs import Graph
from regard.export.memory import memory_unpacker, pack_memory
from regard.export.recurrence import with_native_layers
from regard.export.runtime import NEXT
from regard.models.recurrent.decoder import RecurrentState
from regard.models.recurrent.translator import RecurrentTranslator

SOURCE = {"source": "BS", "source_mask": "BS"}


def check_exportable(attention: Attention, place: str) -> None:
    """Check that an attention can be part of a graph.

    Args:
        attention: The mechanism.
        place: Where the mechanism is used, for the error message.

    Raises:
        RequestError: If the mechanism has a state that changes from step to step, or operations that ONNX lacks.
    """
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


class RecurrentEncoderGraph(nn.Module):
    """The encoder of a recurrent translator; it returns the memory and the first state.

    Args:
        model: The translator.
    """

    def __init__(self, model: RecurrentTranslator) -> None:
        super().__init__()
        self.model = with_native_layers(model)

    def forward(self, source: Tensor, source_mask: Tensor) -> tuple[Tensor, ...]:
        """Return `key` and `value`, which are the memory, and the tensors of the first state."""
        model = self.model
        states, finals = model.encoder(model.source_embedding(source), source_mask)
        hidden, cell = model.bridge(states, source_mask, finals)
        memory = model.decoder.attention.prepare(states, key_mask=source_mask)
        first = [hidden[:, :, None].permute(1, 2, 0, 3)]
        if cell is not None:
            first.append(cell[:, :, None].permute(1, 2, 0, 3))
        if model.decoder.feeds_readout:
            first.append(hidden.new_zeros(source.shape[0], 1, model.decoder.readout.size))
        return *pack_memory(memory), *first


class RecurrentStepGraph(nn.Module):
    """One step of a recurrent translator's decoder.

    Args:
        model: The translator.
        names: Names of the state's tensors.
        overridable: Whether there are two further inputs at the end: `override` (B,N,S), attention weights that replace the
            model's own, and `overridden` (B,N), which is True for hypotheses whose weights are replaced.
    """

    def __init__(self, model: RecurrentTranslator, names: Sequence[str], *, overridable: bool = False) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)
        self.unpack_memory, self.overridable = memory_unpacker(model.decoder.attention), overridable

    def forward(self, tokens: Tensor, source_mask: Tensor, key: Tensor, value: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Return log probabilities, `cross` (and `cross_heads` for attention with heads), and the next state's tensors."""
        reweight = None
        if self.overridable:
            *state, override, overridden = state  # type: ignore[assignment]
            reweight = {"cross": overriding(override, overridden)}
        given = dict(zip(self.names, state, strict=True))
        before = RecurrentState(
            memory=self.unpack_memory(key, value, source_mask),
            hidden=given["hidden"].permute(2, 0, 1, 3),
            cell=given["cell"].permute(2, 0, 1, 3) if "cell" in given else None,
            feed=given.get("feed"),
        )
        logits, attention, after = self.model.step(tokens, before, record=("cross",), reweight=reweight)
        found = {"hidden": after.hidden.permute(1, 2, 0, 3), "feed": after.feed}
        found["cell"] = None if after.cell is None else after.cell.permute(1, 2, 0, 3)
        cross = attention["cross"]
        maps = (cross,) if cross.ndim == 3 else (cross.mean(1), cross.transpose(1, 2)[:, :, None])
        return logits.log_softmax(-1), *maps, *(cast(Tensor, found[name]) for name in self.names)


def overriding(override: Tensor, overridden: Tensor) -> Reweight:
    """Return a function that replaces a mechanism's weights with given ones.

    Args:
        override: The new weights, (…,Q,S). If they have no head axis, (B,Q,S), they replace the weights of every head.
        overridden: True for each query whose weights are replaced, (…,Q).
    """

    def reweight(weights: Tensor, mask: Tensor) -> Tensor:
        rows, given = overridden[..., None], override
        if weights.ndim > given.ndim:
            rows, given = rows[:, None], given[:, None]
        return torch.where(rows, given, weights)

    return reweight


def recurrent_graphs(model: RecurrentTranslator, *, overridable: bool = False) -> list[Graph]:
    """Return the graphs of a recurrent translator.

    Args:
        model: The translator.
        overridable: Whether the step accepts attention weights that replace the model's own.

    Raises:
        RequestError: If the attention of the model cannot be part of a graph.
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
            **dict(zip(("key", "value"), pack_memory(encoded.memory), strict=True)),
            **{name: torch.zeros(len(source), 2, layers, width) for name in axes if name != "feed"},
        }
    if "feed" in axes:
        example["feed"] = torch.zeros(len(source), 2, model.decoder.readout.size)
    with_heads = example["key"].ndim == 4
    memory = {"key": "BGSD", "value": "BGSE"} if with_heads else {"key": "BSD", "value": "BSE"}
    inputs = {"tokens": "BN", "source_mask": "BS", **memory, **axes}
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
            {
                "log_probabilities": "BNV",
                "cross": "BNS",
                **({"cross_heads": "BNLHS"} if with_heads else {}),
                **{NEXT + name: each for name, each in axes.items()},
            },
        ),
    ]


def example_source(vocabulary_size: int) -> tuple[Tensor, Tensor]:
    """Return three example sources of up to seven words, and their mask."""
    source = torch.arange(21).remainder(vocabulary_size).view(3, 7)
    mask = torch.ones(3, 7, dtype=torch.bool)
    mask[1, 5:] = False
    return source, mask
