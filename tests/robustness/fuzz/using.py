"""What a user does with a model that has been loaded: translate or label, look, evaluate, write a page."""

import io
import math
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fuzz.files import PAIRS
from rich.console import Console

import regard.export.page.contents as contents
from regard.export import Exported
from regard.export.page.write import write_page
from regard.task import find_task
from regard.viz import terminal
from regard.viz.page import render as render_page

_LENGTH = 6
"""Steps of a translation: a model may ask for 100,000, which are promised to end and not to be quick."""
_TEXTS = ["", "she kissed him .", "<b>東京</b> a cat"]
_PAGES = 8
"""One input in so many is written to a page, which takes longer than all else."""


def use(bundle: Any, data: bytes, folder: Path) -> None:
    """Use a model as its task is used, and hold what comes out to what is promised.

    Args:
        bundle: What was loaded.
        data: The input, which decides whether a page is written.
        folder: Where.
    """
    if bundle.config.task == "translation":
        decoding = replace(bundle.config.decoding, max_length=_LENGTH)
        bundle = replace(bundle, config=replace(bundle.config, decoding=decoding))
    predictor: Any = find_task(bundle.config.task).predictor(bundle)
    {"translation": _translate, "classification": _classify, "language": _generate}[bundle.config.task](predictor)
    if bundle.config.task != "language" and zlib.crc32(data) % _PAGES == 0:
        with patch.object(contents, "export_onnx", _only_saved):
            page = write_page(predictor, folder / "page.html", examples=_TEXTS[1:2], title=_TEXTS[-1], overwrite=True)
        assert "<b>東京" not in page.path.read_text(encoding="utf-8")


def _translate(translator: Any) -> None:
    for found in translator.translate(_TEXTS):
        assert found.text.isprintable()
        _look(found.attention)
    sources, targets = PAIRS
    _evaluate(translator.evaluate(sources[:1], targets[:1], beam_size=1))


def _classify(classifier: Any) -> None:
    for found in classifier.classify(_TEXTS):
        assert found.label in classifier.labels.names or classifier.labels.multiple
        assert all(0 <= value <= 1 for value in found.probabilities.values() if not math.isnan(value))
        _look(found.attention)
    _evaluate(classifier.evaluate(_TEXTS[1:2], classifier.labels.names[:1]))


def _generate(model: Any) -> None:
    for [found] in model.generate(_TEXTS, max_length=_LENGTH):
        assert found.text.isprintable()
    for scored in model.score(_TEXTS[1:2], record=model.model.sites[:1]):
        _look(getattr(scored, "attention", None))
    _evaluate(model.evaluate(_TEXTS[1:2]))


def _look(record: Any) -> None:
    if record is None:
        return
    file = io.StringIO()
    terminal.render(record, Console(file=file, width=100))
    assert "\x1b]" not in file.getvalue()
    assert "<b>" not in render_page(record)


def _evaluate(evaluation: Any) -> None:
    evaluation.render()
    evaluation.to_dict()


def _only_saved(run: Any, folder: Path, **options: Any) -> Exported:
    """Stand in for `export_onnx`, whose graphs take seconds: the texts on a page come from elsewhere."""
    run.save(folder)
    return Exported(folder, 0.0)
