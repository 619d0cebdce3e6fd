"""Decoding with a trained translator in float32, bfloat16 and int8: sentences per second, and the share of equal translations.

    python -m benchmarks.precision MODEL SOURCES                              # a folder; a file with one sentence per line
    python -m benchmarks.precision MODEL SOURCES --references FILE            # with BLEU (13a) in each precision
    python -m benchmarks.precision MODEL SOURCES --sentences 200 --rounds 3   # a quick look

Beam 5 and greedy search run in one process with one thread, without loading the model. The precisions take turns in every
round, after a round that does not count. A ratio is the speed of bfloat16 or int8 divided by that of float32 in the same round;
the result has the median, the lowest and the highest ratio of all rounds. Other programs affect ratios of elapsed time more.
`one` is the processor time of one sentence alone in milliseconds, as a median over the first `--alone` sentences.

Progress goes to standard error, one JSON line to standard output.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.joeynmt import count, counts
from benchmarks.rival import say
from regard.errors import RegardError

PRECISIONS = ("float32", "bfloat16", "int8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its figures."""
    parser = decoding_parser("benchmarks.precision", __doc__)
    parser.add_argument("--references", type=Path, help="file with the reference translations, for BLEU")
    parser.add_argument("--beams", type=counts, default=[5, 1], help="beam sizes (5,1)")
    parser.add_argument("--sentences", type=count, default=0, help="number of sentences (all)")
    parser.add_argument("--alone", type=count, default=50, help="sentences that are translated one by one (%(default)s)")
    try:
        print(json.dumps(measure(parser.parse_args(arguments))), flush=True)
    except RegardError as error:
        sys.exit(f"error: {error}")


def decoding_parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser for a benchmark that decodes sentences with a trained translator."""
    parser = argparse.ArgumentParser(name, description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of a trained translator")
    parser.add_argument("sources", type=Path, help="file with one sentence per line")
    parser.add_argument("--rounds", type=count, default=5, help="rounds that count (%(default)s)")
    return parser


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Translate in all precisions in turn.

    Raises:
        RegardError: If a file cannot be read or the model cannot be loaded.
    """
    import regard

    torch.set_num_threads(1)
    translator = regard.load(options.model, device="cpu")
    sources = read_lines(options.sources, options.sentences)
    references = None if options.references is None else read_lines(options.references, options.sentences)
    by_beam = {str(beam_size): _compare(translator, sources, references, beam_size, options) for beam_size in options.beams}
    return {
        "benchmark": "precision",
        "model": str(options.model),
        "sentences": len(sources),
        "by_beam": by_beam,
        "processor": torch.backends.cpu.get_cpu_capability(),
        "load_average": os.getloadavg()[0],
    }


def _compare(
    translator: Any, sources: list[str], references: list[str] | None, beam_size: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Return the figures for one beam size."""
    seconds: dict[str, list[tuple[float, float]]] = {precision: [] for precision in PRECISIONS}
    texts: dict[str, list[str]] = {}
    for number in range(options.rounds + 1):
        for precision in PRECISIONS:
            wall, processor = time.perf_counter(), time.process_time()
            found = translator.translate(sources, beam_size=beam_size, precision=precision, record=())
            taken = time.perf_counter() - wall, time.process_time() - processor
            texts[precision] = [one.text for one in found]
            if number:
                seconds[precision].append(taken)
            say(f"beam {beam_size}, round {number}, {precision}: {len(sources) / taken[0]:,.1f} sentences/s")
    alone: dict[str, list[float]] = {precision: [] for precision in PRECISIONS}
    for source in sources[: options.alone]:
        for precision in PRECISIONS:
            start = time.process_time()
            translator.translate([source], beam_size=beam_size, precision=precision, record=())
            alone[precision].append(1000 * (time.process_time() - start))
    speeds = {precision: round(len(sources) / median(wall for wall, _ in each), 2) for precision, each in seconds.items()}
    exact, *lower = PRECISIONS
    return {
        "sentences_per_second": speeds,
        "ratio": {name: _ratio(seconds[exact], seconds[name], 0) for name in lower},
        "processor_ratio": {name: _ratio(seconds[exact], seconds[name], 1) for name in lower},
        "one": {precision: round(median(each), 2) for precision, each in alone.items()},
        "same": {name: round(sum(map(str.__eq__, texts[exact], texts[name])) / len(sources), 4) for name in lower},
        "bleu": None if references is None else {name: _bleu(each, references) for name, each in texts.items()},
    }


def _ratio(exact: list[tuple[float, float]], lower: list[tuple[float, float]], clock: int) -> dict[str, float]:
    return spread([one[clock] / other[clock] for one, other in zip(exact, lower, strict=True)])


def spread(ratios: list[float]) -> dict[str, float]:
    return {"median": round(median(ratios), 3), "lowest": round(min(ratios), 3), "highest": round(max(ratios), 3)}


def _bleu(texts: list[str], references: list[str]) -> float:
    from sacrebleu.metrics import BLEU

    return round(float(BLEU().corpus_score(texts, [references]).score), 2)


def read_lines(path: Path, limit: int) -> list[str]:
    """Return the first lines of a file; all lines if the limit is 0.

    Raises:
        RegardError: If the file cannot be read or is empty.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RegardError(f"{path}: cannot be read: {error}; expected a text file in UTF-8") from error
    if not lines:
        raise RegardError(f"{path}: is empty; expected one sentence per line")
    return lines[:limit] if limit else lines


if __name__ == "__main__":
    main()
