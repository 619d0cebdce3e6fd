"""Self-attention, multi-head attention, and the variants of it that the page on masks and positions shows."""

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
        choose="self-attention is to be taught or looked at, one head without an output map",
        when=(
            "The form in which self-attention is first taught, with nothing in the way of looking at it. It has one head, no "
            "dropout and no positions: within a model, [MultiHead](multi-head.md) costs about the same and does more."
        ),
        picture="As a decoder's attention, like all others here: `attention(query, key)` is allowed, too.",
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
        state="none; keys and values so far, where no query sees what comes later",
        cost="B·Q·K·D + B·(Q + K)·D²",
        operations="`2·B·K·D²` to prepare keys and values, once (`2·B·K·D²·G/H` with G heads of keys); then `2·B·Q·D²` for "
        "queries and output, `B·Q·K·D` for the scores and `B·Q·K·D` for the context of all heads together. A window forbids, "
        "and saves no operations.",
        memory="`8·B·K·D·G/H` for prepared keys and values, which is what a decoder's cache holds, `8·B·Q·D` for queries and "
        "heads, and `4·B·H·Q·K` for the weights; with `need_weights=False` and a softmax PyTorch's fused kernels keep no "
        "weights.",
        choose="Transformers; several things to look up at once; long inputs on fast hardware",
        when=(
            "The standard of today wherever matrix products are cheap: several heads read different things at once, and one "
            "class serves encoder, decoder and what lies between them. `num_kv_heads` < `num_heads` shrinks the cache of a "
            "decoder. In a small recurrent model [Additive](additive.md) or [General](general.md) does with fewer "
            "parameters; and it knows of no order unless the inputs or its `positions` tell ([masks and "
            "positions](masks-and-positions.md))."
        ),
        picture="One row of pictures for each of the two heads, which share the work: in sorting they read different letters.",
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
"""In the toy problem, by the name of the argument that makes them."""
