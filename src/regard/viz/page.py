"""Records as one self-contained HTML page. It makes no requests, and no text of a word can run as code.

The page shows each translation as two lines of words and as a grid with a value in each cell, and each classification as words
with the colours of their weights. All this is visible without scripts. The script adds interaction: for example, selecting a
word shades the words of the other line. Images and sounds have figures, over which the script draws the weights of the selected
word. The content security policy allows only the page's own style and script, by their hashes, and the images inside it.

A notebook shows the page in a frame, so that the page's style and script stay inside. A frame cannot grow by itself, and it
cannot see whether the notebook around it is dark. The page in it reports its height to a script beside the frame. This script
gives the frame this height, and answers with the notebook's theme, which it reads from the colours around the frame. If a
notebook runs no scripts, the frame scrolls.
"""

import base64
import hashlib
import html
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from regard.errors import RequestError
from regard.records import AttentionRecord
from regard.rendering import Units
from regard.viz import page_views, places
from regard.viz.labels import escaped, label
from regard.viz.numbers import fixed
from regard.viz.page_views import LEVELS, Options
from regard.viz.summary import headline

if TYPE_CHECKING:
    from jinja2 import Template

MAX_CELLS = 1_500_000
"""Maximum number of cells of all matrices of a page, about 5 MB. Beyond it, first heads and then sites are left out."""
# Maximum number of characters of a heading.
_LONGEST_HEADING = 240
# Style of a page in a frame, where heights must not depend on that of the frame, which depends on those of tables and images.
_FRAME_STYLE = (
    ".scroll{max-height:640px}thead th:not(.corner){padding-left:.2rem;padding-right:.2rem}"
    ".image .under{width:min(100%,420px * var(--aspect,1))}.stage{position:static}"
)


def render(
    records: AttentionRecord | Iterable[AttentionRecord],
    *,
    site: str | None = None,
    special: bool = False,
    caption: bool = True,
    units: Units = "auto",
) -> str:
    """Build an HTML page of one or several records; the options are those of `drawing.draw`.

    The site and the units are those that are shown first; the page can switch to others. The same records give the same text.
    """
    many = [records] if isinstance(records, AttentionRecord) else list(records)
    if not many:
        raise RequestError("page.render: there is no record to show, expected at least one")
    return _document(many, site=site, special=special, caption=caption, units=units)


def embed(record: AttentionRecord) -> str:
    """Return the page of a record in a frame, for a notebook."""
    document = html.escape(_document([record], style=_FRAME_STYLE, script=_asset("frame_inside.js")))
    return (
        f'<iframe class="regard-record" srcdoc="{document}" sandbox="allow-scripts" width="100%" '
        f'style="width:100%;height:640px;border:0" title="Attention of: {escaped(_heading(record), 120)}"></iframe>'
        f"<script>{_asset('frame_outside.js')}</script>"
    )


def _document(records: list[AttentionRecord], *, style: str = "", script: str = "", **options: Any) -> str:
    """Build a page; `style` and `script` are added to those of all pages, and must come from this package."""
    # No text of a record may become part of the style or the script: the policy allows both by their hashes.
    style = _asset("page.css") + page_views.palette() + style
    script = _asset("page_places.js") + _asset("page.js") + _asset("page_words.js") + script
    texts = records[0].source_text, records[0].target_text
    # All records of a page share the budget of cells.
    chosen = Options(MAX_CELLS // len(records), **options)
    return _template().render(
        policy=(
            f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; "
            "form-action 'none'"
        ),
        title=label(" → ".join(text for text in texts if text.strip()), 120),
        style=style,
        script=script,
        levels=LEVELS,
        names=[label(_name(record), 200) for record in records] if len(records) > 1 else [],
        noun="texts" if all(record.is_classification for record in records) else "sentences",
        articles=[_article(record, chosen) for record in records],
    )


@lru_cache
def _template() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined  # pictures do without this slow import

    environment = Environment(
        loader=PackageLoader("regard.viz"), autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters["shown"] = lambda text: label(text, 5000)
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    return environment.get_template("page.html")


@lru_cache
def _asset(name: str) -> str:
    return resources.files("regard.viz").joinpath(name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _heading(record: AttentionRecord) -> str:
    """Return the text above a record: the input of the model, or its output if there is no input."""
    return label(record.target_text if _is_unprompted(record) else record.source_text, _LONGEST_HEADING)


def _is_unprompted(record: AttentionRecord) -> bool:
    return record.target_is_read and not record.source_text.strip() and bool(record.target_text.strip())


def _name(record: AttentionRecord) -> str:
    before = f"{headline(record, with_probability=False)}: " if record.is_classification else ""
    return before + _heading(record)


def _article(record: AttentionRecord, options: Options) -> dict[str, Any]:
    """Return what the template shows of one record."""
    placed = (site for site in record.sites if places.kind(record, site))
    usual = next(placed, record.sites[0])
    first = next((site for site in (options.site, "cross", "pool") if site in record.weights), usual)
    sites = [first, *(site for site in record.sites if site != first)]
    if record.is_classification:
        return page_views.classification(record, sites, options)
    facts = [("output", record.target_text)] if record.target_text.strip() and not _is_unprompted(record) else []
    if record.reference is not None:
        facts.append(("reference", record.reference))
    if record.score is not None:
        facts.append(("score of the search", fixed(record.score)))
    if record.log_probability is not None:
        facts.append(("log probability", fixed(record.log_probability)))
    return {"heading": _heading(record), "facts": facts, "matrices": page_views.matrices(record, sites, options)}
