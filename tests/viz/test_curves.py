import math

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from viz.special import texts

from regard.errors import RequestError
from regard.viz import curves

RUN = {
    "step": [50, 100, 150, 200],
    "epoch": [1, 1, 2, 2],
    "learning_rate": [0.1, 0.1, 0.1, 0.1],
    "seconds": [30.0, 60.0, 90.0, 120.0],
    "target_tokens_per_second": [9.0, 9.0, 9.0, 9.0],
    "train_nll": [6.0, 5.0, 4.0, 3.0],
    "dev_nll": [None, 5.5, None, 5.75],
    "dev_perplexity": [None, 244.7, None, math.inf],
    "bleu": [None, 10.0, None, 20.0],
}


def test_the_loss_and_each_score_have_a_panel_of_their_own():
    loss, bleu = curves.panels({"a": RUN})
    assert [panel.name for panel in (loss, bleu)] == ["loss", "bleu"]
    train, dev = loss.lines
    assert (train.x.tolist(), train.y.tolist()) == ([50, 100, 150, 200], [6, 5, 4, 3])
    assert (dev.x.tolist(), dev.y.tolist()) == ([100, 200], [5.5, 5.75])
    assert (loss.best(dev), bleu.best(bleu.lines[0]), loss.best(train)) == (0, 1, None)
    [alone] = curves.panels({"a": RUN}, columns=["dev_nll"])
    assert alone.best(alone.lines[0]) == 0


def test_a_column_that_nobody_knows_here_is_a_score_too():
    run = {**RUN, "ter": [None, 0.5, None, 0.25]}
    assert [panel.title for panel in curves.panels({"a": run})][-1] == "ter"


def test_less_loss_of_attention_is_better():
    [panel] = curves.panels({"a": {**RUN, "attention_loss": [0.9, 0.5, 0.2, 0.3]}}, columns=["attention_loss"])
    assert panel.best(panel.lines[0]) == 2
    assert "attention_loss" in [each.name for each in curves.panels({"a": {**RUN, "attention_loss": [0.9] * 4}})]


@pytest.mark.parametrize(("by", "places"), [("update", [100, 200]), ("epoch", [1.0, 2.0]), ("minute", [1.0, 2.0])])
def test_the_horizontal_axis(by, places):
    _, bleu = curves.panels({"a": RUN}, by=by)
    assert bleu.lines[0].x.tolist() == places


def test_other_columns_can_be_chosen():
    made = curves.panels({"a": RUN}, columns=["learning_rate", "dev_perplexity"])
    assert [panel.name for panel in made] == ["learning_rate", "dev_perplexity"]
    assert made[1].lines[0].y.tolist() == [244.7]  # infinity cannot be drawn


def test_the_picture_names_runs_greedy_search_and_the_best_value(tmp_path):
    curves.draw({"runs/a": RUN}, tmp_path / "c.svg")
    shown = texts(tmp_path / "c.svg")
    assert "BLEU of dev (greedy): best 20 at update 200" in shown
    assert {"runs/a", "training", "dev"} <= set(shown)
    curves.draw({"runs/a": RUN, "runs/$b$": RUN}, tmp_path / "c.svg", title="Two")
    shown = texts(tmp_path / "c.svg")
    assert {"runs/a", "runs/$b$", "Two", "BLEU of dev (greedy)"} <= set(shown)


def drawn_labels(axes):
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        yield from (tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high)


@pytest.mark.parametrize("runs", [1, 2, 12])
def test_nothing_is_cut_off_and_no_text_lies_on_another(runs):
    names = [f"runs/a-rather-long-name-of-a-run-{'x' * (7 * number)}-{number}" for number in range(runs)]
    figure = curves.draw(
        {name: {**RUN, "chrf": RUN["bleu"]} for name in names}, title="a long title of what was compared " * 6, by="epoch"
    )
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    width, height = canvas.get_width_height()
    boxes = []
    for axes in figure.axes:
        legend = axes.get_legend()
        found = [axes.xaxis.label, *drawn_labels(axes)] if legend is None else legend.get_texts()
        boxes += [(text.get_text(), text.get_window_extent(renderer)) for text in found if text.get_text()]
    boxes += [(text.get_text(), text.get_window_extent(renderer)) for text in figure.texts if text.get_text()]
    for text, box in boxes:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text
    for place, (text, box) in enumerate(boxes):
        for other, second in boxes[place + 1 :]:
            assert not box.overlaps(second), (text, other)


def test_what_cannot_be_drawn_is_said(tmp_path):
    with pytest.raises(RequestError, match=r"no run was given"):
        curves.draw({})
    with pytest.raises(RequestError, match=r"'a' has no number to draw in loss; wait for the first rows"):
        curves.draw({"a": {"step": []}})
    with pytest.raises(RequestError, match=r"no run has a column 'blue'; did you mean 'bleu'\?"):
        curves.draw({"a": RUN}, columns=["blue"])
    with pytest.raises(RequestError, match=r"'a' has no column 'step'"):
        curves.draw({"a": {"bleu": [1.0]}})
    with pytest.raises(RequestError, match=r"column 'bleu' of 'a' has 1 values and 'step' 2"):
        curves.draw({"a": {"step": [1, 2], "bleu": [1.0]}})
    with pytest.raises(RequestError, match=r"by is 'hour', expected one of: update, epoch, minute"):
        curves.draw({"a": RUN}, by="hour")
