"""The measure of how well attention shows what a prediction depends on, and its report, for every task."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import RequestError
from regard.evaluation.comparison import bootstrap_mean
from regard.evaluation.tables import finite, table
from regard.plurals import counted
from regard.reweight import Reweight, flatten
from regard.tasks.attribution import UnavailableError, attribute, check_names
from regard.tasks.probe import Probe
from regard.tasks.requests import counting_bar
from regard.viz import losses
from regard.viz.picture import Picture

CERTAIN = 0.05
"""A difference from random words counts if its p-value is below this."""
VISIBLE = 0.005
"""A difference must also be at least this large, so that two digits show it."""
_SMALLEST = 1e-6
SHARES = (1, 5, 10, 20, 50)
"""Percentages of a text's words that are deleted or kept."""


@dataclass(frozen=True)
class Removal:
    """Loss of a prediction's probability when words are removed in three orders: by attention, at random, by leave-one-out."""

    attention: float
    """Mean loss without the most attended words."""
    random: float
    """Mean loss without random words."""
    best: float
    """Mean loss without the words whose single removal costs most: an estimate of the best order."""
    low: float
    """Lower end of the 95% interval of `attention` − `random`, by bootstrap over texts."""
    high: float
    p: float
    """Two-sided p-value of the difference between `attention` and `random`, by bootstrap over texts."""
    shares: tuple[tuple[float, float, float], ...] = ()
    """Losses in the three orders for each share of words in `SHARES`; empty if a single word is removed."""
    margins: tuple[float, ...] = ()
    """`attention` − `random` of each text, to compare two models with `regard.evaluation.bootstrap_mean`."""

    @property
    def reached(self) -> float:
        """Place of attention between random words, at 0, and the best order, at 1."""
        return (self.attention - self.random) / max(self.best - self.random, _SMALLEST)


@dataclass(frozen=True)
class Spread:
    """Distribution of a value over texts."""

    mean: float
    """Mean; NaN if no text has a value."""
    deviation: float
    texts: int


@dataclass(frozen=True)
class AttributionScore:
    """How well an attribution finds the words that decide."""

    name: str
    """Name of the attribution; see `regard.tasks.attribution`."""
    texts: int
    """Number of texts for which it has values."""
    losses: Mapping[str, float]
    """Mean loss of probability for each way of removing words, in the order of the attribution."""
    p: Mapping[str, float]
    """Two-sided p-values of the differences from attention, by bootstrap over texts; empty for attention."""
    seconds: float
    """Mean time to compute the attribution of a text."""
    reason: str = ""
    """Why there are texts without values."""


