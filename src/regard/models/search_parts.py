"""The parts of a model's step, for code that runs the same step from packed weights (`regard.inference`).

If a model returns its parts, its step must compute exactly the formula of these parts. If it returns None, a search calls its
`step`. So the code that packs models does not need to know any model class.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.layers.readout import ReadoutMaps
from regard.layers.recurrent import CellWeights
from regard.layers.transformer import DecoderParts

Features = Callable[..., tuple[Tensor, dict[str, Tensor], Any]]
"""features(tokens, state, record=…, reweight=…) → features (B,N,D), attention by site, state: `step` without the output
layer.
"""


@dataclass(frozen=True)
class RecurrentParts:
    """The parts of a recurrent decoder that a packed form can replace."""

    layers: tuple[CellWeights, ...]
    """The weights of each layer's step."""
    readout_maps: ReadoutMaps | None
    """The linear maps of the readout; None for a readout without these maps."""
    readout: nn.Module
    with_parts: Callable[[Sequence[nn.Module], nn.Module], Any]
    """Function that builds a decoder with other layers and another readout; see `RecurrentDecoder.with_parts`."""


@dataclass(frozen=True)
class StepParts:
    """logits = output(features(tokens, state))."""

    features: Features
    output: nn.Linear
    decoder: DecoderParts | RecurrentParts | None
    """The parts of the decoder; None if a search must call the decoder's own `step`."""


@dataclass(frozen=True)
class EnsembleParts:
    """A step that averages the probabilities of its members."""

    members: tuple[Any, ...]
    """The members, each a `Seq2Seq`."""
    build: Callable[[list[Any]], Any]
    """Function that builds an ensemble of other members."""


SearchParts = StepParts | EnsembleParts
