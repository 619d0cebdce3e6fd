"""History of a search, kept as tensors until the best hypotheses are known.

Each step stores the chosen words, the parent hypothesis of each, and the attention. Nothing is copied between hypotheses while
the search runs. At the end, the words and the attention of the best hypotheses are collected by following their parents. So
recording costs one list entry per step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.errors import RequestError
from regard.models.seq2seq import AttentionMaps
from regard.records.views import sides
from regard.stopping import check_wanted

# A hypothesis that ended: its sentence, its last step, its index among the hypotheses of that step, and its score.
_ENDING = np.dtype([("row", int), ("step", int), ("slot", int), ("score", float), ("finished", bool)])


class _Step(NamedTuple):
    rows: Tensor  # (B') sentences of the batch whose search continues
    parent: Tensor  # (B',N) parent of each hypothesis in the previous step
    words: Tensor  # (B',N)
    total: Tensor  # (B',N) log probability so far, including this word
    attention: AttentionMaps  # (B',N',S) or (B',H,N',S) for N' previous hypotheses; self-attention: t words so far, not S


@dataclass
class Trace:
    """The steps of one search over B sentences, and the steps at which hypotheses ended."""

    source_mask: Bool[Tensor, "B S"]
    _steps: list[_Step] = field(default_factory=list)
    _within: AttentionMaps = field(default_factory=dict)  # weights within the encoder (B,H,S,S), the same at every step
    # For each call of `end`: the index of the step, then the arguments.
    _ended: list[tuple[int, Tensor, Tensor, bool]] = field(default_factory=list)

    def add(
        self,
        rows: Int[Tensor, " M"],
        parent: Int[Tensor, "M N"],
        words: Int[Tensor, "M N"],
        total: Float[Tensor, "M N"],
        attention: AttentionMaps,
    ) -> None:
        """Store a step: for each hypothesis its parent, its new word, its log probability, and its attention."""
        check_wanted()
        if not self._steps:
            self._within = {site: weights for site, weights in attention.items() if sides(site)[0] == "source"}
        attention = {site: weights for site, weights in attention.items() if sides(site)[0] == "target"}
        self._steps.append(_Step(rows, parent, words, total, attention))

    def end(self, which: Bool[Tensor, "M N"], score: Float[Tensor, "M N"], *, finished: bool) -> None:
        """Mark the hypotheses that end at the last stored step."""
        self._ended.append((len(self._steps) - 1, which, score, finished))

    def best(self, count: int) -> list[list[Hypothesis]]:
        """Return the best `count` hypotheses of each sentence.

        Finished ones come first. Hypotheses are then sorted by score, and for equal scores by the step at which they ended.
        """
        ended = self._endings()
        order = np.lexsort((ended["slot"], ended["step"], -ended["score"], ~ended["finished"], ended["row"]))
        row = ended["row"][order]
        return self._by_sentence(ended[order[np.arange(len(order)) - np.searchsorted(row, row) < count]])

    def all(self) -> list[list[Hypothesis]]:
        """Return all hypotheses of each sentence, in the order of their indices among the hypotheses of a step."""
        ended = self._endings()
        return self._by_sentence(ended[np.lexsort((ended["slot"], ended["row"]))])

    def _endings(self) -> np.ndarray:
        found = [np.zeros(0, _ENDING)]
        for step, which, score, finished in self._ended:
            place, slot = which.numpy(force=True).nonzero()
            part = np.zeros(len(place), _ENDING)
            part["row"], part["step"], part["slot"] = self._steps[step].rows.numpy(force=True)[place], step, slot
            part["score"], part["finished"] = score.numpy(force=True)[place, slot], finished
            found.append(part)
        return np.concatenate(found)

    def _by_sentence(self, winners: np.ndarray) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = [[] for _ in range(len(self.source_mask))]
        for row, hypothesis in zip(winners["row"], self._follow(winners), strict=True):
            found[row].append(hypothesis)
        for hypotheses in found:
            if not hypotheses or any(hypothesis.log_probability == -np.inf for hypothesis in hypotheses):
                raise RequestError(
                    "for at least one sentence, the model gives probability 0 to every target that has the required prefix and "
                    "phrases and none of the forbidden words; relax these requirements (if there are none, the model's scores "
                    "are not finite, because its weights are damaged)"
                )
        return found

    def _follow(self, winners: np.ndarray) -> list[Hypothesis]:
        """Build the given hypotheses: collect their words and weights by following their parents from the end to the start."""
        num_steps, num_winners = len(self._steps), len(winners)
        words = np.zeros((num_winners, num_steps), dtype=np.int64)
        total = np.zeros((num_winners, num_steps + 1), dtype=np.float32)  # with a leading 0, before the first word
        maps: dict[str, np.ndarray] = {}
        place = np.zeros(len(self.source_mask), dtype=np.int64)
        slot = winners["slot"].copy()
        for number in range(num_steps - 1, -1, -1):
            step = self._steps[number]
            alive = np.flatnonzero(winners["step"] >= number)
            rows, totals = step.rows.numpy(force=True), step.total.numpy(force=True)
            if np.isnan(totals).any():
                raise not_finite()
            place[rows] = np.arange(len(rows))  # sentences whose search has stopped have no row in this step
            here = place[winners["row"][alive]]
            words[alive, number] = step.words.numpy(force=True)[here, slot[alive]]
            total[alive, number + 1] = totals[here, slot[alive]]
            slot[alive] = step.parent.numpy(force=True)[here, slot[alive]]
            for site, tensor in step.attention.items():  # a step attends from the parents, which `slot` names now
                weights = tensor.float().numpy(force=True)
                weights = weights[here, slot[alive]] if weights.ndim == 3 else weights[here, :, slot[alive]]
                if site not in maps:
                    maps[site] = np.zeros((num_winners, num_steps, *weights.shape[1:]), dtype=np.float32)
                maps[site][alive, number, ..., : weights.shape[-1]] = weights  # self-attention: one weight per word so far
        with np.errstate(invalid="ignore"):  # a damaged model may give infinite values; ∞ − ∞ is NaN, here without a warning
            steps = np.diff(total, axis=1)
        sizes, hypotheses = source_sizes(self.source_mask), []
        within = {site: weights.float().numpy(force=True) for site, weights in self._within.items()}
        for index, (row, last, _, score, finished) in enumerate(winners.tolist()):
            length, size = last + 1, sizes[row]
            attention = {site: weights[row, ..., :size, :size] for site, weights in within.items()}
            for site, weights in maps.items():
                own = weights[index, :length, ..., : size if sides(site)[1] == "source" else length]
                attention[site] = own if own.ndim == 2 else own.swapaxes(0, 1)  # heads first
            hypotheses.append(
                Hypothesis(
                    tokens=words[index, : length - finished].tolist(),
                    log_probability=float(total[index, length]),
                    score=score,
                    finished=finished,
                    token_log_probabilities=steps[index, :length],
                    attention=attention,
                )
            )
        return hypotheses


def not_finite() -> RequestError:
    """Return the error for scores of a model that are NaN or +∞; log probabilities of hypotheses are then NaN."""
    return RequestError(
        "the model's scores for the next word are not finite (NaN or infinity): its weights are damaged, or its "
        "training diverged; go back to an earlier checkpoint, or train with a lower learning rate"
    )


def source_sizes(source_mask: Bool[Tensor, "B S"]) -> Sequence[int]:
    """Return the length of each source up to its last symbol."""
    positions = torch.arange(1, source_mask.shape[1] + 1, device=source_mask.device)
    sizes: list[int] = (source_mask * positions).amax(1).tolist()
    return sizes
