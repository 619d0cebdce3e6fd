"""Settings of a language model, and of the generation of texts."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le

from regard.config.fields import Depth, Natural, NotNegative, Positive, Seed
from regard.config.model import TransformerSettings
from regard.config.settings import Settings


class LanguageModelConfig(TransformerSettings, kind="transformer"):
    """A Transformer decoder without a source: causal self-attention and feed-forward networks (Radford et al. 2018)."""

    num_layers: Depth = 4
    """Number of layers."""
    feed_forward: Literal["relu", "gelu", "swiglu"] = "gelu"
    positions: Literal["sinusoidal", "learned", "rotary"] = "rotary"
    tie_embeddings: bool = True
    """Whether the output layer shares the weights of the embedding."""


@dataclass(frozen=True, kw_only=True)
class SamplingSettings:
    """Options of drawing words at random."""

    temperature: Positive = 1.0
    """Temperature τ of the sampling; below 1 favours probable words."""
    top_k: Natural = 0
    """Sample from the K most probable words only; 0 for all."""
    top_p: Annotated[float, Gt(0), Le(1)] = 1.0
    """Sample from the smallest set of most probable words whose probabilities sum to P or more; 1 for all. Applied after
    `top_k`.
    """
    seed: Seed = 0
    """Seed of the sampling, which is combined with the number of each text."""


class GenerationConfig(Settings):
    """Default settings for generating texts; commands can override them."""

    temperature: NotNegative = 1.0
    """Number by which the scores of words are divided before sampling: below 1 favours probable words, above 1 improbable
    ones; 0 always takes the most probable word.
    """
    top_k: Natural = 0
    """Sample from the k most probable words only; 0 for all."""
    top_p: Annotated[float, Gt(0), Le(1)] = 0.95
    """Sample from the most probable words that together have this probability (Holtzman et al. 2020); 1 for all."""
    max_length: Natural = 0
    """Maximum number of tokens that are added to a prompt, including the end symbol; 0 for `data.max_tokens`."""
    no_repeat_ngrams: Annotated[int, Ge(0), Le(100)] = 0
    """Number n: no sequence of n tokens occurs twice in a text, including its prompt; 0 for no restriction."""
    repetition_penalty: Annotated[float, Ge(1), Le(100)] = 1.0
    """Factor θ ≥ 1 that multiplies the log probabilities of tokens that already occur in the text or its prompt, which makes
    them less probable; 1 for no penalty.
    """
