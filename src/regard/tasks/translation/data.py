"""The files of a trained translator besides its weights: its tokenizers, and the text of its card."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.models.build import build_translator
from regard.models.seq2seq import Seq2Seq
from regard.task import Bundle, BundleFiles, BundleFormat, Card, Inventory
from regard.tasks.files import SOURCE_TOKENIZER, TARGET_TOKENIZER, TOKENIZER, read_tokenizer
from regard.tasks.translation.config import TranslationConfig
from regard.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of both sides."""

    source: Tokenizer
    target: Tokenizer
    """The same object as `source` if the vocabulary is joint."""


class TranslationFormat(BundleFormat):
    """The `BundleFormat` of translators."""

    def write_parts(self, parts: Tokenizers, folder: Path) -> None:
        """Write one tokenizer if the vocabulary is joint, otherwise one for each side."""
        if parts.source is parts.target:
            parts.source.save(folder / TOKENIZER)
        else:
            parts.source.save(folder / SOURCE_TOKENIZER)
            parts.target.save(folder / TARGET_TOKENIZER)

    def read_parts(self, files: BundleFiles) -> Tokenizers:
        if TOKENIZER in files.content:
            joint = read_tokenizer(files, TOKENIZER)
            return Tokenizers(joint, joint)
        return Tokenizers(read_tokenizer(files, SOURCE_TOKENIZER), read_tokenizer(files, TARGET_TOKENIZER))

    def build_model(self, config: TranslationConfig, parts: Tokenizers, attention: Any = None) -> Seq2Seq:
        sizes = {"source_size": parts.source.size, "target_size": parts.target.size}
        return build_translator(config.model, **sizes, attention=attention, encoder_ids=parts.source.encoder_ids)

    def inventory(self, parts: Tokenizers) -> Inventory:
        return Inventory({"source": parts.source, "target": parts.target})

    def card(self, bundle: Bundle) -> Card:
        config, data = bundle.config, bundle.config.data
        return Card(
            title=f"Translation from {data.source} to {data.target}",
            summary="A sequence-to-sequence model with attention",
            pipeline_tag="translation",
            languages=[data.source, data.target],
            code=[
                "translator = LOAD",
                '[result] = translator.translate(["a sentence"])',
                "result.text, result.score, result.attention",
            ],
            model_rows=[
                ("languages", f"{data.source} → {data.target}"),
                *(
                    (f"{side} vocabulary", f"{tokenizer.size:,} symbols, `{getattr(config.tokenizers, side).kind}`")
                    for side, tokenizer in self.inventory(bundle.parts).tokenizers.items()
                ),
                ("decoding", config.decoding.describe()),
            ],
            examples="pairs",
            limits=[
                f"It is for sentences like those in training, of up to {data.max_tokens} tokens; others are translated worse.",
                "It translates each line by itself and may leave out, repeat or invent words.",
                "Attention shows what the model read when it wrote a word, but it does not prove causes.",
            ],
            inputs=[
                "she kissed him .",
                "My brother has not closed the old window.",
                "Although the boys sang in the garden, she slept.",
                "The old man gives the child a red apple.",
                "In our old villages there are many black cats.",
                "I know that he did not want to go home.",
                "a man in a blue shirt is standing on a ladder .",
                "two dogs are playing in the snow .",
                "We have not seen the dog today.",
            ],
        )
