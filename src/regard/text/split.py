"""Split examples into training and dev examples, so that no dev text is in the training data.

Texts are given by their hashes, because hashes of five million pairs take megabytes, and their strings take gigabytes; labels
are given by their numbers. Examples that share a text form a *group*, which stays on one side. Labelled texts are stratified:
the stratum of a group is the rarest of its labels (after Sechidis, Tsoumakas & Vlahavas 2011, "On the stratification of
multi-label data": rare labels are distributed first, because frequent labels get nearly the right share by chance).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int64]

LARGEST_DEV_PART = 10
"""At most one in this number of examples is held out."""


def ranges(starts: Indices, counts: npt.NDArray[np.integer]) -> Indices:
    """Return the concatenated ranges `starts[i], …, starts[i] + counts[i] − 1`, which index rows of a flat array."""
    ends = np.cumsum(counts, dtype=np.int64)
    return np.repeat(starts - (ends - counts), counts) + np.arange(int(ends[-1]) if len(ends) else 0)


def take_rows(rows: tuple[npt.NDArray[np.int32], Indices], places: Indices) -> tuple[npt.NDArray[np.int32], Indices]:
    """Return some rows of concatenated rows with offsets: row i is `flat[offsets[i]:offsets[i + 1]]`."""
    flat, offsets = rows
    counts = np.diff(offsets)[places]
    return flat[ranges(offsets[places], counts)], np.r_[0, np.cumsum(counts)].astype(np.int64)


def hash_texts(texts: Sequence[str]) -> Hashes:
    """Return 64-bit hashes of texts, which can be compared within this process only."""
    # The hash is Python's SipHash, which is computed once per string. It has a secret key, so nobody can cause collisions on
    # purpose; of ten million texts, two collide with a probability below 1 in 300,000. Only equality of hashes is used, so
    # results do not depend on the key.
    return np.fromiter(map(hash, texts), np.int64, len(texts))


def hash_pairs(source: Hashes, target: Hashes) -> Hashes:
    """Return 64-bit hashes of pairs: the source's hash, mixed by the finalizer of MurmurHash3, plus the target's hash."""
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
    """Return the group of each pair: two pairs are in one group if a chain of shared sources and targets joins them."""
    # The algorithm is FastSV (Zhang, Azad & Hu 2020): each pair repeatedly takes the smallest label of all pairs with the same
    # source or target, until nothing changes. This takes a few passes over the arrays, even for long chains.
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
        # Each pair takes the label of its label's pair, so the length of a chain halves in every pass.
        label = label[label]
        if np.array_equal(label, before):
            return label


def _group(values: Hashes) -> tuple[Indices, Indices, Indices]:
    """Return a stable order that groups equal values, with the start and the length of each group."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(values) else np.zeros(0, np.int64)
    return order, starts, np.diff(np.r_[starts, len(values)])


def spread(size: int, most: int = 500) -> Indices:
    """Return at most `most` indices below `size`, evenly spaced."""
    count = min(most, size)
    return np.arange(count) * size // max(count, 1)


def mark(positions: Indices, size: int) -> npt.NDArray[np.bool_]:
    """Return a mask of length `size` that is True at the given positions."""
    mask = np.zeros(size, np.bool_)
    mask[positions] = True
    return mask


@dataclass(frozen=True)
class LabelRows:
    """The labels of N texts: `flat[offsets[i]:offsets[i + 1]]` are the numbers of the labels of text i."""

    flat: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, places: Indices) -> "LabelRows":
        return LabelRows(*take_rows((self.flat, self.offsets), places))

    def counts(self, num_labels: int) -> npt.NDArray[np.int64]:
        return np.bincount(self.flat, minlength=num_labels)

    def owners(self) -> Indices:
        """Return for each entry of `flat` the text that it belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))


@dataclass(frozen=True)
class Groups:
    """Groups of examples that share a text."""

    of: Indices
    """The group of each example; groups are numbered in the order of their first examples."""
    sizes: Indices
    first: Indices
    """Position of the first example of each group."""
    stratum: Indices
    """Number of the rarest label of each group; −1 if its examples have no labels."""


def find_groups(source: Hashes, target: Hashes, labels: LabelRows, num_labels: int) -> Groups:
    """Group examples that share a text, given by the hashes of their texts in the file's order."""
    # Groups depend on positions and on equality of hashes, never on the hashes, which differ between processes.
    first, of, sizes = np.unique(find_components(source, target), return_inverse=True, return_counts=True)
    order = np.argsort(labels.counts(num_labels), kind="stable")
    place = np.empty(num_labels, np.int64)
    place[order] = np.arange(num_labels)
    rarest = np.full(len(first), num_labels, np.int64)
    np.minimum.at(rarest, of[labels.owners()], place[labels.flat])
    return Groups(of, sizes, first, np.r_[order, -1][rarest])


