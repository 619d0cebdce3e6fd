"""Capture attention that modules compute in their own code: functions of PyTorch, or normalised weights times values."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from regard.analysis.kernels import find_product
from regard.analysis.observation import Observer
from regard.analysis.products import scaled_dot_product
from regard.private_torch import in_backward

_MULTI_HEAD = inspect.signature(functional.multi_head_attention_forward)
_PRODUCTS = {"matmul", "__matmul__", "__rmatmul__", "bmm", "mm", "baddbmm", "addmm", "einsum", "linear"}
_TIMES = {"mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__"}
_DIVIDE = {"div", "div_", "divide", "true_divide", "__truediv__", "__itruediv__"}
_REDUCE = {"sum", "mean", "amax", "amin", "max", "min", "argmax", "norm", "std", "var", "logsumexp", "all", "any"}


@dataclass
class _Source:
    """A softmax, or another division by the sum over an axis."""

    name: str
    """Name of the module that computed it."""
    is_multiplied: bool = False
    """Whether a product with another tensor was seen, as in attention."""
    reported: set[Any] = field(default_factory=set)
    """The weights that were reported, by memory address and shape; empty if no product with values was recognised."""


@dataclass(frozen=True)
class _Mark:
    """Origin of a tensor that was computed from a softmax, and the axis of the keys in it."""

    source: _Source
    axis: int | None
    """Axis of the keys, counted from the last one; None if it is no longer known."""
    weights: Tensor | None = None
    """The weights before dropout, reshaping and multiplication by values; None if the tensor itself has them."""
    weights_axis: int = -1
    """Axis of the keys in `weights`."""
    has_values: bool = False
    """Whether the weights are multiplied by the values, so that a sum over the keys gives the context."""


class Watch(TorchFunctionMode):
    """A PyTorch function mode that reports the attention weights of each call.

    It computes the weights of `scaled_dot_product_attention`, `multi_head_attention_forward` and the functions of
    `regard.analysis.kernels` from their arguments. With `products`, it also follows each softmax over an axis until a product
    with the values sums over this axis. Any other softmax that is multiplied, and any other function named after attention, is
    reported as not recognised.
    """

    def __init__(self, observer: Observer, *, products: bool) -> None:
        super().__init__()
        self.observer, self.products = observer, products
        self.marks: Any = WeakTensorKeyDictionary()
        self.sums: Any = WeakTensorKeyDictionary()  # sum over an axis: (the tensor, the axis)
        self.contexts: Any = WeakTensorKeyDictionary()  # result of a product whose weights have sentences × heads in one axis
        self.sources: list[_Source] = []

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        # The function runs first and unchanged; observing it must not change its result.
        output = func(*args, **kwargs)
        if torch.compiler.is_compiling() or not isinstance(output, Tensor | tuple | list) or isinstance(output, torch.Size):
            return output
        if self.observer.running and not in_backward():
            self.observer.observe(self.observer.running[-1][0], lambda: self._see(func, args, kwargs, output))
        return output

    def close(self) -> None:
        """Report each softmax that was multiplied by a tensor, but not recognised as attention."""
        for source in self.sources:
            if source.is_multiplied and not source.reported:
                self.observer.miss(source.name)

    def _see(self, func: Any, args: tuple, kwargs: Mapping[str, Any], output: Any) -> None:
        name, module = self.observer.running[-1]
        if args and isinstance(args[0], Tensor) and args[0] in self.contexts:
            self.contexts.pop(args[0])(output)
        if func is functional.scaled_dot_product_attention:
            fold = self.observer.fold(kwargs["query"] if "query" in kwargs else args[0])
            weights = scaled_dot_product(args, kwargs, module, fold).weights(self.observer.selection, name)
            self._take(name, weights, fold, output)
        elif func is functional.multi_head_attention_forward:
            self._take_multi_head(name, func, _MULTI_HEAD.bind(*args, **kwargs))
        elif product := find_product(func, args, kwargs, output):
            self.observer.take_own(name, product.weights(self.observer.selection, name))
        elif any(part in getattr(func, "__name__", "").lower() for part in ("attention", "attn")):
            self.observer.miss(name)
        elif self.products:
            self._follow(getattr(func, "__name__", ""), args, kwargs, output)

    def _take_multi_head(self, name: str, func: Any, bound: inspect.BoundArguments) -> None:
        given, selection = bound.arguments, self.observer.selection
        # `nn.MultiheadAttention` may give the function two transposed views of one input.
        query, key = ((each.data_ptr(), each.shape, each.stride()) for each in (given["query"], given["key"]))
        if selection.rows is not None:  # of the weights, only these rows are ever in memory
            rows, mask = selection.rows_of(len(given["query"]), name), given.get("attn_mask")
            given.update(query=given["query"][rows], attn_mask=mask if mask is None else mask[..., rows, :], is_causal=False)
        given.update(need_weights=True, average_attn_weights=False, dropout_p=0.0, training=False)
        found: Any = func(*bound.args, **bound.kwargs)[1]
        self.observer.take(name, found if found.ndim == 4 else found[None], query == key, has_all_rows=False)

    def _take(self, name: str, weights: Tensor, fold: tuple[int, int] | None, context: Tensor) -> None:
        """Report weights; if sentences and heads had one axis, only if the context is then split in the same order."""
        number = self.observer.take_own(name, weights, is_checked=fold is None or 1 in fold)
        if fold is not None and 1 not in fold:

            def confirm(after: Any) -> None:
                is_checked = getattr(after, "shape", ())[:2] == fold
                self.observer.calls[number] = replace(self.observer.calls[number], is_checked=is_checked)

            self.contexts[context] = confirm

    def _follow(self, name: str, args: tuple, kwargs: Mapping[str, Any], output: Any) -> None:
        operands = [each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)]
        if name == "einsum" and not isinstance(args[1], Tensor):
            operands = list(args[1])
        first, axis = operands[0] if operands else None, kwargs.get("dim", kwargs.get("axis"))
        axis = args[1] if axis is None and len(args) > 1 else axis
        if name == "softmax":
            self._begin(output, axis)
        elif (
            name in _DIVIDE
            and len(operands) == 2
            and self.sums.get(operands[1], (None,))[0] is first
            and first not in self.marks
        ):
            self._begin(output, self.sums[operands[1]][1])
        elif any(each in self.marks for each in operands):
            self._use(name, args, operands, axis, output)
        elif first is not None and first.ndim > 2 and isinstance(output, Tensor):
            if name == "sum" and isinstance(axis, int):
                self.sums[output] = (first, axis)
            elif first in self.sums and output.shape == first.shape and output is not first:
                self.sums[output] = self.sums[first]  # for example, with a small number added

    def _begin(self, output: Tensor, axis: Any) -> None:
        # The attention belongs to the module that calls `nn.Softmax`, not to this layer.
        names = [name for name, part in self.observer.running if not isinstance(part, nn.Softmax)]
        self.sources.append(_Source((names or [""])[-1]))
        self.marks[output] = _Mark(self.sources[-1], axis if axis is None or axis < 0 else axis - output.ndim)

    def _use(self, name: str, args: tuple, operands: list[Tensor], axis: Any, output: Any) -> None:
        """Follow the result of a softmax through one function, or report it if the function multiplies it by values."""
        marked = [each for each in operands if each in self.marks]
        tensor = next((each for each in marked if each.is_floating_point()), marked[0])
        mark: _Mark = self.marks[tensor]
        if name in _PRODUCTS:
            for each in marked:
                factor: _Mark = self.marks[each]
                if factor.axis is not None and not factor.has_values and _contracted(name, args, operands, each) == factor.axis:
                    self._report(factor, each, output)
                else:
                    factor.source.is_multiplied |= factor.axis is not None or each.ndim > 2
        elif name in _TIMES and any(each.ndim > 1 for each in operands if each is not tensor):
            mark.source.is_multiplied |= mark.axis is not None or tensor.ndim > 2
            if output.shape == tensor.shape:
                self.marks[output] = _changed(mark)
            elif mark.axis is not None and output.ndim >= -mark.axis and output.shape[mark.axis] == tensor.shape[mark.axis]:
                weights, place = (tensor, mark.axis) if mark.weights is None else (mark.weights, mark.weights_axis)
                self.marks[output] = _Mark(mark.source, mark.axis, weights, place, has_values=True)
        elif name in _REDUCE and isinstance(output, Tensor):
            reduced = (axis,) if isinstance(axis, int) else axis if isinstance(axis, list | tuple) else ()
            axes = [each if each < 0 else each - tensor.ndim for each in reduced]
            if name == "sum" and mark.has_values and axes == [mark.axis]:
                self._report(mark, tensor, output)
            elif axes and mark.axis is not None and not mark.has_values and max(axes) < mark.axis:
                self.marks[output] = _changed(mark)
        else:
            for each in (output,) if isinstance(output, Tensor) else output if isinstance(output, list | tuple) else ():
                if isinstance(each, Tensor) and each.is_floating_point() and each is not tensor:
                    self.marks[each] = _derived(mark, tensor, each, is_dropout="dropout" in name)

    def _report(self, mark: _Mark, tensor: Tensor, context: Tensor) -> None:
        weights, axis = (tensor, mark.axis) if mark.weights is None else (mark.weights, mark.weights_axis)
        if weights.ndim < tensor.ndim and not mark.has_values:  # (B,K) weights that became (B,1,K) for the product
            weights, axis = tensor, mark.axis
        weights = weights.movedim(axis or -1, -1)
        key = (weights.data_ptr(), weights.shape)
        if key in mark.source.reported:  # multiplied twice, for example by values and by relative positions
            return
        mark.source.reported.add(key)
        name, _ = self.observer.running[-1]
        if len({shape[-1] for _, shape in mark.source.reported}) > 1:  # the keys were split into parts
            self.observer.miss(name)
        fold = self.observer.fold(weights)
        if weights.ndim == 2:
            weights = weights[None]
        elif fold and fold[0]:
            weights = weights.unflatten(0, fold)
        self._take(name, self.observer.selection.keep(weights, name), fold, context)


def _contracted(name: str, args: tuple, operands: list[Tensor], tensor: Tensor) -> int | None:
    """Return the axis of an operand, counted from the last one, over which a product sums; None if not known."""
    if name != "einsum":
        factors = operands[-2:] if name in ("baddbmm", "addmm") else operands[:2]
        if name == "__rmatmul__":
            factors = factors[::-1]
        is_left = factors[0] is tensor
        return None if name == "linear" and not is_left else -1 if is_left or tensor.ndim == 1 else -2
    terms, _, result = args[0].replace(" ", "").replace("...", "").partition("->")
    letters = terms.split(",")[next(number for number, each in enumerate(operands) if each is tensor)]
    summed = [place - len(letters) for place, letter in enumerate(letters) if letter not in result]
    return summed[0] if len(summed) == 1 else None


def _changed(mark: _Mark) -> _Mark:
    """Return the mark of a tensor whose weights were changed, in the same axes."""
    return mark if mark.has_values else replace(mark, weights=None)


def _derived(mark: _Mark, before: Tensor, after: Tensor, *, is_dropout: bool) -> _Mark:
    """Return the mark of a tensor that a function computed from one tensor with a mark."""
    lost = replace(mark, axis=None)
    if mark.axis is None:
        return lost
    whole = replace(mark, weights=before, weights_axis=mark.axis) if mark.weights is None else mark
    size, count = before.shape[mark.axis], after.numel()
    # A function does not say which axis of its result is that of the keys, so the result's memory or shape must show it.
    if after.numel() and after.untyped_storage().data_ptr() == before.untyped_storage().data_ptr():
        # A view has the keys in the axis with the same distance between neighbours, however the others were moved.
        stride = before.stride(mark.axis)
        places = [place for place in range(-after.ndim, 0) if after.stride(place) == stride and 1 < after.shape[place] <= size]
        if size == 1 and after.ndim == before.ndim and after.shape[mark.axis] == 1:
            places = [mark.axis]
        return replace(whole if count == before.numel() else _changed(mark), axis=places[-1]) if places else lost
    if after.shape == before.shape:
        return whole if is_dropout else _changed(mark)
    ends = slice(min(mark.axis, -2), None)
    if after.ndim > 1 and after.shape[ends] == before.shape[ends] and count == before.numel():  # (…,Q,K) reshaped
        return whole
    same = after.ndim == before.ndim and after.shape[mark.axis] == size
    return _changed(mark) if same else lost
