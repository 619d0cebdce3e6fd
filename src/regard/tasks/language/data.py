"""The files of a trained language model besides its weights: its tokenizer, and the text of its card."""

from pathlib import Path
from typing import Any

from regard.models.build import build_language_model
from regard.models.seq2seq import Seq2Seq
from regard.task import Bundle, Card
from regard.tasks.files import TokenizerFormat
from regard.tasks.language.config import LanguageConfig
from regard.text.tokenizers.tokenizer import Tokenizer


class LanguageFormat(TokenizerFormat):
    """The `BundleFormat` of language models."""

    def build_model(self, config: LanguageConfig, parts: Tokenizer, attention: Any = None) -> Seq2Seq:
        return build_language_model(config.model, vocabulary_size=parts.size)

    def card(self, bundle: Bundle) -> Card:
        data = bundle.config.data
        return Card(
            title="Language model" + (f" of {', '.join(Path(name).name for name in data.train)}" if data.train else ""),
            summary="A language model, which continues a text",
            pipeline_tag="text-generation",
            languages=[data.language] if data.language else [],
            code=[
                "model = LOAD",
                '[[result]] = model.generate(["the beginning"])',
                "result.text, result.log_probability",
            ],
            model_rows=[("vocabulary", f"{bundle.parts.size:,} symbols, `{bundle.config.tokenizer.kind}`")],
            examples="texts",
            limits=[
                f"It continues texts like those it was trained on, of which it saw at most {data.max_tokens} tokens at once.",
                "Its output is probable, not true; it may repeat its training texts word for word.",
                "Attention shows what the model read at a word, but it does not prove causes.",
            ],
            inputs=["The old man", "She said that", "Two dogs", "I know that", "In the garden", "a film that"],
        )
