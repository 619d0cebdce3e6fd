"""A translator exported to ONNX against regard: the same words and attention, and the time for one sentence.

    python -m benchmarks.export MODEL SOURCES                       # a folder; a file with one sentence per line
    python -m benchmarks.export MODEL SOURCES --int8                # 8-bit weights
    python -m benchmarks.export MODEL SOURCES --sentences 100 --alone 20    # a quick look

Both search greedily in float32, with one thread. `same` is the share of sentences with the same words, and `attention` is the
largest difference of an attention weight in these sentences. To measure the speed, each sentence is decoded alone, in turn by
regard's greedy search on its packed model, and by the loop of the exported folder's `example.py` (the encoder, and a step for
each word). `ratio` is regard's time for all sentences of a round divided by the time of the exported graphs.

Progress goes to standard error, one JSON line to standard output.
"""

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.joeynmt import count
from benchmarks.precision import decoding_parser, read_lines, spread
from benchmarks.rival import say
from regard.decoding import greedy
from regard.decoding.hypothesis import Hypothesis
from regard.errors import RegardError
from regard.text.symbols import END, PAD

BATCH = 50
LONGEST = 100
"""Maximum number of steps of the example."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its figures."""
    parser = decoding_parser("benchmarks.export", __doc__)
    parser.add_argument("--int8", action="store_true", help="export 8-bit weights")
    parser.add_argument("--sentences", type=count, default=1000, help="sentences that are compared (%(default)s)")
    parser.add_argument("--alone", type=count, default=100, help="sentences that are decoded one by one (%(default)s)")
    try:
        print(json.dumps(measure(parser.parse_args(arguments))), flush=True)
    except RegardError as error:
        sys.exit(f"error: {error}")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Export the model, and compare the graphs with it.

    Raises:
        RegardError: If the model cannot be loaded or exported.
    """
    import regard
    from regard.export.runtime import OnnxSeq2Seq

    torch.set_num_threads(1)
    translator = regard.load(options.model, device="cpu")
    tokenizer = translator.bundle.parts.source
    sources = [[*tokenizer.encode(line).ids, END] for line in read_lines(options.sources, options.sentences)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "export"
        done = regard.export_onnx(translator, folder, precision="int8" if options.int8 else "float32")
        say(f"exported; largest difference {done.largest_difference:.1e}")
        sizes = {path.name: path.stat().st_size for path in folder.glob("*.onnx")}
        same, attention = compare(translator.model, OnnxSeq2Seq(folder), sources)
        say(f"{same:.1%} of {len(sources)} sentences have the same words")
        times = time_alone(translator.model, load_example(folder), sources[: options.alone], options.rounds)
    return {
        "benchmark": "export",
        "model": str(options.model),
        "kind": type(translator.model).__name__,
        "precision": "int8" if options.int8 else "float32",
        "bytes": sizes,
        "sentences": len(sources),
        "same": same,
        "attention": attention,
        **times,
        "load_average": os.getloadavg()[0],
    }


def compare(model: Any, exported: Any, sources: Sequence[list[int]]) -> tuple[float, float]:
    """Return the share of sentences with the same words, and the largest difference of their attention.

    Args:
        model: A translator, in evaluation mode.
        exported: The exported model, which runs in onnxruntime.
        sources: Ids of each sentence, with the end symbol.
    """
    same, worst = 0, 0.0
    ordered = sorted(sources, key=len)
    for start in range(0, len(ordered), BATCH):
        pairs = [_search(one, ordered[start : start + BATCH]) for one in (model, exported)]
        for ours, theirs in zip(*pairs, strict=True):
            if ours.tokens == theirs.tokens:
                same += 1
                worst = max(worst, float(np.abs(_mean(ours.attention["cross"]) - _mean(theirs.attention["cross"])).max()))
    return same / len(sources), worst


def _mean(weights: np.ndarray) -> np.ndarray:
    """Return the mean over the heads of weights (H,T,S); return weights (T,S) as they are."""
    return weights.mean(0) if weights.ndim == 3 else weights


def _search(model: Any, sources: Sequence[list[int]], **options: Any) -> list[Hypothesis]:
    width = max(map(len, sources))
    tokens = torch.tensor([[*ids, *[PAD] * (width - len(ids))] for ids in sources])
    options = {"record": ("cross",), **options}
    return greedy(model, tokens, tokens != PAD, max_length=LONGEST, **options)


def load_example(folder: Path) -> Any:
    """Return the `example.py` of an exported folder as a module."""
    spec = importlib.util.spec_from_file_location("exported_example", folder / "example.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def time_alone(model: Any, example: Any, sources: Sequence[list[int]], rounds: int) -> dict[str, Any]:
    """Return the mean milliseconds per sentence of both programs, and their ratio."""
    encoder, step = example.open_graph("encoder"), example.open_graph("step")
    decoders = {
        "regard": lambda ids: list(_search(model, [ids], record=())[0].tokens),
        "onnx": lambda ids: [token for token, _ in example.decode(ids, encoder, step)],
    }
    seconds: dict[str, list[float]] = {name: [] for name in decoders}
    steps = 0
    for number in range(rounds + 1):
        taken = dict.fromkeys(decoders, 0.0)
        for place, ids in enumerate(sources):
            words = {}
            for name in sorted(decoders, reverse=bool(place % 2)):
                start = time.perf_counter()
                words[name] = decoders[name](ids)
                taken[name] += time.perf_counter() - start
            steps += len(words["onnx"]) if not number else 0
        if number:
            for name, total in taken.items():
                seconds[name].append(total)
        say(f"round {number}: " + ", ".join(f"{name} {1000 * total / len(sources):.2f} ms" for name, total in taken.items()))
    ratios = [ours / theirs for ours, theirs in zip(seconds["regard"], seconds["onnx"], strict=True)]
    return {
        "alone": len(sources),
        "steps": steps / len(sources),
        "milliseconds": {name: round(1000 * median(each) / len(sources), 3) for name, each in seconds.items()},
        "ratio": spread(ratios),
    }


if __name__ == "__main__":
    main()
