"""Install JoeyNMT 2.3.0 into an environment of its own, write its configurations, and read its logs."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from textwrap import indent
from typing import Any

from regard.errors import RegardError

VERSION = "2.3.0"
_REFUSED = '            "verbose": False,\n'
_STAMP = r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})"


def say(text: str) -> None:
    """Report progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def set_up(folder: Path) -> Path:
    """Create JoeyNMT's environment if it is missing, and return the path of its Python.

    The environment has the PyTorch version that regard runs on, and `importlib_metadata`, which JoeyNMT imports but does not
    require. JoeyNMT's `builders.py` is corrected: it passes `verbose` to `ReduceLROnPlateau`, which current PyTorch refuses.

    Raises:
        RegardError: If the environment cannot be created.
    """
    python = folder / "bin" / "python"
    found = _joeynmt_folder(python) if python.exists() else None
    if found is None:
        torch = version("torch").partition("+")[0]
        say(f"installing JoeyNMT {VERSION} with PyTorch {torch} into {folder}: some minutes")
        _call([sys.executable, "-m", "venv", str(folder)])
        wanted = [f"joeynmt=={VERSION}", f"torch=={torch}", "importlib_metadata"]
        _call([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted])
        found = _joeynmt_folder(python)
    if found is None:
        raise RegardError(f"{folder} contains no JoeyNMT {VERSION} after its installation; remove that folder and try again")
    mend(found / "builders.py")
    return python


def mend(builders: Path) -> None:
    """Remove the argument that current PyTorch refuses; do nothing if it has already been removed."""
    text = builders.read_text(encoding="utf-8")
    if _REFUSED in text:
        builders.write_text(text.replace(_REFUSED, ""), encoding="utf-8")


