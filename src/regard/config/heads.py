"""Settings of multi-head attention beyond its sizes: modifiers, and rotary positions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from regard.config.settings import COUNT, Range, Settings

if TYPE_CHECKING:
    from regard.attention.modifiers import HeadModifier
    from regard.attention.rotary import Rotary, RotaryScaling


@dataclass(frozen=True, kw_only=True)
class HeadModifiersConfig(Settings):
    """Modifiers of multi-head attention. The formulas are in `regard.attention.modifiers`."""

    qk_norm: bool = False
    """Divide queries and keys by their root mean square (as Qwen3 and Gemma 3 do)."""
    talking_heads: bool = False
    """Mix scores and weights of the heads (Shazeer et al. 2020)."""
    output_gate: bool = False
    """Multiply the contexts of the heads by a gate of the query (Qiu et al. 2025)."""
    added_keys: Literal["none", "learned", "zero"] = "none"
    """One more key for every query: learned, or zero."""

    def build(self, *, num_heads: int, num_kv_heads: int, head_size: int, query_size: int) -> "list[HeadModifier]":
        """Build the modifiers.

        Args:
            num_heads: Number of heads.
            num_kv_heads: Number of heads of the keys and values.
            head_size: Width of a head.
            query_size: Width of the queries.
        """
        from regard.attention.modifiers import AddedKeys, OutputGate, QKNorm, TalkingHeads

        found: list[HeadModifier] = []
        if self.qk_norm:
            found.append(QKNorm(head_size))
        if self.talking_heads:
            found.append(TalkingHeads(num_heads))
        if self.output_gate:
            found.append(OutputGate(query_size, heads_size=num_heads * head_size))
        if self.added_keys != "none":
            learned = self.added_keys == "learned"
            found.append(AddedKeys(num_kv_heads, head_size, learned=learned, zero=not learned))
        return found


@dataclass(frozen=True, kw_only=True)
class RotaryConfig(Settings):
    """Rotary positions. The formulas are in `regard.attention.rotary`."""

    ranges: ClassVar[Mapping[str, Range]] = {
        "base": Range("more than 1", low=1, open_low=True),
        "scaling_factor": Range("1 or more", low=1),
        "original_length": COUNT,
    }

    base: float = 10_000.0
    """Base of the frequencies; the longest wavelength is about 2π times as large."""
    layout: Literal["pairs", "half"] = "pairs"
    """Features that are rotated together: neighbours, or those of the two halves of a head (GPT-NeoX, Llama)."""
    scaling: Literal["none", "linear", "ntk", "yarn", "llama3"] = "none"
    """Change of the frequencies for inputs longer than those of training."""
    scaling_factor: float = 1.0
    """Length of the inputs relative to those of training, for a scaling."""
    original_length: int = 2048
    """Number of positions of training, for the scalings `yarn` and `llama3`."""

    def build(self) -> "Rotary":
        """Build the positions."""
        from regard.attention.rotary import LinearScaling, Llama3Scaling, NTKScaling, Rotary, YaRNScaling

        scaling: RotaryScaling | None = None
        match self.scaling:
            case "linear":
                scaling = LinearScaling(self.scaling_factor)
            case "ntk":
                scaling = NTKScaling(self.scaling_factor)
            case "yarn":
                scaling = YaRNScaling(self.scaling_factor, self.original_length)
            case "llama3":
                scaling = Llama3Scaling(self.scaling_factor, self.original_length)
        return Rotary(self.base, layout=self.layout, scaling=scaling)
