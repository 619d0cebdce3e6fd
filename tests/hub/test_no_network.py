"""Nothing but an address on the hub opens a connection."""

import os
import re
import subprocess
import sys

import pytest
from end_to_end.conftest import REVIEWS_SMALL, SMALL, write_pairs, write_reviews

GUARD = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        print("CONNECTION", event, arguments[1:], file=sys.stderr)
        raise RuntimeError(f"a connection was opened: {event}")

sys.addaudithook(refuse)
from regard.cli.main import main

for line in COMMANDS:
    if main(line) != EXPECTED:
        sys.exit(f"failed: {line}")
"""


def run(commands, expected=0, **environment):
    program = GUARD.replace("COMMANDS", repr(commands)).replace("EXPECTED", str(expected))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment or None)


@pytest.mark.slow
def test_the_guard_sees_a_connection(tmp_path):
    done = run([["translate", "hf://user/deu", "a"]], 2)
    assert "CONNECTION socket." in done.stderr


def commands(folder):
    """Return commands that train, use and export small models of each task."""
    pairs, reviews = write_pairs(folder / "pairs.tsv"), write_reviews(folder / "reviews.tsv")
    stories = folder / "stories.txt"
    stories.write_text("".join(line.partition("\t")[0] + "\n" for line in pairs.read_text(encoding="utf-8").splitlines()))
    language = ["--preset=language-tiny", "--device=cpu", "--threads=1", "--training.tensorboard=false", "--tokenizer.size=60"]
    language += ["--model.hidden_size=16", "--model.feed_forward_size=32", "--training.max_steps=3"]
    deu, labels, text = (str(folder / name) for name in ("deu", "labels", "text"))
    return [
        ["train", "translation", f"--data.train={pairs}", f"--out={deu}", *SMALL],
        ["translate", deu, "one cat .", "--heatmap", str(folder / "map.png")],
        ["evaluate", deu, str(pairs)],
        ["export", deu, "--to", str(folder / "onnx")],
        ["page", deu, "--to", str(folder / "page.html"), "--example", "one cat ."],
        ["train", "classification", f"--data.train={reviews}", f"--out={labels}", *REVIEWS_SMALL],
        ["train", "language", f"--data.train={stories}", f"--out={text}", *language],
        ["resume", deu],
        ["info", deu],
        ["curves", deu, "--to", str(folder / "curves.png")],
        ["classify", labels, "the film is fine"],
        ["generate", text, "one"],
        ["look", deu, "one cat .", "--to", str(folder / "look.html")],
        ["align", deu, str(pairs)],
        ["evaluate", labels, str(reviews)],
        ["faithfulness", labels, str(reviews), "--permutations", "2"],
        ["compare", deu, deu, str(pairs), "--resamples", "10"],
    ]


@pytest.mark.slow
def test_commands_open_no_connection(tmp_path):
    done = run(commands(tmp_path))
    assert "CONNECTION" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr


STRACE = ["strace", "-f", "--seccomp-bpf", "-qqq", "-e", "trace=connect,sendto,sendmsg,sendmmsg", "-e", "signal=none", "-o"]
WITHOUT_ROUTE = ["unshare", "--map-root-user", "--net"]
"""Starts a program in a network namespace that has no route, not even to the machine itself."""


def works(*command):
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def watched(command, log):
    """Run a command under strace, and return it and the internet addresses that it turned to."""
    command = [*STRACE, str(log), sys.executable, "-m", "regard", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done, re.findall(r"^.*AF_INET.*$", log.read_text(), re.MULTILINE)


needs_strace = pytest.mark.skipif(not works(*STRACE, os.devnull, "true"), reason="strace is not installed or not allowed")


@pytest.mark.slow
@needs_strace
def test_strace_sees_a_connection(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    done, seen = watched(["translate", "hf://user/deu", "a"], tmp_path / "log")
    assert done.returncode == 2
    assert any("htons(9)" in line for line in seen)


@pytest.mark.slow
@needs_strace
def test_processes_connect_to_nothing(tmp_path):
    """The kernel's view: whatever libraries in C do is seen too."""
    for number, command in enumerate(commands(tmp_path)[:5]):
        done, seen = watched(command, tmp_path / f"{number}.log")
        assert done.returncode == 0, done.stderr
        assert seen == [], command


@pytest.mark.slow
@pytest.mark.skipif(not works(*WITHOUT_ROUTE, "true"), reason="unshare is not installed or may not make a network namespace")
def test_processes_need_no_network(tmp_path):
    for command in commands(tmp_path)[:5]:
        done = subprocess.run(
            [*WITHOUT_ROUTE, sys.executable, "-m", "regard", *command], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
