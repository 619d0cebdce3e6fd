"""The loss scale, which keeps small gradients within the range of float16 (Micikevicius et al. 2018, section 3.2)."""

import torch
from torch import Tensor

INITIAL, LARGEST = 2.0**16, 2.0**24
"""First factor, and largest factor."""
GROWS_AFTER = 2000
"""Number of updates without an overflow after which the factor is doubled."""


class LossScale:
    """Factor that multiplies the loss; gradients are divided by it before the update.

    If a gradient overflows, the update is skipped and the factor is halved, but not below 1. After `GROWS_AFTER` updates
    without an overflow, the factor is doubled, up to `LARGEST`. It is a power of two, so the division is exact. It stays on the
    device of the gradients, so no update waits for a GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.factor = torch.tensor(INITIAL, device=device)
        self._sound = torch.tensor(0, device=device)  # number of updates without an overflow since the last change

    def update(self, overflow: Tensor) -> Tensor:
        """Change the factor after an update; `overflow` says, as a tensor on the device, whether a gradient is not finite.

        The result, also a tensor, is True if a gradient is not finite although the factor is 1, so the factor is not the cause.
        """
        hopeless = overflow & (self.factor <= 1)
        self._sound = torch.where(overflow, 0, self._sound + 1)
        grows = self._sound >= GROWS_AFTER
        self._sound = torch.where(grows, 0, self._sound)
        change = torch.where(overflow, 0.5, torch.where(grows, 2.0, 1.0))
        self.factor = (self.factor * change).clamp(1, LARGEST)
        return hopeless

    def state_dict(self) -> dict[str, Tensor]:
        """Return the factor, and the number of updates without an overflow, for an exact resume."""
        return {"factor": self.factor, "sound": self._sound}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore the factor, and the number of updates without an overflow."""
        self.factor, self._sound = state["factor"].to(self.factor), state["sound"].to(self._sound)
