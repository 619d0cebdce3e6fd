"""Settings of the model of a translator."""

from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Literal

from annotated_types import Ge

from regard.config.attention import AdditiveConfig, AttentionConfig
from regard.config.fields import Depth, Dropout, Natural, NotNegative, Role, Width
from regard.config.heads import HeadModifiersConfig, MultiHeadConfig, RotaryConfig
from regard.config.normalizers import NormalizerConfig, SoftmaxConfig
from regard.config.pretrained import PretrainedSourceConfig
from regard.config.settings import ModelSettings, Settings

Cell = Literal["gru", "lstm"]


class EncoderConfig(Settings, kind="recurrent"):
    """A stack of recurrent layers over the source."""

    cell: Cell = "gru"
    """Kind of the recurrent cells."""
    hidden_size: Width = 256
    """Width of the states of each direction."""
    num_layers: Depth = 1
    """Number of recurrent layers."""
    bidirectional: bool = True
    """If True, each layer also reads the text backwards, from its last word to its first."""
    embedding_dropout: Dropout = 0.0
    """Dropout on the source embeddings."""
    layer_dropout: Dropout = 0.0
    """Dropout on the output of each layer except the last."""
    output_dropout: Dropout = 0.0
    """Dropout on the states that the decoder attends to."""

    @property
    def states_size(self) -> int:
        """Width of the states that the decoder attends to, which concatenate both directions."""
        return self.hidden_size * (1 + self.bidirectional)


class DecoderSettings(Settings):
    """Settings of recurrent decoders."""

    kind: str = ""
    cell: Cell = "gru"
    """Kind of the recurrent cells."""
    hidden_size: Width = 256
    """Width of the decoder's states."""
    num_layers: Depth = 1
    """Number of recurrent layers."""
    attention: AttentionConfig = field(default_factory=AdditiveConfig)
    """Attention to the source."""
    readout: Literal["output", "concat", "attentional", "deep"] = "output"
    """Features from which words are predicted. With the output o of the decoder's top layer: o (`output`), [o; context]
    (`concat`), tanh(W [context; o]) (`attentional`), or tanh(W [o; context; embedding]) (`deep`).
    """
    embedding_dropout: Dropout = 0.0
    """Dropout on the target embeddings."""
    layer_dropout: Dropout = 0.0
    """Dropout on the output of each layer except the last."""
    readout_dropout: Dropout = 0.0
    """Dropout on the features from which words are predicted."""


class BahdanauDecoderConfig(DecoderSettings, kind="bahdanau"):
    """Attend with the previous state, then feed [embedding; context] to the cell (Bahdanau et al. 2015)."""


class LuongDecoderConfig(DecoderSettings, kind="luong"):
    """Run the cell first, then attend with the cell's output (Luong et al. 2015)."""

    cell: Cell = "lstm"
    readout: Literal["output", "concat", "attentional", "deep"] = "attentional"
    """Features from which words are predicted. With the output o of the decoder's top layer: [o; context] (`concat`),
    tanh(W [context; o]) (`attentional`), or tanh(W [o; context; embedding]) (`deep`). `output` is an error, because the context
    would have no effect.
    """
    input_feeding: bool = False
    """Whether the cell also reads the `readout` features of the previous step, in addition to the embedding."""


DecoderConfig = BahdanauDecoderConfig | LuongDecoderConfig


class RecurrentSettings(ModelSettings):
    """Settings of models with a recurrent decoder."""

    kind: str = ""
    embedding_size: Width = 256
    """Width of the embeddings."""
    embedding_std: NotNegative = 0.0
    """Initial standard deviation of the embeddings; 0 for 1/√width. With 1, PyTorch's default, the model overfits earlier
    and translates new sentences worse.
    """
    bridge: Literal["zeros", "copy", "linear", "mean"] = "linear"
    """Initial state of the decoder: `zeros`; a `copy` of the encoder's last states, if both have the same width; tanh(W s + b)
    with the last state s of the encoder's top layer (`linear`), or with the mean s of all states of this layer (`mean`).
    The last state of a pretrained encoder is the mean of its states.
    """
    decoder: DecoderConfig = field(default_factory=BahdanauDecoderConfig)
    """Layers that produce the target."""

    @property
    def states_size(self) -> int:
        """Width of the states that the decoder attends to."""
        raise NotImplementedError

    def readout_conflicts(self) -> Iterator[tuple[str, str]]:
        """Yield a conflict, in the form of `Settings.conflicts`, if the attention would have no effect."""
        if (self.decoder.kind, self.decoder.readout) == ("luong", "output"):
            message = "model.decoder.readout is 'output', which a decoder of kind 'luong' computes before it attends"
            yield (
                "model.decoder.readout",
                f"{message}: the attention would have no effect; expected one of: concat, attentional, deep",
            )


