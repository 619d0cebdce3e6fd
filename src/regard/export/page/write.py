"""Write a page with models as one HTML file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard import disk
from regard.errors import RequestError
from regard.export.folder import load_predictor
from regard.export.page.contents import read_contents
from regard.export.page.examples import Examples, choose_examples
from regard.export.page.join import build_document
from regard.version import __version__

FORMAT_VERSION = 1
MOST_MODELS = 4
_LONGEST_EXAMPLE = 1000
_TRAINED = "the model was trained on the examples of the page, because its run held no texts out"


@dataclass(frozen=True)
class Page:
    """A page that was written."""

    path: Path
    size: int
    """Size in bytes."""
    models: tuple[str, ...]
    """Names of the models on the page."""
    note: str = ""
    """Remark on the example texts; empty if there is none."""


def write_page(runs: Any, path: str | Path, *, examples: Sequence[str] = (), title: str = "", overwrite: bool = False) -> Page:
    """Write a page on which anyone can use a trained model, and inspect and change its attention.

    The page is one HTML file of about 5 MB plus 1.3 times the size of the models. It contains the models and a runtime, opens
    in a browser with a double click, and makes no network requests. With several models, the page compares them on the same
    text.

    Args:
        runs: A trained model's folder, a loaded `Translator`, `Classifier` or `LanguageModel`, or a list of up to four of
            them, all for the same task.
        path: File to write; its name must end in `.html` or `.htm`.
        examples: Example texts of at most 1,000 characters; the page opens with the first. If empty, the page has
            held-out texts of the first model's data, or training texts if none were held out; without the files of the
            data, built-in English texts whose words the models know.
        title: Title of the page; if empty, the title consists of the models' names.
        overwrite: Whether to replace a file that is already there.

    Returns:
        The path, the size, the names of the models, and a remark on the example texts.

    Raises:
        RequestError: If `path` has another ending or exists without `overwrite`, there are no models or too many, their tasks
            differ, an example is empty or too long, a model cannot be exported or shown, or the packages of the extra `onnx`
            are missing.
        BundleError: If a folder is not a trained model.
        DataError: If the file cannot be written.

    Example:
        regard.write_page("runs/deu", "playground.html")
        regard.write_page(["runs/bahdanau", "runs/luong"], "compare.html", examples=["The old man sang."])
    """
    path = Path(path)
    chosen = list(runs) if isinstance(runs, list | tuple) else [runs]
    _check(path, chosen, examples, overwrite=overwrite)
    names = _names(chosen)
    predictors = [load_predictor(run) for run in chosen]
    for name, predictor in zip(names, predictors, strict=True):
        if (task := predictor.config.task) != (first := predictors[0].config.task):
            raise RequestError(
                f"a page compares models of one task, but {names[0]} is for {first} and {name} for {task}; write two pages"
            )
    models = [read_contents(predictor, name) for predictor, name in zip(predictors, names, strict=True)]
    languages = [language for language in models[0][0]["languages"] if language]
    both = f": {' → '.join(languages)}" if len(chosen) == 1 and len(languages) == 2 else ""
    heading = title or " and ".join(names) + both
    chosen_examples = Examples(list(examples)) if examples else choose_examples(predictors)
    data = {
        "format_version": FORMAT_VERSION,
        "regard": __version__,
        "title": heading,
        "examples": list(chosen_examples.texts),
        "models": [settings for settings, _ in models],
    }
    blobs = {f"{number}-{name}": graph for number, (_, graphs) in enumerate(models) for name, graph in graphs.items()}
    document = build_document(data, blobs, title=heading)
    path.parent.mkdir(parents=True, exist_ok=True)
    disk.save(path, document)
    return Page(path, len(document.encode()), tuple(names), _TRAINED if chosen_examples.trained else "")


def _check(path: Path, runs: Sequence[Any], examples: Sequence[str], *, overwrite: bool) -> None:
    """Check the arguments before a model is loaded."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise RequestError(f"the page's file is {path}, expected a name that ends in .html, for example {path.stem}.html")
    if path.exists() and not overwrite:
        raise RequestError(f"{path} exists; replace it with overwrite (--overwrite), or name another file")
    if not 1 <= len(runs) <= MOST_MODELS:
        raise RequestError(f"got {len(runs)} models, expected 1 to {MOST_MODELS} for one page")
    for example in examples:
        if not isinstance(example, str) or not example.strip() or len(example) > _LONGEST_EXAMPLE:
            raise RequestError(
                f"the example {str(example)[:60]!r} cannot be shown; expected a text that is not blank and has at most "
                f"{_LONGEST_EXAMPLE:,} characters"
            )


def _names(runs: Sequence[Any]) -> list[str]:
    """Return a name for each model: the name of its folder, or `model N` for a loaded model; equal names get a number."""
    plain = [Path(run).resolve().name if isinstance(run, str | Path) else f"model {n}" for n, run in enumerate(runs, 1)]
    return [name if plain.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(plain, 1)]
