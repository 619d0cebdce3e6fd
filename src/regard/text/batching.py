"""Batches of sentence pairs by token budget, with little padding, in an order that can be resumed exactly.

Pairs are laid in a row by length, the longest first, and the row is cut where the budget is full. Where the cuts are depends on
the lengths alone, so that every epoch has the same number of batches; which of the pairs of a length comes where, and the order
of the batches, are drawn again in each epoch, as a pure function of (seed, epoch).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Bool, Int
from torch import Tensor
from torch.utils.data import Sampler

from regard.config import RunConfig
from regard.errors import ConfigError, ShapeError

_SHUFFLED = 2**16  # places that the pairs of the same two lengths are shuffled over


@dataclass(frozen=True)
class Batch:
    """Pairs as tensors. Masks are True at symbols and False at padding."""

    source: Int[Tensor, "B S"]
    """Ends with the end symbol."""
    source_mask: Bool[Tensor, "B S"]
    target_in: Int[Tensor, "B T"]
    """Input of the decoder: the start symbol, then the words."""
    target_out: Int[Tensor, "B T"]
    """Expected output: the words, then the end symbol."""
    target_mask: Bool[Tensor, "B T"]
    index: Int[Tensor, " B"]
    """Which pairs of the corpus these are."""

    def __len__(self) -> int:
        return len(self.index)

    def pin_memory(self) -> "Batch":
        """Copy to page-locked memory, for faster copies to a GPU; `DataLoader(pin_memory=True)` calls it."""
        return type(self)(**{name: tensor.pin_memory() for name, tensor in vars(self).items()})


class BucketBatchSampler(Sampler[np.ndarray]):
    """Batches of indices: max(longest source, longest target) × sentences ≤ `batch_tokens`.

    A pair that is longer than the budget makes a batch of its own. Every index comes exactly once an epoch. Processes that
    train together go through the same batches, and each takes its share of them (`processes.sharing`).

    Iterating starts at `position` and changes nothing: a loader's workers read ahead, so only the trainer knows which batches
    have been used. It sets `position` (or calls `resume_at`), and `set_epoch` before the next epoch.

    Args:
        source_lengths: Tokens of each source, (N,), as a batch holds them.
        target_lengths: Tokens of each target, (N,).
        batch_tokens: The budget of either side, padding included; 1 or more.
        batch_sentences: Maximum number of pairs in a batch; 0 for no limit.
        seed: With the epoch, it decides the order.
        shuffle: False: the longest first, always the same.

    Raises:
        ConfigError: If a setting is out of range, or there are no pairs.
        ShapeError: If the two sides have different numbers of lengths.
    """

    def __init__(
        self,
        source_lengths: Int[np.ndarray, " N"],
        target_lengths: Int[np.ndarray, " M"],
        *,
        batch_tokens: int,
        batch_sentences: int = 0,
        seed: int,
        shuffle: bool = True,
    ) -> None:
        source, target = np.asarray(source_lengths, np.int32), np.asarray(target_lengths, np.int32)
        if source.shape != target.shape or source.ndim != 1:
            raise ShapeError(
                f"BucketBatchSampler got source_lengths of shape {source.shape} and target_lengths of shape {target.shape}; "
                "expected one length of each for every pair, (N,) and (N,)"
            )
        _check_budget(batch_tokens, batch_sentences)
        if not len(source):
            raise ConfigError("there are no pairs to make batches of")
        self.seed, self.shuffle = seed, shuffle
        self.epoch = 0
        self._position = 0
        self._place, self._width = _places(source, target)
        self._starts = _cut(np.maximum(source, target), batch_tokens, batch_sentences)

    @classmethod
    def of_run(
        cls, config: RunConfig, lengths: Int[np.ndarray, " N"], target_lengths: Int[np.ndarray, " N"] | None = None
    ) -> Self:
        """Build the sampler that a run's configuration describes.

        Args:
            config: The run.
            lengths: Number of tokens of each text, or of each source.
            target_lengths: Number of tokens of each target; None for texts alone.
        """
        training = config.training
        return cls(
            lengths,
            lengths if target_lengths is None else target_lengths,
            batch_tokens=training.batch_tokens,
            batch_sentences=training.batch_sentences,
            seed=config.seed,
        )

    def __len__(self) -> int:
        """Return the number of batches in any epoch, those before `position` included."""
        return len(self._starts) - 1

    @property
    def position(self) -> int:
        """Return the number of batches of this epoch that were used."""
        return self._position

    @position.setter
    def position(self, value: int) -> None:
        if not 0 <= value <= len(self):
            raise ConfigError(
                f"a batch sampler was set to position {value} of an epoch of {len(self)} batches; "
                "did the run start with other data or another batch_tokens?"
            )
        self._position = value

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch; the position stays if it is the present one."""
        if epoch != self.epoch:
            self.resume_at(epoch, 0)

    def resume_at(self, epoch: int, position: int) -> None:
        """Go to where `position` batches of an epoch have been used."""
        if epoch < 0:
            raise ConfigError(f"a batch sampler was set to epoch {epoch}; expected 0 or more")
        self.position = position
        self.epoch = epoch

    def state_dict(self) -> dict[str, int]:
        """Return the epoch and the position."""
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go to where `state_dict` was taken: iterating gives exactly the batches that were left.

        Raises:
            ConfigError: If it is not such a state, or does not fit this corpus.
        """
        if set(state) != {"epoch", "position"} or not all(isinstance(value, int) for value in state.values()):
            raise ConfigError(f"a batch sampler cannot resume from {dict(state)}; expected whole numbers, epoch and position")
        self.resume_at(state["epoch"], state["position"])

    def __iter__(self) -> Iterator[np.ndarray]:
        row, batches = self._draw(self.epoch)
        for batch in batches[self.position :]:
            yield row[self._starts[batch] : self._starts[batch + 1]].astype(np.int64)

    def _draw(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the row of all indices and the order of all batches, in an epoch."""
        if not self.shuffle:
            return np.argsort(self._place, kind="stable").astype(np.int32), np.arange(len(self._starts) - 1)
        generator = np.random.Generator(np.random.PCG64([self.seed % 2**64, epoch]))
        place = self._place
        if generator.integers(2):  # runs the other way: other lengths meet at the cuts
            place = place - 2 * (place % self._width) + self._width - 1
        stray = generator.integers(0, _SHUFFLED, len(place), dtype=np.uint16)
        # A stable sort gives the same on every machine.
        row = np.argsort(place * _SHUFFLED + stray, kind="stable").astype(np.int32)
        return row, generator.permutation(len(self._starts) - 1)


