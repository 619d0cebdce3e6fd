"""A trained translator on disk: model, tokenizers, and the text of its card."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.bundle.bundle import fingerprint_vocabulary
from regard.errors import RequestError
from regard.models.build import build_translator
from regard.models.seq2seq import Seq2Seq
from regard.task import Bundle, BundleFiles, BundleFormat, Card, Inventory
from regard.tasks.files import SOURCE_TOKENIZER, TARGET_TOKENIZER, TOKENIZER, read_tokenizer
from regard.tasks.translation.config import TranslationConfig
from regard.text.data_report import PairReport
from regard.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class TranslationBundle(Bundle):
    """A trained translator."""

    config: TranslationConfig
    model: Seq2Seq
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    """The same object as `source_tokenizer` if the vocabulary is joint."""


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of both sides."""

    source: Tokenizer
    target: Tokenizer


class TranslationFormat(BundleFormat[TranslationConfig, Tokenizers, TranslationBundle]):
    """The `BundleFormat` of translators."""

    def write_parts(self, bundle: TranslationBundle, folder: Path) -> None:
        """Write one tokenizer if the vocabulary is joint, otherwise one for each side."""
        if bundle.source_tokenizer is bundle.target_tokenizer:
            bundle.source_tokenizer.save(folder / TOKENIZER)
        else:
            bundle.source_tokenizer.save(folder / SOURCE_TOKENIZER)
            bundle.target_tokenizer.save(folder / TARGET_TOKENIZER)

    def read_parts(self, files: BundleFiles) -> Tokenizers:
        """Read the tokenizers."""
        if TOKENIZER in files.content:
            joint = read_tokenizer(files, TOKENIZER)
            return Tokenizers(joint, joint)
        return Tokenizers(read_tokenizer(files, SOURCE_TOKENIZER), read_tokenizer(files, TARGET_TOKENIZER))

    def build_model(self, config: TranslationConfig, parts: Tokenizers, attention: Any = None) -> Seq2Seq:
        """Build the configured translator."""
        sizes = {"source_size": parts.source.size, "target_size": parts.target.size}
        return build_translator(config.model, **sizes, attention=attention)

    def vocabulary(self, parts: Tokenizers) -> str:
        """Return a hash of both vocabularies."""
        return fingerprint_vocabulary((parts.source, parts.target))

    def bundle(
        self, config: TranslationConfig, model: Any, parts: Tokenizers, files: BundleFiles, facts: Mapping[str, Any]
    ) -> TranslationBundle:
        """Build the bundle of a translator."""
        return TranslationBundle(
            config=config, model=model, source_tokenizer=parts.source, target_tokenizer=parts.target, **facts
        )

    def inventory(self, parts: Tokenizers) -> Inventory:
        """Return both tokenizers."""
        return Inventory({"source": parts.source, "target": parts.target})

    def render_report(self, report: dict[str, Any]) -> str:
        """Render the report on the pairs."""
        return PairReport.from_dict(report).render()

    def card(self, bundle: TranslationBundle) -> Card:
        """Describe the translator."""
        config = bundle.config
        data = config.data
        sides = (("source", bundle.source_tokenizer), ("target", bundle.target_tokenizer))
        return Card(
            title=f"Translation from {data.source} to {data.target}",
            summary="A sequence-to-sequence model with attention",
            pipeline_tag="translation",
            languages=[data.source, data.target],
            commands=['regard translate DIR "a sentence"', 'regard look DIR "a sentence"'],
            code=[
                "translator = LOAD",
                '[result] = translator.translate(["a sentence"])',
                "result.text, result.score, result.attention",
            ],
            model_rows=[
                *(
                    (f"{side} vocabulary", f"{tokenizer.size:,} symbols, `{getattr(config.tokenizers, side).kind}`")
                    for side, tokenizer in sides
                ),
                ("decoding", config.decoding.describe()),
            ],
            data_rows=[("languages", f"{data.source} → {data.target}")],
            examples="pairs",
            limits=[
                f"It is for sentences like those in training, of up to {data.max_tokens} tokens; others are translated worse.",
                "It translates each line by itself and may leave out, repeat or invent words.",
                "Attention shows what the model read when it wrote a word, but it does not prove causes.",
                "Its training data may contain private or biased text; regard does not filter it.",
            ],
        )


def check_same_vocabularies(bundles: Sequence[TranslationBundle]) -> None:
    """Check that models can be members of one ensemble.

    Raises:
        RequestError: If vocabularies differ.
    """
    for number, other in enumerate(bundles[1:], 2):
        for side in ("source", "target"):
            wanted, got = (getattr(bundle, f"{side}_tokenizer") for bundle in (bundles[0], other))
            same = (wanted.kind, wanted.lowercase, wanted.symbols) == (got.kind, got.lowercase, got.symbols)
            if not same:
                raise RequestError(
                    f"ensemble: the {side} vocabulary of model {number} ({got}) differs from that of model 1 ({wanted}): "
                    "members must share their vocabularies, so train them on the same data with the same tokenizers"
                )
