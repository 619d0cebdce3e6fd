"""Gradients of batches by replaying recorded operations on a GPU (CUDA graphs).

The gradient of a small model takes about a thousand short operations, and a CPU needs more time to start them than a GPU to
compute them. A CUDA graph contains the operations for one batch, so that the CPU starts them all at once. A graph always works
on the same memory and the same shapes. Therefore:

- Batches are padded to sizes of a coarse grid (`Batch.padded`), so that few shapes occur, and copied to fixed tensors.
- Gradients are added to fixed tensors, which are set to zero after each update but not released.
- The loss must start the same operations for every batch of a shape (`Trainable.is_repeatable`).

A batch of a new shape is computed once without effect (libraries allocate memory when they are first used), then recorded,
then replayed. Gradients of training are always those of a replay, so the order in which shapes occur changes no result, and a
resumed run ends with the same bits.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import TrainingError, out_of_memory
from regard.training.run import Run

MOST = 1024
"""Maximum number of graphs; with more, the one that was not used for the longest time is deleted."""


def scale_loss(loss: Tensor, factor: float | Tensor) -> Tensor:
    """Return the loss times a factor, or times NaN if the loss is not finite.

    NaN makes the gradient of all processes not finite, so checking the gradient is enough.
    """
    return loss * torch.where(loss.detach().isfinite(), factor, torch.nan)


def can_record(run: Run) -> bool:
    """Return whether the operations of a run's updates can be recorded."""
    training = run.config.training
    # A layer that is computed again first restores the random state, which a recording cannot.
    wanted = training.cuda_graphs and not training.recompute_layers and run.machine.device.type == "cuda"
    # Modules of other packages may read values on the CPU or keep state in Python, which a graph would repeat unchanged.
    known = all(type(module).__module__.partition(".")[0] in ("regard", "torch") for module in run.model.modules())
    return wanted and run.team.ranks.alone and known and not run.task.custom and run.task.is_repeatable()


class RecordedGradients:
    """The gradients of batches, by one recorded graph for each shape of a batch, which adds them to those of the parameters.

    `loss` returns, for a batch on the GPU, the loss to differentiate and the loss to report, which is added to `total`.
    """

    def __init__(self, parameters: list[nn.Parameter], loss: Callable[[Any], tuple[Tensor, Tensor]], total: Tensor) -> None:
        self._parameters, self._loss, self._total = parameters, loss, total
        self._factor = torch.ones((), device=total.device)
        self._graphs: OrderedDict[tuple[torch.Size, ...], tuple[Any, Callable[[], None]]] = OrderedDict()
        self._record = Recorder()

    def add(self, batch: Any, factor: float | Tensor) -> None:
        """Add the gradients of a batch on any device, whose loss is multiplied by a factor.

        Raises:
            TrainingError: If an operation cannot be recorded.
        """
        batch = batch.padded()
        tensors = vars(batch)
        shapes = tuple(tensor.shape for tensor in tensors.values())
        if shapes not in self._graphs:
            self._graphs[shapes] = self._make(batch)
        self._graphs.move_to_end(shapes)
        if len(self._graphs) > MOST:
            self._graphs.popitem(last=False)
        fixed, replay = self._graphs[shapes]
        for name, tensor in vars(fixed).items():
            tensor.copy_(tensors[name], non_blocking=True)
        self._factor.copy_(factor) if isinstance(factor, Tensor) else self._factor.fill_(factor)
        replay()

    def zero(self) -> None:
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        if gradients:
            torch._foreach_zero_(gradients)

    def clear(self) -> bool:
        """Delete all graphs, and free their memory; return whether there were any."""
        had_graphs = bool(self._graphs)
        self._graphs.clear()
        self._record = Recorder()
        return had_graphs

    def _make(self, batch: Any) -> tuple[Any, Callable[[], None]]:
        """Return fixed tensors for batches of a shape, and the function that adds the gradients for the batch in them."""
        device = self._total.device
        fixed = type(batch)(**{n: t.to(device, non_blocking=True, copy=True) for n, t in vars(batch).items()})

        def compute() -> tuple[list[Tensor | None], Tensor]:
            loss, nll = self._loss(fixed)
            return list(torch.autograd.grad(scale_loss(loss, self._factor), self._parameters, allow_unused=True)), nll

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
    """Recorder of functions as CUDA graphs, which share one pool of memory, because only one of them runs at a time."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, rehearse: Callable[[], None], function: Callable[[], None]) -> Callable[[], None]:
        """Run `rehearse`, then record `function`, and return the function that replays it; the random state stays the same.

        Raises:
            TrainingError: If an operation cannot be recorded, for example because it waits for the GPU.
        """
        random, current, stream = torch.cuda.get_rng_state(), torch.cuda.current_stream(), _stream(torch.cuda.current_device())
        stream.wait_stream(current)
        try:
            with torch.cuda.stream(stream):
                rehearse()
            current.wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, stream=stream):
                function()
        except RuntimeError as error:
            cause = error.__context__ or error  # the end of a failed recording raises an error of its own
            if out_of_memory(error) or "captur" not in f"{error} {cause}":
                raise
            raise TrainingError(
                f"updates cannot be recorded as CUDA graphs ({str(cause).partition(chr(10))[0]}); set training.cuda_graphs to "
                "false"
            ) from error
        finally:
            torch.cuda.set_stream(current)  # a failed recording leaves its stream as the current one
            torch.cuda.set_rng_state(random)
        return graph.replay


@cache
def _stream(device: int) -> torch.cuda.Stream:
    """Return the stream on which graphs of a device are recorded. PyTorch reuses memory only within one stream."""
    return torch.cuda.Stream(device)
