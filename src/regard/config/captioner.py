"""Settings of the model of a captioner."""

from dataclasses import field
from typing import ClassVar

from regard.config.fields import Dropout, Width
from regard.config.model import RecurrentSettings, TransformerConfig, TransformerEncoderConfig
from regard.config.pretrained import PretrainedImageConfig
from regard.config.settings import Settings


class ImageSettings(Settings):
    """Settings of the layers that turn the cells of an image into vectors, to which learned positions are added."""

    kind: str = ""
    dropout: Dropout = 0.1
    """Dropout on the vectors of the cells."""


class ConvolutionalConfig(ImageSettings, kind="convolutional"):
    """Convolutions that halve the image until a vector is left for each cell (Xu et al. 2015 use a larger network)."""


class PatchesConfig(ImageSettings, kind="patches"):
    """A linear map of the pixels of each cell (Dosovitskiy et al. 2021), for Transformers."""


ImageConfig = ConvolutionalConfig | PatchesConfig | PretrainedImageConfig


class RecurrentCaptionerConfig(RecurrentSettings, kind="recurrent"):
    """Vectors of cells, and a recurrent decoder that attends to them before it writes a word (Xu et al. 2015)."""

    image: ImageConfig = field(default_factory=ConvolutionalConfig)
    """Layers that read the image."""
    image_size: Width = 128
    """Width of the vectors of the cells."""

    @property
    def states_size(self) -> int:
        return self.image_size


class TransformerCaptionerConfig(TransformerConfig, kind="transformer"):
    """Vectors of cells, and a Transformer with an encoder over the cells and a decoder."""

    encoder: ClassVar[TransformerEncoderConfig] = TransformerEncoderConfig()  # type: ignore[misc]
    image: ImageConfig = field(default_factory=ConvolutionalConfig)
    """Layers that read the image, before the layers of the encoder. A pretrained encoder replaces both."""


CaptionerConfig = RecurrentCaptionerConfig | TransformerCaptionerConfig
