"""Training of the models for the pictures, and the file with the results."""

import json
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from docs.generate import pictures, toy
from docs.generate.heads import VARIANTS
from docs.generate.page import MECHANISMS, SOFT_FORM

FOLDER = Path(__file__).parent.parent / "mechanisms"
RESULTS = FOLDER / "toy.json"
_BUILDS = {
    **{m.name: m.build for m in MECHANISMS if m.build is not None},
    **{pictures.variant(name): build for name, build in VARIANTS.items()},
}
_HARD_FORM = {soft: hard for hard, soft in SOFT_FORM.items()}


def train_all() -> dict[str, dict[str, Any]]:
    """Train every mechanism on every task, in at most two processes of one thread each, and return the results."""
    tasks = [(name, task) for name in _BUILDS for task in toy.TASKS]
    found: dict[str, dict[str, Any]] = {}
    columns = TextColumn("{task.description:>32}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    workers = min(2, os.cpu_count() or 1)
    with (
        ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)) as pool,
        Progress(*columns) as progress,
    ):
        bar = progress.add_task("training", total=len(tasks))
        for (name, task), results in zip(tasks, pool.map(train_one, *zip(*tasks, strict=True)), strict=True):
            for key, result in zip((name, _HARD_FORM.get(name, "")), results, strict=False):
                found.setdefault(key, {})[task] = result
            progress.update(bar, advance=1, description=f"{name}, {task}")
    return found


def train_one(name: str, task: str) -> list[dict[str, Any]]:
    """Train one mechanism on one task. Return its results as plain data, and those of its hard form if it has one."""
    build = _BUILDS[name]
    return [
        {
            "accuracy": result.accuracy,
            "attended": result.attended,
            "source": result.source,
            "target": result.target,
            "output": result.output,
            "thousandths": (1000 * result.weights).round().astype(int).tolist(),
        }
        for result in toy.run(build, task)
    ]


def write_results(results: dict[str, dict[str, Any]]) -> None:
    """Write the results, with one line for each mechanism and task."""
    entries = [
        f"{json.dumps(name)}: {{\n"
        + ",\n".join(f"  {json.dumps(task)}: {json.dumps(found, separators=(',', ':'))}" for task, found in tasks.items())
        + "\n}"
        for name, tasks in sorted(results.items())
    ]
    RESULTS.write_text("{\n" + ",\n".join(entries) + "\n}\n", encoding="utf-8")
