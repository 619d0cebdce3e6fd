"""Multi-head attention against PyTorch's, on one core in float32. Prints one JSON line of ratios.

All forms of a comparison run in turn in one process, and the ratios compare their median processor times, which other programs
affect little. A ratio above 1 says how many times as fast regard is.

    fused      without weights, against four matrix products and `scaled_dot_product_attention`
    weights    with the weights of each head, against `nn.MultiheadAttention`, which returns them for each head or averaged
    decoding   256 tokens one by one with cached keys and values, against computing all keys and values again for each token

    python -m benchmarks.multihead [--repeats 9]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from regard.attention import MultiHead

SIZES = {"sentences": (32, 128, 512, 8), "long": (4, 1024, 512, 8)}
TOKENS = 256


def seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def medians(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median milliseconds of each function; all run in turn, after a round that does not count."""
    for run in runs.values():
        run()
    rounds = [{name: seconds(run) for name, run in runs.items()} for _ in range(repeats)]
    return {name: round(1e3 * statistics.median(times[name] for times in rounds), 3) for name in runs}


def compared(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, object]:
    """Return the medians, and how many times as fast `regard` is as each of the others."""
    times = medians(runs, repeats)
    ratios = {name: round(time / times["regard"], 3) for name, time in times.items() if name != "regard"}
    return {"ms": times, "ratio": ratios}


def bare(attention: MultiHead, x: Tensor) -> Tensor:
    """Compute only the four matrix products and the fused kernel."""
    maps = attention.query_projection, attention.key_projection, attention.value_projection
    heads = (linear(x, m.weight, m.bias).unflatten(-1, (attention.num_heads, -1)).transpose(1, 2) for m in maps)
    context = scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
    return linear(context, attention.output_projection.weight, attention.output_projection.bias)


def backward(form: Callable[[], tuple[Tensor, ...]], leaves: list[Tensor]) -> Callable[[], object]:
    """Return a function that computes the outputs and the gradients of all leaves."""

    def run() -> object:
        outputs = form()
        return torch.autograd.grad(outputs, leaves, [torch.ones_like(x) for x in outputs])

    return run


def measure(shape: tuple[int, int, int, int], repeats: int) -> dict[str, object]:
    """Measure `fused` and `weights` at one size."""
    batch, length, size, num_heads = shape
    theirs = nn.MultiheadAttention(size, num_heads, batch_first=True).eval()
    ours, x = MultiHead.from_torch(theirs), torch.randn(batch, length, size)

    def with_weights() -> tuple[Tensor, ...]:
        out = ours(x, x)
        assert out.weights is not None
        return out.context, out.weights

    runs: dict[str, Callable[[], object]] = {
        "regard": with_weights,
        "torch": lambda: theirs(x, x, x, average_attn_weights=False),
        "torch_averaged": lambda: theirs(x, x, x),
    }
    with torch.no_grad():
        fused = compared({"regard": lambda: ours(x, x, need_weights=False), "bare": lambda: bare(ours, x)}, repeats)
        weights = compared(runs, repeats)
    leaves = [[x.requires_grad_(), *module.parameters()] for module in (ours, theirs)]
    theirs.train()  # there is no dropout, and the fast path of eval() is not used with gradients anyway
    training = compared(
        {
            "regard": backward(with_weights, leaves[0]),
            "torch": backward(lambda: theirs(x, x, x, average_attn_weights=False), leaves[1]),
            "torch_averaged": backward(lambda: theirs(x, x, x), leaves[1]),
        },
        max(3, repeats // 2),
    )
    return {"fused": fused, "weights": weights, "weights_forward_backward": training}


@torch.no_grad()
def decoding(repeats: int) -> dict[str, object]:
    """Measure `decoding`: self-attention over a growing sentence, B,D,H = 4,512,8."""
    attention, x = MultiHead(512, num_heads=8, causal=True), torch.randn(4, TOKENS, 512)

    def regard() -> None:
        state = None
        for i in range(TOKENS):
            step = x[:, i : i + 1]
            _, state = attention.attend(step, attention.prepare(step), state, need_weights=False)

    def again() -> None:
        for i in range(TOKENS):
            attention(x[:, : i + 1], x[:, : i + 1], need_weights=False)

    return compared({"regard": regard, "again": again}, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results = {f"{name} {shape}": measure(shape, repeats) for name, shape in SIZES.items()}
    found = {"benchmark": "multihead", "torch": torch.__version__, **results, "decoding": decoding(max(1, repeats // 4))}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
