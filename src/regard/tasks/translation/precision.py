"""Number formats of the matrix products in a search for translations."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING

import torch

from regard.config.training import SearchPrecision
from regard.inference import pack
from regard.models.seq2seq import Seq2Seq
from regard.tasks.translation.data import Tokenizers

if TYPE_CHECKING:
    from regard.decoding.engine import CTranslate2Engine


class SearchModel:
    """A model that a search runs in one of several number formats.

    Its copies in other formats are made again after its weights have changed.

    Args:
        model: The model, in evaluation mode. It is not changed.
    """

    def __init__(self, model: Seq2Seq) -> None:
        self._model = model
        self._lowered: Seq2Seq | None = None
        """A copy of the model in bfloat16; None until it is first needed."""
        self._engines: dict[str, CTranslate2Engine] = {}
        self._versions: list[tuple[int, int]] = []

    def _forget_old_copies(self) -> None:
        """Delete the copies if weights were changed or replaced since they were made."""
        versions = [(id(each), 0 if each.is_inference() else each._version) for each in self._model.parameters()]
        if versions != self._versions:
            self._lowered, self._versions = None, versions
            self._engines.clear()

    def engine(self, precision: SearchPrecision, tokenizers: Tokenizers) -> "CTranslate2Engine":
        """Return the model as converted to CTranslate2, which is done once for each number format and state of the weights."""
        from regard.decoding.engine import CTranslate2Engine

        self._forget_old_copies()
        if precision not in self._engines:
            source, target = tokenizers.source.symbols.tokens, tokenizers.target.symbols.tokens
            self._engines[precision] = CTranslate2Engine(self._model, source, target, precision)
        return self._engines[precision]

    @contextmanager
    def running(self, precision: SearchPrecision, device: torch.device, sentences: int) -> Iterator[Seq2Seq]:
        """Yield the model, packed for this number of sentences, whose products use this format while the context is open."""
        model, lowered = self._model, precision == "bfloat16"
        if lowered:
            self._forget_old_copies()
            model = self._lowered = deepcopy(model).to(torch.bfloat16) if self._lowered is None else self._lowered
        with torch.autocast(device.type, torch.bfloat16, enabled=lowered):
            with torch.inference_mode():  # packing copies weights, which need no gradients
                packed = pack(model, sentences, int8=precision == "int8")
            yield packed
