"""The living page for everybody: on narrow and wide windows, light and dark, by keyboard and for screen readers."""

import axe
import pytest
from export.test_page_in_a_browser import settle, show

pytestmark = [pytest.mark.browser, pytest.mark.slow]
OTHER_WINDOWS = [(390, False), (1280, True), (1920, False), (1920, True)]


@pytest.mark.parametrize(
    ("width", "dark"),
    [(390, True), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((1280, False), *OTHER_WINDOWS))],
)
@pytest.mark.parametrize(
    "names",
    [("recurrent", "other"), *(pytest.param((name,), marks=pytest.mark.slow) for name in ("recurrent", "reviews", "language"))],
)
def test_nothing_runs_out_of_the_page(chromium, made, width, dark, names):
    show(chromium, made.page(*names), width=width, dark=dark)
    assert chromium.run("document.documentElement.scrollWidth") <= width
    paper = chromium.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, paper.strip("rgb()").split(", "))) < 300) == dark


def test_everything_that_acts_has_a_name_and_a_role(chromium, made):
    for name in ("transformer", "reviews", "language"):
        show(chromium, made.page(name))
        chromium.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        chromium.run("new Promise((resolve) => setTimeout(resolve, 100))")
        chromium.call("Accessibility.enable")
        nodes = chromium.call("Accessibility.getFullAXTree")["nodes"]
        nameless = [
            node["role"]["value"]
            for node in nodes
            if not node.get("ignored")
            and node["role"]["value"] in ("button", "textbox", "combobox", "slider", "grid", "gridcell", "image")
            and not node.get("name", {}).get("value")
        ]
        assert [role for role in nameless if role != "gridcell"] == []
        assert chromium.run("document.documentElement.lang") == "en"
        assert "Attention weights do not prove which words the model's output depends on." in chromium.text("#honest")


@pytest.mark.skipif(not axe.FILE.exists(), reason="axe-core is not here: python tests/axe.py downloads it")
@pytest.mark.parametrize("name", ["recurrent", "transformer", "reviews", "language"])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_serious(chromium, made, name, dark, width):
    """Everything is open, a word is selected and changed, another one is left out, so that all colours are there."""
    show(chromium, made.page(name), width=width, dark=dark)
    chromium.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    if name != "reviews":
        chromium.run("globalThis.regard.views[0].selectRow(1)")
        chromium.click(".tools button", 1)
        settle(chromium)
    if name != "language":
        chromium.run("globalThis.regard.toggleWord(1)")
        settle(chromium)
    chromium.call("Runtime.evaluate", expression=axe.FILE.read_text(encoding="utf-8"))
    found = chromium.run(
        "axe.run(document).then((done) => [done.passes.length, done.violations.map((one) =>"
        " [one.id, one.impact, one.nodes.slice(0, 3).map((node) => node.target.join(' ') + ': ' + node.failureSummary)])])"
    )
    assert found[0] > 20  # it has looked
    assert [one for one in found[1] if one[1] in ("serious", "critical")] == []
