"""Slides of the two hours for a class: docs/lessons/slides/slides.md as one HTML file, and as PDF if Chromium is installed.

A line `---` separates slides. Below `???` is the number of minutes and the speaker's notes. `{{name}}` is a fact of facts.json.
Pictures are a file, `diagram:NAME`, `record:NAME` (a saved record), `grid:NAME` (all heads of one), or `causal` (a mask).
"""

import base64
import json
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from sphinx.application import Sphinx

from docs.site.diagrams import DIAGRAMS, STYLE, WIDTH
from docs.site.notebooks import pages

FOLDER = Path(__file__).parents[1] / "lessons" / "slides"
BROWSERS = "chromium", "chromium-browser", "google-chrome", "chrome"
_PICTURE = re.compile(r'<img src="([^"]*)" alt="([^"]*)"\s*/?>')
_WIDE = 1.9  # pictures of this shape get the width of the slide
_LETTERS = 12, 10  # size in points of letters and numbers in a map, and in small maps of all heads, for the last row of seats
_LESSON = re.compile(r"[Ll]esson (\d)")
_PDF = re.compile(r' (?:or )?\(?<a href="slides\.pdf">.*?</a>\)?')


@dataclass(frozen=True)
class Slide:
    """A slide: its Markdown, how many minutes it takes, and what the speaker says and does."""

    text: str
    minutes: int
    notes: str

    @property
    def title(self) -> str:
        """The text of its heading."""
        return self.text.splitlines()[0].lstrip("# ").replace("`", "")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the slides when the documentation has been built, and their plan into the page for it."""
    app.connect("source-read", _add_plan)
    app.connect("build-finished", lambda app, error: None if error else write(Path(app.outdir) / "lessons"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def slides() -> list[Slide]:
    """Return the slides, in order."""
    text = (FOLDER / "slides.md").read_text(encoding="utf-8")
    for name, fact in json.loads((FOLDER / "facts.json").read_text(encoding="utf-8")).items():
        text = text.replace(f"{{{{{name}}}}}", fact)
    found = []
    for part in text.split("\n---\n"):
        body, _, rest = part.partition("\n???")
        minutes, _, notes = rest.strip().partition("\n")
        found.append(Slide(body.strip(), int(minutes), notes.strip()))
    return found


def plan() -> str:
    """Return the table of the two hours: when each slide begins, and what the speaker does."""
    rows, minute = [], 0
    for number, slide in enumerate(slides(), 1):
        notes = _LESSON.sub(lambda found: f"[{found[0]}]({pages()[int(found[1]) - 1].name})", slide.notes)
        rows.append(f"| {minute // 60}:{minute % 60:02} | {number} | {slide.title} | {notes} |")
        minute += slide.minutes
    return "\n".join(["| time | slide | title | say and do |", "|---|---|---|---|", *rows])


def _add_plan(app: Sphinx, name: str, source: list[str]) -> None:
    if name in ("lessons/two-hours", "lessons/for-teachers"):
        app.env.note_dependency(str(FOLDER / "slides.md"))
        text = source[0].replace("<!-- plan -->", plan())
        source[0] = text if _browser() else _PDF.sub("", text)


def _browser() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def write(folder: Path) -> None:
    """Write slides.html and, with a browser, slides.pdf."""
    page = folder / "slides.html"
    page.write_text(html(), encoding="utf-8")
    browser = _browser()
    if browser is None:
        print(f"no PDF of the slides: none of {', '.join(BROWSERS)} is installed")
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-pdf-header-footer"]
        command += [f"--user-data-dir={profile}", f"--print-to-pdf={folder / 'slides.pdf'}", page.as_uri()]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"no PDF of the slides: {browser} failed ({type(error).__name__}); print lessons/slides.html instead")


def html() -> str:
    """Return the slides as one HTML file that needs no other."""
    template = (Path(__file__).parent / "slides.html").read_text(encoding="utf-8")
    style = STYLE.read_text(encoding="utf-8") + HtmlFormatter(style="default").get_style_defs("pre")
    return template.replace("/* style */", style).replace("<!-- slides -->", "\n".join(_sections()))


def _sections() -> Iterator[str]:
    parser = MarkdownIt("commonmark", {"highlight": _highlighted}).enable("table")
    parser.use(dollarmath_plugin, renderer=_formula)
    found = slides()
    for number, slide in enumerate(found, 1):
        heading, _, body = parser.render(slide.text).partition("\n")
        pictures = [_picture(slide.title, image) for image in _PICTURE.finditer(body)]
        words = _PICTURE.sub("", body).replace("<p></p>", "").strip()
        kind = "title" if slide.text.startswith("# ") else "text"
        if pictures:
            kind = "wide" if max(picture.shape for picture in pictures) > _WIDE or not words else "picture"
        notes = f"<aside>{parser.render(f'*{slide.minutes} minutes.* {slide.notes}')}</aside>"
        figures = "".join(picture.html for picture in pictures)
        place = f"<small>{number} / {len(found)}</small>"
        yield f'<section id="{number}" class="{kind}">{heading}<div class="text">{words}</div>{figures}{notes}{place}</section>'


def _formula(text: str, options: dict[str, Any]) -> str:
    return str(convert(text, display="block" if options["display_mode"] else "inline"))


def _highlighted(code: str, language: str, _: str) -> str:
    return highlight(code, get_lexer_by_name(language or "text"), HtmlFormatter(nowrap=True))


@dataclass(frozen=True)
class _Picture:
    html: str
    shape: float
    """Width divided by height."""


def _picture(title: str, image: re.Match[str]) -> _Picture:
    """Return a picture as HTML: a diagram as SVG, everything else as an image in the file itself."""
    source, alternative = image[1], image[2] or title
    kind, _, name = source.partition(":")
    if kind == "diagram":
        drawn = DIAGRAMS[name]()
        return _Picture(f"<figure>{drawn.svg()}</figure>", WIDTH / drawn.height)
    if kind.endswith(".png"):
        content, form = (FOLDER / source).resolve().read_bytes(), "png"
        width, height = struct.unpack(">II", content[16:24])
    else:
        content, form = _drawn(kind, name), "svg+xml"
        width, height = map(float, re.findall(rb'(?:width|height)="([\d.]+)pt"', content)[:2])
    data = f"data:image/{form};base64,{base64.b64encode(content).decode('ascii')}"
    return _Picture(f'<figure><img alt="{alternative}" src="{data}"></figure>', width / height)


def _drawn(kind: str, name: str) -> bytes:
    """Return the picture of a record as SVG."""
    import torch

    import regard
    from regard.attention import causal_mask
    from regard.viz import grid

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.svg"
        if kind == "causal":
            words = ["she", "opened", "the", "old", "door"]
            weights = torch.softmax(torch.zeros(5, 5).masked_fill(~causal_mask(5), float("-inf")), -1)
            record = regard.record({"encoder": weights}, words, words)
        else:
            record = regard.load_record(FOLDER / f"{name}.json")
        figure = grid.draw(record, family="cross", caption=False) if kind == "grid" else record.plot(caption=False)
        if not record.is_classification:
            size = _LETTERS[kind == "grid"]
            for axes in figure.axes:
                axes.tick_params(labelsize=size)
                axes.set_title(axes.get_title("left"), loc="left", fontsize=size, color="#14161a")
                for text in (*axes.texts, axes.xaxis.label, axes.yaxis.label):
                    text.set_fontsize(size)
        figure.savefig(path, bbox_inches="tight")
        return path.read_bytes()
