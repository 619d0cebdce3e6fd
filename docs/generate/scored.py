"""The mechanisms without a state that score each query against each key."""

from docs.generate.entry import Mechanism
from docs.generate.toy import WIDTH
from regard.attention import (
    Additive,
    AdditivePooling,
    AttentionPooling,
    Concat,
    Dot,
    General,
    LinearConcat,
    MeanPooling,
    MultiHeadPooling,
    Pooling,
    ScaledDot,
    SumConcat,
    WeightNormAdditive,
    additive_attention,
    additive_scores,
)

BATTERY = "tests/contracts/test_attention.py"
_CASES = (BATTERY, "tests/contracts/cases/scored.py")
_ADDITIVE_OPERATIONS = (
    "`B·K·D²` to prepare the keys, once; then `B·Q·D²` for the queries, `B·Q·K·D` for the scores, each with a tanh or, in "
    "the fast forms, a division, and `B·Q·K·D` for the context."
)
_ADDITIVE_MEMORY = (
    "`4·B·K·D` for the prepared keys (twice that for decoders, which keep their exponentials) and `4·B·Q·K` for the weights. "
    "The plain form, which serves small sizes, holds `4·B·Q·K·D` for a moment, and for the backward pass."
)

_POOLINGS = """## The other poolings

`AdditivePooling` puts the papers' tanh layer between: it can weigh a state by what no single direction of it says, for
`B·K·D·Da` multiply-adds more. `MultiHeadPooling` takes several such averages side by side, each with weights of its own.
`MeanPooling` learns nothing: it is the control to hold the others against. All are called alike, so one takes another's
place:

```python
import torch
from regard.attention import AdditivePooling, AttentionPooling, MeanPooling, MultiHeadPooling

for pool in (AttentionPooling(16), AdditivePooling(16, attention_size=32), MultiHeadPooling(16, num_heads=3), MeanPooling(16)):
    context, weights = pool(torch.randn(4, 7, 16))
    print(tuple(context.shape), pool.output_size, tuple(weights.shape))
```

With `reweight` the weights of any of them are replaced before they average: for controls with uniform or permuted attention.
"""

_BEYOND = """## Beyond translation

Additive scores compare each of many rows with each of many others through a tanh, and that is useful wherever the two sides
differ in kind: a *pointer network* chooses one of its inputs (Vinyals, Fortunato, Jaitly 2015), *graph attention* scores a
node's neighbours (Brody, Alon, Yahav 2022 show that the nonlinearity before the last weights is what makes it depend on the
node), and *speech* recognisers align letters with frames (Chorowski et al. 2015; see
[LocationSensitive](location-sensitive.md)). The two functions below take what is projected already, by layers of your own.
Graph attention is the same call with the adjacency as mask:

```python
import torch
from torch import nn
from regard.attention import additive_attention

nodes, adjacency = torch.randn(1, 6, 16), torch.eye(6, dtype=torch.bool) | (torch.arange(6) % 2 == 0)
left, right, v = nn.Linear(16, 8), nn.Linear(16, 8), torch.randn(8)
out = additive_attention(left(nodes), right(nodes), nodes, v, attn_mask=adjacency)
print(tuple(out.context.shape), bool((out.weights[0][~adjacency] == 0).all()))
```

## Fast forms

The form is chosen by size and device, never by timing, so that results repeat. Small sizes take the formula as it is
written. Larger ones on a processor take blocks that stay in the cache and use tanh(a + b) = 1 − 2/(1 + e^{2a}·e^{2b}): the
exponentials are made once a row, and what is left for each element is a multiply-add and a division. **Under
`torch.compile`, large sizes take compiled loops of the same identity**, with two fractions over one denominator, forward
and backward. On an NVIDIA GPU, Triton kernels go on through mask and softmax to the context (their
[module](../../src/regard/attention/kernels/additive_triton.py) says what they were checked on). None of the fast forms
holds a tensor of `B·Q·K·D`, and tests hold each to the plain form.
"""

