import json
from dataclasses import replace

import pytest

from regard.text.data_report import DataReport
from regard.text.report import ReadingReport


def reading() -> ReadingReport:
    report = ReadingReport(files=["a.tsv"], form="tab-separated", columns=["en", "de"], read=1210)
    for line in range(2, 9):
        report.skip("empty target", line)
    report.skip("header", 1)
    report.kept = 1202
    return report


LABELLED = DataReport(
    unit="text", train=reading(), dev=None, num_train=4, num_dev=0, vocabulary={"text": 9}, train_tokens={"text": 8},
    dev_tokens={"text": 0},
)  # fmt: skip


def test_a_report_reads_like_one():
    assert reading().render() == (
        "a.tsv (tab-separated, columns en and de): 1,210 lines read, 1,202 pairs kept\n"
        "  skipped 7: empty target (lines 2, 3, 4, 5, 6, …)\n"
        "  skipped 1: header (line 1)"
    )


def test_what_later_steps_leave_out_is_withdrawn():
    report = reading()
    report.withdraw("repeat", range(100, 300))
    report.withdraw("repeat", [])
    assert report.kept == 1002
    assert report.read == report.kept + report.num_skipped
    assert "skipped 200: repeat (lines 100, 101, 102, 103, 104, …)" in report.render()
    report.files.append("b.tsv")
    report.withdraw("of several files", [3, 4])
    assert "\n  skipped   2: of several files\n" in report.render()


def test_reports_survive_json():
    report = DataReport(
        unit="pair", train=reading(), dev=reading(), num_train=1000, num_dev=2, vocabulary={"source": 50, "target": 60},
        train_tokens={"source": 7000, "target": 8000}, dev_tokens={"source": 7, "target": 8},
        overlap={"pairs": 1, "sources": 2, "targets": 3}, notes=["A note."],
    )  # fmt: skip
    assert DataReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    assert report.render().endswith(
        "1,000 pairs to train on, 2 to validate on (from their own files)\n"
        "  also in the training data: 1 of the dev pairs, 2 of the dev sources, 3 of the dev targets\n"
        "warning: 1 of 2 dev pairs (50%) are in the training data too, so validation shows what the model remembers, "
        "not what it has learned; set data.dev to other files, or leave it empty to hold pairs out of the training "
        "data\n"
        "vocabularies of 50 and 60 symbols; 7,000 and 8,000 tokens to train on, 7 and 8 to validate on\n"
        "A note."
    )
    joint = "\na joint vocabulary of 50 symbols; 7,000 and 8,000 tokens to train on, "
    assert joint in replace(report, joint=True).render()
    assert ReadingReport.from_dict(reading().to_dict()) == reading()


@pytest.mark.parametrize(
    ("names", "separator"),
    [
        (["film,bad", "film,good", "book,bad", "book,good", "book"], ","),
        (["a; b", "a; c", "b; c", "a; b; c"], ";"),
        (["Home, Garden", "Food, Drink", "Sports"], ""),
        (["sports|football", "sports|tennis", "sports|golf"], ""),
    ],
)
def test_several_labels_in_one_get_a_warning(names, separator):
    report = replace(LABELLED, train_counts=dict.fromkeys(names, 2))
    warning = f"contain '{separator}', such as '{names[0]}'; if a text can have several labels, set data.label_separator to"
    assert (warning in report.render()) == bool(separator)
    assert "label_separator" not in report.render() or separator


def test_labels_that_differ_in_case_get_a_warning():
    report = replace(LABELLED, train_counts={"good": 2, "Bad": 1, "bad": 1})
    assert "4 texts to train on, none held out to validate on\n" in report.render()
    assert (
        "warning: the labels 'Bad' and 'bad' differ only in upper and lower case, and are learned as different labels; if they "
        "mean the same, set data.fold_case to true\n" in report.render()
    )
    report.train_counts.pop("Bad")
    assert "warning" not in report.render()
