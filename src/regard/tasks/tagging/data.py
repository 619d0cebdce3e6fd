"""The files of a trained tagger besides its weights: tokenizer and tags, and the text of its card."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard import disk
from regard.bundle.save import render_json
from regard.evaluation.spans import are_spans
from regard.models.build import build_tagger
from regard.models.taggers import TextTagger
from regard.task import Bundle, BundleFiles, BundleFormat, Card, Inventory
from regard.tasks.files import LABELS, TOKENIZER, read_labels, read_tokenizer
from regard.tasks.tagging.config import TaggingConfig
from regard.text.labelled.labels import Labels, show_names
from regard.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class TaggerParts:
    """Parts of a tagger besides its weights."""

    tokenizer: Tokenizer
    tags: Labels
    """The tags; their counts are numbers of training sentences."""


class TaggingFormat(BundleFormat):
    """The `BundleFormat` of taggers."""

    def write_parts(self, parts: TaggerParts, folder: Path) -> None:
        """Write the tokenizer and the tags."""
        parts.tokenizer.save(folder / TOKENIZER)
        disk.save(folder / LABELS, render_json(parts.tags.to_dict()))

    def read_parts(self, files: BundleFiles) -> TaggerParts:
        """Read the tokenizer and the tags."""
        return TaggerParts(read_tokenizer(files, TOKENIZER), read_labels(files, Labels.from_dict))

    def build_model(self, config: TaggingConfig, parts: TaggerParts, attention: Any = None) -> TextTagger:
        """Build the configured tagger. If `attention` is given, it replaces the configured attention of the words."""
        return build_tagger(
            config.model,
            vocabulary_size=parts.tokenizer.size,
            num_tags=len(parts.tags),
            encoder_ids=parts.tokenizer.encoder_ids,
            attention=attention,
        )

    def inventory(self, parts: TaggerParts) -> Inventory:
        """Return the tokenizer, and the tags as labels."""
        return Inventory({"text": parts.tokenizer}, parts.tags.names)

    def card(self, bundle: Bundle) -> Card:
        """Describe the tagger."""
        parts, data = bundle.parts, bundle.config.data
        what = "spans of words, such as names," if are_spans(parts.tags.names) else "the words of a sentence"
        return Card(
            title="A tagger",
            summary=f"A model with attention that tags {what.rstrip(',')}",
            pipeline_tag="token-classification",
            languages=[data.language] if data.language else [],
            code=["tagger = LOAD", '[result] = tagger.tag(["a sentence"])', "result.words, result.tags, result.attention"],
            model_rows=[
                ("vocabulary", f"{parts.tokenizer.size:,} symbols, `{bundle.config.tokenizer.kind}`"),
                ("tags", show_names(parts.tags.names)),
            ],
            examples="sentences",
            limits=[
                "It works best on sentences like its training sentences, and gives one of its tags to every word.",
                f"It reads at most {data.max_tokens} tokens at once, and splits longer sentences between words.",
                "Attention shows what the model read for a tag, but it does not prove causes.",
            ],
        )
