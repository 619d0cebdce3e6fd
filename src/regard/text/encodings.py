"""The probable encoding of a file that is not UTF-8."""

from collections.abc import Sequence
from pathlib import Path

from regard.text.opening import OVER_LONG_LINE, is_utf8, line_blocks
from regard.text.strings import is_unicode

_SHOWN = {
    "cp1252": "Windows-1252", "cp1250": "Windows-1250", "cp1251": "Windows-1251", "cp1253": "Windows-1253",
    "cp1254": "Windows-1254", "cp1255": "Windows-1255", "cp1256": "Windows-1256", "cp1257": "Windows-1257",
    "iso8859_2": "ISO-8859-2", "koi8_r": "KOI8-R", "mac_roman": "Mac Roman", "cp850": "DOS code page 850",
    "cp932": "Shift JIS", "euc_jp": "EUC-JP", "gb18030": "GB 18030", "big5": "Big5", "cp949": "Windows-949 (Korean)",
    "utf-16-le": "UTF-16 (little-endian) without a byte order mark",
    "utf-16-be": "UTF-16 (big-endian) without a byte order mark",
}  # fmt: skip
"""Encodings that can be suggested, and their usual names."""
_LATIN = ("cp1252", "cp1250", "iso8859_2", "cp1254", "cp1257", "mac_roman", "cp850")
"""Encodings of the Latin alphabet. If several of them fit a text equally well, the first one is chosen."""
_ALPHABETS = tuple(
    frozenset(letters + letters.upper())
    for letters in (
        "äöüß", "àâæçéèêëîïôœùûüÿ", "áéíóúüñ", "ãõáéíóúâêôçàü", "àèéìíòóùú", "åäöé", "æøåéô", "äöå", "éëïóöüèêá", "áéíóúýþæöð",
        "àçèéíïòóúü", "ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "ăâîşţșț", "čćđšž", "çğıöşüâî",
        "āčēģīķļņšūž", "ąčęėįšųūž", "äõöüšž", "ëç",
    )
)  # fmt: skip
"""Letters outside ASCII, in one set for each language."""
_MARKS = frozenset("“”„‘’‚‹›«»–—…•·€£§°©®™¿¡½¼²³ªº´¨\u00a0")
_LEAST_FIT = 0.9
_LATIN_LETTERS = 0.75
"""Minimum share of ASCII among the bytes of a text in the Latin alphabet."""
_SAMPLE_BYTES = 1 << 16
_SEARCHED = 1 << 26
"""Number of characters after which the search for lines that are not UTF-8 ends."""


def advise_encoding(path: str | Path) -> str:
    """Return a sentence with the probable encoding of a file that is not UTF-8; empty if there is no good guess."""
    found, name = find_encoding(path), Path(path).name
    if found is None:
        return ""
    lines, _ = next(line_blocks(path, "utf-8", any_line_ends=True), ([], range(0)))
    beyond = [line for line in lines if not line.isascii()]
    # With another encoding, lines that are UTF-8 would be read without an error, but as wrong letters.
    if 10 * sum(map(is_unicode, beyond)) > len(beyond):
        return f"{name} has lines in UTF-8 and lines in {_SHOWN[found]}: convert all lines to UTF-8."
    return f"{name} looks like {_SHOWN[found]}: set data.encoding to {found}."


def advise_decoding(paths: Sequence[str | Path], encoding: str) -> str:
    """Return a sentence about files that could not be decoded, with the setting to use or to check."""
    if encoding != "auto" and not is_utf8(encoding):
        return f"Is data.encoding right? It is {encoding}."
    found = (advise_encoding(path) for path in paths)
    return next(filter(None, found), "Is the file in another encoding? Set data.encoding, or convert it to UTF-8.")


def find_encoding(path: str | Path) -> str | None:
    """Return Python's name of the probable encoding of a file; None if there is no good guess."""
    sample = _find_sample(path)
    if not sample:
        return None
    halves = sample[0::2].count(0), sample[1::2].count(0)
    if max(halves) * 4 > len(sample) // 2 and max(halves) > 8 * min(halves):
        return "utf-16-le" if halves[1] > halves[0] else "utf-16-be"
    ascii_share = sum(byte < 128 for byte in sample) / len(sample)
    fits = {name: _fit(sample, name) for name in _LATIN} if ascii_share > _LATIN_LETTERS else {}
    best = max(fits, key=fits.__getitem__) if fits else None
    if best and fits[best] >= _LEAST_FIT:
        return best
    return _detect(sample)


def _detect(sample: bytes) -> str | None:
    from charset_normalizer import from_bytes

    known = [name for name in _SHOWN if not name.startswith("utf")]
    match = from_bytes(sample, cp_isolation=known, preemptive_behaviour=False).best()
    if match is None or match.encoding not in _SHOWN:
        return None
    # If Windows-1252 gives the same text, it is almost always the encoding that was used.
    return "cp1252" if "cp1252" in match.could_be_from_charset else match.encoding


def _fit(sample: bytes, encoding: str) -> float:
    """Return the share of the non-ASCII characters that are usual marks or letters of the best-fitting language."""
    try:
        beyond = [letter for letter in sample.decode(encoding) if ord(letter) > 127]
    except UnicodeDecodeError:
        return 0.0
    return max(sum(letter in letters or letter in _MARKS for letter in beyond) for letters in _ALPHABETS) / max(len(beyond), 1)


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
