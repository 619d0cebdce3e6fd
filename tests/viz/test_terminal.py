import io

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

import regard
from regard.records import record
from regard.viz import terminal


def shown(it, width=80, colours=None, encoding="utf-8", **options):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, color_system=colours, force_terminal=colours is not None)
    terminal.render(it, console, **options)
    file.flush()
    return file.buffer.getvalue().decode(encoding)


def test_plain_text_has_words_on_both_axes_and_shades():
    text = shown(record([[0.98, 0.02], [0.0, 1.0]], ["kissed", "him"], ["küsste", "ihn"]))
    heads, first, second, *_ = text.splitlines()
    assert heads.split() == ["kissed", "him"]
    assert first.split() == ["küsste", "98█", "2"]
    assert second.split() == ["ihn", "·", "100█"]
    assert "Weights in hundredths: source words across, output words down." in text
    assert "\x1b" not in text


def test_ascii_terminals_get_digits():
    text = shown(record([[0.98, 0.0]], ["a", "b"], ["x"]), encoding="ascii")
    assert text.splitlines()[1].split() == ["x", "98", "."]


def test_colour_paints_every_cell():
    text = shown(record([[1.0, 0.0]], ["a", "b"], ["x"]), colours="truecolor")
    assert "48;2;8;48;107" in text
    assert "48;2;255;255;255" in text


def test_wide_sentences_come_in_blocks_that_fit():
    words = [f"word{i}" for i in range(40)]
    text = shown(record(np.eye(40), words, words), width=50)
    assert max(map(cell_len, text.splitlines())) <= 50
    heads = [line for line in text.splitlines() if line.startswith("       ") and "word" in line]
    assert " ".join(heads).split() == words
    assert len(heads) > 3


def test_columns_stand_under_wide_characters():
    text = shown(record(np.eye(3), ["吻了她吻了", "a", "吻"], ["她", "long", "x"]))
    lines = text.splitlines()[:4]
    assert len({cell_len(line) for line in lines}) == 1


def test_long_words_are_cut_and_narrow_terminals_survive():
    it = record(np.eye(2), ["Donaudampfschifffahrt", "b"], ["Rindfleischetikettierung", "x"])
    assert "Donaudampf…" in shown(it)
    assert max(map(cell_len, shown(it, width=20).splitlines())) <= 20


def test_words_cannot_steer_the_terminal_or_rich():
    text = shown(record([[1.0, 0.0]], ["\x1b[2J", "[red]"], ["\r\n"]))
    assert "\x1b" not in text
    assert "^[[2J" in text
    assert "[red]" in text
    assert "^M^J" in text


def test_other_scales_are_said_and_sites_and_heads_can_be_chosen():
    it = record(np.stack([np.full((1, 5), 0.2), np.eye(5)[:1], np.full((1, 5), 0.02)]), list("abcde"), ["x"])
    text = shown(it, head=0)
    assert text.splitlines()[1].split() == ["x", *["20█"] * 5]
    assert "Weights in hundredths: " in text
    text = shown(it, head=2)
    assert "100█" in text
    assert "hundredths of 0.02" in text
    assert "100" in shown(it, site="cross", head=1)
    assert "The translation is empty." in shown(record(np.zeros((0, 1)), ["a"], []))


def classified(words, weights, **fields):
    return record([weights], words, ["good"], **{"probabilities": {"good": 0.75, "bad": 0.25}} | fields)


def test_a_classification_without_colour_has_figures_at_the_words_that_count():
    text = shown(classified(["a", "gripping", "film"], [0.01, 0.8, 0.19], reference="bad"), width=50)
    assert text.splitlines()[:6] == [
        "good (true label: bad)",
        "a gripping(0.80) film(0.19)",
        "",
        "good  0.75 " + "█" * 28,
        "bad   0.25 " + "█" * 10,
        "Most weight: gripping 0.80 · film 0.19 · a 0.01.",
    ]
    assert "do not prove which words the model's output depends on." in " ".join(text.split())
    assert "\x1b" not in text


def test_a_classification_in_colour_has_its_words_on_colours():
    text = shown(classified(["a", "gripping"], [0.0, 0.5]), colours="truecolor")
    assert "48;2;8;48;107m gripping \x1b" in text
    assert "48;2;255;255;255m a \x1b" in text
    assert "(0.50)" not in text


def test_no_color_is_respected_and_the_words_that_count_are_bold(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(classified(["a", "gripping"], [0.0, 0.5]), colours="truecolor")
    assert "48;2" not in text
    assert "\x1b[1mgripping\x1b[0m(0.50)" in text
    plain = shown(record([[1.0]], ["a"], ["x"]), colours="truecolor")
    assert "100█" in plain


def test_long_texts_flow_over_lines_that_fit_and_no_word_is_lost():
    words = [f"word{i}" for i in range(200)] + ["吻" * 40, "x" * 90]
    for colours in (None, "truecolor"):
        text = shown(classified(words, np.full(202, 1 / 202)), width=40, colours=colours)
        plain = Text.from_ansi(text).plain
        assert max(map(cell_len, plain.splitlines())) <= 40
        assert [word.split("(")[0] for word in plain.split() if word.startswith("word")][:200] == words[:200]


def test_hostile_classifications_do_not_steer_the_terminal():
    text = shown(classified(["\x1b[2J", "[red]"], [0.5, 0.5], probabilities={"\x1b[2J": 0.5, "[/b]": 0.5}, reference="\x07"))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red](0.50)" in text


