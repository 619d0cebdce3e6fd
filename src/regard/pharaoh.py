"""Reading of word alignments in the Pharaoh format, for the packages `records` and `text`."""

import re

from regard.errors import DataError

Link = tuple[int, int]
"""Index of the source word and of the target word, both from 0."""

_LINK = re.compile(r"(\d{1,9})([-?p])(\d{1,9})", re.ASCII)


def parse_pharaoh(line: str, *, where: str = "") -> tuple[set[Link], set[Link]]:
    """Read one line such as `0-0 1-2 3?4`, and return the sure links, and all links including the sure ones.

    `?` or `p` instead of `-` marks a possible link. `where` begins error messages, such as `gold.txt, line 3`.

    Raises:
        DataError: If a part of the line is not a link.
    """
    sure: set[Link] = set()
    possible: set[Link] = set()
    for part in line.split():
        match = _LINK.fullmatch(part)
        if match is None:
            place = f"{where}: " if where else ""
            raise DataError(f"{place}{part!r} is not a link, expected source-target counted from 0, such as 0-0 1-2 (or 1?2)")
        link = (int(match[1]), int(match[3]))
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return sure, possible
