"""regard against JoeyNMT 2.3.0: training and decoding on one core each, on Multi30k, with the same model shape.

    python -m benchmarks.joeynmt                              # 6 epochs; takes as long as JoeyNMT needs for them
    python -m benchmarks.joeynmt --updates 15 --sentences 50  # a quick look at the speeds; BLEU means nothing then

Model: bidirectional GRU (256), additive attention, input feeding, embeddings (256). Data: Multi30k en→de, lower-cased and
tokenised, words that occur at least twice. Training: batches of 64 sentences, Adam, clipping at 1, label smoothing 0.1, dropout
0.3; the epoch with the best validation is kept (greedy BLEU on val). Each program has its own learning rate: JoeyNMT 1e-3,
halved on a plateau, as in its examples; regard 2e-3 with linear decay and a moving average of the weights.

Training speed: target tokens with the end symbol and without padding, divided by the seconds that each program itself counts as
training. These include reading batches, updates and logging, but not start-up, validation and writing (`wall_seconds` includes
validation and writing). Nothing is compiled. An epoch has the same target tokens for both programs; JoeyNMT's source vocabulary
has one more word, the empty word between two spaces. With `--updates`, JoeyNMT logs only speeds, and their mean is used.
Decoding speed: beam 5 and length penalty 1 on test 2016, sentences divided by the seconds of the search without loading the
model, for the best of a few batch sizes; regard's seconds include tokenising and detokenising. BLEU: sacrebleu,
`tokenize=none`, on tokenised text. JoeyNMT turns `fp16: True` off on a CPU, so its fastest precision is float32. regard trains
and decodes in bfloat16 and float32, and the faster one counts.

If both run at the same time, JoeyNMT has the first core and regard the second, and decoding begins when both have finished
training. The program that finishes first leaves the memory bandwidth to the other one. Progress goes to standard error, and one
JSON line goes to standard output.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from benchmarks import rival
from benchmarks.arithmetic import Shape, measure_lengths, operations_per_target_token
from benchmarks.ours import regard_config
from benchmarks.rival import joeynmt_config, run, say
from regard.config.loading import render_config
from regard.errors import DataError, RegardError

PRECISIONS = ("bfloat16", "float32")
_FILES = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "regard" / "benchmarks"


@dataclass(frozen=True)
class Cores:
    """Core of each program."""

    joeynmt: int
    regard: int
    sequential: bool

    def both(self, first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
        """Run JoeyNMT's part and regard's, at the same time or one after the other."""
        with ThreadPoolExecutor(1 if self.sequential else 2) as pool:  # threads, because each thread is bound to its core
            parts = [pool.submit(first), pool.submit(second)]
            return parts[0].result(), parts[1].result()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison and print it."""
    options = _options(arguments)
    try:
        print(json.dumps(compare(options)), flush=True)
    except RegardError as error:
        sys.exit(f"error: {error}")


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the option for the folder of Multi30k."""
    there = Path(os.environ.get("REGARD_DATA", "../shared/data"))
    parser.add_argument("--data", type=Path, default=there, help="folder that contains multi30k/")


def add_places(parser: argparse.ArgumentParser, runs: str) -> None:
    """Add the options for JoeyNMT's environment and for the folder of runs, by default `runs` in the cache."""
    add = parser.add_argument
    add("--env", type=Path, default=CACHE / "joeynmt", help="JoeyNMT's virtual environment, created if missing (%(default)s)")
    add("--out", type=Path, default=CACHE / runs, help="folder of runs, outputs and logs (%(default)s)")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks.joeynmt", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add_data(parser)
    add_places(parser, "joeynmt-runs")
    add("--epochs", type=count, default=6, help="epochs that both train (%(default)s)")
    add("--updates", type=count, default=0, help="train for N updates only, for a quick look; 0 for whole epochs (%(default)s)")
    add("--sentences", type=count, default=0, help="decode only the first N sentences; 0 for all (%(default)s)")
    add("--batch-tokens", type=count, default=0, help="tokens in regard's training batches; 0 for 64 sentences (%(default)s)")
    add("--joeynmt-batches", type=counts, default=[64, 128, 256], help="sentences in a batch of JoeyNMT (64,128,256)")
    add("--regard-batches", type=counts, default=[4096, 8192, 32768], help="tokens × beam in a batch (4096,8192,32768)")
    add("--sequential", action="store_true", help="run one after the other on one core, not both at the same time on two")
    return parser.parse_args(arguments)


