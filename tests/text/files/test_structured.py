"""Keys of JSON and columns of Parquet that are missing in some rows, or whose values cannot be read."""

import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regard.config import DataConfig, LabelledDataConfig
from regard.errors import DataError
from regard.text.files.report import EMPTY_LABEL, ReadingReport
from regard.text.labelled.readers import read_labelled
from regard.text.pairs.readers import read_pairs

TEXTS = [f"The film number {i} was {('good', 'bad')[i % 2]} ." for i in range(40)]
LABELS = [("pos", "neg")[i % 2] for i in range(40)]
PLATFORMS = [("web", "app")[i % 2] for i in range(40)]


def write(folder: Path, rows: Iterable[object], name: str = "x.jsonl") -> Path:
    path = folder / name
    rows = list(rows)
    path.write_text(json.dumps(rows) if name.endswith(".json") else "\n".join(map(json.dumps, rows)))
    return path


def labelled(path: Path, **settings: object) -> tuple[list[tuple[str, tuple[str, ...]]], ReadingReport]:
    report = ReadingReport()
    chunks = list(read_labelled([path], LabelledDataConfig(**settings), report))
    return [pair for chunk in chunks for pair in zip(chunk.text, chunk.labels, strict=True)], report


def refused(path: Path, **settings: object) -> str:
    with pytest.raises(DataError) as caught:
        labelled(path, **settings)
    return str(caught.value)


@pytest.mark.parametrize("name", ["x.jsonl", "x.json"])
def test_a_key_that_the_first_row_lacks(tmp_path, name):
    rows = [{"text": text, "topic": topic, "label": label} for text, topic, label in zip(TEXTS, PLATFORMS, LABELS, strict=True)]
    del rows[0]["label"]
    found, report = labelled(write(tmp_path, rows, name))
    assert report.columns == ["text", "label"]
    assert found == [(text, (label,)) for text, label in zip(TEXTS[1:], LABELS[1:], strict=True)]
    assert report.skipped[EMPTY_LABEL].lines == [1]


@pytest.mark.parametrize("name", ["x.jsonl", "x.json"])
def test_a_missing_key_is_a_missing_value(tmp_path, name):
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
    for row in rows[5:12]:
        del row["label"]
    message = refused(write(tmp_path, rows, name))
    assert "7 of 40" in message
    assert "set data.allow_skipped to 0.18" in message
    found, report = labelled(write(tmp_path, rows, name), allow_skipped=0.18)
    assert len(found) == 33
    assert report.skipped[EMPTY_LABEL].count == 7


def test_a_nested_key_that_is_missing(tmp_path):
    rows = [{"translation": {"en": text, "de": text}} for text in TEXTS]
    del rows[3]["translation"]["de"]
    rows[4] = {}
    report = ReadingReport()
    chunks = list(read_pairs([write(tmp_path, rows)], DataConfig(source="en", target="de"), report))
    assert sum(len(chunk.source) for chunk in chunks) == 38
    assert report.read == 40


@pytest.mark.parametrize(
    ("key", "value", "shape"),
    [
        ("labels", [{"name": "pos"}], "'labels' is named like the label, but holds lists of objects"),
        ("labels", [[0, 5, "PER"]], "'labels' is named like the label, but holds lists of lists"),
        ("annotations", [{"result": [{"value": {"choices": ["pos"]}}]}], "'annotations' is named like the label"),
        ("meta", {"info": {"label": "pos"}}, "'meta.info.label' is named like the label, but holds values nested too deeply"),
        ("meta", {"label": {"name": "pos"}}, "'meta.label' is named like the label, but holds objects inside objects"),
    ],
)
def test_a_better_name_that_cannot_be_read(tmp_path, key, value, shape):
    rows = [{"text": text, "platform": platform, key: value} for text, platform in zip(TEXTS, PLATFORMS, strict=True)]
    path = write(tmp_path, [rows[0] | {key: None}, *rows[1:]])
    message = refused(path)
    assert shape in message
    assert message.endswith("choose other columns, for example --data.text text --data.label platform")
    wanted = [(text, (platform,)) for text, platform in zip(TEXTS, PLATFORMS, strict=True)]
    assert labelled(path, label="platform")[0] == wanted
    if value != [[0, 5, "PER"]]:  # a list in Parquet has values of one type
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
        assert shape in refused(tmp_path / "x.parquet")
        assert labelled(tmp_path / "x.parquet", label="platform")[0] == wanted


def test_label_studio(tmp_path):
    rows = [
        {"id": i, "data": {"text": text, "source": source}, "annotations": [{"result": [{"value": {"choices": [label]}}]}]}
        for i, (text, source, label) in enumerate(zip(TEXTS, PLATFORMS, LABELS, strict=True))
    ]
    message = refused(write(tmp_path, rows, "x.json"))
    assert "'annotations' is named like the label, but holds lists of objects, which cannot be read" in message
    assert "--data.text data.text --data.label data.source" in message


def test_a_given_column_that_cannot_be_read(tmp_path):
    rows = [{"text": text, "platform": "web", "labels": [{"name": "pos"}]} for text in TEXTS]
    assert "'labels' holds lists of objects, which cannot be read as a text and a label" in refused(
        write(tmp_path, rows), label="labels"
    )
    alone = [{"text": text, "labels": [{"name": "pos"}]} for text in TEXTS]
    assert "has 1 values (keys: text, labels; 'labels' holds lists of objects), expected a text and a label" in refused(
        write(tmp_path, alone)
    )
    later = [{"text": text, "labels": [["pos"], [{"name": "pos"}]][i % 2]} for i, text in enumerate(TEXTS)]
    assert 'line 2: \'labels\' is [{"name": "pos"}], expected text' in refused(write(tmp_path, later))


def test_honest_files_with_other_nested_values(tmp_path):
    extra = {
        "full tweet": {"full_text": None, "entities": {"hashtags": [{"text": "x"}]}, "place": {"box": {"type": "Polygon"}}},
        "post with comments": {"post_text": None, "comments": [{"text": "x", "label": 1}]},
        "chat": {"prompt": None, "system": "x", "metadata": {"turns": {"count": 1}}},
        "paper": {"abstract": None, "authors_parsed": [["A", "B"]], "versions": [{"version": "v1", "created": "Mon"}]},
        "known label": {"text": None, "tags": [{"name": "x"}], "sentiment": "pos"},
    }
    for nested in extra.values():
        column = next(iter(nested))
        key = "sentiment" if "sentiment" in nested else "mood"
        rows = [nested | {column: text, key: label} for text, label in zip(TEXTS, LABELS, strict=True)]
        assert labelled(write(tmp_path, rows))[0] == [(text, (label,)) for text, label in zip(TEXTS, LABELS, strict=True)]
    rows = [{"translation": {"en": text, "de": text}, "source": ["web"], "labels": [{"x": 1}]} for text in TEXTS]
    chunks = list(read_pairs([write(tmp_path, rows)], DataConfig(source="en", target="de"), ReadingReport()))
    assert [text for chunk in chunks for text in chunk.source] == TEXTS


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["x.jsonl", "x.json"])
def test_json_in_utf_16_without_a_mark(tmp_path, name, encoding):
    path = write(tmp_path, [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)], name)
    path.write_bytes(path.read_text().encode(encoding))
    message = refused(path)
    assert "line 1: is not JSON" in message
    assert message.endswith(f"without a byte order mark: set data.encoding to {encoding}.")
    assert len(labelled(path, encoding=encoding)[0]) == 40
