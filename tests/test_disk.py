"""Files are written whole and synchronised, and nothing outside `regard.disk` writes one."""

import ast
import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import regard
from regard import disk
from regard.errors import DataError
from regard.records import record

SOURCES = Path(regard.__file__).parent


@pytest.fixture
def calls(monkeypatch):
    """What is synchronised and renamed, in order: files by name."""
    done = []
    sync, replace = os.fsync, os.replace

    def noted_sync(handle):
        done.append(("sync", os.readlink(f"/proc/self/fd/{handle}")))
        sync(handle)

    def noted_replace(old, new):
        done.append(("rename", str(old), str(new)))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    return done


linux = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc, to see which files are synchronised")


@linux
def test_a_file_is_synchronised_then_renamed_then_its_folder_synchronised(tmp_path, calls):
    path = tmp_path / "a.txt"
    disk.write(path, "one ", b"two ", memoryview(b"three"))
    assert path.read_text() == "one two three"
    assert calls == [("sync", f"{path}.unfinished"), ("rename", f"{path}.unfinished", str(path)), ("sync", str(tmp_path))]


@linux
@pytest.mark.parametrize("ending", ["json", "npz", "png", "svg", "pdf", "html"])
def test_records_are_written_like_that_too(tmp_path, calls, ending):
    path = tmp_path / f"a.{ending}"
    record([[1.0]], ["a"], ["x"]).save(path)
    assert calls == [("sync", f"{path}.unfinished"), ("rename", f"{path}.unfinished", str(path)), ("sync", str(tmp_path))]


