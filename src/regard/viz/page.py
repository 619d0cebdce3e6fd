"""Records as one self-contained HTML page. It makes no requests, and no text of a word can run as code.

The page shows each translation as two lines of words and as a grid with a value in each cell, and each classification as words
with the colours of their weights. All this is visible without scripts. The script adds interaction: for example, selecting a
word shades the words of the other line. The content security policy allows only the page's own style and script, by their
hashes.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import resources

from regard.errors import RequestError
from regard.records import AttentionRecord
from regard.rendering import Units
from regard.viz import page_matrix, page_words
from regard.viz.labels import label
from regard.viz.markup import Options, facts, palette, text
from regard.viz.numbers import fixed
from regard.viz.summary import headline

MAX_CELLS = 1_500_000
"""Maximum number of cells of all matrices of a page, about 5 MB. Beyond it, first heads and then sites are left out."""
_LONGEST_HEADING = 240
"""Maximum number of characters of a heading."""


def render(
    records: AttentionRecord | Iterable[AttentionRecord], *, special: bool = False, caption: bool = True, units: Units = "auto"
) -> str:
    """Build an HTML page of records.

    Args:
        records: One record, or several for one page.
        special: If True, special tokens are shown like words.
        caption: If False, the page has no text about what the weights show.
        units: Units that are shown first; see `AttentionRecord.in_units`. The page can switch to others.

    Returns:
        A complete HTML document. The same records give the same text.

    Raises:
        RequestError: If there is no record.
    """
    return build_document(records, Options(MAX_CELLS, special, caption, units))


def build_document(
    records: AttentionRecord | Iterable[AttentionRecord], options: Options, more_style: str = "", more_script: str = ""
) -> str:
    """Build a page of records with additional style and script, which must come from this package.

    Args:
        records: One record, or several for one page.
        options: Options of the page; the budget is for all records together.
        more_style: Appended to the page's style sheet.
        more_script: Appended to the page's script.

    Raises:
        RequestError: If there is no record.
    """
    many = [records] if isinstance(records, AttentionRecord) else list(records)
    if not many:
        raise RequestError("page.render: there is no record to show, expected at least one")
    style = _asset("page.css") + palette() + more_style
    script = _asset("page.js") + _asset("page_words.js") + more_script
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    title = text(" → ".join(part for part in (many[0].source_text, many[0].target_text) if part.strip()), 120)
    options = replace(options, budget=options.budget // len(many))
    articles = "\n".join(_article(record, number, options) for number, record in enumerate(many))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n{_contents(many)}{articles}\n</main>\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


@lru_cache
def _asset(name: str) -> str:
    return resources.files("regard.viz").joinpath(name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _sites(record: AttentionRecord) -> list[str]:
    """Return the sites, beginning with the default site."""
    first = next((site for site in ("cross", "pool") if site in record.weights), record.sites[0])
    return [first, *(site for site in record.sites if site != first)]


def _contents(records: Sequence[AttentionRecord]) -> str:
    if len(records) == 1:
        return ""
    links = "\n".join(
        f'<li><a href="#record-{number}" dir="auto">{text(_name(record), 200)}</a></li>'
        for number, record in enumerate(records)
    )
    what = "texts" if all(record.is_classification for record in records) else "sentences"
    return f'<h1>Attention of {len(records)} {what}</h1>\n<nav aria-label="Contents"><ol>\n{links}\n</ol></nav>\n'


def heading(record: AttentionRecord) -> str:
    """Return the text above a record: the input of the model, or its output if there is no input."""
    return label(record.target_text if _is_unprompted(record) else record.source_text, _LONGEST_HEADING)


def _is_unprompted(record: AttentionRecord) -> bool:
    return record.target_is_read and not record.source_text.strip() and bool(record.target_text.strip())


def _name(record: AttentionRecord) -> str:
    before = f"{headline(record, with_probability=False)}: " if record.is_classification else ""
    return before + heading(record)


def _article(record: AttentionRecord, number: int, options: Options) -> str:
    sites = _sites(record)
    if record.is_classification:
        return f'<article id="record-{number}" class="classified">\n{page_words.body(record, sites, options)}</article>'
    items = [("output", record.target_text)] if record.target_text.strip() and not _is_unprompted(record) else []
    if record.reference is not None:
        items.append(("reference", record.reference))
    if record.score is not None:
        items.append(("score of the search", fixed(record.score)))
    if record.log_probability is not None:
        items.append(("log probability", fixed(record.log_probability)))
    return (
        f'<article id="record-{number}" class="matrix">\n<h2 dir="auto">{text(heading(record))}</h2>\n{facts(items)}'
        f"{page_matrix.body(record, sites, options)}</article>"
    )
