"""One ONNX graph: a module that takes and returns tensors, the names of these tensors, and their dynamic axes."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard import disk
from regard.errors import RequestError

OPSET = 18
"""Version of ONNX's operators; supported by onnxruntime since 1.14 (2023) and by its build for browsers."""


@dataclass(frozen=True)
class Graph:
    """A module to export, with everything that the exporter and the reader of the file need to know."""

    name: str
    """Name of the file without its ending, such as `encoder`."""
    module: nn.Module
    """A module that takes and returns plain tensors, in the order of `axes` and `outputs`."""
    example: Mapping[str, Tensor]
    """Example inputs by name. Dynamic axes should differ in length and be longer than one."""
    axes: Mapping[str, Sequence[str]]
    """Axes of each input, one letter per axis; the letters in `dynamic` are axes of any length."""
    outputs: Mapping[str, Sequence[str]]
    """Axes of each output, one letter per axis."""
    dynamic: str = "BSNT"

    def describe(self) -> dict[str, Any]:
        """Return the file name, the inputs (name, type and axes) and the outputs (name and axes), for the folder's manifest."""
        inputs = [
            {"name": name, "type": str(self.example[name].dtype).removeprefix("torch."), "axes": self._sizes(name)}
            for name in self.axes
        ]
        outputs = [{"name": name, "axes": list(axes)} for name, axes in self.outputs.items()]
        return {"file": f"{self.name}.onnx", "inputs": inputs, "outputs": outputs}

    def _sizes(self, name: str) -> list[str | int]:
        """Return the letter of each dynamic axis, and the length of each other one."""
        lengths = self.example[name].shape
        return [letter if letter in self.dynamic else length for letter, length in zip(self.axes[name], lengths, strict=True)]


class _Positional(nn.Module):
    """A wrapper that passes all inputs by position, so that their dynamic axes can be given as one sequence."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Tensor) -> Any:
        return self.module(*inputs)


def write_graph(graph: Graph, folder: Path) -> Path:
    """Export a graph as `folder/NAME.onnx`."""
    dynamic = {
        name: {place: letter for place, letter in enumerate(axes) if letter in graph.dynamic}
        for name, axes in graph.axes.items()
    }
    path = folder / f"{graph.name}.onnx"
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                _Positional(graph.module).eval(),
                tuple(graph.example[name].contiguous() for name in graph.axes),  # other strides would become part of the graph
                dynamo=True,
                input_names=list(graph.axes),
                output_names=list(graph.outputs),
                dynamic_shapes=(tuple(dynamic[name] for name in graph.axes),),
                opset_version=OPSET,
                verbose=False,
            )
            assert program is not None
            disk.save(path, program.model_proto.SerializeToString())
    except (torch.onnx.OnnxExporterError, RuntimeError, TypeError) as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise RequestError(f"the {graph.name} of this model cannot be expressed in ONNX: {reason[:500]}") from error
    return path


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the exporter's messages, which are about unneeded packages and its own deprecations."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
