"""One update of the weights: its batches, their gradient, averaged over processes, and a step of the optimizer.

The updates of an epoch can start at any batch, and the batches of an update can be shared among several processes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from math import gcd
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.errors import TrainingError, out_of_memory
from regard.machine import exact_dtype, seed_step, strictly_deterministic, to_device
from regard.plurals import counted
from regard.training.casting import CastOnce, can_cast_once
from regard.training.recorded import RecordedGradients, can_record, scale_loss
from regard.training.run import Run

# Part of PyTorch's error message about an operation that has no deterministic form.
_NOT_DETERMINISTIC = "does not have a deterministic implementation"


@dataclass(frozen=True)
class Update:
    """The batches of one update of the weights, or one process's part of them."""

    batches: list[Any]
    weights: list[float]
    """Factor of each batch's loss: 1, or 0 if the batch has no data for this process, which then only exchanges gradients."""
    count: int
    """Number of target tokens or texts (see `Trainable.count`) in the batches of all processes; it divides the summed loss."""
    joint: int
    """Number of the sampler's batches in this update, for all processes together."""
    last: bool
    """Whether this is the last update of its epoch."""


def load_updates(run: Run) -> Iterator[Update]:
    """Yield the updates of the current epoch, from the position of the run, which counts the batches of completed updates."""
    task, ranks, accumulate = run.task, run.team.ranks, run.config.training.accumulate
    run.sampler.resume_at(run.progress.epoch, run.progress.batch)
    batches = iter(run.sampler)
    group = list(islice(batches, accumulate))
    while group:
        following = list(islice(batches, accumulate))
        parts = share_batches(group, ranks.rank, ranks.world_size)
        seed_step(run.config.seed, run.progress.step + 1, ranks.rank)  # a batch may draw random numbers (BPE-dropout)
        yield Update(
            # A process without data computes a gradient with weight 0, because the other processes wait for one.
            batches=[task.batch(part if len(part) else group[0][:1]) for part in parts],
            weights=[1.0 if len(part) else 0.0 for part in parts],
            count=sum(task.count(indices) for indices in group),
            joint=len(group),
            last=not following,
        )
        group = following


