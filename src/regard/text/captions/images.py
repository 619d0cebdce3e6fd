"""Images from files, bytes and arrays, fitted to the canvas of a model, which is cut into the cells of a grid."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.errors import DataError
from regard.images import read_image

_ADDRESS = "data:image/"

Pixels = npt.NDArray[np.uint8]
Region = tuple[float, float, float, float]
"""Left, top, right and bottom edge of a part of an image, in pixels."""


@dataclass(frozen=True)
class Grid:
    """A canvas of fixed size, and its cells, which are the units that get attention. They are in reading order."""

    rows: int
    columns: int
    cell: int
    """Width and height of a cell in pixels."""
    channels: int
    """1 for grey images, 3 for coloured ones."""

    @property
    def num_cells(self) -> int:
        return self.rows * self.columns

    @property
    def cell_size(self) -> int:
        """Number of values of a cell: its pixels, row by row, with their channels."""
        return self.cell * self.cell * self.channels

    def split(self, canvas: Pixels) -> Pixels:
        """Cut a canvas (H,W,C) into cells (S,P)."""
        parts = canvas.reshape(self.rows, self.cell, self.columns, self.cell, self.channels)
        return np.ascontiguousarray(parts.swapaxes(1, 2)).reshape(self.num_cells, self.cell_size)

    def join(self, cells: Pixels) -> Pixels:
        """Put cells (S,P) together to a canvas (H,W,C)."""
        parts = cells.reshape(self.rows, self.columns, self.cell, self.cell, self.channels).swapaxes(1, 2)
        return np.ascontiguousarray(parts).reshape(self.rows * self.cell, self.columns * self.cell, self.channels)

    def read(self, source: Any, where: str = "") -> tuple[Pixels, tuple[int, int]]:
        """Return the cells of an image, which is scaled to fit the canvas and centred on it, with black borders, and its size.

        The arguments and errors are those of `regard.images.read_image`; the size is the width and height of the original.
        """
        from PIL import Image

        image = read_image(source, where=where)
        size, corner = self.place(image.size)
        plain = image.convert("L") if self.channels == 1 else image
        plain = plain if plain.size == size else plain.resize(size, Image.Resampling.BILINEAR)
        canvas = Image.new(plain.mode, (self.columns * self.cell, self.rows * self.cell))
        canvas.paste(plain, corner)
        pixels = np.asarray(canvas).reshape(self.rows * self.cell, self.columns * self.cell, self.channels)
        return self.split(pixels), image.size

    def place(self, size: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the size on the canvas of an image of this width and height, and the place of its upper left corner."""
        room = self.columns * self.cell, self.rows * self.cell
        scale = min(room[0] / size[0], room[1] / size[1])
        width, height = (max(1, min(limit, round(scale * side))) for side, limit in zip(size, room, strict=True))
        return (width, height), ((room[0] - width) // 2, (room[1] - height) // 2)

    def cells_in(self, regions: Sequence[Region], size: tuple[int, int]) -> npt.NDArray[np.bool_]:
        """Return for each region of an image of this size a mask of the cells that it touches, (N,S)."""
        scaled, corner = self.place(size)
        edges = np.asarray(regions, np.float64).reshape(-1, 4) * np.tile(np.divide(scaled, size), 2) + np.tile(corner, 2)
        columns, rows = (self.cell * np.arange(count) for count in (self.columns, self.rows))
        left, top, right, bottom = edges.T[..., None]
        across, down = (columns + self.cell > left) & (columns < right), (rows + self.cell > top) & (rows < bottom)
        return (down[:, :, None] & across[:, None]).reshape(len(edges), self.num_cells)


def is_address(text: str) -> bool:
    """Return whether a text holds an image itself, as a data address: `data:image/png;base64,…`."""
    return text[: len(_ADDRESS)].lower() == _ADDRESS


def read_address(text: str) -> bytes:
    """Return the content of an image that a data address holds.

    Raises:
        DataError: If the content is not encoded in Base64.
    """
    head, _, content = text.partition(",")
    try:
        if not head.endswith(";base64"):
            raise ValueError(head)
        return base64.b64decode(content, validate=True)
    except (ValueError, binascii.Error) as error:
        raise DataError("the image: is not encoded in Base64, expected data:image/png;base64,…") from error
