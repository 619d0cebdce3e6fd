"""Training a Transformer of preset transformer-tiny's shape with regard, JoeyNMT 2.3.0 and MarianMT: target tokens a second.

    python -m benchmarks.transformer                          # three rounds
    python -m benchmarks.transformer --rounds 1 --updates 20  # a quick look

The shape: 4 and 4 layers, 128 wide, 256 inside, 4 heads, dropout 0.3, one table of 9,700 pieces of words for both sides and
the output; Multi30k en→de, lower case, tokenised; Adam, label smoothing 0.1, batches of 4,096 tokens with padding. regard
trains as its preset does, through `regard.fit`; JoeyNMT by its own command, on the same pieces; Hugging Face's MarianMT in a
plain PyTorch loop on regard's own batches by length, in float32 and in bfloat16, of which the quicker counts. Each runs in a
process of its own on the same core with one thread, by turns; a figure is the median over the rounds. Target tokens are
counted with the end symbol and without padding, seconds as each counts those of training: start-up, validation and writing are
left out.

JoeyNMT is installed where it is not; MarianMT comes with `pip install regard[bench]`. Progress goes to standard error, one JSON
line to standard output.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
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
from regard.config import TranslationConfig
from regard.config.loading import render_config
from regard.errors import RegardError
from regard.presets import load_preset

NAMES = ("regard", "marian-float32", "marian-bfloat16", "joeynmt")


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
    add("--rivals", default=",".join(NAMES[1:]), help="against whom, with commas between (%(default)s)")
    add("--rounds", type=count, default=3, help="how often each trains (%(default)s)")
    add("--updates", type=count, default=100, help="of regard and MarianMT in a round (%(default)s)")
    add("--joeynmt-updates", type=count, default=25, help="of JoeyNMT in a round (%(default)s)")
    return parser.parse_args(arguments)


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Everything, from preparing the data to the figures.

    Raises:
        RegardError: If data or a program are missing, or a step fails.
    """
    rivals = options.rivals.split(",")
    if not set(rivals) <= set(NAMES[1:]):
        raise RegardError(f"--rivals is {options.rivals!r}, expected some of {', '.join(NAMES[1:])}")
    options.out.mkdir(parents=True, exist_ok=True)
    runs = _runs(options, rivals)
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(options.rounds):
        for name, train in runs.items():
            speeds[name].append(train())
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
        "settings": {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()},
        "load_average": os.getloadavg()[0],
    }


def preset_run(data: dict[str, Path], out: Path, updates: int) -> TranslationConfig:
    """The preset's run, bounded by updates and validated by its loss alone."""
    settings = {
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


def _runs(options: argparse.Namespace, rivals: Sequence[str]) -> dict[str, Callable[[], float]]:
    """What trains each, and gives its target tokens a second."""
    data, out, core = find_data(options.data), options.out.absolute(), min(os.sched_getaffinity(0))
    config = preset_run(data, out, options.updates)
    path = out / "regard.yaml"
    path.write_text(render_config(config), encoding="utf-8")

    def ours(module: str, *arguments: str | Path) -> float:
        command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
        printed = run(command, core=core, log=out / f"{module}.log", note=lambda log: f"{module} …")
        speed: float = json.loads(printed.strip().splitlines()[-1])["tokens_per_second"]
        return speed

    runs: dict[str, Callable[[], float]] = {"regard": lambda: ours("ours", "train", path)}
    for precision in ("float32", "bfloat16"):
        if f"marian-{precision}" in rivals:
            runs[f"marian-{precision}"] = lambda precision=precision: ours("marian", path, str(options.updates), precision)
    if "joeynmt" in rivals:
        runs["joeynmt"] = _joeynmt(options, config, data, out, core)
    return runs


def _joeynmt(
    options: argparse.Namespace, config: TranslationConfig, data: dict[str, Path], out: Path, core: int
) -> Callable[[], float]:
    """Lay the data out in pieces, and give what trains JoeyNMT on them."""
    from regard.text.prepare import prepare

    python = rival.set_up(options.env.expanduser().absolute())
    prepared = prepare(config.data, config.tokenizers, seed=config.seed)
    pieces = {}
    for name in ("train", "dev"):
        pieces[name] = out / f"pieces-{name}"
        for language, tokenizer in (("en", prepared.source_tokenizer), ("de", prepared.target_tokenizer)):
            lines = Path(f"{data[name]}.{language}").read_text(encoding="utf-8").splitlines()
            ids, offsets = tokenizer.encode_batch(lines)
            text = "".join(f"{spell(ids[start:stop])}\n" for start, stop in pairwise(offsets))
            Path(f"{pieces[name]}.{language}").write_text(text, encoding="utf-8")
    settings = transformer_config(
        config.model,
        data=pieces,
        vocabulary=write_vocabulary(out / "pieces.txt", prepared.target_tokenizer.size),
        model_dir=out / "joeynmt",
        updates=options.joeynmt_updates,
        batch_tokens=config.training.batch_tokens,
    )
    path = out / "joeynmt.yaml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    command = [python, "-m", "joeynmt", "train", path, "--skip-test"]

    def train() -> float:
        log = run(command, core=core, log=out / "joeynmt.log", note=lambda log: "joeynmt …")
        return rival.parse_training(log).tokens_per_second

    return train


if __name__ == "__main__":
    main()
