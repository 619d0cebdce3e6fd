"""Every class × number format × circumstance × form: the table that `make contracts` prints.

A cell runs forward against the case's own formula, the call without weights against the call with them, and the gradients,
which must be finite; under `torch.compile` they must be those of the eager form too. A cell that does not apply is refused
with the reason that the case states.
"""

from itertools import product

import numpy as np
import pytest
import torch
from contracts.attention_cases import CASES, FIRST, expected
from contracts.battery import TOLERANCE, choose_kernels, gradients, inputs, made, masks
from contracts.cases.base import B, Case, K, Q
from torch import Tensor

from regard.attention import Attention

CIRCUMSTANCES = {
    "masked": ((B, Q, K), "both"),
    "empty rows": ((B, Q, K), "key_with_empty_row"),
    "batch of one": ((1, Q, K), "key"),
    "one key": ((B, Q, 1), "none"),
    "one query": ((B, 1, K), "key"),
}
DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
FORMS = ["plain", "fast", "compiled"]


def cells() -> list[object]:
    """All of them, for `make contracts` and the slow tests.

    `make test` runs float32 and bfloat16 with masks, since `test_attention` has every circumstance in float64; under
    `torch.compile` one cell for each class, and one with a modifier.
    """
    found: list[object] = []
    compiled = {*FIRST, "output_gate"}
    for case, dtype, circumstance, form in product(CASES, DTYPES, CIRCUMSTANCES, FORMS):
        marks = [pytest.mark.compile] if form == "compiled" else []
        if circumstance != "masked" or dtype == "float64" or (marks and (dtype != "float32" or case.name not in compiled)):
            marks.append(pytest.mark.slow)
        name = f"{form}-{circumstance}-{dtype}-{case.name}"
        found.append(pytest.param(case, dtype, circumstance, form, id=name, marks=marks))
    return found


@pytest.mark.parametrize(("case", "dtype", "circumstance", "form"), cells())
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # dynamo does so itself
def test_cell(case: Case, dtype: str, circumstance: str, form: str, monkeypatch):
    for name in (form, dtype, circumstance):
        if name in case.refused:
            pytest.skip(f"{case.name}: {case.refused[name]}")
    choose_kernels(monkeypatch, fast=form != "plain")
    shape, kind = CIRCUMSTANCES[circumstance]
    attention, kept = made(case, DTYPES[dtype]), masks(kind, shape)
    tensors = inputs(case, attention, shape, DTYPES[dtype])
    if form == "compiled":
        compiled_equals_eager(case, attention, tensors, kept)
        return
    out = attention(*tensors, **kept)
    without = attention(*tensors, **kept, need_weights=False)
    assert without.weights is None
    assert out.context.dtype == out.weights.dtype == without.context.dtype == DTYPES[dtype]
    equals_formula(case, attention, tensors, kept, out.context, out.weights)
    equals_formula(case, attention, tensors, kept, without.context)
    assert all(g.isfinite().all() for g in gradients(attention, tensors, **kept))


@pytest.mark.compile
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own imports warn
def test_inductor(case: Case):
    """Each class once with the compiler that users have."""
    attention, kept = made(case, torch.float32), masks("both")
    compiled_equals_eager(case, attention, inputs(case, attention, dtype=torch.float32), kept, backend="inductor")


def compiled_equals_eager(
    case: Case, attention: Attention, tensors: tuple[Tensor, ...], kept: dict[str, Tensor], backend: str = "aot_eager"
) -> None:
    """One graph, with weights and without, and its gradients."""
    torch._dynamo.reset()
    run = torch.compile(attention, backend=backend, fullgraph=True)
    # The same operations under aot_eager, but of rotary positions, which have no complex numbers there; inductor adds in
    # another order.
    near = {"rtol": 2e-4, "atol": 2e-4} if backend == "inductor" or case.name == "rotary" else {}
    for one, other in zip(gradients(run, tensors, **kept), gradients(attention, tensors, **kept), strict=True):
        torch.testing.assert_close(one, other, **near)
    with torch.no_grad():
        without = run(*tensors, **kept, need_weights=False)
    equals_formula(case, attention, tensors, kept, without.context)


def equals_formula(
    case: Case,
    attention: Attention,
    tensors: tuple[Tensor, ...],
    kept: dict[str, Tensor],
    context: Tensor,
    weights: Tensor | None = None,
) -> None:
    """In the tolerance of the number format."""
    tolerance = TOLERANCE[tensors[0].dtype]
    wanted, wanted_weights = expected(case, attention, *tensors, **kept)
    np.testing.assert_allclose(context.detach().double().numpy(), wanted, rtol=0, atol=tolerance * 3)
    if weights is not None:
        np.testing.assert_allclose(weights.detach().double().numpy(), wanted_weights, rtol=0, atol=tolerance)
