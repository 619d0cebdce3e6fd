import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError, RequestError
from regard.records import AttentionRecord, encoding, load_record, record

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(FLOATS, min_size=2, max_size=2), st.text(max_size=6), st.none() | FLOATS)
def test_json_and_npz_are_lossless(row, word, score):
    made = record({"cross": [row], "encoder/0.np": np.eye(2)}, [word, "b"], ["x"], score=score, reference=word)
    for back in (AttentionRecord.from_json(made.to_json()), AttentionRecord.from_npz(made.to_npz())):
        assert back == made
        assert back.weights["cross"].tobytes() == made.weights["cross"].tobytes()


def test_json_is_readable_and_says_its_version():
    text = record([[0.1]], ["Tür"], ["door"]).to_json()
    assert json.loads(text)["format_version"] == 1
    assert "Tür" in text
    assert "[[0.1]]" in text


def test_a_classification_survives_and_only_it_has_the_new_format():
    made = record([[0.3, 0.7]], ["a", "b"], ["good"], probabilities={"good": 0.75, "bad": 0.25}, reference="bad")
    for back in (AttentionRecord.from_json(made.to_json()), AttentionRecord.from_npz(made.to_npz())):
        assert back == made
        assert back.probabilities == {"good": 0.75, "bad": 0.25}
    assert json.loads(made.to_json())["format_version"] == 2
    assert "probabilities" not in record([[1.0]], ["a"], ["x"]).to_json()


def test_what_is_read_and_not_written_survives():
    made = record({"decoder.0": np.eye(2)}, [], ["<s>", "x"], target_is_read=True)
    for back in (AttentionRecord.from_json(made.to_json()), AttentionRecord.from_npz(made.to_npz())):
        assert back == made
        assert back.target_is_read
    assert json.loads(made.to_json())["format_version"] == 3


def test_a_file_of_the_first_format_still_loads():
    text = (
        '{"format_version": 1, "source_tokens": ["a"], "target_tokens": ["x"], "source_words": ["a"], "target_words": ["x"], '
        '"source_word_of": [0], "target_word_of": [0], "source_text": "a", "target_text": "x", "score": null, '
        '"log_probability": null, "reference": null, "note": "n", "weights": {"cross": [[1.0]]}}'
    )
    back = AttentionRecord.from_json(text)
    assert back == record([[1.0]], ["a"], ["x"], note="n")
    assert json.loads(back.to_json()) == json.loads(text)


def test_half_a_surrogate_pair_survives():
    made = record([[1.0]], ["\ud800"], ["x"])
    assert AttentionRecord.from_json(made.to_json().encode()) == made


@pytest.mark.parametrize("ending", ["json", "npz", "JSON"])
def test_save_and_load_give_the_same_bytes_twice(tmp_path, ending):
    made = record(np.random.default_rng(1).random((2, 3, 4)), list("abcd"), list("xyz"))
    made.save(tmp_path / f"one.{ending}")
    made.save(tmp_path / f"two.{ending}")
    assert load_record(tmp_path / f"one.{ending}") == made
    assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "html"])
def test_pictures_are_saved_by_their_ending(tmp_path, ending):
    path = tmp_path / f"map.{ending}"
    record([[1.0]], ["a"], ["x"]).save(path)
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "html": b"<!doctype html>"}[ending]
    assert path.read_bytes().startswith(start)


def test_unknown_endings(tmp_path):
    made = record([[1.0]], ["a"], ["x"])
    message = r"map.pgn: cannot save as '.pgn', expected one of .json .npz .png .svg .pdf .html; did you mean '.png'\?"
    with pytest.raises(RequestError, match=message):
        made.save(tmp_path / "map.pgn")
    with pytest.raises(RequestError, match=r"records are read from .json and .npz files, not from '.png'"):
        load_record(tmp_path / "map.png")


def test_nothing_half_written_is_left(tmp_path, monkeypatch):
    made = record([[1.0]], ["a"], ["x"])
    path = tmp_path / "r.json"
    made.save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(DataError, match=r"r.json: cannot be written: No space left on device$"):
        made.save(path)
    assert os.listdir(tmp_path) == ["r.json"]
    assert path.read_bytes() == before


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(
        DataError, match=r"cannot be written: No such file or directory: there is no folder .*deep, make it first"
    ):
        record([[1.0]], ["a"], ["x"]).save(tmp_path / "deep" / "r.json")


