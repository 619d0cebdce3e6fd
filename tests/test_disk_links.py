"""Links, pipes and second names in a folder from a stranger: nothing outside of the folder is read or written."""

import errno
import os

import pytest

from regard import disk
from regard.bundle.folder import replacing
from regard.errors import ConfigError, DataError
from regard.training.folder import RunFolder

linux = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes and hard links")


@pytest.fixture
def precious(tmp_path):
    path = tmp_path / "precious"
    path.write_text("a long and precious content, longer than the number of a process\n")
    return path


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    return folder


def place(kind, path, precious):
    {"link": path.symlink_to, "second name": path.hardlink_to, "pipe": lambda _: os.mkfifo(path)}[kind](precious)


@pytest.mark.parametrize("name", ["checkpoints", "logs"])
def test_a_run_does_not_write_to_linked_folders(model, tmp_path, name):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.yaml").touch()
    (model / "model.safetensors").touch()
    (model / name).symlink_to(tmp_path / "other")
    with pytest.raises(ConfigError, match=f"{name}' is a link; move it, or name another folder"):
        RunFolder(model).check_free(overwrite=True)
    with pytest.raises(ConfigError, match=f"{name}' is a link, expected the folder itself"):
        RunFolder(model).check_begun()


@linux
@pytest.mark.parametrize("kind", ["link", "second name", "pipe"])
def test_locks_and_drafts_are_files_of_their_own(model, precious, kind):
    before = precious.read_bytes()
    place(kind, model / ".writing", precious)
    place(kind, model / "map.png.unfinished", precious)
    with replacing(model) as stage:
        disk.write(stage / "faithfulness.json", "{}")
    disk.save(model / "map.png", "picture")
    assert precious.read_bytes() == before
    assert sorted(os.listdir(model)) == ["faithfulness.json", "map.png"]
    assert not (model / "map.png").is_symlink()


@linux
def test_a_file_of_a_folder_replaces_a_link_and_a_log_is_not_appended_to_one(model, precious):
    before = precious.read_bytes()
    for name in ("run.json", "metrics.csv"):
        (model / name).symlink_to(precious)
    disk.write(model / "run.json", "{}")
    with pytest.raises(OSError, match="it is not an ordinary file"):
        disk.open_ordinary(model / "metrics.csv", "a")
    assert precious.read_bytes() == before
    assert (model / "run.json").read_text() == "{}"


@linux
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_only_ordinary_files_are_read(model, precious, kind):
    place(kind, model / "lock", precious)
    with pytest.raises(OSError, match="it is not an ordinary file"):
        disk.read(model / "lock")
    assert disk.holder_of(model / "lock") == ""
    with pytest.raises(OSError, match="it has 65 bytes, expected at most 10"):
        disk.read(precious, 10)


@pytest.mark.parametrize("length", [120, 121, 251, 252, 255])
def test_names_of_every_length(tmp_path, length):
    path = tmp_path / ("ä" * 30 + "a" * (length - 60))
    with disk.whole_file(path) as first:
        disk.save(path, "second")
        first.write(b"first")
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("system", ["this one", "without an exchange"])
def test_two_folders_exchange_their_names(tmp_path, monkeypatch, system):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "name").write_text(folder.name)
    if system != "this one":
        monkeypatch.setattr(disk.ctypes, "CDLL", lambda name: object())
    disk.exchange(one, other)
    assert [(path / "name").read_text() for path in (one, other)] == ["other", "one"]
    real, calls = os.replace, []

    def fail(old, new):
        calls.append(old)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(old, new)

    if system != "this one":
        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="No space left"):
            disk.exchange(one, other)
        assert [(path / "name").read_text() for path in (one, other)] == ["other", "one"]
    assert sorted(os.listdir(tmp_path)) == ["one", "other"]


def test_messages_about_a_file_name_are_one_line():
    assert str(DataError("cannot read a\nregard: all is well\n  line 2 \udcff")) == (
        "cannot read a\\nregard: all is well\n  line 2 \\udcff"
    )
