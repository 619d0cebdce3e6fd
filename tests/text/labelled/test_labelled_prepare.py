import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regard.config import AutoConfig, LabelledDataConfig, WhitespaceConfig, WordsConfig
from regard.errors import DataError
from regard.text.data_report import DataReport
from regard.text.labelled.prepare import LabelledSchema
from regard.text.preparation import Prepared, prepare_data
from regard.text.reasons import REPEATED_TEXT

ROWS = [(f"This {kind} film number {number}.", kind) for number in range(100) for kind in ("good", "bad")]


@pytest.fixture
def data(tmp_path: Path) -> LabelledDataConfig:
    write(tmp_path / "x.tsv", ROWS)
    return LabelledDataConfig(train=(str(tmp_path / "x.tsv"),), dev_size=10, cache=str(tmp_path / "cache"))


def write(path: Path, rows: list[tuple[str, str]], mode: str = "w") -> str:
    with path.open(mode, encoding="utf-8") as file:
        file.write("".join(f"{text}\t{label}\n" for text, label in rows))
    return str(path)


def run(data: LabelledDataConfig, seed: int = 1, **given: object) -> Prepared:
    return prepare_data(LabelledSchema(data, WordsConfig(**given)), seed=seed, progress=False)


def fail(data: LabelledDataConfig) -> str:
    with pytest.raises(DataError) as caught:
        run(data)
    return str(caught.value)


def pairs(prepared: Prepared, part: str) -> list[tuple[str, str]]:
    corpus = getattr(prepared, part)
    names = prepared.labels.names
    return [(text, names[label]) for text, label in zip(corpus.texts(range(len(corpus))), corpus.labels, strict=True)]


def test_everything_is_encoded_and_accounted_for(data):
    write(Path(data.train[0]), [("", "good"), ROWS[3], (ROWS[5][0], "good"), ("long " * 500, "bad")], "a")
    prepared = run(data)
    report = prepared.report
    assert sorted(pairs(prepared, "train") + pairs(prepared, "dev")) == sorted(
        [*ROWS, (ROWS[5][0], "good"), (("long " * 500).strip(), "bad")]
    )
    assert report.train.skipped[REPEATED_TEXT].lines == [202]
    assert report.train.read == 204 == report.train.num_skipped + report.num_train + report.num_dev
    assert report.too_long == 1
    assert report.notes == [
        "texts truncated to 400 tokens (data.max_tokens): 1",
        "duplicates with different labels, all kept: 1",
    ]
    assert prepared.labels.names == ("bad", "good")
    assert report.train_counts == dict(zip(prepared.labels.names, prepared.labels.counts, strict=True))
    assert list(report.dev_counts.values()) == [5, 5]
    assert report.train_tokens == {"text": prepared.train.lengths.sum()}
    assert prepared.train.lengths.max() == 400
    batch = prepared.train.batch([0])
    assert prepared.tokenizers[0].decode(batch.tokens[0].tolist()) == pairs(prepared, "train")[0][0]
    assert DataReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    assert "2 labels: bad 96 (50.0%), good 96 (50.0%)" in report.render()


def test_the_kind_of_tokenizer_is_chosen_by_the_text(data):
    write(Path(data.train[0]), [(text[:-1] + " .", label) for text, label in ROWS])
    auto = prepare_data(LabelledSchema(data, AutoConfig(lowercase=True)), seed=1, progress=False)
    assert auto.configs[0] == WhitespaceConfig(lowercase=True)
    assert auto.report.notes == ["the text is tokenised already: tokens are split at spaces"]


def test_the_name_of_a_label_file_counts(tmp_path):
    for name in ("one", "two", "six"):
        (tmp_path / f"{name}.txt").write_text("".join(f"{'two' if name == 'six' else name} {i}\n" for i in range(20)))
    given = LabelledDataConfig(cache=str(tmp_path / "cache"), dev_size=0)
    first = run(replace(given, train=(str(tmp_path / "one.txt"), str(tmp_path / "two.txt"))))
    second = run(replace(given, train=(str(tmp_path / "one.txt"), str(tmp_path / "six.txt"))))
    assert (first.labels.names, second.labels.names) == (("one", "two"), ("one", "six"))


def test_folds_part_the_data(data):
    folds = [run(replace(data, folds=4, fold=fold)) for fold in (1, 2, 3, 4)]
    assert sorted(pair for fold in folds for pair in pairs(fold, "dev")) == sorted(ROWS)
    for fold in folds:
        assert list(fold.report.dev_counts.values()) == [25, 25]
        assert not set(pairs(fold, "dev")) & set(pairs(fold, "train"))


def test_more_folds_than_texts(data):
    with pytest.raises(DataError, match=r"holds \d+ different texts, too few for 1,000 folds"):
        run(replace(data, folds=1000))


