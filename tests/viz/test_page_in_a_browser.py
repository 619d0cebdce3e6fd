import re
import shutil
import subprocess

import numpy as np
import pytest

from regard.records import frames, patches, record
from regard.viz import page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--virtual-time-budget=2000", "--dump-dom",
]  # fmt: skip

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="no chromium or chrome is installed")]


def dump(tmp_path, text, script=None):
    """The page after its own script and, with its policy lifted, a given one have run."""
    if script is not None:
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
        text = text.replace("</body>", f"<script>{FOCUS}{TELL}{script}</script></body>")
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def made():
    weights = np.array([[0.8, 0.2, 0.0], [0.0, 0.1, 0.9]])
    return record(
        {"cross": np.stack([weights, 1 - weights]), "encoder.0": np.eye(3)}, ["she", "kissed", "him"], ["küsste", "ihn"]
    )


def results(dom):
    return re.search(r'<output id="results">(.*?)</output>', dom, re.DOTALL)[1].split("|")


# What a script found; `results` reads it.
TELL = """
const tell = (text) => {
  const output = document.createElement("output");
  output.id = "results";
  output.textContent = text;
  document.body.append(output);
};
"""
# The window of a busy browser may not have the focus yet, and then no element says that it gets it.
FOCUS = """
const plain = HTMLElement.prototype.focus;
HTMLElement.prototype.focus = function () {
  let heard = false;
  this.addEventListener("focusin", () => (heard = true), { once: true });
  plain.call(this);
  if (!heard) this.dispatchEvent(new FocusEvent("focusin", { bubbles: true }));
};
"""
SCRIPT = """
const all = (q) => [...document.querySelectorAll(q)];
const got = [];
const readout = () => got.push(document.querySelector(".readout").textContent);
const over = (element) => element.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
const key = (name) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
const choose = (q, value) => {
  document.querySelector(q).value = value;
  document.querySelector(q).dispatchEvent(new Event("change"));
};
choose("select.head", "0");
over(document.querySelector(".rows .word"));
readout();
got.push(all(".columns .word").map((x) => x.className).join(","));
over(all(".columns .word")[2]);
readout();
got.push(all(".rows .word").map((x) => x.className).join(","));
over(all("td")[5]);
readout();
got.push(all(".here").map((x) => x.textContent).join(","));
all("[tabindex]")[0].focus();
readout();
key("ArrowRight");
readout();
document.querySelector("td").focus();
key("ArrowDown");
key("End");
readout();
got.push(all('[tabindex="0"]').length);
choose("select.site", "encoder.0");
got.push(all(".name").map((x) => x.textContent).join(","), all("tbody tr").length);
got.push(document.querySelector(".head").parentElement.hidden);
got.push(performance.getEntriesByType("resource").length);
tell(got.join("|"));
"""


def test_words_and_cells_shade_and_speak(tmp_path):
    assert results(dump(tmp_path, page.render(made()), SCRIPT)) == [
        "küsste ← she 0.80 · kissed 0.20",
        "word a16,word a4,word a0",
        "him → ihn 0.90",
        "word a0,word a18",
        "ihn ← him: 0.90",
        "him,ihn,him,ihn,0.90",
        "she → küsste 0.80",
        "kissed → küsste 0.20 · ihn 0.10",
        "ihn ← him: 0.90",
        "3",
        "attended,attending",
        "3",
        "true",
        "0",
    ]


def test_the_page_runs_under_its_own_policy_and_stays_its_own(tmp_path):
    hostile = (
        "</script><script>document.title='taken'</script><img src=https://example.org/x onerror=\"document.title='taken'\">"
    )
    dom = dump(tmp_path, page.render(record([[0.5, 0.5]], [hostile, "b"], ["x"])))
    assert "Hover or focus a word or a cell." in dom
    assert "<title>taken" not in dom
    assert "<img" not in dom


