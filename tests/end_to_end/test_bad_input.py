"""Every line of what bad input gets: one message on standard error and exit code 2; signals; a loss that is not finite."""

import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

import pytest

from regard.cli.main import main

SMALL = [
    "--threads=1",
    "--device=cpu",
    "--model.embedding_size=16",
    "--model.encoder.hidden_size=16",
    "--model.decoder.hidden_size=16",
    "--training.tensorboard=false",
]


def train(*arguments):
    return main(["train", "translation", *SMALL, *map(str, arguments)])


def fails(capsys, code, message, expected=2):
    out, err = capsys.readouterr()
    assert code == expected, err
    last = err.strip()
    assert "Traceback" not in last
    assert re.search(message, last), last
    assert "regard: " in last
    return out


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--training.lerning_rate=1", r"did you mean 'training.learning_rate'\?"),
        ("--preset=tutorial-gruu", r"did you mean 'tutorial-gru'\?"),
        ("--training.learning_rate=-1", r"training.learning_rate is -1, expected more than 0"),
        ("--model.decoder.readout_dropout=1.5", r"model.decoder.readout_dropout is 1.5, expected 0 or more and less than 1"),
        ("--device=cuda:99", r"device is 'cuda:99', but there (is|are)"),
    ],
)
def test_settings(pairs, tmp_path, capsys, argument, message):
    out = tmp_path / "run"
    fails(capsys, train(f"--data.train={pairs}", f"--out={out}", argument), message)
    assert not out.exists()


def test_translating_an_empty_file(run, tmp_path, capsys):
    (tmp_path / "empty").touch()
    fails(
        capsys, main(["translate", str(run), "--input", str(tmp_path / "empty")]), r"is empty, so there is nothing to translate"
    )


def test_more_translations_than_the_beam(run, capsys):
    fails(
        capsys,
        main(["translate", str(run), "one", "--beam", "2", "--n-best", "3"]),
        r"n_best is 3, expected 1 to beam_size, which is 2",
    )


def limited(arguments, *, bytes_a_file):
    """Run a command that may write no file beyond a size: the system's own stand-in for a disk that is full."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_a_file, bytes_a_file))

    # Python would leave cut bytecode files beside the package.
    command = [sys.executable, "-B", "-m", "regard", *map(str, arguments)]
    return subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_disk_that_is_full_at_a_checkpoint(run, pairs, tmp_path):
    out = tmp_path / "run"
    done = limited(["train", "translation", f"--data.train={pairs}", f"--out={out}", *SMALL], bytes_a_file=20_000)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "the disk is full" in done.stderr, done.stderr


def test_a_disk_that_is_full_while_drawing(run, tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    code = main(["look", str(run), "one red .", "--target", "eins rot .", "--to", str(tmp_path / "x.json")])
    fails(capsys, code, r"No space left on device")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"),
    [pytest.param(signal.SIGINT, 130, id="Ctrl-C"), pytest.param(signal.SIGTERM, 143, id="SIGTERM", marks=pytest.mark.slow)],
)
def test_signals_during_training(number, code, pairs, tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "regard", "train", "translation", f"--data.train={pairs}", f"--out={out}"]
    command += [*SMALL, "--training.max_epochs=100000", "--training.validation_pairs=2", "--training.checkpoint_every=5"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not (out / "checkpoints" / "last.ckpt").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert f"regard resume {out}" in err
    assert "Traceback" not in err
    assert (out / "checkpoints" / "last.ckpt").exists()


def test_text_that_cannot_be_written_is_replaced(run):
    """An argument in Latin 1."""
    command = [sys.executable, "-m", "regard", "translate", str(run), "--json", "--threads=1", b"one \xfc ."]
    strict = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(command, capture_output=True, check=False, env=strict)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["source"] == "one ? ."
