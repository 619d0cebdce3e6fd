"""Folders of label files, and folders with the texts of a label."""

import gzip
import os
from functools import partial
from pathlib import Path

import pytest
import tables
from tables import labelled as read

from regard.config import LabelledDataConfig, WordsConfig
from regard.text import preparation
from regard.text.labelled.prepare import LabelledSchema
from regard.text.labelled.readers import LONGEST_SIDE
from regard.text.preparation import prepare_data
from regard.text.reasons import EMPTY_TEXT, NOT_UNICODE


def write(path: Path, content: str | bytes = "x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


refused = partial(tables.refused, read)


@pytest.fixture
def reviews(tmp_path):
    """Folders as in the download of IMDB, without the files beside them."""
    folder = tmp_path / "aclImdb" / "train"
    for label, word in (("pos", "good"), ("neg", "bad")):
        for number in range(12):
            write(folder / label / f"{number}_7.txt", f"A {word} film,\nnumber {number}.\n")
    write(folder / "pos" / ".DS_Store", b"\0\1")
    return folder


@pytest.mark.parametrize("form", ["auto", "text"])
def test_a_folder_of_texts_for_each_label(reviews, form):
    found, report = read(reviews, format=form)
    assert len(found) == 24
    assert found[0] == ("A bad film,\nnumber 0.", "neg")
    assert found[-1] == ("A good film,\nnumber 9.", "pos")
    lines = report.render().splitlines()
    assert lines[0].endswith("train/neg + " + str(reviews / "pos") + " (a folder for each label): 24 files read, 24 texts kept")


@pytest.mark.parametrize("name", ["urls_pos.txt", "metadata.csv", "Unlabelled/1.txt", "unsup/1.txt", "download.py"])
def test_other_files_and_folders_beside_labels(reviews, name):
    write(reviews / name)
    message = refused(reviews)
    assert f"{name.partition('/')[0]}, " in f"{message.partition(', not all')[0]}, "
    assert message.endswith(f"the texts of a label, as in --data.train {reviews / 'neg'},{reviews / 'pos'}")
    assert len(read(reviews / "neg", reviews / "pos")[0]) == 24


def test_texts_that_are_empty_long_packed_or_in_another_encoding(reviews, monkeypatch):
    write(reviews / "neg" / "0_7.txt", "")
    write(reviews / "neg" / "11_7.txt", " \n")
    write(reviews / "pos" / "0_7.txt", gzip.compress(b"packed"))
    write(reviews / "pos" / "1_7.txt", "long " * LONGEST_SIDE)
    write(reviews / "pos" / "2_7.txt", "schön".encode("cp1252"))
    monkeypatch.setattr("regard.text.labelled.readers.CHUNK_CHARACTERS", 50)
    found, report = read(reviews, allow_skipped=0.2)
    assert len(found) == 21
    assert found[10] == ("packed", "pos")
    assert max(len(text) for text, _ in found) == LONGEST_SIDE
    assert report.skipped[f"{EMPTY_TEXT} (neg)"].lines == [1, 3]
    assert f"skipped 2: {EMPTY_TEXT} (neg) (files 1, 3)" in report.render()
    assert report.skipped[f"{NOT_UNICODE} (pos)"].count == 1
    message = refused(reviews)
    assert message.startswith(f"{reviews / 'neg'}: 2 of 12 files (17%) are unusable")


def test_folders_are_prepared_and_found_again(reviews, tmp_path, monkeypatch):
    data = LabelledDataConfig(train=(str(reviews),), dev_size=2, cache=str(tmp_path / "cache"))
    write(reviews / "neg" / "9_7.txt", "")

    def run():
        return prepare_data(LabelledSchema(data, WordsConfig()), seed=1, progress=False)

    first = run()
    assert first.labels.names == ("neg", "pos")
    assert first.report.train.files == [str(reviews / "neg"), str(reviews / "pos")]
    with monkeypatch.context() as patch:
        patch.setattr(preparation, "_prepare", None)
        assert run().report.render() == first.report.render()
    # The same bytes in the same order, and the same number of files in each folder, one of them empty.
    (reviews / "pos" / "0_7.txt").rename(reviews / "neg" / "z.txt")
    (reviews / "neg" / "9_7.txt").rename(reviews / "pos" / "z.txt")
    second = run()
    assert second.train.path != first.train.path
    assert [second.report.train_counts[label] + second.report.dev_counts[label] for label in ("neg", "pos")] == [12, 11]


def test_folders_that_are_not_labels(reviews, tmp_path):
    write(reviews.parent / "test" / "pos" / "1.txt")
    assert "test, " + str(reviews) + ": these folders are named like the parts of a data set" in refused(reviews.parent)
    write(reviews / "neg" / "old" / "1.txt")
    message = refused(reviews)
    assert (
        f"{reviews / 'neg'}: holds a folder, old, but is read as the texts of the label 'neg'; expected files with" in message
    )
    for name in ("sports", "news"):
        write(tmp_path / "tables" / name / "x.csv")
    assert "holds a table, x.csv, but is read as the texts of the label" in refused(tmp_path / "tables")
    again = write(tmp_path / "again" / "pos" / "1.txt").parent
    assert "both have the label 'pos', expected one file or folder for each label" in refused(reviews / "pos", again)


def test_files_beside_a_folder(tmp_path):
    for name in ("pos.txt", "neg.txt", "raw/1.txt"):
        write(tmp_path / name)
    message = refused(tmp_path)
    assert f"{tmp_path}: holds raw, neg.txt, pos.txt, not all of which are labels; name the table, or the files or" in message
    assert message.endswith(f"as in --data.train {tmp_path / 'neg.txt'},{tmp_path / 'pos.txt'}")
    assert {label for _, label in read(tmp_path / "neg.txt", tmp_path / "pos.txt")[0]} == {"neg", "pos"}


def test_folders_of_the_operating_system(reviews):
    for name in ("__MACOSX/neg/._1.txt", "__MACOSX/x", "neg/__MACOSX/x", "lost+found/x"):
        write(reviews / name)
    assert len(read(reviews)[0]) == 24


def test_a_folder_that_cannot_be_read(tmp_path, monkeypatch):
    scandir = os.scandir

    def refuse(path):
        if Path(path).name == "private":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    for name in ("pos/1.txt", "private/1.txt"):
        write(tmp_path / "folders" / name)
    assert "private: cannot be read (Permission denied)" in refused(tmp_path / "folders")


@pytest.mark.parametrize("name", ["z.txt", "pos/z.txt", "z"])
def test_a_link_to_itself(reviews, name):
    (reviews / name).symlink_to(Path(name).name)
    assert len(read(reviews)[0]) == 24
    assert "there is no such file" in refused(reviews / name)


def test_the_ends_of_lines_in_a_text(reviews):
    write(reviews / "neg" / "0_7.txt", "\r".join(f"verse {number}" for number in range(20)))
    assert "verse 18\rverse 19" in read(reviews)[0][0][0]
    write(reviews / "neg.txt", "\r".join(f"verse {number}" for number in range(20)))
    assert "its lines end with \\r alone" in refused(reviews / "neg.txt", write(reviews / "pos.txt"))


def test_labels_that_begin_like_descriptions(tmp_path):
    for name in ("licensed.txt", "readmes.txt", "License.en.txt", "README"):
        write(tmp_path / name)
    assert [label for _, label in read(tmp_path)[0]] == ["licensed", "readmes"]


@pytest.mark.parametrize("others", [("README.md", "LICENSE", "notes.md"), ("readme.txt", "LICENSE.txt"), (".hidden",)])
def test_files_about_the_label_files(tmp_path, others):
    for name in ("pos.txt", "neg.txt", *others):
        write(tmp_path / "mr" / name, f"{name} is here\n")
    assert read(tmp_path / "mr")[0] == [("neg.txt is here", "neg"), ("pos.txt is here", "pos")]


def test_label_files_in_markdown(tmp_path):
    for name in ("pos.md", "neg.md", "README.md"):
        write(tmp_path / name, f"{name}\n")
    assert read(tmp_path)[0] == [("neg.md", "neg"), ("pos.md", "pos")]


def test_a_table_with_a_description(tmp_path):
    write(tmp_path / "data" / "README.md")
    assert "holds no files to read, expected one text file or one folder for each label" in refused(tmp_path / "data")
    write(tmp_path / "data" / "x.csv", "text,label\na good film,pos\n")
    assert read(tmp_path / "data")[0] == [("a good film", "pos")]


def test_a_description_with_a_version(tmp_path):
    for name in ("pos.txt", "neg.txt", "README-v2.txt"):
        write(tmp_path / name, "a good film\nanother film\n")
    assert {label for _, label in read(tmp_path)[0]} == {"pos", "neg"}
