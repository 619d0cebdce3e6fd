"""A record in a notebook's cell of 600 pixels: nothing is cut off, with scripts and without, light and dark."""

import re
import subprocess

import numpy as np
import pytest
from browser import Browser
from viz.test_page_in_a_browser import CHROMIUM, FLAGS

from regard.records import AttentionRecord, record

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium or chrome is installed"),
]


def matrix(words, *, long=False):
    names = [("Donaudampfschifffahrtsgesellschaft" if long else "word") + str(number) for number in range(words)]
    made = np.eye(words) * 0.8 + 0.2 / words
    return record({"cross": np.stack([made, made]), "encoder.0": made}, names, names)


def classified(words):
    names = tuple(f"word{number}" for number in range(words))
    return AttentionRecord(
        source_tokens=names,
        target_tokens=("good",),
        source_words=names,
        target_words=("good",),
        source_word_of=tuple(range(words)),
        target_word_of=(0,),
        weights={
            "pool": np.full((1, words), 1 / words, np.float32),
            "encoder.0": np.full((words, words), 1 / words, np.float32),
        },
        source_text=" ".join(names),
        target_text="good",
        probabilities={"good": 0.75, "bad": 0.25},
    )


RECORDS = {
    "one word": matrix(1),
    "8 words": matrix(8),
    "8 long words": matrix(8, long=True),
    "40 words": matrix(40),
    "120 words": matrix(120),
    "classification of 8": classified(8),
    "classification of 120": classified(120),
}


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


def heights(browser, tmp_path, shown, *, dark):
    """The heights of the frame and of the page in it, which tells its own."""
    scheme = "dark" if dark else "light"
    path = tmp_path / "cell.html"
    path.write_text(
        f'<!doctype html><html style="color-scheme:{scheme}"><body style="margin:0">'
        "<script>var told=0;addEventListener('message',(e)=>{told=e.data.regardHeight})</script>"
        f'<div style="width:600px;overflow:hidden">{shown}</div></body></html>',
        encoding="utf-8",
    )
    browser.open(path, dark=dark)
    browser.wait("told")
    browser.run("new Promise((done) => setTimeout(done, 300))")  # what follows from it
    frame, page, width = browser.run("((f) => [f.clientHeight, told, f.clientWidth])(document.querySelector('iframe'))")
    assert width == 600
    assert page > 100
    return frame, page


def themes(tmp_path, style, *, dark_system, change=""):
    """Whether the system is dark, and the themes that the frame of a record had, one after the other."""
    listen = (
        "const had=[];addEventListener('message',(e)=>{const t=e.data.regardShows;if(t&&t!==had.at(-1))had.push(t)});"
        # The browser's virtual time runs ahead of the frame, which is another process: work in each turn holds it back.
        "const end=Date.now()+20000;const wait=setInterval(()=>{for(let i=0,x=0;i<3e7;i++)x+=i;"
        f"if(had.length<{2 if change else 1}&&Date.now()<end)return;clearInterval(wait);"
        "const o=document.createElement('output');o.id='got';"
        "o.textContent=[matchMedia('(prefers-color-scheme: dark)').matches,...had].join();document.body.append(o)},100);"
    )
    later = f"const turn=setInterval(()=>{{if(had.length){{clearInterval(turn);{change}}}}},100)" if change else ""
    text = (
        f"<!doctype html><html><body><div {style}><script>{listen}{later}</script>"
        f"<div>{RECORDS['8 words']._repr_html_()}</div></div></body></html>"
    )
    path = tmp_path / "cell.html"
    path.write_text(text, encoding="utf-8")
    flags = [flag.replace("budget=2000", "budget=30000") for flag in FLAGS]
    scheme = f"--blink-settings=preferredColorScheme={0 if dark_system else 1}"
    command = [CHROMIUM, *flags, scheme, f"--user-data-dir={tmp_path / 'profile'}", path.as_uri()]
    for _ in range(5):
        dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
        system, *had = re.search(r'<output id="got">(.*?)</output>', dom)[1].split(",")
        if had and (not change or len(had) > 1):
            break
    assert system == ("true" if dark_system else "false")
    return had


DARK, LIGHT = 'style="background:#111;color:#eee"', 'style="background:#fff;color:#111"'


@pytest.mark.parametrize("dark_system", [False, True])
@pytest.mark.parametrize(
    ("style", "expected"),
    [(DARK, "dark"), (LIGHT, "light"), ('style="color:#eee"', "dark"), ('style="background:rgb(0 0 0 / 5%)"', "light")],
    ids=["dark", "light", "light text", "almost transparent"],
)
def test_a_frame_has_the_notebooks_theme_whatever_the_systems(tmp_path, style, expected, dark_system):
    assert themes(tmp_path, style, dark_system=dark_system) == [expected]


def test_a_frame_follows_when_the_notebook_changes_its_theme(tmp_path):
    change = "document.querySelector('body>div').style.background='#111';document.body.dataset.theme='dark'"
    assert themes(tmp_path, LIGHT, dark_system=False, change=change) == ["light", "dark"]


@pytest.mark.parametrize("name", RECORDS)
def test_the_frame_becomes_as_tall_as_the_page(browser, tmp_path, name):
    frame, page = heights(browser, tmp_path, RECORDS[name]._repr_html_(), dark=name == "40 words")
    assert frame == page