@dataclass(frozen=True, kw_only=True)
class Report(ABC):
    """Base of reports on faithfulness, with two tables, bars, and sentences that explain them."""

    noun: ClassVar[str]
    """Noun for an input, such as `text`."""
    unit: ClassVar[str] = "word"
    """Noun for a part of an input that is removed."""
    meaning: ClassVar[str]
    """Explanation of the bars."""
    ways: ClassVar[Mapping[str, str]]
    """Descriptions of the ways of removing words, by the fields with their losses."""

    texts: int
    leave_one_out: Spread
    """Kendall τ, over the words of a text, of attention and the change of the prediction when the word is left out."""
    gradient: Spread
    """Kendall τ, over the words of a text, of attention and |gradient × input|; no text has a value if the model's input has
    no embedding."""
    uniform: Spread
    """Total variation distance between the predictions with the model's own and with equal weights."""
    uniform_changed: float
    """Share of the predictions that change to another label or token with equal weights."""
    permuted: Spread
    """Total variation distance of the predictions under permuted weights; the median over permutations."""
    attributions: tuple[AttributionScore, ...] = ()
    """Attributions that were compared, attention first; empty if none was requested."""

    @property
    @abstractmethod
    def sentence(self) -> str:
        """Return sentences that explain what the numbers mean for this model."""

    def measures(self) -> list[tuple[str, Spread | str]]:
        """Return the names and values of the measures besides the losses."""
        return [
            ("Kendall τ with leave-one-out", self.leave_one_out),
            ("Kendall τ with gradient × input", self.gradient),
            ("total variation distance under permuted weights", self.permuted),
            ("total variation distance under uniform weights", self.uniform),
            ("predictions that change under uniform weights", f"{self.uniform_changed:.1%}"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the measures and `sentence` as plain data for JSON; NaN becomes None."""
        return {"sentence": self.sentence, **finite(asdict(self))}

    def draw(self, path: str | Path | None = None, *, caption: bool = True) -> Picture:
        """Draw the loss of probability as bars, with `sentence` below them; see `regard.viz.losses.draw`."""
        removals = {way: getattr(self, field) for field, way in self.ways.items()}
        bars = {
            way[:1].upper() + way[1:]: {"most attention": one.attention, "random": one.random, "best tried": one.best}
            for way, one in removals.items()
        }
        title = f"Faithfulness of attention, {counted(self.texts, self.noun)}"
        return losses.draw(bars, path, title=title, notes=(self.meaning, self.sentence), caption=caption)

    def render(self) -> str:
        """Return the measures as two tables, with `sentence` below them."""
        removals = {way: getattr(self, field) for field, way in self.ways.items()}
        shares = [f"{share}%" for share in SHARES] if any(one.shares for one in removals.values()) else []
        rows = [
            [way, f"{one.attention:.3f}", f"{one.random:.3f}", f"{one.best:.3f}", f"{one.p:.4f}"]
            + [f"{attention:.3f}" for attention, _, _ in one.shares]
            for way, one in removals.items()
        ]
        rest = []
        for name, value in self.measures():
            if isinstance(value, str):
                cells = [value, "", ""]
            elif math.isnan(value.mean):
                cells = ["none", "", "0"]
            else:
                cells = [f"{value.mean:.3f}", f"{value.deviation:.3f}", f"{value.texts:,}"]
            rest.append([name, *cells])
        header = ["probability lost", "attention", "random", "best tried", "p", *shares]
        tables = table(header, rows, widest=48), table(["", "mean", "± sd", f"{self.noun}s"], rest, widest=48)
        return "\n\n".join([counted(self.texts, self.noun), *tables, *self._compared(), self.sentence])

    def _compared(self) -> list[str]:
        """Return the table of attributions, why some have no values, and a sentence on the best one; nothing without any."""
        known = [one for one in self.attributions if one.texts]
        if not known:
            return []
        first, rows = next(iter(self.ways)), []
        for one in self.attributions:
            losses = [f"{one.losses[way]:.3f}" if one.texts else "none" for way in self.ways]
            rest = [f"{one.p[first]:.4f}" if one.p else "", f"{one.seconds:.3f}" if one.texts else ""]
            rows.append([one.name, *losses, *rest, f"{one.texts:,}"])
        header = ["attribution", *self.ways, "p vs. attention", "seconds", f"{self.noun}s"]
        best = max(known, key=lambda one: one.losses[first])
        better = [one.name for one in known if one.p and one.p[first] < CERTAIN and one.losses[first] > known[0].losses[first]]
        told = f"The {self.unit}s that decide are found best by {best.name}: without them, the probability falls by "
        told += f"{best.losses[first]:.3f}"
        told += f"; with attention, by {known[0].losses[first]:.3f}" if best is not known[0] else ""
        told += f". Better than attention (p < {CERTAIN:g}): {', '.join(better) or 'none'}."
        notes = list(dict.fromkeys(one.reason for one in self.attributions if one.reason))
        return ["\n".join([table(header, rows), *notes]), told]


class MeasuredProbe(Probe):
    """A probe of a text whose attention is measured."""

    attention: Float[np.ndarray, "T W"]
    """Attention of each step over the W words."""
    several: bool = False
    """If True, each class has its own probability."""

    @abstractmethod
    def ordered(
        self, importance: Float[np.ndarray, "R T W"], generator: np.random.Generator
    ) -> dict[str, Float[np.ndarray, " R"]]:
        """Return the losses of the removals of the report if words are removed in R orders, the most important first."""

    @abstractmethod
    def removals(
        self, whole: Float[Tensor, "T C"], without: Float[Tensor, "W T C"] | None, generator: np.random.Generator
    ) -> dict[str, Float[np.ndarray, "3 K"]]:
        """Return the losses of the removals of the report, by attention, at random and in the best order, for K shares.

        `whole` has the predictions for the whole text, and `without` those without each word, unless they cost too much.
        """

    def distance(self, first: Float[Tensor, "*#B C"], second: Float[Tensor, "*#B C"]) -> Float[Tensor, "*#B"]:
        """Return the total variation distance of two predictions, ½ Σ |p − q|; for several labels, the mean of |p − q|."""
        gaps = (first - second).abs()
        return gaps.mean(-1) if self.several else gaps.sum(-1) / 2

    def decide(self, predictions: Float[Tensor, "*B C"]) -> Tensor:
        """Return the most probable class; for several labels, whether each probability exceeds ½."""
        return predictions > 0.5 if self.several else predictions.argmax(-1, keepdim=True)

    def measure(
        self,
        permutations: int,
        generator: np.random.Generator,
        *,
        is_affordable: bool = True,
        attributions: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return the measures of this text; those that need many predictions are NaN unless `is_affordable`."""
        with torch.inference_mode():
            whole, even = self.keep(np.ones((1, self.num_words), bool)), self.reweight(flatten)
            without, moved, permuted = None, None, math.nan
            if is_affordable:
                without = self.keep(~np.eye(self.num_words, dtype=bool))
                moved = self.distance(without, whole).T.numpy(force=True)
                change = permutation(int(generator.integers(1 << 32)))
                changed = self.distance(self.reweight(change, permutations), whole)
                permuted = float(np.median(changed.numpy(force=True), axis=0).mean())
            removals = self.removals(whole[0], without, generator)
        # cuDNN computes gradients of recurrent layers in training mode only, so it is not used.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            gradients = self.gradients()
        decided, otherwise = self.decide(whole)[0], self.decide(even)[0]
        return {
            **removals,
            "leave_one_out": self._agreement(moved),
            "gradient": self._agreement(None if gradients is None else abs(gradients)),
            "uniform": float(self.distance(even, whole).mean()),
            "uniform_changed": float((decided != otherwise).any(-1).double().mean()),
            "permuted": permuted,
            "decided": decided[0].numpy(force=True),
            "uniform_decided": otherwise[0].numpy(force=True),
            "attributions": self._compare(attributions) if is_affordable else {},
        }

    def _compare(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the losses in the orders of attributions with the seconds that these took, or why one has no values."""
        found: dict[str, dict[str, Any]] = {}
        orders = []
        for name in names:
            start = time.perf_counter()
            try:
                orders.append(self.to_words(attribute(self, name)))
                found[name] = {"seconds": time.perf_counter() - start}
            except UnavailableError as error:
                found[name] = {"reason": str(error)}
        known = [name for name in names if "seconds" in found[name]]
        if known:
            # Equal values are in random order; the other measures of the report draw from their own generator.
            for way, losses in self.ordered(np.stack(orders), np.random.default_rng(0)).items():
                for name, loss in zip(known, losses.tolist(), strict=True):
                    found[name][way] = loss
        return found

    def _agreement(self, importance: Float[np.ndarray, "T W"] | None) -> float:
        """Return the mean Kendall τ of attention and an importance of each word; NaN if there is no importance."""
        pairs = [] if importance is None else zip(self.attention, importance, strict=True)
        return spread([kendall_tau(*pair) for pair in pairs]).mean


def measure_all(
    probes: Iterable[MeasuredProbe],
    total: int,
    *,
    affordable: int,
    permutations: int,
    seed: int,
    progress: bool,
    attributions: Sequence[str] = (),
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Measure texts, and return the fields that all reports have, and each text's values by name.

    The costly measures use the first `affordable` texts of `total`.
    """
    names = check_names("faithfulness", ["attention", *attributions]) if attributions else []
    if permutations < 1:
        raise RequestError(f"faithfulness: permutations is {permutations}, expected 1 or more")
    generator, rows = np.random.default_rng(seed), []
    with counting_bar("measuring", total, shown=progress) as advance:
        for number, probe in enumerate(probes):
            rows.append(probe.measure(permutations, generator, is_affordable=number < affordable, attributions=names))
            advance(1)
    compared = [row.pop("attributions") for row in rows]
    values = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    shared: dict[str, Any] = {name: spread(values[name]) for name in ("leave_one_out", "gradient", "uniform", "permuted")}
    shared["attributions"] = tuple(_score(name, [row for row in compared if row], seed) for name in names)
    return {"texts": len(rows), "uniform_changed": float(values["uniform_changed"].mean()), **shared}, values


def _score(name: str, rows: Sequence[Mapping[str, Mapping[str, Any]]], seed: int) -> AttributionScore:
    """Summarise an attribution of several texts, and compare it with attention on the texts for which it has values."""
    known = [row for row in rows if "seconds" in row[name]]
    reason = next((row[name]["reason"] for row in rows if "reason" in row[name]), "")
    ways = [way for way in known[0][name] if way != "seconds"] if known else []
    losses: dict[str, float] = {}
    p: dict[str, float] = {}
    for way in ways:
        both = [np.array([row[one][way] for row in known]) for one in ("attention", name)]
        losses[way] = float(both[1].mean())
        p |= {} if name == "attention" else {way: bootstrap_mean(*both, seed=seed).p}
    seconds = float(np.mean([row[name]["seconds"] for row in known])) if known else math.nan
    return AttributionScore(name, len(known), losses, p, seconds, reason)


def removal(losses: Float[np.ndarray, "N 3 K"], *, seed: int = 1) -> Removal:
    """Summarise the losses of N texts in three orders, by attention, random and best, for K shares of the words.

    A loss in the best order that is NaN is left out.
    """
    attention, random = losses[:, 0].mean(-1), losses[:, 1].mean(-1)
    shares = np.nanmean(losses, axis=0)
    compared = bootstrap_mean(random, attention, seed=seed)
    return Removal(
        attention=compared.second,
        random=compared.first,
        best=float(shares[2].mean()),
        low=compared.low,
        high=compared.high,
        p=compared.p,
        shares=tuple(tuple(row) for row in shares.T.tolist()) if losses.shape[2] > 1 else (),
        margins=tuple((attention - random).tolist()),
    )


def permutation(seed: int) -> Reweight:
    """Return a function that permutes the weights of each row of a batch among its keys, the same in all heads and steps."""

    def permute(weights: Tensor, mask: Tensor) -> Tensor:
        # The same numbers in each call, so that all layers and steps of a model get the same order.
        noise = torch.rand(len(weights), weights.shape[-1], generator=torch.Generator().manual_seed(seed))
        noise = noise.to(weights.device).view(len(weights), *[1] * (weights.ndim - 2), -1).expand(weights.shape)
        allowed = mask.expand(weights.shape)
        # Padding comes last in both orders, so that no weight moves between tokens and padding.
        drawn = noise.masked_fill(~allowed, 2.0).argsort(-1)
        places = (~allowed).to(torch.int8).argsort(stable=True, dim=-1)
        return torch.zeros_like(weights).scatter(-1, places, weights.gather(-1, drawn)) * allowed

    return permute


def spread(values: Sequence[float] | np.ndarray) -> Spread:
    """Return the distribution of the values that are not NaN."""
    known = np.array([value for value in values if not np.isnan(value)])
    return Spread(float(known.mean()), float(known.std()), len(known)) if len(known) else Spread(math.nan, math.nan, 0)


def kendall_tau(first: Float[np.ndarray, " W"], second: Float[np.ndarray, " W"]) -> float:
    """Return Kendall's τ_b, the similarity of the orders of two lists of values.

        τ_b = (concordant − discordant) / √((pairs − ties in the first) (pairs − ties in the second))

    The result is from −1 to 1; NaN if all values of one list are equal.

    Reference:
        Kendall 1945, The Treatment of Ties in Ranking Problems.
    """
    one, two = (np.sign(values[:, None] - values[None, :]) for values in (first, second))
    untied = float((one**2).sum()) * float((two**2).sum())
    return float((one * two).sum() / untied**0.5) if untied else math.nan
