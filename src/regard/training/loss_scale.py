"""The loss scale, which keeps small gradients in the range of float16 (Micikevicius et al. 2018, section 3.2)."""

import torch
from torch import Tensor

INITIAL, LARGEST = 2.0**16, 2.0**24
GROWS_AFTER = 2000
"""Number of updates without an overflow after which the scale is doubled."""


class LossScale:
    """A factor of the loss, by which gradients are divided before the update.

    If a gradient overflows, the update is skipped and the factor is halved, but not below 1. The factor stays on the device, so
    that an update does not wait for a GPU. It is a power of two, so that the division is exact.

    Args:
        device: The device of the gradients.
    """

    def __init__(self, device: torch.device) -> None:
        self.factor = torch.tensor(INITIAL, device=device)
        self._sound = torch.tensor(0, device=device)  # updates without an overflow since the last change

    @torch.no_grad()
    def divide(self, gradients: list[Tensor]) -> None:
        """Divide the gradients of a scaled loss by the factor, in place."""
        torch._foreach_div_(gradients, self.factor)

    def update(self, overflow: Tensor) -> Tensor:
        """Change the factor after an update.

        Args:
            overflow: Whether a gradient is not finite, as a tensor.

        Returns:
            Whether the gradient would not have been finite without the factor either, as far as this is known.
        """
        hopeless = overflow & (self.factor <= 1)
        self._sound = torch.where(overflow, 0, self._sound + 1)
        grows = self._sound >= GROWS_AFTER
        self._sound = torch.where(grows, 0, self._sound)
        change = torch.where(overflow, 0.5, torch.where(grows, 2.0, 1.0))
        self.factor = (self.factor * change).clamp(1, LARGEST)
        return hopeless

    def state_dict(self) -> dict[str, Tensor]:
        """Return the factor and the count, for an exact resume."""
        return {"factor": self.factor, "sound": self._sound}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore the factor and the count.

        Raises:
            ValueError: If the factor is out of its range.
        """
        if not 1 <= float(state["factor"]) <= LARGEST:
            raise ValueError(f"loss_scale.factor is {float(state['factor'])}, expected 1 to {LARGEST:g}")
        self.factor, self._sound = state["factor"].to(self.factor), state["sound"].to(self._sound)
