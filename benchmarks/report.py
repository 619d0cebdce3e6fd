"""Measure the claims about speed, and write the page of the documentation that lists them.

    python -m benchmarks report                                    measure the claims that need no data and no model
    python -m benchmarks report --data DIR --transformer RUN --recurrent RUN
    python -m benchmarks report --only additive --rounds 5
    python -m benchmarks report --page                             write the page again, from the saved results

Each benchmark runs `--rounds` times, each time in its own process, and a ratio is the median of the rounds. The results are
saved in docs/benchmarks/claims.json, with the machine and the date. Claims that are not measured this time keep their results.
While the machine is busy (load average above 0.5), the report waits for at most five minutes, and then stops with an error,
unless `--busy` is given.
"""

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.joeynmt import count
from benchmarks.rival import say
from regard.errors import RegardError

DOCUMENTATION = Path(__file__).parents[1] / "docs" / "benchmarks"
RESULTS, PAGE = DOCUMENTATION / "claims.json", DOCUMENTATION / "claims.md"
_QUIET, _PATIENCE = 0.5, 300.0
"""Highest load average at which a measurement begins, and the maximum number of seconds to wait for it."""


@dataclass(frozen=True)
class Claim:
    """A ratio of speeds that a benchmark measures; above 1, the computation is faster than its rival."""

    name: str
    what: str
    """The computation."""
    rival: str
    """The program or method that the computation is compared with."""
    limit: str
    """The part that limits the speed of regard in this benchmark."""
    command: tuple[str, ...]
    """Benchmark and its options; `{data}` is replaced with the value of the report's option `--data`, for example."""
    pick: Callable[[dict[str, Any]], float]
    """Function that returns the ratio from the benchmark's JSON."""


_TRANSFORMER = ("transformer", "--data", "{data}", "--updates", "40", "--joeynmt-updates", "12", "--rounds", "1")
_TEST = "{data}/multi30k/test_2016_flickr"
_DECODING = ("decoding", "{transformer}", "--test", _TEST, "--rivals", "ctranslate2", "--rounds", "1")
_PRECISION = ("precision", "{transformer}", _TEST + ".en", "--rounds", "1", "--alone", "1")
_RECURRENT = ("precision", "{recurrent}", *_PRECISION[2:])

