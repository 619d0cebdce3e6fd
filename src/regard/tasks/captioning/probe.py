"""A captioner's predictions of each token of a text: with all cells of the image, without some, with other weights."""

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.tasks.translation.probe import TranslationProbe


class ImageProbe(TranslationProbe):
    """A captioner's predictions for one image, whose cells (1,S,P) are its words. A cell is removed by painting it black."""

    ends = 0

    @property
    def blank(self) -> Tensor:
        """A black image."""
        return torch.zeros_like(self.source)

    def keep(self, kept: Bool[np.ndarray, "B W"]) -> Float[Tensor, "B T V"]:
        """Return the predictions for the image with some cells only."""
        return self.probabilities(self.source * torch.from_numpy(kept).to(self.source.device).unsqueeze(-1))