class WaitSettings(Settings):
    """Settings of models that can translate a source while it arrives."""

    wait_k: Natural = 0
    """Number k of source tokens that are read before the first target token is chosen; then one more is read before each
    further token (wait-k, Ma et al. 2019). 0 to read the whole source first. The encoder then reads in one direction.
    """

    def wait_conflicts(self) -> Iterator[tuple[str, str]]:
        """Yield a conflict, in the form of `Settings.conflicts`, if the encoder reads words that have not arrived yet."""
        if self.wait_k and isinstance(getattr(self, "encoder", None), PretrainedSourceConfig):
            yield "model.wait_k", f"model.wait_k is {self.wait_k}, but a pretrained encoder reads the whole source; set it to 0"


class RecurrentConfig(WaitSettings, RecurrentSettings, kind="recurrent"):
    """An encoder, a bridge that computes the decoder's initial state, and a decoder with attention."""

    encoder: EncoderConfig | PretrainedSourceConfig = field(default_factory=EncoderConfig)
    """Layers that read the source: recurrent ones, or a pretrained encoder."""
    copy: bool = False
    """Whether the decoder can copy source words that its vocabulary lacks, such as names (See et al. 2017): a step generates a
    word with the probability p_gen, and otherwise copies one by the weights of its attention to the source. For tokenizers of
    words.
    """
    tie_embeddings: Literal["none", "target", "all"] = "none"
    """Layers that share one weight matrix: `none`; the output layer and the target embedding (`target`); or these two and the
    source embedding (`all`), which needs `tokenizers.joint`.
    """

    @property
    def states_size(self) -> int:
        return self.encoder.states_size if isinstance(self.encoder, EncoderConfig) else self.decoder.hidden_size

    def wait_conflicts(self) -> Iterator[tuple[str, str]]:
        yield from super().wait_conflicts()
        if self.wait_k and self.encoder.bidirectional:
            yield (
                "model.encoder.bidirectional",
                f"model.wait_k is {self.wait_k}, so the encoder must not read later words; set model.encoder.bidirectional to "
                "false",
            )


class LayerSettings(ModelSettings):
    """Settings of the layers of all Transformers."""

    kind: str = ""
    num_heads: Width = 4
    """Number of heads of each attention."""
    feed_forward_size: Width = 1024
    """Width of the hidden layer in each feed-forward network."""
    feed_forward: Literal["relu", "gelu", "swiglu"] = "relu"
    """Activation of the feed-forward networks."""
    norm: Literal["layer", "rms"] = "layer"
    """Normalization by mean and variance (`layer`), or by the root mean square (`rms`)."""
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    """Encoding of the positions of tokens: fixed sinusoids (`sinusoidal`), 512 learned vectors (`learned`; all later positions
    share the last one), or rotated queries and keys (`rotary`).
    """
    rotary: RotaryConfig = field(default_factory=RotaryConfig)
    """Settings of the rotation of queries and keys; used only if `positions` is `rotary`."""
    heads: HeadModifiersConfig = field(default_factory=HeadModifiersConfig)
    """Modifiers of the heads of self-attention."""
    normalizer: NormalizerConfig = field(default_factory=SoftmaxConfig)
    """Function that turns the scores of self-attention into weights."""
    attention_dropout: Dropout = 0.0
    """Dropout on the attention weights."""

    def width_conflicts(self, size: int, name: str = "model.hidden_size") -> Iterator[tuple[str, str]]:
        """Yield conflicts, in the form of `Settings.conflicts`, between the width of the model and its heads or positions.

        Args:
            size: Width of the model.
            name: Dotted name of the setting that holds the width.
        """
        heads = self.num_heads
        if size % heads:
            yield "model.num_heads", f"model.num_heads is {heads}, expected a divisor of {name} ({size})"
        elif self.positions == "rotary" and size // heads % 2:
            yield (
                "model.positions",
                f"model.positions is 'rotary', which rotates pairs of features, but a head has {size // heads} "
                f"features: make {name} / model.num_heads even",
            )
        if self.positions == "sinusoidal" and size % 2:
            yield "model.positions", f"model.positions is 'sinusoidal', which needs an even {name}; it is {size}"


