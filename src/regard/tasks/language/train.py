"""Training of language models."""

import re
from dataclasses import replace
from typing import ClassVar, cast

from regard.config.data import LearnedTokenizer
from regard.errors import ConfigError
from regard.scripts import is_spaceless
from regard.tasks.language.config import LanguageConfig
from regard.tasks.words import TrainableWords, WordTraining
from regard.text.corpora import TextCorpus
from regard.text.opening import check_file
from regard.text.plain import WHAT, TextSchema, find_unit
from regard.text.preparation import Prepared, prepare_data
from regard.text.split import spread
from regard.text.symbols import START
from regard.text.tokenizers.tokenizer import Tokenizer

# Maximum number of words of a held-out text that a page offers as a beginning; of tokens in scripts without spaces.
_BEGINNING = 6


def _beginning(ids: list[int], tokenizer: Tokenizer) -> str:
    """Return the first half of a text's words, at most six; empty for a text that is too short to leave something out."""
    text = tokenizer.decode(ids)
    if is_spaceless(text):
        return tokenizer.decode(ids[:_BEGINNING]) if len(ids) > _BEGINNING else ""
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    count = min(len(ends) // 2, _BEGINNING)
    return text[: ends[count - 1]] if count else ""


class TrainableLanguageModel(TrainableWords):
    """A language model and its data. The loss is −log p, summed over the tokens of the texts and their end symbols."""

    unit: ClassVar[str] = "tokens"
    columns: ClassVar[tuple[str, ...]] = ("train_nll", "train_perplexity", "dev_nll", "dev_perplexity")


class LanguageTraining(WordTraining):
    """The `Training` of language models."""

    trainable = TrainableLanguageModel
    sizes_name = "the size of the vocabulary"

    def check(self, config: LanguageConfig, model: object, attention: object) -> None:
        super().check(config, model, attention)
        if attention is not None:
            raise ConfigError(
                "a language model has an attention in every layer, and one object cannot replace all of them: build a "
                "regard.models.language.TransformerLanguageModel with your own layers, and give it as `model`"
            )

    def read(
        self, config: LanguageConfig, learned: Tokenizer | None, *, progress: bool
    ) -> tuple[LanguageConfig, Prepared[TextCorpus], Tokenizer]:
        config, learned = self.use_teachers(config, learned)
        if config.data.unit == "auto":  # so that the model reads other files in the same way
            unit = find_unit(check_file(config.data.train[0], WHAT), config.data.encoding)
            config = replace(config, data=replace(config.data, unit=unit))
        data = prepare_data(TextSchema(config.data, config.tokenizer, learned), seed=config.seed, progress=progress)
        return replace(config, tokenizer=cast(LearnedTokenizer, data.configs[0])), data, data.tokenizers[0]

    def held_out(self, config: LanguageConfig, parts: Tokenizer) -> tuple[list[str], bool]:
        """Return beginnings of dev texts; see `Training.held_out`."""
        data = prepare_data(TextSchema(config.data, config.tokenizer, parts), seed=config.seed)
        corpus = data.dev if len(data.dev) else data.train
        batch = corpus.batch(spread(len(corpus)))
        rows = [row[mask].tolist() for row, mask in zip(batch.target_in, batch.target_mask, strict=True)]
        # A row without the start symbol continues a long text, and may begin inside a word.
        beginnings = [_beginning(row[1:], parts) for row in rows if row[0] == START]
        return [text for text in beginnings if text], corpus is data.dev