def test_sentences_from_right_to_left_run_so_and_so_do_the_arrows(tmp_path):
    script = """
    const line = document.querySelector(".columns .words");
    line.children[0].focus();
    line.children[0].dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
    const output = document.createElement("output");
    output.id = "results";
    const right = line.children[0].getBoundingClientRect().left > line.children[1].getBoundingClientRect().left;
    output.textContent = [getComputedStyle(line).direction, right, document.activeElement === line.children[1]].join("|");
    document.body.append(output);
    """
    text = page.render(record(np.eye(2), ["قبلت", "الولد"], ["she", "him"]))
    assert results(dump(tmp_path, text, script)) == ["rtl", "true", "true"]


def test_a_wide_table_from_right_to_left_begins_with_the_first_words(tmp_path):
    script = """
    const box = document.querySelector(".scroll").getBoundingClientRect();
    const first = document.querySelector("thead th:nth-child(2)").getBoundingClientRect();
    tell([document.querySelector(".scroll").scrollWidth > box.width, first.right <= box.right].join("|"));
    """
    words = ["المدرسة"] * 120
    text = page.render(record(np.eye(120), words, words))
    assert results(dump(tmp_path, text, script)) == ["true", "true"]


def test_words_speak_at_a_site_without_frames(tmp_path):
    script = """
    const site = document.querySelector("select.site");
    site.value = "decoder.0";
    site.dispatchEvent(new Event("change"));
    document.querySelector(".columns .word").dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
    const output = document.createElement("output");
    output.id = "results";
    const [readout, figure] = [document.querySelector(".readout"), document.querySelector("figure")];
    output.textContent = [readout.offsetHeight > 0, readout.textContent, figure.offsetHeight].join("|");
    document.body.append(output);
    """
    weights = {"decoder.0": np.array([[0.75, 0.25], [0.5, 0.5]]), "cross.0": np.full((2, 4), 0.25)}
    found = results(dump(tmp_path, page.render(record(weights, frames(4, 0.1), ["yes", "no"])), script))
    assert found[0] == "true"
    assert "no" in found[1]
    assert found[2] == "0"


def test_words_of_a_classification_speak_and_heads_recolour_them(tmp_path):
    weights = {"pool": [[[0.5, 0.5, 0.0]], [[0.0, 0.04, 0.04]]], "encoder.0": np.eye(3)}
    it = record(weights, ["dull", "<b>", "film"], ["bad"], probabilities={"bad": 0.75, "good": 0.25})
    script = """
    const all = (q) => [...document.querySelectorAll(q)];
    const got = [];
    const readout = (q) => got.push(document.querySelector(q).textContent);
    const key = (name) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
    const words = () => got.push(all(".text .word").map((x) => x.className.split(" ")[1] + " " + x.title).join(","));
    words();
    all(".text .word")[1].dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
    readout(".readout");
    document.querySelector(".text [tabindex]").focus();
    key("ArrowRight");
    key("End");
    readout(".readout");
    got.push(all(".text .here").length);
    const head = document.querySelector(".classified > .choice .head");
    head.value = "1";
    head.dispatchEvent(new Event("change"));
    words();
    got.push(document.querySelector(".legend .top").textContent);
    all(".matrix td")[0].dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
    readout(".matrix .readout");
    readout(".readout");
    const widths = all(".labels rect").map((x) => x.getBoundingClientRect().width);
    got.push((widths[0] / widths[1]).toFixed(1));
    tell(got.join("|"));
    """
    assert results(dump(tmp_path, page.render(it), script)) == [
        "a19 0.25,a20 0.27,a1 0.02",
        "&lt;b&gt; 0.27 · place 1 of 3 by weight",
        "film 0.02 · place 3 of 3 by weight",
        "1",
        "a0 0.000,a20 0.040,a20 0.040",
        "0.040",
        "dull ← dull: 1.00",
        "Hover or focus a word.",
        "3.0",
    ]


def test_the_page_of_a_classification_runs_under_its_own_policy(tmp_path):
    dom = dump(tmp_path, page.render(record([[1.0]], ["a"], ["x"], probabilities={"x": 1.0})))
    assert "Hover or focus a word." in dom


