"""A complete task: tag each word of a sentence. regard finds it through its entry point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    Inventory,
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


class TaggingModelConfig(ModelSettings):
    """Embeddings, self-attention, linear."""

    hidden_size: Width = 16
    num_heads: Width = 2
    layer_dropout: Dropout = 0.1
    """Dropout on the output of the attention."""


class TaggingConfig(RunConfig):
    """A tagging run."""

    task: Literal["tagging"] = "tagging"
    data: DataSettings = field(default_factory=DataSettings)
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

    def encode(self, words: Sequence[str]) -> np.ndarray:
        """Turn words into numbers."""
        ids = {word: number for number, word in enumerate(self.words, 2)}
        return np.array([ids.get(word, UNKNOWN) for word in words])

    def encode_all(self, pairs: Sequence[tuple[list[str], list[str]]]) -> Examples:
        """Turn sentences and their tags into numbers."""
        rows = [
            {"words": self.encode(words), "tags": np.array([self.tags.index(tag) for tag in tags])} for words, tags in pairs
        ]
        return Examples(rows, padding={"words": PAD, "tags": -1})


def read_sentences(paths: Sequence[str]) -> list[tuple[list[str], list[str]]]:
    """Read tagged sentences."""
    found = []
    for path in paths:
        for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
            pairs = [token.rpartition("/") for token in line.split()]
            if not pairs or not all(word and tag for word, _, tag in pairs):
                raise DataError(f"{path}, line {number}: expected words with their tags, such as `the/DET cat/NOUN`")
            found.append(([word for word, _, _ in pairs], [tag for _, _, tag in pairs]))
    return found


class TrainableTagger(Trainable):
    """A tagger and its data. The loss is −log p(tag), summed over the words."""

    unit: ClassVar[str] = "words"

    def loss(self, batch: Any, step: int, total_steps: int) -> tuple[Any, Any]:
        """Return the summed loss twice: to differentiate, and to report."""
        from torch.nn import functional

        logits = self.model(batch.words)[0].flatten(0, 1).float()
        loss = functional.cross_entropy(logits, batch.tags.flatten(), ignore_index=-1, reduction="sum")
        return loss, loss.detach()


class TaggingTraining(Training):
    """Reads the sentences."""

    trainable = TrainableTagger

    def read(self, config: TaggingConfig, learned: Lexicon | None, *, progress: bool) -> tuple[Any, Any, Lexicon]:
        """Read the sentences; the words and tags are those of `learned` if it is given."""
        from regard.text.cache import fingerprint_of, hash_files

        train, dev = read_sentences(config.data.train), read_sentences(config.data.dev)
        words, tags = ({item for pair in train for item in pair[side]} for side in (0, 1))
        lexicon = learned or Lexicon(tuple(sorted(words)), tuple(sorted(tags)))
        data = Data(
            train=lexicon.encode_all(train),
            dev=lexicon.encode_all(dev),
            fingerprint=fingerprint_of(hash_files([*config.data.train, *config.data.dev])),
            report=Counts({"tagged sentences": len(train), "held out": len(dev)}),
        )
        return config, data, lexicon


class TaggingFormat(BundleFormat):
    """The words and tags as JSON."""

    file = "lexicon.json"
    parts_class = Lexicon

    def build_model(self, config: TaggingConfig, parts: Lexicon, attention: Any = None) -> Any:
        """Build the model: embeddings, self-attention, and a linear layer for each word."""
        from torch import nn

        from regard.attention import MultiHead

        class TaggingModel(nn.Module):
            sites = ("cross",)

            def __init__(self) -> None:
                super().__init__()
                size = config.model.hidden_size
                self.embedding = nn.Embedding(len(parts.words) + 2, size, padding_idx=PAD)
                self.attention = MultiHead(size, config.model.num_heads)
                self.dropout = nn.Dropout(config.model.layer_dropout)
                self.output = nn.Linear(size, len(parts.tags))

            def forward(self, words: Any, need_weights: bool = False) -> tuple[Any, Any]:
                states = self.embedding(words)
                context, weights = self.attention(states, key_mask=words != PAD, need_weights=need_weights)
                return self.output(states + self.dropout(context)), weights

        return TaggingModel()

    def inventory(self, parts: Lexicon) -> Inventory:
        """Return the tags as labels."""
        return Inventory({}, parts.tags)

    def card(self, bundle: Bundle) -> Card:
        """Describe the tagger."""
        tags = [("tags", ", ".join(bundle.parts.tags))]
        summary = "A tagger with self-attention"
        return Card("Tags of words", summary, "token-classification", model_rows=tags, examples="sentences")


@dataclass(frozen=True)
class Tagged:
    """A sentence with its tags."""

    words: list[str]
    tags: list[str]
    attention: Any


class Tagger(Predictor):
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

    def run(self, predictor: Tagger, texts: Sequence[Text], *, record: Sites = (), progress: bool = False) -> list[Tagged]:
        """Tag sentences."""
        return predictor.tag([one.text for one in texts])

    def plain(self, result: Tagged, units: str = "auto") -> dict[str, Any]:
        """Return data for JSON."""
        return {"words": result.words, "tags": [tag.upper() if self.upper else tag for tag in result.tags]}

    def render(self, result: Tagged, number: int) -> str:
        """Return one line."""
        return " ".join(map("/".join, zip(*self.plain(result).values(), strict=True)))


class TaggingTask(Task):
    """Tagging, as a task."""

    name = "tagging"
    config_class = TaggingConfig
    words = TaskWords(
        predictor="a tagger",
        summary="Train a tagger on tagged sentences.",
        data="a text file with one tagged sentence per line",
        missing="a file of tagged sentences",
        use=('regard look DIR "a sentence"',),
        short={"width": "model.hidden_size"},
    )
    training = TaggingTraining()
    bundle_format = TaggingFormat()
    predictor = Tagger
    operations = (Tag, AttentionOperation, Evaluate)


TASK = TaggingTask()
