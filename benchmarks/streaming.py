"""Memory while a file of many lines is translated, to check that it does not grow. The last line printed is JSON.

    python -m benchmarks.streaming MODEL --lines 1000000
    python -m benchmarks.streaming MODEL --lines 100000 --beam 1

The lines of Multi30k's test 2016 are repeated up to the given number. They are translated as by `regard translate`, with
`translate_stream`, and each translation is written immediately. The process measures its own memory ten times, after every
tenth of the lines: anonymous memory (RssAnon in /proc/self/status), resident memory, and the peak, in megabytes of 10⁶ bytes.
`growth_mb` is the growth of anonymous memory from the first measurement to the last, and `growth_after_mb` from the third.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from benchmarks.joeynmt import add_data, count, find_data
from benchmarks.rival import say
from regard.errors import RegardError

LOOKS = 10


def main(arguments: Sequence[str] | None = None) -> None:
    """Translate the lines, and print the measurements."""
    parser = argparse.ArgumentParser("benchmarks.streaming", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("model", type=Path, help="folder of a trained translator")
    add_data(parser)
    add("--lines", type=count, default=1_000_000, metavar="N", help="number of lines (%(default)s)")
    add("--beam", type=count, default=1, metavar="N", help="beam size; 1 is greedy (%(default)s)")
    add("--threads", type=count, default=1, metavar="N", help="threads (%(default)s)")
    try:
        print(json.dumps(measure(parser.parse_args(arguments))))
    except RegardError as error:
        sys.exit(f"error: {error}")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Write the lines, translate them, and measure the memory meanwhile.

    Raises:
        RegardError: If data are missing, or this system cannot measure memory.
    """
    if not Path("/proc/self/status").exists():
        raise RegardError("this system has no /proc, from which memory is read; run the benchmark on Linux")
    import torch

    import regard

    torch.set_num_threads(options.threads)
    translator = regard.load(options.model, device="cpu")
    begin, looks = time.perf_counter(), []
    with tempfile.TemporaryDirectory(prefix="regard-streaming-") as folder:
        source, out = Path(folder, "source"), Path(folder, "out")
        _write(source, Path(f"{find_data(options.data)['test']}.en"), options.lines)
        with source.open(encoding="utf-8") as lines, out.open("w", encoding="utf-8") as sink:
            for number, text in enumerate(_translated(translator, lines, options.beam), 1):
                sink.write(f"{text}\n")
                if number % max(1, options.lines // LOOKS) == 0:
                    looks.append({"lines": number, **_memory()})
                    say(json.dumps(looks[-1]))
    anonymous = [look["anonymous_mb"] for look in looks]
    return {
        "benchmark": "streaming",
        "lines": options.lines,
        "beam": options.beam,
        "lines_per_second": options.lines / (time.perf_counter() - begin),
        "growth_mb": round(anonymous[-1] - anonymous[0], 1),
        "growth_after_mb": round(anonymous[-1] - anonymous[min(2, len(anonymous) - 1)], 1),
        "looks": looks,
        "load_average": os.getloadavg()[0],
    }


def _translated(translator: Any, lines: Iterator[str], beam_size: int) -> Iterator[str]:
    for translation in translator.translate_stream(lines, beam_size=beam_size, record=()):
        yield translation.text


def _write(path: Path, sentences: Path, wanted: int) -> None:
    """Write the sentences, repeated up to the wanted number of lines."""
    lines = sentences.read_text(encoding="utf-8").splitlines()
    with path.open("w", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in islice(cycle(lines), wanted))


def _memory() -> dict[str, float]:
    names = {"RssAnon": "anonymous_mb", "VmRSS": "resident_mb", "VmHWM": "peak_mb"}
    found = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {key: round(int(found[name].split()[0]) * 1024 / 1e6, 1) for name, key in names.items()}


if __name__ == "__main__":
    main()
