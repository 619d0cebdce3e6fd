"""Film the living page for the README: a pointer visits words, drags a band to another word, and the translation changes.

    python tools/film_page.py PAGE.html --to docs/_static/page.gif

`PAGE.html` is a page of the demo's translator: `regard demo`, then `regard page runs/demo --to PAGE.html`. Needs Chromium and
Pillow. The GIF has fewer than a million bytes: the page has few colours, and a frame stores what changed.
"""

import argparse
import base64
import io
import sys
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from browser import Browser

WIDTH, HEIGHT = 1000, 510
FRAME = 80  # milliseconds
POINTER = """(() => {
  const dot = document.createElement('div');
  dot.id = 'pointer';
  dot.style.cssText = 'position:fixed;width:16px;height:16px;margin:-8px;border-radius:8px;background:#d9480f;opacity:.85;'
    + 'pointer-events:none;z-index:99;left:-50px;top:0';
  document.body.append(dot);
  addEventListener('pointermove', (event) => {
    dot.style.left = `${event.clientX}px`;
    dot.style.top = `${event.clientY}px`;
  }, true);
})()"""


class Film:
    """Frames of a page, and the pointer that moves in it."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.frames: list[Image.Image] = []
        self.durations: list[int] = []
        self.place = (WIDTH - 40.0, 60.0)

    def shoot(self, milliseconds: int = FRAME) -> None:
        """Add a frame, or show the last one longer if nothing has changed."""
        shot = self.browser.call("Page.captureScreenshot", format="png")
        frame = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
        if self.frames and frame.tobytes() == self.frames[-1].tobytes():
            self.durations[-1] += milliseconds
        else:
            self.frames.append(frame)
            self.durations.append(milliseconds)

    def move(self, end: tuple[float, float], *, held: bool = False, steps: int = 8) -> None:
        """Move the pointer to a place, with a frame for each step."""
        start = self.place
        for step in range(1, steps + 1):
            share = step / steps
            share = share * share * (3 - 2 * share)  # slow at both ends, as a hand moves
            self.place = tuple(a + (b - a) * share for a, b in zip(start, end, strict=True))
            self.browser.mouse("mouseMoved", *self.place, held=held)
            self.browser.wait("Number(document.body.dataset.runs) === globalThis.regard.runs")
            self.shoot()

    def visit(self, selector: str, milliseconds: int = 700) -> None:
        """Point at an element for a while."""
        self.move(self.middle(selector))
        self.shoot(milliseconds)

    def press(self, kind: str) -> None:
        self.browser.mouse(kind, *self.place, held=kind == "mousePressed")

    def middle(self, selector: str) -> tuple[float, float]:
        """Return the middle of an element, without scrolling to it."""
        return tuple(
            self.browser.run(
                f"(() => {{ const b = document.querySelector('{selector}').getBoundingClientRect();"
                "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
            )
        )

    def save(self, path: Path) -> None:
        """Write the film with one palette for all frames, so that still parts are stored once."""
        both = Image.new("RGB", (WIDTH, 2 * HEIGHT + 80), "#d9480f")  # the pointer's colour is rare, and must not be lost
        both.paste("#b8431c", (0, 2 * HEIGHT + 40, WIDTH, 2 * HEIGHT + 80))
        both.paste(self.frames[0])
        both.paste(self.frames[-1], (0, HEIGHT))
        palette = both.quantize(200, method=Image.Quantize.MEDIANCUT)
        small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in self.frames]
        small[0].save(path, save_all=True, append_images=small[1:], duration=self.durations, loop=0, optimize=True)


def main() -> None:
    """Film the page."""
    parser = argparse.ArgumentParser(description="Film the living page.")
    parser.add_argument("page", type=Path)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--stills", type=Path, help="folder for the frames as PNG")
    options = parser.parse_args()
    browser = Browser()
    try:
        browser.open(options.page.resolve(), width=WIDTH, height=HEIGHT)
        browser.wait("document.body.dataset.runs")
        browser.run(POINTER)
        film = Film(browser)
        browser.run("scrollTo(0, document.querySelector('.result').getBoundingClientRect().top + scrollY - 20)")
        film.shoot(1500)
        for row in (1, 5, 7):
            film.visit(f'.bands .output[data-row="{row}"] .hit')
        grip = browser.run(
            '(() => { const grip = document.querySelector(\'.band[data-row="5"][data-column="7"] .grip\');'
            "const p = grip.getPointAtLength(24).matrixTransform(grip.getScreenCTM()); return [p.x, p.y]; })()"
        )
        film.move(tuple(grip))
        film.shoot(400)
        film.press("mousePressed")
        film.move(film.middle('.bands .source[data-column="1"] .hit'), held=True, steps=14)
        film.shoot(1200)
        film.press("mouseReleased")
        film.shoot(2500)
        film.save(options.to)
        if options.stills:
            for number, frame in enumerate(film.frames):
                frame.save(options.stills / f"{number:03}.png")
    finally:
        browser.close()
    seconds, size = sum(film.durations) / 1000, options.to.stat().st_size / 1000
    print(f"{options.to}: {len(film.frames)} frames, {seconds:.1f} s, {size:.0f} kB")


if __name__ == "__main__":
    main()
