"""The table that compares regard with other libraries: each cell with a call is built and run."""

import inspect
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from entmax import entmax15
from torch import nn

import regard.attention

PAGE = Path(__file__).parents[2] / "docs/mechanisms/index.md"
TITLE = "## Compared with other libraries\n"
COLUMNS = ("regard", "PyTorch", "Keras", "x-transformers")


def column_of(column: str) -> list[str]:
    """Return the cells of a column."""
    section = PAGE.read_text("utf-8").partition(TITLE)[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    place = [cell.strip() for cell in lines[0]].index(column)
    return [line[place] for line in lines[1:]]


def cells(column: str) -> list[str]:
    """Return the calls in a column; names of arguments of a call are not built."""
    found = [re.search(r"`([^`]*\(.*\))`", cell) for cell in column_of(column)]
    return [match[1] for match in found if match]


def names_of(column: str) -> dict[str, Callable[..., Any]]:
    """Return the names that the calls of a column use."""
    if column == "regard":
        return {name: getattr(regard.attention, name) for name in regard.attention.__all__}
    if column == "PyTorch":
        return {"MHA": partial(nn.MultiheadAttention, 16, 4, batch_first=True)}
    if column == "Keras":
        os.environ["KERAS_BACKEND"] = "torch"
        return vars(pytest.importorskip("keras").layers)
    attention = pytest.importorskip("x_transformers.x_transformers").Attention
    return {"x": lambda **options: attention(**{"dim": 16, "heads": 4, "dim_head": 4} | options), "entmax15": entmax15}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("column", COLUMNS)
def test_every_cell_builds_and_runs(column):
    query, key = torch.randn(2, 5, 16), torch.randn(2, 5, 16)
    inputs = (query, key, key) if column == "PyTorch" else (query,) if column == "x-transformers" else (query, key)
    names = names_of(column)
    calls = cells(column)
    assert len(calls) > 5
    for text in calls:
        module = eval(text, dict(names))
        # Keras's layers without heads take a list.
        result = module([*inputs]) if column == "Keras" and "(4, 4" not in text and "(4, 8" not in text else module(*inputs)
        first = result[0] if isinstance(result, tuple) else getattr(result, "context", result)
        assert torch.isfinite(torch.as_tensor(first)).all(), text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_names_of_fla_exist():
    """Its layers need a GPU, but a CPU can import them; their functions are compared in test_parity_fla."""
    layers = pytest.importorskip("fla.layers")
    named = [match[1] for cell in column_of("fla") if (match := re.search(r"`(\w+)`", cell))]
    classes = [name for name in named if name[0].isupper()]
    arguments = [name for name in named if name[0].islower()]
    assert len(classes) > 5
    assert len(arguments) > 3
    assert not [name for name in classes if not hasattr(layers, name)]
    assert {*arguments} <= {*inspect.signature(layers.Attention).parameters}
