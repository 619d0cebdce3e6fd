"""Language models: a decoder without an encoder."""

from regard.models.language.transformer import TransformerLanguageModel

__all__ = ["TransformerLanguageModel"]