def count(text: str) -> int:
    """Return a whole number of 1 or more, for `argparse`."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def counts(text: str) -> list[int]:
    """Return several numbers, which are separated by commas."""
    return [count(part) for part in text.split(",")]


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Set up, train and decode with both programs, and return all figures.

    Raises:
        RegardError: If data are missing or a step fails.
    """
    options.out.mkdir(parents=True, exist_ok=True)
    data = find_data(options.data)
    test = copy_sentences(data["test"], options.out / "test", options.sentences)
    cores, python = choose_cores(sequential=options.sequential), rival.set_up(options.env.expanduser().absolute())
    peak = json.loads(_ours("arithmetic", [], cores.regard, options.out / "peak.log", "the machine's peak"))
    lengths = measure_lengths(zip(_lines(data["train"], "en"), _lines(data["train"], "de"), strict=True))

    joeynmt, regard = cores.both(
        partial(_train_joeynmt, options, data, python, cores.joeynmt, lengths.pairs),
        partial(_train_regard, options, data, cores.regard),
    )
    say("parameters: JoeyNMT {:,}, regard {:,} (with an output bias)".format(joeynmt["parameters"], regard["parameters"]))
    faster = options.out / f"regard-{regard['precision']}"
    found = cores.both(
        partial(_decode_joeynmt, options, data, test, python, cores.joeynmt),
        partial(_decode_regard, options, test, faster, cores.regard),
    )
    references = _lines(test, "de")
    for figures, decoded in zip((joeynmt, regard), found, strict=True):
        figures |= decoded | {"bleu": bleu(decoded.pop("texts"), references)}
    shape = Shape(embedding=256, hidden=256, target_words=regard["vocabularies"][1])
    operations = operations_per_target_token(shape, lengths)
    for figures in (joeynmt, regard):
        figures["part_of_peak"] = figures["tokens_per_second"] * operations / peak[figures["precision"]]
    return {
        "benchmark": "joeynmt",
        "training_ratio": regard["tokens_per_second"] / joeynmt["tokens_per_second"],
        "wall_ratio": joeynmt["wall_seconds"] / regard["wall_seconds"],
        "decoding_ratio": regard["sentences_per_second"] / joeynmt["sentences_per_second"],
        "bleu_difference": regard["bleu"] - joeynmt["bleu"],
        "joeynmt": joeynmt,
        "regard": regard,
        "operations_per_target_token": operations,
        "peak_operations_per_second": peak,
        "train": asdict(lengths),
        "test_sentences": len(references),
        "settings": {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()},
        "sequential": cores.sequential,
        "load_average": os.getloadavg()[0],
    }


def find_data(folder: Path) -> dict[str, Path]:
    """Return the paths of `train`, `dev` and `test` without the endings `.en` and `.de`.

    Raises:
        DataError: If a file is missing.
    """
    found = {name: (folder / "multi30k" / f"{file}.lc.norm.tok").absolute() for name, file in _FILES.items()}
    for path in found.values():
        for language in ("en", "de"):
            if not Path(f"{path}.{language}").is_file():
                raise DataError(
                    f"{path}.{language} does not exist; set --data or REGARD_DATA to a folder that contains multi30k/ with "
                    "the `lc.norm.tok` files of Multi30k en→de"
                )
    return found


def copy_sentences(test: Path, out: Path, count: int) -> Path:
    """Copy the first `count` pairs, or all if 0, and return the path of the copies without `.en` and `.de`."""
    for language in ("en", "de"):
        lines = _lines(test, language)
        Path(f"{out}.{language}").write_text("".join(f"{line}\n" for line in lines[: count or None]), encoding="utf-8")
    return out.absolute()


def choose_cores(*, sequential: bool) -> Cores:
    """Choose two of the cores that this process may use, or one.

    Raises:
        RegardError: If this system cannot bind processes to cores.
    """
    if not hasattr(os, "sched_getaffinity"):
        raise RegardError("this system cannot bind a program to a core; run the comparison on Linux")
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2 and not sequential:
        say("there is only one core, so the programs run one after the other")
    sequential = sequential or len(cores) < 2
    return Cores(cores[0], cores[0] if sequential else cores[1], sequential)


def bleu(texts: list[str], references: list[str]) -> float:
    """Return the BLEU of tokenised texts."""
    from sacrebleu.metrics import BLEU

    return float(BLEU(tokenize="none", force=True).corpus_score(texts, [references]).score)


def _lines(path: Path, language: str) -> list[str]:
    return Path(f"{path}.{language}").read_text(encoding="utf-8").splitlines()