def share_batches(batches: Sequence[np.ndarray], rank: int, world_size: int) -> list[np.ndarray]:
    """Return one process's part of the batches of an update, as indices of examples; each belongs to exactly one process.

    If possible, processes take whole batches, which keeps batches large. If n processes share a batch, each takes every n-th
    example, so that all n processes have examples of similar lengths, and their numbers of examples differ by at most one.
    All processes get the same number of arrays; some may be empty.
    """
    groups = gcd(len(batches), world_size)
    group, member = rank % groups, rank // groups
    return [batch[member :: world_size // groups] for batch in batches[group::groups]]


class _Loss(nn.Module):
    """The loss of a batch as a module, because DistributedDataParallel averages the gradients of modules."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.model, self._run = run.task.model, run
        # PyTorch warns if it searches for unused parameters and finds none.
        self.unused = None if run.team.ranks.alone else nn.Parameter(torch.zeros(1, device=run.machine.device))

    def forward(self, batch: Any, step: int) -> tuple[Tensor, Tensor]:
        with self._run.machine.autocast():
            loss, nll = self._run.task.loss(batch, step, self._run.total_steps)
        return loss, nll.detach()


class Updater:
    """The part of a run that makes its updates.

    The loss of an update is the sum of the losses of all words or texts in its batches, divided by their number. So the
    loss does not depend on how the words or texts are divided into batches.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._loss_of: nn.Module = _Loss(run)
        if can_cast_once(run):
            self._loss_of = CastOnce(self._loss_of, getattr(torch, run.machine.precision))
        if not run.team.ranks.alone:
            # Each update searches for unused parameters, so any model works, and gradients are summed in the same order from
            # the first update on, as an exact resume needs. Otherwise, PyTorch chooses another order after the first update.
            self._loss_of = DistributedDataParallel(self._loss_of, find_unused_parameters=True)
        # On the device, so that an update does not have to wait for the GPU.
        self._loss = torch.zeros((), device=run.machine.device, dtype=exact_dtype(run.machine.device))
        self._recent = torch.zeros_like(self._loss)
        self._skipped = torch.zeros((), device=run.machine.device, dtype=torch.int64)
        self._not_counted = torch.zeros_like(self._skipped)
        self._recorded: RecordedGradients | None = None
        if can_record(run):
            trained = [weight for weight in run.model.parameters() if weight.requires_grad]
            self._recorded = RecordedGradients(trained, lambda batch: self._loss_of(batch, 1), self._recent)
        alone_on_gpu = run.machine.device.type == "cuda" and run.team.ranks.alone
        self._strictly: Callable[[], AbstractContextManager[None]] = strictly_deterministic if alone_on_gpu else nullcontext

    def make(self, update: Update) -> None:
        """Make one update.

        Raises:
            TrainingError: If too many losses or gradients are not finite, or there is not enough memory for one example (with
                several processes: for one batch).
        """
        run = self._run
        step = run.progress.step + 1
        while (error := self._add_gradients(update, step)) is not None:
            self._adapt(error, update)
        self._step(step, update.count)
        self._count(update, step)
        if run.collects_losses_at(step):
            self.collect_losses()
        run.lap("seconds")

    def _add_gradients(self, update: Update, step: int) -> BaseException | None:
        """Compute the gradient of an update; return an error after which it can be computed in another way."""
        run = self._run
        parts = [
            (part, weight)
            for batch, weight in zip(update.batches, update.weights, strict=True)
            for part in split_batch(batch, run.progress.parts)
        ]
        seed_step(run.config.seed, step, run.team.ranks.rank)
        # Divided by the number of losses per process: gradients are averaged over processes, but their sum is needed.
        factor = (1.0 if run.loss_scale is None else run.loss_scale.factor) / (update.count / run.team.size)
        self._recent.zero_()
        try:
            with self._strictly():
                for number, (part, weight) in enumerate(parts, 1):
                    if self._recorded is not None:
                        self._recorded.add(part, factor * weight)
                    else:
                        with self._without_averaging(number < len(parts)):
                            loss, nll = self._loss_of(to_device(part, run.machine.device), step)
                            scale_loss(loss, factor * weight).backward()
                        self._recent += nll * weight
        except (RuntimeError, MemoryError) as error:
            if not (self._is_too_strict(error) or out_of_memory(error)):
                raise
            error.__cause__ = error.__context__ = None  # tracebacks hold the memory of the failed attempt
            return error.with_traceback(None)
        return None

    def _without_averaging(self, more: bool) -> AbstractContextManager[None]:
        # If more batches follow, their gradients are averaged over processes together with these, by the last one.
        return self._loss_of.no_sync() if more and isinstance(self._loss_of, DistributedDataParallel) else nullcontext()

    def _is_too_strict(self, error: BaseException) -> bool:
        return _NOT_DETERMINISTIC in str(error) and self._strictly is strictly_deterministic

    def _adapt(self, error: BaseException, update: Update) -> None:
        """Change how gradients are computed after an error: allow an operation, or split batches into more parts."""
        run, progress = self._run, self._run.progress
        if self._is_too_strict(error):
            self._strictly = nullcontext
            operation = str(error).partition(" does not have")[0]
            run.say(f"{operation} has no deterministic form on a GPU, so a resumed run can end with slightly different weights")
        elif self._recorded is None or not self._recorded.clear():  # deleting the graphs may free enough memory
            single = progress.parts >= max(len(batch.index) for batch in update.batches)
            if single or run.team.size > 1:
                what = "a single example" if single else "a batch"
                raise TrainingError(
                    f"there is not enough memory for {what}; lower training.batch_tokens (and raise training.accumulate by the "
                    "same factor), data.max_tokens, or the sizes under model, and start a new run. The last checkpoint is kept"
                ) from error
            progress.parts *= 2
            run.say(
                f"update {progress.step + 1:,}: there is not enough memory for the batch; from now on, each batch is split "
                f"into {progress.parts} parts, which together give the same update. Lower training.batch_tokens to avoid this"
            )
        self._zero_gradients()
        if run.machine.device.type == "cuda":
            torch.cuda.empty_cache()

    def _zero_gradients(self) -> None:
        if self._recorded is None:
            self._run.optimizer.zero_grad()  # also releases their memory, which recorded operations still use
        else:
            self._recorded.zero()

    def _step(self, step: int, count: int) -> None:
        run, training = self._run, self._run.config.training
        gradients = [weight.grad for weight in run.model.parameters() if weight.grad is not None]
        if run.loss_scale is not None:
            torch._foreach_div_(gradients, run.loss_scale.factor)
        if training.clip_norm:
            norm = nn.utils.clip_grad_norm_(run.model.parameters(), training.clip_norm)
        else:
            norm = nn.utils.get_total_norm(gradients)
        wrong = norm - norm != 0  # if it is not finite, in fewer operations than `isfinite` starts
        # The optimizer skips the update itself, without waiting for a GPU.
        run.optimizer.found_inf = wrong.float()  # type: ignore[attr-defined]
        self._loss += torch.where(wrong, 0.0, self._recent)
        self._skipped += wrong if run.loss_scale is None else run.loss_scale.update(wrong)
        self._not_counted += wrong * count
        for group in run.optimizer.param_groups:
            group["lr"] = run.learning_rate(step) * group.get("factor", 1.0)
        run.optimizer.step()
        self._zero_gradients()
        if run.moving_average is not None:
            run.moving_average.update(step)

    def _count(self, update: Update, step: int) -> None:
        run, progress = self._run, self._run.progress
        progress.step = step
        progress.count += update.count
        progress.recent_count += update.count
        progress.batch += update.joint
        if update.last:
            progress.epoch, progress.batch = progress.epoch + 1, 0
        # All processes compare their clocks when losses are collected, so the time limit counts only then.
        progress.finished = run.stopped or bool(run.limits_reached(timed=run.collects_losses_at(step)))
        every = run.config.training.validate_every
        progress.validation_due = progress.finished or (step % every == 0 if every else update.last)

    def collect_losses(self, *, weights: bool = False) -> None:
        """Add the losses since the last call to the run's progress, and check that all numbers are finite.

        With `weights`, every weight is checked too, as before a file is written.

        Raises:
            TrainingError: If too many losses or gradients, or a weight, are not finite.
        """
        run = self._run
        progress, skipped = run.progress, int(self._skipped.item())
        progress.recent_loss += run.team.total(self._loss.item())
        progress.recent_count -= int(self._not_counted.item())
        for total in (self._loss, self._skipped, self._not_counted):
            total.zero_()
        if skipped:
            progress.skipped, progress.recent_skipped = progress.skipped + skipped, progress.recent_skipped + skipped
            if progress.recent_skipped > run.config.training.max_skipped:
                raise not_finite(run, "loss or its gradient")
            run.say(
                f"up to update {progress.step:,}: {counted(progress.skipped, 'update')} skipped, because the loss or its "
                "gradient was not finite"
            )
        if weights:
            finite = torch.stack([parameter.detach().sum() for parameter in run.model.parameters()]).isfinite().all()
            if run.team.largest(int(not finite))[0]:  # all processes stop with the same message
                raise not_finite(run, "weights")


def not_finite(run: Run, wrong: str) -> TrainingError:
    """Return an error that says what is not finite, when, and what to try."""
    training, step = run.config.training, run.progress.step
    clip = "a lower training.clip_norm" if training.clip_norm else "training.clip_norm 1.0 (clipping is off)"
    precision = f", training.precision float32 (now {run.machine.precision})" if run.machine.precision != "float32" else ""
    kept = (
        f"the last good checkpoint is kept in {run.folder.checkpoints}"
        if run.folder.has_checkpoint()
        else "no checkpoint was written yet"
    )
    verb = "are" if wrong == "weights" else "is"
    often = f", {run.progress.recent_skipped:,} times since the last validation" if run.progress.recent_skipped else ""
    return TrainingError(
        f"training has stopped: the {wrong} {verb} not finite at update {step:,} "
        f"(learning rate {run.learning_rate(step):.3g}){often}; {kept}. "
        f"Start a new run with a lower training.learning_rate, {clip}{precision}"
    )


def split_batch(batch: Any, count: int) -> list[Any]:
    """Split a dataclass of tensors into `count` parts along the first axis, or into one for each example if there are fewer."""
    if count == 1:
        return [batch]
    parts = {name: value.tensor_split(count) for name, value in vars(batch).items() if isinstance(value, Tensor)}
    return [
        replace(batch, **{name: tensors[number] for name, tensors in parts.items()})
        for number in range(min(count, len(batch.index)))
    ]
