"""The operations of the service, one class for each. Texts whose operations have equal settings can share a batch."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from regard.records import AttentionRecord
from regard.serve.errors import ServiceError


@dataclass(frozen=True)
class Work:
    """A text to process."""

    text: str
    target: str | None = None
    """Given translation, whose attention is requested."""
    number: int = 0
    """Number that is combined with the seed, so that each text gets its own random numbers."""
    follow: Callable[[int, str], None] | None = None
    """Function that is called after each generated token, in the model's thread, with a sample's number and its text so far."""

    @property
    def size(self) -> int:
        """Length in characters; texts of similar length share a batch."""
        return len(self.text) + len(self.target or "")


@dataclass(frozen=True)
class Operation(ABC):
    """An operation with its settings."""

    tasks: ClassVar[tuple[str, ...]]
    """Tasks whose models support the operation."""
    most_together: ClassVar[int] = 1 << 30
    """Maximum number of texts in a batch, unless the limit of the service (`Limits.batch`) is lower."""

    def cost(self, predictor: Any, work: Work) -> int:
        """Estimate the maximum work for a text: hypotheses × steps × (characters + steps); without a search, its size."""
        return work.size

    @abstractmethod
    def run(self, predictor: Any, works: Sequence[Work]) -> list[Any]:
        """Return a result for each text: data for JSON, or a `ServiceError`."""


@dataclass(frozen=True)
class Translate(Operation):
    """Translation of texts; the settings are those of `Translator.translate`.

    `most_beam` and `most_tokens` are limits of the service. `alignment` requests the words and their alignment.
    """

    tasks: ClassVar = ("translation",)
    most_beam: int
    most_tokens: int
    beam_size: int | None = None
    n_best: int = 1
    length_penalty: float | None = None
    length_reward: float | None = None
    max_length: int | None = None
    min_length: int | None = None
    no_repeat_ngrams: int | None = None
    repetition_penalty: float | None = None
    suppress_unknown: bool | None = None
    replace_unknown: bool | None = None
    prefix: str | None = None
    alignment: bool = False

    def cost(self, predictor: Any, work: Work) -> int:
        steps = self.max_length or self.most_tokens
        return self._beam(predictor) * steps * (work.size + steps)

    def _beam(self, predictor: Any) -> int:
        return self.beam_size or min(max(predictor.config.decoding.beam_size, self.n_best), self.most_beam)

    def run(self, predictor: Any, works: Sequence[Work]) -> list[Any]:
        options = {item.name: getattr(self, item.name) for item in fields(self)}
        for own in ("most_beam", "most_tokens", "alignment"):
            del options[own]
        own = predictor.config.decoding
        options["beam_size"] = self._beam(predictor)
        options["max_length"] = _length(self.max_length or own.max_length, self.most_tokens)
        record = None if self.alignment else ()
        return [self._plain(one) for one in predictor.translate([work.text for work in works], record=record, **options)]

    def _plain(self, one: Any) -> dict[str, Any]:
        plain = {"text": one.text, "score": _number(one.score), "log_probability": _number(one.log_probability)}
        plain |= {"finished": one.finished}
        if self.n_best > 1:
            plain["alternatives"] = [self._plain(other) for other in one.alternatives]
        record = one.attention
        if self.alignment and record is not None:
            record = record.in_units("auto")  # so that the alignment counts the words of the lists
            plain |= {"source_words": record.source_words, "words": record.target_words, "alignment": record.pharaoh()}
        return plain


@dataclass(frozen=True)
class Classify(Operation):
    """Labelling of texts."""

    tasks: ClassVar = ("classification",)
    top_k: int | None = None

    def run(self, predictor: Any, works: Sequence[Work]) -> list[Any]:
        found = predictor.classify([work.text for work in works], record=())
        return [
            {
                "label": one.label,
                "probability": one.probability,
                "labels": one.labels,
                "probabilities": dict(list(one.probabilities.items())[: self.top_k]),
                "cut_at": one.cut_at,
            }
            for one in found
        ]


@dataclass(frozen=True)
class Generate(Operation):
    """Continuation of prompts; the settings are those of `LanguageModel.generate`, with the service's limit `most_tokens`."""

    tasks: ClassVar = ("language",)
    most_tokens: int
    samples: int = 1
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    max_length: int | None = None
    no_repeat_ngrams: int | None = None
    repetition_penalty: float | None = None
    seed: int = 0

    def cost(self, predictor: Any, work: Work) -> int:
        steps = work.size + (self.max_length or self.most_tokens)  # a prompt is read step by step
        return self.samples * steps * steps

    def run(self, predictor: Any, works: Sequence[Work]) -> list[Any]:
        def follow(place: int, sample: int, text: str) -> None:
            if (told := works[place].follow) is not None:
                told(sample, text)

        options = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "most_tokens"}
        wanted = self.max_length or predictor.config.generation.max_length or predictor.config.data.max_tokens
        options["max_length"] = min(wanted, self.most_tokens)
        found = predictor.generate(
            [work.text for work in works],
            numbers=[work.number for work in works],
            follow=follow if any(work.follow for work in works) else None,
            **options,
        )
        return [[self._plain(one) for one in samples] for samples in found]

    @staticmethod
    def _plain(one: Any) -> dict[str, Any]:
        scores = {"log_probability": _number(one.log_probability), "num_tokens": one.num_tokens}
        return {"text": one.text, **scores, "finished": one.finished}


