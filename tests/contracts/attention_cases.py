"""Every mechanism that has a query. A new family is a file in `cases/` and a line here."""

import numpy as np
from contracts.cases import scored
from contracts.cases.base import Case

from regard.attention import Attention

CASES: list[Case] = [*scored.CASES]


def expected(
    case: Case,
    attention: Attention,
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    key_mask: np.ndarray | None,
    attn_mask: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Context and weights in float64 by the case's own formula."""
    parameters = {name: p.detach().double().numpy() for name, p in attention.named_parameters()}
    (batch, queries), keys = query.shape[:2], key.shape[1]
    heads = () if case.heads is None else (case.heads,)
    mask = np.ones((batch, *heads, queries, keys), bool)
    if attn_mask is not None:
        mask &= attn_mask[:, None] if heads and attn_mask.ndim == 3 else attn_mask
    if key_mask is not None:
        mask &= np.expand_dims(key_mask, tuple(range(1, mask.ndim - 1)))
        key, value = key * key_mask[..., None], value * key_mask[..., None]
    return case.formula(parameters, query, key, value, mask)
