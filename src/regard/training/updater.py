"""One update of the weights: the gradient of its batches, averaged over processes, and a step of the optimizer."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.errors import TrainingError, out_of_memory
from regard.machine import seed_step, strictly_deterministic
from regard.plurals import counted
from regard.task import Trainable
from regard.training.data import Update, to_device
from regard.training.recorded import CannotRecord, record_gradients, scale_loss
from regard.training.run import Run

_NOT_DETERMINISTIC = "does not have a deterministic implementation"
"""Part of PyTorch's error message about an operation that has no deterministic form."""


class _Loss(nn.Module):
    """The loss of a batch as a module, because DistributedDataParallel averages the gradients of modules."""

    def __init__(self, task: Trainable) -> None:
        super().__init__()
        self.model, self._task = task.model, task

    def forward(self, batch: Any, step: int, total_steps: int) -> tuple[Tensor, Tensor]:
        loss, nll = self._task.loss(batch, step, total_steps)
        return loss, nll.detach()


class Updater:
    """The part of a run that makes its updates.

    The loss of an update is the sum of the losses of all words or texts in its batches, divided by their number. So the
    loss does not depend on how the words or texts are divided into batches.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        loss = _Loss(run.task)
        self._loss_of: nn.Module = loss if run.team.ranks.alone else _share_gradients(loss, run)
        # On the device, so that an update does not have to wait for the GPU.
        self._loss = torch.zeros((), device=run.machine.device, dtype=torch.float64)
        self._recent = torch.zeros_like(self._loss)
        self._skipped = torch.zeros((), device=run.machine.device, dtype=torch.int64)
        self._not_counted = torch.zeros_like(self._skipped)
        self._recorded = record_gradients(run, self._recent)
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
        while (error := self._add_all_gradients(update, step)) is not None:
            self._adapt(error, update)
        self._step(step, update.count)
        self._count(update, step)
        if run.settles_at(step):
            self.settle()
        run.clock.lap("seconds")

    def _add_all_gradients(self, update: Update, step: int) -> BaseException | None:
        """Compute the gradient of an update; return an error after which it can be computed in another way."""
        run = self._run
        parts = [
            (part, weight)
            for batch, weight in zip(update.batches, update.weights, strict=True)
            for part in split_batch(batch, run.progress.parts)
        ]
        seed_step(run.config.seed, step, run.team.ranks.rank)
        mean = update.count / run.team.size  # gradients are averaged over processes, but their sum is needed
        self._recent.zero_()
        try:
            with self._strictly():
                for number, (part, weight) in enumerate(parts, 1):
                    self._add_gradients(part, weight, mean, step, last=number == len(parts))
        except (RuntimeError, MemoryError, CannotRecord) as error:
            if not (isinstance(error, CannotRecord) or self._is_too_strict(error) or out_of_memory(error)):
                raise
            error.__cause__ = error.__context__ = None  # tracebacks hold the memory of the failed attempt
            return error.with_traceback(None)
        return None

    def _is_too_strict(self, error: BaseException) -> bool:
        """Return whether the error means that an operation has no deterministic form, and the run can still allow it."""
        return _NOT_DETERMINISTIC in str(error) and self._strictly is strictly_deterministic

    def _adapt(self, error: BaseException, update: Update) -> None:
        """Change how gradients are computed from now on, after an error.

        Raises:
            TrainingError: If there is not enough memory for one example, or, with several processes, for one batch.
        """
        run = self._run
        if isinstance(error, CannotRecord):
            self._recorded = None
            run.say(
                f"updates cannot be recorded as CUDA graphs ({error}); training continues without them and takes longer. "
                "Set training.cuda_graphs to false to avoid this attempt"
            )
        elif self._is_too_strict(error):
            self._strictly = nullcontext
            operation = str(error).partition(" does not have")[0]
            run.say(f"{operation} has no deterministic form on a GPU, so a resumed run can end with slightly different weights")
        elif self._recorded is None or not self._recorded.clear():  # deleting the graphs may free enough memory
            self._split_further(update, error)
        self._zero_gradients()
        if run.machine.device.type == "cuda":
            torch.cuda.empty_cache()

    def _add_gradients(self, batch: Any, weight: float, mean: float, step: int, *, last: bool) -> None:
        """Add the gradients of a batch, times `weight` and divided by `mean`, the number of the update's losses per process."""
        run = self._run
        scale = 1.0 if run.loss_scale is None else run.loss_scale.factor
        if self._recorded is not None:
            self._recorded.add(batch, scale * (weight / mean))
            return
        with self._gradients_kept(not last):
            with run.machine.autocast():
                loss, nll = self._loss_of(to_device(batch, run.machine.device), step, run.total_steps)
            scale_loss(loss, scale * (weight / mean)).backward()
        self._recent += nll * weight

    def _split_further(self, update: Update, error: BaseException) -> None:
        """Split each batch into twice as many parts from now on, which gives the same gradient.

        Raises:
            TrainingError: If the batches cannot be split further, or there are several processes.
        """
        progress = self._run.progress
        if self._run.team.size > 1:
            raise TrainingError(
                "there is not enough memory for a batch; lower training.batch_tokens, raise training.accumulate by the same "
                "factor, and start a new run. The last checkpoint is kept"
            ) from error
        if progress.parts >= max(len(batch.index) for batch in update.batches):
            raise TrainingError(
                "there is not enough memory for a single example; lower data.max_tokens or the sizes under model, or train on "
                "a device with more memory. The last checkpoint is kept"
            ) from error
        progress.parts *= 2
        self._run.say(
            f"update {progress.step + 1:,}: there is not enough memory for the batch; from now on, each batch is split into "
            f"{progress.parts} parts, which together give the same update. Lower training.batch_tokens to avoid this"
        )

    def _zero_gradients(self) -> None:
        """Set gradients to zero, and release their memory unless recorded operations use it."""
        if self._recorded is None:
            self._run.optimizer.zero_grad()
        else:
            self._recorded.zero()

    def _gradients_kept(self, kept: bool) -> AbstractContextManager[None]:
        """Return a context; if `kept`, it does not average gradients over processes, because those of more batches follow."""
        return self._loss_of.no_sync() if kept and isinstance(self._loss_of, DistributedDataParallel) else nullcontext()

    def _step(self, step: int, count: int) -> None:
        run, training = self._run, self._run.config.training
        gradients = [weight.grad for weight in run.model.parameters() if weight.grad is not None]
        if run.loss_scale is not None:
            run.loss_scale.divide(gradients)
        if training.clip_norm:
            norm = nn.utils.clip_grad_norm_(run.model.parameters(), training.clip_norm)
        else:
            norm = nn.utils.get_total_norm(gradients)
        wrong = ~norm.isfinite()
        # The optimizer skips the update itself, without waiting for a GPU.
        run.optimizer.found_inf = wrong.float()  # type: ignore[attr-defined]
        self._loss += torch.where(wrong, 0.0, self._recent)
        self._skipped += wrong if run.loss_scale is None else run.loss_scale.update(wrong)
        self._not_counted += wrong * count
        for group in run.optimizer.param_groups:
            group["lr"] = run.learning_rate(step)
        run.optimizer.step()
        self._zero_gradients()
        if run.moving_average is not None:
            run.moving_average.update(step)

    def _count(self, update: Update, step: int) -> None:
        run, progress, training = self._run, self._run.progress, self._run.config.training
        progress.step = step
        progress.count += update.count
        progress.recent_count += update.count
        progress.batch += update.joint
        if update.last:
            progress.epoch, progress.batch = progress.epoch + 1, 0
        minutes = (progress.seconds + progress.validation_seconds) / 60
        progress.finished = (
            progress.epoch >= training.max_epochs
            or (training.max_steps > 0 and step >= training.max_steps)
            or (training.max_minutes > 0 and minutes >= training.max_minutes and run.settles_at(step))
            or run.stopped
        )
        every = training.validate_every
        progress.validation_due = progress.finished or (step % every == 0 if every else update.last)

    def settle(self, *, weights: bool = False) -> None:
        """Add the losses since the last call to the run's progress, and check that all numbers are finite.

        Args:
            weights: Whether to check every weight too, as before a file is written.

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
        if weights and run.team.largest(int(not run.weights_are_finite()))[0]:  # all processes stop with the same message
            raise not_finite(run, "weights")


def _share_gradients(loss: _Loss, run: Run) -> DistributedDataParallel:
    """Wrap a loss so that its gradients are averaged over processes, with NCCL between GPUs and gloo between CPUs.

    Each update searches for unused parameters. So any model works, and gradients are summed in the same order from the first
    update on, as an exact resume needs (otherwise, PyTorch chooses another order after the first update).
    """
    # Add an unused parameter, because PyTorch prints a warning if it searches for unused parameters and finds none.
    loss.unused = nn.Parameter(torch.zeros(1, device=run.machine.device))
    return DistributedDataParallel(loss, find_unused_parameters=True)


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
    """Split a batch into `count` parts, or into one for each example if there are fewer examples.

    Args:
        batch: A dataclass of tensors, with the examples along the first axis.
        count: Number of parts, 1 or more.
    """
    if count == 1:
        return [batch]
    parts = {name: value.tensor_split(count) for name, value in vars(batch).items() if isinstance(value, Tensor)}
    return [
        replace(batch, **{name: tensors[number] for name, tensors in parts.items()})
        for number in range(min(count, len(batch.index)))
    ]


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return a copy of a model's weights on the CPU."""
    return {name: value.detach().to("cpu", copy=True) for name, value in model.state_dict().items()}
