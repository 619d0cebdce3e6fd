"""The parts of a model's step, for code that runs the same step with packed weights (`regard.inference`).

If a model returns its parts (`Seq2Seq.search_parts`), its step must compute exactly what the classes below describe. If it
returns None, a search calls the model's own `step`. So the code that packs models does not need to know any model class.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.layers.readout import ReadoutMaps
from regard.layers.recurrent import CellWeights
from regard.layers.transformer import DecoderParts

Features = Callable[..., tuple[Tensor, dict[str, Tensor], Any]]
"""Function like `Seq2Seq.step`, without the output layer: features(tokens, state, record=…, reweight=…) → features (B,N,D),
attention by site, next state.
"""


@dataclass(frozen=True)
class RecurrentParts:
    """The parts of a recurrent decoder that a packed form can replace."""

    layers: tuple[CellWeights, ...]
    """The weights of each layer's step."""
    readout_maps: ReadoutMaps | None
    """The linear maps of the readout; None if the readout computes something other than the formula of `ReadoutMaps`."""
    readout: nn.Module
    with_parts: Callable[[Sequence[nn.Module], nn.Module], Any]
    """Function that builds a decoder with other layers and another readout; see `RecurrentDecoder.with_parts`."""


@dataclass(frozen=True)
class StepParts:
    """The parts of a step that computes logits = output(features(tokens, state))."""

    features: Features
    output: nn.Linear
    decoder: DecoderParts | RecurrentParts | None
    """The parts of the decoder; None if a search must call the decoder's own `step`."""


@dataclass(frozen=True)
class EnsembleParts:
    """The parts of a step that averages the probabilities of the members of an ensemble."""

    members: tuple[Any, ...]
    """The members, each a `Seq2Seq`."""
    build: Callable[[list[Any]], Any]
    """Function that builds an ensemble from a list of other members."""


SearchParts = StepParts | EnsembleParts
