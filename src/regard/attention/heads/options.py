"""The options that mechanisms with heads pass on to `MultiHead`, which documents them."""

from typing import TypedDict

import torch

from regard.attention.heads.positions import RelativePositions


class MapOptions(TypedDict, total=False):
    """Arguments of `MultiHead` that all mechanisms with heads pass on to it."""

    key_size: int | None
    bias: bool
    causal: bool
    device: torch.device | str | None
    dtype: torch.dtype | None


class HeadOptions(MapOptions, total=False):
    """Arguments of `MultiHead` that mechanisms with other weights pass on to it."""

    num_kv_heads: int | None
    value_size: int | None
    dropout: float
    window: tuple[int, int] | None
    positions: RelativePositions | None
