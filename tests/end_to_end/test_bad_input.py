"""Every line of what bad input gets: one message on standard error and exit code 2; signals; a loss that is not finite."""

import errno
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest

from regard.bundle.signature import checksum_of
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
    ("content", "message"),
    [
        (None, r"pairs.tsv: there is no such file"),
        (b"", r"pairs.tsv: is empty"),
        (b"a sentence\nanother one\n", r"column"),
        (b"a sentence\t\n\tein Satz\n", r"no usable pair"),
    ],
    ids=["missing", "empty", "one column", "no usable pair"],
)
def test_files_that_hold_no_pairs(tmp_path, capsys, content, message):
    file, out = tmp_path / "pairs.tsv", tmp_path / "run"
    if content is not None:
        file.write_bytes(content)
    fails(capsys, train(f"--data.train={file}", f"--out={out}"), message)
    assert not out.exists()


def test_parallel_files_of_different_length(tmp_path, capsys):
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.de").write_text("eins\n")
    out = tmp_path / "run"
    fails(capsys, train(f"--data.train={tmp_path / 'a.en'},{tmp_path / 'a.de'}", f"--out={out}"), r"2 lines and .* has 1")
    assert not out.exists()


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


def test_a_folder_that_holds_a_run(run, pairs, tmp_path, capsys):
    folder = tmp_path / "copy"
    shutil.copytree(run, folder)
    model = (folder / "model.safetensors").read_bytes()
    fails(capsys, train(f"--data.train={pairs}", f"--out={folder}"), r"already holds a run")
    assert (folder / "model.safetensors").read_bytes() == model
    assert train(f"--data.train={pairs}", f"--out={folder}", "--overwrite", "--training.max_epochs=1", "--seed=2") == 0
    assert (folder / "model.safetensors").read_bytes() != model


COMMANDS = [["translate", "DIR", "one"], ["look", "DIR", "one"], ["evaluate", "DIR", "PAIRS"], ["align", "DIR", "PAIRS"]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_folder_that_is_no_bundle(command, pairs, tmp_path, capsys):
    for folder in (tmp_path / "none", tmp_path):
        arguments = [{"DIR": str(folder), "PAIRS": str(pairs)}.get(word, word) for word in command]
        fails(capsys, main(arguments), re.escape(str(folder)))


@pytest.mark.parametrize("name", ["config.yaml", "model.safetensors", "signature.json", "tokenizer.source.json"])
@pytest.mark.parametrize("damage", ["cut", "gone", "noise"])
def test_a_damaged_bundle(name, damage, run, tmp_path, capsys):
    folder = tmp_path / "damaged"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("checkpoints", "logs"))
    content = (folder / name).read_bytes()
    if damage == "gone":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content[: len(content) // 2] if damage == "cut" else b"\x00\xff{" + content[3:])
    fails(capsys, main(["translate", str(folder), "one"]), re.escape(str(folder)))


def forge(folder, *, settings=lambda text: text, **facts):
    """Change a model's settings and its signature, with checksums that fit."""
    path = folder / "config.yaml"
    path.write_text(settings(path.read_text()))
    signature = json.loads((folder / "signature.json").read_text())
    signature["files"]["config.yaml"] = hashlib.sha256(path.read_bytes()).hexdigest()
    signature |= facts
    (folder / "signature.json").write_text(json.dumps({**signature, "checksum": checksum_of(signature)}) + "\n")


@pytest.mark.parametrize(
    ("pattern", "value", "facts", "message"),
    [
        (
            "hidden_size: .*",
            "hidden_size: 4611686018427387904",
            {},
            r"hidden_size is 4\.61169e\+18, expected 1 or more, and at",
        ),
        ("length_penalty: .*", "length_penalty: 1.0e+308", {}, r"length_penalty is 1e\+308, expected from 0 to 10"),
        ("", "", {"format_version": -1}, "format_version is -1, expected a whole number from 1 to 2; copy the model again"),
        ("", "", {"format_version": True}, "format_version is True, expected a whole number from 1 to 2"),
        ("", "", {"updates": "\x1b]0;x\x07"}, r"updates is '\\x1b\]0;x\\x07', expected a whole number; copy the model again"),
    ],
    ids=["size", "penalty", "negative", "boolean", "text"],
)
def test_a_forged_bundle(pattern, value, facts, message, run, pairs, tmp_path, capsys):
    folder = tmp_path / "forged"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("checkpoints", "logs"))
    forge(folder, settings=lambda text: re.sub(pattern, value, text) if pattern else text, **facts)
    for command in (["translate", folder, "one"], ["evaluate", folder, pairs], ["info", folder]):
        fails(capsys, main(list(map(str, command))), message)
    fails(capsys, train("--from", folder, f"--data.train={pairs}", f"--out={tmp_path / 'new'}"), message)


