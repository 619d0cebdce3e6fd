"""Settings of a run that trains a captioner."""

from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Literal

from regard.config.captioner import CaptionerConfig, ConvolutionalConfig, RecurrentCaptionerConfig
from regard.config.data import AutoConfig, CaptionDataConfig, LearnedTokenizer, WordsConfig
from regard.config.fields import Role
from regard.config.model import TransformerConfig
from regard.config.pretrained import PretrainedImageConfig
from regard.config.run import RunConfig
from regard.config.training import DecodingConfig, DistillationConfig
from regard.tasks.encoders import encoder_conflicts
from regard.tasks.translation.config import WriterTrainingConfig, length_conflicts


class CaptioningTrainingConfig(WriterTrainingConfig):
    """Settings for training a captioner: duration, batches, optimizer and checkpoints."""

    monitor: Literal["exact_match", "bleu", "chrf", "loss"] = "loss"
    """Score that decides which checkpoint is the best; if scores are equal, the lower loss decides."""


class CaptioningConfig(RunConfig):
    """Settings of a run that trains a captioner: data, tokenizer, model, training, decoding."""

    task: Literal["captioning"] = "captioning"
    data: CaptionDataConfig = field(default_factory=CaptionDataConfig)
    """Training data."""
    tokenizer: Annotated[LearnedTokenizer | AutoConfig, Role.VOCABULARY] = field(default_factory=WordsConfig)
    """Tokenizer of the texts."""
    model: CaptionerConfig = field(default_factory=RecurrentCaptionerConfig)
    """Architecture of the model."""
    training: CaptioningTrainingConfig = field(default_factory=CaptioningTrainingConfig)
    """Settings of the training."""
    distillation: DistillationConfig = field(default_factory=DistillationConfig)
    """Trained models to learn from, in addition to the gold words."""
    decoding: Annotated[DecodingConfig, Role.ADJUSTABLE] = field(default_factory=lambda: DecodingConfig(max_length=100))
    """Settings of the search for texts."""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Yield the conflicts between settings of the run; see `RunConfig.conflicts`."""
        yield from super().conflicts()
        yield from length_conflicts(self.decoding)
        cell, image = self.data.cell, self.model.image
        if isinstance(image, ConvolutionalConfig) and cell & (cell - 1):
            yield "data.cell", f"data.cell is {cell}, but convolutions need a power of two: 2, 4, 8, 16, 32 or 64"
        if isinstance(image, PretrainedImageConfig):
            yield from encoder_conflicts(self, image)
        if isinstance(self.model, TransformerConfig):
            yield from self.model.layer_conflicts()
            if self.model.wait_k:
                yield "model.wait_k", f"model.wait_k is {self.model.wait_k}, but an image arrives at once; set it to 0"
            if self.model.copy:
                yield "model.copy", "model.copy is true, but an image has no words to copy; set it to false"
            if self.model.tie_embeddings == "all":
                yield (
                    "model.tie_embeddings",
                    "model.tie_embeddings is 'all', but an image has no embedding; expected none or target",
                )
        else:
            yield from self.model.readout_conflicts()
