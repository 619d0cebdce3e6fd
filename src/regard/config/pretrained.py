"""Settings of pretrained encoders, in the format of Hugging Face's `transformers`."""

from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from regard.config.fields import BelowOne, Count, Dropout, Positive, Role
from regard.config.settings import Settings


class PretrainedEncoderConfig(Settings):
    """A pretrained encoder of Hugging Face's `transformers`, with its own tokenizer (needs the extra `pretrained`)."""

    inputs: ClassVar[str] = "tokenizer.json"
    """Name of the encoder's file that describes how its input is prepared."""
    kind: Literal["pretrained"] = "pretrained"
    """Kind of the encoder."""
    name: str = ""
    """Folder of the encoder, or its name in the local cache of Hugging Face; with `hf://` before the name, it is downloaded if
    the cache does not have it. The folder must have `config.json`, `model.safetensors`, and `tokenizer.json` or, to read
    images, `preprocessor_config.json`.
    """
    tuning: Literal["auto", "frozen", "lora", "whole"] = "auto"
    """Weights of the encoder that training changes: none (`frozen`); low-rank adapters in its linear maps (`lora`); or
    all (`whole`). `auto`: chosen from the data; `frozen` in translators and captioners.
    """
    rank: Annotated[Count, Role.WIDTH] = 16
    """Rank of the adapters of `lora`."""
    rate: Positive = 0.1
    """Learning rate of the encoder's top layer, as a share of `training.learning_rate`, which the other layers of the model
    have.
    """
    layer_decay: Annotated[float, Ge(0.1), Le(1)] = 0.9
    """Learning rate of each layer of the encoder, as a share of that of the layer above it."""
    dropout: BelowOne = 0.1
    """Dropout in the encoder, on its features and attention weights, while training changes it."""
    include: bool = False
    """Whether the trained model contains the encoder's weights that training did not change. If False, it only names the
    encoder with its hash, and loading needs the encoder's folder. With `tuning` `whole`, the model always contains the encoder.
    """
    checksum: Annotated[str, Role.DERIVED] = ""
    """SHA-256 of the encoder's weights file. regard sets this; do not set it."""
    architecture: Annotated[str, Role.DERIVED] = ""
    """Content of the encoder's `config.json`. regard sets this; do not set it."""


class PretrainedSourceConfig(PretrainedEncoderConfig, kind="pretrained"):
    """A pretrained encoder that reads the sources of a translator.

    A linear map makes its states as wide as the decoder's.
    """

    bidirectional: ClassVar[bool] = True
    rate: Positive = 0.05
    """Learning rate of the encoder's top layer, as a share of `training.learning_rate`, which the other layers of the model
    have.
    """
    output_dropout: Dropout = 0.1
    """Dropout on the states that the decoder attends to."""


class PretrainedImageConfig(PretrainedSourceConfig, kind="pretrained"):
    """A pretrained vision encoder that reads the images of a captioner; its patches are the cells.

    The canvas has the size of the encoder's images. A linear map makes the encoder's states as wide as the decoder's.
    """

    inputs: ClassVar[str] = "preprocessor_config.json"
    preparation: Annotated[str, Role.DERIVED] = ""
    """Content of the encoder's `preprocessor_config.json`. regard sets this; do not set it."""
