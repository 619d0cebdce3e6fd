"""Pretrained vision encoders: the grid of their patches, the normalisation of their images, and their states.

The cells of a captioner's images are the encoder's patches, so attention to a cell is attention to the state of a patch. The
class tokens are left out: they have no place in the image, and weights over patches alone sum to 1.
"""

import json
from typing import Any

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from regard.config import PretrainedImageConfig
from regard.errors import ConfigError
from regard.models.pretrained import IMAGE_FAMILIES, MOST_CHARACTERS, PretrainedEncoder, transformers_config
from regard.plurals import counted
from regard.reweight import Sites
from regard.text.captions.images import Grid

# Largest width of a patch in pixels, and of an image in patches.
_MOST = 64


def image_input(config: PretrainedImageConfig) -> tuple[Grid, list[float], list[float]]:
    """Return the grid of an encoder's patches, and the mean and standard deviation of each channel, for values from 0 to 255.

    Raises:
        ConfigError: If the encoder's files, which may come from a stranger, have a wrong value or contradict each other.
    """
    known, where = transformers_config(config), f"the {config.inputs} of the encoder '{config.name}'"
    size, patch, channels = known.image_size, known.patch_size, known.num_channels
    sizes_fit = isinstance(size, int) and isinstance(patch, int) and 2 <= patch <= _MOST and channels in (1, 3)
    if not sizes_fit or size not in range(patch, patch * _MOST + 1, patch):
        raise ConfigError(
            f"the encoder '{config.name}' reads images of {size} pixels in patches of {patch}, with {channels} channels; "
            f"expected square patches of 2 to {_MOST} pixels, at most {_MOST} whole ones in a row, and 1 or 3 channels"
        )
    try:
        plain = dict(json.loads(config.preparation[:MOST_CHARACTERS]))
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"{where} does not describe the preparation of images") from error

    def numbers(name: str, default: Any, count: int, low: float, high: float) -> list[float]:
        found = plain.get(name, default)
        values = found if isinstance(found, list) else [found]
        if len(values) != count or not all(isinstance(each, int | float) and low <= each <= high for each in values):
            expected = f"{counted(count, 'number')} from {low:g} to {high:g}"
            raise ConfigError(f"{where} has {name} {found!r:.60}, expected {expected}")
        return values

    final = plain.get("crop_size" if plain.get("do_center_crop") else "size", size)
    if any(side != size for side in (final.values() if isinstance(final, dict) else [final])):
        raise ConfigError(f"{where} makes images of size {final!r:.60}, but the encoder reads {size} x {size} pixels")
    [scale] = numbers("rescale_factor", 1 / 255, 1, 1e-4, 1) if plain.get("do_rescale", True) else [1.0]
    mean, std = [0.0] * channels, [1.0] * channels
    if plain.get("do_normalize", True):
        mean, std = numbers("image_mean", None, channels, -255, 255), numbers("image_std", None, channels, 1e-3, 255)
    grid = Grid(size // patch, size // patch, patch, channels)
    return grid, [each / scale for each in mean], [each / scale for each in std]


def join_cells(cells: Float[Tensor, "B S P"], grid: Grid) -> Float[Tensor, "B C H W"]:
    """Return the images that consist of these cells."""
    parts = cells.unflatten(2, (grid.cell, grid.cell, grid.channels)).unflatten(1, (grid.rows, grid.columns))
    return parts.permute(0, 5, 1, 3, 2, 4).flatten(4).flatten(2, 3)


class PretrainedImageEncoder(PretrainedEncoder):
    """A vision encoder: states (B,S,D) of patches, which are the cells of `grid`.

    The weights (B,H,S,S) of its layers leave out the class tokens, so a row sums to 1 minus their weight. Functions that change
    the weights get those of the class tokens too; these come first.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, config: PretrainedImageConfig, grid: Grid) -> None:
        own, mean, std = image_input(config)
        if grid != own:
            raise ConfigError(f"the images have the {grid}, but the patches of the encoder '{config.name}' are a {own}")
        super().__init__(config)
        self.grid, self.num_class_tokens = grid, IMAGE_FAMILIES[self.body.config.model_type]
        for name, values in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.tensor(values).repeat(grid.cell * grid.cell), persistent=False)

    def embed(self, source: Integer[Tensor, "B S P"]) -> Float[Tensor, "B S P"]:
        """Return the normalised pixels of each cell."""
        return (source - self.mean) / self.std

    def forward(self, embedded: Float[Tensor, "B S P"], mask: Bool[Tensor, "B S"], sites: Sites) -> Float[Tensor, "B S D"]:
        states = super().forward(embedded, mask, sites)
        for site in set(self.sites) & sites.maps.keys():
            sites.maps[site] = sites.maps[site][..., self.num_class_tokens :, self.num_class_tokens :]
        return states

    def compute(self, embedded: Float[Tensor, "B S P"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        states: Tensor = self.body(pixel_values=join_cells(embedded, self.grid)).last_hidden_state
        return states[:, self.num_class_tokens :]