class TransformerSettings(LayerSettings):
    """Settings of Transformers that predict words."""

    hidden_size: Width = 256
    """Width of the model: embeddings, residual stream and output."""
    norm_order: Literal["pre", "post", "deep"] = "pre"
    """Position of the norms: before each attention and each feed-forward network (`pre`), after it (`post`), or after it with
    the scales of DeepNet, for very many layers (`deep`).
    """
    output_bias: bool = False
    """Whether the output layer has a bias."""
    embedding_dropout: Dropout = 0.1
    """Dropout on the sum of embeddings and positions."""
    layer_dropout: Dropout = 0.1
    """Dropout on the output of each attention and feed-forward network, before it is added to the residual stream."""
    activation_dropout: Dropout = 0.0
    """Dropout on the hidden layer of each feed-forward network."""


class TransformerEncoderConfig(Settings, kind="transformer"):
    """A Transformer's encoder of `encoder_layers` layers, with the other settings of the model."""

    kind: str = ""


class TransformerConfig(WaitSettings, TransformerSettings, kind="transformer"):
    """A Transformer with an encoder and a decoder (Vaswani et al. 2017)."""

    encoder: TransformerEncoderConfig | PretrainedSourceConfig = field(default_factory=TransformerEncoderConfig)
    """Layers that read the source: those of a Transformer, or a pretrained encoder."""
    copy: bool = False
    """Whether the decoder can copy source words that its vocabulary lacks, such as names (See et al. 2017): a step generates a
    word with the probability p_gen, and otherwise copies one by the weights of `alignment_layer` and `alignment_head`. For
    tokenizers of words.
    """
    encoder_layers: Depth = 4
    """Number of the encoder's layers; ignored if the encoder is pretrained."""
    decoder_layers: Depth = 4
    """Number of the decoder's layers."""
    cross_attention: AttentionConfig = field(default_factory=MultiHeadConfig)
    """Attention to the source in each decoder layer. Kinds that remember earlier words, such as `coverage`, are an error."""
    tie_embeddings: Literal["none", "target", "all"] = "target"
    """Layers that share one weight matrix: `none`; the output layer and the target embedding (`target`); or these two and the
    source embedding (`all`), which needs `tokenizers.joint`.
    """
    alignment_layer: Annotated[int, Ge(-1), Role.ADJUSTABLE] = -1
    """Number of the decoder layer, from 0, whose attention to the source is used as word alignment; −1 for the last layer but
    one.
    """
    alignment_head: Annotated[int, Ge(-1), Role.ADJUSTABLE] = -1
    """Number of the head in `alignment_layer`, from 0, that is used as word alignment; −1 for the mean of all heads."""

    def layer_conflicts(self) -> Iterator[tuple[str, str]]:
        """Yield conflicts, in the form of `Settings.conflicts`, of the width, and of a missing alignment layer or head."""
        yield from self.width_conflicts(self.hidden_size)
        for name, what in (("alignment_layer", "decoder_layers"), ("alignment_head", "num_heads")):
            chosen, count = getattr(self, name), getattr(self, what)
            if chosen >= count:
                yield f"model.{name}", f"model.{name} is {chosen}, expected less than model.{what} ({count}), or -1"


ModelConfig = RecurrentConfig | TransformerConfig
