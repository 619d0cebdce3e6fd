"""Models as functions that take the arguments and return the results of Hugging Face's pipelines."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import Any

from regard.errors import RequestError, nearest
from regard.task import find_task
from regard.tasks.loading import load


@dataclass(frozen=True)
class Pipeline:
    """A loaded model that can be called like a function."""

    model: Any
    run: Callable[[Any, list[str], dict[str, Any], int], list[Any]]
    """Function of the model, texts, options, and the number of texts processed before. It returns a result for each text."""

    def __call__(self, inputs: str | Iterable[str], *, batch_size: int | None = None, **options: Any) -> Any:
        """Return the result of one text, the results of a list, or a generator of results for any other iterable.

        Args:
            inputs: The text or texts.
            batch_size: Maximum number of texts in one call of the model. None for all texts of a list, and for
                one text at a time of any other iterable.
            options: Options of the prediction, such as `beam_size`; `pipeline` names them.

        Raises:
            RequestError: If an option is unknown, or an option or `batch_size` is out of range.
        """
        if batch_size is not None and batch_size < 1:
            raise RequestError(f"pipeline: batch_size is {batch_size}, expected 1 or more")
        if isinstance(inputs, str):
            [result] = self.run(self.model, [inputs], options, 0)
            return result if isinstance(result, list) else [result]  # Hugging Face's pipelines return a list
        if isinstance(inputs, Sequence):
            return list(self._batches(inputs, batch_size or max(1, len(inputs)), options))
        return self._batches(inputs, batch_size or 1, options)

    def _batches(self, inputs: Iterable[str], size: int, options: dict[str, Any]) -> Iterator[Any]:
        remaining, done = iter(inputs), 0
        while batch := list(islice(remaining, size)):
            yield from self.run(self.model, batch, options, done)
            done += len(batch)  # a text's random numbers depend on its position among all inputs


def _translate(model: Any, texts: list[str], options: dict[str, Any], done: int) -> list[Any]:
    renamed = {{"num_beams": "beam_size"}.get(name, name): value for name, value in options.items()}
    _check(renamed, _parameters(model.translate))
    sampling = renamed.get("sampling")
    if done and sampling is not None:
        renamed["sampling"] = replace(sampling, first=sampling.first + done)
    return [{"translation_text": one.text} for one in model.translate(texts, **{"record": (), **renamed})]


def _classify(model: Any, texts: list[str], options: dict[str, Any], done: int) -> list[Any]:
    _check(options, ["top_k"])
    top = options.get("top_k", 1)
    if top is not None and top < 1:
        raise RequestError(f"pipeline: top_k is {top}, expected 1 or more, or None for all labels")
    ranked = [
        [{"label": label, "score": score} for label, score in list(one.probabilities.items())[:top]]
        for one in model.classify(texts, record=())
    ]
    return list(ranked) if "top_k" in options else [labels[0] for labels in ranked]


def _generate(model: Any, texts: list[str], options: dict[str, Any], done: int) -> list[Any]:
    names = {"max_new_tokens": "max_length", "num_return_sequences": "samples"}
    renamed = {names.get(name, name): value for name, value in options.items()}
    full = renamed.pop("return_full_text", True)
    if not renamed.pop("do_sample", True):
        renamed["temperature"] = 0.0
    _check(renamed, _parameters(model.generate))
    renamed.setdefault("numbers", range(done, done + len(texts)))
    return [
        [{"generated_text": one.text if full else one.text.removeprefix(text.rstrip())} for one in samples]
        for text, samples in zip(texts, model.generate(texts, **renamed), strict=True)
    ]


def _parameters(method: Any) -> list[str]:
    return [name for name in signature(method).parameters if name not in ("texts", "prompts")]


def _check(options: Iterable[str], known: Sequence[str]) -> None:
    for name in options:
        if name not in known:
            raise RequestError(f"pipeline: there is no option '{name}'{nearest(name, [*known, 'batch_size'])}")


# The task of the model, and the function that runs it, by the name of Hugging Face's pipeline.
_KINDS = {
    "translation": ("translation", _translate),
    "text-classification": ("classification", _classify),
    "sentiment-analysis": ("classification", _classify),
    "text-generation": ("language", _generate),
}


def pipeline(task: str, model: Any, *, device: str = "auto") -> Pipeline:
    """Return a model as a function that takes the arguments and returns the results of Hugging Face's pipelines.

    A translation is `{"translation_text": …}`; its options are those of `Translator.translate`, and `num_beams`. A
    classification is `{"label": …, "score": …}`, or with `top_k=k` a list of the k most probable labels (None for all). A
    generation is a list of `{"generated_text": …}`; its options are those of `LanguageModel.generate`, and `max_new_tokens`,
    `num_return_sequences`, `do_sample` and `return_full_text`.

    Args:
        task: `translation` (or `translation_en_to_de`), `text-classification` (or `sentiment-analysis`), or `text-generation`.
        model: A trained model's folder, `hf://user/name`, or a loaded model.
        device: `auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:N`, or `mps` (untested); ignored for a loaded model.

    Raises:
        BundleError: If the folder is not a trained model, or the hub has no such model.
        RequestError: If the task is unknown, or the model was trained for another task.

    Example:
        translate = regard.pipeline("translation", "runs/deu")
        translate("The old man sang.")                                  # [{"translation_text": "…"}]
    """
    name = "translation" if task.startswith("translation_") and "_to_" in task else task
    if name not in _KINDS:
        raise RequestError(f"pipeline: there is no task '{task}'{nearest(task, _KINDS) or ', expected ' + ', '.join(_KINDS)}")
    own, run = _KINDS[name]
    predictor = load(model, device) if isinstance(model, str | Path) else model
    if predictor.config.task != own:
        kinds = [find_task(other).words.predictor for other in (predictor.config.task, own)]
        raise RequestError(f"pipeline: the model is {kinds[0]}, but the task '{task}' needs {kinds[1]}")
    return Pipeline(predictor, run)
