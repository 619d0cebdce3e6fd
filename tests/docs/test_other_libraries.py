"""The table that compares regard with other libraries: each cell with a call is built and run, and no argument is missing."""

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
SECTION = PAGE.read_text("utf-8").partition("## Compared with other libraries\n")[2].partition("\n## ")[0]
COLUMNS = ("regard", "PyTorch", "Keras", "x-transformers", "fla")
NAMED = {name for code in re.findall(r"`([^`]+)`", SECTION) for name in re.findall(r"[A-Za-z_]\w*", code)}

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def codes(column: str) -> list[str]:
    """Return what the cells of a column have in backticks."""
    rows = [line.strip("|").split("|") for line in SECTION.splitlines() if line.startswith("| ")]
    place = [cell.strip() for cell in rows[0]].index(column)
    return [code for row in rows[1:] for code in re.findall(r"`([^`]+)`", row[place])]


def kinds(column: str) -> dict[str, Callable[..., Any]]:
    """Return the classes that the calls of a column name."""
    if column == "regard":
        return {name: getattr(regard.attention, name) for name in regard.attention.__all__}
    if column == "PyTorch":
        return {"MHA": nn.MultiheadAttention}
    if column == "Keras":
        os.environ["KERAS_BACKEND"] = "torch"
        layers = pytest.importorskip("keras").layers
        return {name: getattr(layers, name) for name in dir(layers) if name.endswith("Attention")}
    if column == "fla":
        return {"Attention": pytest.importorskip("fla.layers").Attention}
    return {"x": pytest.importorskip("x_transformers.x_transformers").Attention}


def arguments(column: str) -> set[str]:
    """Return the arguments of constructors and calls."""
    names = {name for name in kinds(column) if name in NAMED}
    calls = [getattr(kinds(column)[name], "call" if column == "Keras" else "forward", None) for name in names]
    given = [inspect.signature(call) for call in [*(kinds(column)[name] for name in names), *filter(None, calls)]]
    return {name for one in given for name in one.parameters} - {"self", "kwargs", "further", "others"}


@pytest.mark.parametrize("column", COLUMNS[:4])
def test_every_call_builds_and_runs(column):
    query = torch.randn(2, 5, 16)
    names = dict(kinds(column))
    if column == "PyTorch":
        names["MHA"] = partial(nn.MultiheadAttention, 16, 4, batch_first=True)
    if column == "x-transformers":
        build = names["x"]
        names |= {"x": lambda **options: build(**{"dim": 16, "heads": 4, "dim_head": 4} | options), "entmax15": entmax15}
    calls = [code for code in codes(column) if "(" in code]
    assert len(calls) > 5
    for code in calls:
        module = eval(code, dict(names))
        widths = re.findall(r"(?:key_size|value_size|kdim|vdim)=(\d+)", code) or ("16", "16")
        key, value = (torch.randn(2, 5, int(width)) for width in widths)
        if column == "x-transformers":
            result = module(query)
        elif column == "Keras":  # its layers without heads take a list
            result = module(query, query) if code.startswith(("MultiHead", "GroupQuery")) else module([query, query])
        else:
            result = module(query, key, value)
        first = result[0] if isinstance(result, tuple) else getattr(result, "context", result)
        assert torch.isfinite(torch.as_tensor(first)).all(), code


@pytest.mark.parametrize("column", COLUMNS)
def test_every_name_exists(column):
    single = [code for code in codes(column) if "(" not in code]
    assert single
    known = arguments(column)
    if column == "regard":
        known |= {*regard.attention.__all__, *inspect.signature(regard.attention.Attention.attend).parameters}
    if column == "fla":
        known |= {name for name in dir(pytest.importorskip("fla.layers")) if name[0].isupper()}
    assert not {*single} - known


@pytest.mark.parametrize("column", COLUMNS[1:])
def test_no_argument_is_missing(column):
    assert len(arguments(column)) > 10
    assert not arguments(column) - NAMED
