"""What is well formed and hostile all the same: made by structure, where mutations of bytes seldom arrive."""

import json
import os
import struct
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from fuzz.bundles import bundles, resign
from fuzz.readers import parquet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.bundle import load_bundle
from regard.config import DataConfig, LabelledDataConfig
from regard.config.loading import dump_config, load_config, parse_layer, read_config, setting_names
from regard.errors import BundleError, ConfigError, DataError, RegardError
from regard.records import AttentionRecord
from regard.tasks.translation.config import TranslationConfig
from regard.text.labelled.readers import read_labelled
from regard.text.labelled.vectors import read_vectors
from regard.text.pairs.readers import read_pairs
from regard.text.report import ReadingReport

few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> dict[str, Path]:
    return bundles(tmp_path_factory.mktemp("bundles"))


@few
@given(st.dictionaries(st.sampled_from(sorted(set(setting_names(TranslationConfig)))), values, max_size=3))
def test_any_value_of_any_setting(changes):
    plain = dump_config(load_config())
    for name, value in changes.items():
        inner = plain
        *parents, last = name.split(".")
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = value
    try:
        config = load_config(plain)
    except ConfigError:
        return
    assert load_config(dump_config(config)) == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model:\n  kind: [a]\n", r"model.kind is \['a'\], expected one of: recurrent"),
        ('out: "\\U00110000"\n', "not valid YAML"),
        ('out: "\\ud800"\n', "out is .*, expected text"),
        ("seed: " + "9" * 5000, "seed is .*expected a whole number"),
        ("seed: " + "9" * 30, "seed is .*expected a whole number"),
        ("model: {hidden: " + "[" * 20_000, "nested more than 50 deep"),
        ("- " * 20_000, "nested more than 50 deep"),
        ("a: " + "x" * (1 << 18), "has more than 262,144 characters"),
        ("model: {encoder: {num_layers: 1000000000}}", r"num_layers is 1e\+09, expected from 1 to 1000"),
    ],
)
def test_hostile_yaml(text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(parse_layer(text, "c.yaml"))
    assert len(str(caught.value)) < 2100


def test_a_configuration_without_end_is_not_read_to_its_end():
    if not Path("/dev/zero").exists():
        pytest.skip("no /dev/zero here")
    with pytest.raises(ConfigError, match="has more than 262,144 characters"):
        read_config("/dev/zero")


def test_a_message_shows_no_control_characters_and_has_an_end(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\x1b[2J\nc\td\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        list(read_pairs([path], DataConfig(columns=("a", "x" * 9000)), ReadingReport()))
    message = str(caught.value)
    assert "\x1b" not in message
    assert len(message) < 2100


@pytest.mark.parametrize("columns", [("²", "1"), ("9" * 5000, "1")])
def test_columns_that_only_look_like_numbers(tmp_path, columns):
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\nc\td\n", encoding="utf-8")
    with pytest.raises(DataError, match="there is no column"):
        list(read_pairs([path], DataConfig(columns=columns), ReadingReport()))


def test_a_header_of_one_column(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("a\nb\tc\n", encoding="utf-8")
    with pytest.raises(DataError, match="has 1 column, expected a source and a target"):
        list(read_pairs([path], DataConfig(header="yes"), ReadingReport()))
    with pytest.raises(DataError, match="has 1 column, expected a text and a label"):
        list(read_labelled([path], LabelledDataConfig(header="yes"), ReadingReport()))


def test_nested_braces_where_the_format_is_guessed(tmp_path):
    path = tmp_path / "pairs"
    path.write_text('{"a":' * 5000 + "\tx\nb\tc\n", encoding="utf-8")
    assert [chunk.source for chunk in read_pairs([path], DataConfig(), ReadingReport())]


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"])
def test_names_that_no_file_can_have(name):
    with pytest.raises(DataError, match=r"cannot be read|there is no such file"):
        list(read_pairs([name], DataConfig(), ReadingReport()))


def test_long_rows_of_csv_are_held_a_few_at_a_time(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("source,target\n" + ("x" * 1_500_000 + ",b\n") * 8 + "c,d\n", encoding="utf-8")
    report = ReadingReport()
    chunks = list(read_pairs([path], DataConfig(allow_skipped=1), report))
    assert [chunk.source for chunk in chunks] == [["c"]]
    assert report.skipped["over-long line"].count == 8


def test_a_text_that_many_rows_of_parquet_share_is_held_once(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet(pa.table({"source": ["x" * 100_000] * 3000 + ["a"], "target": ["b"] * 3001})))
    assert path.stat().st_size < 300_000
    report = ReadingReport()
    assert [chunk.source for chunk in read_pairs([path], DataConfig(allow_skipped=1), report)] == [["a"]]
    assert report.skipped["over-long line"].count == 3000


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_whole_numbers_are_the_same_labels_in_every_form(tmp_path, form):
    path = tmp_path / f"a.{form}"
    if form == "csv":
        path.write_text("text,label\na,1.0\nb,-2.0\nc,0.5\n")
    elif form == "jsonl":
        path.write_text("".join(json.dumps({"text": x, "label": y}) + "\n" for x, y in (("a", 1.0), ("b", -2.0), ("c", 0.5))))
    else:
        path.write_bytes(parquet(pa.table({"text": ["a", "b", "c"], "label": [1.0, -2.0, 0.5]})))
    [chunk] = read_labelled([path], LabelledDataConfig(), ReadingReport())
    assert chunk.labels == [("1",), ("-2",), ("0.5",)]


def test_a_promised_width_takes_no_memory(tmp_path):
    path = tmp_path / "v.vec"
    path.write_text("1 10000\nthe 0.5\n")
    with pytest.raises(DataError, match="line 2: has 1 numbers, expected 10,000"):
        read_vectors(path, ["the"] * 10_000_000)


column = st.sampled_from(
    [pa.string(), pa.large_string(), pa.binary(), pa.int64(), pa.float32(), pa.bool_(), pa.list_(pa.string()), pa.date32()]
)


@few
@given(st.lists(st.tuples(st.sampled_from(["source", "target", "text", "label", "a.b", ""]), column), max_size=4), st.data())
def test_any_table_of_parquet(tmp_path, columns, data):
    rows = data.draw(st.integers(0, 4))
    arrays = [pa.nulls(rows, kind) for _, kind in columns]
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet(pa.table(arrays, names=[name for name, _ in columns])))
    for read, config in ((read_pairs, DataConfig()), (read_labelled, LabelledDataConfig())):
        with pytest.raises(DataError):  # nothing but nulls
            list(read([path], config, ReadingReport()))  # type: ignore[operator]


def test_lists_below_the_first_rows_are_no_texts(tmp_path):
    path, lists = tmp_path / "a.parquet", pa.array([None] * 1200 + [["a"]], pa.list_(pa.string()))
    path.write_bytes(parquet(pa.table([lists, pa.array(["x"] * 1201)], names=["source", "target"])))
    with pytest.raises(DataError, match="the column 'source' holds lists, expected text"):
        list(read_pairs([path], DataConfig(), ReadingReport()))


def test_lists_that_are_null_are_no_texts(tmp_path):
    path, lists = tmp_path / "a.parquet", pa.nulls(1, pa.list_(pa.string()))
    path.write_bytes(parquet(pa.table([lists, lists], names=["source", "text"])))
    with pytest.raises(DataError, match="no column looks like the label"):
        list(read_labelled([path], LabelledDataConfig(), ReadingReport()))


def change(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    resign(folder, [name])


def refuse(folder: Path, name: str, content: bytes, message: str) -> None:
    true = (folder / name).read_bytes()
    try:
        change(folder, name, content)
        with pytest.raises(BundleError, match=message):
            load_bundle(folder)
    finally:
        change(folder, name, true)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [-2, -1], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": ["a"], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": "ab", "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [10**4000] * 40, "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [1] * 65, "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
        {"dtype": "Q8", "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [8]},
    ],
)
def test_headers_that_lie(saved, entry):
    header = json.dumps({"x": entry}).encode()
    content = struct.pack("<Q", len(header)) + header + b"\0" * 8
    refuse(saved["translation"], "model.safetensors", content, "is not a safetensors file")


def test_a_model_of_no_bytes(saved):
    refuse(saved["translation"], "model.safetensors", b"", "is not a safetensors file")


@pytest.mark.parametrize("task", ["translation", "classification", "language"])
def test_sizes_and_depths_beyond_all_measure(saved, task):
    """Every whole number of a model's settings, one after another; refused before anything is allocated."""
    folder = saved[task]
    true = (folder / "config.yaml").read_text()
    lines = true.split("\n")
    begin = lines.index("model:")
    sizes = [n for n in range(begin + 1, len(lines)) if lines[n].startswith("  ") and lines[n].split(": ")[-1].isdigit()]
    for number in sizes:
        name = lines[number].split(":")[0]
        for size in ("1000", "1000000000", "9" * 18, "9" * 400):
            changed = [*lines[:number], f"{name}: {size}", *lines[number + 1 :]]
            try:
                change(folder, "config.yaml", "\n".join(changed).encode())
                load_bundle(folder)  # some settings decide nothing of the weights
            except RegardError as error:
                assert isinstance(error, BundleError)  # noqa: PT017
            finally:
                change(folder, "config.yaml", true.encode())


@few
@given(names=values, counts=values, temperature=values)
def test_any_labels(saved, names, counts, temperature):
    folder = saved["classification"]
    true = (folder / "labels.json").read_bytes()
    plain = {"labels": {"names": names, "multiple": False, "counts": counts}, "temperature": temperature}
    try:
        change(folder, "labels.json", json.dumps(plain).encode())
        load_bundle(folder)
    except BundleError:
        pass
    finally:
        change(folder, "labels.json", true)


def test_labels_that_cannot_be_printed(saved):
    plain = {"labels": {"names": ["\ud800", "b"], "multiple": False, "counts": [1, 1]}, "temperature": 1.0}
    refuse(saved["classification"], "labels.json", json.dumps(plain).encode(), "half of a surrogate pair")
    plain["temperature"] = 10**400
    refuse(saved["classification"], "labels.json", json.dumps(plain).encode(), "does not hold labels")


@pytest.mark.parametrize("name", ["model.safetensors", "config.yaml", "tokenizer.json", "signature.json"])
def test_pipes_and_devices_are_not_opened(saved, tmp_path, name):
    path = saved["language"] / name
    kept = path.read_bytes()
    path.unlink()
    try:
        os.mkfifo(path)
        with pytest.raises(BundleError, match="it is not an ordinary file"):
            load_bundle(saved["language"])
    finally:
        path.unlink()
        path.write_bytes(kept)


@few
@given(st.data())
def test_any_record(data):
    fields = ["source_tokens", "target_tokens", "source_words", "target_words", "source_word_of", "target_word_of", "weights"]
    plain = {name: data.draw(values) for name in fields} | {"format_version": 1}
    extra = data.draw(st.sampled_from(["score", "log_probability", "probabilities", "note", "reference"]))
    plain[extra] = data.draw(values)
    with suppress(DataError):
        AttentionRecord.from_json(json.dumps(plain))


def test_word_indices_that_are_infinite():
    text = json.dumps({"format_version": 1, "source_tokens": ["a"], "target_tokens": ["b"], "source_words": ["a"]})
    text = text[:-1] + ', "target_words": ["b"], "source_word_of": [1e999], "target_word_of": [0], "weights": {"cross": [[1]]}}'
    with pytest.raises(DataError, match="source_word_of must be a list of whole numbers"):
        AttentionRecord.from_json(text)
