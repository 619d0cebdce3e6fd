"""Several processes translate one file: the same bytes as one, whole or not at all."""

import gzip
import os
import re
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.bundle import save_bundle
from regard.cli import translate
from regard.cli.main import main
from regard.config.loading import load_config
from regard.errors import RequestError
from regard.models.build import build_translator
from regard.processes import parted_file
from regard.processes.parted_file import PartedFile
from regard.processes.ranks import Ranks
from regard.tasks.translation import predictor as translator
from regard.tasks.translation.bundle import TranslationBundle
from regard.tasks.translation.predictor import Translator
from regard.text.tokenizers.tokenizer import build_tokenizers

WORDS = ["a", "blue", "car", "stops", "two", "men", "see", "dog", "she", "sees", "the", "house", "."]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    kinds = {"source": {"kind": "whitespace"}, "target": {"kind": "whitespace"}}
    shape = {"kind": "transformer", "hidden_size": 8, "num_heads": 2, "feed_forward_size": 8}
    config = load_config(
        {"tokenizers": kinds, "model": {**shape, "encoder_layers": 1, "decoder_layers": 1}, "decoding": {"max_length": 6}}
    )
    source, target = build_tokenizers([([" ".join(WORDS)], [" ".join(WORDS)])], config.tokenizers, config.data)
    torch.manual_seed(1)
    built = build_translator(config.model, source_size=source.size, target_size=target.size)
    folder = tmp_path_factory.mktemp("model")
    bundle = TranslationBundle(config=config, model=built, source_tokenizer=source, target_tokenizer=target, signature={})
    save_bundle(folder, replace(bundle, custom=""))
    return str(folder)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(translate, "LINES_TOGETHER", 4)
    monkeypatch.setattr(translator, "_BLOCK", 4)


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("".join(" ".join(WORDS[: 1 + number % 7]) + "\n" for number in range(26)) + "the last")
    return path


def run(monkeypatch, rank, size, *arguments):
    with monkeypatch.context() as patch:
        for name, value in {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}.items():
            patch.setenv(name, str(value))
        return main(["translate", *map(str, arguments)])


def test_blocks_are_those_of_a_stream():
    assert translate.LINES_TOGETHER == translator._BLOCK


@pytest.mark.parametrize("options", [(), ("--sample", "2", "--seed", "3")], ids=["search", "draws"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.usefixtures("small_blocks")
def test_same_bytes_as_one_process(model, lines, tmp_path, monkeypatch, options, packed):
    if packed:
        (tmp_path / "lines.gz").write_bytes(gzip.compress(lines.read_bytes()))
        lines = tmp_path / "lines.gz"
    for name, size in (("one", 1), ("three", 3)):
        for rank in reversed(range(size)):  # the first waits for all
            assert not (tmp_path / name).exists()
            assert run(monkeypatch, rank, size, model, "--input", lines, "--output", tmp_path / name, *options) == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "three").read_bytes()
    assert len((tmp_path / "one").read_text().splitlines()) == 27 * (2 if options else 1)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(("one.", "three."))]


