"""The frame in which a notebook shows a record's page: the page's style and script stay inside, and nothing is cut off.

A frame cannot grow by itself, and it cannot see whether the notebook around it is dark. The page in it reports its height to a
script beside the frame. The script gives the frame this height, and answers with the notebook's theme, which it reads from the
colours around the frame. If a notebook runs no scripts, the frame keeps its first height, which is estimated for a narrow
notebook, and the system's theme.
"""

import html
from importlib import resources

from regard.records import AttentionRecord
from regard.records.views import sides
from regard.viz import page, page_words
from regard.viz.markup import Options, text

_TALLEST_TABLE = 640
"""Maximum height of a table in pixels; a taller table scrolls. The limit must not depend on the height of the frame, which
itself depends on the table.
"""
_STYLE = f".scroll{{max-height:{_TALLEST_TABLE}px}}thead th:not(.corner){{padding-left:.2rem;padding-right:.2rem}}"
_TELL = (resources.files("regard.viz") / "frame_inside.js").read_text(encoding="utf-8")
_LISTEN = (resources.files("regard.viz") / "frame_outside.js").read_text(encoding="utf-8")
_LINE, _CHARACTERS = 27, 50
"""Height of a line of text in pixels, and its number of characters in a notebook that is 600 pixels wide."""


def embed(record: AttentionRecord) -> str:
    """Return the page in a frame, for a notebook."""
    document = html.escape(page.build_document(record, Options(page.MAX_CELLS), _STYLE, _TELL), quote=True)
    return (
        f'<iframe class="regard-record" srcdoc="{document}" sandbox="allow-scripts" width="100%" '
        f'style="width:100%;height:{_estimate(record)}px;border:0" '
        f'title="Attention of: {text(page.heading(record), 120)}"></iframe>'
        f"<script>{_LISTEN}</script>"
    )


def _estimate(record: AttentionRecord) -> int:
    """Return the estimated height in pixels of a page that is 600 pixels wide; it tends to be too large."""
    first = page._sites(record)[0]
    height = 110 + _text(page.heading(record)) + _text(record.note) * 2
    if record.is_classification:
        height += 60 + _words(record.source_words, 40) + 32 * (1 + min(len(record.probabilities), page_words.MOST_LABELS))
        among = [site for site in record.sites if sides(site) != ("target", "source")]
        return height + sum(_matrix(record, site) for site in among[:1])
    return height + _text(record.target_text) + _text(record.reference or "") + 54 + _matrix(record, first)


def _matrix(record: AttentionRecord, site: str) -> int:
    rows, columns = record.words(site)
    tall = 36 if len(columns) <= 8 else 30 if len(columns) <= 24 else 24
    table = min(_TALLEST_TABLE, 210 + tall * len(rows))
    return 230 + table + _words(rows, 32) + _words(columns, 32)


def _words(words: tuple[str, ...], line: int) -> int:
    return line * (1 + sum(min(len(word), 200) + 3 for word in words) // 42)


def _text(words: str) -> int:
    return _LINE * (1 + len(words[:5000]) // _CHARACTERS)
