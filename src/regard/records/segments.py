"""Segments: runs of a side's tokens with a layout of their own, such as the patches of an image or the frames of a sound.

A picture needs to know that tokens 5 to 200 of a prompt are the 14 × 14 patches of an image, or that tokens 1 to 6 are the
first of two texts. A record says so with segments. Tokens outside them, such as class tokens and separators, are drawn as
words.
"""

import base64
import binascii
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

from regard.errors import DataError, ShapeError, nearest

MAX_PICTURE_BYTES = 2**20
"""Maximum size of the picture of an image segment."""
MAX_PICTURE_PIXELS = 2**22
"""Maximum number of pixels of the picture of an image segment."""
MAX_SECONDS = 1e6
"""Maximum number of seconds of a frame and of times; a frame has at least a millionth of a second."""
MAX_WAVE = 2000
"""Maximum number of values of a wave."""
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A run of one side's tokens. This class is the base of the kinds of segments.

    Raises:
        DataError: If a field has a value that is not possible.
        ShapeError: If the numbers of tokens and of places differ.
    """

    start: int
    """Index of the first token, from 0."""
    end: int
    """Index after the last token."""
    name: str = ""
    """Name in pictures, such as `image 1` or `text A`."""
    kind: ClassVar[str] = ""
    """Name of the class in files."""
    unit: ClassVar[str] = "word"
    """Name of the places in captions."""
    has_places: ClassVar[bool] = False
    """Whether each token is a place that has a name, and is therefore a word of its own."""

    def __post_init__(self) -> None:
        numbers = (self.start, self.end)
        if any(type(number) is not int for number in numbers) or not 0 <= self.start < self.end:
            raise DataError(f"{self}: start and end must be whole numbers with 0 <= start < end, got {numbers}")
        if not isinstance(self.name, str):
            raise DataError(f"{self}: name must be text, got {self.name!r:.40}")

    def __str__(self) -> str:
        """Return the name for messages."""
        return f"{self.kind} segment {self.name!r:.60}" if self.name else f"{self.kind} segment"

    @property
    def num_tokens(self) -> int:
        """Number of tokens."""
        return self.end - self.start

    def moved(self, offset: int) -> "Segment":
        """Return the same segment `offset` tokens later."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return type(self)(**values | {"start": self.start + offset, "end": self.end + offset})

    def places(self) -> tuple[str, ...]:
        """Return the names of the tokens' places in reading order; empty if they have none."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """Return the segment as JSON values; fields with their default values are left out."""
        used = {each.name: getattr(self, each.name) for each in fields(self)}
        used = {name: value for name, value in used.items() if value not in ("", b"", ())}
        return {"kind": self.kind, **used}


@dataclass(frozen=True, kw_only=True)
class TextSegment(Segment):
    """A text among others, such as the first of a pair of sentences.

    Example:
        >>> TextSegment(start=1, end=6, name="question").num_tokens
        5
    """

    times: tuple[tuple[float, float], ...] = ()
    """Seconds at which each token begins and ends in the sound of the other side, for transcripts; empty if unknown."""
    kind: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        super().__post_init__()
        pairs = [_numbers(self, "times", pair) for pair in _items(self, "times", self.times)]
        if any(len(pair) != 2 or not 0 <= pair[0] <= pair[1] <= MAX_SECONDS for pair in pairs):
            raise DataError(f"{self}: times must be pairs of seconds (begin, end) with 0 <= begin <= end <= {MAX_SECONDS:g}")
        if pairs and len(pairs) != self.num_tokens:
            raise ShapeError(f"{self}: times has {len(pairs)} pairs, expected {self.num_tokens}, one for each token")
        object.__setattr__(self, "times", tuple((pair[0], pair[1]) for pair in pairs))


@dataclass(frozen=True, kw_only=True)
class ImageSegment(Segment):
    """The patches of an image, row by row; `regard.patches` makes one.

    Example:
        >>> ImageSegment(start=1, end=5, rows=2, columns=2).places()[2]
        'row 2, column 1'
    """

    rows: int
    """Number of rows of patches."""
    columns: int
    """Number of columns; `rows * columns` equals `end - start`."""
    picture: bytes = b""
    """The image as PNG, for drawing, of at most `MAX_PICTURE_BYTES` and `MAX_PICTURE_PIXELS`. Empty without an image."""
    kind: ClassVar[str] = "image"
    unit: ClassVar[str] = "patch"
    has_places: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(type(number) is not int or not 1 <= number <= self.num_tokens for number in (self.rows, self.columns)):
            raise ShapeError(
                f"{self}: rows and columns must be from 1 to {self.num_tokens}, its number of tokens, got {self.rows!r:.20} "
                f"and {self.columns!r:.20}"
            )
        if self.rows * self.columns != self.num_tokens:
            raise ShapeError(
                f"{self}: {self.rows} rows of {self.columns} patches are {self.rows * self.columns} patches, but it has "
                f"{self.num_tokens} tokens ({self.start} to {self.end}); leave class tokens and separators out of the segment"
            )
        _check_picture(self, self.picture)

    def places(self) -> tuple[str, ...]:
        """Return `row 1, column 1`, and so on."""
        return tuple(f"row {i + 1}, column {j + 1}" for i in range(self.rows) for j in range(self.columns))

    def to_dict(self) -> dict[str, Any]:
        """Return the segment as JSON values, with the picture in base64."""
        values = super().to_dict()
        return values | ({"picture": base64.b64encode(self.picture).decode()} if self.picture else {})


@dataclass(frozen=True, kw_only=True)
class SoundSegment(Segment):
    """The frames of a sound, along time; `regard.frames` makes one.

    Example:
        >>> SoundSegment(start=0, end=3, seconds=0.02).places()
        ('0.00 s', '0.02 s', '0.04 s')
    """

    seconds: float
    """Length of one frame in seconds."""
    wave: tuple[float, ...] = ()
    """The envelope of the wave, for drawing: at most `MAX_WAVE` values from 0 to 1 at equal distances; empty if unknown."""
    kind: ClassVar[str] = "sound"
    unit: ClassVar[str] = "frame"
    has_places: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        [seconds] = _numbers(self, "seconds", [self.seconds])
        wave = _numbers(self, "wave", _items(self, "wave", self.wave))
        if not 1 / MAX_SECONDS <= seconds <= MAX_SECONDS:
            raise DataError(f"{self}: seconds, the length of a frame, must be from 1e-06 to 1e+06, got {seconds}")
        if len(wave) > MAX_WAVE or not all(0 <= value <= 1 for value in wave):
            raise DataError(f"{self}: wave must have at most {MAX_WAVE} values from 0 to 1, got {len(wave)} values")
        object.__setattr__(self, "seconds", seconds)
        object.__setattr__(self, "wave", wave)

    def places(self) -> tuple[str, ...]:
        """Return the time at which each frame begins, such as `1.24 s`."""
        places = min(6, max(2, math.ceil(-math.log10(self.seconds))))  # so that neighbours differ
        return tuple(f"{frame * self.seconds:.{places}f} s" for frame in range(self.num_tokens))


_KINDS: dict[str, type[Segment]] = {each.kind: each for each in (TextSegment, ImageSegment, SoundSegment)}


def from_dict(data: object) -> Segment:
    """Build a segment from what `Segment.to_dict` returned; the data are not trusted."""
    if not isinstance(data, Mapping):
        raise DataError(f"a segment must be an object with the fields of a segment, got {data!r:.40}")
    values = dict(data)
    kind = values.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise DataError(f"a segment's kind is {kind!r:.40}, expected one of {', '.join(_KINDS)}{nearest(str(kind), _KINDS)}")
    known = {each.name: each.default is MISSING for each in fields(_KINDS[kind])}
    for name in values.keys() - known.keys():
        raise DataError(f"a segment of the kind {kind!r} has no field {name!r:.40}{nearest(str(name), known)}")
    if missing := [name for name, is_needed in known.items() if is_needed and name not in values]:
        raise DataError(f"a segment of the kind {kind!r} lacks {', '.join(missing)}")
    if "picture" in values:
        try:
            values["picture"] = base64.b64decode(values["picture"], validate=True)
        except (TypeError, ValueError, binascii.Error) as error:
            raise DataError(f"the picture of a segment must be a PNG in base64: {error}") from error
    return _KINDS[kind](**values)


def check(name: str, values: Any, word_of: Sequence[int]) -> tuple[Segment, ...]:
    """Check and return the segments of one side; `word_of` has the index of each of its tokens' words."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise DataError(f"{name} must be a list of segments, got {type(values).__name__}")
    segments = tuple(each if isinstance(each, Segment) else from_dict(each) for each in values)
    end = 0
    owners = [-1] * len(word_of)  # the segment of each token
    for number, segment in enumerate(segments):
        if type(segment) is Segment:
            raise DataError(f"{name}: use one of {', '.join(each.__name__ for each in _KINDS.values())}, not Segment itself")
        if segment.start < end:
            raise DataError(f"{name}: {segment} begins at token {segment.start}, before the end of the one before it ({end})")
        end = segment.end
        if end > len(word_of):
            raise ShapeError(f"{name}: {segment} ends at token {end}, but the side has {len(word_of)} tokens")
        words = list(word_of[segment.start : end])
        if segment.has_places and (words[0] < 0 or words != list(range(words[0], words[0] + len(words)))):
            raise DataError(f"{name}: each token of {segment} must be a word of its own; see regard.record for an easy way")
        owners[segment.start : end] = [number] * segment.num_tokens
    first: dict[int, int] = {}
    for word, owner in zip(word_of, owners, strict=True):
        if word >= 0 and (before := first.setdefault(word, owner)) != owner:
            raise DataError(f"{name}: word {word} lies on both sides of a border of {segments[max(before, owner)]}")
    return segments


