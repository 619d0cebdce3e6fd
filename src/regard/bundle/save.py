"""Write a bundle, the folder of a trained model."""

import json
from pathlib import Path
from typing import Any

from regard import disk
from regard.bundle.bundle import CARD, CONFIG, REPORT, SIGNATURE, WEIGHTS
from regard.bundle.card import render_card
from regard.bundle.folder import replacing
from regard.bundle.signature import read_signed, sign
from regard.bundle.weights import pack
from regard.config.loading import render_config
from regard.errors import BundleError
from regard.task import Bundle, find_task


def save_bundle(folder: str | Path, bundle: Bundle) -> None:
    """Write a trained model, and replace the model in the folder if there is one.

    At every moment, the folder contains either the complete old model or the complete new one. Other files in it
    (`checkpoints/`, `logs/`) stay. The same bundle gives the same bytes.
    """
    with replacing(Path(folder)) as stage:
        disk.write(stage / CONFIG, render_config(bundle.config))
        disk.write(stage / REPORT, render_json(bundle.report))
        disk.write(stage / WEIGHTS, pack(bundle.model))
        find_task(bundle.config.task).bundle_format.write_parts(bundle.parts, stage)
        files = {path.name: path.read_bytes() for path in stage.iterdir()}  # as they were written, without card and signature
        signature = sign(bundle, files)
        disk.write(stage / CARD, render_card(bundle, signature))
        disk.write(stage / SIGNATURE, render_json(signature))


def add_file(folder: str | Path, name: str, found: dict[str, Any], *, weights: str) -> None:
    """Add a file, such as a measurement, to a model's folder, if the model still has the weights with this checksum.

    The signature contains no checksum of this file. Its name is one of the `unsigned_files` of the model's task.

    Raises:
        BundleError: If there is no model, it has other weights, or the file cannot be written. The folder is then unchanged.
    """
    _check_weights(Path(folder), weights)
    with replacing(Path(folder)) as stage:
        _check_weights(Path(folder), weights)  # check again: a run could replace the model until this block began
        disk.write(stage / name, render_json({**found, "weights": weights}))


def _check_weights(folder: Path, weights: str) -> None:
    signature, _ = read_signed(folder)
    if signature["files"][WEIGHTS] != weights:
        raise BundleError(
            f"the model in {folder} was replaced by another while it was measured, so the measurement was not saved; measure "
            "again when its training has ended"
        )


def render_json(plain: dict[str, Any]) -> str:
    """Return plain data as the text of a JSON file. Equal data give equal texts."""
    return json.dumps(plain, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
