"""Gradients of batches by replaying recorded operations on a GPU (CUDA graphs).

A small model is trained by a thousand short operations per update, and a CPU needs more time to start them than a GPU to
compute them. A CUDA graph contains the operations of one update, so that the CPU starts them all at once. A graph always works
on the same memory and the same shapes. Therefore:

- Batches are padded to sizes from a coarse grid (`Batch.padded`), so that few shapes occur, and copied to fixed tensors.
- Gradients are added to fixed tensors, which the optimizer sets to zero but does not release.
- The loss must start the same operations for every batch of a shape (`Trainable.is_repeatable`).

If an operation can't be recorded, as one that waits for the GPU in a model of another package, `CannotRecord` is raised.

A batch of a new shape is computed once without effect (libraries allocate memory when they are first used), then recorded,
then replayed. Gradients of training are always those of a replay, so the order in which shapes occur changes no result, and a
resumed run ends with the same bits.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import out_of_memory
from regard.task import Trainable
from regard.training.run import Run


class CannotRecord(Exception):
    """Operations that cannot be recorded."""


LENGTHS, ROWS = 4, 16
"""Lengths and numbers of rows of recorded batches are multiples of these."""
MOST = 256
"""Maximum number of shapes; with more, all graphs are deleted to free their memory."""


def record_gradients(run: Run, task: Trainable, total: Tensor) -> "RecordedGradients | None":
    """Return an object that computes gradients from recorded operations; None if the run's updates can't be recorded.

    Args:
        run: The run.
        task: The run's task, or a copy with another model.
        total: Scalar on the GPU to which the reported losses are added.
    """
    if not _can_record(run):
        return None

    def loss(batch: Any) -> tuple[Tensor, Tensor]:
        with run.machine.autocast():
            return task.loss(batch, 1, run.total_steps)

    return RecordedGradients([weight for weight in task.model.parameters() if weight.requires_grad], loss, total)


def _can_record(run: Run) -> bool:
    wanted = run.config.training.cuda_graphs and run.machine.device.type == "cuda"
    return wanted and run.team.ranks.alone and not run.task.custom and run.task.is_repeatable()


class RecordedGradients:
    """Adds gradients of batches to the gradients of parameters, with one recorded graph for each shape of a batch."""

    def __init__(self, parameters: list[nn.Parameter], loss: Callable[[Any], tuple[Tensor, Tensor]], total: Tensor) -> None:
        """Store what all graphs share.

        Args:
            parameters: The parameters to train.
            loss: Function of a batch on the GPU that returns the loss to differentiate and the loss to report.
            total: Scalar on the GPU to which the reported losses are added.
        """
        self._parameters, self._loss, self._total = parameters, loss, total
        self._factor = torch.ones((), device=total.device)
        self._graphs: dict[tuple[torch.Size, ...], tuple[Any, Callable[[], None]]] = {}
        self._record = Recorder()

    def add(self, batch: Any, factor: float | Tensor) -> None:
        """Add the gradients of a batch.

        Args:
            batch: A batch on any device.
            factor: Factor of the loss to differentiate.

        Raises:
            CannotRecord: If an operation cannot be recorded. No gradient has been added then.
        """
        batch = batch.padded(LENGTHS, ROWS)
        tensors = vars(batch)
        shapes = tuple(tensor.shape for tensor in tensors.values())
        if shapes not in self._graphs:
            self._graphs[shapes] = self._make(batch)
        fixed, replay = self._graphs[shapes]
        for name, tensor in vars(fixed).items():
            tensor.copy_(tensors[name], non_blocking=True)
        self._factor.copy_(factor) if isinstance(factor, Tensor) else self._factor.fill_(factor)
        replay()

    def clear(self) -> None:
        """Delete all graphs, and free their memory."""
        self._graphs.clear()
        self._record = Recorder()

    def _make(self, batch: Any) -> tuple[Any, Callable[[], None]]:
        """Return fixed tensors for batches of a shape, and the function that adds the gradients of these tensors."""
        if len(self._graphs) >= MOST:
            self.clear()
        device = self._total.device
        fixed = type(batch)(**{n: t.to(device, non_blocking=True, copy=True) for n, t in vars(batch).items()})

        def compute() -> tuple[list[Tensor | None], Tensor]:
            loss, nll = self._loss(fixed)
            # The factor NaN makes every gradient not finite if the loss is not.
            sound = torch.where(loss.detach().isfinite(), self._factor, torch.nan)
            return list(torch.autograd.grad(loss * sound, self._parameters, allow_unused=True)), nll

        def add() -> None:
            gradients, nll = compute()
            totals = [parameter.grad for parameter in self._parameters]
            pairs = [(a, b) for a, b in zip(totals, gradients, strict=True) if a is not None and b is not None]
            torch._foreach_add_([total for total, _ in pairs], [gradient for _, gradient in pairs])
            self._total.add_(nll)

        def rehearse() -> None:
            for parameter, gradient in zip(self._parameters, compute()[0], strict=True):
                if gradient is not None and parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)

        return fixed, self._record(rehearse, add)


class Recorder:
    """Records functions as CUDA graphs that share one pool of memory, because only one of them runs at a time."""

    def __init__(self) -> None:
        # PyTorch reuses memory only within one stream and one pool.
        self._pool, self._stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream()

    def __call__(self, rehearse: Callable[[], None], function: Callable[[], None]) -> Callable[[], None]:
        """Run `rehearse`, then record `function`; return the function that replays it. Random numbers are not used up.

        Raises:
            CannotRecord: If an operation of `function` cannot be recorded.
        """
        random = torch.cuda.get_rng_state()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            rehearse()
        torch.cuda.current_stream().wait_stream(self._stream)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                function()
        except RuntimeError as error:
            if out_of_memory(error):
                raise
            raise CannotRecord(str(error).partition("\n")[0]) from error
        finally:
            torch.cuda.set_rng_state(random)
        return graph.replay
