"""The pictures: the toy problem's weights, the normalizers, the masks and the positions."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from docs.generate.draw import Panel, draw
from docs.generate.heads import VARIANTS
from docs.generate.toy import TASKS
from regard.attention import (
    ALiBi,
    Entmax15,
    RelativeBias,
    Rotary,
    Sigmoid,
    SoftCap,
    Softmax,
    SoftmaxSink,
    Softpick,
    Sparsemax,
    StickBreaking,
    Temperature,
    causal_mask,
    padding_mask,
    window_mask,
)

SCORES = (2.0, 1.5, 1.0, 0.0, -0.5, -2.0)
"""Scores of six keys, for the picture of the normalizers."""


def panel(task: str, found: dict[str, Any], head: int | None = None, *, title: str = "") -> Panel:
    """Return the panel of the weights for one task: those of one head, or the mean of all heads if `head` is None."""
    weights = np.array(found["thousandths"]) / 1000
    matrix = weights.mean(0) if head is None else weights[head]
    pairs = list(zip(found["target"], found["output"], strict=True))
    names = [right if right == wrote else f"{right} ({wrote})" for right, wrote in pairs]
    wrong = frozenset(i for i, (right, wrote) in enumerate(pairs) if right != wrote)
    otherwise = frozenset(solved_otherwise(found))
    return Panel(f"{title or task}: {percent(found['accuracy'])}", matrix, names, list(found["source"]), wrong, otherwise)


def solved_otherwise(found: dict[str, Any]) -> dict[int, tuple[str, float]]:
    """Return, for rows that are right although another letter has the largest weight, that other letter and its weight."""
    matrix = np.array(found["thousandths"]).mean(0) / 1000
    rows = {}
    for row, (right, wrote) in enumerate(zip(found["target"], found["output"], strict=True)):
        largest = int(matrix[row].argmax())
        if right == wrote != found["source"][largest]:
            rows[row] = (found["source"][largest], float(matrix[row, largest]))
    return rows


def percent(accuracy: float) -> str:
    """Return a share as a percentage, rounded down, so that 100% means that every letter is right."""
    return f"{math.floor(100 * accuracy)}%"


def mechanism(found: dict[str, Any], path: Path) -> None:
    """Draw the three tasks side by side, with a row for each head."""
    heads = len(found["copy"]["thousandths"])
    rows = [
        [panel(task, found[task], head, title=f"{task}, head {head + 1}" if heads > 1 else "") for task in TASKS]
        for head in range(heads)
    ]
    draw(rows, path, rows_name="output", columns_name="source")


def variants(results: dict[str, Any], path: Path) -> None:
    """Draw multi-head attention with masks and positions: a row for each variant, with the mean of its heads."""
    rows = [[panel(task, results[variant(name)][task], title=f"{name}, {task}") for task in TASKS] for name in VARIANTS]
    draw(rows, path, rows_name="output", cell=0.175)


def variant(name: str) -> str:
    """Return the name of a variant of multi-head attention in the file of results."""
    return f"MultiHead {name}"


def normalizers(path: Path) -> None:
    """Draw the weights that each normalizer gives for the same scores."""
    made = {
        "Softmax()": Softmax(),
        "Temperature(temperature=0.5)": Temperature(temperature=0.5),
        "Temperature(temperature=2)": Temperature(temperature=2),
        "Entmax15()": Entmax15(),
        "Sparsemax()": Sparsemax(),
        "Sigmoid()": Sigmoid(),
        "SoftmaxSink()": SoftmaxSink(),
        "Softpick()": Softpick(),
        "StickBreaking()": StickBreaking(),
        "SoftCap(cap=1)": SoftCap(cap=1),
    }
    weights = np.stack([normalizer(torch.tensor(SCORES)).numpy() for normalizer in made.values()])
    draw(
        [[Panel("weights, by score", weights, list(made), [f"{s:g}".replace("-", "−") for s in SCORES], form=".2f")]],
        path,
        cell=0.42,
    )


def masks(path: Path) -> None:
    """Draw masks, with blue where a query may attend."""
    made = {
        "causal": causal_mask(8),
        "causal, Q = 3, K = 8": causal_mask(3, 8),
        "window, before=2": window_mask(8, before=2),
        "window, before=1, after=1": window_mask(8, before=1, after=1),
        "padding, lengths 5, 8, 2": padding_mask(torch.tensor([5, 8, 2])),
        "causal & length 5": causal_mask(8) & padding_mask(torch.tensor([5]), 8),
    }
    panels = [Panel(name, mask.numpy() * 0.6) for name, mask in made.items()]
    draw([panels[:3], panels[3:]], path, cell=0.22, rows_name="query", columns_name="key")


def positions(path: Path) -> None:
    """Draw how positions change scores: biases of ALiBi, buckets of T5, products of rotary positions."""
    size, heads = 12, 4
    like = torch.zeros(())
    slopes = ALiBi(heads).bias(size, size, like).numpy()
    distance = torch.arange(size) - torch.arange(size)[:, None]
    both = RelativeBias(1, num_buckets=8, max_distance=10).bucket(distance).numpy()
    behind = RelativeBias(1, num_buckets=8, max_distance=10, bidirectional=False).bucket(distance).numpy()
    turned = Rotary().rotate(torch.ones(1, 1, size, 16), 0)[0, 0]
    product = (turned @ turned.T / 16).numpy()
    first = [Panel(f"ALiBi(4), head {h + 1}: bias", slopes[h], scale=3) for h in (0, 1, 2)]
    second = [
        Panel("RelativeBias: buckets, both ways", both, scale=12, form=".0f"),
        Panel("the same, causal", behind, scale=12, form=".0f"),
        Panel("Rotary: product of equal vectors", product),
    ]
    draw([first, second], path, cell=0.18, rows_name="query", columns_name="key")
