"""The time that a page of `regard page` takes to load, and to translate a sentence, in Chromium and Firefox.

    python -m benchmarks page RUN [RUN …] [--rounds 5] [--words 12] [--texts FILE] [--browser chromium]

Each model gets a page, which is opened from a file, in a new process of the browser for every round. Loading ends when the
first result is shown. Then sentences of 12 words are typed. The time of a sentence ends when the page shows the result with its
attention. Prints one JSON line for each page and browser: medians and largest values, in milliseconds.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.export.page import write_page

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # the drivers of the browsers

from browser import CHROMIUM, Browser
from firefox import FIREFOX, Firefox

SENTENCES = (
    "The old man gives the child a red apple in the garden.",
    "My brother has not closed the old window because he was tired.",
    "Although the boys sang in the garden, she slept in the house.",
    "a man in a blue shirt is standing on a ladder outside .",
    "two brown dogs are playing in the snow near a small house",
)
BROWSERS = {"chromium": (CHROMIUM, Browser), "firefox": (FIREFOX, Firefox)}
TRANSLATE = """(async (text) => {
  const start = performance.now();
  await globalThis.regard.setText(text);
  return performance.now() - start;
})(%s)"""


def read_texts(file: str | None, words: int) -> list[str]:
    """Return sentences of a file, or built-in ones, cut to a number of words."""
    lines: Sequence[str] = SENTENCES
    if file:
        lines = [line.partition("\t")[0] for line in Path(file).read_text(encoding="utf-8").splitlines()]
    found = [" ".join(line.split()[:words]) for line in lines if len(line.split()) >= words]
    if not found:
        raise SystemExit(f"benchmarks: no text has {words} words")
    return found[:20]


def open_page(kind: type[Any], page: Path, texts: Sequence[str]) -> tuple[float, list[float], str]:
    """Open a page in a new browser. Return the loading time, the time of each text, and the name of the search."""
    browser = kind()
    try:
        browser.open(page)
        browser.wait("document.body.dataset.runs")
        loaded = browser.run("globalThis.regard.readyAt")
        times = [browser.run(TRANSLATE % json.dumps(text)) for text in texts]
        return loaded, times, browser.run("document.querySelector('#search select').selectedOptions[0]?.textContent ?? ''")
    finally:
        browser.close()


def main() -> None:
    """Measure each page in each browser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks page", description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="+", help="folders of trained models")
    parser.add_argument("--rounds", type=int, default=5, help="number of times that each page is opened (default: 5)")
    parser.add_argument("--words", type=int, default=12, help="words of each text (default: 12)")
    parser.add_argument("--texts", help="file of texts, one per line (default: built-in sentences)")
    parser.add_argument("--browser", choices=tuple(BROWSERS), action="append", help="browser, may be repeated (default: both)")
    options = parser.parse_args()
    texts = read_texts(options.texts, options.words)
    with tempfile.TemporaryDirectory() as folder:
        for number, run in enumerate(options.runs):
            page = write_page(run, Path(folder) / f"{number}.html")
            for name in options.browser or BROWSERS:
                program, kind = BROWSERS[name]
                if program is None:
                    print(f"benchmarks: no {name} is installed", file=sys.stderr)
                    continue
                rounds = [open_page(kind, page.path, texts) for _ in range(options.rounds)]
                loads = [loaded for loaded, _, _ in rounds]
                times = [time for _, each, _ in rounds for time in each]
                result: dict[str, Any] = {"benchmark": "page", "model": page.models[0], "browser": name, "search": rounds[0][2]}
                result |= {"page_mb": round(page.size / 1e6, 1), "rounds": len(rounds), "words": options.words}
                result |= {"load_ms": round(statistics.median(loads)), "slowest_load_ms": round(max(loads))}
                result |= {"text_ms": round(statistics.median(times)), "slowest_text_ms": round(max(times))}
                print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