def draw_dev(groups: Groups, labels: LabelRows, *, dev_size: int, seed: int, after: int = 0) -> npt.NDArray[np.bool_]:
    """Return a mask of the examples to hold out, (N,): at most a tenth of all, and none of the groups of the first `after`."""
    # `dev_size` is divided among the strata in proportion to their sizes. Each stratum contributes whole groups, drawn at
    # random; a group larger than what is left of its stratum's share is skipped. At least one text of each label stays in
    # training.
    wanted = min(dev_size, len(groups.of) // LARGEST_DEV_PART)
    order = _shuffled(groups, seed)
    order = order[groups.first[order] >= after]
    _, starts = np.unique(groups.stratum[order], return_index=True)
    members = np.split(order, starts[1:])
    shares = _shares(np.array([groups.sizes[group].sum() for group in members]), wanted)
    chosen = [
        number for group, share in zip(members, shares.tolist(), strict=True) for number in _fill(group, groups.sizes, share)
    ]
    dev = np.isin(groups.of, chosen)
    owners, seen = labels.owners(), np.zeros(labels.flat.max(initial=-1) + 1, np.bool_)
    seen[labels.flat[~dev[owners]]] = True
    kept_whole = np.unique(groups.of[owners[~seen[labels.flat]]])
    return dev & ~np.isin(groups.of, kept_whole)


def _fill(order: Indices, sizes: Indices, wanted: int) -> list[int]:
    """Return the groups that are taken in the given order, if a group is skipped that is larger than what is left."""
    # A large group consists of variants of a few sentences and is not representative, so it is taken only if necessary.
    large = sizes[order] > max(1, wanted // 10)
    chosen = []
    for group in [*order[~large].tolist(), *order[large].tolist()]:
        if wanted and sizes[group] <= wanted:
            chosen.append(group)
            wanted -= int(sizes[group])
    return chosen


def draw_fold(groups: Groups, *, folds: int, fold: int, seed: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the texts in fold number `fold`, from 1, (N,). Each text is in exactly one fold."""
    # The groups of each stratum are assigned to the folds in turn, large groups first, so that the numbers of groups in two
    # folds differ by at most one.
    order = _shuffled(groups, seed)
    order = order[np.lexsort((-groups.sizes[order], groups.stratum[order]))]
    dealt = np.empty(len(order), np.int64)
    dealt[order] = np.arange(len(order)) % folds
    return (dealt == fold - 1)[groups.of]


def take_first(strata: Indices, size: int) -> Indices:
    """Return the positions of the first `size` examples, in ascending order: of each stratum in proportion, at least one."""
    if size >= len(strata):
        return np.arange(len(strata))
    order = np.argsort(strata, kind="stable")
    _, starts, counts = np.unique(strata[order], return_index=True, return_counts=True)
    shares = np.maximum(_shares(counts, size), 1)
    taken = [order[start : start + share] for start, share in zip(starts.tolist(), shares.tolist(), strict=True)]
    return np.sort(np.concatenate(taken))


def _shuffled(groups: Groups, seed: int) -> Indices:
    """Return all groups in random order, stratum by stratum."""
    order = np.random.default_rng(seed).permutation(len(groups.sizes))
    return order[np.argsort(groups.stratum[order], kind="stable")]


def _shares(counts: npt.NDArray[np.int64], wanted: int) -> npt.NDArray[np.int64]:
    """Divide `wanted` in proportion to `counts` into whole numbers, by the largest-remainder method."""
    exact = wanted * counts / max(int(counts.sum()), 1)
    shares = np.floor(exact).astype(np.int64)
    up = np.argsort(shares - exact, kind="stable")[: wanted - int(shares.sum())]
    shares[up] += 1
    return shares
