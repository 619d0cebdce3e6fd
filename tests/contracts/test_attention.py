"""One battery for every attention mechanism: what `regard.attention.base` promises."""

import copy
import inspect
from itertools import product

import numpy as np
import pytest
import torch
from contracts.attention_cases import CASES, DIFFERENT, expected
from contracts.battery import MASKS, SHAPES, TOLERANCE, choose_kernels, forms, gradients, inputs, made, masks
from contracts.cases.base import DV, B, Case, K, Q
from quick import quick
from torch.utils._pytree import tree_leaves

from regard.attention import Attention
from regard.errors import ShapeError

FEW_MASKS = quick({kind: kind for kind in MASKS}, {"none", "key_with_empty_row", "both"}.__contains__)
CELLS = list(product(MASKS, SHAPES.values()))
FEW_CELLS = [(kind, shape) for kind, shape in CELLS if shape == SHAPES["full"] or kind in ("none", "both")]
PAIRS = {f"{case.name}-{form}": (case, form) for case in CASES for form in forms(case)}
OF_EVERY_CASE = {
    "test_equals_its_formula",
    "test_rows_sum_to_one_or_with_nothing_to_attend_to_to_zero",
    "test_permuting_keys_permutes_weights_where_declared",
    "test_gradcheck",
    "test_step_by_step_equals_all_at_once",
}
"""Tests of what a case's own formula decides; `make test` gives the other tests one case of each class."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test the cases with their forms; those that only `make test-slow` takes are marked."""
    every = metafunc.function.__name__ in OF_EVERY_CASE
    metafunc.parametrize("case", quick(PAIRS, lambda name: every or name.rpartition("-")[0] in DIFFERENT), indirect=True)


@pytest.fixture
def case(request, monkeypatch) -> Case:
    """A mechanism, its kernels on and off; what it refuses is skipped with its reason."""
    case, form = request.param
    reason = case.refused.get(request.function.__name__.removeprefix("test_"))
    if reason:
        pytest.skip(f"{case.name}: {reason}")
    choose_kernels(monkeypatch, fast=form == "fast")
    return case


@pytest.mark.parametrize("cells", [FEW_CELLS, pytest.param(CELLS, marks=pytest.mark.slow)], ids=["few cells", "all cells"])
def test_equals_its_formula(case, cells):
    """In float64; the other number formats are in the matrix."""
    attention = made(case)
    for kind, shape in cells:
        tensors, kept = inputs(case, attention, shape), masks(kind, shape)
        out = attention(*tensors, **kept)
        context, weights = expected(case, attention, *tensors, **kept)
        np.testing.assert_allclose(out.weights.detach().numpy(), weights, rtol=0, atol=1e-12, err_msg=f"{kind} {shape}")
        np.testing.assert_allclose(out.context.detach().numpy(), context, rtol=0, atol=3e-12, err_msg=f"{kind} {shape}")


@pytest.mark.parametrize("kind", FEW_MASKS)
def test_without_weights_gives_the_same_context_and_gradients(case, kind):
    attention = made(case)
    tensors, kept = inputs(case, attention), masks(kind)
    out = attention(*tensors, **kept, need_weights=False)
    assert out.weights is None
    torch.testing.assert_close(out.context, attention(*tensors, **kept).context, rtol=0, atol=1e-12)
    leaves = [[x.clone().requires_grad_() for x in tensors] for _ in range(2)]
    for xs, need in zip(leaves, (False, True), strict=True):
        attention(*xs, **kept, need_weights=need).context.square().sum().backward()
    for a, b in zip(*leaves, strict=True):
        torch.testing.assert_close(0 if a.grad is None else a.grad, 0 if b.grad is None else b.grad, rtol=0, atol=1e-11)


def test_without_value_the_keys_are_the_values(case):
    attention = made(case)
    query, key, _ = inputs(case, attention)
    if case.value_size not in (DV, key.shape[2]):
        pytest.skip(f"{case.name}: keys and values have widths of their own")
    torch.testing.assert_close(attention(query, key).context, attention(query, key, key.clone()).context)


def test_rows_sum_to_one_or_with_nothing_to_attend_to_to_zero(case):
    attention = made(case)
    kept = masks("key_with_empty_row")
    out = attention(*inputs(case, attention), **kept)
    sums = out.weights[1].sum(-1)
    assert torch.allclose(sums, torch.ones_like(sums)) == attention.normalized
    assert (out.weights[0] == 0).all()
    assert (out.context[0] == 0).all()


