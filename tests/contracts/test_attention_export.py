"""Every mechanism under `torch.export`: the axes B, K and, unless it is sequential, Q stay open."""

import pytest
import torch
from contracts.attention_cases import BY_NAME, CASES, FIRST
from contracts.battery import inputs, made
from contracts.cases.base import B, Case, K, Q
from quick import quick
from torch import Tensor, nn
from torch.export import Dim

from regard.attention import AddedKeys, Attention, Dot, GatedDeltaNet, LinearAttention, MultiHead
from regard.errors import RequestError

OTHERS = [(3, 5, 11), (1, 1, 4), (4, 7, 40)]


def shapes(*, open_queries: bool) -> dict[str, dict[int, object]]:
    batch, keys = Dim("batch", min=1, max=64), Dim("keys", min=2, max=512)
    query = {0: batch, 1: Dim("queries", min=1, max=512)} if open_queries else {0: batch}
    return {"query": query} | {name: {0: batch, 1: keys} for name in ("key", "value", "key_mask")}


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("case", quick(BY_NAME, FIRST.__contains__))
def test_open_axes(case: Case, unchecked):
    attention = made(case, torch.float32).eval()
    tensors, mask = inputs(case, attention, dtype=torch.float32), torch.arange(K) < torch.tensor([[K], [9]])
    dynamic = shapes(open_queries=not attention.sequential)
    # Without guards: PyTorch 2.13 writes one wrongly where a name (key) begins another (key_mask).
    exported = torch.export.export(attention, tensors, {"key_mask": mask}, dynamic_shapes=dynamic).module(check_guards=False)
    for batch, queries, keys in OTHERS:
        shape = batch, Q if attention.sequential else queries, keys
        tensors = inputs(case, attention, shape, torch.float32, seed=1)
        mask = torch.arange(keys) < 2 * torch.arange(batch)[:, None]  # the first row has nothing to attend to
        found, wanted = exported(*tensors, key_mask=mask), attention(*tensors, key_mask=mask)
        torch.testing.assert_close(found.context, wanted.context, rtol=0, atol=1e-5)
        torch.testing.assert_close(found.weights, wanted.weights, rtol=0, atol=1e-5)


class WithoutWeights(nn.Module):
    """Self-attention that returns the context alone."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, need_weights=False).context


@torch.no_grad()
@pytest.mark.parametrize(
    "attention",
    [
        Dot(16),
        MultiHead(16, 4, dtype=torch.bfloat16),
        MultiHead(16, 4, causal=True, modifiers=[AddedKeys()]),
        LinearAttention(16, 4, causal=True),
        GatedDeltaNet(16, 4, causal=True),
    ],
    ids=lambda attention: type(attention).__name__,
)
def test_without_weights_sizes_stay_open(attention: Attention, unchecked):
    module, dtype = WithoutWeights(attention.eval()), next((x.dtype for x in attention.parameters()), torch.float32)
    sizes = {0: Dim("batch", min=1, max=1000), 1: Dim("length", min=2, max=1000)}
    exported = torch.export.export(module, (torch.randn(3, 9, 16, dtype=dtype),), dynamic_shapes=(sizes,)).module()
    for batch, length in ((1, 2), (70, 8), (2, 130)):
        x = torch.randn(batch, length, 16, dtype=dtype)
        # The products of a layout round differently: two steps of bfloat16, and the sums of a recurrence over 130 positions.
        rtol, atol = (0.02, 0.02) if dtype == torch.bfloat16 else (1e-4, 3e-5)
        torch.testing.assert_close(exported(x), module(x), rtol=rtol, atol=atol)


@torch.no_grad()
def test_a_causal_mechanism_exports_for_other_numbers_of_queries_than_keys(unchecked):
    attention = MultiHead(16, 4, causal=True).eval()
    query, key = torch.randn(3, 9, 16), torch.randn(3, 9, 16)
    sizes = {"query": {1: Dim("queries", min=1, max=99)}, "key": {1: Dim("keys", min=2, max=99)}, "need_weights": None}
    exported = torch.export.export(attention, (query, key), {"need_weights": False}, dynamic_shapes=sizes)
    for queries, keys in ((4, 9), (9, 4), (5, 5)):
        query, key = torch.randn(3, queries, 16), torch.randn(3, keys, 16)
        wanted = attention(query, key, need_weights=False).context
        torch.testing.assert_close(exported.module()(query, key, need_weights=False).context, wanted)


@pytest.mark.parametrize("case", [case for case in CASES if case.build().sequential], ids=lambda case: case.name)
def test_an_open_number_of_queries_is_refused_by_what_is_sequential(case: Case, unchecked):
    attention = made(case, torch.float32).eval()
    tensors = inputs(case, attention, (B, Q, K), torch.float32)
    mask = torch.ones(B, K, dtype=torch.bool)
    with pytest.raises(
        RequestError, match=r"takes its queries one after the other, .* leave axis 1 of the query out of dynamic"
    ):
        torch.export.export(attention, tensors, {"key_mask": mask}, dynamic_shapes=shapes(open_queries=True))
