"""A complete task: tag each word of a sentence. regard finds it through its entry point."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from regard.config import DataSettings, ModelSettings, RunConfig
from regard.config.fields import Dropout, Width
from regard.errors import BundleError, DataError
from regard.task import (
    AttentionOperation,
    Bundle,
    BundleFiles,
    BundleFormat,
    Card,
    Counts,
    FileOperation,
    Files,
    Inventory,
    LikelihoodScores,
    Look,
    Task,
    TaskWords,
    Text,
    TextOperation,
    Trainable,
    Training,
    Validator,
)
from regard.tasks.arguments import split_files
from regard.tasks.predictor import Predictor

LEXICON = "lexicon.json"
PAD, UNKNOWN = 0, 1


@dataclass(frozen=True, kw_only=True)
class TaggingDataConfig(DataSettings):
    """Files of tagged sentences."""

    train: tuple[str, ...] = ()
    """Text files with one sentence per line: `the/DET cat/NOUN sleeps/VERB`."""
    dev: tuple[str, ...] = ()
    """Sentences to validate on, in the same form."""


@dataclass(frozen=True, kw_only=True)
class TaggingModelConfig(ModelSettings):
    """Embeddings, self-attention, linear."""

    hidden_size: Width = 16
    num_heads: Width = 2
    layer_dropout: Dropout = 0.1
    """Dropout on the output of the attention."""
    freeze: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TaggingConfig(RunConfig):
    """A tagging run."""

    task: Literal["tagging"] = "tagging"
    data: TaggingDataConfig = field(default_factory=TaggingDataConfig)
    model: TaggingModelConfig = field(default_factory=TaggingModelConfig)

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Check that the heads divide the width."""
        yield from super().conflicts()
        if self.model.hidden_size % self.model.num_heads:
            message = f"model.num_heads is {self.model.num_heads}, expected a divisor of {self.model.hidden_size}"
            yield "model.num_heads", message


@dataclass(frozen=True)
class Lexicon:
    """Words and tags by number; words 0 and 1 are padding and the unknown word."""

    words: tuple[str, ...]
    tags: tuple[str, ...]

    @cached_property
    def ids(self) -> dict[str, int]:
        """Numbers of the words."""
        return {word: number for number, word in enumerate(self.words, 2)}

    def encode(self, words: Sequence[str]) -> np.ndarray:
        """Turn words into numbers."""
        return np.array([self.ids.get(word, UNKNOWN) for word in words])


@dataclass(frozen=True)
class TaggedBatch:
    """Sentences as tensors."""

    words: Any  # (B,T)
    tags: Any  # (B,T), -1 where there is no word


@dataclass(frozen=True)
class TaggedSentences:
    """Sentences with their tags, as numbers."""

    rows: list[tuple[np.ndarray, np.ndarray]]

    @property
    def lengths(self) -> np.ndarray:
        """Number of words in each sentence."""
        return np.array([len(words) for words, _ in self.rows])

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, indices: Any) -> TaggedBatch:
        """Return sentences as padded tensors."""
        import torch
        from torch.nn.utils.rnn import pad_sequence

        words, tags = zip(*(self.rows[index] for index in indices), strict=True)
        return TaggedBatch(
            pad_sequence([torch.from_numpy(row) for row in words], batch_first=True, padding_value=PAD),
            pad_sequence([torch.from_numpy(row) for row in tags], batch_first=True, padding_value=-1),
        )


@dataclass(frozen=True)
class TaggingData:
    """Prepared sentences."""

    train: TaggedSentences
    dev: TaggedSentences
    lexicon: Lexicon
    fingerprint: str
    report: Counts


def read_sentences(path: str) -> list[tuple[list[str], list[str]]]:
    """Read tagged sentences."""
    found = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        pairs = [token.rpartition("/") for token in line.split()]
        if not pairs or not all(word and tag for word, _, tag in pairs):
            raise DataError(f"{path}, line {number}: expected words with their tags, such as `the/DET cat/NOUN`")
        found.append(([word for word, _, _ in pairs], [tag for _, _, tag in pairs]))
    return found


def prepare(config: TaggingDataConfig, learned: Lexicon | None) -> TaggingData:
    """Read the files; the words and tags are those of `learned` if it is given."""
    files = (*config.train, *config.dev)
    train, dev = ([pair for name in names for pair in read_sentences(name)] for names in (config.train, config.dev))
    lexicon = learned or Lexicon(
        tuple(sorted({word for words, _ in train for word in words})), tuple(sorted({tag for _, tags in train for tag in tags}))
    )
    numbers = {tag: number for number, tag in enumerate(lexicon.tags)}
    encode = lambda pairs: TaggedSentences(  # noqa: E731
        [(lexicon.encode(words), np.array([numbers[tag] for tag in tags])) for words, tags in pairs]
    )
    digest = hashlib.sha256(b"".join(Path(name).read_bytes() for name in files)).hexdigest()
    return TaggingData(
        encode(train), encode(dev), lexicon, digest, Counts({"tagged sentences": len(train), "held out": len(dev)})
    )


