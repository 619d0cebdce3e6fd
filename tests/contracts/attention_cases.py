"""Every mechanism that has a query. A new family is a file in `cases/` and a line here."""

import numpy as np
import torch
from contracts.cases import coverage, local, location, monotonic, multihead, normalizers, projected, scored
from contracts.cases.base import Case
from torch import Tensor

from regard.attention import Attention

CASES: list[Case] = [
    *scored.CASES,
    *multihead.CASES,
    *projected.CASES,
    *normalizers.CASES,
    *local.CASES,
    *location.CASES,
    *coverage.CASES,
    *monotonic.CASES,
]

BY_NAME = {case.name: case for case in CASES}
FIRST = {case.name for case in {type(case.build()): case for case in reversed(CASES)}.values()}
"""Names of the first case of each class."""

DIFFERENT = FIRST | {"qk_norm_rotary", "talking_heads", "added_keys", "causal_window_rotary", "alibi", "dot_sparsemax"}
"""Names of the cases that `make test` gives to every test of the batteries; `make test-slow` takes the others, too."""


def expected(
    case: Case,
    attention: Attention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    key_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Context and weights in float64 by the case's own formula."""
    parameters = {name: p.detach().double().numpy() for name, p in attention.named_parameters()}
    q, k, v = (x.detach().double().numpy() for x in (query, key, value))
    heads = () if case.heads is None else (case.heads,)
    mask = torch.ones(len(q), *heads, q.shape[1], k.shape[1], dtype=torch.bool)
    if attn_mask is not None:
        mask &= attn_mask[:, None] if heads and attn_mask.ndim == 3 else attn_mask
    if key_mask is not None:
        mask &= key_mask[:, None, None] if heads else key_mask[:, None]
        there = key_mask.numpy()[..., None]
        k, v = np.where(there, k, 0), np.where(there, v, 0)
    return case.formula(parameters, q, k, v, mask.numpy())
