"""Each fast path of attention against the path that would run without it, on one core. Prints one line per measurement.

Both run in turn in one process. A gain is the ratio of their median processor times. It is measured three times; trust it only
if the three ratios agree.

    python -m benchmarks.fast_paths [NAME …]         names: the functions below, such as blocks, prepare, tapes
"""

import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

from regard.attention import MultiHead, Rotary, ScaledDot, masked_softmax
from regard.attention.fast import additive, monotonic
from regard.attention.fast.softmax import softmax
from regard.attention.heads import gated_delta
from regard.attention.heads.attend import head_scores
from regard.attention.heads.gated_delta import delta_step
from regard.attention.heads.linear import add_key, scan_chunks
from regard.attention.ordered.monotonic import plain_alignments
from regard.attention.scores.additive import additive_scores, plain_additive_scores
from regard.layers.loop_scores import build_score_tape

Forms = tuple[str, Callable[[], object], Callable[[], object]]
"""Name of a measurement, the path that would run without the fast path, and the fast path."""
SIZES = {"sentences": (32, 30, 30, 256), "step": (128, 1, 30, 256), "long": (4, 512, 512, 256)}
"""B,Q,K,H."""
HEADS = ((32, 4, 30, 30, 64), (128, 4, 1, 30, 64), (16, 4, 128, 128, 64), (4, 4, 384, 384, 64))
"""B,H,Q,K and the width of a head."""
SEQUENCES = ((32, 4, 30, 64), (4, 8, 512, 64))
"""B,H,T and the width of a head."""


def draw(*shape: int, dtype: torch.dtype, grad: bool = False) -> Tensor:
    return torch.randn(*shape).to(dtype).requires_grad_(grad)


def both(name: str, without: Callable[..., Tensor], fast: Callable[..., Tensor], *tensors: Tensor) -> Iterator[Forms]:
    """Yield a measurement of the forward pass, and one of the forward and backward pass."""

    def forward(form: Callable[..., Tensor]) -> Callable[[], object]:
        return torch.no_grad()(lambda: form(*tensors))

    def backward(form: Callable[..., Tensor]) -> Callable[[], object]:
        leaves = [x.detach().requires_grad_() for x in tensors]
        # A random gradient, as from a later layer: the gradient of a sum has strides of zero, for which products are slower.
        out = form(*leaves)
        flow = torch.randn(out.shape, generator=torch.Generator().manual_seed(0)).to(out.dtype)
        return lambda: torch.autograd.grad(form(*leaves), leaves, flow)

    yield f"{name}, forward", forward(without), forward(fast)
    yield f"{name}, with gradients", backward(without), backward(fast)


def blocks(dtype: torch.dtype) -> Iterator[Forms]:
    for name in ("sentences", "long"):
        batch, queries, keys, width = SIZES[name]
        given = draw(batch, queries, width, dtype=dtype), draw(batch, keys, width, dtype=dtype), draw(width, dtype=dtype)
        if name == "long":  # the plain form's gradients would need 4 GB
            given = given[0][:1], given[1][:1], given[2]
        yield from both(f"{name} {SIZES[name]}", plain_additive_scores, additive.fast_additive_scores, *given)


def prepare(dtype: torch.dtype) -> Iterator[Forms]:
    """Compute the exponentials of the keys once for 30 steps, instead of at each step."""
    for batch in (128, 32):
        query, key, v = draw(30, batch, 1, 256, dtype=dtype), draw(batch, 30, 256, dtype=dtype), draw(256, dtype=dtype)

        def steps(query: Tensor, key: Tensor, v: Tensor, ready: Callable[[Tensor], Tensor | None]) -> Tensor:
            made = ready(key)
            return torch.stack([additive_scores(q, key, v, made) for q in query])

        without, fast = (lambda *x: steps(*x, lambda _: None)), (lambda *x: steps(*x, additive.ready_exponential))
        yield from both(f"30 steps of {(batch, 1, 30, 256)}", without, fast, query, key, v)


