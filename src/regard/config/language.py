"""Which texts a language model learns from, what it is made of, and how it goes on with a text."""

from dataclasses import dataclass, field
from typing import Literal

from regard.config.normalizers import NormalizerConfig, SoftmaxConfig
from regard.config.settings import DataSettings, ModelSettings, Settings


@dataclass(frozen=True, kw_only=True)
class TextDataConfig(DataSettings):
    """Files of texts, and the rules for skipping texts."""

    train: tuple[str, ...] = ()
    """Text files (also .gz)."""
    dev: tuple[str, ...] = ()
    """Texts to validate on. Empty: `dev_size` texts are held out of `train`."""
    dev_size: int = 1000
    """How many texts to hold out when `dev` is empty, never more than a tenth; 0 holds out none. Equal texts stay on one
    side."""
    unit: Literal["line", "paragraph"] = "line"
    """Unit of text: a line, or the lines up to an empty line, joined by spaces (for prose that is broken into lines)."""
    language: str = ""
    """Language of the texts, as a code (`en`): picks the rules of spaCy's tokenizer."""
    encoding: str = "auto"
    """Encoding of the files, such as `cp1252`; `auto`: the one that a byte order mark gives, else UTF-8."""
    allow_skipped: float = 0.1
    """Largest share of a file's lines that may be unusable (undecodable or overlong), from 0 to 1."""
    max_texts: int = 0
    """Maximum number of training texts; 0 for all."""
    max_tokens: int = 256
    """Maximum number of tokens per block; a block sees only the last token of the block before it."""
    normalization: Literal["nfc", "nfkc", "none"] = "nfc"
    """Unicode normalization of the texts."""
    drop_repeats: bool = True
    """Keep one of each exactly repeated text."""
    cache: str = ""
    """Folder of the encoded corpora, reused while data and tokenizer are unchanged. Empty: the user's cache folder, or the
    one that REGARD_CACHE names."""


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig(ModelSettings):
    """A Transformer's decoder alone: causal self-attention and feed-forward parts (Radford et al. 2018)."""

    kind: Literal["transformer"] = "transformer"
    hidden_size: int = 256
    """Width of the model: embeddings, residual stream and output."""
    num_layers: int = 4
    """Number of layers."""
    num_heads: int = 4
    """Number of heads of each attention."""
    feed_forward_size: int = 1024
    """Width inside the feed-forward parts."""
    feed_forward: Literal["relu", "gelu", "swiglu"] = "gelu"
    """Activation of the feed-forward parts."""
    norm: Literal["layer", "rms"] = "layer"
    """Normalization by mean and variance (`layer`), or by the root mean square (`rms`)."""
    norm_order: Literal["pre", "post", "deep"] = "pre"
    """Norms before each part, or after it, or after it with DeepNet's scales, for very many layers."""
    positions: Literal["sinusoidal", "learned", "rotary"] = "rotary"
    """How the model knows the order of the tokens: fixed waves, learned vectors, or rotated queries and keys."""
    normalizer: NormalizerConfig = field(default_factory=SoftmaxConfig)
    """From scores to weights in self-attention."""
    tie_embeddings: bool = True
    """Whether the output layer is the embedding."""
    output_bias: bool = False
    """Whether the output layer has a bias."""
    embedding_dropout: float = 0.1
    """Dropout on the embeddings."""
    layer_dropout: float = 0.1
    """Dropout on what each part adds to the residual stream."""
    activation_dropout: float = 0.0
    """Dropout inside the feed-forward layer."""
    attention_dropout: float = 0.0
    """Dropout on attention weights."""
    freeze: tuple[str, ...] = ()
    """Parts that training doesn't change: `embeddings`, modules such as `encoder`, or prefixes of parameter names."""


@dataclass(frozen=True, kw_only=True)
class GenerationConfig(Settings):
    """How texts are generated, unless a command says otherwise."""

    temperature: float = 1.0
    """Temperature of sampling, by which scores are divided: below 1 likelier words, above 1 rarer ones; 0 the most probable."""
    top_k: int = 0
    """Draw from the k most probable words only; 0 for all."""
    top_p: float = 0.95
    """Draw from the most probable words that together have this probability (Holtzman et al. 2020); 1 for all."""
    max_length: int = 0
    """Most tokens that are added to a prompt; 0 for `data.max_tokens`."""
    no_repeat_ngrams: int = 0
    """n: no sequence of n tokens occurs twice in a text, its prompt included; 0 for no restriction."""
    repetition_penalty: float = 1.0
    """θ ≥ 1: log probabilities of tokens that the text or its prompt already has are multiplied by it; 1 for no penalty."""
