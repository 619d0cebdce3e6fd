"""The parts of a model's step, for code that runs the same step from packed weights (`regard.inference`).

A model that returns its parts promises that its step computes their formula. A model that returns None is searched by calling
its `step`. So whoever packs models needs to know no class of model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.layers.readout import ReadoutMaps
from regard.layers.recurrent import CellWeights
from regard.layers.transformer import DecoderParts

Features = Callable[..., tuple[Tensor, dict[str, Tensor], Any]]
"""features(tokens, state, record=…, reweight=…) → features (B,N,D), attention by site, state: all of `step` but the output."""


@dataclass(frozen=True)
class RecurrentParts:
    """The parts of a recurrent decoder that a packed form can replace."""

    layers: tuple[CellWeights, ...]
    """The weights of each layer's step."""
    readout_maps: ReadoutMaps | None
    """The maps of the readout; None for a readout without maps, or with others."""
    readout: nn.Module
    with_parts: Callable[[Sequence[nn.Module], nn.Module], Any]
    """Builds a decoder with other layers and another readout; see `RecurrentDecoder.with_parts`."""


@dataclass(frozen=True)
class StepParts:
    """logits = output(features(tokens, state))."""

    features: Features
    output: nn.Linear
    decoder: DecoderParts | RecurrentParts | None
    """The parts of the decoder; None if only its own `step` computes what it does."""


@dataclass(frozen=True)
class EnsembleParts:
    """A step that averages the probabilities of its members."""

    members: tuple[Any, ...]
    """The members, each a `Seq2Seq`."""
    build: Callable[[list[Any]], Any]
    """Builds an ensemble of other members."""


SearchParts = StepParts | EnsembleParts
