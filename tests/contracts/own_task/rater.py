"""A complete task: predict a number for each text, such as a rating. regard finds it through its entry point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from regard.config import DataSettings, ModelSettings, RunConfig
from regard.config.fields import Dropout, Width
from regard.errors import DataError
from regard.task import (
    AttentionOperation,
    Bundle,
    BundleFormat,
    Card,
    Counts,
    Data,
    Evaluate,
    Examples,
    Sites,
    Task,
    TaskWords,
    Text,
    TextOperation,
    Trainable,
    Training,
)
from regard.tasks.predictor import Predictor

PAD, UNKNOWN = 0, 1


class RatingModelConfig(ModelSettings):
    """Embeddings, attention pooling, linear."""

    hidden_size: Width = 16
    word_dropout: Dropout = 0.1
    """Dropout on the embeddings."""


class RatingConfig(RunConfig):
    """A rating run."""

    task: Literal["rating"] = "rating"
    data: DataSettings = field(default_factory=DataSettings)
    model: RatingModelConfig = field(default_factory=RatingModelConfig)


@dataclass(frozen=True)
class Lexicon:
    """The words by number, after padding and the unknown word."""

    words: tuple[str, ...]

    def encode(self, text: str) -> np.ndarray:
        """Turn the words of a text into numbers."""
        ids = {word: number for number, word in enumerate(self.words, 2)}
        return np.array([ids.get(word, UNKNOWN) for word in text.split()])


def read_ratings(paths: Sequence[str]) -> list[tuple[str, float]]:
    """Read texts with their numbers."""
    found = []
    for path in paths:
        for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
            text, _, rating = line.rpartition("\t")
            try:
                found.append((text, float(rating)))
            except ValueError:
                raise DataError(f"{path}, line {number}: expected a text, a tab and a number") from None
    return found


class TrainableRater(Trainable):
    """A rater and its data. The loss is the squared error, summed over texts."""

    unit: ClassVar[str] = "texts"

    def sizes(self, corpus: Examples) -> np.ndarray:
        """Return 1 for each text."""
        return np.ones(len(corpus), np.int64)

    def loss(self, batch: Any, step: int, total_steps: int) -> tuple[Any, Any]:
        """Return the summed loss twice: to differentiate, and to report."""
        loss = (self.model(batch.words)[0] - batch.rating).square().sum()
        return loss, loss.detach()


class RatingTraining(Training):
    """Reads the texts."""

    trainable = TrainableRater

    def read(self, config: RatingConfig, learned: Lexicon | None, *, progress: bool) -> tuple[Any, Any, Lexicon]:
        """Read the texts; the words are those of `learned` if it is given."""
        from regard.text.cache import fingerprint_of, hash_files

        parts = [read_ratings(paths) for paths in (config.data.train, config.data.dev)]
        lexicon = learned or Lexicon(tuple(sorted({word for text, _ in parts[0] for word in text.split()})))
        train, dev = (
            Examples(
                [{"words": lexicon.encode(text), "rating": np.array([rating], np.float32)} for text, rating in part],
                padding={"words": PAD, "rating": 0},
            )
            for part in parts
        )
        fingerprint = fingerprint_of(hash_files([*config.data.train, *config.data.dev]))
        return config, Data(train, dev, fingerprint, Counts({"rated texts": len(train), "held out": len(dev)})), lexicon


class RatingFormat(BundleFormat):
    """The words as JSON."""

    file = "lexicon.json"
    parts_class = Lexicon

    def build_model(self, config: RatingConfig, parts: Lexicon, attention: Any = None) -> Any:
        """Build the model: embeddings, attention pooling, and a linear layer."""
        from torch import nn

        from regard.attention import AdditivePooling

        class RatingModel(nn.Module):
            sites = ("cross",)

            def __init__(self) -> None:
                super().__init__()
                size = config.model.hidden_size
                self.embedding = nn.Embedding(len(parts.words) + 2, size, padding_idx=PAD)
                self.dropout = nn.Dropout(config.model.word_dropout)
                self.pooling, self.output = AdditivePooling(size), nn.Linear(size, 1)

            def forward(self, words: Any) -> tuple[Any, Any]:
                context, weights = self.pooling(self.dropout(self.embedding(words)), key_mask=words != PAD)
                return self.output(context), weights

        return RatingModel()

    def card(self, bundle: Bundle) -> Card:
        """Describe the rater."""
        words = [("words", f"{len(bundle.parts.words):,}")]
        return Card("Ratings of texts", "A rater with attention", "text-regression", model_rows=words, examples="texts")


@dataclass(frozen=True)
class Rated:
    """A text with its number."""

    text: str
    rating: float
    attention: Any


class Rater(Predictor):
    """Rates texts."""

    def rate(self, texts: Sequence[str]) -> list[Rated]:
        """Predict the number of each text."""
        import torch

        from regard.records import record

        found = []
        for text in texts:
            with torch.no_grad():
                rating, weights = self.model(torch.from_numpy(self.bundle.parts.encode(text))[None])
            found.append(Rated(text, rating.item(), record(weights, text.split(), [f"{rating.item():.1f}"])))
        return found


@dataclass(frozen=True, kw_only=True)
class Rate(TextOperation):
    """Rate texts."""

    rounded: bool = False
    """Whether to round ratings to whole numbers."""

    name: ClassVar = "rate"
    picture: ClassVar = "the attention"

    def run(self, predictor: Rater, texts: Sequence[Text], *, record: Sites = (), progress: bool = False) -> list[Rated]:
        """Rate texts."""
        return predictor.rate([one.text for one in texts])

    def plain(self, result: Rated, units: str = "auto") -> dict[str, Any]:
        """Return data for JSON."""
        return {"text": result.text, "rating": round(result.rating) if self.rounded else result.rating}

    def render(self, result: Rated, number: int) -> str:
        """Return one line."""
        return f"{self.plain(result)['rating']:g}\t{result.text}"


class RatingTask(Task):
    """Rating, as a task."""

    name = "rating"
    config_class = RatingConfig
    words = TaskWords(
        predictor="a rater",
        summary="Train a rater on texts with numbers.",
        data="a text file with a text, a tab and a number per line",
        missing="a file of rated texts",
        use=('regard look DIR "a text"',),
        short={"width": "model.hidden_size"},
    )
    training = RatingTraining()
    bundle_format = RatingFormat()
    predictor = Rater
    operations = (Rate, AttentionOperation, Evaluate)


TASK = RatingTask()