CLAIMS = (
    Claim(
        "additive-forward",
        "additive scores, forward, (B,Q,K,H) = (4,512,512,256), compiled",
        "the formula with tanh, compiled by PyTorch",
        "arithmetic: a few operations and half a division for each element",
        ("additive",),
        lambda found: found["long"]["forward"]["regard_compiled_over_compiled"],
    ),
    Claim(
        "additive-training",
        "additive scores, forward and backward, (B,Q,K,H) = (4,512,512,256), compiled",
        "the formula with tanh, compiled by PyTorch",
        "arithmetic, as above",
        ("additive",),
        lambda found: found["long"]["forward_backward"]["regard_compiled_over_compiled"],
    ),
    Claim(
        "linear-attention",
        "linear attention, forward, 8,192 tokens, width 512",
        "multi-head attention with PyTorch's fused kernel",
        "the linear maps, which both methods have",
        ("lengths",),
        lambda found: found["forward"]["ratio"]["LinearAttention"]["8192"],
    ),
    Claim(
        "linear-attention-training",
        "linear attention, forward and backward, 8,192 tokens, width 512",
        "multi-head attention with PyTorch's fused kernel",
        "the linear maps, which both methods have",
        ("lengths",),
        lambda found: found["forward and backward"]["ratio"]["LinearAttention"]["8192"],
    ),
    Claim(
        "gated-delta-net",
        "Gated DeltaNet, forward, 8,192 tokens, width 512",
        "multi-head attention with PyTorch's fused kernel",
        "a triangular system for each block of 64 positions, and a loop over the blocks",
        ("lengths",),
        lambda found: found["forward"]["ratio"]["GatedDeltaNet"]["8192"],
    ),
    Claim(
        "recurrent-training",
        "training a recurrent translator (GRU, additive attention, input feeding) in bfloat16, target tokens/s",
        "JoeyNMT 2.3.0 in float32, its only format on a CPU",
        "matrix products, which take 45% of regard's time",
        ("joeynmt", "--data", "{data}", "--updates", "40", "--sentences", "10", "--sequential"),
        lambda found: found["training_ratio"],
    ),
    Claim(
        "transformer-training",
        "training a Transformer (4 + 4 layers, width 128) in bfloat16, target tokens/s",
        "Hugging Face MarianMT in a PyTorch loop, in the faster of float32 and bfloat16",
        "matrix products, which take 45% of regard's time",
        _TRANSFORMER,
        lambda found: found["over_marian"],
    ),
    Claim(
        "transformer-training-joeynmt",
        "training a Transformer (4 + 4 layers, width 128) in bfloat16, target tokens/s",
        "JoeyNMT 2.3.0 in float32, its only format on a CPU",
        "matrix products, which take 45% of regard's time",
        _TRANSFORMER,
        lambda found: found["over_joeynmt"],
    ),
    Claim(
        "transformer-beam",
        "translating test 2016 with a Transformer, beam 5, float32",
        "CTranslate2",
        "many small operations in each step; matrix products take 35% of regard's time",
        _DECODING,
        lambda found: found["matches"][0]["by_beam"]["5"]["processor"]["over_ctranslate2"],
    ),
    Claim(
        "transformer-greedy",
        "translating test 2016 with a Transformer, greedy, float32",
        "CTranslate2",
        "many small operations in each step",
        _DECODING,
        lambda found: found["matches"][0]["by_beam"]["1"]["processor"]["over_ctranslate2"],
    ),
    Claim(
        "bfloat16-beam",
        "translating with a Transformer in bfloat16, beam 5",
        "the same in float32",
        "many small operations in each step",
        _PRECISION,
        lambda found: found["by_beam"]["5"]["processor_ratio"]["bfloat16"]["median"],
    ),
    Claim(
        "int8-beam",
        "translating with a Transformer in int8, beam 5",
        "the same in float32",
        "many small operations in each step, and converting products to float32",
        _PRECISION,
        lambda found: found["by_beam"]["5"]["processor_ratio"]["int8"]["median"],
    ),
    Claim(
        "bfloat16-recurrent",
        "translating with a GRU in bfloat16, beam 5",
        "the same in float32",
        "many small operations in each step",
        _RECURRENT,
        lambda found: found["by_beam"]["5"]["processor_ratio"]["bfloat16"]["median"],
    ),
    Claim(
        "int8-recurrent",
        "translating with a GRU in int8, beam 5",
        "the same in float32",
        "many small operations in each step, and converting products to float32",
        _RECURRENT,
        lambda found: found["by_beam"]["5"]["processor_ratio"]["int8"]["median"],
    ),
    Claim(
        "exported-alone",
        "one sentence at a time, greedy, exported to ONNX and run by onnxruntime",
        "the same model in regard",
        "many small operations in each step",
        ("export", "{transformer}", _TEST + ".en", "--sentences", "50", "--rounds", "1"),
        lambda found: found["ratio"]["median"],
    ),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the claims, save the results, and write the page."""
    parser = argparse.ArgumentParser("benchmarks.report", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", metavar="DIR", help="folder that contains multi30k/, for claims that need it")
    parser.add_argument(
        "--transformer",
        metavar="RUN",
        help="folder of a model that was trained with preset transformer-tiny on Multi30k's raw text, English to German",
    )
    parser.add_argument(
        "--recurrent", metavar="RUN", help="folder of a model that was trained with preset luong on the same text"
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="measure only this claim or benchmark")
    parser.add_argument("--rounds", type=count, default=3, help="runs of each benchmark (%(default)s)")
    parser.add_argument("--busy", action="store_true", help="measure on a busy machine, too; the page shows the load")
    parser.add_argument("--page", action="store_true", help="only write the page, from the saved results")
    options = parser.parse_args(arguments)
    try:
        if not options.page:
            measure(options)
        PAGE.write_text(render(read_results()), encoding="utf-8")
    except RegardError as error:
        sys.exit(f"error: {error}")


def measure(options: argparse.Namespace) -> None:
    """Run the benchmarks, and save the results after each.

    Raises:
        RegardError: If a name is unknown, nothing can be measured, or a benchmark fails.
    """
    known = {name for claim in CLAIMS for name in (claim.name, claim.command[0])}
    if wrong := set(options.only) - known:
        raise RegardError(
            f"--only {wrong.pop()}: no claim or benchmark has this name; expected some of {', '.join(sorted(known))}"
        )
    given = {name: value for name, value in vars(options).items() if isinstance(value, str)}
    by_command: dict[tuple[str, ...], list[Claim]] = {}
    for claim in CLAIMS:
        if not options.only or {claim.name, claim.command[0]} & set(options.only):
            by_command.setdefault(claim.command, []).append(claim)
    missing = [command for command in by_command if any(word not in given for word in _needs(command))]
    for command in missing:
        names = ", ".join(claim.name for claim in by_command.pop(command))
        say(f"not measured: {names}; give --{' and --'.join(sorted(_needs(command)))}")
    if not by_command:
        raise RegardError("nothing to measure; give the options that are named above")
    for command, claims in by_command.items():
        words = [word.format(**given) for word in command]
        found, load = [], 0.0
        for number in range(options.rounds):
            load = max(load, wait_until_quiet(busy=options.busy))
            say(f"{' '.join(words)}: round {number + 1} of {options.rounds}")
            done = subprocess.run(
                [sys.executable, "-m", f"benchmarks.{words[0]}", *words[1:]], stdout=subprocess.PIPE, text=True
            )
            if done.returncode:
                raise RegardError(f"benchmarks.{words[0]} failed with exit code {done.returncode}; its message is above")
            found.append(json.loads(done.stdout.strip().splitlines()[-1]))
        results = read_results()
        for claim in claims:
            ratios = sorted(round(claim.pick(one), 3) for one in found)
            results[claim.name] = {
                "median": round(median(ratios), 3),
                "lowest": ratios[0],
                "highest": ratios[-1],
                "rounds": len(ratios),
                "machine": describe_machine(),
                "torch": torch.__version__,
                "date": datetime.date.today().isoformat(),
                "load": load,
            }
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _needs(command: tuple[str, ...]) -> set[str]:
    """Return the options of the report that a command needs."""
    return {name for name in ("data", "transformer", "recurrent") if any(f"{{{name}}}" in word for word in command)}


def wait_until_quiet(*, busy: bool) -> float:
    """Wait until the load average is low, and return it.

    Raises:
        RegardError: If the machine stays busy, unless `busy` allows it.
    """
    end = time.monotonic() + _PATIENCE
    while (load := os.getloadavg()[0]) > _QUIET and not busy:
        if time.monotonic() > end:
            raise RegardError(f"the load average stays at {load:.1f}; stop other programs, or measure anyway with --busy")
        time.sleep(5)
    return round(load, 2)


def describe_machine() -> str:
    """Return the processor, its number of cores, and its bfloat16 instructions."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    flags = next((set(line.split()) for line in lines if line.startswith("flags")), set())
    has = [name for name in ("avx512_bf16", "amx_bf16") if name in flags]
    return f"{models[0] if models else platform.processor() or platform.machine()}, {os.cpu_count()} cores" + "".join(
        f", {name}" for name in has
    )


def read_results() -> dict[str, dict[str, Any]]:
    """Return the saved results by the name of their claim, without claims that no longer exist."""
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return {claim.name: kept[claim.name] for claim in CLAIMS if claim.name in kept}


def render(results: dict[str, dict[str, Any]]) -> str:
    """Return the page in Markdown."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield from (
        "# Claims",
        "",
        "Each ratio compares the speed of a computation with its rival in the same run, on one core with one thread;",
        "above 1, the computation is faster. `python -m benchmarks report` measures the ratios and writes this page.",
        "It runs each command several times; a ratio is the median, with the lowest and the highest in brackets.",
        "",
        "Run the commands in a clone of the repository. `DATA` is a folder that contains `multi30k/` (`train.en`,",
        "`train.de`, …). `TRANSFORMER` and `RECURRENT` are folders of models that were trained on Multi30k's raw text,",
        "English to German, with the presets `transformer-tiny` and `luong`.",
        "",
        "| computation | rival | ratio | limit of the speed | command | measured |",
        "|---|---|---|---|---|---|",
    )
    for claim in CLAIMS:
        if claim.name in results:
            one = results[claim.name]
            ratio = f"**{one['median']:.2f}×** ({one['lowest']:.2f} to {one['highest']:.2f}, {one['rounds']} runs)"
            words = re.sub(r"\{(\w+)\}", lambda option: option[1].upper(), " ".join(claim.command))
            busy = f", load average {one['load']}" if one["load"] > _QUIET else ""
            when = f"{one['date']}, PyTorch {one['torch']}, {one['machine']}{busy}"
            yield f"| {claim.what} | {claim.rival} | {ratio} | {claim.limit} | `python -m benchmarks {words}` | {when} |"
    if missing := [f"{claim.what} ({claim.rival})" for claim in CLAIMS if claim.name not in results]:
        yield from ("", "Not measured yet: " + "; ".join(missing) + ".")


if __name__ == "__main__":
    main()
