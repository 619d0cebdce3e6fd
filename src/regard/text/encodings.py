"""Advice on a file that is not UTF-8: its probable encoding, or how its lines read in several encodings."""

from collections.abc import Sequence
from pathlib import Path

from regard.text.opening import OVER_LONG_LINE, is_utf8, line_blocks
from regard.text.strings import is_unicode, quoted

# Encodings that can be suggested, and their usual names.
_SHOWN = {
    "cp1251": "Windows-1251", "cp1253": "Windows-1253", "cp1255": "Windows-1255", "cp1256": "Windows-1256", "koi8_r": "KOI8-R",
    "cp932": "Shift JIS", "euc_jp": "EUC-JP", "gb18030": "GB 18030", "big5": "Big5", "cp949": "Windows-949 (Korean)",
    "utf-16-le": "UTF-16 (little-endian) without a byte order mark",
    "utf-16-be": "UTF-16 (big-endian) without a byte order mark",
}  # fmt: skip
# Encodings of the Latin alphabet, which a text does not tell apart; the most common one first.
_LATIN = ("cp1252", "cp1250", "iso8859_2", "cp1254", "cp1257", "mac_roman", "cp850")
# Minimum share of ASCII among the bytes of a text in the Latin alphabet.
_LATIN_LETTERS = 0.75
_SAMPLE_BYTES = 1 << 16
# Number of characters after which the search for lines that are not UTF-8 ends.
_SEARCHED = 1 << 26


def advise_encoding(path: str | Path) -> str:
    """Return a sentence on the encoding of a file that is not UTF-8; empty if nothing is known about it."""
    name, sample = Path(path).name, _find_sample(path)
    lines, _ = next(line_blocks(path, "utf-8", any_line_ends=True), ([], range(0)))
    beyond = [line for line in lines if not line.isascii()]
    # With another encoding, lines that are UTF-8 would be read without an error, but as wrong letters.
    if sample and 10 * sum(map(is_unicode, beyond)) > len(beyond):
        return f"{name} has lines in UTF-8 and lines in another encoding: convert all lines to UTF-8."
    if found := find_encoding(sample):
        return f"{name} looks like {_SHOWN[found]}: set data.encoding to {found}."
    if sample.isascii() or sum(byte < 128 for byte in sample) <= _LATIN_LETTERS * len(sample):
        return ""
    # The user knows which letters are right. The line is the one that differs in the most encodings.
    line = max(sample.split(b"\n"), key=lambda line: len({line.decode(encoding, "replace") for encoding in _LATIN}))
    start = max(next(place for place, byte in enumerate(line) if byte > 127) - 20, 0)
    readings: dict[str, list[str]] = {}
    for encoding in _LATIN:
        readings.setdefault(line[start : start + 60].decode(encoding, "replace"), []).append(encoding)
    shown = ", ".join(f"{' or '.join(names)} ({quoted(reading)})" for reading, names in readings.items())
    return f"{name} is not in UTF-8: set data.encoding to the encoding that reads this line right: {shown}."


def advise_decoding(paths: Sequence[str | Path], encoding: str) -> str:
    """Return a sentence about files that could not be decoded, with the setting to use or to check."""
    if encoding != "auto" and not is_utf8(encoding):
        return f"Is data.encoding right? It is {encoding}."
    found = (advise_encoding(path) for path in paths)
    return next(filter(None, found), "Is the file in another encoding? Set data.encoding, or convert it to UTF-8.")


def find_encoding(sample: bytes) -> str | None:
    """Return Python's name of the probable encoding of a text that is not UTF-8; None for the Latin alphabet or if unknown."""
    halves = sample[0::2].count(0), sample[1::2].count(0)
    if max(halves) * 4 > len(sample) // 2 and max(halves) > 8 * min(halves):
        return "utf-16-le" if halves[1] > halves[0] else "utf-16-be"
    if sum(byte < 128 for byte in sample) > _LATIN_LETTERS * len(sample) or not sample:
        return None
    from charset_normalizer import from_bytes

    known = [name for name in _SHOWN if not name.startswith("utf")]
    match = from_bytes(sample, cp_isolation=known, preemptive_behaviour=False).best()
    return match.encoding if match and match.encoding in _SHOWN else None


def _find_sample(path: str | Path) -> bytes:
    """Return up to 64 KiB of the lines that are not UTF-8; if the file begins with lines that contain a NUL, return these."""
    found: list[str] = []
    size = 0
    for lines, numbers in line_blocks(path, "utf-8", any_line_ends=True):
        if numbers[0] == 1 and any("\0" in line and line is not OVER_LONG_LINE for line in lines):
            found = lines
            break
        found += [line[:_SAMPLE_BYTES] for line in lines if not is_unicode(line)]
        size += sum(map(len, lines))
        if sum(map(len, found)) >= _SAMPLE_BYTES or size >= _SEARCHED:
            break
    return "\n".join(found).encode("utf-8", "surrogateescape")[:_SAMPLE_BYTES]