def _joeynmt_folder(python: Path) -> Path | None:
    code = (
        "import importlib_metadata as m, importlib.util as u; "
        f"print(u.find_spec('joeynmt').submodule_search_locations[0] if m.version('joeynmt') == '{VERSION}' else '')"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return Path(done.stdout.strip()) if done.returncode == 0 and done.stdout.strip() else None


def _call(command: Sequence[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise RegardError(
            f"`{' '.join(command)}` failed:\n{done.stdout[-2000:]}\nInstalling needs a network and a package index."
        )


def common_config(
    data: dict[str, Path], *, model_dir: Path, words: dict[str, Any], beam_size: int, decoding_batch: int
) -> dict[str, Any]:
    """Return the part of the configuration that all of JoeyNMT's runs share: everything but `training` and `model`.

    Args:
        data: Paths of `train`, `dev` and `test` without the endings `.en` and `.de`.
        model_dir: Folder of JoeyNMT's run.
        words: Settings of JoeyNMT's vocabularies.
        beam_size: Beam size of the search; 1 is greedy.
        decoding_batch: Sentences decoded at once.
    """
    bounds = {"max_length": 100, "lowercase": False, "normalize": False}
    side: dict[str, Any] = {**bounds, "level": "word", "tokenizer_type": "none", **words}
    return {
        "name": "benchmark",
        "joeynmt_version": VERSION,
        "model_dir": str(model_dir),
        "use_cuda": False,
        "fp16": True,  # on a CPU, JoeyNMT turns it off and logs this: its fastest precision there is float32
        "random_seed": 42,
        "data": {
            **{name: str(path) for name, path in data.items()},
            "dataset_type": "plain",
            "src": {"lang": "en", **side},
            "trg": {"lang": "de", **side},
        },
        "testing": {
            "n_best": 1,
            "beam_size": beam_size,
            "beam_alpha": 1.0,
            "batch_size": decoding_batch,
            "batch_type": "sentence",
            "eval_metrics": [],
        },
    }


def joeynmt_config(
    *,
    data: dict[str, Path],
    model_dir: Path,
    epochs: int,
    validation_every: int,
    updates: int = 0,
    decoding_batch: int = 64,
) -> dict[str, Any]:
    """Return the whole configuration of a run.

    Args:
        data: Paths of `train`, `dev` and `test` without the endings `.en` and `.de`.
        model_dir: Folder of JoeyNMT's run.
        epochs: Number of epochs.
        validation_every: Updates between validations, and between lines of the log.
        updates: Maximum number of updates, without validation; 0 for no limit.
        decoding_batch: Sentences decoded at once.
    """
    bounds = {"updates": updates, "logging_freq": max(1, updates // 5), "validation_freq": 10**6 * max(1, updates // 5)}
    every = {"logging_freq": validation_every, "validation_freq": validation_every}
    recurrent = {"type": "recurrent", "rnn_type": "gru", "hidden_size": 256, "num_layers": 1, "dropout": 0.3}
    embeddings = {"embedding_dim": 256, "scale": False}
    common = common_config(data, model_dir=model_dir, words={"voc_min_freq": 2}, beam_size=5, decoding_batch=decoding_batch)
    return common | {
        "testing": common["testing"] | {"eval_metrics": ["bleu"], "sacrebleu_cfg": {"tokenize": "none"}},
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.999],
            "learning_rate": 1e-3,
            "learning_rate_min": 1e-5,
            "scheduling": "plateau",
            "patience": 5,
            "decrease_factor": 0.5,
            "clip_grad_norm": 1.0,
            "label_smoothing": 0.1,
            "batch_size": 64,
            "batch_type": "sentence",
            "shuffle": True,
            "early_stopping_metric": "bleu",
            "epochs": epochs,
            "overwrite": True,
            "keep_best_ckpts": 1,
            "print_valid_sents": [0],
            **(bounds if updates else every),
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "normal",
            "embed_init_weight": 0.1,
            "bias_initializer": "zeros",
            "encoder": {**recurrent, "bidirectional": True, "embeddings": embeddings},
            "decoder": {
                **recurrent,
                "embeddings": embeddings,
                "hidden_dropout": 0.3,
                "attention": "bahdanau",
                "input_feeding": True,
                "init_hidden": "bridge",
            },
        },
    }


@dataclass(frozen=True)
class JoeyTraining:
    """Results of a training run, read from its log."""

    parameters: int
    precision: str
    tokens: int
    """Target tokens with the end symbol, without padding; 0 if updates are limited, because JoeyNMT then logs none."""
    seconds: float
    """Seconds of training without validation, as JoeyNMT counts them; 0 if the number of updates is limited."""
    tokens_per_second: float
    wall_seconds: float
    """Seconds from the start of the first epoch to the end of the last, including validation and writing."""


def parse_training(log: str) -> JoeyTraining:
    """Read a training log.

    If the log has whole epochs, the speed is computed from their tokens and seconds. Otherwise the speed is the harmonic mean
    of the logged speeds, because each of these lines covers the same number of updates.

    Raises:
        RegardError: If the log contains no speed.
    """
    parameters = re.search(r"Total params: (\d+)", log)
    half = re.search(r"16-bits training: (\w+)", log)
    epochs = re.findall(r"Epoch +\d+, total training loss: .*?num\. of tokens: (\d+), ([\d.]+)\[sec\]", log)
    speeds = [float(speed) for speed in re.findall(r"Tokens per Sec: +(\d+)", log)]
    times = [datetime.fromisoformat(at.replace(",", ".")) for at in re.findall(rf"^{_STAMP}.*(?:EPOCH|Epoch|ended)", log, re.M)]
    if parameters is None or half is None or not times or not (epochs or (all(speeds) and speeds)):
        raise RegardError(f"JoeyNMT's training log contains no speed; its end:\n{indent(log[-1500:], '  ')}")
    tokens, seconds = sum(int(count) for count, _ in epochs), sum(float(duration) for _, duration in epochs)
    return JoeyTraining(
        parameters=int(parameters[1]),
        precision="float16" if half[1] == "True" else "float32",
        tokens=tokens,
        seconds=seconds,
        tokens_per_second=tokens / seconds if epochs else len(speeds) / sum(1 / speed for speed in speeds),
        wall_seconds=(times[-1] - times[0]).total_seconds(),
    )


def parse_decoding(log: str) -> float:
    """Return the seconds of the search without loading the model, from JoeyNMT's log.

    Raises:
        RegardError: If the log does not contain them.
    """
    found = re.findall(r"Generation took ([\d.]+)\[sec\]", log)
    if not found:
        raise RegardError(f"JoeyNMT's log does not say how long decoding took; its end:\n{indent(log[-1500:], '  ')}")
    return float(found[-1])


def run(command: Sequence[str | Path], *, core: int, log: Path, note: Callable[[str], str]) -> str:
    """Run a command on one core with one thread, report its progress every 30 seconds, and return what it printed.

    Args:
        command: Command and its arguments.
        core: Number of the core; the calling thread is bound to it too.
        log: File for the output of the command.
        note: Function that returns the progress message, given the output so far.

    Raises:
        RegardError: If the command fails.
    """
    os.sched_setaffinity(0, {core})
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with log.open("w", encoding="utf-8") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, env={**os.environ, **threads})
        try:
            while True:
                try:
                    code = process.wait(timeout=30)
                    break
                except subprocess.TimeoutExpired:
                    say(note(log.read_text(encoding="utf-8", errors="replace")))
        finally:
            process.kill()
    text = log.read_text(encoding="utf-8", errors="replace")
    if code:
        line = " ".join(map(str, command))
        raise RegardError(f"`{line}` failed with exit code {code}; the end of {log}:\n{indent(text[-2000:], '  ')}")
    return text
