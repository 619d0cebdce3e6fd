"""Feeds every reader and loader with generated inputs: `make fuzz`.

    python tests/robustness/fuzz/run.py [--inputs 100000] [--seed 0] [--only NAME …] [--keep] [--out build/fuzz]

Each target runs in a process of its own under a limit on its memory, so that one that crashes is a failure like any other. A
row of the table is printed as soon as its target is done, and kept in `OUT/results.jsonl`; a failing input is kept in OUT.
With --keep, inputs that reached new lines are kept in `tests/robustness/fuzz/corpus`. Exits with 1 if anything failed.
"""

import argparse
import hashlib
import json
import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

CORPUS = HERE / "corpus"
MOST_KEPT = 40
"""Corpus files of a target that --keep adds at most, the shortest."""
LARGEST_KEPT = 2048
"""Bytes of one of them."""
_HEADER = 16
_ROW = "{:<18} {:>8} {:>8} {:>8}  {:<44} {:>6} {:>6} {:>8} {:>7} {:>6}"
_SECONDS = 120.0
"""Of wall time, after which an input is stopped; what takes processor time is a failure long before."""


def corpus_of(name: str) -> list[bytes]:
    """The kept inputs of a target."""
    folder = CORPUS / name
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []


@dataclass
class Share:
    """Where a process says which input it is at, so that its end can be told from its work."""

    memory: mmap.mmap

    @classmethod
    def open(cls, path: Path) -> "Share":
        from fuzz.engine import LONGEST_INPUT

        with path.open("a+b") as file:
            file.truncate(_HEADER + LONGEST_INPUT)
            return cls(mmap.mmap(file.fileno(), 0))

    def write(self, number: int, data: bytes) -> None:
        self.memory[:_HEADER] = number.to_bytes(8, "little") + len(data).to_bytes(8, "little")
        self.memory[_HEADER : _HEADER + len(data)] = data

    def read(self) -> tuple[int, bytes]:
        size = int.from_bytes(self.memory[8:_HEADER], "little")
        return int.from_bytes(self.memory[:8], "little"), self.memory[_HEADER : _HEADER + size]


def feed_one(name: str, inputs: int, seed: int, share: Path, result: Path) -> None:
    """In a process of its own: feed a target, and write what became of it."""
    from fuzz.engine import feed, limit_memory, limit_time
    from fuzz.targets import find_target

    target, shared = find_target(name), Share.open(share)
    timed = limit_time(_SECONDS)

    def before(number: int, data: bytes) -> None:
        shared.write(number, data)
        timed(number, data)

    base = Path("/dev/shm")  # files in memory, where there are some
    with tempfile.TemporaryDirectory(dir=base if os.access(base, os.W_OK) else None) as folder:
        tempfile.tempdir = folder
        limit_memory()
        outcome = feed(target, corpus_of(name), Path(folder), inputs=inputs, seed=seed, before=before)
    plain = vars(outcome) | {
        "failures": {key: [what, data.hex()] for key, (what, data) in outcome.failures.items()},
        "found": [data.hex() for data in outcome.found],
    }
    result.write_text(json.dumps(plain))


def run_target(name: str, inputs: int, seed: int) -> dict[str, Any]:
    """Feed a target in processes of its own: in another one where one ends before its work is done."""
    total: dict[str, Any] = {"target": name, "inputs": 0, "results": 0, "refusals": {}, "failures": {}, "times_failed": 0}
    total |= {"found": [], "lines": 0, "seconds": 0.0, "processor": 0.0, "slowest": 0.0, "grown": 0}
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    environment["TOKENIZERS_PARALLELISM"] = "false"  # threads take longer to begin than small texts to be learnt from
    while total["inputs"] < inputs and total["times_failed"] < 1000:
        with tempfile.TemporaryDirectory() as folder:
            share, result = Path(folder) / "share", Path(folder) / "result"
            one = [name, str(inputs - total["inputs"]), str(seed), str(share), str(result)]
            begun = time.monotonic()
            code = subprocess.run([sys.executable, __file__, "--one", *one], env=environment, check=False).returncode
            if result.exists():
                part = json.loads(result.read_text())
            else:
                assert share.exists(), f"{name} did not start"
                number, data = Share.open(share).read()
                failures = {f"the process ended with {code}": [f"the process ended with {code}", data.hex()]}
                part = {"inputs": number + 1, "times_failed": 1, "failures": failures, "seconds": time.monotonic() - begun}
        _add(total, part)
        seed += 1
    return total


def _add(total: dict[str, Any], part: dict[str, Any]) -> None:
    for key, value in part.items():
        if key == "refusals":
            total[key] = dict(Counter(total[key]) + Counter(value))
        elif key in ("failures", "found"):
            total[key] = {**value, **total[key]} if key == "failures" else total[key] + value
        elif key in ("lines", "slowest", "grown"):
            total[key] = max(total[key], value)
        else:
            total[key] += value


def row(result: dict[str, Any]) -> str:
    """A line of the table."""
    refused = result["refusals"]
    by_kind = ", ".join(f"{name} {count:,}" for name, count in sorted(refused.items(), key=lambda item: -item[1]))
    return _ROW.format(
        result["target"],
        f"{result['inputs']:,}",
        f"{result['results']:,}",
        f"{sum(refused.values()):,}",
        by_kind[:44],
        f"{result['times_failed']:,}",
        result["lines"],
        f"{result['grown'] / 2**20:,.0f} MB",
        f"{result['slowest'] * 1000:,.0f} ms",
        f"{result['inputs'] / max(result['processor'], 1e-9):,.0f}",
    )


def keep(folder: Path, inputs: list[bytes], most: int = MOST_KEPT) -> None:
    """Write inputs to files named by their content."""
    folder.mkdir(parents=True, exist_ok=True)
    for data in sorted(set(inputs), key=len)[:most]:
        (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--one"]:
        name, inputs, seed, share, result = arguments[1:]
        feed_one(name, int(inputs), int(seed), Path(share), Path(result))
        return 0
    from fuzz.targets import SLOW, target_names

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000, help="for each target; fewer for slow ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help=", ".join(target_names()))
    parser.add_argument("--keep", action="store_true", help="keep inputs that reached new lines in the corpus")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    options = parser.parse_args(arguments)
    if unknown := set(options.only) - set(target_names()):
        parser.error(f"no target is called {', '.join(sorted(unknown))}; there are {', '.join(target_names())}")
    options.out.mkdir(parents=True, exist_ok=True)
    print(_ROW.format("target", "inputs", "results", "refused", "by", "failed", "lines", "memory", "slowest", "per s"))
    failed = 0
    for name in options.only or target_names():
        result = run_target(name, -(-options.inputs // SLOW.get(name, 1)), options.seed)
        print(row(result), flush=True)
        for number, (what, data) in enumerate(result["failures"].values()):
            path = options.out / f"{name}-{number}"
            path.write_bytes(bytes.fromhex(data))
            print(f"  {path}: {what}", flush=True)
        if options.keep:
            new = [bytes.fromhex(data) for data in result["found"] if len(data) <= 2 * LARGEST_KEPT]
            keep(CORPUS / name, new, max(0, MOST_KEPT - len(corpus_of(name))))
        with (options.out / "results.jsonl").open("a") as file:
            shown = {key: value for key, value in result.items() if key not in ("failures", "found")}
            file.write(json.dumps(shown | {"failures": [what for what, _ in result["failures"].values()]}) + "\n")
        failed += result["times_failed"]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