def changed(**changes):
    data = json.loads(record([[1.0]], ["a"], ["x"]).to_json()) | changes
    return json.dumps({key: value for key, value in data.items() if value is not ...})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "x: this is not JSON"),
        ("[" * 100_000, "x: this is not JSON"),
        ("[1]", "x: expected a JSON object with the fields of a record, got a list"),
        ("{}", "x: format_version is None, expected 1 to 6: either this is not a record"),
        (changed(format_version=7), "x: format_version is 7, expected 1 to 6"),
        (changed(format_version=True), "x: format_version is True, expected 1 to 6"),
        (changed(scores=1), "x: a record has no field 'scores'; did you mean 'score'?"),
        (changed(weights=[[1.0]]), "x: AttentionRecord: weights must map at least one site"),
        (changed(weights={"cross": [["a"]]}), "x: weights['cross'] is not a matrix of numbers"),
        (changed(weights={"cross": [[1e39]]}), "x: weights['cross'] holds 1 values that are NaN or infinite"),
        (changed(source_words=3), "x: source_words must be a list of strings, got 3"),
        (changed(source_word_of={"a": 1}), "x: source_word_of must be a list of whole numbers"),
        (changed(note=["a"]), "x: note must be text, got list"),
        (changed(score="high"), "x: score must be a number or None, got 'high'"),
        (changed(score=10**400), "x: score must be a number or None, got 1000"),
        (changed(probabilities=[1]), "x: probabilities must map labels to numbers, got [1]"),
        (changed(probabilities={"a": "0.5"}), "x: probabilities['a'] is '0.5', expected a number from 0 to 1"),
        (changed(probabilities={"a": True}), "x: probabilities['a'] is True, expected a number from 0 to 1"),
        (changed(probabilities={"a": None}), "x: probabilities['a'] is None, expected a number from 0 to 1"),
        (changed(probabilities={"a": 1.5}), "x: probabilities['a'] is 1.5, expected a number from 0 to 1"),
        (changed(probabilities={"a": -0.1}), "x: probabilities['a'] is -0.1, expected a number from 0 to 1"),
        (changed(probabilities={"a": 0}).replace("0}", "1e999}"), "x: probabilities['a'] is inf, expected"),
        (changed(probabilities={"a": 10**400}), "x: probabilities['a'] is "),
        (changed(probabilities={f"{n}": 0.5 for n in range(9000)}), "x: probabilities has 9000 entries, expected at most 8192"),
        (changed(source_words=["a"] * 9000), "x: source_words has 9000 entries, expected at most 8192"),
        ('{"score": NaN}', "x: this is not JSON: NaN is not a valid number in JSON"),
    ],
)
def test_json_that_is_no_record(text, message):
    with pytest.raises(DataError) as caught:
        AttentionRecord.from_json(text, where="x")
    assert str(caught.value).startswith(message)


def test_a_field_that_lacks_is_named():
    data = json.loads(changed())
    del data["target_words"]
    with pytest.raises(DataError, match="the record lacks target_words"):
        AttentionRecord.from_json(json.dumps(data))


def npz(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)
    return buffer.getvalue()


def npy(array, **changes):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array))
    content = buffer.getvalue()
    for old, new in changes.values():
        assert old in content
        content = content.replace(old, new)
    return content


def header_of(made):
    texts = json.dumps(json.loads(made.to_json()) | {"weights": ["cross"]})
    return npy(np.frombuffer(texts.encode(), np.uint8))


def test_hostile_archives_give_one_message_each():
    made = record([[1.0]], ["a"], ["x"])
    texts = header_of(made)
    objects = io.BytesIO()
    np.lib.format.write_array(objects, np.array([{"a": 1}], dtype=object))
    huge = npy(np.zeros((1, 1), np.float32), shape=(b"(1, 1)", b"(9**9)"))
    lying = npy(np.zeros((1, 1), np.float32), shape=(b"(1, 1), }          ", b"(999999, 99999), } "))
    for content in (
        b"not a zip",
        pickle.dumps(made.source_words),
        npz(),
        npz(record__npy=texts),
        npz(record__npy=texts, weights__0__npy=b""),
        npz(record__npy=texts, weights__0__npy=objects.getvalue()),
        npz(record__npy=texts, weights__0__npy=huge),
        npz(record__npy=texts, weights__0__npy=lying),
        npz(record__npy=texts, weights__0__npy=npy(np.zeros((1, 1)))),
        npz(record__npy=npy(np.frombuffer(b"[1]", np.uint8))),
        made.to_npz()[:-40],
        made.to_npz()[:60] + b"XXXX" + made.to_npz()[64:],
    ):
        with pytest.raises(DataError, match=r"^bad: "):
            AttentionRecord.from_npz(content, where="bad")


def test_a_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr(encoding, "MAX_BYTES", 10_000)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("record.npy", b"\0" * 1_000_000)
    assert len(buffer.getvalue()) < 10_000
    with pytest.raises(DataError, match="bad: it unpacks to 1000000 bytes, expected at most 10000"):
        AttentionRecord.from_npz(buffer.getvalue(), where="bad")


def test_files_that_are_absent_or_too_large(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"a.json: the record cannot be read: No such file"):
        load_record(tmp_path / "a.json")
    monkeypatch.setattr(encoding, "MAX_BYTES", 100)
    (tmp_path / "a.json").write_text(" " * 101)
    with pytest.raises(DataError, match=r"a.json: the file has more than 100 bytes, too many for a record"):
        load_record(tmp_path / "a.json")


def test_what_could_not_be_read_again_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "MAX_WORDS", 3)
    with pytest.raises(RequestError, match=r"a.json: source_tokens has 4 entries, expected at most 3; save a picture"):
        record([[0.25] * 4], list("abcd"), ["e"]).save(tmp_path / "a.json")
    monkeypatch.setattr(encoding, "MAX_BYTES", 4)
    with pytest.raises(
        RequestError, match=r"a.json: the record needs \d+ bytes, expected at most 4; record fewer sites, or save as .npz"
    ):
        record([[1.0]], ["a"], ["b"]).save(tmp_path / "a.json")
    it = record([[0.5, 0.5]], ["a", "b"], ["c"])
    with pytest.raises(RequestError, match=rf"needs {len(it.to_npz())} bytes, expected at most 4; record fewer sites$"):
        it.save(tmp_path / "a.npz")
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(encoding, "MAX_BYTES", 10_000)
    for ending in ("json", "npz"):
        record([[1.0]], ["a"], ["b"]).save(tmp_path / f"a.{ending}")
        assert load_record(tmp_path / f"a.{ending}").source_tokens == ("a",)
