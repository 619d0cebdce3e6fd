"""`python -m docs.generate`: train, draw and write the pages. `--text` writes only text, from the saved results."""

import argparse
import json
import time
from typing import Any

from docs.generate import pictures
from docs.generate.lessons import save_all
from docs.generate.page import MECHANISMS
from docs.generate.results import FOLDER, RESULTS, train_all, write_results
from docs.generate.topics import pages
from docs.site.notebooks import write_student_notebooks


def main() -> None:
    """Train, draw and write everything, or skip training and drawing as the options say."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description="Write docs/mechanisms and student notebooks.")
    parser.add_argument("--text", action="store_true", help="write pages and notebooks only: no training, no pictures")
    parser.add_argument("--draw", action="store_true", help="draw and write, without training")
    parser.add_argument("--lessons", action="store_true", help="run the lessons and save the attention that the slides show")
    options = parser.parse_args()
    if options.lessons:
        save_all()
        return
    started = time.monotonic()
    if not (options.text or options.draw):
        write_results(train_all())
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    if not options.text:
        draw_all(results)
    for name, text in pages(results).items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"{FOLDER.name}/{name}: {len(text.splitlines())} lines")
    for file in write_student_notebooks():
        print(f"lessons/student/{file.name}")
    print(f"{time.monotonic() - started:.0f} s")


def draw_all(results: dict[str, Any]) -> None:
    """Draw every picture."""
    folder = FOLDER / "figures"
    folder.mkdir(exist_ok=True)
    for entry in MECHANISMS:
        pictures.mechanism(results[entry.name], folder / f"{entry.slug}.png")
    pictures.variants(results, folder / "multi-head-variants.png")
    pictures.normalizers(folder / "normalizers.png")
    pictures.masks(folder / "masks.png")
    pictures.positions(folder / "positions.png")


if __name__ == "__main__":
    main()
