"""Lines of `source ||| target`, as in fast_align."""

from functools import partial

from regard.text.rows import Format, most_lines
from regard.text.rows.tsv import read_tsv


def _has_bars(start: bytes) -> bool:
    return most_lines(start, lambda line: line.count(b"|||") == 1 and b"\t" not in line)


FORMAT = Format("separated by |||", partial(read_tsv, separator="|||"), begins=_has_bars)