@dataclass(frozen=True)
class Attend(Operation):
    """Attention of a prediction, of a given translation, or of a text that a language model reads."""

    tasks: ClassVar = ("translation", "classification", "language")
    most_together: ClassVar = 8
    most_tokens: int
    most_weights: int
    sites: tuple[str, ...] | None = None
    forced: bool = False
    """Whether the request has translations whose attention is returned."""

    def cost(self, predictor: Any, work: Work) -> int:
        if self.forced or predictor.config.task != "translation":
            return work.size
        return predictor.config.decoding.beam_size * self.most_tokens * (work.size + self.most_tokens)

    def run(self, predictor: Any, works: Sequence[Work]) -> list[Any]:
        texts = [work.text for work in works]
        task = predictor.config.task
        if self.forced and task != "translation":
            raise ServiceError(422, "invalid_request", "targets are for translators; leave them out")
        known = predictor.model.sites
        for site in self.sites or ():
            if site not in known:
                raise ServiceError(422, "unknown_site", f"this model has no such attention site, only: {', '.join(known)}")
        if task == "translation":
            most = _length(predictor.config.decoding.max_length, self.most_tokens)
            given = [work.target or "" for work in works]
            found = (
                predictor.force(texts, given, record=self.sites)
                if self.forced
                else predictor.translate(texts, max_length=most, record=self.sites)
            )
        elif task == "classification":
            found = predictor.classify(texts, record=self.sites)
        else:
            found = predictor.score(texts, record=self.sites or known[:1])
        return [self._plain(one.attention) for one in found]

    def _plain(self, record: AttentionRecord | None) -> Any:
        """Return a record as data for JSON, None if the model has no attention to record, or an error if it is too large."""
        if record is None:
            return None
        size = sum(weights.size for weights in record.weights.values())
        if size > self.most_weights:
            return ServiceError(
                413,
                "too_large",
                f"the attention consists of {size:,} weights, expected at most {self.most_weights:,}; send a shorter text or "
                "name fewer sites",
            )
        return json.loads(record.to_json())


def _length(wanted: int, most: int) -> int | None:
    """Return the maximum length of an output, at most `most`; None if `wanted` is 0: it then depends on the source's length."""
    return min(wanted, most) if wanted else None


def _number(value: float) -> float | None:
    """Return the number, or None if it is not finite, because JSON has no such numbers."""
    return value if math.isfinite(value) else None
