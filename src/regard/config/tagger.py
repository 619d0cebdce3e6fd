"""Settings of the model of a tagger."""

from dataclasses import field

from regard.config.attention import AdditiveConfig, AttentionConfig
from regard.config.classifier import RecurrentEncoderSettings, TransformerEncoderSettings, WordEncoderSettings
from regard.config.fields import Dropout
from regard.config.pretrained import PretrainedEncoderConfig
from regard.config.settings import ModelSettings


class TaggerSettings(WordEncoderSettings):
    """Settings of taggers: an encoder of the words of a sentence, and attention of each word over the sentence."""

    attention: AttentionConfig = field(default_factory=AdditiveConfig)
    """Attention of each word over the states of the sentence; the word's tag is predicted from its state and the context."""


class RecurrentTaggerConfig(RecurrentEncoderSettings, TaggerSettings, kind="recurrent"):
    """Embedding, recurrent layers over the words, attention of each word over the sentence, linear layer."""


class TransformerTaggerConfig(TransformerEncoderSettings, TaggerSettings, kind="transformer"):
    """Embedding, Transformer encoder, attention of each word over the sentence, linear layer."""


class PretrainedTaggerConfig(ModelSettings, kind="pretrained"):
    """A pretrained encoder, attention of each word over the sentence, linear layer."""

    encoder: PretrainedEncoderConfig = field(default_factory=PretrainedEncoderConfig)
    """The encoder."""
    attention: AttentionConfig = field(default_factory=AdditiveConfig)
    """Attention of each word over the encoder's states of the sentence."""
    output_dropout: Dropout = 0.1
    """Dropout on the vector from which tags are predicted."""


TaggerConfig = RecurrentTaggerConfig | TransformerTaggerConfig | PretrainedTaggerConfig