def build(config: TaggingModelConfig, lexicon: Lexicon) -> Any:
    """Build the model."""
    from torch import nn

    from regard.attention import MultiHead

    class TaggingModel(nn.Module):
        """Embeddings, self-attention, and a linear layer for each word."""

        sites = ("cross",)

        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(len(lexicon.words) + 2, config.hidden_size, padding_idx=PAD)
            self.attention = MultiHead(config.hidden_size, config.num_heads)
            self.dropout = nn.Dropout(config.layer_dropout)
            self.output = nn.Linear(config.hidden_size, len(lexicon.tags))

        def forward(self, words: Any, need_weights: bool = False) -> tuple[Any, Any]:
            states = self.embedding(words)
            context, weights = self.attention(states, key_mask=words != PAD, need_weights=need_weights)
            return self.output(states + self.dropout(context)), weights

    return TaggingModel()


@dataclass(frozen=True)
class TaggingScores(LikelihoodScores):
    """Loss and accuracy of the words."""

    accuracy: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"loss": self.nll, "accuracy": self.accuracy}

    def to_row(self) -> dict[str, float]:
        """Return the scores by the names of their log columns."""
        return {"dev_nll": self.nll, "accuracy": self.accuracy}

    def describe(self, *, first: bool) -> tuple[str, list[str]]:
        """Return one line of text."""
        return f"dev loss {self.nll:.3f}, accuracy {self.accuracy:.1%}", []


def tag_loss(logits: Any, tags: Any) -> Any:
    """Sum −log p(tag) over the words."""
    from torch.nn import functional

    return functional.cross_entropy(logits.flatten(0, 1).float(), tags.flatten(), ignore_index=-1, reduction="sum")


class TaggingValidator(Validator[Any]):
    """Scores a model on all sentences at once."""

    num_batches = 1

    def __init__(self, dev: TaggedSentences, machine: Any) -> None:
        self._batch, self._machine = dev.batch(range(len(dev))), machine

    def validate(self, model: Any, *, after_batch: Callable[[], None] = lambda: None) -> TaggingScores:
        """Score a model."""
        from regard.training.contexts import evaluating
        from regard.training.data import to_device

        batch = to_device(self._batch, self._machine.device)
        with evaluating(model), self._machine.autocast():
            logits, _ = model(batch.words)
        after_batch()
        real = batch.tags >= 0
        right = (logits.argmax(-1) == batch.tags)[real]
        return TaggingScores(float(tag_loss(logits, batch.tags)) / int(real.sum()), float(right.float().mean()))


class TrainableTagger(Trainable[TaggingConfig, Any, TaggedBatch, Bundle]):
    """A tagger and its data, for training."""

    unit: ClassVar[str] = "words"
    columns: ClassVar[tuple[str, ...]] = ("train_nll", "dev_nll", "accuracy")
    data: TaggingData

    def sampler(self) -> Any:
        """Return the sampler of the batches."""
        from regard.text.batching import BucketBatchSampler

        return BucketBatchSampler.of_run(self.config, self.data.train.lengths)

    def count(self, indices: np.ndarray) -> int:
        """Return the number of words in a batch."""
        return int(self.data.train.lengths[indices].sum())

    def loss(self, batch: TaggedBatch, step: int, total_steps: int) -> tuple[Any, Any]:
        """Return the summed loss twice: to differentiate, and to report."""
        loss = tag_loss(self.model(batch.words)[0], batch.tags)
        return loss, loss.detach()

    def validator(self, machine: Any) -> TaggingValidator | None:
        """Return the validator; None without dev sentences."""
        return TaggingValidator(self.data.dev, machine) if len(self.data.dev) else None

    def describe_scores(self, scores: dict[str, Any]) -> str:
        """Return one line of text."""
        return f"loss {scores['loss']:.3f}, accuracy {scores['accuracy']:.1%}"

    def bundle(self, signature: dict[str, Any]) -> Bundle:
        """Return the model with its words and tags."""
        facts = {"signature": signature, "report": self.data.report.to_dict(), "custom": self.custom}
        return Bundle(config=self.config, model=self.model, parts=self.data.lexicon, **facts)


class TaggingTraining(Training[TaggingConfig, Lexicon, Bundle]):
    """Builds the model for the words and tags of the data."""

    def prepare(self, config: TaggingConfig, *, model: Any, attention: Any, start: Any, progress: bool) -> TrainableTagger:
        """Read the sentences and build the model."""
        from regard.machine import seed_step

        data = prepare(config.data, start.parts if start else None)
        seed_step(config.seed, 0)
        built = build(config.model, data.lexicon)
        if start:
            start.load_into(built)
        return TrainableTagger(config, data, built, "")