def _last_line(name: str) -> Callable[[str], str]:
    return lambda log: f"{name}: {(log.strip().splitlines() or ['…'])[-1][-150:]}"


def _ours(module: str, arguments: Sequence[str | Path], core: int, log: Path, name: str) -> str:
    """Run a module of this package on a core, and return the last line that it prints."""
    say(f"{name}, core {core}")
    printed = run([sys.executable, "-m", f"benchmarks.{module}", *arguments], core=core, log=log, note=_last_line(name))
    return printed.strip().splitlines()[-1]


def _run_joeynmt(python: Path, mode: str, config: dict[str, Any], core: int, log: Path, more: Sequence[str | Path] = ()) -> str:
    path = log.with_suffix(".yaml")
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    say(f"JoeyNMT: {mode}, core {core}; log in {log}")
    return run([python, "-m", "joeynmt", mode, path, *more], core=core, log=log, note=_last_line("JoeyNMT"))


def _train_joeynmt(options: argparse.Namespace, data: dict[str, Path], python: Path, core: int, pairs: int) -> dict[str, Any]:
    config = joeynmt_config(
        data={"train": data["train"], "dev": data["dev"]},
        model_dir=options.out.absolute() / "joeynmt",
        epochs=options.epochs,
        validation_every=-(-pairs // 64),
        updates=options.updates,
    )
    log = _run_joeynmt(python, "train", config, core, options.out / "joeynmt-train.log", ["--skip-test"])
    figures = asdict(rival.parse_training(log))
    say(f"JoeyNMT: {figures['tokens_per_second']:,.0f} target tokens/s")
    return figures


def _train_regard(options: argparse.Namespace, data: dict[str, Path], core: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for precision in PRECISIONS:
        out = options.out / f"regard-{precision}"
        config = regard_config(
            data={"train": data["train"], "dev": data["dev"]},
            out=out.absolute(),
            cache=options.out.absolute() / "prepared",
            epochs=options.epochs,
            precision=precision,
            updates=options.updates,
            batch_tokens=options.batch_tokens,
        )
        path, log = out.with_suffix(".yaml"), options.out / f"{out.name}.log"
        path.write_text(render_config(config), encoding="utf-8")
        found[precision] = json.loads(_ours("ours", ["train", path], core, log, f"regard in {precision}"))
        say(f"regard in {precision}: {found[precision]['tokens_per_second']:,.0f} target tokens/s")
    best = max(found, key=lambda precision: found[precision]["tokens_per_second"])
    return {"precision": best, **found[best], "by_precision": {name: run["tokens_per_second"] for name, run in found.items()}}


def _decode_joeynmt(options: argparse.Namespace, data: dict[str, Path], test: Path, python: Path, core: int) -> dict[str, Any]:
    out = options.out.absolute() / "joeynmt.hypotheses"
    speeds, sentences = {}, len(_lines(test, "en"))
    for batch in options.joeynmt_batches:
        config = joeynmt_config(
            data={"train": data["train"], "test": test},
            model_dir=options.out.absolute() / "joeynmt",
            epochs=options.epochs,
            validation_every=1,
            decoding_batch=batch,
        )
        log = _run_joeynmt(python, "test", config, core, options.out / f"joeynmt-decode-{batch}.log", ["-o", out])
        speeds[str(batch)] = sentences / rival.parse_decoding(log)
        say(f"JoeyNMT, {batch} sentences per batch: {speeds[str(batch)]:,.1f} sentences/s")
    texts = Path(f"{out}.test").read_text(encoding="utf-8").splitlines()
    return {"sentences_per_second": max(speeds.values()), "by_batch": speeds, "texts": texts}


def _decode_regard(options: argparse.Namespace, test: Path, folder: Path, core: int) -> dict[str, Any]:
    out = options.out.absolute() / "regard.hypotheses"
    arguments = ["decode", folder, f"{test}.en", out, *map(str, options.regard_batches)]
    decoded = json.loads(_ours("ours", arguments, core, options.out / "regard-decode.log", "regard: decode"))
    speeds = {batch: decoded["sentences"] / seconds for batch, seconds in decoded["seconds"].items()}
    for label, speed in speeds.items():
        say(f"regard, tokens per batch and precision {label}: {speed:,.1f} sentences/s")
    texts = out.read_text(encoding="utf-8").splitlines()
    return {"sentences_per_second": max(speeds.values()), "by_batch": speeds, "texts": texts}


if __name__ == "__main__":
    main()
