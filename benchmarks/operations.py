"""The number of operations that an update and a search step start, counted on PyTorch's device `meta`.

    python -m benchmarks operations [--table]

Views and new memory are not counted. Where PyTorch runs one kernel on a GPU and several operations on `meta` (fused attention,
dropout, operations on lists of tensors), a stand-in counts one. An update is loss, gradients, clipping and the optimizer, for
32 sentences of 15 tokens; a search step is `model.step` of the packed model with 5 hypotheses of each, and their reordering.
`--table` prints the number of each operation. Prints one JSON line.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Set
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard.inference import pack
from regard.models.build import build_language_model, build_translator
from regard.models.seq2seq import Seq2Seq
from regard.presets import load_preset
from regard.tasks.objective import objective
from regard.text.batching import Batch
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
        return torch.zeros(batch, queries, heads, value.shape[3], device="meta").transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        first, *others = ctx.saved_tensors
        return torch.zeros_like(first), *(torch.empty_like(tensor) for tensor in others)


def fused_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **options: Any) -> Tensor:
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        torch.where(attn_mask, 0.0, -torch.inf)  # PyTorch converts a boolean mask in each call
    return FusedAttention.apply(query, key, value)


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


def update(model: Seq2Seq, batch: Batch, config: Any) -> Counter[str]:
    """Count the operations of an update after the first one."""
    optimizer: Any = build_optimizer(model, config)
    for _ in range(2):
        with Operations() as operations:
            objective(model, batch, label_smoothing=config.label_smoothing)[0].backward()
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
    for preset, data in (("transformer-tiny", "pairs.tsv"), ("language-tiny", "texts.txt")):
        config: Any = load_preset(preset, {"data.train": [data]})
        with torch.device("meta"):
            if preset == "language-tiny":
                model: Seq2Seq = build_language_model(config.model, vocabulary_size=WORDS)
            else:
                model = build_translator(config.model, source_size=WORDS, target_size=WORDS)
            ids, mask = torch.zeros(ROWS, LENGTH, dtype=torch.long), torch.ones(ROWS, LENGTH, dtype=torch.bool)
            batch = Batch(ids, mask, ids, ids, mask, torch.arange(ROWS))
        found[f"{preset} update"], found[f"{preset} step"] = update(model.train(), batch, config.training), step(model, batch)
    if options.table:
        for name, counts in found.items():
            print(name, ", ".join(f"{operation} {count}" for operation, count in counts.most_common()), sep=": ")
    print(json.dumps({name: counts.total() for name, counts in found.items()}))


if __name__ == "__main__":
    main()
