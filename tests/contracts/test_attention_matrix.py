"""Every class × number format × circumstance × form: the table that `make contracts` prints.

A cell runs forward against the case's own formula, the call without weights against the call with them, and the gradients,
which must be finite; under `torch.compile` they must be those of the eager form too. A cell that does not apply is refused
with the reason that the case states.
"""

import numpy as np
import pytest
import torch
from contracts.attention_cases import CASES, expected
from contracts.battery import TOLERANCE, choose_kernels, gradients, inputs, made, masks
from contracts.cases.base import B, Case, K, Q
from torch import Tensor

CIRCUMSTANCES = {
    "masked": ((B, Q, K), "both"),
    "empty rows": ((B, Q, K), "key_with_empty_row"),
    "batch of one": ((1, Q, K), "key"),
    "one key": ((B, Q, 1), "none"),
    "one query": ((B, 1, K), "key"),
}
DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
FORMS = ["plain", "fast", pytest.param("compiled", marks=pytest.mark.compile)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("circumstance", CIRCUMSTANCES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # dynamo does so itself
def test_cell(case: Case, dtype: str, circumstance: str, form: str, monkeypatch):
    for name in (form, dtype, circumstance):
        if name in case.refused:
            pytest.skip(f"{case.name}: {case.refused[name]}")
    choose_kernels(monkeypatch, fast=form != "plain")
    shape, kind = CIRCUMSTANCES[circumstance]
    attention, kept = made(case, DTYPES[dtype]), masks(kind, shape)
    tensors = inputs(case, attention, shape, DTYPES[dtype])
    run = attention
    if form == "compiled":
        torch._dynamo.reset()
        run = torch.compile(attention, backend="aot_eager", fullgraph=True)
    equals_formula(case, run, attention, tensors, kept)
    found = gradients(run, tensors, **kept)
    assert all(g.isfinite().all() for g in found)
    if form == "compiled":
        for one, other in zip(found, gradients(attention, tensors, **kept), strict=True):
            torch.testing.assert_close(one, other)


def equals_formula(case: Case, run: torch.nn.Module, attention, tensors: tuple[Tensor, ...], kept: dict[str, Tensor]) -> None:
    """With and without weights, in the tolerance of the number format."""
    tolerance = TOLERANCE[tensors[0].dtype]
    context, weights = expected(case, attention, *tensors, **kept)
    out = run(*tensors, **kept)
    np.testing.assert_allclose(out.weights.detach().double().numpy(), weights, rtol=0, atol=tolerance)
    np.testing.assert_allclose(out.context.detach().double().numpy(), context, rtol=0, atol=tolerance * 3)
    without = run(*tensors, **kept, need_weights=False)
    assert without.weights is None
    np.testing.assert_allclose(without.context.detach().double().numpy(), context, rtol=0, atol=tolerance * 3)
