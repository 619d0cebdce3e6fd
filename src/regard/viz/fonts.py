"""Find installed fonts for a text, and the characters that no font has."""

import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

MAIN = "DejaVu Sans"
"""Font that matplotlib includes, so it is always available. It has Latin, Greek, Cyrillic, Hebrew, Arabic and more."""

_PREFERRED = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC", "PingFang SC", "Hiragino Sans GB",
    "Microsoft YaHei", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "SimHei", "Droid Sans Fallback", "Noto Sans",
    "Noto Sans Devanagari", "Nirmala UI", "Arial Unicode MS", "Segoe UI Symbol", "Noto Emoji", "Unifont",
)  # fmt: skip
_INVISIBLE = ("Cf", "Mn", "Zs")


class FontWarning(UserWarning):
    """Warning that no installed font has one of the characters in a picture."""


@lru_cache(maxsize=256)
def _characters(path: str, index: int) -> frozenset[int]:
    try:
        font = FT2Font(path, face_index=index) if index else FT2Font(path)
        return frozenset(font.get_charmap())
    except (OSError, RuntimeError, TypeError):  # broken or not scalable, or this matplotlib reads only the first face
        return frozenset()


def _installed() -> dict[str, tuple[str, int]]:
    """Return the file and the face index of the upright, regular font of each family, preferred families first."""
    regular: dict[str, tuple[str, int]] = {}
    for entry in sorted(font_manager.fontManager.ttflist, key=lambda entry: (entry.name, entry.fname)):
        if entry.style == "normal" and entry.weight in (400, "normal", "regular") and "Last" not in entry.name:
            regular.setdefault(entry.name, (entry.fname, getattr(entry, "index", 0)))
    ranks = {name: rank for rank, name in enumerate(_PREFERRED)}
    return dict(sorted(regular.items(), key=lambda item: (ranks.get(item[0], len(ranks)), item[0])))


@lru_cache(maxsize=1)
def _add_new_fonts() -> None:
    """Add fonts that Matplotlib's saved list lacks because they were installed later; only a new version renews this list."""
    known = {entry.fname for entry in font_manager.fontManager.ttflist}
    for path in sorted(set(font_manager.findSystemFonts()) - known):
        with suppress(OSError, RuntimeError, ValueError, NotImplementedError):  # broken fonts, and unsupported formats
            font_manager.fontManager.addfont(path)


def families(texts: Iterable[str]) -> tuple[list[str], str]:
    """Return font families, to be tried in this order for each character of the texts, and the characters that none has."""
    missing = {ord(c) for text in texts for c in text if c > "\x7f" and unicodedata.category(c) not in _INVISIBLE}
    missing -= _characters(font_manager.findfont(MAIN), 0)
    chosen = [MAIN, *_choose(missing)]
    if missing:
        # Looking for new fonts reads all font folders, so it comes last.
        _add_new_fonts()
        chosen += _choose(missing)
    return chosen, "".join(map(chr, sorted(missing)))


def _choose(missing: set[int]) -> list[str]:
    """Choose families that have wanted characters, and remove these characters from `missing`."""
    chosen = []
    for family, (path, index) in _installed().items() if missing else ():
        if have := missing & _characters(path, index):
            chosen.append(family)
            missing -= have
            if not missing:
                break
    return chosen