def test_small_pictures_of_all_heads_lead_to_each(tmp_path):
    weights = np.zeros((2, 1, 2), np.float32)
    weights[1, 0, 1] = 1
    it = record({"cross.0": weights, "encoder.0": np.eye(2)}, ["a", "b"], ["x"])
    script = """
    const all = (q) => [...document.querySelectorAll(q)];
    const got = [document.querySelector("details").hidden, all(".gallery div").length];
    document.querySelector("details").open = true;
    const buttons = all(".gallery button");
    got.push(buttons.map((x) => x.textContent + " " + x.getAttribute("aria-pressed")).join(","));
    const canvas = buttons[2].firstElementChild;
    const pixels = [...canvas.getContext("2d").getImageData(0, 0, 2, 1).data].filter((_, n) => n % 4 !== 3);
    got.push(canvas.width + "x" + canvas.height, pixels.join(" "));
    buttons[2].click();
    got.push(document.querySelector("select.head").value, all("td").map((x) => x.textContent).join(","));
    buttons[3].click();
    got.push(document.querySelector("select.site").value, all("td").length);
    got.push(all('[aria-pressed="true"]').map((x) => x.textContent).join(","));
    tell(got.join("|"));
    """
    assert results(dump(tmp_path, page.render(it), script)) == [
        "false",
        "2",
        "cross.0 mean true,head 0 false,head 1 false,encoder.0 false",
        "2x1",
        "255 255 255 8 48 107",
        "1",
        ",1.00",
        "encoder.0",
        "4",
        "encoder.0",
    ]


def test_one_matrix_has_no_gallery(tmp_path):
    dom = dump(tmp_path, page.render(record([[1.0]], ["a"], ["x"])))
    assert "<details hidden" in dom
    assert "<canvas" not in dom


def test_the_colour_bar_is_that_of_the_chosen_site(tmp_path):
    script = """
    const got = [];
    const told = () => {
      const bar = [...document.querySelectorAll(".legend i")].filter((x) => !x.hidden).length;
      const ends = [...document.querySelectorAll(".low, .top")].map((x) => x.textContent).join(" ");
      const cells = [...document.querySelectorAll("td")].map((x) => `${x.className} ${x.textContent}`).join(",");
      got.push(ends, bar, cells);
    };
    told();
    const site = document.querySelector("select.site");
    site.value = "integrated";
    site.dispatchEvent(new Event("change"));
    told();
    tell(got.join("|"));
    """
    it = record({"cross": [[0.9, 0.1]], "integrated": [[-12.0, 6.0]]}, ["a", "b"], ["x"])
    assert results(dump(tmp_path, page.render(it), script)) == [
        "weight 0 1", "21", "a18 0.90,a2 0.10", "weight -12 12", "41", "b20 -12.00,a10 6.00",
    ]  # fmt: skip


LOOK = """
const all = (q) => [...document.querySelectorAll(q)];
const got = [];
const readout = () => got.push(document.querySelector(".readout").textContent);
const over = (element) => element.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
const heat = document.querySelector(".heat");
const channel = (canvas, kind, row, rows) =>
  [...canvas.getContext("2d").getImageData(0, row, canvas.width, rows).data].filter((_, i) => i % 4 === kind).join(",");
const at = (x, y) => {
  const under = document.querySelector(".under");
  const box = under.getBoundingClientRect();
  const place = { clientX: box.left + x * box.width, clientY: box.top + y * box.height };
  under.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, ...place }));
};
readout();
got.push([heat.width, heat.height].join(","), all(".thumb").length, all(".columns .word").length);
over(all(".rows .word")[1]);
readout();
got.push(channel(heat, 0, 0, 2));
at(0.9, 0.9);
readout();
got.push(all(".rows .word").map((x) => x.className).join(","));
got.push(document.querySelector(".cursor").hidden);
document.querySelector("figure").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowUp", bubbles: true }));
readout();
document.querySelector(".under").dispatchEvent(new PointerEvent("pointerleave"));
readout();
const select = document.querySelector("select.over");
select.value = "beside";
select.dispatchEvent(new Event("change"));
got.push(getComputedStyle(document.querySelector(".lines")).visibility);
const start = performance.now();
for (let i = 0; i < 100; i++) over(all(".rows .word")[i % 2]);
got.push((performance.now() - start) / 100 < 16);
setTimeout(() => {
  got.push(channel(document.querySelector(".lines"), 3, 4, 1));
  tell(got.join("|"));
}, 500);
"""


