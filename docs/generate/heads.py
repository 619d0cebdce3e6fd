"""Self-attention and multi-head attention, and the variants of the latter that the page on masks and positions shows."""

from collections.abc import Callable

from torch import nn

from docs.generate.entry import Mechanism
from docs.generate.scored import BATTERY
from docs.generate.toy import WIDTH
from regard.attention import ALiBi, MultiHead, RelativeBias, Rotary, SelfAttention

_CASES = (BATTERY, "tests/contracts/cases/multihead.py", "tests/attention/test_multihead.py")

HEADS = [
    Mechanism(
        kind=SelfAttention,
        build=lambda: SelfAttention(WIDTH),
        score="(W_q q)·(W_k k) / √D",
        cost="B·Q·K·D + B·(Q + K)·D²",
        operations="`2·B·K·D²` to prepare keys and values, once; then `B·Q·D²` for the queries, `B·Q·K·D` for the scores and "
        "`B·Q·K·D` for the context.",
        memory="`8·B·K·D` for prepared keys and values, `4·B·Q·D` for the queries and `4·B·Q·K` for the weights; with "
        "`need_weights=False` and a softmax the fused kernel keeps no weights.",
        choose="you want to teach or inspect self-attention with one head and without an output projection",
        when=(
            "This is the simplest form of self-attention, and the one that courses teach first. It has one head, "
            "no dropout and no positions. In a model, use [MultiHead](multi-head.md), which costs about the same "
            "and can do more."
        ),
        picture="Here, the decoder attends to the source, as with all other mechanisms. SelfAttention can do this, because the "
        "call `attention(query, key)` is allowed, too.",
        example="""attention = SelfAttention(16)
x = torch.randn(2, 7, 16)
out = attention(x, key_mask=padding_mask(torch.tensor([7, 4])))  # without a key: within x
print(tuple(out.context.shape), tuple(out.weights.shape), bool((out.weights[1, :, 4:] == 0).all()))""",
        tests=(BATTERY, "tests/contracts/cases/multihead.py"),
    ),
    Mechanism(
        kind=MultiHead,
        build=lambda: MultiHead(WIDTH, num_heads=2),
        score="(W_q q)_h·(W_k k)_h / √(D/H), H heads",
        state="none, or the keys and values so far if no query attends to later keys",
        cost="B·Q·K·D + B·(Q + K)·D²",
        operations="`2·B·K·D²` to prepare keys and values, once (`2·B·K·D²·G/H` with G heads of keys); then `2·B·Q·D²` "
        "for queries and output, `B·Q·K·D` for the scores and `B·Q·K·D` for the context of all heads together. "
        "A window only masks keys. It saves no operations.",
        memory="`8·B·K·D·G/H` for prepared keys and values (the cache of a decoder), `8·B·Q·D` for queries and heads, "
        "and `4·B·H·Q·K` for the weights; with `need_weights=False` and a softmax PyTorch's fused kernels "
        "keep no weights.",
        choose="you build a Transformer, queries must find several things at once, or inputs are long and matrix "
        "products are fast",
        when=(
            "This is the standard mechanism in encoders, in decoders and between the two: its heads attend to different things "
            "at the same time, and its cost is mostly matrix products, which are fast. A smaller `num_kv_heads` makes the "
            "cache of a decoder smaller, and `modifiers` normalise queries and keys, mix heads, gate the output or add keys "
            "([modifiers](masks-and-positions.md#modifiers-of-multi-head-attention)). In a small recurrent model, "
            "[Additive](additive.md) or [General](general.md) needs fewer parameters. MultiHead does not know the order of "
            "the keys, unless the inputs or its `positions` contain it ([masks and positions](masks-and-positions.md))."
        ),
        picture="There is one row of pictures for each of the two heads. In sorting, the two heads attend to different "
        "letters.",
        example="""attention = MultiHead(16, num_heads=4, num_kv_heads=2, causal=True, positions=Rotary())
x = torch.randn(2, 7, 16)
first, cache = attention.attend(x[:, :6], attention.prepare(x[:, :6]))
last, cache = attention.attend(x[:, 6:], attention.prepare(x[:, 6:]), cache)
print(torch.allclose(last.context, attention(x, x).context[:, 6:], atol=1e-5), tuple(last.weights.shape))""",
        tests=_CASES,
    ),
]

VARIANTS: dict[str, Callable[[], nn.Module]] = {
    "causal": lambda: MultiHead(WIDTH, num_heads=2, causal=True),
    "window": lambda: MultiHead(WIDTH, num_heads=2, window=(1, 1)),
    "Rotary": lambda: MultiHead(WIDTH, num_heads=2, positions=Rotary()),
    "ALiBi": lambda: MultiHead(WIDTH, num_heads=2, positions=ALiBi(2)),
    "RelativeBias": lambda: MultiHead(WIDTH, num_heads=2, positions=RelativeBias(2)),
}
"""Variants of multi-head attention for the toy problem, by the argument or class in which they differ."""
