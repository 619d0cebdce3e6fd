"""The preparation of images with texts: images are scaled to the canvas, texts are tokenised, and duplicates are left out.

A table names the file of each image, which must be in the folder of the table or below it, and its text. Images are stored in
the cache in the size of the canvas, so a run does not decode them again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from regard.config import CaptionDataConfig, TokenizerConfig
from regard.errors import DataError
from regard.images import read_image
from regard.text import mapped, reasons
from regard.text.batching import Batch
from regard.text.captions.images import Grid, Pixels
from regard.text.clean import Chunk, clean, read_usable
from regard.text.column_rules import CaptionColumns
from regard.text.corpora import EncodedCorpus
from regard.text.opening import check_file, show_encoding
from regard.text.preparation import DataSchema, EncodedRows, Part
from regard.text.report import ReadingReport
from regard.text.rows import detect_format, load_format
from regard.text.split import Indices, take_rows
from regard.text.spool import Spool, Texts
from regard.text.strings import quoted
from regard.text.tokenizers.tokenizer import Tokenizer

WHAT = "images with texts"
_GRID = tuple(Grid.__dataclass_fields__)
# Number of images from which the size of the canvas is chosen, and its largest width and height in cells.
_LOOKED_AT, _MOST_CELLS = 50, 24


def read_captions(paths: Sequence[str | Path], data: CaptionDataConfig, report: ReadingReport) -> Iterator[Chunk]:
    """Read a table of images and texts, chunk by chunk; the report is filled on the way.

    The first column of a chunk has the paths of the images, which exist.

    Raises:
        DataError: If the file is an image, an image is outside the folder of the table, or too many rows are unusable.
    """
    if len(paths) != 1:
        raise DataError(f"{len(paths)} files were given, expected one table of image files and texts")
    from PIL.Image import registered_extensions

    file = check_file(paths[0], WHAT)
    if file.suffix.lower() in registered_extensions():
        raise DataError(f"{file}: is an image, expected a table of image files and texts, such as images.csv")
    table = load_format(detect_format(file) if data.format == "auto" else data.format)
    report.files, report.form, report.kind = [str(file)], table.title, "captions"
    report.encoding = show_encoding(file, table.encoding or data.encoding)
    empty = (reasons.EMPTY_IMAGE, reasons.EMPTY_TEXT)
    chunks = (
        _find_images(clean(columns, lines, data.normalization, report, empty=empty), file, report)
        for columns, lines in table.read(file, CaptionColumns(data), report)
    )
    yield from read_usable([(str(file), [file], chunks)], data, report)


def _find_images(chunk: Chunk, table: Path, report: ReadingReport) -> Chunk:
    """Return a chunk with the paths of its images, without rows whose image does not exist."""
    found = [
        find_image(table.parent, name, f"{table}, line {line}: the image {quoted(name, 200)}")
        for name, line in zip(chunk.source, chunk.line, strict=True)
    ]
    missing = [place for place, path in enumerate(found) if path is None]
    report.withdraw(reasons.MISSING_IMAGE, [chunk.line[place] for place in missing])
    if missing and not report.advice:
        first = missing[0]
        where = f"line {chunk.line[first]} names {quoted(chunk.source[first])}, which is looked for in the folder of the table."
        report.advice = f"{reasons.MISSING_IMAGE}: {where}"
    kept = [path is not None for path in found]
    columns = [str(path) for path in found if path is not None], list(compress(chunk.target, kept))
    return Chunk(columns, list(compress(chunk.line, kept)))


def find_image(folder: Path, name: str, where: str) -> Path | None:
    """Return the path of an image that a table in this folder names; None if there is no such file.

    Raises:
        DataError: If the path, or a link on it, leads out of the folder.
    """
    try:
        path = folder / name
        inside, exists = path.resolve().is_relative_to(folder.resolve()), path.is_file()
    except (OSError, ValueError):  # no name of a file
        return None
    if not inside:
        raise DataError(f"{where} is outside the folder of the table; move the image into it, and name it relative to it")
    return path if exists else None


class ImageCorpus(EncodedCorpus):
    """Encoded images with their texts, in a file. A source is the cells of an image, whose bytes are stored as int32."""

    @classmethod
    def schema_for(cls, grid: Grid) -> pa.Schema:
        """Return the schema of a new corpus, with the grid in its metadata."""
        return cls.schema.with_metadata({name: str(size) for name, size in asdict(grid).items()})

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self.grid = Grid(**{name: int(self._metadata[name.encode()]) for name in _GRID})
        self.source_lengths = np.full(len(self), self.grid.num_cells, np.int32)

    def batch(self, indices: mapped.Indices, redraw: Sequence[Any] = (None,)) -> Batch:
        """Return the tensors of some images, and their texts, padded to the longest; `redraw` replaces the ids of the texts."""
        return super().batch(indices, (None, redraw[-1]))

    def _sources(self, rows: npt.NDArray[np.int64], redraw: Any) -> tuple[Pixels, npt.NDArray[np.bool_]]:
        shape = len(rows), self.grid.num_cells, self.grid.cell_size
        words = np.arange(-(-shape[1] * shape[2] // 4))
        pixels = self._flat[self._source_starts[rows][:, None] + words].view(np.uint8)[:, : shape[1] * shape[2]]
        return pixels.reshape(shape), np.ones(shape[:2], np.bool_)


class CaptionSchema(DataSchema):
    """Images with texts; `learned` is the tokenizer of a model that training starts from."""

    content = WHAT
    example = "a table of image files and texts"
    unit = "caption"
    untokenised = ("image",)
    grouped = (0, 0)  # images of training aren't held out with another text; equal texts of several images are usual
    chunk_rows = 256
    corpus = ImageCorpus
    repeated = reasons.REPEATED_CAPTION
    drops_long = True
    data: CaptionDataConfig

    def __init__(self, data: CaptionDataConfig, tokenizer: TokenizerConfig, learned: Tokenizer | None = None) -> None:
        super().__init__(data, (tokenizer,), (learned,) if learned else None)
        self.max_rows, self.grid = data.max_captions, grid_of(data)
        self._sizes: dict[tuple[int, int], int] = {}

    def find_files(self, paths: Sequence[str]) -> dict[str, list[str]]:
        """Return the table and its images, so that a changed image is noticed."""
        chunks = read_captions(paths, self.data, ReadingReport())
        return {path: [path, *dict.fromkeys(image for chunk in chunks for image in chunk.source)] for path in paths}

    def settings(self) -> dict[str, Any]:
        return asdict(self.grid)

    def read(self, paths: Sequence[str], report: ReadingReport) -> Iterator[Chunk]:
        return read_captions(paths, self.data, report)

    def arrow_schema(self, spool: Spool) -> pa.Schema:
        return ImageCorpus.schema_for(self.grid)

    def encode(self, part: Part, positions: Indices, encoded: Sequence[mapped.Rows], texts: Texts) -> EncodedRows:
        """Decode the images, and leave out texts with too many tokens."""
        fits = np.diff(encoded[0][1]) <= self.data.max_tokens
        part.report.withdraw(reasons.TOO_MANY_TOKENS, part.spool.lines[positions[~fits]])
        ids, offsets = take_rows(encoded[0], np.flatnonzero(fits))
        (paths, captions), lines = (list(compress(column, fits)) for column in texts), part.spool.lines[positions[fits]]
        table = Path(part.report.files[0])
        names = [path.removeprefix(f"{table.parent}/") for path in paths]
        where = [f"{table}, line {line}: the image {quoted(name, 200)}" for line, name in zip(lines, names, strict=True)]
        images = [self._read(path, place) for path, place in zip(paths, where, strict=True)]
        words = np.concatenate(images) if images else np.zeros(0, np.int32)
        starts = np.arange(len(images) + 1) * (len(images[0]) if images else 0)
        return EncodedRows(
            [(words, starts), (ids, offsets)], [names, captions], [ids], [len(ids) + len(captions)], int((~fits).sum())
        )

    def _read(self, path: str, where: str) -> npt.NDArray[np.int32]:
        """Return the pixels of an image as int32, four in a number, with padding at the end."""
        cells, size = self.grid.read(path, where)
        self._sizes[size] = self._sizes.get(size, 0) + 1
        return np.pad(cells.reshape(-1), (0, -cells.size % 4)).view(np.int32)

    def notes(self, too_long: int) -> list[str]:
        """Return the size of the canvas, and the number of images of another size."""
        grid, total = self.grid, sum(self._sizes.values())
        width, height = grid.columns * grid.cell, grid.rows * grid.cell
        scaled = total - self._sizes.get((width, height), 0)
        canvas = f"images are {width} × {height} pixels, {'grey' if grid.channels == 1 else 'in colour'}"
        cells = f"in {grid.rows} × {grid.columns} cells of {grid.cell} × {grid.cell} pixels"
        more = f"; {scaled:,} of {total:,} had another size, and were scaled to fit, with black borders where the shape differs"
        return [f"{canvas}, {cells}{more * bool(scaled)}"]


def grid_of(data: CaptionDataConfig) -> Grid:
    """Return the grid that the settings describe; `choose_canvas` sets those that the user left out."""
    return Grid(data.height // data.cell, data.width // data.cell, data.cell, 1 if data.colour == "grey" else 3)


def choose_canvas(data: CaptionDataConfig) -> dict[str, Any]:
    """Return the settings `height`, `width` and `colour`, chosen from the first images for those that are 0 or `auto`.

    The canvas has the usual shape of the images, at most 24 cells wide and high.
    """
    chunks = read_captions(data.train, data, ReadingReport())
    sizes, coloured = [], False
    rows = ((path, line) for chunk in chunks for path, line in zip(chunk.source, chunk.line, strict=True))
    for path, line in islice(rows, _LOOKED_AT):
        image = read_image(path, where=f"{data.train[0]}, line {line}: the image {quoted(path, 200)}")
        sizes.append(image.size)
        coloured = coloured or (data.colour == "auto" and _has_colour(image))
    width, height = (float(np.median(side)) for side in zip(*sizes, strict=True))
    scale = min(1.0, _MOST_CELLS * data.cell / max(width, height))
    chosen = {
        name: max(1, round(side * scale / data.cell)) * data.cell for name, side in (("width", width), ("height", height))
    }
    colour = ("colour" if coloured else "grey") if data.colour == "auto" else data.colour
    return {name: getattr(data, name) or size for name, size in chosen.items()} | {"colour": colour}


def _has_colour(image: Any) -> bool:
    """Return whether an image has pixels that aren't grey."""
    image.thumbnail((64, 64))
    return bool((np.ptp(np.asarray(image, np.int16), axis=2) > 8).any())