def tapes(dtype: torch.dtype) -> Iterator[Forms]:
    """Compare the scores of a hand-written loop with autograd, always in float32."""
    if dtype != torch.float32:
        return
    for batch, keys, width, steps in ((32, 30, 256, 30), (64, 15, 512, 15)):
        for v in (draw(width, dtype=dtype), None):
            queries, key, value = (draw(*s, dtype=dtype) for s in ((steps, batch, width), *[(batch, keys, width)] * 2))
            flow, mask = torch.randn(steps, batch, width), torch.ones(batch, keys, dtype=torch.bool)
            mask[: batch // 2, -5:] = False
            inputs = [x.detach().requires_grad_() for x in (queries, key, value, v) if x is not None]

            def autograd(inputs=inputs, mask=mask, flow=flow) -> object:
                queries, key, value, *v = inputs
                contexts = []
                for q in queries:
                    scores = additive_scores(q[:, None], key, v[0])[:, 0] if v else torch.bmm(key, q[:, :, None])[:, :, 0]
                    contexts.append(torch.bmm(masked_softmax(scores, mask)[:, None], value)[:, 0])
                return torch.autograd.grad(torch.stack(contexts), inputs, flow)

            @torch.no_grad()
            def tape(queries=queries, key=key, value=value, v=v, mask=mask, flow=flow) -> object:
                made = build_score_tape(len(queries), key, value, mask, v)
                for step, query in enumerate(queries):
                    made.forward(step, query)
                for step in reversed(range(len(queries))):
                    made.backward(step, flow[step], None)
                return made.finish(), made.values_gradient(flow)

            kind = "bilinear" if v is None else "additive"
            yield f"{kind}, {steps} steps of {(batch, 1, keys, width)}, with gradients", autograd, tape


def padded_softmax(dtype: torch.dtype) -> Iterator[Forms]:
    for shape in ((32, 30, 10), (128, 1, 10), (4096, 12)):
        yield from both(str(shape), lambda x: x.softmax(-1) * 1, lambda x: softmax(x) * 1, draw(*shape, dtype=dtype))


def two_products(dtype: torch.dtype) -> Iterator[Forms]:
    """Compare two matrix products in bfloat16, without weights, with PyTorch's fused kernel."""
    if dtype != torch.bfloat16:
        return
    for batch, num_heads, queries, keys, width in (*HEADS, (128, 1, 1, 30, 256), (4, 1, 512, 512, 256), (4, 8, 512, 512, 32)):
        given = [draw(batch, num_heads, n, width, dtype=dtype) for n in (queries, keys, keys)]

        def products(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return softmax(head_scores(q, k), torch.float32).to(v.dtype) @ v

        fused: Callable[..., Tensor] = functional.scaled_dot_product_attention
        yield from both(str((batch, num_heads, queries, keys, width)), fused, products, *given)


def laid_out_keys(dtype: torch.dtype) -> Iterator[Forms]:
    for batch, num_heads, queries, keys, width in HEADS:
        q, k = (draw(batch, n, num_heads, width, dtype=dtype).transpose(1, 2) for n in (queries, keys))
        name = str((batch, num_heads, queries, keys, width))
        yield from both(name, lambda q, k: q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]), head_scores, q, k)


def rotary(dtype: torch.dtype) -> Iterator[Forms]:
    """Compare one complex product with two real ones, which compiled callers use."""
    positions = Rotary()

    def pairs(heads: Tensor) -> Tensor:
        length, size = heads.shape[2:]
        angle = torch.arange(length)[:, None] * positions.base ** (-torch.arange(0, size, 2) / size)
        (even, odd), cos, sin = heads.float().unflatten(-1, (-1, 2)).unbind(-1), angle.cos(), angle.sin()
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2).to(heads.dtype)

    for shape in ((32, 4, 30, 64), (128, 4, 1, 64), (4, 4, 512, 64)):
        yield from both(str(shape), pairs, lambda x: positions.rotate(x, 0), draw(*shape, dtype=dtype))


def scan(dtype: torch.dtype) -> Iterator[Forms]:
    """Compare soft monotonic alignments by doubling, always in float32, with the recurrence over keys."""
    if dtype != torch.float32:
        return
    for batch, queries, keys in ((32, 30, 30), (128, 1, 30), (4, 128, 512)):
        stop, first = torch.rand(batch, queries, keys), (torch.arange(keys) == 0).float().expand(batch, -1)
        forms = [lambda p, f=form, first=first: f(p, 1 - p, first) for form in (plain_alignments, monotonic.scanned_alignments)]
        yield from both(str((batch, queries, keys)), *forms, stop)


