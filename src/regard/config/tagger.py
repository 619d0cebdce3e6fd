"""Settings of the model of a tagger."""

from dataclasses import field

from regard.config.attention import AdditiveConfig, AttentionConfig
from regard.config.classifier import RecurrentEncoderSettings, TransformerEncoderSettings, WordEncoderSettings


class TaggerSettings(WordEncoderSettings):
    """Settings of taggers: an encoder of the words of a sentence, and attention of each word over the sentence."""

    attention: AttentionConfig = field(default_factory=AdditiveConfig)
    """Attention of each word over the states of the sentence; the word's tag is predicted from its state and the context."""


class RecurrentTaggerConfig(RecurrentEncoderSettings, TaggerSettings, kind="recurrent"):
    """Embedding, recurrent layers over the words, attention of each word over the sentence, linear layer."""


class TransformerTaggerConfig(TransformerEncoderSettings, TaggerSettings, kind="transformer"):
    """Embedding, Transformer encoder, attention of each word over the sentence, linear layer."""


TaggerConfig = RecurrentTaggerConfig | TransformerTaggerConfig
