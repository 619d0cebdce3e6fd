"""Decode a file in a process of its own. The last line is JSON: for each token budget, elapsed seconds and processor seconds,
without loading the model.

python -m benchmarks.decoders regard MODEL LINES OUT BEAM PENALTY BUDGET…            # text to text; budget: tokens × beam
python -m benchmarks.decoders ctranslate2 MODEL PIECES OUT BEAM PENALTY BUDGET…      # subwords to subwords; budget: tokens
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any


def decode_regard(folder: Path, sources: Path, out: Path, beam_size: int, penalty: float, budgets: list[int]) -> dict[str, Any]:
    """Translate lines with regard, in float32."""
    import torch

    import regard
    from regard.tasks.translation.predict import Translator

    torch.set_num_threads(1)
    loaded = regard.load(folder, device="cpu")
    lines = sources.read_text(encoding="utf-8").splitlines()
    seconds: dict[str, tuple[float, float]] = {}
    for budget in budgets:
        decoding = replace(loaded.config.decoding, batch_tokens=budget, precision="float32", length_penalty=penalty)
        decoding = replace(decoding, length_reward=0.0)  # the other programs have no length reward
        translator = Translator(replace(loaded.bundle, config=replace(loaded.config, decoding=decoding)))
        translator.translate(lines[:32], beam_size=beam_size, record=())
        start = time.perf_counter(), time.process_time()
        found = translator.translate(lines, beam_size=beam_size, record=())
        seconds[str(budget)] = _since(start)
    _write(out, [translation.text for translation in found])
    return {"sentences": len(lines), "seconds": seconds}


def decode_ctranslate2(
    folder: Path, sources: Path, out: Path, beam_size: int, penalty: float, budgets: list[int]
) -> dict[str, Any]:
    """Translate lines of subwords with CTranslate2, in float32."""
    import ctranslate2

    translator = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=1)
    pieces = [line.split() for line in sources.read_text(encoding="utf-8").splitlines()]
    seconds: dict[str, tuple[float, float]] = {}
    for budget in budgets:
        options = {"beam_size": beam_size, "length_penalty": penalty, "max_batch_size": budget, "batch_type": "tokens"}
        translator.translate_batch(pieces[:32], **options)
        start = time.perf_counter(), time.process_time()
        found = translator.translate_batch(pieces, **options)
        seconds[str(budget)] = _since(start)
    _write(out, [" ".join(result.hypotheses[0]) for result in found])
    return {"sentences": len(pieces), "seconds": seconds, "version": ctranslate2.__version__}


def _since(start: tuple[float, float]) -> tuple[float, float]:
    return time.perf_counter() - start[0], time.process_time() - start[1]


def _write(out: Path, lines: list[str]) -> None:
    out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main(arguments: list[str]) -> None:
    """Decode with the program that is named, and print the result."""
    match arguments:
        case ["regard" | "ctranslate2" as name, folder, sources, out, beam_size, penalty, *budgets] if budgets:
            decode = decode_regard if name == "regard" else decode_ctranslate2
            paths = Path(folder), Path(sources), Path(out)
            print(json.dumps(decode(*paths, int(beam_size), float(penalty), [int(budget) for budget in budgets])))
        case _:
            sys.exit(f"benchmarks.decoders: got {' '.join(arguments) or 'nothing'}, expected one of:\n{__doc__}")


if __name__ == "__main__":
    main(sys.argv[1:])
