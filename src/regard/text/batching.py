"""Batches of sentence pairs with a limited number of tokens and little padding, in an order that can be resumed exactly.

Pairs are sorted by the length of their longer side, the longest first, and this sequence is split into batches, each as large
as the token budget allows. The splits depend on the lengths only, so every epoch has the same number of batches. The order of
the batches, and the order of pairs whose longer sides have equal length, change from epoch to epoch; for given pairs, these
orders depend on the seed and the epoch only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Int, Integer
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Sampler

from regard.config import RunConfig
from regard.errors import ConfigError
from regard.text.symbols import PAD

_SHUFFLED = 2**16  # number of different random numbers that put pairs with the same two lengths into random order


class Tensors:
    """A base of dataclasses with the tensors of some examples of a corpus."""

    index: Int[Tensor, " B"]
    """Index of each example in the corpus."""

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True)
class Batch(Tensors):
    """Pairs as tensors. Masks are True at symbols and False at padding."""

    source: Integer[Tensor, "B S *P"]
    """Source tokens, then the end symbol, then padding; of an image its cells, each with P values."""
    source_mask: Bool[Tensor, "B S"]
    target_in: Int[Tensor, "B T"]
    """Input of the decoder: the start symbol, then the target tokens."""
    target_out: Int[Tensor, "B T"]
    """Expected output of the decoder: the target tokens, then the end symbol."""
    target_mask: Bool[Tensor, "B T"]
    index: Int[Tensor, " B"]

    def padded(self) -> "Batch":
        """Return the batch padded to sizes of a coarse grid, so that few shapes occur; the loss stays the same."""
        # Lengths become 1, 2 or multiples of 4, and numbers of rows 1, 2, 4, 8 or multiples of 16; beyond 32 and 128, multiples
        # of an eighth of the next power of two. Added rows repeat the first, so that no source is empty; their targets are
        # padding.
        more = _on_grid(len(self), 16) - len(self)
        fields = {}
        for name, tensor in vars(self).items():
            rest = tensor[:1].expand(more, *tensor.shape[1:])
            if name in ("target_out", "target_mask"):
                rest = torch.zeros_like(rest)
            fields[name] = torch.cat((tensor, rest))
            if tensor.ndim > 1:
                columns = *(0, 0) * (tensor.ndim - 2), 0, _on_grid(tensor.shape[1], 4) - tensor.shape[1]
                fields[name] = functional.pad(fields[name], columns, value=PAD)
        return type(self)(**fields)


def _on_grid(size: int, step: int) -> int:
    """Return the smallest size on the grid of `Batch.padded` that is not below `size`."""
    power = 1 << max(size - 1, 0).bit_length()  # the smallest power of two that is not below `size`
    step = min(power, max(step, power // 8))
    return -(-size // step) * step


class BucketBatchSampler(Sampler[np.ndarray]):
    """Batches of indices, in which max(longest source, longest target) × number of pairs is at most `batch_tokens`.

    A pair longer than this budget forms its own batch. Processes that train together iterate over the same batches, and each
    takes some of them, or some pairs of each (`training.updater.share_batches`). Iteration starts at the place that `resume_at`
    sets, and does not change it: a loader may read batches ahead, so only the training loop knows which have been used.
    """

    def __init__(
        self,
        source_lengths: Int[np.ndarray, " N"],
        target_lengths: Int[np.ndarray, " M"],
        *,
        batch_tokens: int,
        batch_sentences: int = 0,
        seed: int,
    ) -> None:
        source, target = np.asarray(source_lengths, np.int32), np.asarray(target_lengths, np.int32)
        if not len(source):
            raise ConfigError("there are no examples to make batches of")
        self.seed, self._epoch, self._position = seed, 0, 0
        self._place, self._width = _places(source, target)
        self._starts = _cut(np.maximum(source, target), batch_tokens, batch_sentences)

    @classmethod
    def of_run(
        cls, config: RunConfig, lengths: Int[np.ndarray, " N"], target_lengths: Int[np.ndarray, " N"] | None = None
    ) -> Self:
        """Build the sampler that a run's configuration describes; `target_lengths` is None for texts without targets."""
        training = config.training
        return cls(
            lengths,
            lengths if target_lengths is None else target_lengths,
            batch_tokens=training.batch_tokens,
            batch_sentences=training.batch_sentences,
            seed=config.seed,
        )

    def __len__(self) -> int:
        """Return the number of batches per epoch, including those before the current place."""
        return len(self._starts) - 1

    def resume_at(self, epoch: int, position: int) -> None:
        """Go to the place after the first `position` batches of an epoch."""
        if not 0 <= position <= len(self):
            raise ConfigError(
                f"a batch sampler was set to position {position} of an epoch of {len(self)} batches; "
                "did the run start with other data or another batch_tokens?"
            )
        self._epoch, self._position = epoch, position

    def __iter__(self) -> Iterator[np.ndarray]:
        generator = np.random.Generator(np.random.PCG64([self.seed % 2**64, self._epoch]))
        place = self._place
        # In half of the epochs on average, the order of pairs whose longer sides have equal length is reversed, so that the
        # batches contain other pairs.
        if generator.integers(2):
            place = place - 2 * (place % self._width) + self._width - 1
        stray = generator.integers(0, _SHUFFLED, len(place), dtype=np.uint16)
        # A stable sort gives the same order on every machine.
        rows = np.argsort(place * _SHUFFLED + stray, kind="stable").astype(np.int32)
        for batch in generator.permutation(len(self))[self._position :]:
            yield rows[self._starts[batch] : self._starts[batch + 1]].astype(np.int64)


def length_batches(lengths: Int[np.ndarray, " N"], batch_tokens: int) -> list[np.ndarray]:
    """Group sentences of similar length into batches for decoding, the longest first; return the indices of each batch.

    To put results into the original order, assign `results[batch] = …` for each batch.
    """
    lengths = np.asarray(lengths, np.int64)
    starts = _cut(lengths, batch_tokens, 0)
    return np.split(np.argsort(-lengths, kind="stable"), starts[1:-1]) if len(lengths) else []


def _places(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, int]:
    """Return a sort key for each pair, and the number of possible keys for each length of the longer side."""
    # The longest pairs come first. Among equal lengths, the difference of the sides rises if the length is even, and falls if
    # it is odd, so that the last pairs of one length are similar to the first of the next.
    longer = np.maximum(source, target).astype(np.int64)
    longest = int(longer.max())
    difference = source.astype(np.int64) - target
    difference[longer % 2 == 1] *= -1
    width = 2 * longest + 1
    return (longest - longer) * width + difference + longest, width


def _cut(lengths: np.ndarray, batch_tokens: int, batch_sentences: int) -> np.ndarray:
    """Sort lengths from longest to shortest, and return the index at which each batch starts, and the end of the last batch."""
    ordered = np.sort(lengths)[::-1]
    total = len(ordered)
    starts = [0]
    while starts[-1] < total:
        size = max(1, batch_tokens // max(int(ordered[starts[-1]]), 1))
        starts.append(min(starts[-1] + (min(size, batch_sentences) if batch_sentences else size), total))
    return np.asarray(starts, np.int64)
