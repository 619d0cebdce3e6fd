"""Capture attention that modules compute in their own code: `scaled_dot_product_attention`, or a softmax times the values."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from regard.analysis.scaled_dot_product import selected_weights
from regard.analysis.selection import Selection, TopWeights

Take = Callable[[str, Tensor | TopWeights], None]

_SOFTMAX = {torch.softmax, Tensor.softmax, functional.softmax}
_PRODUCT = {torch.matmul, Tensor.matmul, torch.bmm, Tensor.bmm, torch.einsum}
_SAME = {
    functional.dropout, torch.dropout, Tensor.to, Tensor.type, Tensor.type_as, Tensor.float, Tensor.half, Tensor.bfloat16,
    Tensor.view, Tensor.reshape, Tensor.contiguous,
}  # fmt: skip
"""Functions that do not change the reported weights. Dropout is one of them, because weights are reported before dropout."""
_CHANGE = {
    Tensor.__getitem__, Tensor.masked_fill, Tensor.nan_to_num, torch.nan_to_num, Tensor.mul, torch.mul, functional.conv2d,
    torch.conv2d,
}  # fmt: skip
"""Functions whose result replaces the reported weights; for example, indexing can remove the column of an attention sink."""
_MARK = "_regard_weights"


class _Watch(TorchFunctionMode):
    """A PyTorch function mode that reports the attention weights of each call.

    It computes the weights of each `scaled_dot_product_attention`. If `products` is True, it also follows the result of each
    softmax over the last axis until the result is multiplied by the values. Each tensor that it follows gets an attribute: the
    tensor with the weights to report, or None for the tensor itself.
    """

    def __init__(self, running: list[tuple[str, nn.Module]], take: Take, selection: Selection, *, products: bool) -> None:
        super().__init__()
        self.running, self.take, self.selection, self.products = running, take, selection, products

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if not self.running or not self.selection.includes(self.running[-1][0]):
            return output
        name, module = self.running[-1]
        with torch.no_grad():
            if func is functional.scaled_dot_product_attention:
                self.take(name, selected_weights(args, kwargs or {}, module, name, self.selection))
            elif self.products and func in _PRODUCT:
                for operand in args:
                    if hasattr(operand, _MARK):
                        found = getattr(operand, _MARK)
                        self.take(name, self.selection.keep(operand if found is None else found, name))
            elif self.products and isinstance(output, Tensor):
                self._follow(func, args, kwargs or {}, output)
        return output

    def _follow(self, func: Any, args: tuple, kwargs: dict[str, Any], output: Tensor) -> None:
        first = args[0] if args else None
        if func in _SOFTMAX and output.ndim > 2:
            axis = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis"))
            if axis in (-1, output.ndim - 1):  # weights are (…,Q,K) and sum to one over the keys
                setattr(output, _MARK, None)
        elif hasattr(first, _MARK) and output is not first:
            if func in _SAME:
                before = getattr(first, _MARK)
                setattr(output, _MARK, first if before is None else before)
            elif func in _CHANGE:
                setattr(output, _MARK, None)


@contextmanager
def watch_calls(
    module: nn.Module, take: Take, selection: Selection, *, without: set[nn.Module], products: bool
) -> Iterator[None]:
    """Call `take` with the selected attention weights that a module computes in its own code while the context is open.

    Args:
        module: The module, whose results stay bit-identical.
        take: Function of two arguments: the name of the innermost module that computed the weights, and the kept weights.
        selection: The weights to keep.
        without: Modules inside `module` whose own code is not watched.
        products: Whether the result of a softmax over the last of three or more axes counts as attention if it is multiplied
            by a tensor.
    """
    running: list[tuple[str, nn.Module]] = []

    def enter(name: str) -> Callable[..., None]:
        return lambda part, _: running.append((name, part))

    def leave(*_: Any) -> None:
        running.pop()

    with ExitStack() as stack:
        for name, part in module.named_modules():
            if part not in without:
                stack.callback(part.register_forward_pre_hook(enter(name), prepend=True).remove)
                stack.callback(part.register_forward_hook(leave, always_call=True).remove)
        stack.enter_context(_Watch(running, take, selection, products=products))
        yield
