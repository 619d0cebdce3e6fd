"""The part of captured weights that is kept: modules, heads, the largest weights of each row, and the device."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from regard.errors import ConfigError, RequestError, nearest

_CHUNK = 1 << 24
"""Maximum number of weights that are computed at a time (but at least one row), to limit memory beyond the kept weights."""


@dataclass(frozen=True)
class TopWeights:
    """The k largest weights of each query (a row of the weights), with the keys that they belong to."""

    values: Tensor
    """Weights (…,Q,k), the largest first."""
    indices: Tensor
    """Indices (…,Q,k) of the keys that these weights belong to."""
    num_keys: int
    """Number of keys K."""

    def dense(self) -> Tensor:
        """Return the weights (…,Q,K) with zeros in place of those that were not kept."""
        whole = self.values.new_zeros(*self.values.shape[:-1], self.num_keys)
        return whole.scatter_(-1, self.indices.long(), self.values)


@dataclass(frozen=True)
class Selection:
    """The weights that a capture keeps.

    Args:
        names: Names of modules, or patterns such as `encoder.layer.0.*`; None for all modules.
        heads: Indices of heads, from 0; None for all heads.
        top_k: Number of weights that are kept for each query, the largest ones; None for all.
        device: Device to which the weights are moved; None to leave them where they are.

    Raises:
        ConfigError: If `names` is a string, `heads` contains anything but whole numbers of 0 or more, or `top_k` is not a
            whole number of 1 or more.
    """

    names: Collection[str] | None = None
    heads: Sequence[int] | None = None
    top_k: int | None = None
    device: torch.device | str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.names, str):
            raise ConfigError(f"capture: names is the string {self.names!r}, expected a list of names: [{self.names!r}]")
        if self.heads is not None and not all(isinstance(head, int) and head >= 0 for head in self.heads):
            raise ConfigError(f"capture: heads is {self.heads!r}, expected a list of whole numbers of 0 or more")
        if self.top_k is not None and (not isinstance(self.top_k, int) or self.top_k < 1):
            raise ConfigError(
                f"capture: top_k is {self.top_k!r}, expected a whole number of 1 or more, or None for all weights"
            )

    def check_names(self, names: Collection[str]) -> None:
        """Raise a RequestError if a name or pattern matches no module."""
        for pattern in self.names or ():
            if not any(fnmatchcase(name, pattern) for name in names):
                raise RequestError(f"capture: no module has the name {pattern!r}{nearest(pattern, list(names))}")

    def includes(self, name: str) -> bool:
        """Return whether weights of this module are kept."""
        return self.names is None or any(fnmatchcase(name, pattern) for pattern in self.names)

    def heads_of(self, count: int, name: str) -> list[int]:
        """Return the indices of the heads to keep, for the module `name` with `count` heads.

        Raises:
            RequestError: If the module has too few heads.
        """
        chosen = list(range(count)) if self.heads is None else list(self.heads)
        if chosen and max(chosen) >= count:
            raise RequestError(
                f"capture: heads contains {max(chosen)}, but {name!r} has {count} heads: choose from 0 to {count - 1}"
            )
        return chosen

    def keep(self, weights: Tensor, name: str) -> Tensor | TopWeights:
        """Return the part of the weights (B,H,Q,K), or (B,Q,K) without heads, that is kept."""
        if self.heads is not None and weights.ndim == 4:
            weights = weights[:, self.heads_of(weights.shape[1], name)]
        weights = weights.detach()
        return self.collect(weights.shape, lambda rows: weights[..., rows, :])

    def collect(self, shape: torch.Size, rows_of: Callable[[slice], Tensor]) -> Tensor | TopWeights:
        """Compute the weights of the selected heads some queries at a time, and return the part that is kept.

        Args:
            shape: Shape of the weights of the selected heads, (…,Q,K).
            rows_of: Function that computes the weights of a slice of the queries.
        """
        *rest, queries, keys = shape
        step = max(1, _CHUNK // max(1, torch.Size(rest).numel() * keys))
        ranges = [slice(start, min(start + step, queries)) for start in range(0, max(queries, 1), step)]
        if self.top_k is not None and self.top_k < keys:
            tops = [rows_of(rows).topk(self.top_k, -1) for rows in ranges]
            values = torch.cat([top.values.to(self.device) for top in tops], -2)
            return TopWeights(values, torch.cat([top.indices.int().to(self.device) for top in tops], -2), keys)
        first = rows_of(ranges[0])
        if len(ranges) == 1:
            return first.to(self.device)
        whole = first.new_empty(shape, device=self.device or first.device)
        whole[..., ranges[0], :] = first
        for rows in ranges[1:]:
            whole[..., rows, :] = rows_of(rows)
        return whole
