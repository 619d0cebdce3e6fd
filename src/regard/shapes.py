"""Letters for the axes of tensors, and a function that compares a tensor's shape with such letters.

B batch · S source · T target · Q query positions · K key positions · H heads · N hypotheses of a sentence ·
D width (Dq, Dk, Dv where they differ) · V vocabulary.
"""

from collections.abc import Sequence
from typing import Any

from regard.errors import ShapeError


def check_shape(name: str, tensor: Any, axes: str, known: dict[str, int] | None = None) -> dict[str, int]:
    """Check a tensor's shape against axis letters, and return the size of each letter, including those already known.

    Args:
        name: The argument's name, for the message.
        tensor: Any object with a `shape`.
        axes: Letters separated by spaces, such as `"B Q Dq"`; a number is a fixed size.
        known: Sizes of letters that are already known. This dictionary is not changed.

    Raises:
        ShapeError: If the number of axes or a size differs.
    """
    letters, shape = axes.split(), tuple(tensor.shape)
    sizes = dict(known or {})
    if len(letters) != len(shape):
        raise ShapeError(f"{name} has shape {_show(shape)}, expected {len(letters)} axes ({', '.join(letters)})")
    for position, (letter, size) in enumerate(zip(letters, shape, strict=True)):
        expected = int(letter) if letter.isdigit() else sizes.setdefault(letter, size)
        if size != expected:
            wanted = tuple(int(x) if x.isdigit() else sizes.get(x, x) for x in letters)
            raise ShapeError(
                f"{name} has shape {_show(shape)}, expected ({', '.join(letters)}) = {_show(wanted)}: "
                f"axis {position} ({letter}) is {size}, not {expected}"
            )
    return sizes


def _show(shape: Sequence[object]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"
