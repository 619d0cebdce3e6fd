"""Settings for a language model, chosen from the texts.

The number of characters in the texts selects a row of `_ROWS`. `docs/explanation/choosing.md` has the measurements behind the
rows.
"""

import math
from dataclasses import dataclass

from regard.choose.choice import describe_tokenizer, describe_training, length_settings, transformer_settings
from regard.choose.survey import STAND_IN, PlainSurvey, survey_plain
from regard.config import TextDataConfig
from regard.plurals import counted
from regard.task.settings import Choice, SettingsTable, UserSettings
from regard.tasks.language.config import LanguageConfig

# Approximate number of characters per subword, for scripts with spaces between words; for the others, 1 is used.
_CHARACTERS_PER_PIECE = 3.5


@dataclass(frozen=True)
class _Row:
    """Settings for up to `characters` characters of text."""

    characters: float
    pieces: int
    """Minimum size of the vocabulary; it is larger if the texts have many different characters."""
    width: int
    layers: int
    dropout: float
    batch_tokens: int
    epochs: int


_ROWS = (
    _Row(characters=30_000, pieces=500, width=128, layers=3, dropout=0.3, batch_tokens=256, epochs=30),
    _Row(characters=300_000, pieces=1_000, width=128, layers=4, dropout=0.2, batch_tokens=512, epochs=15),
    _Row(characters=3_000_000, pieces=4_000, width=128, layers=4, dropout=0.1, batch_tokens=1024, epochs=10),
    _Row(characters=30_000_000, pieces=8_000, width=256, layers=4, dropout=0.1, batch_tokens=4096, epochs=4),
    _Row(characters=math.inf, pieces=16_000, width=512, layers=6, dropout=0.1, batch_tokens=8192, epochs=2),
)


class LanguageTable(SettingsTable):
    """The `SettingsTable` of language models."""

    def choose(self, data: TextDataConfig, given: UserSettings, *, read: bool = True) -> Choice:
        survey = survey_plain(data) if read else PlainSurvey(1000, 100_000, STAND_IN)
        row = next(row for row in _ROWS if survey.characters <= row.characters)
        tokens = survey.characters / (1 if survey.text.unspaced else _CHARACTERS_PER_PIECE)
        settings = {
            "data.dev_size": max(min(survey.texts // 20, 1000), 1),
            "tokenizer.size": max(row.pieces, 300 + survey.text.num_characters),
            **transformer_settings(row.width, row.dropout, feed_forward=4),
            "model.num_layers": row.layers,
            "training.batch_tokens": row.batch_tokens,
            **length_settings(given, epochs=row.epochs, epoch_updates=tokens / row.batch_tokens),
        }
        kind = given.find("tokenizer.kind") or "bpe"
        if kind in ("bpe", "unigram"):
            settings["tokenizer.kind"] = kind
        else:
            del settings["tokenizer.size"]
        found = f"{counted(survey.texts, 'text')}, {survey.characters:,} characters"
        return Choice("language-tiny", settings, (found,))

    def describe(self, config: LanguageConfig) -> tuple[str, ...]:
        model = config.model
        size = f"Transformer, {counted(model.num_layers, 'layer')}, {model.hidden_size} wide"
        return (
            f"model: {size}, dropout {model.layer_dropout:g}",
            f"tokenizer: {describe_tokenizer(config.tokenizer)}",
            describe_training(config),
        )
