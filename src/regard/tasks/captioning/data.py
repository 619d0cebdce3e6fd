"""The files of a trained captioner besides its weights: its tokenizer, and the text of its card."""

from typing import Any

from regard.models.build import build_captioner
from regard.models.seq2seq import Seq2Seq
from regard.task import Bundle, Card
from regard.tasks.captioning.config import CaptioningConfig
from regard.tasks.files import TokenizerFormat
from regard.text.captions.prepare import grid_of
from regard.text.tokenizers.tokenizer import Tokenizer


class CaptioningFormat(TokenizerFormat):
    """The `BundleFormat` of captioners."""

    def build_model(self, config: CaptioningConfig, parts: Tokenizer, attention: Any = None) -> Seq2Seq:
        return build_captioner(config.model, grid_of(config.data), target_size=parts.size, attention=attention)

    def card(self, bundle: Bundle) -> Card:
        data, grid = bundle.config.data, grid_of(bundle.config.data)
        return Card(
            title="A captioner",
            summary="A model with attention that writes a text about an image",
            pipeline_tag="image-to-text",
            languages=[data.language] if data.language else [],
            code=[
                "captioner = LOAD",
                '[result] = captioner.caption(["image.png"])',
                "result.text, result.score, result.attention",
            ],
            model_rows=[
                ("images", f"{data.width} × {data.height} pixels, {data.colour}, in {grid.rows} × {grid.columns} cells"),
                ("vocabulary", f"{bundle.parts.size:,} symbols, `{bundle.config.tokenizer.kind}`"),
                ("decoding", bundle.config.decoding.describe()),
            ],
            examples="captions",
            limits=[
                "It is for images like those in training; about others, it writes with the same confidence.",
                "Attention shows what the model read when it wrote a word, but it does not prove causes.",
            ],
        )
