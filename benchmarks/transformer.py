"""Training a Transformer of the shape of preset transformer-tiny with regard, JoeyNMT 2.3.0 and MarianMT: tokens per second.

    python -m benchmarks.transformer                          # three rounds
    python -m benchmarks.transformer --rounds 1 --updates 20  # a quick look

The shape: 4 + 4 layers, width 128, feed-forward 256, 4 heads, dropout 0.3, one table of subword embeddings for source, target
and output layer. The data: Multi30k en→de, lower-cased and tokenised; label smoothing 0.1, batches of 4,096 tokens with
padding. Parts of the preset that one of the programs does not have are replaced for all, so that all train the same number of
weights: positions are sinusoidal, norms are LayerNorm, and a gated feed-forward layer becomes a plain one with ReLU and 1.5
times as many features. MarianMT has norms only after each part, so all have them there if MarianMT is compared (if only JoeyNMT
is compared, norms stay where the preset has them). The optimizer is Adam for all, with a learning rate of 1e-3 and clipping at
1. The JSON line has the shape, the replaced settings, and the number of weights that each program trains. (JoeyNMT has one
dropout for everything, also inside its attention and feed-forward layers.)

regard trains through `regard.fit`, and JoeyNMT through its own command, on the same subwords. Hugging Face's MarianMT is
trained in a plain PyTorch loop on regard's own batches, in float32 and in bfloat16, and the faster one counts. Each program
runs in a process of its own on the same core with one thread, and the programs take turns; a figure is the median over the
rounds. Target tokens are counted with the end symbol and without padding. Each program counts its own seconds of training,
without start-up, validation and writing.

JoeyNMT is installed if it is missing; MarianMT comes with `pip install '.[bench]'`. Progress goes to standard error, and one
JSON line goes to standard output.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from benchmarks import rival
from benchmarks.conversion import spell
from benchmarks.joeynmt import add_data, add_places, count, find_data
from benchmarks.joeynmt_transformer import transformer_config, write_vocabulary
from benchmarks.rival import run, say
from regard.config import TransformerConfig
from regard.config.loading import render_config
from regard.errors import RegardError
from regard.presets import load_preset
from regard.tasks.translation.config import TranslationConfig

NAMES = ("regard", "marian-float32", "marian-bfloat16", "joeynmt")
Trained = tuple[float, int]
"""Target tokens per second, and the number of weights that are trained."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison and print it."""
    options = _options(arguments)
    try:
        print(json.dumps(compare(options)), flush=True)
    except RegardError as error:
        sys.exit(f"error: {error}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "benchmarks.transformer", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add_data(parser)
    add_places(parser, "transformer")
    add("--rivals", default=",".join(NAMES[1:]), help="programs to compare with, separated by commas (%(default)s)")
    add("--rounds", type=count, default=3, help="runs of each program (%(default)s)")
    add("--updates", type=count, default=100, help="updates of regard and MarianMT in a round (%(default)s)")
    add("--joeynmt-updates", type=count, default=25, help="updates of JoeyNMT in a round (%(default)s)")
    return parser.parse_args(arguments)


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Prepare the data, train with each program, and return all figures.

    Raises:
        RegardError: If data or a program is missing, or a step fails.
    """
    rivals = options.rivals.split(",")
    if not set(rivals) <= set(NAMES[1:]):
        raise RegardError(f"--rivals is {options.rivals!r}, expected some of {', '.join(NAMES[1:])}")
    options.out.mkdir(parents=True, exist_ok=True)
    data = find_data(options.data)
    config = preset_run(data, options.out.absolute(), options.updates, rivals)
    runs = _runs(options, rivals, config, data)
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    weights: dict[str, int] = {}
    for number in range(options.rounds):
        for name, train in runs.items():
            speed, weights[name] = train()
            speeds[name].append(speed)
            say(f"round {number + 1}, {name}: {speeds[name][-1]:,.0f} target tokens/s")
    medians = {name: median(each) for name, each in speeds.items()}
    marian = [speed for name, speed in medians.items() if name.startswith("marian")]
    ratios = {f"over_{name}": medians["regard"] / speed for name, speed in medians.items() if name == "joeynmt"}
    return {
        "benchmark": "transformer",
        **ratios,
        **({"over_marian": medians["regard"] / max(marian)} if marian else {}),
        "tokens_per_second": medians,
        "rounds": speeds,
        "shape": asdict(config.model),
        "replaced": shared_shape(load_preset("transformer-tiny").model, rivals),
        "parameters": weights,
        "settings": {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()},
        "load_average": os.getloadavg()[0],
    }


def shared_shape(model: TransformerConfig, rivals: Sequence[str]) -> dict[str, Any]:
    """Return the settings to replace so that regard and these rivals have the same parts and the same number of weights."""
    wanted: dict[str, Any] = {"positions": "sinusoidal", "norm": "layer", "tie_embeddings": "all", "output_bias": False}
    if model.feed_forward == "swiglu":  # swiglu has three linear maps, relu has two
        wanted |= {"feed_forward": "relu", "feed_forward_size": model.feed_forward_size * 3 // 2}
    if model.norm_order == "deep" or any(name.startswith("marian") for name in rivals):
        wanted["norm_order"] = "post"
    return {name: value for name, value in wanted.items() if getattr(model, name) != value}


def preset_run(data: dict[str, Path], out: Path, updates: int, rivals: Sequence[str]) -> TranslationConfig:
    """Return the preset in the shape that all share, with Adam, a maximum number of updates, and validation by its loss."""
    preset = load_preset("transformer-tiny")
    assert isinstance(preset, TranslationConfig)
    assert isinstance(preset.model, TransformerConfig)
    settings = {
        **{f"model.{name}": value for name, value in shared_shape(preset.model, rivals).items()},
        "training.optimizer": "adam",
        "training.learning_rate": 1e-3,
        "training.betas": [0.9, 0.98],
        "training.weight_decay": 0.0,
        "training.clip_norm": 1.0,
        "training.schedule": {"kind": "inverse_square_root", "warmup_steps": 2000},
        "training.ema_decay": 0.0,
        **{f"data.{name}": [f"{data[name]}.en", f"{data[name]}.de"] for name in ("train", "dev")},
        "data.source": "en",
        "data.target": "de",
        "data.cache": str(out / "prepared"),
        "training.max_steps": updates,
        "training.validation_pairs": 0,
        "training.monitor": "loss",
        "out": str(out / "regard"),
        "overwrite": True,
        "device": "cpu",
        "threads": 1,
    }
    config = load_preset("transformer-tiny", settings)
    assert isinstance(config, TranslationConfig)
    return config


def _runs(
    options: argparse.Namespace, rivals: Sequence[str], config: TranslationConfig, data: dict[str, Path]
) -> dict[str, Callable[[], Trained]]:
    """Return the function that trains each program."""
    out, core = options.out.absolute(), min(os.sched_getaffinity(0))
    path = out / "regard.yaml"
    path.write_text(render_config(config), encoding="utf-8")

    def ours(module: str, *arguments: str | Path) -> Trained:
        command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
        printed = run(command, core=core, log=out / f"{module}.log", note=lambda log: f"{module} …")
        found = json.loads(printed.strip().splitlines()[-1])
        return found["tokens_per_second"], found["parameters"]

    runs: dict[str, Callable[[], Trained]] = {"regard": lambda: ours("ours", "train", path)}
    for precision in ("float32", "bfloat16"):
        if f"marian-{precision}" in rivals:
            runs[f"marian-{precision}"] = lambda precision=precision: ours("marian", path, str(options.updates), precision)
    if "joeynmt" in rivals:
        runs["joeynmt"] = _joeynmt(options, config, data, out, core)
    return runs


def _joeynmt(
    options: argparse.Namespace, config: TranslationConfig, data: dict[str, Path], out: Path, core: int
) -> Callable[[], Trained]:
    """Write the data as subwords, and return the function that trains JoeyNMT on them."""
    from regard.text.pairs.prepare import PairSchema
    from regard.text.preparation import prepare_data

    python = rival.set_up(options.env.expanduser().absolute())
    prepared = prepare_data(PairSchema(config.data, config.tokenizers), seed=config.seed)
    pieces = {}
    for name in ("train", "dev"):
        pieces[name] = out / f"pieces-{name}"
        for language, tokenizer in (("en", prepared.tokenizers[0]), ("de", prepared.tokenizers[1])):
            lines = Path(f"{data[name]}.{language}").read_text(encoding="utf-8").splitlines()
            ids, offsets = tokenizer.encode_batch(lines)
            text = "".join(f"{spell(ids[start:stop])}\n" for start, stop in pairwise(offsets))
            Path(f"{pieces[name]}.{language}").write_text(text, encoding="utf-8")
    settings = transformer_config(
        config.model,
        data=pieces,
        vocabulary=write_vocabulary(out / "pieces.txt", prepared.tokenizers[1].size),
        model_dir=out / "joeynmt",
        updates=options.joeynmt_updates,
        batch_tokens=config.training.batch_tokens,
    )
    path = out / "joeynmt.yaml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    command = [python, "-m", "joeynmt", "train", path, "--skip-test"]

    def train() -> Trained:
        log = run(command, core=core, log=out / "joeynmt.log", note=lambda log: "joeynmt …")
        found = rival.parse_training(log)
        return found.tokens_per_second, found.parameters

    return train


if __name__ == "__main__":
    main()
