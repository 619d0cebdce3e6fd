"""The base class of trained models that users call: `Translator`, `Classifier`, `LanguageModel`, and those of other tasks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from regard.errors import RequestError, nearest

if TYPE_CHECKING:
    import torch

    from regard.task import Bundle
    from regard.text.tokenizers.tokenizer import Tokenizer

_SHOWN_NAMES = 6


class Predictor:
    """A trained model.

    Args:
        bundle: The model with its parts. The model is put into evaluation mode and stays on its device.
    """

    usage: ClassVar[str] = ""
    """Example call for notebooks, such as `translator.translate([text]) translates a text`."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.model: Any = bundle.model.eval()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'; '.join(f'{name}: {value}' for name, value in self.rows())})"

    def _repr_html_(self) -> str:
        from regard.tasks.results import table

        return table(type(self).__name__, self.rows(), self.usage)

    def rows(self) -> list[tuple[str, str]]:
        """Return names and values that describe the model, for notebooks."""
        size = sum(parameter.numel() for parameter in self.model.parameters())
        return [
            ("model", f"{type(self.model).__name__}, {size:,} parameters, on {self.device}"),
            ("attention", ", ".join(self.model.sites)),
        ]

    @property
    def config(self) -> Any:
        """Settings of the run."""
        return self.bundle.config

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        from regard.machine import device_of

        return device_of(self.model)

    @property
    def main_sites(self) -> Sequence[str]:
        """Attention sites that are recorded by default."""
        return ()

    def check_sites(self, record: Collection[str] | None) -> list[str]:
        """Return the attention sites that the argument `record` of a method names; None for `main_sites`.

        Raises:
            RequestError: If `record` is not a collection of sites, or the model does not have one of them.
        """
        if record is None:
            return list(self.main_sites)
        if isinstance(record, str) or not isinstance(record, Collection) or not all(isinstance(site, str) for site in record):
            raise RequestError(
                f"record is {record!r:.60}, expected a list of attention sites, such as record=['cross']; () records none, and "
                "None the default ones"
            )
        for site in record:
            if site not in self.model.sites:
                known = ", ".join(self.model.sites) or "none"
                raise RequestError(
                    f"record names the attention {site!r}; this model has: {known}{nearest(site, self.model.sites)}"
                )
        return list(record)

    @property
    def input_tokenizer(self) -> Tokenizer | None:
        """Tokenizer of the texts that the model reads; None if it reads other data."""
        return None

    def unknown_words(self, texts: Sequence[str]) -> list[str]:
        """Return the words of texts that are not in the model's vocabulary, in the order in which they first occur.

        A word is also returned if only a part of it, such as one character, is not in the vocabulary.

        Args:
            texts: The texts.
        """
        from regard.tasks.requests import check_texts

        checked = check_texts("unknown_words", texts)
        return [] if self.input_tokenizer is None else self.input_tokenizer.unknown_words(checked)

    def disagreement(self, text: str) -> float:
        """Return how far attention and decision are apart: 0 if leaving out the most attended word costs most, at most 1.

        It is the difference between the losses of the prediction's probability without the word that costs most and without the
        word with the most attention; for a text of several predictions, the largest difference. 0 without attention to words.

        Args:
            text: The text.
        """
        return 0.0

    def facts(self) -> dict[str, Any]:
        """Return facts about the model that a service lists, such as its labels."""
        return {}

    def use_engine(self, name: str) -> None:
        """Compute with another engine from now on, such as `ctranslate2`.

        Raises:
            RequestError: If the model does not support it.
        """
        raise RequestError(f"engine is {name!r}, but a {type(self).__name__} has no other engine; leave engine out")

    def save(self, folder: str | Path) -> None:
        """Save the model to a folder, from which `regard.load` loads it.

        Raises:
            BundleError: If the model cannot be written.
        """
        from regard.bundle import save_bundle

        save_bundle(folder, self.bundle)


class LabellingPredictor(Predictor):
    """A trained model with one tokenizer that chooses among names: the labels of texts, or the tags of words."""

    noun: ClassVar[str]
    """Word for several names, such as `labels`."""

    @property
    def parts(self) -> Any:
        """The tokenizer, the names, and what else the bundle has besides the model."""
        return self.bundle.parts

    @property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer of the texts."""
        return self.parts.tokenizer

    @property
    def input_tokenizer(self) -> Tokenizer:
        return self.tokenizer

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """The names."""

    def rows(self) -> list[tuple[str, str]]:
        from regard.tasks.results import shortened

        shown = ", ".join(map(shortened, self.names[:_SHOWN_NAMES])) + ", …" * (len(self.names) > _SHOWN_NAMES)
        vocabulary = ("vocabulary", f"{self.tokenizer.size:,} symbols")
        return [(f"{len(self.names):,} {self.noun}", shown), *super().rows(), vocabulary]
