"""Export a trained model to a folder of ONNX graphs, after comparing the graphs with the model."""

import copy
import json
import shutil
import tempfile
from dataclasses import dataclass, fields
from functools import singledispatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard import disk
from regard.errors import RequestError
from regard.export.classifiers import classifier_graphs
from regard.export.graphs import OPSET, Graph, write_graph
from regard.export.language import language_graphs
from regard.export.runtime import NEXT
from regard.export.translators import recurrent_graphs, transformer_graphs
from regard.export.verification import verify
from regard.models.language.transformer import TransformerLanguageModel
from regard.models.recurrent.translator import RecurrentTranslator
from regard.models.text_classifier import TextClassifier
from regard.models.transformer.translator import TransformerTranslator
from regard.tasks.loading import load
from regard.text.symbols import END, PAD, START, UNKNOWN
from regard.text.tokenizers.tokenizer import Tokenizer
from regard.version import __version__

FORMAT_VERSION = 1
MANIFEST = "onnx.json"
_COPIED = ("config.yaml", "labels.json", "README.md")
_EXAMPLE = "example.py"


@dataclass(frozen=True)
class Exported:
    """The result of an export."""

    folder: Path
    files: tuple[str, ...]
    """Names of the files in the folder."""
    largest_difference: float
    """Largest difference of a log probability, score or weight from the model's own, over inputs of several sizes."""


@singledispatch
def graphs_of(model: nn.Module, *, overridable: bool = False) -> list[Graph]:
    """Return the graphs of a model.

    Args:
        model: The model, in evaluation mode.
        overridable: Whether a decoder's step accepts attention weights that replace its own.

    Raises:
        RequestError: If this class of model cannot be exported, or ONNX cannot express a part of it.
    """
    raise RequestError(f"a {type(model).__name__} cannot be exported to ONNX; export supports the models that regard builds")


graphs_of.register(RecurrentTranslator, recurrent_graphs)
graphs_of.register(TransformerTranslator, transformer_graphs)
graphs_of.register(TransformerLanguageModel, language_graphs)
graphs_of.register(TextClassifier, classifier_graphs)


def export_onnx(run: Any, folder: str | Path, *, overridable: bool = False, overwrite: bool = False) -> Exported:
    """Write a trained model as ONNX graphs, with its tokenizers, its configuration and an example that uses them.

    A translator becomes `encoder.onnx` and `step.onnx`, a language model `step.onnx`, a classifier `classifier.onnx`. Attention
    is among the outputs. Batch size, lengths and number of hypotheses are dynamic. Before the folder is created, the graphs are
    run in onnxruntime on inputs of six sizes and compared with the model.

    Args:
        run: A trained model's folder, or a loaded `Translator`, `Classifier` or `LanguageModel`.
        folder: Folder to write.
        overridable: Whether the step of a translator or language model has two further inputs: `override`, attention weights
            that replace the model's own, and `overridden`, True where they do.
        overwrite: Whether to replace an export that is already there.

    Returns:
        The folder, its files and the largest difference.

    Raises:
        RequestError: If the model cannot be expressed in ONNX, the graphs differ from it by more than 1e-4, the folder exists,
            or the packages of the extra `onnx` are missing.

    Example:
        regard.export_onnx("runs/deu", "exported/deu")
    """
    predictor = load(run, device="cpu") if isinstance(run, str | Path) else run
    folder = Path(folder)
    _check_folder(folder, overwrite=overwrite)
    _check_packages()
    bundle, model = predictor.bundle, copy.deepcopy(predictor.model).float().cpu().eval()
    tokenizers = [getattr(bundle, field.name) for field in fields(bundle)]
    sizes = [tokenizer.size for tokenizer in tokenizers if isinstance(tokenizer, Tokenizer)]
    graphs = graphs_of(model, overridable=overridable)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
        made = Path(temporary) / "export"
        predictor.save(made)
        for path in made.iterdir():
            if path.name not in _COPIED and not path.name.startswith("tokenizer"):
                path.unlink() if path.is_file() else shutil.rmtree(path)
        for graph in graphs:
            write_graph(graph, made)
        worst = verify(model, made, source_size=sizes[0], target_size=sizes[-1])
        manifest = _describe(graphs, bundle, model, worst)
        disk.save(made / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
        example = Path(__file__).with_name("examples") / f"{bundle.config.task}.py"
        disk.save(made / _EXAMPLE, example.read_text(encoding="utf-8"))
        if folder.exists():
            shutil.rmtree(folder)
        disk.rename(made, folder)
    return Exported(folder, tuple(sorted(path.name for path in folder.iterdir())), worst)


def _check_folder(folder: Path, *, overwrite: bool) -> None:
    """Check that no folder of the user is replaced."""
    if not folder.exists():
        return
    if not (folder / MANIFEST).is_file():
        raise RequestError(f"{folder} exists and is not an export; name a folder that does not exist yet")
    if not overwrite:
        raise RequestError(f"{folder} already holds an export; replace it with overwrite (--overwrite), or name another folder")


def _check_packages() -> None:
    """Check that the packages of the extra are installed, before any work is done."""
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise RequestError(f"{', '.join(missing)} not installed; install the extra with: pip install 'regard[onnx]'")


def _describe(graphs: list[Graph], bundle: Any, model: nn.Module, worst: float) -> dict[str, Any]:
    """Return what a program needs to know to run the graphs."""
    described: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "task": bundle.config.task,
        "model": type(model).__name__,
        "opset": OPSET,
        "largest_difference": worst,
        "special": {"padding": PAD, "unknown": UNKNOWN, "start": START, "end": END},
        "graphs": {graph.name: graph.describe() for graph in graphs},
        "axes": {
            "B": "sentences",
            "N": "hypotheses of a sentence",
            "S": "source tokens",
            "T": "target tokens so far",
            "L": "layers",
            "H": "heads, or the width of a recurrent state",
            "V": "vocabulary",
            "C": "labels",
        },
        "versions": {"regard": __version__, "torch": torch.__version__.partition("+")[0]},
    }
    if "step" in described["graphs"]:
        described["state"] = [name for name in graphs[-1].axes if f"{NEXT}{name}" in graphs[-1].outputs]
    return described
