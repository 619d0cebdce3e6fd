"""Test whether the cells of an image that a captioner attends to decide its next token."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from regard.errors import RequestError
from regard.tasks.captioning.predict import Captioner
from regard.tasks.captioning.probe import ImageProbe
from regard.tasks.faithfulness import measure_all, removal
from regard.tasks.translation.faithfulness import TranslationFaithfulness


@dataclass(frozen=True, kw_only=True)
class CaptionFaithfulness(TranslationFaithfulness):
    """Measures of whether the cells of an image that a captioner attends to decide its next token.

    They are those of a translator, with cells instead of source tokens: a cell is deleted by painting it black. All measures
    are means over the steps of a text, then over images.
    """

    noun = "image"
    meaning = (
        "Bars: how much the probability of the model's own next token falls if one cell of the image is removed: the most "
        "attended, a random, or the most important one; mean over steps and images. This does not prove the same for other "
        "images."
    )
    ways = {"deleted": "cell painted black", "erased": "attention to the cell erased"}  # noqa: RUF012
    unit = "cell"
    deleting: ClassVar = "Blackening"


def measure_caption_faithfulness(
    captioner: Captioner,
    images: Sequence[Any],
    *,
    max_texts: int = 200,
    permutations: int = 20,
    seed: int = 1,
    progress: bool = False,
    attributions: Sequence[str] = (),
) -> CaptionFaithfulness:
    """Measure whether the cells of an image that a captioner attends to decide what it writes next.

    The model writes a text about each image greedily. At each step of that text, the cell with the most attention is compared
    with all others. Attention is that of the site `cross`, averaged over heads.

    Args:
        captioner: The captioner.
        images: Images, as for `Captioner.caption`, preferably not from the training data.
        max_texts: Maximum size of the random sample of images that is measured.
        permutations: Number of permutations of each image's weights.
        seed: Seed of the sample and of the permutations.
        progress: Whether to show a bar on standard error.
        attributions: Attributions to compare with attention, as for `measure_translation_faithfulness`.

    Raises:
        DataError: If an image cannot be read.
        RequestError: If there is no image.

    Reference:
        Jain and Wallace 2019, sections 4.1 and 4.2.1; Wiegreffe and Pinter 2019, section 3.2.
    """
    if not len(images):
        raise RequestError("faithfulness: there is no image, expected at least one")
    chosen = np.random.default_rng(seed).permutation(len(images))[:max_texts].tolist()
    read = captioner.read("faithfulness", [images[number] for number in chosen])
    decoding = captioner.config.decoding
    shared, values = measure_all(
        (ImageProbe(captioner.model, torch.from_numpy(image.cells)[None].to(captioner.device), decoding) for image in read),
        len(read),
        affordable=len(read),
        permutations=permutations,
        seed=seed,
        progress=progress,
        attributions=attributions,
    )
    return CaptionFaithfulness(**shared, deleted=removal(values["deleted"]), erased=removal(values["erased"]))
