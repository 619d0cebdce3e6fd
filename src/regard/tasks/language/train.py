"""Training of language models."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from regard.errors import ConfigError
from regard.task import Scores, Validator
from regard.tasks.language.config import LanguageConfig
from regard.tasks.words import TrainableWords, WordTraining
from regard.text.corpora import TextCorpus
from regard.text.opening import check_file
from regard.text.plain import WHAT, TextSchema, find_unit
from regard.text.preparation import Prepared, prepare_data
from regard.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class LanguageScores(Scores):
    """Scores of one validation; `nll` is the mean of −log p per token over all dev texts."""

    tokens: int
    """Number of tokens, including end symbols."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a bundle's signature."""
        return {**super().to_dict(), "perplexity": self.perplexity}


class LanguageValidator(Validator):
    """Validation of models on the dev texts."""

    def score(self, nll: float, after_batch: Callable[[], None]) -> LanguageScores:
        """Return loss and perplexity."""
        return LanguageScores(nll, int(self.corpus.lengths.sum()))


class TrainableLanguageModel(TrainableWords):
    """A language model and its data. The loss is −log p, summed over the tokens of the texts and their end symbols."""

    unit: ClassVar[str] = "tokens"
    columns: ClassVar[tuple[str, ...]] = ("train_nll", "train_perplexity", "dev_nll", "dev_perplexity")
    validator_class = LanguageValidator

    def describe_scores(self, scores: dict[str, Any]) -> str:
        """Describe loss and perplexity."""
        return f"loss {scores['loss']:.3f}, perplexity {scores['perplexity']:,.2f}"


class LanguageTraining(WordTraining):
    """The `Training` of language models."""

    trainable = TrainableLanguageModel
    sizes_name = "the size of the vocabulary"

    def check(self, config: LanguageConfig, model: object, attention: object) -> None:
        """Check settings and objects; see `Training.check`."""
        super().check(config, model, attention)
        if attention is not None:
            raise ConfigError(
                "a language model has an attention in every layer, and one object cannot replace all of them: build a "
                "regard.models.language.TransformerLanguageModel with your own layers, and give it as `model`"
            )

    def read(
        self, config: LanguageConfig, learned: Tokenizer | None, *, progress: bool
    ) -> tuple[LanguageConfig, Prepared[TextCorpus], Tokenizer]:
        """Read the texts; see `Training.read`."""
        config, learned = self.use_teachers(config, learned)
        if config.data.unit == "auto":  # so that the model reads other files in the same way
            unit = find_unit(check_file(config.data.train[0], WHAT), config.data.encoding)
            config = replace(config, data=replace(config.data, unit=unit))
        data = prepare_data(TextSchema(config.data, config.tokenizer, learned), seed=config.seed, progress=progress)
        return replace(config, tokenizer=data.configs[0]), data, data.tokenizers[0]

    def sizes(self, parts: Tokenizer) -> tuple[int, ...]:
        """Return the size of the vocabulary."""
        return (parts.size,)
