"""Weights of 8 bits: smaller graphs, whose loss of quality is measured.

onnxruntime stores one scale for each output channel of a matrix product, and one for each table of embeddings. It quantizes the
inputs of products at run time. Weights use only 7 of the 8 bits, because sums of products with 8 bits overflow on processors
without VNNI instructions.
"""

import contextlib
import io
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard import disk
from regard.errors import RequestError
from regard.export.verification import compare, run_exported
from regard.task import Files, find_task

# Names of the numbers in an evaluation that are settings, not scores.
_SETTINGS = ("length_penalty", "length_reward")


@dataclass(frozen=True)
class Quality:
    """One score of the model with its own weights (`model`) and with 8-bit weights (`exported`)."""

    name: str
    """Name of the score."""
    model: float
    exported: float

    def render(self) -> str:
        """Return one line of text."""
        return f"{self.name}: {self.model:.4g} with the model, {self.exported:.4g} with 8-bit weights"


def quantize(folder: Path) -> None:
    """Replace the weights of all graphs in a folder with 8-bit weights; weights that are vectors keep their precision."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    level = logging.root.level
    logging.root.setLevel(logging.ERROR)  # hides advice to prepare the graphs, which these do not need
    try:
        for path in folder.glob("*.onnx"):
            made, graph = path.with_suffix(".quantized"), onnx.load(path).graph
            vectors = {weight.name for weight in graph.initializer if len(weight.dims) < 2}  # vectors have no output channels
            kept = [node.name for node in graph.node if node.op_type == "MatMul" and vectors.intersection(node.input)]
            options = {"per_channel": True, "reduce_range": True, "weight_type": QuantType.QInt8, "nodes_to_exclude": kept}
            with contextlib.redirect_stdout(io.StringIO()):
                quantize_dynamic(path, made, **options)
            disk.rename(made, path)
    finally:
        logging.root.setLevel(level)


def measure_quality(predictor: Any, folder: Path, check: str, **sizes: int) -> tuple[Quality, ...]:
    """Compare the quality of exported graphs with that of the model, on the files of `check`.

    Without files, random tokens are used, and the score is the share of words or labels that are equal to the original
    model's. The sizes are `source_size` and `target_size`, as for `verification.compare`.
    """
    model = predictor.model
    if not check:
        made = compare(model, folder, **sizes)
        name = "labels" if (folder / "classifier.onnx").exists() else "next words"
        return (Quality(f"share of {name} equal to the original model's, on random tokens", 1.0, made.same / made.total),)
    task = find_task(predictor.config.task)
    operation = task.file_operation("evaluate")
    if operation is None:
        raise RequestError(f"export: {task.words.predictors} cannot be evaluated on files; leave --check out")
    exported = task.predictor(replace(predictor.bundle, model=run_exported(model, folder)))
    before, after = (operation().run(one, Files(check)).to_dict() for one in (predictor, exported))
    return tuple(
        Quality(name, value, after[name])
        for name, value in before.items()
        if isinstance(value, float) and isinstance(after.get(name), float) and name not in _SETTINGS
    )
