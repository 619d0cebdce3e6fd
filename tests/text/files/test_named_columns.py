"""Keys of JSON and columns of Parquet that are missing in some rows, or whose values cannot be read."""

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from tables import read_all_labelled

from regard.config import DataConfig
from regard.errors import DataError
from regard.text.pairs.readers import read_pairs
from regard.text.reasons import EMPTY_LABEL
from regard.text.report import ReadingReport
from regard.text.rows import jsonl as json_rows

look_up = json_rows.look_up
TEXTS = [f"The film number {i} was {('good', 'bad')[i % 2]} ." for i in range(40)]
LABELS = [("pos", "neg")[i % 2] for i in range(40)]
PLATFORMS = [("web", "app")[i % 2] for i in range(40)]


def write(folder: Path, rows: Iterable[object], name: str = "x.jsonl") -> Path:
    path = folder / name
    rows = list(rows)
    path.write_text(json.dumps(rows) if name.endswith(".json") else "\n".join(map(json.dumps, rows)))
    return path


def labelled(path: Path, **settings: object) -> tuple[tables.Labelled, ReadingReport]:
    return read_all_labelled(path, **settings)[:2]


refused = partial(tables.refused, labelled)


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
    assert "for example --data.text text --data.label platform" in message
    wanted = [(text, (platform,)) for text, platform in zip(TEXTS, PLATFORMS, strict=True)]
    assert labelled(path, label="platform")[0] == wanted
    if value != [[0, 5, "PER"]]:  # a list in Parquet has values of one type
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
        assert shape in refused(tmp_path / "x.parquet")
        assert labelled(tmp_path / "x.parquet", label="platform")[0] == wanted


def write_rare(folder: Path, name: str, rows: list[dict[str, object]], extra: dict[str, object], every: int) -> Path:
    """Write rows, of which every n-th has extra keys."""
    rows = [row | extra if place % every == 0 else row for place, row in enumerate(rows)]
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), folder / name)
        return folder / name
    return write(folder, rows, name)


@pytest.mark.parametrize("name", ["x.jsonl", "x.parquet"])
@pytest.mark.parametrize("every", [3, 20])
@pytest.mark.parametrize(
    ("names", "extra"),
    [
        (("tweet", "sentiment"), {"quoted": {"text": "Somebody else said something longer than that ."}}),
        (("text", "label"), {"labels": ["pos"]}),
        (("text", "label"), {"class": "good"}),
    ],
)
def test_optional_columns(tmp_path, name, every, names, extra):
    rows = [dict(zip(names, row, strict=True)) for row in zip(TEXTS, LABELS, strict=True)]
    path = write_rare(tmp_path, name, rows, extra, every)
    if "quoted" not in extra:  # a name that is as good
        assert "could each be the label" in refused(path)
    found, report = labelled(path, label=names[1])
    assert report.columns == list(names)
    assert found == [(text, (label,)) for text, label in zip(TEXTS, LABELS, strict=True)]


@pytest.mark.parametrize("name", ["x.jsonl", "x.parquet"])
def test_optional_columns_of_pairs(tmp_path, name):
    rows = [{"english": text, "german": f"Der Film Nummer {i} ."} for i, text in enumerate(TEXTS)]
    path = write_rare(tmp_path, name, rows, {"translation": {"alt": "Der andere Film ."}}, 20)
    report = ReadingReport()
    assert sum(len(chunk.source) for chunk in read_pairs([path], DataConfig(), report)) == 40
    assert report.columns == ["english", "german"]


