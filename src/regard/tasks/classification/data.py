"""The files of a trained classifier besides its weights: tokenizer, labels, temperature, and the text of its card."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard import disk
from regard.bundle.bundle import WEIGHTS
from regard.bundle.save import add_file, render_json
from regard.errors import BundleError
from regard.models.build import build_classifier
from regard.models.text_classifier import TextClassifier
from regard.plurals import counted
from regard.task import Bundle, BundleFiles, BundleFormat, Card, Inventory
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.files import FAITHFULNESS, LABELS, TOKENIZER, read_labels, read_tokenizer
from regard.text.labelled.labels import Labels
from regard.text.tokenizers.resolve import sentence_ends
from regard.text.tokenizers.tokenizer import Tokenizer

_LONGEST_SENTENCE = 2000
_SHOWN_LABELS = 4


@dataclass(frozen=True)
class ClassifierParts:
    """Parts of a classifier besides its weights."""

    tokenizer: Tokenizer
    labels: Labels
    temperature: float = 1.0
    """Number by which the scores of the labels are divided before they become probabilities (Guo et al. 2017)."""
    faithfulness: str = ""
    """Sentence on how well the attention can be trusted; empty if it was not measured."""

    def __post_init__(self) -> None:
        known = isinstance(self.temperature, int | float)
        if not known or not 0.001 <= self.temperature <= 1000:  # fitted temperatures are between 0.05 and 20
            raise BundleError(f"temperature is {self.temperature!r:.60}, expected a number from 0.001 to 1,000")


class ClassificationFormat(BundleFormat):
    """The `BundleFormat` of classifiers."""

    def write_parts(self, parts: ClassifierParts, folder: Path) -> None:
        """Write the tokenizer, and the labels with the temperature."""
        parts.tokenizer.save(folder / TOKENIZER)
        labels = {"labels": parts.labels.to_dict(), "temperature": parts.temperature}
        disk.save(folder / LABELS, render_json(labels))

    def read_parts(self, files: BundleFiles) -> ClassifierParts:
        """Read the tokenizer, the labels, the temperature, and the sentence of a measurement of the attention."""
        tokenizer, path = read_tokenizer(files, TOKENIZER), files.path(LABELS)

        def parse(plain: Any) -> tuple[Labels, float]:
            return Labels.from_dict(plain["labels"]), float(plain["temperature"])

        labels, temperature = read_labels(files, parse)
        try:
            return ClassifierParts(tokenizer, labels, temperature, _read_faithfulness(files))
        except BundleError as error:
            raise BundleError(f"{path} is damaged: {error}") from error

    def build_model(self, config: ClassificationConfig, parts: ClassifierParts, attention: Any = None) -> TextClassifier:
        """Build the configured classifier. If `attention` is given, it replaces the configured pooling."""
        return build_classifier(
            config.model,
            vocabulary_size=parts.tokenizer.size,
            num_labels=len(parts.labels.names),
            sentence_ends=sentence_ends(parts.tokenizer.vocabulary()),
            embedding_size=config.data.vectors_size,
            encoder_ids=parts.tokenizer.encoder_ids,
            pooling=attention,
        )

    def inventory(self, parts: ClassifierParts) -> Inventory:
        return Inventory({"text": parts.tokenizer}, parts.labels.names, parts.labels.multiple)

    def card(self, bundle: Bundle) -> Card:
        parts, data = bundle.parts, bundle.config.data
        names = parts.labels.names
        more = f" and {len(names) - _SHOWN_LABELS} more" if len(names) > _SHOWN_LABELS else ""
        found = parts.faithfulness or "`regard faithfulness DIR FILE` measures whether it can be trusted for this model"
        return Card(
            title=f"Classification of texts as {', '.join(names[:_SHOWN_LABELS])}{more}",
            summary="A text classifier with attention",
            pipeline_tag="text-classification",
            languages=[data.language] if data.language else [],
            code=[
                "classifier = LOAD",
                '[result] = classifier.classify(["a text"])',
                "result.label, result.probability, result.attention",
            ],
            model_rows=[
                ("vocabulary", f"{parts.tokenizer.size:,} symbols, `{bundle.config.tokenizer.kind}`"),
                ("labels", f"{len(names):,}{', several for a text' if parts.labels.multiple else ''}"),
                ("temperature of the probabilities", f"{parts.temperature:.3f}"),
            ],
            examples="texts",
            limits=[
                f"It works best on texts like its training texts, and reads only the first {data.max_tokens} tokens of a text.",
                "It gives one of its labels to any text, even if no label fits.",
                f"Attention shows what the model read, but it does not prove causes: {found}.",
            ],
            inputs=[
                "not a good film , but never boring",
                "a gripping , honest film",
                "the plot is thin and the jokes are not funny",
                "I expected nothing and was moved to tears.",
            ],
        )


def save_faithfulness(folder: str | Path, found: dict[str, Any], *, weights: str) -> None:
    """Save a measurement of a model's attention, with the checksum of its weights: for others, the file is ignored.

    Raises:
        BundleError: If there is no model, its weights differ, or the file cannot be written. Nothing has changed then.
    """
    add_file(folder, FAITHFULNESS, found, weights=weights)


def _read_faithfulness(files: BundleFiles) -> str:
    """Return the sentences of a saved measurement; an empty text if the file is missing, damaged or for other weights."""
    data = files.unsigned(FAITHFULNESS, 1 << 20)
    try:
        found = json.loads(data or b"")
        sentence, measured, texts = found["sentence"], found["weights"], found.get("texts")
    except (ValueError, RecursionError, KeyError, TypeError):
        return ""
    if measured != files.checksums.get(WEIGHTS) or not isinstance(sentence, str) or len(sentence) > _LONGEST_SENTENCE:
        return ""
    return f"{sentence} Measured on {counted(texts, 'text')}." if isinstance(texts, int) else sentence
