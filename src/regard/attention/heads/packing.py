"""Several documents packed into each row of a batch: their numbers, their mask and their positions."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.masks import causal_mask
from regard.errors import ShapeError
from regard.shapes import check_shape


def document_ids(lengths: Sequence[Sequence[int]], size: int | None = None) -> Int[Tensor, "B T"]:
    """Return the number of the document to which each position of a row belongs, from 0 on; −1 for padding.

    Args:
        lengths: Lengths of the documents of each row, in order.
        size: T, number of positions in each row; None for the length of the longest row.

    Raises:
        ShapeError: If a length is negative, or a row is longer than `size`.

    Example:
        >>> document_ids([[2, 1], [3, 2]])
        tensor([[ 0,  0,  1, -1, -1],
                [ 0,  0,  0,  1,  1]])
    """
    totals = [sum(row) for row in lengths]
    size = max(totals, default=0) if size is None else size
    if max(totals, default=0) > size or any(length < 0 for row in lengths for length in row):
        raise ShapeError(f"document_ids: lengths must be 0 or more, and sum to at most size={size} in a row; got {lengths}")
    rows = [[i for i, length in enumerate(row) for _ in range(length)] for row in lengths]
    return torch.tensor([row + [-1] * (size - len(row)) for row in rows], dtype=torch.long).view(len(rows), size)


def document_mask(documents: Int[Tensor, "B T"], *, causal: bool = True) -> Bool[Tensor, "B T T"]:
    """Build the `attn_mask` for rows with several packed documents: a position may attend to its own document only.

    Args:
        documents: Number of the document to which each position belongs; negative for padding, which attends to nothing.
        causal: Whether a position may attend only to itself and to earlier positions.

    Raises:
        ShapeError: If `documents` is not (B,T).

    Example:
        >>> document_mask(document_ids([[2, 1]])).int()
        tensor([[[1, 0, 0],
                 [1, 1, 0],
                 [0, 0, 1]]], dtype=torch.int32)
    """
    check_shape("documents", documents, "B T")
    same = (documents[:, :, None] == documents[:, None]) & (documents >= 0)[:, None]
    return same & causal_mask(documents.shape[1], device=documents.device) if causal else same


def document_positions(documents: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """Number the positions of packed rows so that each document starts at 0; use them as `query_positions` and `key_positions`.

    Args:
        documents: Number of the document to which each position belongs. The positions of a document are adjacent. Padding is
            numbered like a further document.

    Raises:
        ShapeError: If `documents` is not (B,T).

    Example:
        >>> document_positions(document_ids([[2, 1, 3]]))
        tensor([[0, 1, 0, 0, 1, 2]])
    """
    check_shape("documents", documents, "B T")
    index = torch.arange(documents.shape[1], device=documents.device).expand(documents.shape)
    new = torch.ones_like(documents, dtype=torch.bool)
    new[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return index - index.where(new, 0).cummax(1).values