def length_batches(lengths: Int[np.ndarray, " N"], batch_tokens: int, *, batch_sentences: int = 0) -> list[np.ndarray]:
    """Return the batches of indices by length, the longest first, for decoding.

    Args:
        lengths: Tokens of each sentence, (N,).
        batch_tokens: Longest × sentences of a batch, at most; a longer sentence makes its own batch.
        batch_sentences: Maximum number of sentences; 0 for no limit.

    Returns:
        Arrays of indices that cover 0 … N−1 once: results go back to the order given by `results[batch] = …`.

    Raises:
        ConfigError: If a bound is out of range.
    """
    _check_budget(batch_tokens, batch_sentences)
    lengths = np.asarray(lengths, np.int64)
    starts = _cut(lengths, batch_tokens, batch_sentences)
    return np.split(np.argsort(-lengths, kind="stable"), starts[1:-1]) if len(lengths) else []


def _check_budget(batch_tokens: int, batch_sentences: int) -> None:
    if batch_tokens < 1:
        raise ConfigError(f"batch_tokens is {batch_tokens}; expected 1 or more, such as 4096")
    if batch_sentences < 0:
        raise ConfigError(f"batch_sentences is {batch_sentences}; expected 0 (no bound) or more")


def _places(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, int]:
    """Return where each pair stands in the row: by the longer side, then by how much longer the source is than the target.

    The second runs up and down in turns, so that pairs on both sides of a step of the first are alike.

    Returns:
        The places, (N,), and how many there are for each length of the longer side.
    """
    longer = np.maximum(source, target).astype(np.int64)
    longest = int(longer.max())
    difference = source.astype(np.int64) - target
    difference[longer % 2 == 1] *= -1
    width = 2 * longest + 1
    return (longest - longer) * width + difference + longest, width


def _cut(lengths: np.ndarray, batch_tokens: int, batch_sentences: int) -> np.ndarray:
    """Return the indices at which batches start in the lengths, sorted from longest to shortest, and the end of the last
    batch.
    """
    ordered = np.sort(lengths)[::-1]
    total = len(ordered)
    starts = [0]
    while starts[-1] < total:
        size = max(1, batch_tokens // max(int(ordered[starts[-1]]), 1))
        starts.append(min(starts[-1] + (min(size, batch_sentences) if batch_sentences else size), total))
    return np.asarray(starts, np.int64)