def test_hundreds_of_labels_are_cut_and_counted():
    it = classified(["a"], [1.0], probabilities={f"label {n} {'x' * 60}": 1 / 300 for n in range(300)})
    text = shown(it, width=40)
    assert "and 290 less probable labels" in text
    assert max(map(cell_len, text.splitlines())) <= 40


def test_a_terminal_that_orders_letters_keeps_the_columns_of_right_to_left_words():
    lines = shown(record(np.eye(2), ["الولد", "يحب"], ["ילד", "x"])).splitlines()
    assert "الولد\u200e" in lines[0]
    assert lines[0].index("الولد") < lines[0].index("يحب")
    assert "ילד\u200e " in lines[1]
    assert "\u200e" not in lines[2]


def test_an_image_is_a_map_for_each_word():
    weights = np.zeros((2, 16))
    weights[0, 0], weights[1, 15] = 1, 0.5
    it = regard.record(weights, regard.patches(4, 4), ["left", "right"])
    lines = shown(it).splitlines()
    assert lines[0].split() == ["left", "right"]
    assert lines[1].split() == ["█" * 7 + "·" * 21, "·" * 28]
    assert lines[14].split() == ["·" * 28, "·" * 21 + "▒" * 7]
    text = shown(it)
    assert "Weights from 0 to 1, which is █." in text
    assert "Each map shows which source patches the decoder attended to" in text
    assert shown(it, word="right").splitlines()[0] == "right"
    assert "9" in shown(it, encoding="ascii").splitlines()[1]
    coloured = shown(it, colours="truecolor")
    assert "38;2;8;48;107" in coloured
    assert "▀" in coloured


@pytest.mark.parametrize("width", [20, 200])
def test_large_images_fit_and_lose_no_weight(width):
    weights = np.zeros((1, 4096))
    weights[0, [0, 4095]] = 1
    lines = shown(regard.record(weights, regard.patches(64, 64), ["far"]), width=width, caption=False).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert lines[1][0] != "·"
    assert lines[lines.index("") - 1].rstrip()[-1] != "·"


def test_negative_values_on_an_image_have_marks_of_their_own():
    it = regard.record({"integrated": [[-1.0, -0.5, 0.15, 1.0]]}, regard.patches(1, 4), ["cat"])
    text = shown(it)
    assert text.splitlines()[1] == "#" * 7 + "=" * 7 + "·" * 7 + "█" * 7
    assert "Weights from -1, which is #, to 1, which is █." in text
    ascii_text = shown(it, encoding="ascii")
    assert ascii_text.splitlines()[1] == "#" * 7 + "=" * 7 + "1" * 7 + "9" * 7
    assert "Weights from -1, which is #, to 1, which is 9." in ascii_text
    coloured = Text.from_ansi(shown(it, colours="truecolor")).plain
    assert "Weights from -1, which is the darkest red, to 1, which is the darkest blue." in " ".join(coloured.split())
    sound = regard.record({"integrated": [[-1.0, 0.0, 1.0]]}, regard.frames(3, 0.1), ["yes"])
    assert shown(sound).splitlines()[1] == "yes #·█"


@pytest.mark.parametrize(
    ("width", "last", "times"),
    [
        (80, " ".join(["·" * 18 + "█" * 6] * 3), 3),
        (30, " ".join(["·" * 6 + "█" * 2] * 3), 1),
        (20, "·" * 12 + "█" * 4, 6),  # below each other
    ],
)
def test_several_images_fit_and_lose_no_column(width, last, times):
    weights = np.zeros((1, 48))
    weights[0, [15, 31, 47]] = 1  # the last patch of each image
    it = regard.record(weights, [regard.patches(4, 4, name=name) for name in ("one", "two", "three")], ["cat"])
    lines = shown(it, width=width, caption=False).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert [line for line in lines if "█" in line and "·" in line] == [last] * times


def test_a_sound_is_a_line_for_each_word():
    it = regard.record(np.eye(2, 40), regard.frames(40, 0.1, name="speech"), ["one", "two"])
    head, first, second, *_ = shown(it).splitlines()
    assert head.split() == ["0", "speech", "4.0", "s"]
    assert first == "one █" + "·" * 39
    assert second == "two ·█" + "·" * 38


def test_texts_can_be_printed_apart():
    it = regard.record({"encoder.0": np.eye(3)}, {"A": ["x", "y"], "B": ["z"]}, [])
    assert shown(it, between=("A", "B")).splitlines()[0].split() == ["z"]
