"""Layers that read images, and captioners: the models of translators with such layers in place of the source's embedding.

A source is the cells of an image in reading order, (B,S,P): P values from 0 to 255 for each cell, as `Grid.split` cuts them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.base import Attention
from regard.config import ConvolutionalConfig, PretrainedImageConfig, RecurrentCaptionerConfig, TransformerCaptionerConfig
from regard.config.captioner import ImageSettings
from regard.layers.recurrent import State
from regard.models.recurrent.build import build_around
from regard.models.recurrent.translator import RecurrentTranslator
from regard.models.sources import PretrainedEmbedding, PretrainedSource, RecurrentSource
from regard.models.transformer.build import build_transformer
from regard.models.transformer.translator import TransformerTranslator
from regard.models.vision import PretrainedImageEncoder, join_cells
from regard.reweight import Sites
from regard.text.captions.images import Grid

_POSITIONS_STD = 0.1
_NARROWEST = 16


class ImageEmbedding(nn.Module, ABC):
    """Base of layers that turn cells into vectors: x_s = norm(f(image)_s) + r_row(s) + c_column(s), with learned r and c.

    Args:
        grid: The grid of the cells.
        size: D, width of the vectors.
        dropout: Dropout on the vectors.
        scale: Initial scale of the vectors.
    """

    def __init__(self, grid: Grid, size: int, *, dropout: float = 0.0, scale: float = 1.0) -> None:
        super().__init__()
        self.grid = grid
        # The cells of an image are normalised together. If each were normalised alone, empty ones would be as large as others.
        self.norm = nn.GroupNorm(1, size)
        nn.init.constant_(self.norm.weight, scale)
        self.rows = nn.Parameter(torch.randn(grid.rows, 1, size) * (_POSITIONS_STD * scale))
        self.columns = nn.Parameter(torch.randn(grid.columns, size) * (_POSITIONS_STD * scale))
        self.dropout = nn.Dropout(dropout)

    @abstractmethod
    def features(self, cells: Float[Tensor, "B S P"]) -> Float[Tensor, "B D S"]:
        """Return the features of cells, whose values are from 0 to 1."""

    def forward(self, cells: Integer[Tensor, "B S P"]) -> Float[Tensor, "B S D"]:
        """Return the vectors of the cells of B images."""
        found = self.norm(self.features(cells.to(self.rows.dtype) / 255)).transpose(1, 2)
        return self.dropout(found + (self.rows + self.columns).flatten(0, 1))


class PatchEmbedding(ImageEmbedding):
    """f(image)_s = W p_s + b, with the pixels p_s of the cell (Dosovitskiy et al. 2021, eq. 1)."""

    def __init__(self, grid: Grid, size: int, **options: float) -> None:
        super().__init__(grid, size, **options)
        self.projection = nn.Linear(grid.cell_size, size)

    def features(self, cells: Float[Tensor, "B S P"]) -> Float[Tensor, "B D S"]:
        return self.projection(cells).transpose(1, 2)


class ConvolutionalEmbedding(ImageEmbedding):
    """f is a stack of convolutions with ReLU and norm; all but the first and last halve the image, until a cell is one pixel.

    A vector depends on the cell and its neighbourhood, of about four cells in each direction, and on nothing farther away. So
    attention to a cell means attention to this part of the image.
    """

    def __init__(self, grid: Grid, size: int, **options: float) -> None:
        super().__init__(grid, size, **options)
        halvings = grid.cell.bit_length() - 1
        widths = [max(_NARROWEST, size >> (halvings - step)) for step in range(1, halvings + 1)]
        # Without a layer of the image's full size, digits of 8 × 8 pixels are misread three times as often (benchmarks/log.md).
        self.first = nn.Conv2d(grid.channels, _NARROWEST, 3, padding=1)
        self.first_norm = nn.GroupNorm(1, _NARROWEST)
        pairs = pairwise([_NARROWEST, *widths])
        # An even kernel centres each of its outputs on two pixels, as a cell is on its pixels.
        self.halving = nn.ModuleList(
            nn.Conv2d(narrow, wide, 3 if step else 4, stride=2, padding=1) for step, (narrow, wide) in enumerate(pairs)
        )
        self.norms = nn.ModuleList(nn.GroupNorm(1, width) for width in widths)  # without them, training needs twice as long
        self.last = nn.Conv2d(widths[-1], size, 3, padding=1)
        for layer in (self.first, *self.halving, self.last):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)

    def features(self, cells: Float[Tensor, "B S P"]) -> Float[Tensor, "B D S"]:
        image = self.first_norm(functional.relu(self.first(join_cells(cells, self.grid))))
        for layer, norm in zip(self.halving, self.norms, strict=True):
            image = norm(functional.relu(layer(image)))
        return functional.relu(self.last(image)).flatten(2)


class CellEncoder(nn.Module):
    """An encoder that returns the vectors of the cells as they are, and their mean as the last state."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(
        self, cells: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"], sites: Sites | None = None
    ) -> tuple[Float[Tensor, "B S D"], list[State]]:
        return cells, [(cells.mean(dim=1), None)]


def build_image_embedding(config: ImageSettings, grid: Grid, size: int, *, scale: float = 1.0) -> ImageEmbedding:
    """Build the configured layers that read images."""
    kind = ConvolutionalEmbedding if isinstance(config, ConvolutionalConfig) else PatchEmbedding
    return kind(grid, size, dropout=config.dropout, scale=scale)


def build_recurrent_captioner(
    config: RecurrentCaptionerConfig, grid: Grid, *, target_size: int, attention: Attention | None
) -> RecurrentTranslator:
    """Build a captioner with a recurrent decoder; see `regard.models.build.build_captioner`."""
    size, image = config.image_size, config.image
    if isinstance(image, PretrainedImageConfig):
        encoder: Any = RecurrentSource(PretrainedImageEncoder(image, grid), size)
        build_source: Callable[[], nn.Module] = partial(PretrainedEmbedding, encoder)
    else:
        encoder, build_source = CellEncoder(size), partial(build_image_embedding, image, grid, size)
    model = build_around(encoder, build_source, config, target_size=target_size, attention=attention)
    model.source_axes = "B S P"
    return model


def build_transformer_captioner(config: TransformerCaptionerConfig, grid: Grid, *, target_size: int) -> TransformerTranslator:
    """Build a captioner with a Transformer; see `regard.models.build.build_captioner`."""
    size, image, pretrained = config.hidden_size, config.image, None
    if isinstance(image, PretrainedImageConfig):
        pretrained = PretrainedSource(PretrainedImageEncoder(image, grid), size)
    model = build_transformer(config, source_size=1, target_size=target_size, pretrained=pretrained)
    if not isinstance(image, PretrainedImageConfig):
        # The Transformer multiplies embeddings by √D.
        model.add_module("source_embedding", build_image_embedding(image, grid, size, scale=size**-0.5))
        model.add_module("source_positions", nn.Identity())
    model.source_axes = "B S P"
    return model
