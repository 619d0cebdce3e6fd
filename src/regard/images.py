"""Read images that nobody has checked, and write them as small PNG files. Pillow does the work."""

import io
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
"""Formats that are read. Others, such as EPS, would start further programs."""
MAX_PIXELS = 100_000_000
"""Maximum number of pixels of an image that is read."""


def read_image(source: Any, *, where: str = "") -> "Image":
    """Return an image in RGB, upright, on white where it is transparent.

    Args:
        source: Path of a file, bytes of one, an image of Pillow, or an array or tensor: (h,w) or (h,w,3), with integers from 0
            to 255 or other numbers from 0 to 1; (3,h,w) is accepted too.
        where: What the image is for, for messages; by default the path.

    Raises:
        DataError: If it cannot be read, has another format, or has more than `MAX_PIXELS`.
    """
    from PIL import Image, ImageOps

    where = where or (str(source) if isinstance(source, str | Path) else "the image")
    try:
        with warnings.catch_warnings(), ExitStack() as opened:
            warnings.simplefilter("ignore")  # about damaged metadata, which is not used
            if isinstance(source, Image.Image):
                image = source
            elif isinstance(source, str | Path | bytes):
                file = io.BytesIO(source) if isinstance(source, bytes) else source
                image = opened.enter_context(Image.open(file, formats=FORMATS))  # closed after an error, too
            else:
                image = _from_array(source, where)
            if image.width * image.height > MAX_PIXELS:
                raise DataError(f"{where}: it has {image.width} x {image.height} pixels, expected at most {MAX_PIXELS:,}")
            # Conversions cut numbers off at 255. Files with 16 bits use all of them; the range of others is unknown.
            has_16_bits = image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))
            if image.mode in ("I", "F") and not has_16_bits:
                image = _from_array(image, where)
            image = ImageOps.exif_transpose(image)
            if has_16_bits:
                image = image.convert("I").point(lambda value: value / 256).convert("L")
            if image.has_transparency_data:
                over, image = image.convert("RGBA"), Image.new("RGB", image.size, "white")
                image.paste(over, mask=over)
            image = image if image.mode == "RGB" else image.convert("RGB")  # which would copy it
            image.info = {}  # Pillow would write comments and colour profiles of any size into copies
            return image
    except DataError:
        raise
    except OSError as error:  # also Pillow's own errors
        reason = error.strerror or f"it is not an image in one of the formats {', '.join(FORMATS)}, or it is damaged"
        raise DataError(f"{where}: {reason}") from error
    except Exception as error:  # damaged files raise many kinds of errors
        raise DataError(f"{where}: the image is damaged: {error}") from error


def _from_array(source: Any, where: str) -> "Image":
    import numpy as np
    from PIL import Image

    if hasattr(source, "detach"):
        source = source.detach().cpu()
        source = source.float() if source.is_floating_point() else source  # NumPy has no bfloat16
    array = np.asarray(source)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3) or not array.size:
        raise DataError(f"{where}: an array of shape {array.shape} is no image, expected (h, w), (h, w, 3) or (3, h, w)")
    top = 255 if array.dtype.kind in "iu" else 1
    if array.dtype.kind not in "iufb" or not (array >= 0).all() or not (array <= top).all():
        raise DataError(
            f"{where}: an image's numbers must be integers from 0 to 255 or others from 0 to 1, got {array.dtype} from "
            f"{array.min()} to {array.max()}; undo the normalisation of the model's processor, or give the original image"
        )
    return Image.fromarray(array.astype(np.uint8) if top == 255 else (array * 255).round().astype(np.uint8))


def to_png(image: "Image", *, max_bytes: int, side: int = 768) -> bytes:
    """Return an RGB image as PNG without metadata; it is made smaller until no side and no file is larger than asked for."""
    small = image.copy()
    while True:
        small.thumbnail((side, side))
        buffer = io.BytesIO()
        small.save(buffer, "PNG", optimize=True)
        if buffer.tell() <= max_bytes:
            return buffer.getvalue()
        side = side * 3 // 4