def summaries(dtype: torch.dtype) -> Iterator[Forms]:
    """Compare the chunks of causal linear attention and Gated DeltaNet, in float32, with their recurrences over positions."""
    if dtype != torch.float32:
        return
    for batch, heads_, length, width in SEQUENCES:
        query, key, value = (functional.normalize(draw(batch, heads_, length, width, dtype=dtype), dim=-1) for _ in range(3))
        start = torch.zeros(batch, heads_, width, width)
        gates = torch.stack([-torch.rand(batch, heads_, length), torch.rand(batch, heads_, length)], -1)

        def linear(q: Tensor, k: Tensor, v: Tensor, start: Tensor = start) -> Tensor:
            return in_turn(q, start, lambda summary, t: add_key(summary, k[:, :, t], v[:, :, t]))

        def delta(q: Tensor, k: Tensor, v: Tensor, start: Tensor = start, gates: Tensor = gates) -> Tensor:
            return in_turn(q, start, lambda summary, t: delta_step(summary, k[:, :, t], v[:, :, t], gates[:, :, t]))

        def linear_fast(q: Tensor, k: Tensor, v: Tensor, start: Tensor = start) -> Tensor:
            return scan_chunks(q, k, v, start)[0]

        def delta_fast(q: Tensor, k: Tensor, v: Tensor, start: Tensor = start, gates: Tensor = gates) -> Tensor:
            return gated_delta.scan_chunks(q, k, v, gates, start)[0]

        shape = (batch, heads_, length, width)
        yield from both(f"linear attention, {shape}", linear, linear_fast, query, key, value)
        yield from both(f"Gated DeltaNet, {shape}", delta, delta_fast, query, key, value)


def in_turn(query: Tensor, summary: Tensor, update: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Return S_tᵀ q_t (B,H,T,E) for each position t, with S_t = update(S_{t−1}, t)."""
    found = []
    for t in range(query.shape[2]):
        summary = update(summary, t)
        found.append((query[:, :, t, None] @ summary)[:, :, 0])
    return torch.stack(found, 2)


def fused(dtype: torch.dtype) -> Iterator[Forms]:
    """Compare a layer without weights, which uses PyTorch's fused kernels, with the same layer with weights."""
    for name, (batch, queries, keys, width) in SIZES.items():
        query, key = draw(batch, queries, width, dtype=dtype), draw(batch, keys, width, dtype=dtype)
        for attention in (ScaledDot(width), MultiHead(width, 4).to(dtype)):
            forms = [
                lambda q, k, a=attention, weights=weights: a(q, k, need_weights=weights).context for weights in (True, False)
            ]
            yield from both(f"{type(attention).__name__}, {name} {SIZES[name]}", *forms, query, key)


PATHS = (
    blocks, prepare, tapes, padded_softmax, two_products, laid_out_keys, rotary, scan, summaries,
    fused,
)  # fmt: skip


def milliseconds(run: Callable[[], object]) -> float:
    """Return the processor time of one run, averaged over at least 10 ms."""
    start, count = time.process_time(), 0
    while not count or time.process_time() - start < 0.01:
        run()
        count += 1
    return 1e3 * (time.process_time() - start) / count


def gain(without: Callable[[], object], fast: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the median milliseconds of both paths, which run in turn."""
    without(), fast()
    times = [(milliseconds(without), milliseconds(fast)) for _ in range(rounds)]
    return statistics.median(t[0] for t in times), statistics.median(t[1] for t in times)


def main(names: list[str]) -> None:
    """Measure the paths with these names, or all."""
    torch.set_num_threads(1)
    for path in PATHS:
        if names and path.__name__ not in names:
            continue
        for dtype in (torch.float32, torch.bfloat16):
            for name, without, fast in path(dtype):
                found = [gain(without, fast, rounds=5) for _ in range(3)]
                ratios = " ".join(f"{slow / quick:.2f}" for slow, quick in found)
                kind = str(dtype).removeprefix("torch.")
                print(f"{path.__name__}, {kind}, {name}: {found[-1][0]:.3f} ms, {found[-1][1]:.3f} ms, {ratios}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
