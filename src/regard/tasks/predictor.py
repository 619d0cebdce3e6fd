"""The base class of trained models that users call: `Translator`, `Classifier`, `LanguageModel`, and those of other tasks."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from regard.errors import RequestError, nearest
from regard.task.bundle import BundleT

if TYPE_CHECKING:
    import torch


class Predictor(Generic[BundleT]):
    """A trained model.

    Args:
        bundle: The model with its parts. The model is put into evaluation mode and stays on its device.
    """

    def __init__(self, bundle: BundleT) -> None:
        self.bundle = bundle
        self.model: Any = bundle.model.eval()

    @property
    def config(self) -> Any:
        """Settings of the run."""
        return self.bundle.config

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        import torch

        return next((parameter.device for parameter in self.model.parameters()), torch.device("cpu"))

    def check_sites(self, record: Collection[str]) -> list[str]:
        """Check that `record` is a collection of attention sites of the model, and return them in a list.

        Raises:
            RequestError: If it is not, or the model does not have one of the sites.
        """
        from regard.tasks.requests import check_record

        sites = check_record(record)
        for site in sites:
            if site not in self.model.sites:
                known = ", ".join(self.model.sites) or "none"
                raise RequestError(
                    f"record names the attention {site!r}; this model has: {known}{nearest(site, self.model.sites)}"
                )
        return sites

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
