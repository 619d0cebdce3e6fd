"""Training of captioners: that of translators, whose sources are images."""

from dataclasses import replace
from typing import cast

from regard.config.data import LearnedTokenizer
from regard.config.pretrained import PretrainedImageConfig
from regard.tasks.captioning.config import CaptioningConfig
from regard.tasks.encoders import with_image_encoder
from regard.tasks.translation.train import TrainableTranslator, WriterTraining
from regard.text.captions.prepare import CaptionSchema, ImageCorpus, choose_canvas
from regard.text.preparation import Prepared, prepare_data
from regard.text.tokenizers.tokenizer import Tokenizer


class TrainableCaptioner(TrainableTranslator):
    """A captioner and its data. The loss is −log p(text | image), summed over tokens and end symbols."""

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.parts

    def is_repeatable(self) -> bool:
        """Return False, because the number of an image's cells is fixed, so batches cannot be padded to a grid of shapes."""
        return False


class CaptioningTraining(WriterTraining):
    """The `Training` of captioners."""

    trainable = TrainableCaptioner
    sizes_name = "the size of the vocabulary"

    def read(
        self, config: CaptioningConfig, learned: Tokenizer | None, *, progress: bool
    ) -> tuple[CaptioningConfig, Prepared[ImageCorpus], Tokenizer]:
        config, learned = self.use_teachers(config, learned)
        if isinstance(config.model.image, PretrainedImageConfig):
            config = with_image_encoder(config)
        if not (config.data.height and config.data.width and config.data.colour != "auto"):
            config = replace(config, data=replace(config.data, **choose_canvas(config.data)))
        data = prepare_data(CaptionSchema(config.data, config.tokenizer, learned), seed=config.seed, progress=progress)
        return replace(config, tokenizer=cast(LearnedTokenizer, data.configs[0])), data, data.tokenizers[0]
