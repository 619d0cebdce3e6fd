"""Find the sentences of a search that have finished, without waiting for a GPU.

On a CPU, reading a value of a tensor costs nothing, so finished sentences leave the batch at once. On a GPU, reading a value
waits until all earlier operations have run. There the mask of finished sentences is copied in the background while the search
continues, and these sentences leave the batch some steps later. A finished sentence that is still in the batch has no live
hypothesis, so the results are the same.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Int
from torch import Tensor

_MOST_AHEAD = 8
"""Number of steps after which the search waits for a copy. Otherwise, it could start many useless steps after its end."""


def is_free_to_read(tensor: Tensor) -> bool:
    """Return whether a search reads values of the tensor at each step.

    It does not on a GPU, where it would wait, and on PyTorch's device `meta`, where there are no values.
    """
    return tensor.device.type not in ("cuda", "meta")


def may_hold(mask: Tensor) -> bool:
    """Return whether an element may be True: the exact answer on a CPU, and always True where reading would wait."""
    return not is_free_to_read(mask) or bool(mask.any())


class BackgroundCopy:
    """A copy of a mask to the CPU, made in the background.

    Args:
        mask: The mask on a GPU.
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
    """Record of the sentences of a search that are known to have finished."""

    _copy: BackgroundCopy | None = None
    _steps: int = field(default=0)
    """Number of steps since the copy began."""

    def others(self, done: Bool[Tensor, " B"]) -> Int[Tensor, " M"] | None:
        """Return the indices of the sentences that continue, or None if no sentence is known to have finished.

        The caller must remove all other sentences.

        Args:
            done: True for finished sentences, on their device. A finished sentence stays finished.
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
