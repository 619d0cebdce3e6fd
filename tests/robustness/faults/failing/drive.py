"""Does one small work again and again, in a child for each, and lets another call fail each time.

    LD_PRELOAD=calls.so python drive.py WORK PLACE KIND [--first N] [--last N] [--every N] [--always] [--kill]

`PLACE` holds what the fixture `spot` of `test_failures.py` puts there. A line of JSON on standard output says what each failure
led to: the number of the call, the exit code, standard error, and what is wrong with what is left, if anything is.
"""

import argparse
import ctypes
import errno
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from regard.bundle import load_bundle, save_bundle
from regard.bundle.folder import find
from regard.cli.main import main
from regard.errors import RegardError
from regard.training.folder import RunFolder

LONGEST = 600.0
"""Seconds until a child is taken for one that waits for ever."""
TOO_LONG = 99
_NOTHING = open(os.devnull, "w")  # noqa: SIM115 (opened before any call fails)
KINDS = {"writes": 1, "allocations": 2}


@dataclass(frozen=True)
class Work:
    """A work whose calls fail, one by one."""

    clear: Callable[[Path], None]
    """Puts the place into the state before the work."""
    run: Callable[[Path], int]
    """Does the work as a command does it, and gives its exit code."""
    wrong: Callable[[Path, int], str]
    """Says what is wrong with what is left after an exit code; empty if nothing is."""
    again: Callable[[Path], int]
    """Does it again, or goes on with it, after the failure."""


def _command(*words: object) -> int:
    with redirect_stdout(_NOTHING):
        return main([str(word) for word in words])


def _other(folder: Path, whole: Path) -> str:
    """Name the files of a model whose bytes are not those of another one."""
    # A clone's commit is named in the signature and the card, and another may have been made since.
    names = [path.name for path in whole.iterdir() if path.is_file() and path.name not in ("README.md", "signature.json")]
    return ", ".join(
        name
        for name in names
        if not find(folder, name).exists() or find(folder, name).read_bytes() != (whole / name).read_bytes()
    )


def _drafts(folder: Path) -> str:
    left = [str(path) for path in folder.rglob("*.unfinished")] if folder.is_dir() else []
    return f"left behind: {', '.join(left)}" if left else ""


def _clear_training(place: Path) -> None:
    for name in ("cache", "run"):
        shutil.rmtree(place / name, ignore_errors=True)


def _train(place: Path) -> int:
    return _command("train", "translation", "--config", place / "run.yaml")


def _wrong_training(place: Path, code: int) -> str:
    run = RunFolder(place / "run")
    if run.has_checkpoint():
        _, damage = run.load_checkpoint()
        if damage:
            return damage
    if find(run.path, "signature.json").exists():
        load_bundle(run.path)
    if code == 0 and (names := _other(run.path, place / "whole")):
        return f"not as in an undisturbed run: {names}"
    return ""


def _go_on(place: Path) -> int:
    begun = (place / "run" / "checkpoints" / "run.json").exists()
    code = _command("resume", place / "run") if begun else _train(place)
    if wrong := "" if code else _other(place / "run", place / "whole") + _drafts(place / "run"):
        print(f"not as in an undisturbed run: {wrong}", file=sys.stderr)
    return 71 if wrong else code


def _clear_resume(place: Path) -> None:
    _clear_training(place)
    shutil.copytree(place / "begun", place / "run")


def _resume(place: Path) -> int:
    return _command("resume", place / "run")


def _clear_saving(place: Path) -> None:
    shutil.rmtree(place / "saved", ignore_errors=True)
    shutil.copytree(place / "earlier", place / "saved")


def _save(place: Path) -> int:
    try:
        save_bundle(place / "saved", load_bundle(place / "whole"))
    except RegardError as error:
        print(f"regard: {error}", file=sys.stderr)
        return error.exit_code
    except BaseException as error:  # a Python program gets these as they are; a panic of a library in Rust is not an Exception
        if not isinstance(error, MemoryError) and type(error).__name__ != "PanicException":
            raise
        print(f"regard: {type(error).__name__}", file=sys.stderr)
        return 2
    return 0