@pytest.mark.parametrize("dtype", quick({str(kind): kind for kind in TOLERANCE}, lambda name: "64" not in name))
@pytest.mark.parametrize("need_weights", [True, False])
def test_an_empty_row_has_finite_gradients_and_gives_none(case, dtype, need_weights):
    attention = made(case, dtype)
    tensors = inputs(case, attention, dtype=dtype)
    kept = masks("key_with_empty_row") | masks("attn_with_empty_row")
    found = gradients(attention, tensors, **kept, need_weights=need_weights)
    assert all(g.isfinite().all() for g in found)
    assert (found[0][0] == 0).all()


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), pytest.param(1e30, marks=pytest.mark.slow)])
@pytest.mark.parametrize("need_weights", [True, False])
def test_what_stands_behind_the_key_mask_changes_nothing(case, poison, need_weights):
    attention = made(case)
    query, key, value = inputs(case, attention)
    for kind in ("key", "key_with_empty_row"):
        kept = masks(kind)
        behind = ~kept["key_mask"][..., None]
        bad = (query, key.masked_fill(behind, poison), value.masked_fill(behind, poison))
        good = (query, key.masked_fill(behind, 0), value.masked_fill(behind, 0))
        for a, b in ((bad, good), ((query, bad[1]), (query, good[1]))):
            out, reference = (attention(*x, **kept, need_weights=need_weights) for x in (a, b))
            assert torch.equal(out.context, reference.context)
            assert not need_weights or torch.equal(out.weights, reference.weights)
            found, wanted = (gradients(attention, x, **kept, need_weights=need_weights) for x in (a, b))
            assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))


def test_permuting_keys_permutes_weights_where_declared(case):
    attention = made(case)
    query, key, value = inputs(case, attention)
    key_mask = masks("key")["key_mask"]
    order = torch.randperm(K, generator=torch.Generator().manual_seed(2))
    out = attention(query, key, value, key_mask=key_mask)
    moved = attention(query, key[:, order], value[:, order], key_mask=key_mask[:, order])
    close = torch.allclose(moved.weights, out.weights[..., order], rtol=0, atol=1e-12)
    assert close == attention.permutation_equivariant


@pytest.mark.parametrize("fast_mode", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["one direction", "all entries"])
def test_gradcheck(case, fast_mode):
    attention = made(case)
    tensors = inputs(case, attention, (1, 2, 3))
    names = [name for name, _ in attention.named_parameters()]
    mask = torch.tensor([[True, False, True]])

    def run(query, key, value, *parameters):
        call = torch.func.functional_call
        out = call(attention, dict(zip(names, parameters, strict=True)), (query, key, value), {"key_mask": mask})
        return out.context, out.weights

    leaves = [x.detach().clone().requires_grad_() for x in (*tensors, *attention.parameters())]
    assert torch.autograd.gradcheck(run, leaves, fast_mode=fast_mode)


@pytest.mark.parametrize("kind", FEW_MASKS)
def test_a_batch_equals_its_rows_one_by_one(case, kind):
    attention = made(case)
    tensors, kept = inputs(case, attention), masks(kind)
    out = attention(*tensors, **kept)
    for b in range(B):
        row = {n: m if n == "attn_mask" and m.ndim == 2 else m[b : b + 1] for n, m in kept.items()}
        one = attention(*(x[b : b + 1] for x in tensors), **row)
        torch.testing.assert_close(one.context, out.context[b : b + 1], rtol=0, atol=1e-12)
        torch.testing.assert_close(one.weights, out.weights[b : b + 1], rtol=0, atol=1e-12)


def test_step_by_step_equals_all_at_once(case):
    attention = made(case)
    query, key, value = inputs(case, attention)
    key_mask, attn_mask = masks("key")["key_mask"], masks("attn")["attn_mask"]
    out = attention(query, key, value, key_mask=key_mask, attn_mask=attn_mask)
    memory, state = attention.prepare(key, value, key_mask=key_mask), None
    for i in range(Q):
        step, state = attention.attend(query[:, i : i + 1], memory, state, attn_mask=attn_mask[i : i + 1])
        assert (state is not None) == attention.stateful
        torch.testing.assert_close(step.context, out.context[:, i : i + 1], rtol=0, atol=1e-12)
        torch.testing.assert_close(step.weights, out.weights[..., i : i + 1, :], rtol=0, atol=1e-12)


