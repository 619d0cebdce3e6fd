"""Language models: the decoder alone."""

from regard.models.language.transformer import TransformerLanguageModel

__all__ = ["TransformerLanguageModel"]
