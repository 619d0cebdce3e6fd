"""Models as functions that take the arguments and return the results of Hugging Face's pipelines."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from regard.errors import RequestError, nearest
from regard.hub import load
from regard.task import find_task


class Pipeline(ABC):
    """A loaded model that can be called like a function; base class of the pipelines.

    Args:
        model: The loaded model.
    """

    task: ClassVar[str]

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, inputs: str | Iterable[str], *, batch_size: int | None = None, **options: Any) -> Any:
        """Return the result of one text, the results of a list, or a generator of results for any other iterable.

        Args:
            inputs: The text or texts.
            batch_size: Maximum number of texts in one call of the model. None for all texts of a list, and for
                one text at a time of any other iterable.
            options: Options of the prediction, such as `beam_size`; the class of the pipeline names them.

        Raises:
            RequestError: If an option is unknown, or an option or `batch_size` is out of range.
        """
        if batch_size is not None and batch_size < 1:
            raise RequestError(f"pipeline: batch_size is {batch_size}, expected 1 or more")
        if isinstance(inputs, str):
            [result] = self._run([inputs], options)
            return self._single(result, options)
        if isinstance(inputs, Sequence):
            return list(self._batches(inputs, batch_size or max(1, len(inputs)), options))
        return self._batches(inputs, batch_size or 1, options)

    def _batches(self, inputs: Iterable[str], size: int, options: dict[str, Any]) -> Iterator[Any]:
        remaining = iter(inputs)
        while batch := list(islice(remaining, size)):
            yield from self._run(batch, options)

    @abstractmethod
    def _run(self, texts: list[str], options: dict[str, Any]) -> list[Any]:
        """Return a result for each text."""

    def _single(self, result: Any, options: dict[str, Any]) -> Any:
        """Return the result of a single text as a list, because Hugging Face's pipelines return a list."""
        return result if isinstance(result, list) else [result]


class TranslationPipeline(Pipeline):
    """Pipeline that returns `{"translation_text": …}` for each text.

    The options are those of `Translator.translate`, and `num_beams`, Hugging Face's name for `beam_size`.
    """

    task: ClassVar = "translation"

    def _run(self, texts: list[str], options: dict[str, Any]) -> list[Any]:
        renamed = {{"num_beams": "beam_size"}.get(name, name): value for name, value in options.items()}
        _check(renamed, self.model.translate)
        return [{"translation_text": one.text} for one in self.model.translate(texts, **{"record": (), **renamed})]


class TextClassificationPipeline(Pipeline):
    """Pipeline that returns `{"label": …, "score": …}` for each text.

    With `top_k=k`, it returns a list for each text instead: the k most probable labels, or all labels if k is None.
    """

    task: ClassVar = "classification"

    def _run(self, texts: list[str], options: dict[str, Any]) -> list[Any]:
        for name in options.keys() - {"top_k"}:
            raise RequestError(f"pipeline: there is no option '{name}'{nearest(name, ['top_k', 'batch_size'])}")
        top = options.get("top_k", 1)
        if top is not None and top < 1:
            raise RequestError(f"pipeline: top_k is {top}, expected 1 or more, or None for all labels")
        ranked = [
            [{"label": label, "score": score} for label, score in list(one.probabilities.items())[:top]]
            for one in self.model.classify(texts, record=())
        ]
        return list(ranked) if "top_k" in options else [labels[0] for labels in ranked]


class TextGenerationPipeline(Pipeline):
    """Pipeline that returns a list of `{"generated_text": …}` for each prompt.

    The options are those of `LanguageModel.generate`, and Hugging Face's `max_new_tokens`, `num_return_sequences`, `do_sample`
    and `return_full_text`.
    """

    task: ClassVar = "language"

    def _run(self, texts: list[str], options: dict[str, Any]) -> list[Any]:
        names = {"max_new_tokens": "max_length", "num_return_sequences": "samples"}
        renamed = {names.get(name, name): value for name, value in options.items()}
        full = renamed.pop("return_full_text", True)
        if not renamed.pop("do_sample", True):
            renamed["temperature"] = 0.0
        _check(renamed, self.model.generate)
        return [
            [{"generated_text": one.text if full else one.text.removeprefix(text.rstrip())} for one in samples]
            for text, samples in zip(texts, self.model.generate(texts, **renamed), strict=True)
        ]


_KINDS: dict[str, type[Pipeline]] = {
    "translation": TranslationPipeline,
    "text-classification": TextClassificationPipeline,
    "sentiment-analysis": TextClassificationPipeline,
    "text-generation": TextGenerationPipeline,
}


def pipeline(task: str, model: Any, *, device: str = "auto") -> Pipeline:
    """Return a model as a function that takes the arguments and returns the results of Hugging Face's pipelines.

    Args:
        task: `translation` (or `translation_en_to_de`), `text-classification` (or `sentiment-analysis`), or `text-generation`.
        model: A trained model's folder, `hf://user/name`, or a loaded model.
        device: `auto` (a GPU if there is one), `cpu`, `cuda`, or `cuda:N`; ignored for a loaded model.

    Raises:
        BundleError: If the folder is not a trained model, or the hub has no such model.
        RequestError: If the task is unknown, or the model was trained for another task.

    Example:
        translate = regard.pipeline("translation", "runs/deu")
        translate("she kissed him .")                                   # [{"translation_text": "…"}]
    """
    name = "translation" if task.startswith("translation_") and "_to_" in task else task
    if name not in _KINDS:
        raise RequestError(f"pipeline: there is no task '{task}'{nearest(task, _KINDS) or ', expected ' + ', '.join(_KINDS)}")
    predictor = load(model, device) if isinstance(model, str | Path) else model
    if predictor.config.task != _KINDS[name].task:
        kinds = [find_task(own).words.predictor for own in (predictor.config.task, _KINDS[name].task)]
        raise RequestError(f"pipeline: the model is {kinds[0]}, but the task '{task}' needs {kinds[1]}")
    return _KINDS[name](predictor)


def _check(options: dict[str, Any], function: Any) -> None:
    """Check that the function has a parameter for each option.

    Raises:
        RequestError: If an option is unknown.
    """
    known = [name for name in signature(function).parameters if name not in ("texts", "prompts")]
    for name in options:
        if name not in known:
            raise RequestError(f"pipeline: there is no option '{name}'{nearest(name, known)}")
