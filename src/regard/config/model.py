"""What a recurrent translator is made of."""

from dataclasses import dataclass, field
from typing import Literal

from regard.config.attention import AdditiveConfig, AttentionConfig

Cell = Literal["gru", "lstm"]


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """A stack of recurrent layers over the source."""

    cell: Cell = "gru"
    hidden_size: int = 256
    """Width of each direction."""
    num_layers: int = 1
    bidirectional: bool = True
    embedding_dropout: float = 0.0
    """Dropout on the source embeddings."""
    layer_dropout: float = 0.0
    """Dropout between layers."""
    output_dropout: float = 0.0
    """Dropout on the states that the decoder attends to."""

    @property
    def states_size(self) -> int:
        """Width of the states that the decoder attends to: both directions side by side."""
        return self.hidden_size * (1 + self.bidirectional)


@dataclass(frozen=True, kw_only=True)
class BahdanauDecoderConfig:
    """Attend with the previous state, then feed [embedding; context] to the cell (Bahdanau et al. 2015)."""

    kind: Literal["bahdanau"] = "bahdanau"
    cell: Cell = "gru"
    hidden_size: int = 256
    num_layers: int = 1
    attention: AttentionConfig = field(default_factory=AdditiveConfig)
    readout: Literal["output", "concat", "attentional", "deep"] = "output"
    """What the words are predicted from: the cell's output o; [o; context]; tanh(W [context; o]); tanh(W [o; context;
    embedding])."""
    embedding_dropout: float = 0.0
    layer_dropout: float = 0.0
    readout_dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LuongDecoderConfig:
    """Run the cell first, then attend with its output (Luong et al. 2015)."""

    kind: Literal["luong"] = "luong"
    cell: Cell = "lstm"
    hidden_size: int = 256
    num_layers: int = 1
    attention: AttentionConfig = field(default_factory=AdditiveConfig)
    readout: Literal["output", "concat", "attentional", "deep"] = "attentional"
    input_feeding: bool = False
    """Give the readout of each step to the next step's cell, beside the embedding."""
    embedding_dropout: float = 0.0
    layer_dropout: float = 0.0
    readout_dropout: float = 0.0


DecoderConfig = BahdanauDecoderConfig | LuongDecoderConfig


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """An encoder, a bridge and a decoder."""

    kind: Literal["recurrent"] = "recurrent"
    embedding_size: int = 256
    embedding_std: float = 0.0
    """Standard deviation of the embeddings at the start; 0 for 1/√width. With 1, as PyTorch draws them, pairs are learned by
    heart sooner, and unseen ones are translated worse."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    bridge: Literal["zeros", "copy", "linear", "mean"] = "linear"
    """How the decoder starts: at zero; from the encoder's last states as they are (widths must fit); from tanh(W·last
    states); from tanh(W·mean of the states)."""
    decoder: DecoderConfig = field(default_factory=BahdanauDecoderConfig)
    tie_embeddings: Literal["none", "target", "all"] = "none"
    """`target`: the output layer is the target embedding; `all`: the source embedding too (joint vocabulary)."""


ModelConfig = RecurrentConfig
