"""Every pooling × number format × circumstance × form, as `test_attention_matrix` has it for mechanisms with a query.

The expected values are loops of numpy over one text at a time, written without the code under test.
"""

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest
import torch
from contracts.battery import TOLERANCE
from contracts.test_attention_matrix import CIRCUMSTANCES, DTYPES, FORMS
from torch import Tensor, nn

from regard.attention import (
    AdditivePooling,
    AttentionPooling,
    Entmax15,
    GatedPooling,
    MeanPooling,
    MultiHeadPooling,
    Pooling,
    Sparsemax,
)

BATCH, KEYS, WIDTH, HIDDEN, HEADS = 5, 7, 11, 13, 3
REFUSED = {"one query": "a pooling has no query", "fast": "a pooling has one form, the plain one"}
POOLINGS: dict[str, Callable[[], Pooling]] = {
    "pooling_linear": lambda: AttentionPooling(WIDTH),
    "pooling_linear_sparsemax": lambda: AttentionPooling(WIDTH, normalizer=Sparsemax()),
    "pooling_additive": lambda: AdditivePooling(WIDTH, attention_size=HIDDEN),
    "pooling_additive_entmax15": lambda: AdditivePooling(WIDTH, attention_size=HIDDEN, normalizer=Entmax15()),
    "pooling_multi_head": lambda: MultiHeadPooling(WIDTH, num_heads=HEADS, attention_size=HIDDEN),
    "pooling_gated": lambda: GatedPooling(WIDTH, attention_size=HIDDEN),
    "pooling_mean": lambda: MeanPooling(WIDTH),
}


def cells() -> Iterator[object]:
    """As of the mechanisms: of the compiled ones `make test` runs one for each class."""
    for name, dtype, circumstance, form in product(POOLINGS, DTYPES, CIRCUMSTANCES, FORMS):
        marks = [pytest.mark.compile] if form == "compiled" else []
        if marks and (dtype, circumstance) != ("float32", "masked"):
            marks.append(pytest.mark.slow)
        yield pytest.param(name, dtype, circumstance, form, id=f"{form}-{circumstance}-{dtype}-{name}", marks=marks)


@pytest.mark.parametrize(("name", "dtype", "circumstance", "form"), list(cells()))
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # dynamo does so itself
def test_cell(name: str, dtype: str, circumstance: str, form: str):
    for part in (circumstance, form):
        if part in REFUSED:
            pytest.skip(f"{name}: {REFUSED[part]}")
    pool, values, mask = made(name, DTYPES[dtype], circumstance)
    compare(pool, values, mask, compiled="aot_eager" if form == "compiled" else "")


@pytest.mark.compile
@pytest.mark.slow
@pytest.mark.parametrize("name", POOLINGS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own imports warn
def test_inductor(name: str):
    """Each class once with the compiler that users have."""
    compare(*made(name, torch.float32, "masked"), compiled="inductor")


def made(name: str, dtype: torch.dtype, circumstance: str) -> tuple[Pooling, Tensor, Tensor]:
    torch.manual_seed(0)
    batch, keys = (1 if circumstance == "batch of one" else BATCH), (1 if circumstance == "one key" else KEYS)
    pool = POOLINGS[name]().to(dtype)
    values = torch.randn(batch, keys, WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype).requires_grad_()
    lengths = torch.tensor([keys, 1, 4, 2, 6])[:batch].clamp(max=keys)
    if circumstance == "empty rows":
        lengths[1] = 0
    return pool, values, torch.arange(keys) < lengths[:, None]


def compare(pool: Pooling, values: Tensor, mask: Tensor, *, compiled: str) -> None:
    """With the formula, and gradients that are finite; compiled, in one graph, those of the eager form too."""
    torch._dynamo.reset()
    run = torch.compile(pool, backend=compiled, fullgraph=True) if compiled else pool
    context, weights = run(values, key_mask=mask)
    assert context.dtype == values.dtype
    tolerance = TOLERANCE[values.dtype]
    wanted, wanted_weights = by_formula(pool, values.detach().double().numpy(), mask.numpy())
    np.testing.assert_allclose(context.detach().double().numpy(), wanted, rtol=0, atol=3 * tolerance)
    np.testing.assert_allclose(weights.detach().double().numpy(), wanted_weights, rtol=0, atol=tolerance)
    leaves = [values, *(parameter for parameter in pool.parameters() if parameter.requires_grad)]
    found = torch.autograd.grad(context.square().sum(), leaves, allow_unused=True)
    assert all(gradient.isfinite().all() for gradient in found if gradient is not None)
    if compiled:
        eager = torch.autograd.grad(pool(values, key_mask=mask).context.square().sum(), leaves, allow_unused=True)
        near = {"rtol": 1e-4, "atol": 1e-4} if compiled == "inductor" else {}
        for one, other in zip(found, eager, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                torch.testing.assert_close(one, other, **near)


def by_formula(pool: Pooling, values: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Contexts and weights of each text, head by head."""
    contexts, weights = [], []
    for own, real in zip(values, mask, strict=True):
        heads = np.zeros((HEADS if isinstance(pool, MultiHeadPooling) else 1, len(own)))
        kept = own[: real.sum()]
        if len(kept):
            for head, scores in enumerate(score(pool, kept)):
                heads[head, : len(kept)] = normalize(getattr(pool, "normalizer", None), scores)
        contexts.append((heads @ np.where(real[:, None], own, 0)).reshape(-1))
        weights.append(heads if isinstance(pool, MultiHeadPooling) else heads[0])
    return np.array(contexts), np.array(weights)


def score(pool: Pooling, states: np.ndarray) -> np.ndarray:
    """(H,K): w·h + b; v·tanh(W h + b); V tanh(W h + b); v·(tanh(W h) ⊙ σ(U h)); nothing."""
    parameters = {name: value.detach().double().numpy() for name, value in pool.named_parameters()}
    if isinstance(pool, MeanPooling):
        return np.zeros((1, len(states)))
    projected = states @ parameters["projection.weight"].T + parameters.get("projection.bias", 0)
    if isinstance(pool, AttentionPooling):
        return projected.T
    hidden = np.tanh(projected)
    if isinstance(pool, GatedPooling):
        hidden = hidden / (1 + np.exp(-(states @ parameters["gate_projection.weight"].T)))
    return np.atleast_2d(parameters["score_weight"]) @ hidden.T


def normalize(normalizer: nn.Module | None, scores: np.ndarray) -> np.ndarray:
    """Softmax; the projection onto the simplex; and 1.5-entmax by bisection for its threshold."""
    if isinstance(normalizer, Sparsemax | Entmax15):
        power = 1 if isinstance(normalizer, Sparsemax) else 2
        scaled = scores / power
        low, high = scaled.max() - 1, scaled.max()
        for _ in range(200):
            middle = (low + high) / 2
            if (np.maximum(scaled - middle, 0) ** power).sum() > 1:
                low = middle
            else:
                high = middle
        return np.maximum(scaled - high, 0) ** power
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()
