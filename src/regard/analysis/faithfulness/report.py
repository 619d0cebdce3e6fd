"""What was measured about a model's attention, as a table and as one sentence."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from regard.analysis.faithfulness.erasure import SHARES
from regard.metrics.tables import table

_CERTAIN = 0.05
"""A difference from random words that chance makes less often than this counts as one."""
_VISIBLE = 0.005
"""Probability that it has to amount to as well, so that it shows in two digits."""
_CLOSE, _ROUGH = 0.5, 0.2
"""Kendall τ from which two orders are called close, and roughly alike."""
_MOST, _SOME = 0.5, 0.2
"""How much of what the best single words would give attention has to reach, to be named strongly, or at all plainly."""
_STEADY = 0.02
"""Part of the predictions below which a change counts as small."""
_NONE = 1e-6


@dataclass(frozen=True)
class Erasure:
    """Loss of probability when words are deleted, by three orders of words; AOPC is the mean over the shares."""

    attention: float
    """AOPC of the words attended to most."""
    random: float
    """AOPC of words at random."""
    leave_one_out: float
    """AOPC of the words whose own absence costs most: about what any order could reach."""
    low: float
    """95% interval of attention − random, over texts."""
    high: float
    p: float
    """How likely attention's distance from random is where there is none; two-sided, by a bootstrap."""
    shares: tuple[tuple[float, float, float], ...]
    """Attention, random and leave-one-out at 1, 5, 10, 20 and 50% of the words."""


@dataclass(frozen=True)
class Spread:
    """A number that each text has."""

    mean: float
    """NaN without texts."""
    deviation: float
    texts: int


@dataclass(frozen=True)
class Uniform:
    """The same model with the same weight on every token."""

    accuracy: float
    """With its own attention."""
    uniform_accuracy: float
    changed: float
    """Part of the predictions that are another label."""
    distance: float
    """Mean total variation distance of the predictions."""


@dataclass(frozen=True)
class Seeds:
    """The same run with other seeds."""

    models: int
    attention: Spread
    """Jensen–Shannon divergence of the attention over words, from 0 to log 2 = 0.69, mean over pairs of models."""
    predictions: Spread
    """Total variation distance of the predictions."""


@dataclass(frozen=True)
class Faithfulness:
    """How far a classifier's attention tells what its predictions rest on."""

    texts: int
    comprehensiveness: Erasure
    sufficiency: Erasure
    leave_one_out: Spread
    """Kendall τ of attention and leave-one-out, over words."""
    gradient: Spread
    """Kendall τ of attention and |gradient × input|, over words."""
    uniform: Uniform
    permuted: Spread
    """Total variation distance of predictions under permuted weights: medians over permutations."""
    seeds: Seeds | None = None

    @property
    def sentence(self) -> str:
        """What the numbers mean for this model."""
        return describe(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON: the sentence and the measures; null where there is no number."""
        measures = _plain(asdict(self))
        return {"sentence": self.sentence, "texts": measures.pop("texts"), "measures": measures}

    def render(self) -> str:
        """The table, and the sentence below it."""
        return f"{self.texts:,} texts\n\n{self._render_erasure()}\n\n{self._render_rest()}\n\n{self.sentence}"

    def _render_erasure(self) -> str:
        header = ["probability lost", "attention", "random", "leave-one-out", "p", *(f"{share}%" for share in SHARES)]
        rows = [
            [name, f"{one.attention:.3f}", f"{one.random:.3f}", f"{one.leave_one_out:.3f}", f"{one.p:.4f}"]
            + [f"{attention:.3f}" for attention, _, _ in one.shares]
            for name, one in (
                ("without these words (comprehensiveness ↑)", self.comprehensiveness),
                ("with these alone (sufficiency ↓)", self.sufficiency),
            )
        ]
        return table(header, rows, widest=48)

    def _render_rest(self) -> str:
        rows = [
            ["Kendall τ with leave-one-out", *_cells(self.leave_one_out)],
            ["Kendall τ with gradient × input", *_cells(self.gradient)],
            ["distance under permuted weights", *_cells(self.permuted)],
            ["distance under uniform weights", f"{self.uniform.distance:.3f}", "", ""],
            ["accuracy", f"{100 * self.uniform.accuracy:.2f}%", "", ""],
            ["accuracy under uniform weights", f"{100 * self.uniform.uniform_accuracy:.2f}%", "", ""],
        ]
        if self.seeds is not None:
            rows += [
                [f"attention of {self.seeds.models} seeds (JS divergence)", *_cells(self.seeds.attention)],
                [f"predictions of {self.seeds.models} seeds (distance)", *_cells(self.seeds.predictions)],
            ]
        return table(["", "mean", "± sd", "texts"], rows, widest=48)


def describe(found: Faithfulness) -> str:
    """One sentence: whether attention names words that matter, how well it orders them, and what the weights themselves do."""
    if found.uniform.distance < _NONE:
        return (
            "With the same weight on every word this model predicts just the same, so its heatmap says nothing about "
            "which words matter to it."
        )
    clauses = [f"{_verdict(found)} ({_evidence(found)})", _order(found.leave_one_out), _weights(found.uniform)]
    return "; ".join(clause for clause in clauses if clause) + "."


def _verdict(found: Faithfulness) -> str:
    need, enough = found.comprehensiveness, found.sufficiency
    needed = need.p < _CERTAIN and need.attention - need.random >= _VISIBLE
    sufficient = enough.p < _CERTAIN and enough.random - enough.attention >= _VISIBLE
    if need.p < _CERTAIN and need.random - need.attention >= _VISIBLE:
        return "Do not take this model's heatmaps as reasons: the words it attends to most matter less than random ones"
    if not needed and not sufficient:
        return (
            "Do not take this model's heatmaps as reasons: the words it attends to most matter no more than random ones, as "
            f"far as {found.texts:,} texts can tell"
        )
    if not needed:
        return "The words this model attends to most do better than random ones by themselves, but it hardly needs them"
    reached = (need.attention - need.random) / max(need.leave_one_out - need.random, _NONE)
    if reached < _SOME:
        words = "The words this model attends to most matter a little more to its predictions than random ones"
    elif reached < _MOST:
        words = "The words this model attends to most are among those that its predictions rest on"
    else:
        words = "The words this model attends to most are those that its predictions rest on"
    return words if sufficient else f"{words}, but do not carry them alone"


def _evidence(found: Faithfulness) -> str:
    need = found.comprehensiveness
    own, random = (round(value, 2) + 0.0 for value in (need.attention, need.random))  # no −0.00
    return f"deleting them costs {own:.2f} of probability, random ones {random:.2f}"


def _order(tau: Spread) -> str:
    if math.isnan(tau.mean):
        return ""
    if tau.mean < _ROUGH:
        return f"its order of words has little to do with that of leaving each out (τ {tau.mean:.2f})"
    return f"it orders words {'much' if tau.mean >= _CLOSE else 'only roughly'} as leaving each out does (τ {tau.mean:.2f})"


def _weights(uniform: Uniform) -> str:
    if uniform.changed < _STEADY:
        return f"the weights decide little, for uniform ones change {uniform.changed:.1%} of the predictions"
    return (
        f"uniform weights change {uniform.changed:.0%} of the predictions "
        f"(accuracy {uniform.accuracy:.1%}, then {uniform.uniform_accuracy:.1%})"
    )


def _cells(spread: Spread) -> list[str]:
    if math.isnan(spread.mean):
        return ["none", "", "0"]
    return [f"{spread.mean:.3f}", f"{spread.deviation:.3f}", f"{spread.texts:,}"]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value