def text(words: Sequence[str], word_of: Sequence[int], segments: Iterable[Segment]) -> str:
    """Return the words joined by spaces; an image or a sound is one word, such as `[image 1]`."""
    joined: list[str | None] = list(words)
    for each in segments:
        if each.has_places:
            first = word_of[each.start]
            joined[first : first + each.num_tokens] = [f"[{each.name or each.kind}]", *[None] * (each.num_tokens - 1)]
    return " ".join(word for word in joined if word is not None)


def _check_picture(segment: Segment, picture: object) -> None:
    if not isinstance(picture, bytes):
        raise DataError(f"{segment}: picture must be bytes of a PNG file, got {type(picture).__name__}")
    if not picture:
        return
    if not picture.startswith(_PNG) or len(picture) < 24 or picture[12:16] != b"IHDR":
        raise DataError(f"{segment}: picture is not a PNG file; regard.patches converts any image")
    width, height = (int.from_bytes(picture[place : place + 4], "big") for place in (16, 20))
    if len(picture) > MAX_PICTURE_BYTES or not 1 <= width * height <= MAX_PICTURE_PIXELS:
        raise DataError(
            f"{segment}: picture has {len(picture)} bytes and {width} x {height} pixels, expected at most "
            f"{MAX_PICTURE_BYTES} bytes and {MAX_PICTURE_PIXELS} pixels; regard.patches makes images smaller"
        )


def _items(segment: Segment, name: str, values: Any) -> list[Any]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise DataError(f"{segment}: {name} must be a list, got {values!r:.40}")
    return list(values)


def _numbers(segment: Segment, name: str, values: Any) -> tuple[float, ...]:
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{segment}: {name} must be numbers: {error}") from error
    if not all(map(math.isfinite, numbers)):
        raise DataError(f"{segment}: {name} must be finite numbers")
    return numbers
