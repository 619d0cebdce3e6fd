"""The folder of an export: replaced in one step, and only if it holds nothing else."""

import errno
import os

import pytest

from regard.errors import RequestError
from regard.export.folder import check_folder, writing


class Predictor:
    def save(self, folder):
        (folder / "config.yaml").write_text("new")


@pytest.fixture
def old(tmp_path):
    folder = tmp_path / "exported"
    folder.mkdir()
    for name in ("onnx.json", "encoder.onnx", "tokenizer.source.json", "README.md"):
        (folder / name).write_text("old")
    return folder


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.mark.parametrize("linked", [False, True])
def test_it_is_replaced_as_a_whole(old, tmp_path, linked):
    target = old
    if linked:
        target = tmp_path / "link"
        target.symlink_to(old)
    check_folder(target, overwrite=True)
    with writing(Predictor(), target):
        pass
    assert names(old) == ["config.yaml"]
    assert target.is_symlink() == linked
    assert sorted(os.listdir(tmp_path)) == sorted({"exported", target.name})


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("number", [1, 2])
def test_an_error_at_any_rename_loses_no_export(old, tmp_path, monkeypatch, error, number):
    real, calls = os.replace, []

    def replace(source, target):
        calls.append(source)
        if len(calls) == number:
            raise error
        real(source, target)

    monkeypatch.setattr("regard.disk.ctypes.CDLL", lambda name: object())  # as on a system that cannot exchange names
    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(type(error)), writing(Predictor(), old):
        pass
    assert (old / "encoder.onnx").read_text() == "old"
    assert os.listdir(tmp_path) == ["exported"]


def test_a_file_of_the_user_is_not_deleted(old):
    (old / "my_notes.txt").write_text("mine")
    with pytest.raises(RequestError, match=r"also holds 'my_notes\.txt', which no export wrote; move it"):
        check_folder(old, overwrite=True)
    assert len(names(old)) == 5


def test_a_folder_with_the_longest_name(tmp_path):
    folder = tmp_path / ("a" * 255)
    with writing(Predictor(), folder):
        pass
    assert names(folder) == ["config.yaml"]
