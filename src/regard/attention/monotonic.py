"""Monotonic attention: each query scans on from where the query before it stopped, so that the alignment never goes back.

The process (Raffel et al. 2017, section 2.2): query i looks at keys j = t_{i−1}, t_{i−1}+1, … one by one, stops at each with
probability p_ij = σ(e_ij), and takes the value of the key where it stops, t_i. If it runs off the end, its context is zero.

`SoftMonotonic` computes the expectation of this process, which has gradients: it is for training. `HardMonotonic` stops where
p_ij > ½: it is for decoding, and has the same parameters. `mocha` lets both look back over a window.

Masked keys are passed over (p = 0 there). What has run off the end stays there: the expectation never brings its mass back,
and so the hard process does not either. A query that may attend nowhere therefore ends the process for the queries after it.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.additive import Additive
from regard.attention.arguments import check_instance, check_number, check_size
from regard.attention.base import Attention, AttentionOutput, Memory
from regard.attention.capabilities import Reweight, reweighted
from regard.attention.scored import ScoredAttention
from regard.errors import ConfigError
from regard.shapes import check_shape

EXPORTED_KEYS = 1 << 16
"""Number of keys up to which a mechanism exported with an open axis K is right."""


def expected_alignments(
    energies: Float[Tensor, "B Q K"],
    previous: Float[Tensor, "B K"] | None = None,
    *,
    mask: Tensor | None = None,
) -> Float[Tensor, "B Q K"]:
    """The probability that query i stops at key j, for all queries in order.

    α_ij = p_ij q_ij,  q_ij = (1 − p_i,j−1) q_i,j−1 + α_i−1,j = Σ_{k≤j} α_i−1,k Π_{l=k..j−1} (1 − p_il),  p = σ(e).

    The recurrence over keys is a scan by doubling: the products over 1, 2, 4, … keys are made for all queries at once, and
    each query takes log₂ K steps. There are only sums and products of numbers in [0, 1], so the result is exact to rounding
    for any energies. Cost: B·Q·K·log₂ K multiply-adds, Q·log₂ K small steps; with gradients, memory of as many numbers.

    Args:
        energies: e, before the sigmoid. Half types are computed in float32.
        previous: α_0; None for a start at the first key.
        mask: Boolean, broadcasting to (B,Q,K): True where a query may stop; None for everywhere.

    Returns:
        α (B,Q,K), in [0, 1]. Each row sums to at most the sum of the row before; what is missing ran off the end.

    Raises:
        ShapeError: If an axis does not fit.

    Reference: Raffel et al. 2017, eqs. 9 to 14.
    Differs from the paper: its closed form, cumprod(1 − p) · cumsum(α / cumprod(1 − p)) (appendix C), divides by a product
    that underflows, and is clamped to hide it; a scan needs neither.
    """
    sizes = check_shape("energies", energies, "B Q K")
    energies = energies.to(_compute_type(energies))
    if mask is not None:
        energies = energies.masked_fill(~mask, -torch.inf)  # p = 0, and no gradient, whatever was there
    stop, go_on = energies.sigmoid(), (-energies).sigmoid()
    if previous is None:
        previous = _at_the_first_key(energies)
    check_shape("previous", previous, "B K", sizes)
    products = _products(go_on)
    alignments = []
    for i in range(sizes["Q"]):
        reached = previous
        for reach, product in products:
            reached = reached + product[:, i] * _shift(reached, reach)
        previous = stop[:, i] * reached
        alignments.append(previous)
    return torch.stack(alignments, 1) if alignments else stop


def stopping_points(
    energies: Float[Tensor, "B Q K"], previous: Int[Tensor, " B"] | None = None, *, mask: Tensor | None = None
) -> Int[Tensor, "B Q"]:
    """The key where each query stops, for all queries in order: the first j ≥ t_{i−1} with p_ij = σ(e_ij) > ½.

    Args:
        energies: e, before the sigmoid.
        previous: t_0; None for a start at the first key.
        mask: Boolean, broadcasting to (B,Q,K): True where a query may stop; None for everywhere.

    Returns:
        t (B,Q), 0 ≤ t ≤ K and never falling; K for a query that ran off the end.

    Raises:
        ShapeError: If an axis does not fit.

    Reference: Raffel et al. 2017, algorithm 1.
    """
    sizes = check_shape("energies", energies, "B Q K")
    if previous is None:
        previous = torch.zeros(sizes["B"], dtype=torch.long, device=energies.device)
    check_shape("previous", previous, "B", sizes)
    chosen = energies > 0 if mask is None else (energies > 0) & mask
    # For each start the first key from there on: a minimum from the right. A start past the end stays there.
    index = torch.arange(sizes["K"] + 1, device=energies.device)
    first = torch.where(nn.functional.pad(chosen, (0, 1), value=True), index, index[-1]).flip(-1).cummin(-1).values.flip(-1)
    points = []
    for i in range(sizes["Q"]):
        previous = first[:, i].gather(1, previous[:, None])[:, 0]
        points.append(previous)
    return torch.stack(points, 1) if points else previous[:, None][:, :0]


class WeightNormAdditive(Additive):
    """Additive attention whose scores have a size of their own: score(q, k) = g v/‖v‖ · tanh(W_q q + W_k k + b).

    Shapes: W_q (Da,Dq), W_k (Da,Dk), b and v (Da), g a scalar, 1/√Da at first.

    Reference: Raffel et al. 2017, appendix G; Chiu & Raffel 2018, eq. 13 (with an offset r, which belongs to `SoftMonotonic`
    here: a softmax would cancel it).

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        key_size: Dk, width of the keys, ≥ 1; None for Dq.
        attention_size: Da, width of the tanh layer, ≥ 1; None for Dq.
        normalizer: Module that makes weights of (scores, mask), or its name: "softmax", "sparsemax", "entmax15" or "sigmoid";
            None for a softmax.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a size is not a whole number of 1 or more, or the normalizer is unknown.

    Example:
        >>> attention = WeightNormAdditive(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
    """

    def __init__(
        self,
        query_size: int,
        *,
        key_size: int | None = None,
        attention_size: int | None = None,
        normalizer: nn.Module | str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            query_size,
            key_size=key_size,
            attention_size=attention_size,
            bias=True,
            normalizer=normalizer,
            device=device,
            dtype=dtype,
        )
        self.gain = nn.Parameter(torch.tensor(self.attention_size**-0.5, device=device, dtype=dtype))

    def score_vector(self) -> Float[Tensor, " Da"]:
        """g v/‖v‖."""
        return self.gain * nn.functional.normalize(self.score_weight, dim=0)


@dataclass(frozen=True)
class SoftMonotonicState:
    """State of a soft monotonic mechanism: where the last query may have stopped."""

    alignment: Float[Tensor, "B K"]
    """α of the last query, in float32 or float64."""

    def select(self, index: Int[Tensor, " M"]) -> "SoftMonotonicState":
        """Keep the given rows of the batch, in the given order."""
        return SoftMonotonicState(self.alignment[index])


@dataclass(frozen=True)
class HardMonotonicState:
    """State of a hard monotonic mechanism: where the last query stopped."""

    position: Int[Tensor, " B"]
    """t of the last query; K once it has run off the end."""

    def select(self, index: Int[Tensor, " M"]) -> "HardMonotonicState":
        """Keep the given rows of the batch, in the given order."""
        return HardMonotonicState(self.position[index])


for _cls in (SoftMonotonicState, HardMonotonicState):
    torch.export.register_dataclass(_cls, serialized_type_name=f"regard.attention.{_cls.__name__}")


class MonotonicAttention(Attention):
    """Energies e_ij = scorer(q_i, k_j) + r: what the soft and the hard forms have in common."""

    normalized = False
    sequential: bool = True
    permutation_equivariant: bool = False
    stateful: bool = True

    def __init__(
        self,
        query_size: int,
        *,
        key_size: int | None,
        scorer: ScoredAttention | None,
        initial_offset: float,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_number(type(self).__name__, "initial_offset", initial_offset)
        self.scorer = checked_scorer(type(self).__name__, "scorer", query_size, key_size, scorer, device=device, dtype=dtype)
        self.query_size, self.key_size = query_size, self.scorer.key_size
        self.offset = nn.Parameter(torch.tensor(float(initial_offset), device=device, dtype=dtype))

    def prepare(
        self,
        key: Float[Tensor, "B K Dk"],
        value: Float[Tensor, "B K Dv"] | None = None,
        *,
        key_mask: Bool[Tensor, "B K"] | None = None,
    ) -> Memory:
        """Project the keys once, as the scorer does."""
        return self.scorer.prepare(key, value, key_mask=key_mask)

    def energies(self, query: Float[Tensor, "B Q Dq"], memory: Memory) -> Float[Tensor, "B Q K"]:
        """e = scorer(q, k) + r, for all queries at once, in float32 at least."""
        scores = self.scorer.scores(query, memory)
        return scores.to(_compute_type(scores)) + self.offset


class SoftMonotonic(MonotonicAttention):
    """Monotonic attention in expectation: weights = α, the probability of each key to be where the query stops.

    α_ij = p_ij Σ_{k≤j} α_i−1,k Π_{l=k..j−1} (1 − p_il),  p_ij = σ(e_ij + ε),  e_ij = scorer(q_i, k_j) + r,  α_0 = [1, 0, …].

    In training mode ε is Gaussian noise, from torch's generator, which teaches p to be near 0 or 1, as the hard form needs;
    otherwise it is zero. Energies are made for all queries of a call at once, only α is made query by query; see
    `expected_alignments` for its cost. A row of weights sums to 1 minus the probability of having run off the end.

    `hard()` gives the form for decoding. Its parameters have the same names, so
    `HardMonotonic(…).load_state_dict(soft.state_dict())` does too.

    Reference: Raffel et al. 2017, section 2.3 and eqs. 9 to 14; the energy is that of appendix G.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        key_size: Dk, ≥ 1; None for the scorer's, or Dq.
        scorer: Whose scores are the energies (its normalizer is not used); None for `WeightNormAdditive`, as in the paper.
        initial_offset: r at first. The longer the sources, the lower, or nothing reaches their end: the papers use −4 for
            speech, −1 for texts.
        noise: Standard deviation of ε in training mode, ≥ 0.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a width is not a whole number of 1 or more or not the scorer's, or the noise is negative.

    Example:
        >>> attention = SoftMonotonic(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
        >>> bool((weights.sum(-1) <= 1.0001).all())  # the rest has run off the end
        True
    """

    def __init__(
        self,
        query_size: int,
        *,
        key_size: int | None = None,
        scorer: ScoredAttention | None = None,
        initial_offset: float = -1.0,
        noise: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            query_size, key_size=key_size, scorer=scorer, initial_offset=initial_offset, device=device, dtype=dtype
        )
        self.noise = check_noise(type(self).__name__, noise)

    def hard(self) -> "HardMonotonic":
        """The form for decoding, with the same parameters: not a copy of them."""
        hard = HardMonotonic(self.query_size, scorer=self.scorer)
        hard.offset = self.offset
        return hard.train(self.training)

    def alignments(
        self, query: Float[Tensor, "B Q Dq"], memory: Memory, state: SoftMonotonicState | None, mask: Tensor | None
    ) -> tuple[Float[Tensor, "B Q K"], SoftMonotonicState]:
        """α of each query, in float32 at least, and the state after them."""
        self.refuse_open_axis(query)
        energies = self.energies(query, memory)
        if self.training and self.noise:
            energies = energies + self.noise * torch.randn_like(energies)
        previous = _at_the_first_key(energies) if state is None else state.alignment
        alignments = expected_alignments(energies, previous, mask=mask)
        return alignments, SoftMonotonicState(alignments[:, -1] if alignments.shape[1] else previous)

    def attend(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: SoftMonotonicState | None = None,
        *,
        attn_mask: Bool[Tensor, "..."] | None = None,
        reweight: Reweight | None = None,
        need_weights: bool = True,
    ) -> tuple[AttentionOutput, SoftMonotonicState]:
        """Attend with each query, in order; see `Attention.attend`."""
        mask = self.scorer.check(query, memory, attn_mask)
        alignments, state = self.alignments(query, memory, state, mask)
        weights = reweighted(alignments.to(memory.value.dtype), mask, reweight)
        return AttentionOutput(weights @ memory.value, weights if need_weights else None), state


class HardMonotonic(MonotonicAttention):
    """Monotonic attention for decoding: each query takes the value of one key, the first from the last one on with p > ½.

    t_i = min {j ≥ t_{i−1}: σ(e_ij) > ½},  e_ij = scorer(q_i, k_j) + r,  context_i = value at t_i, or zero if there is none.

    There is no gradient through the choice, to the values only: train `SoftMonotonic`, and take its `hard()`, or load its
    state dict. Cost: energies of all keys, B·Q·K comparisons, and one look-up for each query.

    Reference: Raffel et al. 2017, algorithm 1, with p > ½ in place of a draw, as the paper decodes.
    Differs from the paper: the energies are made for all keys at once, not one by one as the scan reaches them.

    Args:
        query_size: Dq, width of the queries, ≥ 1.
        key_size: Dk, ≥ 1; None for the scorer's, or Dq.
        scorer: Whose scores are the energies; None for `WeightNormAdditive`, as in the paper.
        initial_offset: r, until trained parameters are loaded.
        device: Device of the parameters, as in `torch.nn`.
        dtype: Type of the parameters, as in `torch.nn`.

    Raises:
        ConfigError: If a width is not a whole number of 1 or more, or not the scorer's.

    Example:
        >>> attention = HardMonotonic(256)
        >>> context, weights = attention(torch.randn(2, 5, 256), torch.randn(2, 9, 256))
        >>> context.shape, weights.shape
        (torch.Size([2, 5, 256]), torch.Size([2, 5, 9]))
    """

    def __init__(
        self,
        query_size: int,
        *,
        key_size: int | None = None,
        scorer: ScoredAttention | None = None,
        initial_offset: float = -1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            query_size, key_size=key_size, scorer=scorer, initial_offset=initial_offset, device=device, dtype=dtype
        )

    def attend(
        self,
        query: Float[Tensor, "B Q Dq"],
        memory: Memory,
        state: HardMonotonicState | None = None,
        *,
        attn_mask: Bool[Tensor, "..."] | None = None,
        reweight: Reweight | None = None,
        need_weights: bool = True,
    ) -> tuple[AttentionOutput, HardMonotonicState]:
        """Attend with each query, in order; see `Attention.attend`."""
        mask = self.scorer.check(query, memory, attn_mask)
        points, state = self.points(query, memory, state, mask)
        keys, width = memory.value.shape[1:]
        if reweight is not None:
            weights = points[..., None] == torch.arange(keys, device=points.device)
            weights = reweighted(weights.to(memory.value.dtype), mask, reweight)
            return AttentionOutput(weights @ memory.value, weights if need_weights else None), state
        if keys:
            # A row of the values in place of a product with zeros and a one.
            chosen = memory.value.gather(1, points.clamp(max=keys - 1)[..., None].expand(-1, -1, width))
            context = chosen.masked_fill((points == keys)[..., None], 0)
        else:
            context = memory.value.new_zeros(*points.shape, width)
        if not need_weights:
            return AttentionOutput(context), state
        weights = points[..., None] == torch.arange(keys, device=points.device)
        return AttentionOutput(context, weights.to(context.dtype)), state

    def points(
        self, query: Float[Tensor, "B Q Dq"], memory: Memory, state: HardMonotonicState | None, mask: Tensor | None
    ) -> tuple[Int[Tensor, "B Q"], HardMonotonicState]:
        """Where each query stops, and the state after them."""
        self.refuse_open_axis(query)
        previous = query.new_zeros(query.shape[0], dtype=torch.long) if state is None else state.position
        points = stopping_points(self.energies(query, memory), previous, mask=mask)
        return points, HardMonotonicState(points[:, -1] if points.shape[1] else previous)


def checked_scorer(
    called: str,
    name: str,
    query_size: int,
    key_size: int | None,
    scorer: ScoredAttention | None,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> ScoredAttention:
    """Return the scorer that was given, or else the paper's, built for the device and dtype.

    Raises:
        ConfigError: If the one given is no scorer, has other widths, or a state.
    """
    check_size(called, "query_size", query_size)
    if scorer is None:
        return WeightNormAdditive(query_size, key_size=key_size, device=device, dtype=dtype)
    check_instance(called, name, scorer, ScoredAttention, "Additive(256)")
    if scorer.stateful:
        raise ConfigError(
            f"{called}({name}={type(scorer).__name__}): expected a {name} without a state, such as General, Dot or Additive"
        )
    for size, wanted, has in (
        ("query_size", query_size, scorer.query_size),
        ("key_size", scorer.key_size if key_size is None else key_size, scorer.key_size),
    ):
        if wanted != has:
            raise ConfigError(
                f"{called}({size}={wanted}, {name}={type(scorer).__name__}({size}={has})): "
                f"build the {name} with {size}={wanted}"
            )
    return scorer


def check_noise(called: str, noise: float) -> float:
    """Refuse a standard deviation below zero.

    Raises:
        ConfigError: If it is one, or no number.
    """
    check_number(called, "noise", noise)
    if not noise >= 0:
        raise ConfigError(f"{called}(noise={noise}): a standard deviation must be 0 or more")
    return noise


def _at_the_first_key(energies: Float[Tensor, "B Q K"]) -> Float[Tensor, "B K"]:
    """α_0."""
    first = torch.arange(energies.shape[2], device=energies.device) == 0
    return first.to(energies.dtype).expand(energies.shape[0], -1)


def _products(go_on: Float[Tensor, "B Q K"]) -> list[tuple[int, Tensor]]:
    """Return for s = 1, 2, 4, … < K the product of the s factors before each key; zero for the first s keys, which have fewer.

    Where `torch.export` leaves K open, the steps are those of `EXPORTED_KEYS`; the surplus ones add zeros.
    """
    keys = go_on.shape[2]
    limit, reach, product = keys if isinstance(keys, int) else EXPORTED_KEYS, 1, _shift(go_on, 1)
    products = []
    while reach < limit:
        products.append((reach, product))
        product, reach = product * _shift(product, reach), 2 * reach
    return products


def _shift(x: Float[Tensor, "*any K"], reach: int) -> Float[Tensor, "*any K"]:
    """Move along the last axis by so many places, with zeros before."""
    return nn.functional.pad(x, (reach, 0))[..., : x.shape[-1]]


def _compute_type(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)