def test_a_memory_keeps_the_rows_selected(case):
    attention = made(case)
    query, key, value = inputs(case, attention)
    key_mask, index = masks("key")["key_mask"], torch.tensor([1, 0, 1])
    for mask in (key_mask, None):
        out = attention(query, key, value, key_mask=mask)
        memory = attention.prepare(key, value, key_mask=mask).select(index)
        selected, _ = attention.attend(query[index], memory)
        torch.testing.assert_close(selected.weights, out.weights[index], rtol=0, atol=1e-12)
        torch.testing.assert_close(selected.context, out.context[index], rtol=0, atol=1e-12)


def test_nothing_is_kept_on_the_module(case):
    attention = made(case)
    before = copy.deepcopy(attention)
    attention(*inputs(case, attention), **masks("both"))
    assert attention.__dict__.keys() == before.__dict__.keys()
    assert all(torch.equal(x, y) for x, y in zip(attention.parameters(), before.parameters(), strict=True))
    assert not list(attention.buffers())


def test_vmap_over_one_more_axis_outside(case):
    attention = made(case)
    stacks = [torch.stack(parts) for parts in zip(*(inputs(case, attention, seed=s) for s in range(3)), strict=True)]
    key_mask = masks("key_with_empty_row")["key_mask"]

    def run(query, key, value):
        return attention(query, key, value, key_mask=key_mask).context

    found = torch.func.vmap(run)(*stacks)
    for i in range(3):
        torch.testing.assert_close(found[i], run(*(x[i] for x in stacks)), rtol=0, atol=1e-12)

    def loss(*tensors):
        return run(*tensors).square().sum()

    found = torch.func.vmap(torch.func.grad(loss))(*stacks)
    for i in range(3):
        torch.testing.assert_close(found[i], torch.func.grad(loss)(*(x[i] for x in stacks)), rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", quick({"bfloat16": torch.bfloat16, "float16": torch.float16}, "bfloat16".__eq__))
@pytest.mark.parametrize("need_weights", [True, False])
def test_autocast(case, dtype, need_weights):
    attention = made(case, torch.float32)
    tensors, kept = inputs(case, attention, dtype=torch.float32), masks("key_with_empty_row")
    reference = attention(*tensors, **kept)
    with torch.autocast("cpu", dtype):
        out = attention(*tensors, **kept, need_weights=need_weights)
        found = gradients(attention, tensors, **kept, need_weights=need_weights)
    torch.testing.assert_close(out.context.float(), reference.context, rtol=0, atol=6e-2)
    assert all(g.isfinite().all() for g in found)


@torch.no_grad()
def test_the_step_form_exports(case, unchecked):
    attention = made(case, torch.float32)
    query, key, value = inputs(case, attention, (B, 1, K), torch.float32)

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def forward(self, query, memory, state=None):
            return self.attention.attend(query, memory, state)

    memory, state = attention.prepare(key, value, key_mask=masks("key")["key_mask"]), None
    for _ in range(2 if has_state(case, attention) else 1):
        arguments = (query, memory) if state is None else (query, memory, state)
        # Without guards: PyTorch 2.13 writes one wrongly where a name (key) begins another (key_mask).
        exported = torch.export.export(Step(), arguments).module(check_guards=False)
        (out, found), (wanted, state) = exported(*arguments), attention.attend(*arguments)
        torch.testing.assert_close(out.context, wanted.context)
        torch.testing.assert_close(tree_leaves(found), tree_leaves(state))


def has_state(case: Case, attention: Attention) -> bool:
    """Return whether a state depends on earlier queries of the same memory; that of a causal attention brings its own keys."""
    return attention.stateful and "step_by_step_equals_all_at_once" not in case.refused


def test_a_state_keeps_the_rows_selected(case):
    attention = made(case)
    if not has_state(case, attention):
        pytest.skip(f"{case.name}: no state, or one that brings its own keys")
    query, key, value = inputs(case, attention)
    memory, index = attention.prepare(key, value), torch.tensor([1, 0, 1])
    _, state = attention.attend(query[:, :2], memory)
    rest, _ = attention.attend(query[index, 2:], memory.select(index), state.select(index))
    torch.testing.assert_close(rest.weights, attention(query, key, value).weights[index, 2:], rtol=0, atol=1e-12)


def test_a_wrong_width_is_named(case, unchecked):
    attention = made(case)
    query, key, value = inputs(case, attention)
    size = attention.key_size
    with pytest.raises(ShapeError, match=rf"key has shape \(2, 17, {size + 1}\), expected \(B, K, {size}\)"):
        attention(query, torch.cat([key, key[..., :1]], -1), value)
    with pytest.raises(ShapeError, match=rf"query has shape \(2, 3, 1\), expected \(B, Q, {attention.query_size}\)"):
        attention(query[..., :1], key, value)
    with pytest.raises(ShapeError, match=r"value has shape \(2, 16, 13\).*axis 1 \(K\) is 16, not 17"):
        attention(query, key, value[:, 1:])
    with pytest.raises(ShapeError, match=r"query has shape \(1, 3, .*axis 0 \(B\) is 1, not 2"):
        attention(query[:1], key, value)


def test_masks_with_axes_of_one_are_those_in_full(case):
    attention = made(case)
    tensors, mask = inputs(case, attention), masks("attn_of_batch")["attn_mask"]
    for small in (mask[:1], mask[:, :1], mask[0, :1], mask[:, None], mask[:, None, :1], mask[:1, None]):
        by_batch = small[:, 0] if small.ndim == 4 else small
        full = by_batch.expand(B, Q, K)
        full = full if case.heads is None else full[:, None].expand(B, case.heads, Q, K)
        for need_weights in (True, False):
            out, wanted = (attention(*tensors, attn_mask=m, need_weights=need_weights) for m in (small, full))
            torch.testing.assert_close(out.context, wanted.context, rtol=0, atol=1e-12)
            if need_weights:
                torch.testing.assert_close(out.weights, wanted.weights, rtol=0, atol=1e-12)


def test_without_a_batch_axis(case):
    attention = made(case)
    tensors, kept = inputs(case, attention), masks("both")
    out = attention(*tensors, **kept)
    one = attention(*(x[1] for x in tensors), **{name: mask[1] for name, mask in kept.items()})
    torch.testing.assert_close(one.context, out.context[1], rtol=0, atol=1e-12)
    torch.testing.assert_close(one.weights, out.weights[1], rtol=0, atol=1e-12)


def test_without_a_key_the_query_attends_to_itself(case, unchecked):
    attention = made(case)
    query, *_ = inputs(case, attention)
    if attention.query_size != attention.key_size:
        with pytest.raises(ShapeError, match="got no key, so the query attends to itself"):
            attention(query)
    else:
        torch.testing.assert_close(attention(query).context, attention(query, query).context)


def test_the_output_unpacks_to_context_and_weights(case):
    attention = made(case)
    out = attention(*inputs(case, attention))
    context, weights = out
    assert context is out.context is out[0]
    assert weights is out.weights is out[1]


def test_device_and_dtype_of_the_parameters(case):
    kind = type(made(case))
    names = inspect.signature(kind).parameters
    assert {"device", "dtype"} <= names.keys()
    sizes = {"num_heads": 1} if "num_heads" in names else {"chunk_size": 2} if "MoChA" in kind.__name__ else {}
    attention = kind(6, **sizes, device="meta", dtype=torch.bfloat16)
    assert all(p.is_meta and p.dtype == torch.bfloat16 for p in attention.parameters())


def test_a_wrong_mask_is_named(case, unchecked):
    attention = made(case)
    tensors = inputs(case, attention)
    with pytest.raises(ShapeError, match=r"key_mask is float32, expected a boolean mask of shape \(B, K\) = \(2, 17\)"):
        attention(*tensors, key_mask=torch.ones(B, K))
    with pytest.raises(ShapeError, match=r"key_mask has shape \(17, 2\), expected \(B, K\) = \(2, 17\)"):
        attention(*tensors, key_mask=torch.ones(K, B, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"attn_mask has shape \(2, 17\), expected \(Q, K\) = \(3, 17\) or \(B, Q, K\)"):
        attention(*tensors, attn_mask=torch.ones(B, K, dtype=torch.bool))
    if case.heads is None:
        with pytest.raises(ShapeError, match="this mechanism has no heads"):
            attention(*tensors, attn_mask=torch.ones(B, 3, Q, K, dtype=torch.bool))
