"""Split pairs into training and dev pairs, so that no dev sentence is in the training data.

Pairs are given by the hashes of their two sides, because hashes of five million pairs take megabytes, and the strings
of these pairs take gigabytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int64]

LARGEST_DEV_PART = 10
"""At most one in this number of pairs is held out."""


@dataclass(frozen=True)
class Split:
    """Positions of pairs, in ascending order; every position is in exactly one of the three arrays."""

    train: Indices
    dev: Indices
    rest: Indices
    """Positions of the pairs beyond the first `max_pairs` that are not held out."""


def hash_texts(texts: Sequence[str]) -> Hashes:
    """Return 64-bit hashes of texts, which can be compared within this process only.

    The hash is Python's SipHash, which is computed once per string. It has a secret key, so nobody can cause collisions on
    purpose. With ten million different texts, the probability of any collision is below 1 in 300,000. Only equality of hashes
    is used, not their order or value, so results do not depend on the key.
    """
    return np.fromiter(map(hash, texts), np.int64, len(texts))


def hash_pairs(source: Hashes, target: Hashes) -> Hashes:
    """Return 64-bit hashes of pairs: the source's hash, mixed by the finalizer of MurmurHash3, plus the target's hash.

    Because only one side is mixed, a pair and the pair with exchanged sides have different hashes.
    """
    mixed = source.astype(np.uint64)
    for multiplier in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        mixed ^= mixed >> np.uint64(33)
        mixed *= np.uint64(multiplier)
    mixed ^= mixed >> np.uint64(33)
    return (mixed + target.astype(np.uint64)).astype(np.int64)


def first_occurrences(hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Return a mask that is True where a value occurs for the first time."""
    first = np.zeros(len(hashes), np.bool_)
    first[np.unique(hashes, return_index=True)[1]] = True
    return first


def find_components(source: Hashes, target: Hashes) -> Indices:
    """Return the group of each pair: two pairs are in one group if a chain of shared sources and targets joins them.

    The algorithm is FastSV (Zhang, Azad & Hu 2020): each pair repeatedly takes the smallest label of all pairs with
    the same source or target, until nothing changes. This takes a few passes over the arrays, even for long chains.

    Returns:
        For each pair, the position of its group's first pair.
    """
    label = np.arange(len(source))
    sides = [_group(source), _group(target)]
    while True:
        before = label.copy()
        for order, starts, sizes in sides:
            smallest = np.minimum.reduceat(label[order], starts) if len(starts) else label
            new = np.empty_like(label)
            new[order] = np.repeat(smallest, sizes)
            changed = np.flatnonzero(new < label)
            np.minimum.at(label, label[changed], new[changed])
            label = np.minimum(label, new)
        label = label[label]
        if np.array_equal(label, before):
            return label


def _group(values: Hashes) -> tuple[Indices, Indices, Indices]:
    """Return a stable order that groups equal values, with the start and the length of each group."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(values) else np.zeros(0, np.int64)
    return order, starts, np.diff(np.r_[starts, len(values)])


def split_pairs(source: Hashes, target: Hashes, *, dev_size: int, max_pairs: int, seed: int) -> Split:
    """Choose the pairs to train on and the pairs to validate on.

    If there are more pairs than `max_pairs`, the first `max_pairs` are for training. Of the others, pairs that share neither
    source nor target with training can be drawn for dev. Otherwise, dev pairs are drawn in whole groups of `find_components`.
    Groups larger than a tenth of the pairs to hold out are used only if necessary, because a large group consists of variants
    of a few sentences and is not representative.

    Args:
        source: Hashes of the sources, in the file's order.
        target: Hashes of the targets.
        dev_size: Number of pairs to hold out, but at most a tenth of all pairs, or of `max_pairs` if there are more pairs.
            Fewer are held out if too few pairs or groups are suitable.
        max_pairs: Maximum number of training pairs; 0 for no limit.
        seed: Seed. The draw is a pure function of the seed and the groups of equal hashes.
    """
    size = len(source)
    generator = np.random.default_rng(seed)
    if max_pairs and size > max_pairs:
        behind = np.arange(max_pairs, size)
        seen = np.isin(source[max_pairs:], source[:max_pairs]) | np.isin(target[max_pairs:], target[:max_pairs])
        dev = generator.permutation(behind[~seen])[: min(dev_size, max_pairs // LARGEST_DEV_PART)]
        dev.sort()
        return Split(np.arange(max_pairs), dev, np.setdiff1d(behind, dev, assume_unique=True))
    dev = _draw_groups(find_components(source, target), min(dev_size, size // LARGEST_DEV_PART), generator)
    return Split(np.setdiff1d(np.arange(size), dev, assume_unique=True), dev, np.zeros(0, np.int64))


def _draw_groups(label: Indices, wanted: int, generator: np.random.Generator) -> Indices:
    """Draw random whole groups until `wanted` positions are found or no further group fits, and return their positions."""
    if not wanted:
        return np.zeros(0, np.int64)
    groups, sizes = np.unique(label, return_counts=True)
    order = generator.permutation(len(groups))
    order = order[sizes[order] <= wanted]
    large = sizes[order] > max(1, wanted // 10)
    order = np.r_[order[~large], order[large]]
    chosen, left = [], wanted
    for group, members in zip(order.tolist(), sizes[order].tolist(), strict=True):
        if members <= left:
            chosen.append(group)
            left -= members
            if not left:
                break
    return np.flatnonzero(np.isin(label, groups[chosen]))


def mark(positions: Indices, size: int) -> npt.NDArray[np.bool_]:
    """Return a mask of length `size` that is True at the given positions."""
    mask = np.zeros(size, np.bool_)
    mask[positions] = True
    return mask