class TaggingFormat(BundleFormat[TaggingConfig, Lexicon, Bundle]):
    """The lexicon as JSON."""

    def write_parts(self, bundle: Bundle, folder: Path) -> None:
        """Write the lexicon."""
        (folder / LEXICON).write_text(json.dumps(vars(bundle.parts)), encoding="utf-8")

    def read_parts(self, files: BundleFiles) -> Lexicon:
        """Read the lexicon."""
        try:
            plain = json.loads(files.content[LEXICON])
            return Lexicon(tuple(plain["words"]), tuple(plain["tags"]))
        except (ValueError, KeyError, TypeError) as error:
            raise BundleError(f"{files.path(LEXICON)} is damaged: it holds no words and tags") from error

    def build_model(self, config: TaggingConfig, parts: Lexicon, attention: Any = None) -> Any:
        """Build the model."""
        return build(config.model, parts)

    def vocabulary(self, parts: Lexicon) -> str:
        """Hash words and tags."""
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def inventory(self, parts: Lexicon) -> Inventory:
        """Return the tags as labels."""
        return Inventory({}, parts.tags)

    def card(self, bundle: Bundle) -> Card:
        """Describe the tagger."""
        tags = ", ".join(bundle.parts.tags)
        return Card(
            "Tags of words",
            "A tagger with self-attention",
            "token-classification",
            model_rows=[("tags", tags)],
            examples="sentences",
        )


@dataclass(frozen=True)
class Tagged:
    """A sentence with its tags."""

    words: list[str]
    tags: list[str]
    attention: Any


class Tagger(Predictor[Bundle]):
    """Tags sentences."""

    def tag(self, sentences: Sequence[str]) -> list[Tagged]:
        """Tag each word."""
        import torch

        from regard.records import record

        lexicon, found = self.bundle.parts, []
        for sentence in sentences:
            words = sentence.split()
            with torch.no_grad():
                logits, weights = self.model(torch.from_numpy(lexicon.encode(words))[None], need_weights=True)
            tags = [lexicon.tags[number] for number in logits[0].argmax(-1)]
            found.append(Tagged(words, tags, record(weights[0], words, tags)))
        return found


@dataclass(frozen=True, kw_only=True)
class Tag(TextOperation):
    """Tag each word of sentences."""

    upper: bool = False
    """Whether to print the tags in upper case."""

    name: ClassVar = "tag"
    picture: ClassVar = "the attention"

    def run(self, predictor: Tagger, texts: Sequence[Text], *, record: bool = False, progress: bool = False) -> list[Tagged]:
        """Tag sentences."""
        return predictor.tag([one.text for one in texts])

    def plain(self, result: Tagged) -> dict[str, Any]:
        """Return data for JSON."""
        return {"words": result.words, "tags": [tag.upper() if self.upper else tag for tag in result.tags]}

    def render(self, result: Tagged, number: int) -> str:
        """Return one line."""
        return " ".join(map("/".join, zip(*self.plain(result).values(), strict=True)))


@dataclass(frozen=True, kw_only=True)
class LookAtTags(AttentionOperation):
    """Return the attention of tagged sentences."""

    def run(self, predictor: Tagger, texts: Sequence[Text], *, record: bool = True, progress: bool = False) -> list[Look]:
        """Tag sentences, with attention."""
        return [Look(Tag().render(one, 1), one.attention) for one in predictor.tag([text.text for text in texts])]


@dataclass(frozen=True)
class TaggingEvaluation:
    """Accuracy of the words."""

    accuracy: float

    def render(self) -> str:
        """Return one line of text."""
        return f"accuracy {self.accuracy:.1%}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return vars(self)


@dataclass(frozen=True, kw_only=True)
class EvaluateTagger(FileOperation):
    """Score the tags of files."""

    name: ClassVar = "evaluate"

    def run(self, predictor: Tagger, files: Files) -> TaggingEvaluation:
        """Compare tags with those of files."""
        pairs = [pair for name in split_files(files.names) for pair in read_sentences(name)]
        found = predictor.tag([" ".join(words) for words, _ in pairs])
        right = [
            mine == gold for one, (_, tags) in zip(found, pairs, strict=True) for mine, gold in zip(one.tags, tags, strict=True)
        ]
        return TaggingEvaluation(sum(right) / len(right))


class TaggingTask(Task[TaggingConfig, Lexicon, Bundle, Any]):
    """Tagging, as a task."""

    name = "tagging"
    config_class = TaggingConfig
    words = TaskWords(
        predictor="a tagger",
        predictors="taggers",
        summary="Train a tagger on tagged sentences.",
        data="a text file with one tagged sentence per line",
        missing="a file of tagged sentences",
        use=('regard look DIR "a sentence"',),
        short={"width": "model.hidden_size"},
    )
    files = (frozenset({LEXICON}),)
    training = TaggingTraining()
    bundle_format = TaggingFormat()
    operations = (Tag, LookAtTags, EvaluateTagger)

    def predictor(self, bundle: Bundle) -> Any:
        """Return a tagger."""
        return Tagger(bundle)


TASK = TaggingTask()