def test_a_file_of_one_endless_line(tmp_path, capsys):
    file = tmp_path / "pairs.tsv"
    file.write_bytes(b"x" * (20 << 20))
    words = r"(?s)^(?!.*u0000).*no usable pair in .*skipped 1: over-long line \(line 1\)"  # no mark of ours in front
    fails(capsys, train(f"--data.train={file}", f"--out={tmp_path / 'run'}"), words)


def test_a_run_that_was_killed_before_its_settings_were_written(tmp_path, capsys):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / "run.json.new").write_text("{")
    fails(
        capsys, main(["resume", str(tmp_path / "run")]), r"its run was stopped before its settings were written; start it again"
    )
    fails(capsys, main(["translate", str(tmp_path / "run"), "one"]), "holds a run without a model yet")


def test_resume_of_what_is_no_run(tmp_path, capsys):
    fails(capsys, main(["resume", str(tmp_path)]), r"holds no run")
    fails(capsys, main(["resume", str(tmp_path / "none")]), r"cannot resume")


@pytest.mark.parametrize("arguments", [["evaluate"], ["align"]], ids=["evaluate", "align"])
def test_pairs_that_are_none(arguments, run, tmp_path, capsys):
    fails(capsys, main([*arguments, str(run), str(tmp_path / "none.tsv")]), r"there is no such file")


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

    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    return subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_disk_that_is_full_at_the_start(pairs, tmp_path):
    out = tmp_path / "run"
    done = limited(["train", "translation", f"--data.train={pairs}", f"--out={out}", "--seed=5", *SMALL], bytes_a_file=512)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(r"disk is full|File too large|cannot be written", done.stderr), done.stderr
    assert not out.exists()


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


def test_a_loss_that_is_not_finite(pairs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("regard.config.fields.LARGEST", 1e39)  # a rate that no run may have makes it quick
    out = tmp_path / "run"
    code = train(
        f"--data.train={pairs}",
        f"--out={out}",
        "--training.learning_rate=1e38",
        "--training.clip_norm=0",
        "--training.max_epochs=30",
        "--training.precision=float32",
    )
    fails(capsys, code, r"(is|are) not finite at update .* lower training.learning_rate")


def test_requests_that_are_nested_too_deep(run, tmp_path, capsys):
    (tmp_path / "asked").write_text("[" * 200_000 + "\n")
    fails(
        capsys, main(["translate", str(run), "--input", str(tmp_path / "asked"), "--requests"]), "translate: line 1 is not JSON"
    )


def test_text_that_cannot_be_written_is_replaced(run, tmp_path):
    """Half of a surrogate pair in JSON, and an argument in Latin 1."""
    half, asked, out = r"one \ud800 .", tmp_path / "asked", tmp_path / "out"
    asked.write_text(f'{{"text": "{half}", "prefix": "{half}", "constraints": []}}\n')
    assert main(["translate", str(run), "--input", str(asked), "--requests", "--json", "--output", str(out)]) == 0
    assert json.loads(out.read_text())["source"] == "one ? ."
    command = [sys.executable, "-m", "regard", "translate", str(run), "--json", "--threads=1", b"one \xfc ."]
    strict = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(command, capture_output=True, check=False, env=strict)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["source"] == "one ? ."
