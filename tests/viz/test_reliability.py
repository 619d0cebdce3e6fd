import numpy as np
import pytest
from viz.special import boxes_of, texts

from regard.evaluation.calibration import ReliabilityBin
from regard.viz import reliability


def bins_of(edges, confidence, accuracy, counts):
    rows = zip(edges[:-1], edges[1:], counts, confidence, accuracy, strict=True)
    return [ReliabilityBin(float(low), float(high), int(count), sure, right) for low, high, count, sure, right in rows]


def made(bins=10, first=0):
    edges = np.linspace(0, 1, bins + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    return bins_of(edges, middle, middle**2, np.where(np.arange(bins) >= first, 10 + np.arange(bins), 0))


def test_the_error_is_the_weighted_gap_and_stands_in_the_title(tmp_path):
    # 0.25 · |0.5 − 0.4| + 0.75 · |0.8 − 0.9| = 0.1, and 0.25 · 0.3 + 0.75 · 0.1 = 0.15
    reliability.draw(bins_of([0, 0.5, 1], [0.4, 0.9], [0.5, 0.8], [10, 30]), tmp_path / "r.svg")
    assert "Expected calibration error 0.100, 40 texts" in texts(tmp_path / "r.svg")
    reliability.draw(bins_of([0, 0.5, 1], [0.4, 0.9], [0.1, 0.8], [10, 30]), tmp_path / "r.svg", title="Dev")
    shown = texts(tmp_path / "r.svg")
    assert "Dev: expected calibration error 0.150, 40 texts" in shown
    assert {"10", "30", "confidence", "accuracy", "texts"} <= set(shown)


def test_bars_have_the_heights_of_the_accuracy_and_empty_bins_none():
    bins = made(first=1)
    figure = reliability.draw(bins)
    bars = figure.axes[0].patches
    assert [bar.get_height() for bar in bars[:9]] == pytest.approx([one.accuracy for one in bins[1:]])
    assert len(bars) == 18
    assert [bar.get_height() for bar in figure.axes[1].patches] == [one.count for one in bins]
    assert figure.axes[0].lines[0].get_xydata().tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize("bins", [1, 15, 40])
def test_nothing_is_cut_off(bins):
    figure = reliability.draw(made(bins), title="a rather long title of a run and of the file that it was evaluated on " * 2)
    below = figure.axes[1]
    boxes_of(figure, [*figure.texts, *below.texts, *below.get_xticklabels(), *below.get_yticklabels()])
    boxes_of(figure, [below.xaxis.label, below.yaxis.label])
    assert bool(below.texts) == (bins <= 15)


@pytest.mark.parametrize(
    ("lowest", "first", "begin"),
    [(0.5, 7, 0.5), (None, 7, 0.4), (1 / 3, 5, 0.3), (0.5, 0, 0.0), (None, 0, 0.0), (0.5, 14, 0.5)],
)
def test_the_axis_begins_where_predictions_can_be(lowest, first, begin):
    figure = reliability.draw(made(15, first), lowest=lowest)
    assert [axes.get_xlim()[0] for axes in figure.axes] == [pytest.approx(begin)] * 2
    assert min(figure.axes[1].get_xticks()) >= begin


def test_no_texts_at_all(tmp_path):
    reliability.draw(bins_of([0, 1], [np.nan], [np.nan], [0]), tmp_path / "r.svg")
    assert "Expected calibration error 0.000, 0 texts" in texts(tmp_path / "r.svg")