def test_a_file_of_the_user_with_a_common_ending_is_left_alone(tmp_path):
    (tmp_path / "a.txt.new").write_text("mine")
    disk.save(tmp_path / "a.txt", "text")
    assert (tmp_path / "a.txt.new").read_text() == "mine"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_after_a_full_disk_or_ctrl_c_the_old_file_is_there_and_no_other(tmp_path, monkeypatch, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(handle):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(error)):
        disk.write(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_memory_that_does_not_suffice_for_a_buffer_is_reported_as_that(tmp_path, monkeypatch):
    def fail(handle, mode):
        os.close(handle)  # as `open` does
        raise MemoryError

    monkeypatch.setattr(os, "fdopen", fail)
    with pytest.raises(MemoryError):
        disk.write(tmp_path / "a.txt", "new")


def test_a_full_disk_leaves_a_picture_as_it_was(tmp_path):
    """The limit is on the size of files, which the system reports like a full disk."""
    path = tmp_path / "a.png"
    path.write_bytes(b"old")
    code = (
        "import resource, signal, sys\nfrom regard.records import record\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "made = record([[1.0]], ['a'], ['x'])\nmade.plot()\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "made.save(sys.argv[1])"
    )
    done = subprocess.run([sys.executable, "-B", "-c", code, str(path)], capture_output=True, text=True)
    assert "a.png: cannot be written: File too large" in done.stderr
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.png"]


def test_a_killed_writer_leaves_the_old_file_and_the_next_one_clears_up(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom regard import disk\n"
        "with disk.whole_file(Path(sys.argv[1])) as file:\n"
        "    file.write(b'x' * 100_000)\n    file.flush()\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)])
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    disk.write(path, "new")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_two_that_write_one_file_at_once_do_not_mix(tmp_path):
    path = tmp_path / "a.txt"
    with disk.whole_file(path) as first:
        first.write(b"first")
        with disk.whole_file(path) as second:
            second.write(b"the second")
            assert len(os.listdir(tmp_path)) == 2
        assert path.read_bytes() == b"the second"
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_many_that_write_one_file_leave_one_whole_file(tmp_path):
    path, contents = tmp_path / "a.txt", [bytes([65 + number]) * 50_000 for number in range(8)]

    def write(content):
        for _ in range(20):
            disk.write(path, content)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in contents
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_link_that_the_user_names_is_followed_and_a_device_written_straight(tmp_path):
    (tmp_path / "there").mkdir()
    link, real = tmp_path / "link.txt", tmp_path / "there" / "real.txt"
    link.symlink_to(real)
    disk.save(link, "text")
    assert link.is_symlink()
    assert real.read_text() == "text"
    disk.save(Path(os.devnull), "text")
    assert not Path(os.devnull).is_file()


def test_permissions_stay(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o640)
    disk.write(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_errors_name_the_file_and_say_what_to_do(tmp_path):
    missing, folder = tmp_path / "no" / "a.txt", tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OSError, match=f"'{missing}'"):
        disk.write(missing, "text")
    with pytest.raises(IsADirectoryError, match=f"'{folder}'"):
        disk.write(folder, "text")
    message = f"^{missing}: cannot be written: No such file or directory: there is no folder {missing.parent}, make it first$"
    with pytest.raises(DataError, match=message):
        disk.save(missing, "text")


def test_text_has_line_feeds_and_utf_8(tmp_path):
    with disk.whole_text(tmp_path / "a.txt") as file:
        file.write("Tür\n")
        assert not (tmp_path / "a.txt").exists()
    assert (tmp_path / "a.txt").read_bytes() == "Tür\n".encode()


WRITERS = {
    "write_text", "write_bytes", "touch", "rename", "replace", "savefig", "savetxt", "savez", "savez_compressed", "save_file",
    "to_csv", "OSFile", "copy", "copyfile", "copytree", "move", "link", "symlink_to", "hardlink_to", "NamedTemporaryFile",
    "mkstemp",
}  # fmt: skip
"""Names of functions that write, rename or copy files."""


def _writes(call: ast.Call) -> bool:
    """Return True if a call writes a file: by its name, or by the mode of an `open`."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    texts = [each.value for each in (*call.args, *(word.value for word in call.keywords)) if isinstance(each, ast.Constant)]
    if name in ("open", "fdopen", "GzipFile", "ZipFile"):
        modes = [text for text in texts if isinstance(text, str) and len(text) <= 3 and set(text) <= set("rwaxbt+")]
        flags = {node.attr for each in call.args for node in ast.walk(each) if isinstance(node, ast.Attribute)}
        return any(set(mode) & set("wax+") for mode in modes) or bool(flags & {"O_WRONLY", "O_RDWR", "O_CREAT"})
    owner = function.value.id if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) else ""
    if owner == "disk":
        return False
    if (owner, name) in (("torch", "save"), ("np", "save"), ("os", "write"), ("os", "pwrite")):
        return True
    if name == "replace":  # of texts and dataclasses, two arguments; of files, one, or those of `os`
        return owner == "os" or (isinstance(function, ast.Attribute) and len(call.args) == 1 and not call.keywords)
    if name in ("copy", "copyfile", "copytree", "move", "link"):
        return owner in ("os", "shutil")
    return name in WRITERS


def test_the_search_finds_what_it_looks_for():
    written = ["open(p, 'w')", "p.open('ab')", "open(p, mode='x')", "p.write_text('')", "f.savefig(p)", "p.rename(q)"]
    written += ["os.open(p, os.O_WRONLY)", "os.open(p, os.O_CREAT | os.O_RDWR)", "torch.save(x, p)", "shutil.copy(p, q)"]
    read = ["open(p)", "p.open('rb')", "open(p, encoding='utf-8')", "a.replace('b', 'c')", "os.open(p, os.O_RDONLY)"]
    read += ["x.copy()", "disk.rename(p, q)", "bundle.save(p)"]
    assert all(_writes(ast.parse(each).body[0].value) for each in written)
    assert not any(_writes(ast.parse(each).body[0].value) for each in read)


ELSEWHERE = {
    ("records/encoding.py", "savez_compressed"): "into memory",
    ("viz/picture.py", "savefig"): "into memory",
    ("training/folder.py", "save"): "into memory",
    ("bundle/weights.py", "save"): "into memory",
    ("processes/team.py", "save"): "into memory",
    ("task/bundle.py", "write_text"): "into a folder that appears whole",
    ("terminal.py", "write"): "to standard error",
    ("terminal.py", "open"): "the null device",
}
"""Calls that look like writing a file and do not."""


def test_nothing_else_writes_files():
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        name = path.relative_to(SOURCES).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _writes(node) and name != "disk.py":
                called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
                if (name, called) not in ELSEWHERE:
                    found[f"{name}:{node.lineno}"] = ast.unparse(node)[:80]
    assert not found, f"use regard.disk to write files: {found}"
