"""Writing a bundle."""

import json
from pathlib import Path
from typing import Any

from regard import disk
from regard.bundle.bundle import (
    CARD,
    CONFIG,
    FAITHFULNESS,
    LABELS,
    REPORT,
    SIGNATURE,
    SOURCE_TOKENIZER,
    TARGET_TOKENIZER,
    TOKENIZER,
    WEIGHTS,
    Bundle,
    ClassificationBundle,
    LanguageBundle,
    TranslationBundle,
)
from regard.bundle.card import render_card
from regard.bundle.folder import replacing
from regard.bundle.signature import read_signed, sign
from regard.bundle.weights import pack
from regard.config.loading import render_config
from regard.errors import BundleError


def save_bundle(folder: str | Path, bundle: Bundle) -> None:
    """Write a trained model, in place of the one that is there, if any.

    At every moment the folder holds the old model or the new one, whole; other files in it (`checkpoints/`, `logs/`) stay.
    The same bundle gives the same bytes.

    Raises:
        BundleError: If it cannot be written. What was there is unchanged.
    """
    with replacing(Path(folder)) as stage:
        disk.write(stage / CONFIG, render_config(bundle.config))
        disk.write(stage / REPORT, _render(bundle.report))
        disk.write(stage / WEIGHTS, pack(bundle.model))
        if isinstance(bundle, TranslationBundle):
            _write_tokenizers(stage, bundle)
        elif isinstance(bundle, ClassificationBundle):
            bundle.tokenizer.save(stage / TOKENIZER)
            labels = {"labels": bundle.labels.to_dict(), "temperature": bundle.temperature}
            disk.write(stage / LABELS, _render(labels))
        elif isinstance(bundle, LanguageBundle):
            bundle.tokenizer.save(stage / TOKENIZER)
        files = {path.name: path.read_bytes() for path in stage.iterdir()}
        signature = sign(bundle, files)
        disk.write(stage / CARD, render_card(bundle, signature))
        disk.write(stage / SIGNATURE, _render(signature))


def save_faithfulness(folder: str | Path, found: dict[str, Any], *, weights: str) -> None:
    """Keep what was measured about a model's attention beside it.

    It counts for these very weights: a run that replaces its model by a better one leaves it behind.

    Args:
        folder: The model's.
        found: Plain data with a `sentence`.
        weights: The checksum of the weights that it was measured on, as the model's signature has it.

    Raises:
        BundleError: If there is no model, or another one by now, or the file cannot be written. What was there is unchanged.
    """
    _check_weights(Path(folder), weights)
    with replacing(Path(folder)) as stage:
        _check_weights(Path(folder), weights)  # again: now no run can replace it any more
        disk.write(stage / FAITHFULNESS, _render({**found, "weights": weights}))


def _check_weights(folder: Path, weights: str) -> None:
    signature, _ = read_signed(folder)
    if signature["files"][WEIGHTS] != weights:
        raise BundleError(
            f"the model in {folder} was replaced by another while it was measured, so nothing was kept there; measure it again "
            "when its training has ended"
        )


def _write_tokenizers(stage: Path, bundle: TranslationBundle) -> None:
    if bundle.source_tokenizer is bundle.target_tokenizer:
        bundle.source_tokenizer.save(stage / TOKENIZER)
    else:
        bundle.source_tokenizer.save(stage / SOURCE_TOKENIZER)
        bundle.target_tokenizer.save(stage / TARGET_TOKENIZER)


def _render(plain: dict[str, Any]) -> str:
    return json.dumps(plain, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
