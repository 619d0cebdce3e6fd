"""Exports of Transformers in CTranslate2's format; `regard.inference.ctranslate2` converts the model."""

import copy
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from regard.errors import RequestError
from regard.export.folder import (
    Exported,
    add_example,
    add_manifest,
    check_folder,
    check_packages,
    load_predictor,
    writing,
)
from regard.inference.ctranslate2 import check_convertible, write_ctranslate2
from regard.models.transformer.translator import TransformerTranslator
from regard.text.symbols import END, START

MANIFEST = "ctranslate2.json"
TOLERANCE = 1e-3
"""Largest allowed difference of a log probability. It is larger than for ONNX, because CTranslate2 has one ε for all norms of a
model, but moving DeepNet's scales (see `unscaled`) changes the ε of some norms.
"""
_LENGTHS = (1, 2, 5, 9, 17, 30)


def export_ctranslate2(run: Any, folder: str | Path, *, overwrite: bool = False) -> Exported:
    """Write a Transformer translator in CTranslate2's format, with its tokenizers and an example program that uses them.

    CTranslate2 is a fast C++ runtime for translation. Of the attention weights, it returns only the alignment. Before the
    folder is created, CTranslate2 scores random sentence pairs, and its log probabilities are compared with the model's own.

    Args:
        run: A trained translator's folder, or a loaded `Translator`.
        folder: Folder to write.
        overwrite: Whether to replace an export that is already there.

    Returns:
        The folder, its files, and the largest difference of a token's log probability.

    Raises:
        RequestError: If CTranslate2 cannot express the model, its log probabilities differ by more than 1e-3, the folder
            exists and may not be replaced, or the package of the extra `ctranslate2` is missing.
        BundleError: If `run` is not the folder of a trained model.

    Example:
        regard.export_ctranslate2("runs/deu", "exported/deu")
    """
    predictor, folder = load_predictor(run), Path(folder)
    # A copy, because the conversion changes the type of the weights.
    model = check_convertible(copy.deepcopy(predictor.model)).float().cpu().eval()
    check_folder(folder, overwrite=overwrite)
    check_packages("ctranslate2", extra="ctranslate2")
    source, target = (one.symbols.tokens for one in (predictor.bundle.parts.source, predictor.bundle.parts.target))
    with writing(predictor, folder) as made:
        write_ctranslate2(model, made, source_tokens=source, target_tokens=target)
        worst = _verify(model, made, source, target)
        add_manifest(made, MANIFEST, predictor, worst, {})
        add_example(made, "ctranslate2")
    return Exported(folder, worst)


@torch.inference_mode()
def _verify(model: TransformerTranslator, folder: Path, source_tokens: Sequence[str], target_tokens: Sequence[str]) -> float:
    """Return the largest difference of a log probability, at most `TOLERANCE`, for random pairs of several lengths."""
    import ctranslate2

    draw, worst = torch.Generator().manual_seed(1), 0.0
    sources, targets = (
        [torch.randint(4, size, (length,), generator=draw).tolist() for length in _LENGTHS]
        for size in (len(source_tokens), len(target_tokens))
    )
    translator = ctranslate2.Translator(os.fspath(folder), device="cpu", compute_type="float32", intra_threads=1)
    spelt = (
        [[tokens[number] for number in ids] for ids in rows]
        for rows, tokens in ((sources, source_tokens), (targets, target_tokens))
    )
    found = translator.score_batch(*spelt)
    for source, target, scored in zip(sources, targets, found, strict=True):
        ids = torch.tensor([[*source, END]])
        logits = model(ids, torch.tensor([[START, *target]]))
        expected = logits.log_softmax(-1)[0].gather(-1, torch.tensor([*target, END])[:, None])[:, 0]
        worst = max(worst, float((expected - torch.tensor(scored.log_probs)).abs().max()))
    if not worst <= TOLERANCE:
        raise RequestError(
            f"log probabilities in CTranslate2 differ from the model's by {worst:.2g}; the limit is {TOLERANCE:g}, so no file "
            "was written"
        )
    return worst
