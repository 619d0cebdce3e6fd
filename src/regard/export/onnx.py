"""Export a trained model to a folder of ONNX graphs, after comparing the graphs with the model."""

import copy
from pathlib import Path
from typing import Any, Literal, get_args

from torch import nn

from regard import disk
from regard.errors import RequestError
from regard.export.classifiers import classifier_graphs
from regard.export.decoders import Decoding, check_reads_words, decoder_graphs
from regard.export.folder import (
    Exported,
    add_example,
    add_manifest,
    check_folder,
    check_packages,
    load_predictor,
    writing,
)
from regard.export.graphs import OPSET, Graph, write_graph
from regard.export.quantization import Quality, measure_quality, quantize
from regard.export.runtime import NEXT
from regard.export.verification import verify
from regard.models.text_classifier import TextClassifier
from regard.task import find_task

MANIFEST = "onnx.json"
Precision = Literal["float32", "int8"]


def graphs_of(model: nn.Module, *, overridable: bool = False) -> list[Graph]:
    """Return the graphs of a model in evaluation mode; for `overridable`, see `decoder_graphs`."""
    check_reads_words(model)
    if isinstance(model, Decoding):
        return decoder_graphs(model, overridable=overridable)
    if isinstance(model, TextClassifier):
        return classifier_graphs(model, overridable=overridable)
    raise RequestError(
        f"a {type(model).__name__} cannot be exported to ONNX; export supports regard's translators, classifiers and language "
        "models"
    )


def export_onnx(
    run: Any,
    folder: str | Path,
    *,
    overridable: bool = False,
    precision: Precision = "float32",
    check: str = "",
    overwrite: bool = False,
) -> Exported:
    """Write a trained model as ONNX graphs, with its tokenizers, its configuration and an example program that runs the graphs.

    A translator becomes `encoder.onnx` and `step.onnx`, a language model `step.onnx`, a classifier `classifier.onnx`. Attention
    is among the outputs. Batch size, lengths and number of hypotheses are dynamic. Before the folder is created, the graphs are
    run in onnxruntime on inputs of six sizes and compared with the model.

    Args:
        run: A trained model's folder, or a loaded `Translator`, `Classifier` or `LanguageModel`.
        folder: Folder to write.
        overridable: Whether the step of a translator or language model has two further inputs: `override`, attention weights
            that replace the model's own, and `overridden`, which is True where the weights are replaced.
        precision: "float32", or "int8" for 8-bit weights, whose loss of quality is measured and written into the folder's
            `README.md`.
        check: With "int8": a file, or two files separated by a comma, on which the model and the export are compared by the
            scores of `regard evaluate`. If empty, the score is how often both choose the same word or label for random tokens.
        overwrite: Whether to replace an export that is already there.

    Returns:
        The folder, its files, the largest difference from the model, and the quality with 8-bit weights.

    Raises:
        RequestError: If the model cannot be expressed in ONNX, the graphs differ from it by more than 1e-4, the folder exists
            and may not be replaced, an argument is invalid, or the packages of the extra `onnx` are missing.
        BundleError: If `run` is not the folder of a trained model.
        DataError: If a file of `check` cannot be read.

    Example:
        regard.export_onnx("runs/deu", "exported/deu")
    """
    if precision not in get_args(Precision):
        raise RequestError(f"precision is {precision!r}, expected float32 or int8")
    if check and precision == "float32":
        raise RequestError("check measures the loss of quality with 8-bit weights; choose precision int8, or leave check out")
    predictor, folder = load_predictor(run), Path(folder)
    check_folder(folder, overwrite=overwrite)
    check_packages("onnx", "onnxscript", "onnxruntime", extra="onnx")
    # A copy, because the graphs are computed in float32 on the CPU, and the caller may use another type or device.
    bundle, model = predictor.bundle, copy.deepcopy(predictor.model).float().cpu().eval()
    inventory = find_task(bundle.config.task).bundle_format.inventory(bundle.parts)
    vocabularies = [tokenizer.size for tokenizer in inventory.tokenizers.values()]
    graphs = graphs_of(model, overridable=overridable)
    sizes = {"source_size": vocabularies[0], "target_size": vocabularies[-1]}
    quality: tuple[Quality, ...] = ()
    with writing(predictor, folder) as made:
        for graph in graphs:
            write_graph(graph, made)
        worst = verify(model, made, **sizes)
        if precision == "int8":
            quantize(made)
            quality = measure_quality(predictor, made, check, **sizes)
            card, lines = made / "README.md", "\n".join(f"- {one.render()}" for one in quality)
            text = card.read_text(encoding="utf-8")
            disk.save(card, f"{text}\n## Export\n\nThe weights in this folder are 8-bit integers.\n\n{lines}\n")
        add_manifest(made, MANIFEST, predictor, worst, _describe(graphs, precision))
        add_example(made, "onnx")
    return Exported(folder, worst, quality)


def _describe(graphs: list[Graph], precision: Precision) -> dict[str, Any]:
    """Return the facts that a program needs to run the graphs."""
    described: dict[str, Any] = {
        "opset": OPSET,
        "precision": precision,
        "graphs": {graph.name: graph.describe() for graph in graphs},
        "axes": {
            "B": "sentences",
            "N": "hypotheses of a sentence",
            "S": "source tokens; of a language model: the tokens so far, with the new one",
            "T": "target tokens so far",
            "L": "layers",
            "H": "heads, or the width of a recurrent state",
            "G": "heads of keys and values",
            "D": "width of a key",
            "E": "width of a value",
            "R": "width of the readout",
            "V": "vocabulary",
            "C": "labels",
        },
    }
    if "step" in described["graphs"]:
        described["state"] = [name for name in graphs[-1].axes if f"{NEXT}{name}" in graphs[-1].outputs]
    return described