@pytest.mark.parametrize("name", ["x.jsonl", "x.parquet"])
def test_an_incomplete_label_is_not_replaced(tmp_path, name):
    rows = [{"text": text, "topic": topic} for text, topic in zip(TEXTS, PLATFORMS, strict=True)]
    labels = [{"label": LABELS[place // 3]} if place % 3 == 0 else {"label": None} for place in range(40)]
    whole = [row | label for row, label in zip(rows, labels, strict=True)]
    path = write_rare(tmp_path, name, whole, {}, 1)
    assert "26 of 40" in refused(path)
    assert len(labelled(path, allow_skipped=0.7)[0]) == 14
    assert len(labelled(path, label="topic")[0]) == 40
    assert "26 of 40" in refused(write_rare(tmp_path, name, [{"data": row} for row in whole], {}, 1))


INCOMPLETE = [
    {"text": text, "platform": platform} | ({"sentiment_label": label, "annotation": {"label": label}} if i % 3 == 0 else {})
    for i, (text, platform, label) in enumerate(zip(TEXTS, PLATFORMS, LABELS, strict=True))
]


@pytest.mark.parametrize("key", ["sentiment_label", "annotation"])
def test_an_incomplete_label_without_an_exact_name(tmp_path, key):
    rows = [{name: row[name] for name in ("text", "platform", key) if name in row} for row in INCOMPLETE]
    assert "26 of 40" in refused(write(tmp_path, rows))


@pytest.mark.parametrize(
    ("names", "settings"),
    [
        (("key", "en", "de", "comment"), {}),
        (("key", "english_text", "german_text", "comment"), {"source": "en", "target": "de"}),
    ],
)
def test_an_incomplete_target_is_not_replaced(tmp_path, names, settings):
    rows = [dict(zip(names, (f"k{i}", text, f"Der Film {i} .", "a note"), strict=True)) for i, text in enumerate(TEXTS)]
    for row in rows[14:]:
        row[names[2]] = None
    with pytest.raises(DataError, match="26 of 40"):
        list(read_pairs([write(tmp_path, rows)], DataConfig(**settings), ReadingReport()))


@pytest.mark.parametrize("key", ["techniques", "toxicity_types"])
def test_lists_of_labels_that_are_mostly_empty(tmp_path, key):
    rows = [
        {"text": text, key: ["insult"] if i % 4 == 0 else [], "platform": platform}
        for i, (text, platform) in enumerate(zip(TEXTS, PLATFORMS, strict=True))
    ]
    found = labelled(write(tmp_path, rows), label=key)[0]
    assert [labels for _, labels in found] == [("insult",) if i % 4 == 0 else () for i in range(40)]


def test_a_weak_name_beside_a_better_one_that_cannot_be_read(tmp_path):
    rows = [
        {"body": text, "user": {"type": ["User", "Bot"][i % 2]}, "labels": [{"name": "bug"}]} for i, text in enumerate(TEXTS)
    ]
    assert "'labels' is named like the label, but holds lists of objects" in refused(write(tmp_path, rows))
    rows = [{"input": text, "output": f"Der Film {i} .", "source": ["tatoeba"]} for i, text in enumerate(TEXTS)]
    report = ReadingReport()
    assert sum(len(chunk.source) for chunk in read_pairs([write(tmp_path, rows)], DataConfig(), report)) == 40
    assert report.columns == ["input", "output"]


@pytest.mark.parametrize("name", ["x.jsonl", "x.parquet"])
def test_a_rare_column_that_the_settings_name(tmp_path, name):
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
    path = write_rare(tmp_path, name, rows, {"class": "good"}, 20)
    for column in ("class", "2"):
        found, report = labelled(path, label=column, allow_skipped=1)
        assert report.columns == ["text", "class"]
        assert len(found) == 2
    assert "there is no column 'klass'; it has 'text', 'label', 'class'" in refused(path, label="klass")


@pytest.mark.parametrize("name", ["x.jsonl", "x.parquet"])
def test_lists_that_are_named_like_a_column_by_chance(tmp_path, name):
    for pair in (("input", "output"), ("en", "de")):
        rows = [{pair[0]: text, pair[1]: text.upper(), "source": ["tatoeba"]} for text in TEXTS]
        report = ReadingReport()
        assert sum(len(chunk.source) for chunk in read_pairs([write_rare(tmp_path, name, rows, {}, 1)], DataConfig(), report))
        assert report.columns == list(pair)
    rows = [{"text": text, "sentiment": label, "labels": [{"start": 1}]} for text, label in zip(TEXTS, LABELS, strict=True)]
    assert labelled(write_rare(tmp_path, name, rows, {}, 1))[1].columns == ["text", "sentiment"]


def test_objects_with_other_keys_in_each_row(tmp_path, monkeypatch):
    rows = [
        {"text": text, "label": label, "votes": {f"user {place} {i}": 1 for i in range(100)}}
        for place, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))
    ]
    looked_up = []
    monkeypatch.setattr(json_rows, "look_up", lambda row, keys: looked_up.append(keys) or look_up(row, keys))
    path = write(tmp_path, rows)
    assert labelled(path)[1].columns == ["text", "label"]
    assert len(looked_up) < 200 * len(rows)
    assert labelled(path, text="votes.user 7 99", label="label", allow_skipped=1)[0] == [("1", ("neg",))]


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
    assert "'labels' holds lists of objects, which cannot be read as the label; write its values as plain texts" in refused(
        write(tmp_path, rows), label="labels"
    )
    alone = [{"text": text, "labels": [{"name": "pos"}]} for text in TEXTS]
    assert "has 1 values (keys: text, labels; 'labels' holds lists of objects), expected a text and a label" in refused(
        write(tmp_path, alone)
    )
    later = [{"text": text, "labels": [["pos"], [{"name": "pos"}]][i % 2]} for i, text in enumerate(TEXTS)]
    allowed = "text, a number, true or false, or an array of these"
    assert 'line 2: \'labels\' is [{"name": "pos"}], expected ' + allowed in refused(write(tmp_path, later))


def test_readable_files_with_other_nested_values(tmp_path):
    extra = {
        "full tweet": {"full_text": None, "entities": {"hashtags": [{"text": "x"}]}, "place": {"box": {"type": "Polygon"}}},
        "post with comments": {"post_text": None, "comments": [{"text": "x", "label": 1}]},
        "chat": {"prompt": None, "metadata": {"turns": {"count": 1}}},
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


@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.parquet"])
def test_a_file_that_is_sorted_by_its_label(tmp_path, name):
    texts = [f"Una película número {i} muy larga" for i in range(3000)]
    labels, channels = ["pos"] * 1500 + ["neg"] * 1500, ["web", "forum", "app"] * 1000
    for names in (("comentario", "clasificación", "canal"), ("foo", "bar", "baz")):
        rows = [dict(zip(names, row, strict=True)) for row in zip(texts, labels, channels, strict=True)]
        if name == "x.parquet":
            pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
        else:
            write(tmp_path, rows, name)
        if names[0] == "foo":
            assert "could each be the label" in refused(tmp_path / name)
        else:
            assert labelled(tmp_path / name)[0] == [(text, (label,)) for text, label in zip(texts, labels, strict=True)]