def test_a_process_that_fails_leaves_the_others_parts_to_the_next_attempt(model, lines, tmp_path, monkeypatch, capsys):
    out, command = tmp_path / "out", (model, "--input", lines, "--output", tmp_path / "out")
    out.write_text("of before\n")

    def fail(*arguments, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate", fail)
        assert run(patch, 1, 2, *command) == 2
    assert "process 1 of 2: the disk is full" in capsys.readouterr().err
    monkeypatch.setattr(parted_file, "PATIENCE", 0.3)
    assert run(monkeypatch, 0, 2, *command) == 2
    said = capsys.readouterr().err
    assert "process 1 of 2 has not finished its part of" in said
    assert "run the same command again to reuse them" in said
    assert out.read_text() == "of before\n"
    assert sorted(path.name for path in tmp_path.glob("out.parts/*/*")) == ["0000", "0000.begun", "0001.begun"]

    assert run(monkeypatch, 1, 2, *command) == 0
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate", fail)  # for there is nothing left to translate
        assert run(patch, 0, 2, *command) == 0
    assert len(out.read_text().splitlines()) == 27


def test_parts_of_something_else_are_not_taken(model, lines, tmp_path, monkeypatch):
    command = (model, "--input", lines, "--output", tmp_path / "out")
    run(monkeypatch, 1, 2, *command)
    run(monkeypatch, 1, 2, *command, "--beam", "1")
    run(monkeypatch, 2, 3, *command)
    lines.write_text(lines.read_text() + "\n")
    run(monkeypatch, 1, 2, *command)
    assert len(list(tmp_path.glob("out.parts/*"))) == 4


def test_both_files_are_asked_for(model, lines, monkeypatch, capsys):
    assert run(monkeypatch, 0, 2, model, "--input", lines) == 2
    expected = "translate: was started in 2 processes, which can only share a file: give --input FILE and --output FILE"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(("name", "what"), [("", "is a folder"), ("none/out", "is in '.*none', which is not a folder")])
def test_where_it_cannot_go(tmp_path, name, what):
    with pytest.raises(RequestError, match=rf"--output is '.*', which {what}; name a file in an existing folder"):
        PartedFile(tmp_path / name, Ranks(), "")


def test_what_fails_leaves_the_old_file(tmp_path):
    (tmp_path / "out").write_text("old")
    stack = ExitStack()
    stack.enter_context(PartedFile(tmp_path / "out", Ranks(), "").writing()).write("new")
    with pytest.raises(KeyError), stack:
        raise KeyError
    assert (tmp_path / "out").read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


def test_one_process_gives_no_signs_of_life(tmp_path, monkeypatch):
    """A thread that memory does not suffice for would be waited for without end."""
    monkeypatch.setattr(parted_file, "_touching", None)
    with PartedFile(tmp_path / "out", Ranks(), "").writing() as file:
        file.write("new")
    assert (tmp_path / "out").read_text() == "new"


def test_signs_of_life(tmp_path, monkeypatch):
    """Whoever is slow is waited for, however long it takes."""
    monkeypatch.setattr(parted_file, "_TOUCHED_EVERY", 0.02)
    monkeypatch.setattr(parted_file, "PATIENCE", 0.3)
    first, second = (PartedFile(tmp_path / "out", Ranks(rank, 2), "key") for rank in (0, 1))
    with first.writing() as file:
        file.write("a\n")
    with second.writing() as file:
        file.write("b\n")
        begun = time.monotonic()
        unfinished = Path(tmp_path, "out.parts", "key", "0001.new")
        before = unfinished.stat().st_mtime_ns
        while unfinished.stat().st_mtime_ns == before:
            assert time.monotonic() - begun < 10
            time.sleep(0.01)
    first.finish()
    assert (tmp_path / "out").read_text() == "a\nb\n"
    assert re.fullmatch("out", os.listdir(tmp_path)[0])


def test_who_is_late_finds_its_part(tmp_path):
    """All parts are there since an attempt that failed; the first process does not take them away under the second's hands."""
    first, second = (PartedFile(tmp_path / "out", Ranks(rank, 2), "key") for rank in (0, 1))
    for process in (first, second):
        assert not process.begin()
        with process.writing() as file:
            file.write("a\n")
    assert first.begin()
    finishing = threading.Thread(target=first.finish)
    finishing.start()
    begun = time.monotonic()
    while not (tmp_path / "out").exists():
        assert time.monotonic() - begun < 10
        time.sleep(0.01)
    time.sleep(0.2)
    assert second.begin()
    finishing.join()
    assert os.listdir(tmp_path) == ["out"]


def test_who_never_comes_is_not_waited_for_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(parted_file, "PATIENCE", 0.2)
    first, second = (PartedFile(tmp_path / "out", Ranks(rank, 2), "key") for rank in (0, 1))
    for process in (first, second, first):
        if not process.begin():
            with process.writing() as file:
                file.write("a\n")
    first.finish()
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("size", [1, 2])
def test_a_link_is_followed(tmp_path, there, size):
    target, link = tmp_path / "elsewhere" / "target", tmp_path / "out"
    target.parent.mkdir()
    if there:
        target.write_text("old")
    link.symlink_to(target)
    processes = [PartedFile(link, Ranks(rank, size), "key") for rank in range(size)]
    for process in processes:
        with process.writing() as file:
            file.write("new\n")
    processes[0].finish()
    assert link.is_symlink()
    assert target.read_text() == "new\n" * size
    assert os.listdir(target.parent) == ["target"]


def test_a_link_to_itself(tmp_path):
    (tmp_path / "out").symlink_to(tmp_path / "out")
    with pytest.raises(RequestError, match="which is a link to itself; name a file"):
        PartedFile(tmp_path / "out", Ranks(), "")


def test_one_process_writes_into_a_pipe(tmp_path):
    pipe, read = tmp_path / "out", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    process = PartedFile(pipe, Ranks(), "")
    assert not process.begin()
    with process.writing() as file:
        file.write("a\n")
    process.finish()
    assert pipe.is_fifo()
    reader.join(10)
    assert read == ["a\n"]
    assert os.listdir(tmp_path) == ["out"]


def test_several_processes_refuse_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "out")
    with pytest.raises(RequestError, match=r"is a pipe or a device: 2 processes cannot share it; name a file, or start one"):
        PartedFile(tmp_path / "out", Ranks(0, 2), "")
