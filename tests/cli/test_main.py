"""The command line as a whole: help, mistakes, exit codes."""

import errno
import os
import subprocess
import sys
import time

import pytest

from regard.cli import main as cli
from regard.cli.options import record_of
from regard.errors import DataError, Interrupted, RequestError
from regard.tasks.translation.results import Translation

PYTHON = sys.executable


def test_help_teaches_and_is_quick():
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        done = subprocess.run([PYTHON, "-m", "regard", "--help"], capture_output=True, text=True, check=True)
        best = min(best, time.perf_counter() - start)
    for word in ("demo", "presets", "train translation", "resume", "translate", "evaluate", "look", "align", "corpus"):
        assert f"regard {word}" in done.stdout
    assert best < 0.5


@pytest.mark.parametrize("arguments", [["--help"], ["presets"], ["train", "translation", "--help"], ["translate", "--help"]])
def test_no_torch_for_what_needs_none(arguments):
    code = (
        "import sys; from regard.cli.main import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        "sys.exit(bool({'torch', 'lightning', 'matplotlib', 'pyarrow', 'sacrebleu'} & set(sys.modules)))"
    )
    subprocess.run([PYTHON, "-c", code], capture_output=True, check=True)


def test_analyses_of_one_kind_do_not_load_those_of_tasks():
    code = (
        "import sys, regard\n"
        "regard.curves\n"
        "assert 'torch' not in sys.modules\n"
        "regard.capture, regard.info\n"
        "assert not {'regard.tasks', 'torch._dynamo'} & set(sys.modules)\n"
        "assert 'decisive_share' in dir(regard)"
    )
    subprocess.run([PYTHON, "-c", code], capture_output=True, check=True)


def test_no_arguments_is_help(capsys):
    assert cli.main([]) == 0
    assert "regard demo" in capsys.readouterr().out


def test_a_model_without_attention_has_nothing_to_show():
    with pytest.raises(RequestError, match="look: this model has no attention over the source, so there is nothing to show"):
        record_of(Translation("a", "b", 0.0, 0.0).attention, "look")


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_version(word, capsys):
    assert cli.main([word]) == 0
    assert capsys.readouterr().out == "regard 0.1.0\n"


def test_help_with_a_command_is_the_help_of_the_command(capsys):
    with pytest.raises(SystemExit):
        cli.main(["help", "translate"])
    assert "usage: regard translate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "no command is named 'trian'; did you mean 'train'? (`regard --help` shows them)"),
        (["train", "translatoin"], "train: there is no task 'translatoin'; did you mean 'translation'?"),
        (
            ["train", "deu.txt"],
            "train: the first argument is 'deu.txt', expected the task (translation, classification, language, captioning, "
            "tagging): `regard train TASK --data.train deu.txt`",
        ),
        (["translate"], "translate: the following arguments are required: DIR"),
        (["translate", "x", "--bem", "5"], "translate: unexpected argument '--bem'; did you mean '--beam'?"),
        (["translate", "x", "--bea=5"], "translate: unexpected argument '--bea=5'; did you mean '--beam'?"),
        (["translate", "x", "hi", "--beam", "0"], "argument --beam: 0, expected from 1 to 1000"),
        (["translate", "x", "hi", "--n-best", "two"], "argument --n-best: 'two', expected a whole number"),
        (
            ["translate", "x", "hi", "--heatmap", "map.gif"],
            "--heatmap names 'map.gif', expected a file that ends in .png, .svg",
        ),
        (["translate", "x", "hi", "ho", "--heatmap", "m.png"], "the file m.png, but there are 2 sentences: name a folder"),
        (["translate", "x", "hi", "--input", "f"], "translate: sentences and --input are both given; give only one of the two"),
        (["translate", "x", "--input", "/nowhere/f"], "/nowhere/f: cannot be read (No such file or directory)"),
        (["look", "x"], "look: the following arguments are required: SENTENCE"),
        (["look", "x", " "], "look: the sentence is empty"),
        (["look", "x", "hi", "--to", "map"], "--to names 'map', expected a file that ends in .png"),
        (["presets", "loung"], "no preset is named 'loung'; did you mean 'luong'? (`regard presets` lists them)"),
        (["presets", "luong", "more"], "presets: unexpected argument 'more'"),
    ],
)
def test_mistakes_get_one_message_and_code_2(arguments, message, capsys):
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("regard: ")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (DataError("deu.txt is empty"), 2, "regard: deu.txt is empty\n"),
        (Interrupted("stopped; resume with …", signal_number=15), 143, "regard: stopped; resume with …\n"),
        (KeyboardInterrupt(), 130, "regard: interrupted\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "runs/x"),
            2,
            "regard: the disk is full: cannot write runs/x; free some space and try again\n",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "regard: the disk is full; free some space and try again\n"),
        (PermissionError(errno.EACCES, "Permission denied", "runs/x"), 2, "regard: cannot use runs/x: Permission denied\n"),
        *(
            (error, 2, f"regard: {cli._OUT_OF_MEMORY}\n")
            for error in (
                MemoryError(),
                RuntimeError("[enforce fail at alloc_cpu.cpp:128] DefaultCPUAllocator: can't allocate memory: you tried …"),
                RuntimeError("std::bad_alloc"),
                type("PanicException", (BaseException,), {})("Onig: Regex search error: fail to memory allocation"),
                type("PanicException", (BaseException,), {})("PyObject pointer is null"),
            )
        ),
    ],
)
def test_what_goes_wrong_becomes_a_code(error, code, message, capsys, monkeypatch):
    def fail(arguments):
        raise error

    monkeypatch.setattr("regard.cli.presets.main", fail)
    assert cli.main(["presets"]) == code
    assert capsys.readouterr().err == message


def test_what_memory_does_not_suffice_for_may_end_in_another_error(monkeypatch, capsys):
    def fail(arguments):
        try:
            raise MemoryError
        finally:
            raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 6208 vs 6112")

    monkeypatch.setattr("regard.cli.presets.main", fail)
    assert cli.main(["presets"]) == 2
    assert capsys.readouterr().err == f"regard: {cli._OUT_OF_MEMORY}\n"


def test_nobody_reads_the_output():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([PYTHON, "-m", "regard", "presets", "luong"], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == b""


def test_public_names_are_lazy_and_complete():
    code = (
        "import sys, regard\n"
        "assert not {'torch', 'numpy', 'yaml'} & set(sys.modules)\n"
        "assert {'load', 'fit', 'Translator', 'record'} <= set(dir(regard))\n"
        "for name in regard.__all__: getattr(regard, name)\n"
        "assert callable(regard.record)\n"
        "assert regard.attention.Additive and regard.models and regard.viz\n"
        "import regard.records\n"
        "assert regard.record([[1.0]], ['a'], ['b']).pharaoh() == '0-0'\n"
        "try: regard.nothing\n"
        "except AttributeError as error: assert 'nothing' in str(error)\n"
    )
    subprocess.run([PYTHON, "-c", code], check=True)