def test_max_texts_takes_the_first_of_each_label_and_leaves_dev_as_it_is(data):
    whole, part = run(data), run(replace(data, max_texts=20))
    assert pairs(part, "dev") == pairs(whole, "dev")
    assert part.labels.counts == (10, 10)
    by_label = [[pair for pair in pairs(whole, "train") if pair[1] == label][:10] for label in ("good", "bad")]
    assert sorted(pairs(part, "train")) == sorted(by_label[0] + by_label[1])
    assert part.report.train.skipped["beyond max_texts"].count == 170


def test_dev_files_of_their_own(data, tmp_path):
    dev = write(tmp_path / "dev.tsv", [ROWS[1], ("New.", "good")])
    prepared = run(replace(data, dev=(dev,)))
    assert pairs(prepared, "dev") == [ROWS[1], ("New.", "good")]
    assert prepared.report.overlap == {"texts": 1}
    assert "also in the training data: 1 of the dev texts\n" in prepared.report.render()
    assert len(prepared.train) == 200
    write(tmp_path / "dev.tsv", [ROWS[0], ROWS[1], ("x", "goood"), ("y", "goood")])
    assert fail(replace(data, dev=(dev,))).endswith(
        "dev.tsv, line 3: label 'goood' is unknown; the model knows 'bad', 'good'; did you mean 'good'?"
    )
    (tmp_path / "dev.jsonl").write_text('{"text": "a", "label": ["good"]}')
    assert "texts have several labels in data.dev and one in data.train" in fail(
        replace(data, dev=(str(tmp_path / "dev.jsonl"),))
    )


def test_several_labels(tmp_path):
    rows = [{"text": f"text {number}", "label": ["a", "b", "c"][: number % 4]} for number in range(80)]
    rows.append({"text": "a rare one", "label": ["d", "a"]})
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    prepared = run(LabelledDataConfig(train=(str(path),), dev_size=8, cache=str(tmp_path / "cache")))
    assert prepared.labels.names == ("a", "b", "c", "d")
    assert prepared.labels.multiple
    assert prepared.labels.counts[3] == 1
    assert prepared.train.labels.shape == (73, 4)
    assert prepared.dev.labels.sum(axis=0).tolist() == [6, 4, 2, 0]
    np.testing.assert_array_equal(prepared.dev.batch([3, 1]).label.numpy(), prepared.dev.labels[[3, 1]])
    path.write_text('{"text": "a", "label": []}\n{"text": "b", "label": []}')
    assert "no text has a label; the column 'label' holds no label" in fail(LabelledDataConfig(train=(str(path),)))


@pytest.mark.parametrize(
    ("names", "separator"),
    [
        (["film,good", "film, bad", "book,good", "book,bad"], ","),
        (["a|b", "a", "b|c", "c"], "|"),
        (["New York, NY", "Buffalo, NY", "Boston, MA"], ""),
        (["good, really", "bad"], ""),
        (["good", "bad"], ""),
    ],
)
def test_labels_that_are_joined_in_one_column(data, tmp_path, names, separator):
    rows = [(f"text {number}", names[number % len(names)]) for number in range(80)]
    advice = run(replace(data, train=(write(tmp_path / "joined.tsv", rows),), text="0", label="1")).report.train.advice
    assert (f"If '{separator}' separates several labels" in advice) == bool(separator)
    assert advice == "" or separator


def test_labels_that_cannot_be_learned(data, tmp_path):
    def train(rows: list[tuple[str, str]]) -> str:
        return fail(replace(data, train=(write(tmp_path / "bad.tsv", rows),), text="0", label="1"))

    path = tmp_path / "bad.tsv"
    assert train([("a", "1"), ("b", "1")]) == (
        f"{path}: every text has the label '1' (2 texts), expected at least two labels; they were taken from the column '1': "
        "name another with data.label, or add texts with other labels"
    )
    assert train([*ROWS, ("odd", "odd"), ("odd", "odd")]) == (
        f"{path}: 1 of 3 labels have one text each, expected at least two different texts, for training and validation: 'odd' "
        "(line 201). They were taken from the column '1'; add texts, merge or remove labels, or name another column with "
        "data.label"
    )
    assert train([("All the words.", "kind"), *ROWS]) == (
        f"{path}: 1 of 3 labels have one text each, expected at least two different texts, for training and validation: "
        "'kind' (line 1). They were taken from the column '1'; if line 1 is a header, set data.header to yes; otherwise add "
        "texts, merge or remove labels, or name another column with data.label"
    )
    assert train([(text, f"id {number}") for number, (text, _) in enumerate(ROWS)]).startswith(
        f"{path}: 200 of 200 labels have one text each, expected at least two different texts, for training and validation: "
        "'id 0', 'id 1', "
    )
    assert "They were taken from the column '1'; " in train([("a", "x"), ("b", "y"), ("c", "z")])
    joined = train([("a", "film,good"), ("b", "film,bad"), ("c", "book,good"), ("d", "book, bad"), ("e", "film")])
    assert joined.endswith("data.label. If ',' separates several labels of a text, set data.label_separator to it.")
    assert "no training data: data.train names no file" in fail(replace(data, train=()))
