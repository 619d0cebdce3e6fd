"""Find where the tokens of a model lie: in the patches of an image, row by row, or in the frames of a sound."""

import math
from typing import Any

import torch
from torch import Tensor

from regard.analysis.inputs import Inputs
from regard.errors import RequestError
from regard.records.layouts import frames, patches
from regard.records.segments import Segment

Grid = tuple[int, int]
"""Numbers of rows and columns of patches."""

# Class tokens and registers before the patches of an image; more would mean that the grid is wrong.
_MOST_SPECIAL = 16
_NORMS = (("image_mean", 0.0), ("image_std", 1.0))


def image_tokens(model: Any, processor: Any, inputs: Inputs, count: int, grid: Grid | None) -> tuple[list[str], list[Segment]]:
    """Return the tokens of a vision model that reads one image as `count` tokens, and the segment of its patches."""
    name, given = type(model).__name__, len(inputs.images)
    if given > 1:
        raise RequestError(f"from_huggingface: {name} reads one image at a time, and {given} were given: call it for each")
    height, width = inputs.tensors["pixel_values"].shape[-2:]
    options = [grid] if grid else _grids(model.config, height, width, count)
    rows, columns = next((each for each in options if 0 <= count - math.prod(each) <= _MOST_SPECIAL), (0, 0))
    if not rows:
        tried = f"{grid[0]} × {grid[1]} patches do" if grid else "the size of its patches does"
        raise RequestError(
            f"from_huggingface: {name} reads {height} × {width} pixels as {count} tokens, which {tried} not explain: give the "
            "rows and columns of its patches as grid=(rows, columns)"
        )
    before = count - rows * columns
    distilled = [] if getattr(model.config, "num_register_tokens", 0) else ["[DIST]"]
    tokens = ["[CLS]", *distilled, *(f"[REG{number}]" for number in range(1, _MOST_SPECIAL))][:before]
    segment = patches(rows, columns, _seen(processor, inputs, 0), name="image").moved(before)
    return [*tokens, *segment.places()], [segment]


def prompt_segments(model: Any, processor: Any, inputs: Inputs, ids: Tensor, grid: Grid | None) -> list[Segment]:
    """Return the segments of the images in a prompt with ids (S,), whose patches are tokens of the prompt."""
    config, images = model.config, inputs.images
    token = getattr(config, "image_token_id", None)
    token = getattr(config, "image_token_index", None) if token is None else token
    token = getattr(processor, "image_token_id", None) if token is None else token
    places = (ids == token).nonzero().view(-1).tolist() if token is not None else []
    if not places:
        symbol = getattr(processor, "image_token", "<image>")
        raise RequestError(
            f"from_huggingface: the text has no place for the image: write {symbol!r} where it belongs, or give chat messages"
        )
    grids = [grid] * len(images) if grid else _prompt_grids(config, inputs, len(places))
    if sum(map(math.prod, grids)) != len(places):
        shapes = ", ".join(f"{rows} × {columns}" for rows, columns in grids)
        raise RequestError(
            f"from_huggingface: the text has {len(places)} places for patches of {len(images)} images, and their grids are "
            f"{shapes}: write the image's symbol once for each image, or give grid=(rows, columns)"
        )
    segments: list[Segment] = []
    for number, (rows, columns) in enumerate(grids):
        start, end = places[0], places[rows * columns - 1] + 1
        if end - start != rows * columns:
            raise RequestError(
                f"from_huggingface: the patches of image {number + 1} are not {rows * columns} neighbours in the prompt, so "
                "they have no grid that can be drawn: use regard.capture and to_record, which draw tokens"
            )
        name = f"image {number + 1}" if len(images) > 1 else "image"
        segments.append(patches(rows, columns, _seen(processor, inputs, number), name=name).moved(start))
        places = places[rows * columns :]
    return segments


def sound_tokens(model: Any, processor: Any, inputs: Inputs, count: int) -> tuple[list[str], list[Segment]]:
    """Return the tokens of a speech model that reads a sound as `count` frames, and the segment without padding."""
    if getattr(model.config, "patch_size", None):
        raise RequestError(f"from_huggingface: {type(model).__name__} reads a sound as patches of a picture, not as frames")
    features = next(value for name, value in inputs.tensors.items() if name.startswith("input_"))
    extractor = getattr(processor, "feature_extractor", processor)
    total = length = len(inputs.samples)
    if features.ndim == 2:  # samples, not spectra
        total = features.shape[-1]
    elif step := getattr(extractor, "hop_length", 0):
        num_spectra = features.shape[-2 if features.shape[-1] == extractor.feature_size else -1]
        total = num_spectra * step
    heard = min(count, math.ceil(length * count / total))  # products of whole numbers, because seconds are rounded
    segment = frames(heard, total / inputs.sampling_rate / count, inputs.samples, inputs.sampling_rate, name="sound")
    return [*segment.places(), *["<pad>"] * (count - heard)], [segment]


def _seen(processor: Any, inputs: Inputs, number: int) -> Any:
    """Return what the model saw of an image: its pixels after resizing and cropping, or else the whole image."""
    pixels, reader = inputs.tensors.get("pixel_values"), getattr(processor, "image_processor", processor)
    if pixels is None or pixels.ndim != 4 or len(pixels) != len(inputs.images) or pixels.shape[1] != 3:
        return inputs.images[number]
    has_norms = getattr(reader, "do_normalize", True)
    mean, std = (torch.tensor((has_norms and getattr(reader, name, None)) or [each] * 3) for name, each in _NORMS)
    return (pixels[number].float() * std[:, None, None] + mean[:, None, None]).clamp(0, 1)


def _grids(config: Any, height: int, width: int, count: int) -> list[Grid]:
    """Return the grids that a model may have for an image of this size, the likely ones first."""
    found = []
    for part in (config, getattr(config, "vision_config", None), getattr(config, "encoder", None)):
        size = getattr(part, "patch_size", None)
        down, across = size if isinstance(size, list | tuple) else (size, size)
        if isinstance(down, int) and isinstance(across, int):
            found.append((height // down, width // across))
    # Convolutions before a Transformer halve the size several times; then there are no tokens before the patches.
    halved = [(math.ceil(height / step), math.ceil(width / step)) for step in (4, 8, 16, 32, 64)]
    return found or [each for each in halved if math.prod(each) == count]


def _prompt_grids(config: Any, inputs: Inputs, count: int) -> list[Grid]:
    """Return the grid of each image in a prompt with `count` places for patches."""
    if (sizes := inputs.tensors.get("image_grid_thw")) is not None:
        merged = getattr(getattr(config, "vision_config", None), "spatial_merge_size", 1)
        return [(frames * rows // merged, columns // merged) for frames, rows, columns in sizes.tolist()]
    each = count // len(inputs.images)
    pixels = inputs.tensors.get("pixel_values")
    grids = _grids(config, pixels.shape[-2], pixels.shape[-1], each) if pixels is not None else []
    side = math.isqrt(each)  # several patches were joined to one token
    fitting = [grid for grid in (*grids, (side, side)) if math.prod(grid) == each]
    return (fitting or [*grids, (side, side)])[:1] * len(inputs.images)
