"""Find the sentences of a search that have finished, without waiting for a GPU.

On a CPU, reading a value of a tensor costs almost nothing, so finished sentences leave the batch at once. On a GPU, reading a
value waits until all earlier operations have run. Therefore, the mask of finished sentences is copied to the CPU in the
background while the search continues, and these sentences leave the batch some steps later. A finished sentence that is still
in the batch has no live hypothesis, so the results are the same.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

_MOST_AHEAD = 8
"""Number of steps after which the search waits until a copy has arrived.

Without this limit, a CPU that is faster than the GPU would start many useless steps after all sentences have finished.
"""


def is_free_to_read(tensor: Tensor) -> bool:
    """Return whether a search can read values of the tensor at each step without waiting.

    It cannot on a GPU, where reading waits until earlier operations have run, or on PyTorch's device `meta`, which has no
    values.
    """
    return tensor.device.type not in ("cuda", "meta")


def may_hold(mask: Tensor) -> bool:
    """Return whether an element of the mask may be True: exact on a CPU; always True on a GPU, where reading would wait."""
    return not is_free_to_read(mask) or bool(mask.any())


class BackgroundCopy:
    """A copy of a mask to the CPU, made in the background.

    Args:
        mask: The mask, which is on a GPU.
    """

    def __init__(self, mask: Tensor) -> None:
        values = torch.empty(mask.shape, dtype=mask.dtype, device="cpu", pin_memory=True)
        self.values = values.copy_(mask, non_blocking=True)
        self._event = torch.cuda.Event()
        self._event.record(torch.cuda.current_stream(mask.device))

    def has_arrived(self) -> bool:
        """Return whether `values` are complete."""
        return self._event.query()

    def wait(self) -> None:
        """Wait until `values` are complete."""
        self._event.synchronize()


@dataclass
class Finished:
    """The finished sentences of one search, as far as the CPU already knows them."""

    _copy: BackgroundCopy | None = None
    """The copy that has not arrived yet, if there is one."""
    _steps: int = 0
    """Number of steps since the copy began."""

    def others(self, done: Bool[Tensor, " B"]) -> Int[Tensor, " M"] | None:
        """Return the indices of the sentences to keep in the batch, or None to keep all of them.

        The caller must remove the sentences whose indices are not returned. On a GPU, sentences that have just finished may be
        among those to keep.

        Args:
            done: True for the finished sentences of the batch, on the device of the search. A finished sentence stays finished.
        """
        if is_free_to_read(done):
            return (~done).nonzero()[:, 0] if bool(done.any()) else None
        if self._copy is None:
            self._copy, self._steps = BackgroundCopy(done), 0
            return None
        self._steps += 1
        if self._steps >= _MOST_AHEAD:
            self._copy.wait()
        elif not self._copy.has_arrived():
            return None
        known, self._copy = self._copy.values, None
        return (~known).nonzero()[:, 0].to(done.device, non_blocking=True) if bool(known.any()) else None
