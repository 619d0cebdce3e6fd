"""The processor time of small calls against the plain lines that a reader of a paper would write, on one thread.

    python -m benchmarks overhead [--times N] [NAME …]       names: those of `measurements`, such as "MultiHead"

Both forms run in turn. Prints one JSON line: for each call, the microseconds of both forms, and their ratio. The inputs are
(2,5,64) and (2,9,64) with 8 heads, and for a decoder one step of 5 hypotheses.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional

from regard.attention import Additive, Attention, Dot, MultiHead, padding_mask
from regard.config import TransformerConfig
from regard.models.transformer.build import build_decoder

SIZE, HEADS = 64, 8
CALLS = 200
"""Number of calls that are timed together."""


def heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def multi_head(attention: MultiHead, query: Tensor, key: Tensor, mask: Tensor | None, need_weights: bool) -> Tensor:
    """Compute multi-head attention in plain lines."""
    q, k, v = (
        heads(x) for x in (attention.query_projection(query), attention.key_projection(key), attention.value_projection(key))
    )
    if not need_weights:
        kept = None if mask is None else mask[:, None, None]
        context = functional.scaled_dot_product_attention(q, k, v, attn_mask=kept)
    else:
        scores = q @ k.transpose(2, 3) / math.sqrt(SIZE // HEADS)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None], -math.inf)
        context = scores.softmax(-1) @ v
    return attention.output_projection(context.transpose(1, 2).flatten(2))


def additive(attention: Additive, query: Tensor, key: Tensor, mask: Tensor | None, need_weights: bool) -> Tensor:
    """Compute additive attention in plain lines."""
    hidden = attention.query_projection(query)[:, :, None] + attention.key_projection(key)[:, None]
    return mixed(hidden.tanh() @ attention.score_weight, key, mask)


def dot(attention: Dot, query: Tensor, key: Tensor, mask: Tensor | None, need_weights: bool) -> Tensor:
    """Compute attention by products in plain lines."""
    return mixed(query @ key.transpose(1, 2), key, mask)


def mixed(scores: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    scores = scores if mask is None else scores.masked_fill(~mask[:, None], -math.inf)
    return scores.softmax(-1) @ value


def decoder_step() -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a step of a decoder with 2 layers and 5 hypotheses after 8 words, and the same step in plain lines."""
    config = TransformerConfig(hidden_size=SIZE, num_heads=HEADS, feed_forward_size=256, decoder_layers=2)
    decoder = build_decoder(config).eval()
    memories = decoder.prepare(torch.randn(1, 9, SIZE), None)
    words = torch.randn(8, 1, 5, SIZE)
    cache = None
    for word in words:
        _, cache = decoder.step(word, memories, cache)
    x = torch.randn(1, 5, SIZE)
    # The keys and values of earlier words, with space for one more, as a plain loop would keep them.
    past = [[torch.randn(5, HEADS, 9, SIZE // HEADS) for _ in range(2)] for _ in decoder.layers]

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return ((q @ k.transpose(2, 3) / math.sqrt(SIZE // HEADS)).softmax(-1) @ v).transpose(1, 2).flatten(2)

    def plain() -> Tensor:
        y = x
        for layer, (keys, values), memory in zip(decoder.layers, past, memories, strict=True):
            own, across = layer.self_attention, layer.cross_attention
            read = layer.self_residual.norm(y).view(5, 1, SIZE)
            keys[:, :, 8:] = heads(own.key_projection(read))
            values[:, :, 8:] = heads(own.value_projection(read))
            context = attend(heads(own.query_projection(read)), keys, values)
            y = y + own.output_projection(context).view(1, 5, SIZE)
            query = heads(across.query_projection(layer.cross_residual.norm(y)))
            y = y + across.output_projection(attend(query, memory.key, memory.value))
            y = y + layer.feed_forward.outer(layer.feed_forward.inner(layer.feed_forward_residual.norm(y)).relu())
        return decoder.norm(y)

    return (lambda: decoder.step(x, memories, cache)), plain


def measurements() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return the calls to measure, each with its plain lines."""
    torch.manual_seed(0)
    query, key, mask = torch.randn(2, 5, SIZE), torch.randn(2, 9, SIZE), padding_mask(torch.tensor([9, 6]))
    kinds: list[tuple[Attention, Callable[..., Tensor]]] = [
        (MultiHead(SIZE, HEADS), multi_head),
        (Additive(SIZE), additive),
        (Dot(SIZE), dot),
    ]
    found: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {}
    for (attention, plain), kept, need in product(kinds, (None, mask), (True, False)):
        name = f"{type(attention).__name__}{'' if kept is None else ', mask'}{'' if need else ', no weights'}"
        found[name] = (
            partial(attention.eval(), query, key, key_mask=kept, need_weights=need),
            partial(plain, attention, query, key, kept, need),
        )
    found["decoder step"] = decoder_step()
    return found


def microseconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    for _ in range(CALLS):
        run()
    return (time.process_time() - start) / CALLS * 1e6


@torch.no_grad()
def measure(times: int, names: list[str]) -> dict[str, dict[str, float]]:
    """Return the median times of both forms, and the median of the ratios, of each measurement."""
    found = {}
    for name, (ours, theirs) in measurements().items():
        if names and not any(name.startswith(chosen) for chosen in names):
            continue
        microseconds(ours), microseconds(theirs)
        pairs = [(microseconds(ours), microseconds(theirs)) for _ in range(times)]
        mine, plain = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(one / other for one, other in pairs)
        found[name] = {"regard": round(mine, 1), "plain": round(plain, 1), "ratio": round(ratio, 2)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="beginnings of the names to measure; all by default")
    parser.add_argument("--times", type=int, default=25, help="number of pairs of timings (default: 25)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(json.dumps(measure(options.times, options.names), indent=1))


if __name__ == "__main__":
    main()