def test_an_image_lights_up_and_its_patches_name_the_words(tmp_path):
    weights = np.array([[0.5, 0.2, 0.1, 0.1, 0.1], [0.6, 0, 0, 0, 0.4]])
    picture = np.repeat([[0.0, 1.0]], 4, axis=1).repeat(8, axis=0)
    text = page.render(record(weights, ["<s>", patches(2, 2, picture)], ["a", "cat"]))
    assert results(dump(tmp_path, text, LOOK)) == [
        "Point at a word or at a part of the picture.",
        "2,2",
        "2",
        "1",
        "cat ← &lt;s&gt; 0.600 · row 2, column 2 0.400",
        "255,255,255,8",
        "row 2, column 2 → cat 0.400 · a 0.100",
        "word a3,word a13",
        "false",
        "row 1, column 2 → a 0.100",
        "cat ← &lt;s&gt; 0.600 · row 2, column 2 0.400",
        "hidden",
        "true",
        "0,0,28,51,51,28,0,0",  # the lines of the picture: only near the border of its halves
    ]


def test_a_patch_of_a_vision_model_shows_where_it_looks(tmp_path):
    script = """
    const got = [];
    const readout = () => got.push(document.querySelector(".readout").textContent);
    readout();
    const under = document.querySelector(".under");
    const box = under.getBoundingClientRect();
    const place = { clientX: box.left + 0.9 * box.width, clientY: box.top + box.height / 2 };
    under.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, ...place }));
    readout();
    got.push(document.querySelector(".cursor").hidden);
    under.dispatchEvent(new PointerEvent("pointerleave"));
    readout();
    tell(got.join("|"));
    """
    weights = np.array([[0.2, 0.8, 0.0], [0.5, 0.5, 0.0], [0.3, 0.6, 0.1]])
    text = page.render(record({"encoder.0": weights}, ["[CLS]", patches(1, 2)], []))
    assert results(dump(tmp_path, text, script)) == [
        "The weights of [CLS]. Point at a part of the picture.",
        "row 1, column 2 ← row 1, column 1 0.600 · [CLS] 0.300 · row 1, column 2 0.100",
        "false",
        "[CLS] ← row 1, column 1 0.800 · [CLS] 0.200",
    ]


def test_patches_of_several_images_have_the_names_of_their_images(tmp_path):
    script = """
    document.querySelector(".rows .word").dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
    tell(document.querySelector(".readout").textContent);
    """
    prompt = [patches(1, 1, name="before"), patches(1, 1, name="after"), "what"]
    weights = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.3, 0.5, 0.2]])
    text = page.render(record({"decoder.0": weights}, [], prompt, target_is_read=True))
    [told] = results(dump(tmp_path, text, script))
    assert told == "what ← after, row 1, column 1 0.500 · before, row 1, column 1 0.300 · what 0.200"


def test_the_attention_between_two_texts_is_shown_alone(tmp_path):
    script = """
    const texts = document.querySelector("select.texts");
    const got = [[...texts.options].map((x) => x.textContent).join(",")];
    got.push(document.querySelectorAll("th.border, tr.border").length);
    texts.value = "2";
    texts.dispatchEvent(new Event("change"));
    const words = (q) => [...document.querySelectorAll(q)].map((x) => x.textContent).join(" ");
    got.push(words("tbody th"), words("thead th:not(.corner)"), words(".columns .word"));
    document.querySelector(".columns .word").dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
    got.push(document.querySelector(".readout").textContent);
    tell(got.join("|"));
    """
    weights = np.array([[0.2, 0.8, 0.0], [0.5, 0.5, 0.0], [0.3, 0.6, 0.1]])
    text = page.render(record({"encoder.0": weights}, {"A": ["who", "?"], "B": ["she"]}, []))
    assert results(dump(tmp_path, text, script)) == [
        "all,A → A,A → B,B → A,B → B",
        "2",
        "she",
        "who ?",
        "who ?",
        "who → she 0.30",
    ]