def _wrong_saving(place: Path, code: int) -> str:
    load_bundle(place / "saved")
    return ""


def _save_again(place: Path) -> int:
    code = _save(place)
    left = list((place / "saved").glob(".*"))
    return code if code else (72 if left else 0)


def _clear_translation(place: Path) -> None:
    (place / "out.txt").write_text("an earlier output\n")
    for path in place.glob("out.txt.*"):
        path.unlink()


def _translate(place: Path, name: str = "in.txt") -> int:
    return _command("translate", place / "whole", "--input", place / name, "--output", place / "out.txt")


def _wrong_translation(place: Path, code: int, name: str = "in.txt") -> str:
    text, true = (place / "out.txt").read_text(), place.joinpath(f"true-{name}").read_text()
    return "" if text == true or (code and text == "an earlier output\n") else f"after {code}: {text[:100]!r}"


def _translate_again(place: Path, name: str = "in.txt") -> int:
    code = _translate(place, name)
    wrong = "" if code else _wrong_translation(place, 0, name) + ", ".join(map(str, place.glob("out.txt.*")))
    print(wrong, file=sys.stderr)
    return 73 if wrong else code


WORKS = {
    "train": Work(_clear_training, _train, _wrong_training, _go_on),
    "save": Work(_clear_saving, _save, _wrong_saving, _save_again),
    "resume": Work(_clear_resume, _resume, _wrong_training, _go_on),
    "translate": Work(_clear_translation, _translate, _wrong_translation, _translate_again),
    "translate-many": Work(
        _clear_translation,
        partial(_translate, name="many.txt"),
        partial(_wrong_translation, name="many.txt"),
        partial(_translate_again, name="many.txt"),
    ),
}


def fork(work: Callable[[], int], said: Path) -> int:
    """Do something in a child whose standard error is a file, and give its exit code."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 70
        try:
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            code = work()
        except BaseException:
            calls.calls_seen()
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    end = time.monotonic() + LONGEST
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return TOO_LONG
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(ended[1])


calls = ctypes.CDLL(None)


def drive(name: str, place: Path, options: argparse.Namespace) -> None:
    """Let every call of a kind fail in turn."""
    work, said, kind = WORKS[name], place / "said", KINDS[options.kind]
    work.clear(place)
    assert work.run(place) == 0  # everything that the work imports is imported, so that the children need not

    def fail(number: int, count: Path | None = None) -> int:
        error = -signal.SIGKILL if options.kill else errno.ENOSPC if number % 2 else errno.EIO
        calls.fail_at(kind, ctypes.c_long(number), error, int(options.always), ctypes.c_size_t(options.smallest))
        code = work.run(place)
        seen = calls.calls_seen()
        if count is not None:
            count.write_text(str(seen))
        return code

    work.clear(place)
    assert fork(lambda: fail(0, place / "count"), said) == 0, said.read_text()
    total = int((place / "count").read_text())
    print(json.dumps({"total": total}))
    for number in range(options.first, min(total, options.last) + 1, options.every):
        work.clear(place)
        begun = time.monotonic()
        code = fork(lambda number=number: fail(number), said)  # type: ignore[misc]
        found = {"number": number, "code": code, "said": said.read_text(errors="replace")}
        try:
            found["wrong"] = work.wrong(place, code)
        except Exception as error:
            found["wrong"] = f"{type(error).__name__}: {error}"
        found["again"] = fork(lambda: work.again(place), said)
        if found["again"]:
            found["wrong"] += said.read_text(errors="replace")
        print(json.dumps({**found, "seconds": round(time.monotonic() - begun, 2)}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=sorted(WORKS))
    parser.add_argument("place", type=Path)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--last", type=int, default=1 << 60)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--always", action="store_true")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--smallest", type=int, default=0)
    chosen = parser.parse_args()
    drive(chosen.work, chosen.place, chosen)
