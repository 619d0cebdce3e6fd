"""Locks on files, and files that appear as a whole, also with what Windows has."""

import os
import threading
import types

import pytest

from regard import disk
from regard.disk import flush, holder_of, locked


@pytest.fixture(params=["posix", "windows"])
def system(request, monkeypatch):
    """This system, and one that has only what Windows has, and therefore no locks."""
    if request.param == "windows":
        monkeypatch.setattr(disk, "fcntl", None)
        for name in ("O_CLOEXEC", "pread", "pwrite"):
            monkeypatch.delattr(os, name)
    return request.param


def test_a_lock_is_held_by_one_and_names_its_process(tmp_path):
    path = tmp_path / "lock"
    with locked(path) as holder:
        assert holder == ""
        assert holder_of(path) == f"process {os.getpid()} on this machine"
        with locked(path) as second:
            assert second == f"process {os.getpid()} on this machine"
    assert not path.exists()
    assert holder_of(path) == ""


def test_a_lock_can_be_taken_again(system, tmp_path):
    for _ in range(3):
        with locked(tmp_path / "lock") as holder:
            assert holder == ""


def test_a_file_that_a_dead_process_left_holds_nobody_up(system, tmp_path):
    path = tmp_path / "lock"
    path.write_text("123 elsewhere\n")
    assert holder_of(path) == ""
    with locked(path) as holder:
        assert holder == ""


def test_the_second_waits_until_the_first_is_done(tmp_path):
    path, order = tmp_path / "lock", []

    def second() -> None:
        with locked(path, wait=True) as holder:
            order.append(("second", holder))

    with locked(path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        order.append(("first", ""))
    thread.join(10)
    assert order == [("first", ""), ("second", "")]


def test_windows_flushes_files_open_for_writing_and_no_folders(monkeypatch):
    opened = []
    windows = types.SimpleNamespace(
        name="nt",
        O_RDWR=os.O_RDWR,
        open=lambda path, flags: opened.append((path.path, flags)) or 99,
        fsync=lambda handle: None,
        close=lambda handle: None,
    )
    monkeypatch.setattr(disk, "os", windows)
    flush(_Path("file", folder=False))
    flush(_Path("folder", folder=True))
    assert opened == [("file", os.O_RDWR)]


class _Path:
    """A path that asks no system what it is."""

    def __init__(self, path, *, folder: bool) -> None:
        self.path, self.folder = path, folder

    def is_dir(self) -> bool:
        return self.folder


def test_a_file_appears_whole(system, tmp_path):
    disk.write(tmp_path / "file", b"one ", b"two")
    assert (tmp_path / "file").read_bytes() == b"one two"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
