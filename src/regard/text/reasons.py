"""Reasons for skipping lines, which reports count."""

EMPTY_LINE = "empty line"
EMPTY_SOURCE = "empty source"
EMPTY_TARGET = "empty target"
TOO_FEW_COLUMNS = "too few columns"
TOO_MANY_COLUMNS = "too many columns"
HEADER = "header"
NOT_UNICODE = "not valid UTF-8"
IN_FILE = " ("
"""Separator between a reason and the name of a file, if each file has its own count."""
NUL = "holds a NUL character"
OVER_LONG = "over-long line"
EMPTY_TEXT = "empty text"
EMPTY_IMAGE = "empty name of an image"
MISSING_IMAGE = "no such image file"
EMPTY_LABEL = "empty label"
MISSING_LABEL = "missing label: NaN, N/A, null or None"
LONG_LABEL = "over-long label"
UNEVEN = "different numbers of words and tags"
REPEATED_SENTENCE = "exact repeat of an earlier sentence with the same tags"
REPEATED_TEXT = "exact repeat of an earlier text with the same label"
REPEATED_CAPTION = "exact repeat of an earlier image with the same text"
REPEATED_PAIR = "exact repeat of an earlier pair"
TOO_MANY_TOKENS = "more tokens than max_tokens"
BEYOND_MAX = "beyond max_{}s"
"""With the unit, such as `pair`, in the braces."""

UNUSABLE = (
    *(EMPTY_SOURCE, EMPTY_TARGET, TOO_FEW_COLUMNS, TOO_MANY_COLUMNS, NOT_UNICODE, NUL, OVER_LONG),
    *(EMPTY_TEXT, EMPTY_LABEL, MISSING_LABEL, LONG_LABEL, EMPTY_IMAGE, MISSING_IMAGE, UNEVEN),
)
"""Reasons that show a problem of the file: a file with many such lines is probably read in the wrong format."""
UNDECODABLE = (NOT_UNICODE, NUL)
"""Reasons that show that a file is probably in another encoding."""
NOT_DATA = (EMPTY_LINE, HEADER)
"""Reasons for skipping lines that hold no data."""
