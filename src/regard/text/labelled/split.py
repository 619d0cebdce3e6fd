"""Split labelled texts into training and dev texts, stratified by label, with equal texts on the same side.

Texts are given by their hashes, and labels by their numbers. Equal texts form a *group*, which stays on one side. The
stratum of a group is the rarest of its labels (after Sechidis, Tsoumakas & Vlahavas 2011, "On the stratification of multi-label
data": rare labels are distributed first, because frequent labels get nearly the right share by chance).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.text.split import LARGEST_DEV_PART, Hashes, Indices


@dataclass(frozen=True)
class LabelRows:
    """The labels of N texts: `flat[offsets[i]:offsets[i + 1]]` are the numbers of the labels of text i."""

    flat: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, places: Indices) -> "LabelRows":
        """Return the labels of some texts."""
        counts = np.diff(self.offsets)[places]
        ends = np.cumsum(counts)
        flat = np.repeat(self.offsets[places] - (ends - counts), counts) + np.arange(int(counts.sum()))
        return LabelRows(self.flat[flat], np.r_[0, ends].astype(np.int64))

    def counts(self, num_labels: int) -> npt.NDArray[np.int64]:
        """Return the number of texts with each label."""
        return np.bincount(self.flat, minlength=num_labels)

    def owners(self) -> Indices:
        """Return for each entry of `flat` the text that it belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))


@dataclass(frozen=True)
class Groups:
    """Groups of equal texts."""

    of: Indices
    """The group of each text; groups are numbered in the order of their first texts."""
    sizes: Indices
    stratum: Indices
    """Number of the rarest label of each group; −1 if its texts have no labels."""


def find_groups(texts: Hashes, labels: LabelRows, num_labels: int) -> Groups:
    """Group equal texts.

    Args:
        texts: Hashes of the texts, in the file's order.
        labels: The labels of these texts.
        num_labels: Number of labels.
    """
    _, first, inverse = np.unique(texts, return_index=True, return_inverse=True)
    # Groups are numbered in the order of their first texts, because the order of hashes differs between processes.
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    of = rank[inverse.reshape(-1)]
    order = np.argsort(labels.counts(num_labels), kind="stable")
    place = np.empty(num_labels, np.int64)
    place[order] = np.arange(num_labels)
    rarest = np.full(len(first), num_labels, np.int64)
    np.minimum.at(rarest, of[labels.owners()], place[labels.flat])
    return Groups(of, np.bincount(of, minlength=len(first)), np.r_[order, -1][rarest])


def draw_dev(groups: Groups, labels: LabelRows, *, dev_size: int, seed: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the texts to hold out, (N,).

    `dev_size` is divided among the strata in proportion to their sizes. Each stratum contributes whole groups, drawn at random;
    a group larger than what is left of its stratum's share is skipped. At least one text of each label stays in training.

    Args:
        groups: Result of `find_groups`.
        labels: The texts' labels.
        dev_size: Number of texts to hold out, but at most a tenth of all texts.
        seed: Seed. The draw is a pure function of the seed and the groups.
    """
    wanted = min(dev_size, len(groups.of) // LARGEST_DEV_PART)
    chosen = np.zeros(len(groups.sizes), np.bool_)
    order = _shuffled(groups, seed)
    _, starts = np.unique(groups.stratum[order], return_index=True)
    members = np.split(order, starts[1:])
    shares = _shares(np.array([groups.sizes[group].sum() for group in members]), wanted)
    for group, left in zip(members, shares.tolist(), strict=True):
        for number, size in zip(group.tolist(), groups.sizes[group].tolist(), strict=True):
            if not left:
                break
            if size <= left:
                chosen[number] = True
                left -= size
    dev: npt.NDArray[np.bool_] = chosen[groups.of]
    owners, seen = labels.owners(), np.zeros(labels.flat.max(initial=-1) + 1, np.bool_)
    seen[labels.flat[~dev[owners]]] = True
    kept_whole = np.unique(groups.of[owners[~seen[labels.flat]]])
    return dev & ~np.isin(groups.of, kept_whole)


def draw_fold(groups: Groups, *, folds: int, fold: int, seed: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the texts in one of the folds, (N,). Each text is in exactly one fold.

    The groups of each stratum are assigned to the folds in turn, large groups first, so that the numbers of groups in
    two folds differ by at most one.

    Args:
        groups: Result of `find_groups`.
        folds: Number of folds, 2 or more.
        fold: Number of the fold, from 1.
        seed: Seed. The draw is a pure function of the seed and the groups.
    """
    order = _shuffled(groups, seed)
    order = order[np.lexsort((-groups.sizes[order], groups.stratum[order]))]
    dealt = np.empty(len(order), np.int64)
    dealt[order] = np.arange(len(order)) % folds
    return (dealt == fold - 1)[groups.of]


def take_first(labels: LabelRows, strata: Indices, size: int) -> Indices:
    """Return the positions of the first texts of each stratum, in ascending order.

    Each stratum contributes texts in proportion to its size, at least one.

    Args:
        labels: The texts' labels.
        strata: The stratum of each text.
        size: Number of texts to take; a few more are taken if rare strata would otherwise contribute none.
    """
    if size >= len(labels):
        return np.arange(len(labels))
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
