"""An estimate of the training time on this machine, measured before training starts."""

import copy
import time
import warnings
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from regard.machine import seed_step
from regard.training.data import to_device
from regard.training.optimizer import build_optimizer
from regard.training.recorded import record_gradients
from regard.training.run import Run

_MEASURED = 8
"""Number of batches that are timed; their mean is used, because batches differ in length."""
_ENOUGH = 5.0
"""Seconds of timing after which no further batch is started."""


def describe_time(run: Run) -> str:
    """Return a sentence on the time of the remaining updates: `training takes about 12 minutes on this machine (2 threads); …`.

    A copy of the model makes a few updates, which include the steps of the optimizer; the run itself does not change.

    Returns:
        The sentence; empty if there is no estimate, for example with several processes.
    """
    left = run.total_steps - run.progress.step
    if not run.team.ranks.alone or left <= 0 or run.progress.finished:
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fused attention warns that these gradients, which nothing uses, may vary
            seconds = _measure(run) * left
    except Exception:  # an estimate must not end a run; the first update will raise and explain the error
        return ""
    minutes = run.config.training.max_minutes
    seconds = min(seconds, 60 * minutes) if minutes else seconds
    machine = run.machine
    where = str(machine.device) if machine.device.type != "cpu" else f"{machine.threads} thread{'s' * (machine.threads != 1)}"
    return f"training takes {_spell(seconds)} on this machine ({where}); validation takes a little more time"


def _measure(run: Run) -> float:
    """Return the mean time of an update, in seconds."""
    trial, training = copy.copy(run.task), run.config.training
    trial.model = copy.deepcopy(run.model).train()
    optimizer = build_optimizer(trial.model, training, bfloat16=run.machine.precision == "bfloat16")
    recorded = record_gradients(run, trial, torch.zeros((), device=run.machine.device))
    seed_step(run.config.seed, 0)
    wait = torch.cuda.synchronize if run.machine.device.type == "cuda" else lambda: None

    def add_gradients(indices: np.ndarray) -> None:
        batch = run.task.batch(indices)
        if recorded is not None:
            recorded.add(batch, 1.0)
            return
        with run.machine.autocast():
            loss, _ = trial.loss(to_device(batch, run.machine.device), 1, run.total_steps)
        loss.backward()

    taken: list[float] = []
    begin = time.perf_counter()
    for number, indices in enumerate(_batches(run)):
        if recorded is not None:
            add_gradients(indices)  # if the shape is new, this records it; only the second call is timed
        wait()
        start = time.perf_counter()
        add_gradients(indices)
        wait()
        middle = time.perf_counter()
        norm = nn.utils.clip_grad_norm_(trial.model.parameters(), training.clip_norm or 1.0)
        optimizer.step()
        optimizer.zero_grad() if recorded is None else recorded.zero()
        float(norm)  # waits for a GPU
        end = time.perf_counter()
        seconds = (middle - start) * training.accumulate + end - middle
        taken += [seconds] * bool(number)  # the first batch prepares kernels and memory
        if end - begin > _ENOUGH:
            taken = taken or [seconds]
            break
    return float(np.mean(taken))


def _batches(run: Run) -> Iterator[np.ndarray]:
    """Yield batches spread over an epoch; the first one comes twice, as a warm-up."""
    batches = list(run.task.sampler())
    places = np.linspace(0, len(batches) - 1, _MEASURED).astype(int)
    for place in [places[0], *places]:
        yield batches[place]


def _spell(seconds: float) -> str:
    if seconds < 45:
        return "less than a minute"
    minutes = seconds / 60
    if minutes < 90:
        return f"about {max(round(minutes), 1)} minute{'s' * (round(minutes) > 1)}"
    hours = minutes / 60
    return f"about {hours:.1f} hours" if hours < 24 else f"about {hours / 24:.1f} days"
