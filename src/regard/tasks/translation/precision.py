"""Number formats of the matrix products in a search for translations."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, get_args

import torch

from regard.config.training import SearchPrecision
from regard.errors import RequestError
from regard.inference import pack
from regard.models.seq2seq import Seq2Seq
from regard.text.tokenizers.tokenizer import Tokenizer

if TYPE_CHECKING:
    from regard.decoding.engine import CTranslate2Engine


class SearchModel:
    """A model that a search runs in one of several number formats.

    Args:
        model: The model, in evaluation mode. It is not changed.
    """

    def __init__(self, model: Seq2Seq) -> None:
        self._model = model
        self._lowered: Seq2Seq | None = None
        """A copy of the model in bfloat16; None until it is first needed."""
        self._engines: dict[str, CTranslate2Engine] = {}

    def engine(self, precision: SearchPrecision, tokenizers: Sequence[Tokenizer]) -> "CTranslate2Engine":
        """Return the model as converted to CTranslate2, which is done once for each number format.

        Raises:
            RequestError: If CTranslate2 does not support the model or the format, or is not installed.
        """
        from regard.decoding.engine import CTranslate2Engine

        if precision not in self._engines:
            source, target = (tokenizer.symbols.tokens for tokenizer in tokenizers)
            self._engines[precision] = CTranslate2Engine(self._model, source, target, precision)
        return self._engines[precision]

    @contextmanager
    def running(self, precision: SearchPrecision, device: torch.device, sentences: int) -> Iterator[Seq2Seq]:
        """Yield the model, packed for this number of sentences, whose products use this format while the context is open."""
        model, lowered = self._model, precision == "bfloat16"
        if lowered:
            model = self._lowered = deepcopy(model).to(torch.bfloat16) if self._lowered is None else self._lowered
        with torch.autocast(device.type, torch.bfloat16, enabled=lowered):
            with torch.inference_mode():
                packed = pack(model, sentences, int8=precision == "int8")
            yield packed


def check_precision(precision: str, device: torch.device) -> None:
    """Check that a number format exists, and that the device supports it.

    Raises:
        RequestError: If the name is unknown, or the format needs a CPU and the model is on another device.
    """
    *others, last = get_args(SearchPrecision)
    if precision not in (*others, last):
        raise RequestError(f"precision is {precision!r}, expected {', '.join(others)} or {last}")
    if precision == "int8" and device.type != "cpu":
        raise RequestError(
            f"precision int8 works on a CPU only, but the model is on {device}; choose bfloat16, or the device cpu "
            "(--device cpu)"
        )