SCORED = [
    Mechanism(
        kind=AttentionPooling,
        build=lambda: AttentionPooling(WIDTH),
        score="w·k + b (no query)",
        cost="B·K·D",
        operations="`B·K·D` for the scores and `B·K·D` for the context; there are no queries.",
        memory="`4·B·K` for the weights.",
        choose="a whole sequence is to become one vector: classification, sentence embeddings",
        when=(
            "Take it where there is no decoder to ask a question: one average for the whole sequence, whose weights say "
            "which words counted. It is no substitute for attention in a decoder, because every step would get the same "
            "context. With a tanh layer between it is `AdditivePooling`, of several averages `MultiHeadPooling`."
        ),
        picture=(
            "Here the pooled context is given to every step of the decoder, to show what is lost without a query: all rows are "
            "alike, and so the same letter is written eight times, of which one is right."
        ),
        example="""pool = AttentionPooling(16)
context, weights = pool(torch.randn(4, 7, 16), key_mask=padding_mask(torch.tensor([7, 5, 3, 0])))
print(tuple(context.shape), tuple(weights.shape), weights.sum(-1).round().tolist())""",
        notes=_POOLINGS,
        tests=("tests/attention/test_pooling.py",),
        also=(AdditivePooling, MultiHeadPooling, MeanPooling, Pooling),
        also_title="Classes",
    ),
    Mechanism(
        kind=Additive,
        build=lambda: Additive(WIDTH),
        score="v·tanh(W_q q + W_k k)",
        cost="B·Q·K·D + B·(Q + K)·D²",
        operations=_ADDITIVE_OPERATIONS,
        memory=_ADDITIVE_MEMORY,
        choose="query and key differ in kind or width; the default of recurrent translators",
        when=(
            "The safe choice for recurrent models: it takes any two widths, and its scores are bounded by Σ|v| whatever the "
            "states are. Where Q and K are both in the hundreds a product of matrices is much cheaper per score: take "
            "[General](general.md) or [MultiHead](multi-head.md) there unless the tanh earns its price."
        ),
        example="""attention = Additive(16, key_size=24, attention_size=32)
memory = attention.prepare(torch.randn(2, 7, 24))  # project the keys once …
for query in torch.randn(5, 2, 1, 16):  # … and use them at every step
    out, _ = attention.attend(query, memory)
print(tuple(out.context.shape), tuple(out.weights.shape))""",
        notes=_BEYOND,
        tests=(
            *_CASES,
            "tests/attention/test_additive_kernel.py",
            "tests/attention/test_additive_compiled.py",
        ),
        also=(additive_scores, additive_attention),
    ),
    Mechanism(
        kind=Concat,
        build=lambda: Concat(WIDTH),
        score="v·tanh(W [q; k])",
        cost="B·Q·K·D + B·(Q + K)·D²",
        operations=_ADDITIVE_OPERATIONS,
        memory=_ADDITIVE_MEMORY,
        choose="results of Luong et al.'s concat are to be repeated",
        when=(
            "The same function as [Additive](additive.md), whose two matrices stand side by side in one; only the start "
            "differs, because the range of the first weights follows from the sum of both widths. Take it to repeat a paper "
            "or to load weights of that layout, and Additive otherwise."
        ),
        example="""attention = Concat(16, key_size=24, attention_size=32)
out = attention(torch.randn(2, 5, 16), torch.randn(2, 7, 24))
print(tuple(attention.projection.weight.shape), tuple(out.weights.shape))""",
        tests=_CASES,
    ),
    Mechanism(
        kind=SumConcat,
        build=lambda: SumConcat(WIDTH),
        score="v·tanh(W (q + k))",
        cost="B·Q·K·D + B·(Q + K)·D²",
        operations=_ADDITIVE_OPERATIONS,
        memory=_ADDITIVE_MEMORY,
        choose="results of the tutorial's concat are to be repeated",
        when=(
            "Half the parameters of [Concat](concat.md), at the price that query and key must have one width and live in one "
            "space, as they are added before anything is learnt of either. Take it to repeat the tutorial; otherwise Concat "
            "or [Additive](additive.md) is what the paper meant."
        ),
        example="""attention = SumConcat(16)
query, key = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
out = attention(query, key)
print(tuple(out.weights.shape), attention.project_query(query).shape == query.shape)""",
        tests=_CASES,
    ),
    Mechanism(
        kind=Dot,
        build=lambda: Dot(WIDTH),
        score="q·k",
        cost="B·Q·K·D",
        operations="Nothing to prepare; `B·Q·K·D` for the scores and `B·Q·K·D` for the context, both products of matrices.",
        memory="`4·B·Q·K` for the weights; with `need_weights=False` and a softmax the fused kernel keeps none.",
        choose="encoder and decoder share a space, and nothing may be learnt by the attention itself",
        when=(
            "The cheapest there is, without a parameter: encoder and decoder must learn to speak one language of one width, "
            "and those of a recurrent model can. Scores grow with the width; with wide states that were not trained for it "
            "the softmax saturates at once, and [ScaledDot](scaled-dot.md) is the better start."
        ),
        example="""attention = Dot(16)
query, key = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
out = attention(query, key, need_weights=False)  # PyTorch's fused kernel
print(torch.allclose(out.context, attention(query, key).context, atol=1e-5), len(list(attention.parameters())))""",
        tests=_CASES,
    ),
    Mechanism(
        kind=ScaledDot,
        build=lambda: ScaledDot(WIDTH),
        score="q·k / √D",
        cost="B·Q·K·D",
        operations="Nothing to prepare; `B·Q·K·D` for the scores and `B·Q·K·D` for the context, both products of matrices.",
        memory="`4·B·Q·K` for the weights; with `need_weights=False` and a softmax the fused kernel keeps none.",
        choose="queries and keys come from projections of your own",
        when=(
            "The core of every Transformer, to be built upon: bring your own projections. Without any it has the limits of "
            "[Dot](dot.md), and where several things must be looked up at once, [MultiHead](multi-head.md) has the heads for "
            "it."
        ),
        example="""attention = ScaledDot(16)
query, key, value = torch.randn(2, 5, 16), torch.randn(2, 7, 16), torch.randn(2, 7, 3)
out = attention(query, key, value, attn_mask=causal_mask(5, 7))
print(tuple(out.context.shape), out.weights[0, 0, 3:].tolist())""",
        tests=_CASES,
    ),
    Mechanism(
        kind=General,
        build=lambda: General(WIDTH),
        score="k·(W q)",
        cost="B·Q·K·D + B·Q·D²",
        operations="Nothing to prepare; `B·Q·D²` for the queries, `B·Q·K·D` for the scores and `B·Q·K·D` for the context.",
        memory="`4·B·Q·D` for the projected queries and `4·B·Q·K` for the weights; with `need_weights=False` only the former.",
        choose="speed counts in a recurrent model, and widths differ",
        when=(
            "One matrix between two spaces: nearly the price of [Dot](dot.md), any two widths, and products of matrices all "
            "the way. The score is not bounded, so a badly scaled start saturates the softmax; where training is unsteady, "
            "[Additive](additive.md) is the calmer choice."
        ),
        example="""attention = General(16, key_size=24)
out = attention(torch.randn(2, 5, 16), torch.randn(2, 7, 24))
print(tuple(out.context.shape), tuple(attention.projection.weight.shape))""",
        tests=_CASES,
    ),
    Mechanism(
        kind=LinearConcat,
        build=lambda: LinearConcat(WIDTH),
        score="w·[q; k] + b (the query cancels)",
        cost="B·Q·K·D + B·(Q + K)·D",
        operations="`B·K·D` to prepare the keys; then `B·Q·D` for the queries, `B·Q·K` sums, and `B·Q·K·D` for the context.",
        memory="`4·B·K` for the prepared keys and `4·B·Q·K` for the weights, whose rows are all alike.",
        choose="the tutorial's GRU translator is to be repeated, and for nothing else",
        when=(
            "Its weights do not depend on the query, as the proof above says and a test shows: it is "
            "[AttentionPooling](attention-pooling.md) at the price of attention. It is here because a well-known tutorial "
            "trains with it. Do not choose it for anything new; a tanh between, as in [Additive](additive.md), is the remedy."
        ),
        picture="All rows are alike, as the proof has it: the same letter is written eight times, and one is right.",
        example="""attention = LinearConcat(16, key_size=24)
key = torch.randn(1, 7, 24)
one, other = attention(torch.randn(1, 1, 16), key), attention(torch.randn(1, 1, 16), key)
print(torch.allclose(one.weights, other.weights, atol=1e-6))""",
        tests=(*_CASES, "tests/attention/test_mechanisms.py"),
    ),
    Mechanism(
        kind=WeightNormAdditive,
        build=lambda: WeightNormAdditive(WIDTH),
        score="g v/‖v‖ · tanh(W_q q + W_k k + b)",
        cost="B·Q·K·D + B·(Q + K)·D²",
        operations=_ADDITIVE_OPERATIONS,
        memory=_ADDITIVE_MEMORY,
        choose="scores must be of a controlled size: the scorer of the monotonic mechanisms",
        when=(
            "[Additive](additive.md) with the size of the scores as one number of its own, small at first. It is the scorer "
            "that [SoftMonotonic](soft-monotonic.md) and [MoChA](mocha.md) take if given none, where a score is the logit of "
            "a probability and large ones end learning. With a softmax it has little over Additive."
        ),
        example="""attention = WeightNormAdditive(16, key_size=24)
out = attention(torch.randn(2, 5, 16), torch.randn(2, 7, 24))
print(tuple(out.weights.shape), round(attention.gain.item(), 3))""",
        tests=(BATTERY, "tests/contracts/cases/monotonic.py"),
    ),
]
