"""Calls with no queries, no keys or no sentences: shapes as ever, no loss, and a state that the next call can use."""

import pytest
import torch
from contracts.attention_cases import CASES, DIFFERENT
from contracts.battery import inputs, made
from contracts.cases import multihead, projected
from contracts.cases.base import B, Case, K, Q
from quick import quick

NOTHING = {"no_queries": (B, 0, K), "no_keys": (B, Q, 0), "no_sentences": (0, Q, K), "no_queries_nor_keys": (B, 0, 0)}
OF_ONE_HEAD = [case for case in CASES if case not in multihead.CASES + projected.CASES]


@pytest.mark.parametrize("shape", NOTHING.values(), ids=NOTHING)
@pytest.mark.parametrize("case", quick({case.name: case for case in OF_ONE_HEAD}, DIFFERENT.__contains__))
def test_of_nothing(case: Case, shape):
    attention = made(case)
    batch, queries, keys = shape
    tensors = inputs(case, attention, shape)
    for kept in ({}, {"key_mask": torch.ones(batch, keys, dtype=torch.bool)}):
        for need_weights in (True, False):
            out = attention(*tensors, **kept, need_weights=need_weights)
            assert out.context.shape == (batch, queries, case.value_size)
            assert (out.context == 0).all()
            assert out.weights is None or (out.weights.shape == shape and out.weights.dtype == torch.float64)
            assert out.loss is None or out.loss == 0


@pytest.mark.parametrize("case", [case for case in OF_ONE_HEAD if case.build().stateful], ids=lambda case: case.name)
def test_no_queries_change_no_state(case: Case):
    attention = made(case)
    query, key, value = inputs(case, attention)
    memory = attention.prepare(key, value)
    whole, last = attention.attend(query, memory)
    _, state = attention.attend(query[:, :0], memory)
    _, state = attention.attend(query[:, :2], memory, state)
    _, state = attention.attend(query[:, :0], memory, state)
    rest, state = attention.attend(query[:, 2:], memory, state)
    torch.testing.assert_close(rest.weights, whole.weights[:, 2:])
    torch.testing.assert_close(vars(state), vars(last))
