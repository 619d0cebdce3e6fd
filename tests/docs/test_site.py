"""What the documentation's own extensions make: diagrams, formulas, commands, folded pages and slides."""

import re
from xml.etree import ElementTree

import pytest
from docs.formulas import FORMULAS
from docs.generate.page import MECHANISMS
from docs.site import commands, errors, generated, slides
from docs.site.diagrams import DIAGRAMS, WIDTH
from latex2mathml.converter import convert

from regard.cli.main import command_names
from regard.config.plugins import BUILT_IN


@pytest.mark.parametrize("name", DIAGRAMS)
def test_shapes_of_a_diagram_lie_inside_it(name):
    drawn = DIAGRAMS[name]()
    root = ElementTree.fromstring(drawn.svg())
    assert root.attrib["viewBox"] == f"0 0 {WIDTH} {drawn.height}"
    assert root.attrib["aria-label"].endswith(".")
    rects = root.findall("{http://www.w3.org/2000/svg}rect")
    for rect in rects:
        x, y, width, height = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + width <= WIDTH
        assert y + height <= drawn.height
    points = re.findall(
        r"(-?[\d.]+) (-?[\d.]+)", " ".join(path.attrib["d"] for path in root.iter() if path.attrib.get("marker-end"))
    )
    assert points
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= drawn.height for x, y in points)


def test_a_diagram_in_a_file_has_its_own_style():
    alone = DIAGRAMS["attention"]().svg(style="rect { fill: red }")
    assert ElementTree.fromstring(alone).find("{http://www.w3.org/2000/svg}style").text == "rect { fill: red }"


def test_every_mechanism_has_a_formula():
    assert {entry.name for entry in MECHANISMS} == set(FORMULAS)
    for name, formula in FORMULAS.items():
        assert "<math" in convert(formula, display="block"), name


def test_the_page_of_commands_has_every_command_and_option():
    text = commands.page()
    for name in set(command_names()) - {"train"}:
        section = text.partition(f"\n## regard {name}\n")[2].partition("\n## ")[0]
        options = {option for action in commands.parser_of([name])._actions for option in action.option_strings}
        assert options - {"-h", "--help", "--any.setting"} <= set(re.findall(r"--?[a-z][\w.-]*", section)), name
        assert f"](#regard-{name})" in text
    assert all(f"\n## regard train {task}\n" in text for task in BUILT_IN)
    assert "usage:" not in text


@pytest.mark.parametrize("page", [errors.page(), *generated.settings().values()], ids=lambda page: page.splitlines()[0])
def test_folded_pages_close_what_they_open(page):
    assert page.count(":::{dropdown}") == len(re.findall(r"^:::$", page, re.M))
    assert ":::{dropdown}" not in page or "data-filter" in page


def test_the_slides_take_two_hours_and_have_their_pictures_and_facts():
    found = slides.slides()
    assert sum(slide.minutes for slide in found) == 120
    assert all(slide.notes and slide.text.startswith("#") for slide in found)
    page = slides.html()
    assert page.count("<section") == len(found)
    assert page.count("<figure>") == sum(slide.text.count("![](") for slide in found)
    assert "{{" not in page
    assert "![](" not in page
    assert "https://" not in page.replace("http://www.w3.org", "")
    assert slides.plan().count("\n") == len(found) + 1
