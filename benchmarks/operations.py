"""The number of operations that an update and a search step start, counted on PyTorch's device `meta`.

    python -m benchmarks operations [--table]

Views and new memory are not counted. Where PyTorch runs one kernel on a GPU and several operations on `meta` (fused attention,
dropout, operations on lists of tensors), a stand-in counts one. An update is loss, gradients, clipping and the optimizer, for
32 sentences of 15 tokens (16 texts of 1,024 for `gpt2-small`); "bfloat16" adds the conversions of autocast, by each linear map
or by `training.casting` for all at once. A search step is `model.step` of the packed model with 5 hypotheses of each sentence,
and their reordering.
`--table` prints the number of each operation. Prints one JSON line.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Set
from contextlib import nullcontext
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from regard.inference import pack
from regard.models.build import build_language_model, build_translator
from regard.models.seq2seq import Seq2Seq
from regard.presets import load_preset
from regard.tasks.objective import objective
from regard.text.batching import Batch
from regard.training.casting import CastOnce
from regard.training.optimizer import build_optimizer

ROWS, LENGTH, WORDS = 32, 15, 5000
NOTHING = frozenset(
    (
        *("alias", "as_strided", "_conj", "detach", "diagonal", "expand", "lift_fresh", "permute", "_reshape_alias", "select"),
        *("slice", "split", "split_with_sizes", "squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze", "_unsafe_view"),
        *("view", "view_as_complex", "view_as_real", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"),
        *("promote_types", "scalar_tensor", "_record_function_enter_new", "_record_function_exit"),
    )
)
"""Operations that start nothing on a GPU."""


class Operations(TorchDispatchMode):
    """Counts the operations that would start something on a GPU; `nothing` are names of those that don't."""

    def __init__(self, nothing: Set[str] = NOTHING) -> None:
        super().__init__()
        self.nothing = nothing
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name not in self.nothing:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


class FusedAttention(torch.autograd.Function):
    """Fused attention as a GPU runs it: one operation forward, and one backward."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        ctx.save_for_backward(query, key, value)
        batch, heads, queries, _ = query.shape
        return value.new_zeros(batch, queries, heads, value.shape[3]).transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        first, *others = ctx.saved_tensors
        return torch.zeros_like(first), *(torch.empty_like(tensor) for tensor in others)


def fused_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **options: Any) -> Tensor:
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        torch.where(attn_mask, 0.0, -torch.inf)  # PyTorch converts a boolean mask in each call
    return FusedAttention.apply(query, key, value)


LOW = ("linear", "matmul", "__matmul__", "mm", "bmm", "baddbmm", "addmm", "scaled_dot_product_attention")
HIGH = ("layer_norm", "softmax", "log_softmax", "rms_norm")


class Autocast(TorchFunctionMode):
    """What autocast to bfloat16 does on a GPU, for the functions that models call: `meta` has no autocast."""

    def __init__(self) -> None:
        super().__init__()
        self.converted: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name in LOW:
            args, kwargs = tuple(map(self.low, args)), {key: self.low(value) for key, value in kwargs.items()}
        elif name in HIGH:
            args = tuple(one.float() if isinstance(one, Tensor) and one.dtype == torch.bfloat16 else one for one in args)
        return func(*args, **kwargs)

    def low(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or value.dtype != torch.float32:
            return value
        if not (value.is_leaf and value.requires_grad):
            return value.to(torch.bfloat16)
        if id(value) not in self.converted:  # autocast converts a parameter once, however often it is used
            self.converted[id(value)] = value, value.to(torch.bfloat16)
        return self.converted[id(value)][1]


class Loss(nn.Module):
    """The loss of a batch, under autocast or not."""

    def __init__(self, model: Seq2Seq, label_smoothing: float, *, half: bool) -> None:
        super().__init__()
        self.model, self.label_smoothing, self.half = model, label_smoothing, half

    def forward(self, batch: Batch) -> Tensor:
        enabled = mock.patch.object(torch, "is_autocast_enabled", return_value=self.half)
        kind = mock.patch.object(torch, "get_autocast_dtype", return_value=torch.bfloat16)
        with enabled, kind, Autocast() if self.half else nullcontext():
            return objective(self.model, batch, label_smoothing=self.label_smoothing)[0]


def stand_in() -> None:
    """Let `meta` run what a GPU runs: no autocast, fused attention and dropout, and operations on lists of tensors."""
    torch.autocast = lambda *arguments, **options: nullcontext()  # type: ignore[assignment,misc]
    torch.is_autocast_enabled = lambda *arguments: False
    functional: Any = nn.functional
    functional.scaled_dot_product_attention = fused_attention
    functional.dropout = lambda x, p, *others: torch.native_dropout(x, p, True)[0]
    clipping: Any = sys.modules["torch.nn.utils.clip_grad"]
    clipping._has_foreach_support = clipping._device_has_foreach_support = lambda *arguments: True
    adam: Any = sys.modules["torch.optim.adam"]
    adam._device_dtype_check_for_fused = lambda *arguments: None


def update(model: Seq2Seq, batch: Batch, config: Any, *, half: bool = False, together: bool = False) -> Counter[str]:
    """Count the operations of an update after the first one."""
    optimizer: Any = build_optimizer(model, config)
    loss: nn.Module = Loss(model, config.label_smoothing, half=half)
    loss = CastOnce(loss, torch.bfloat16) if together else loss
    for _ in range(2):
        with Operations() as operations:
            loss(batch).backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
            optimizer.found_inf = (norm - norm != 0).float()
            optimizer.step()
        optimizer.zero_grad()
    return operations.counts


@torch.no_grad()
def step(model: Seq2Seq, batch: Batch) -> Counter[str]:
    """Count the operations of the third step of a search."""
    packed = pack(model.eval(), ROWS)
    beam = torch.zeros(ROWS, 5, dtype=torch.long, device="meta")
    state = packed.encode(batch.source, batch.source_mask).select(beam)
    for _ in range(3):
        with Operations() as operations:
            _, _, state = packed.step(beam, state)
            state = state.select(beam)
    return operations.counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="print the number of each operation")
    options = parser.parse_args()
    stand_in()
    found: dict[str, Counter[str]] = {}
    for preset, rows, length, words in (
        ("transformer-tiny", ROWS, LENGTH, WORDS),
        ("language-tiny", ROWS, LENGTH, WORDS),
        ("gpt2-small", 16, 1024, 50_000),
    ):
        config: Any = load_preset(preset, {"data.train": ["none.txt"]})
        with torch.device("meta"):
            if preset == "transformer-tiny":
                model: Seq2Seq = build_translator(config.model, source_size=words, target_size=words)
            else:
                model = build_language_model(config.model, vocabulary_size=words)
            ids, mask = torch.zeros(rows, length, dtype=torch.long), torch.ones(rows, length, dtype=torch.bool)
            batch = Batch(ids, mask, ids, ids, mask, torch.arange(rows))
        model.train()
        found[f"{preset} update"] = update(model, batch, config.training)
        found[f"{preset} update, bfloat16, each map"] = update(model, batch, config.training, half=True)
        found[f"{preset} update, bfloat16, together"] = update(model, batch, config.training, half=True, together=True)
        if rows == ROWS:
            found[f"{preset} step"] = step(model, batch)
    if options.table:
        for name, counts in found.items():
            print(name, ", ".join(f"{operation} {count}" for operation, count in counts.most_common()), sep=": ")
    print(json.dumps({name: counts.total() for name, counts in found.items()}))


if __name__ == "__main__":
    main()
