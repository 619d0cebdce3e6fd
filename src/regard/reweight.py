"""Functions for the argument `reweight`. They change attention weights, to see what a model outputs with other attention.

A `Reweight` is a function of weights (…,Q,K) and a mask that broadcasts to them. It returns the weights that replace them
before the context is computed:

    translator.translate(["The old man sang."], reweight=flatten)                     # the same weight for every source token
    translator.translate(["The old man sang."], reweight=at_step(1, attend_to(2)))    # step 1 reads source token 2 only
    translator.translate(["The old man sang."], reweight={"cross.0": sharpen(4)})     # one layer of a Transformer

A row belongs to a query: a step of a target, a hypothesis at one step, or, in an encoder, a token. A column belongs to a token
that is attended to. `flatten` makes each row sum to 1. `sharpen`, `erase` and `attend_to` preserve the sum of each row, unless
all its weights become zero.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.capabilities import Reweight
from regard.errors import RequestError, nearest

__all__ = [
    "Reweight",
    "ReweightBySite",
    "Sites",
    "StepReweight",
    "at_step",
    "attend_to",
    "chain",
    "check_reweight",
    "erase",
    "flatten",
    "for_site",
    "for_steps",
    "on_heads",
    "per_hypothesis",
    "sharpen",
    "without_steps",
]


class StepReweight(ABC):
    """A `Reweight` that depends on the step of the target; see `at_step`."""

    @abstractmethod
    def at(self, steps: Int[Tensor, " Q"]) -> Reweight:
        """Return the function for rows that belong to these steps; one number if all rows are hypotheses at the same step."""

    def __call__(self, weights: Tensor, mask: Tensor) -> Tensor:
        """Change weights that have one row for each step of a target."""
        return self.at(torch.arange(weights.shape[-2], device=weights.device))(weights, mask)


@dataclass(frozen=True)
class _ByStep(StepReweight):
    """A function for each set of steps, which `build` returns."""

    build: Callable[[Tensor], Reweight]

    def at(self, steps: Tensor) -> Reweight:
        return self.build(steps)


MaybeReweight = TypeVar("MaybeReweight", Reweight, Reweight | None)

ReweightBySite = Mapping[str, Reweight]
"""Functions that change attention weights, by site (the name of an attention in the model). `cross`, `encoder` and `decoder`
mean all layers of a kind, and `cross.0` means one layer. The function for one layer takes precedence.
"""


def flatten(weights: Tensor, mask: Tensor) -> Tensor:
    """Give the same weight to every token that a row may attend to (Wiegreffe and Pinter 2019, section 3.2, at test time).

    The weights of each row then sum to 1, or to 0 if the row may attend to no token.

    Args:
        weights: Weights (…,Q,K) of any attention.
        mask: Booleans that broadcast to the weights; True where a row may attend.
    """
    even = mask.expand_as(weights).to(weights.dtype)
    return even / even.sum(-1, keepdim=True).clamp(min=1)


def sharpen(power: float = 2.0) -> Reweight:
    """Return a function that raises weights to a power and rescales each row to its previous sum.

    Args:
        power: Finite exponent > 0; above 1 it concentrates a row on its largest weights, below 1 it makes weights more even.

    Raises:
        RequestError: If the power is not a finite number above 0.
    """
    if not 0 < power < float("inf"):
        raise RequestError(
            f"sharpen: power is {power}, expected a finite number above 0; use 2 to square the weights, or `flatten` to make "
            "them equal"
        )

    def change(weights: Tensor, mask: Tensor) -> Tensor:
        scaled = weights / weights.amax(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
        return rescaled(scaled**power, weights)

    return change


def erase(*columns: int) -> Reweight:
    """Return a function that sets the weights of these tokens to 0 and rescales the others, so that the row keeps its sum.

    Args:
        columns: Indices of tokens, from 0; negative ones count from the end, including padding. Indices of tokens that do not
            exist have no effect.
    """
    _check_columns("erase", columns)
    return lambda weights, mask: rescaled(weights.masked_fill(_marked(columns, weights), 0), weights)


def attend_to(*columns: int) -> Reweight:
    """Return a function that gives all weight to these tokens, in equal parts.

    If a row may attend to none of these tokens, because they come later, are padding or are missing, its weights stay the same.

    Args:
        columns: Indices of tokens, from 0; negative ones count from the end, including padding.
    """
    _check_columns("attend_to", columns)

    def change(weights: Tensor, mask: Tensor) -> Tensor:
        chosen = _marked(columns, weights) & mask.expand_as(weights)
        even = rescaled(chosen.to(weights.dtype), weights)
        return torch.where(chosen.any(-1, keepdim=True), even, weights)

    return change


def at_step(steps: int | Collection[int], reweight: Reweight) -> StepReweight:
    """Return a function that changes the weights of some steps of the target only.

    Args:
        steps: Indices of steps; step 0 predicts the first token. When a language model continues a prompt, the first
            steps belong to the tokens of the prompt.
        reweight: Function for the weights of these steps.

    Raises:
        RequestError: If there is no step, a step is not a whole number of 0 or more, or `reweight` is not a function.
    """
    numbers = (steps,) if isinstance(steps, int) else tuple(steps)
    if not numbers or not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise RequestError(f"at_step: steps is {steps!r}, expected an index from 0, or several: at_step(1, …)")
    inner = _checked("at_step", reweight)

    def build(current: Tensor) -> Reweight:
        function = _at(inner, current)
        rows = torch.isin(current, torch.tensor(numbers, device=current.device))[:, None]
        return lambda weights, mask: torch.where(rows.to(weights.device), function(weights, mask), weights)

    return _ByStep(build)


def on_heads(heads: int | Collection[int], reweight: Reweight) -> Reweight:
    """Return a function that changes the weights of some heads only.

    Args:
        heads: Indices of heads, from 0.
        reweight: Function for these heads.
    """
    numbers = (heads,) if isinstance(heads, int) else tuple(heads)
    inner = _checked("on_heads", reweight)

    def build(current: Tensor) -> Reweight:
        function = _at(inner, current)

        def change(weights: Tensor, mask: Tensor) -> Tensor:
            count = weights.shape[1] if weights.ndim == 4 else 0
            if any(not 0 <= head < count for head in numbers):
                has = f"{count} heads, numbered from 0" if count else "no heads; leave on_heads out"
                raise RequestError(f"on_heads: heads are {', '.join(map(str, numbers))}, but this attention has {has}")
            chosen = torch.zeros(count, 1, 1, dtype=torch.bool, device=weights.device)
            chosen[list(numbers)] = True
            return torch.where(chosen, function(weights, mask), weights)

        return change

    return _ByStep(build)


def chain(*reweights: Reweight) -> Reweight:
    """Return a function that applies several functions, one after another."""
    inner = [_checked("chain", reweight) for reweight in reweights]

    def build(current: Tensor) -> Reweight:
        functions = [_at(reweight, current) for reweight in inner]
        return lambda weights, mask: reduce(lambda changed, function: function(changed, mask), functions, weights)

    return _ByStep(build)


def for_site(reweight: ReweightBySite | None, site: str) -> Reweight | None:
    """Return the function for a site, or the one for all layers of its kind; None if neither exists."""
    return None if not reweight else reweight.get(site, reweight.get(site.partition(".")[0]))


def for_steps(reweight: MaybeReweight, first: int, count: int = 1) -> MaybeReweight:
    """Return the function for the rows of some steps of a target; `count` is 1 if all rows are hypotheses at one step."""
    return None if reweight is None else _at(reweight, torch.arange(first, first + count))


@dataclass
class Sites:
    """Attention weights that one call of a model returns (of the sites in `record`) and replaces, by site.

    A call that computes a target computes `num_steps` steps, from `first_step` on; 0 if it computes no target.
    """

    record: Collection[str] = ()
    reweight: ReweightBySite | None = None
    first_step: int = 0
    num_steps: int = 0
    cross_mask: Tensor | None = None
    """The `attn_mask` of the attention to the source; None for no further mask."""
    maps: dict[str, Tensor] = field(default_factory=dict)
    """The weights returned so far."""

    def options(self, site: str) -> dict[str, Any]:
        """Return the arguments of the attention at a site: `need_weights`, and `attn_mask` and `reweight` where used."""
        found: dict[str, Any] = {"need_weights": site in self.record}
        if self.cross_mask is not None and site.startswith("cross"):
            found["attn_mask"] = self.cross_mask
        if not self.reweight:
            return found
        change = for_site(self.reweight, site)
        if change is not None and self.num_steps:
            change = for_steps(change, self.first_step, self.num_steps)
        return {"reweight": change, **found}

    def add(self, site: str, weights: Tensor | None) -> None:
        """Store the weights of a site, unless they are None."""
        if weights is not None:
            self.maps[site] = weights


def without_steps(reweight: Reweight) -> Reweight:
    """Adapt a function to pooling weights (B,K) or (B,H,K), which have no axis for steps: their only row counts as step 0."""
    if not isinstance(reweight, StepReweight):
        return reweight
    first = for_steps(reweight, 0)
    return lambda weights, mask: first(weights.unsqueeze(-2), mask.unsqueeze(-2)).squeeze(-2)


def per_hypothesis(reweight: Reweight | None, batch: int) -> Reweight | None:
    """Adapt a function for weights (B,N,K) or (B,H,N,K) to weights (B·N,1,K) or (B·N,H,1,K); B is `batch`."""
    if reweight is None:
        return None

    def together(tensor: Tensor) -> Tensor:
        return tensor.unflatten(0, (batch, -1)).movedim(1, -3).squeeze(-2)

    def change(weights: Tensor, mask: Tensor) -> Tensor:
        found = reweight(together(weights), together(mask.expand_as(weights)))
        return found.unsqueeze(-2).movedim(-3, 1).flatten(0, 1)

    return change


def check_reweight(reweight: ReweightBySite, sites: Collection[str]) -> None:
    """Raise a `RequestError` if `reweight` is not a mapping from these sites to functions."""
    if not isinstance(reweight, Mapping):
        raise RequestError(
            f"reweight is a {type(reweight).__name__}, expected functions by site, as in reweight={{'cross': flatten}}"
        )
    for site, function in reweight.items():
        if site not in sites:
            known = ", ".join(sites) or "none"
            raise RequestError(f"reweight names the attention {site!r}; this model has: {known}{nearest(site, sites)}")
        _checked(f"reweight[{site!r}]", function)


def _at(reweight: Reweight, steps: Tensor) -> Reweight:
    return reweight.at(steps) if isinstance(reweight, StepReweight) else reweight


def _checked(name: str, reweight: Callable[[Tensor, Tensor], Tensor]) -> Reweight:
    if not callable(reweight):
        raise RequestError(
            f"{name}: got a {type(reweight).__name__}, expected a function of weights and mask, such as regard.reweight.flatten"
        )
    return reweight


def _check_columns(name: str, columns: tuple[int, ...]) -> None:
    if not columns or not all(isinstance(column, int) for column in columns):
        raise RequestError(f"{name}: columns are {columns!r}, expected indices of tokens, as in {name}(2) or {name}(0, 3)")


def _marked(columns: Collection[int], weights: Tensor) -> Tensor:
    """Return flags (K) that are True at these columns; columns that do not exist are skipped."""
    width = weights.shape[-1]
    marked = torch.zeros(width, dtype=torch.bool, device=weights.device)
    marked[[column for column in columns if -width <= column < width]] = True
    return marked


def rescaled(changed: Tensor, weights: Tensor) -> Tensor:
    """Rescale the rows of changed weights to their previous sums; a row of zeros stays zero."""
    total = changed.sum(-1, keepdim=True)
    return changed * torch.where(total > 0, weights.sum(-1, keepdim=True) / total.clamp(min=torch.finfo(total.dtype).tiny), 0)
