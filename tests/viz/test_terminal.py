import io

import numpy as np
from rich.cells import cell_len
from rich.console import Console

from regard.record import record
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
    it = record(np.stack([np.full((1, 5), 0.2), np.eye(5)[:1]]), list("abcde"), ["x"])
    assert "hundredths of 0.2" in shown(it, head=0)
    assert "100" in shown(it, site="cross", head=1)
    assert "No weights to show: 0 output and 1 source words." in shown(record(np.zeros((0, 1)), ["a"], []))
