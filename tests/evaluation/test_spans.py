"""Spans and their scores, against seqeval, and tables of the scores."""

import numpy as np
import pytest
from seqeval.metrics import accuracy_score, classification_report, f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities

from regard.errors import ShapeError
from regard.evaluation.spans import Span, are_spans, find_spans, score_tags

TAGS = ("O", "B-A", "I-A", "E-A", "S-A", "B-B", "I-B", "I-A-x", "B-A-x")


@pytest.mark.parametrize("tags", [TAGS, TAGS[:3], ("O", "B", "I")])
@pytest.mark.filterwarnings("ignore")  # seqeval warns of types without spans
def test_scores_equal_those_of_seqeval_on_random_tags(tags):
    random = np.random.default_rng(1)
    for _ in range(200):
        sizes = random.integers(1, 9, 4)
        gold = [random.choice(tags, size).tolist() for size in sizes]
        predicted = [[tag if random.random() < 0.6 else str(random.choice(tags)) for tag in row] for row in gold]
        for row in gold:
            assert [(span.label or "_", span.start, span.end - 1) for span in find_spans(row)] == get_entities(row)
        found = score_tags(gold, predicted, spans=True)
        expected = [score(gold, predicted) for score in (f1_score, precision_score, recall_score, accuracy_score)]
        np.testing.assert_allclose([found.f1, found.precision, found.recall, found.accuracy], expected, atol=1e-12)
        report = classification_report(gold, predicted, output_dict=True) if found.labels else {}
        for one in found.labels:
            other = report[one.label or "_"]
            expected = [other[name] for name in ("precision", "recall", "f1-score", "support")]
            np.testing.assert_allclose([one.precision, one.recall, one.f1, one.support], expected, atol=1e-12)


def test_spans_worked_by_hand():
    tags = ["I-PER", "I-PER", "O", "B-LOC", "B-LOC", "I-PER", "O", "I-LOC"]  # the third name has another type inside
    assert find_spans(tags) == [Span(0, 2, "PER"), Span(3, 4, "LOC"), Span(4, 5, "LOC"), Span(5, 6, "PER"), Span(7, 8, "LOC")]
    assert find_spans(["O", "O"]) == find_spans([]) == []
    assert find_spans(["B-LOC", "_", "I-LOC", "X", "X-LOC"]) == [Span(0, 1, "LOC"), Span(2, 3, "LOC")]


def test_tags_of_a_file_do_not_decide_whether_spans_are_scored():
    gold, predicted = [["B-LOC", "I-LOC", "O", "_"]], [["B-LOC", "O", "O", "O"]]
    found = score_tags(gold, predicted, spans=True)
    assert (found.spans, found.f1, found.accuracy) == (True, 0, 0.5)
    assert ("_", "O", 1) in found.confusions
    outside = score_tags([["O", "O"]], [["O", "O"]], spans=True)
    assert (outside.f1, outside.precision, outside.recall, outside.accuracy, outside.labels) == (0, 0, 0, 1, ())
    assert "span F1    0.00" in outside.render()


def test_parts_of_speech_are_no_spans():
    assert are_spans(["O", "B-LOC", "I-LOC"])
    assert are_spans(["0", "O", "I-LOC", "I-PER"])  # one sentence of WikiGold has the tag 0
    assert not are_spans(["NOUN", "VERB"])
    assert not are_spans(["O", "B-LOC", "NOUN"])
    assert not are_spans(["O"])
    found = score_tags([["DET", "NOUN"], ["VERB"]], [["DET", "VERB"], ["VERB"]], spans=False)
    assert (found.spans, found.accuracy, found.f1) == (False, 2 / 3, 2 / 3)
    assert found.confusions == (("NOUN", "VERB", 1),)
    assert "NOUN        VERB      1" in found.render()


def test_the_table_names_types_and_confusions():
    gold, predicted = [["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "O", "B-ORG"]]
    found = score_tags(gold, predicted, spans=True)
    assert (found.precision, found.recall, found.f1, found.accuracy) == (0.5, 0.5, 0.5, 0.75)
    text = found.render()
    assert "4 words in 1 sentence\naccuracy   75.00%\nspan F1    50.00   (precision 50.00, recall 50.00)" in text
    assert "PER       100.0   100.0  100.0      1" in text
    assert "LOC          ORG      1" in text
    assert found.to_dict()["confusions"] == (("LOC", "ORG", 1),)


@pytest.mark.parametrize(("gold", "predicted"), [([], []), ([[]], [[]]), ([["O"]], [["O", "O"]]), ([["O"]], [])])
def test_wrong_sizes_are_refused(gold, predicted):
    with pytest.raises(ShapeError, match=r"score_tags: there are .* expected the same number for each sentence"):
        score_tags(gold, predicted, spans=True)
