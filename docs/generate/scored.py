"""The mechanisms without a state that score each query against each key."""

from docs.generate.entry import Mechanism
from docs.generate.toy import WIDTH
from regard.attention import (
    Additive,
    AdditivePooling,
    AttentionPooling,
    Concat,
    Cosine,
    Dot,
    GatedPooling,
    General,
    LinearConcat,
    MeanPooling,
    MultiHeadPooling,
    Pooling,
    ScaledDot,
    SumConcat,
    Trilinear,
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
    "`4·B·K·D` for the prepared keys (twice that for decoders, which keep their exponentials) and `4·B·Q·K` "
    "for the weights. The plain form, which is used for small sizes, needs `4·B·Q·K·D`, and keeps it "
    "for the backward pass."
)

_POOLINGS = """## The other poolings

`AdditivePooling` has a tanh layer before the score, as in the papers, so that the score can be a nonlinear function of the
state. This costs `B·K·D·Da` more multiply-adds. `GatedPooling` multiplies this layer by a gate, which costs as much again.
`MultiHeadPooling` computes several averages, each with its own weights. `MeanPooling` has no parameters; use it as a baseline
for the others. All are called in the same way:

```python
import torch
from regard.attention import AdditivePooling, AttentionPooling, MeanPooling, MultiHeadPooling

for pool in (AttentionPooling(16), AdditivePooling(16, attention_size=32), MultiHeadPooling(16, num_heads=3), MeanPooling(16)):
    context, weights = pool(torch.randn(4, 7, 16))
    print(tuple(context.shape), pool.output_size, tuple(weights.shape))
```

`reweight` replaces the weights of any pooling before the average, for example by uniform or permuted weights.

## Bags of vectors

A *bag* is a set of vectors with one label for the whole set: the parts of a large image, the images of a patient, the points of
a cloud, the elements of a set. Nobody says which of them decide; the weights of a pooling are learned from the labels of the
bags alone, and show it (multiple instance learning; Ilse, Tomczak, Welling 2018). A pooling takes bags of vectors as it takes
texts: the order has no effect, and bags of different sizes are padded and get a `key_mask`. Here a bag is positive if one of
its vectors is marked:

```python
import torch
from torch import nn
from regard.attention import GatedPooling

torch.manual_seed(0)


def draw_bags(count):  # bags of 3 to 9 vectors, a mask of the vectors, and labels; half of the bags have a marked vector
    bags, sizes = torch.randn(count, 9, 16), torch.randint(3, 10, (count, 1))
    labels = torch.arange(count) % 2
    bags[labels == 1, 0] += 2  # the order has no effect, so the marked vector may stand first
    return bags, torch.arange(9) < sizes, labels


pool, output = GatedPooling(16, attention_size=32), nn.Linear(16, 1)
optimizer = torch.optim.Adam([*pool.parameters(), *output.parameters()], lr=0.01)
for _ in range(300):
    bags, exists, labels = draw_bags(64)
    context, _ = pool(bags, key_mask=exists)
    loss = nn.functional.binary_cross_entropy_with_logits(output(context)[:, 0], labels.float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

bags, exists, labels = draw_bags(1000)
context, weights = pool(bags, key_mask=exists)
print(f"accuracy {((output(context)[:, 0] > 0) == labels.bool()).float().mean():.0%}")
print(f"largest weight on the marked vector: {(weights[labels == 1].argmax(1) == 0).float().mean():.0%}")
```
"""

_BEYOND = """## Beyond translation

Additive scores can compare two kinds of vectors, and have other uses than translation. A *pointer network* chooses one of
its inputs (Vinyals, Fortunato, Jaitly 2015). *Graph attention* scores the neighbours of a node; Brody, Alon and Yahav (2022)
show that a node can only change the ranking of its neighbours if a nonlinearity comes before the product with v. *Speech*
recognisers align letters with frames (Chorowski et al. 2015; see [LocationSensitive](location-sensitive.md)). The two functions
below expect queries and keys that your own layers have already projected. For graph attention, use the adjacency matrix as the
mask:

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

regard chooses the form by size and device, never by timing, so that results can be repeated. Small sizes use the formula as it
is written. On a CPU, larger sizes are computed in blocks that fit into the cache, with tanh(a + b) = 1 − 2/(1 + e^{2a}·e^{2b}):
the exponentials are computed once for each row, so each element needs only a multiply-add and a division. For NVIDIA GPUs there
are Triton kernels, which also apply mask and softmax and return the context
([module](../../src/regard/attention/fast/additive_triton.py)). They are used for large sizes
([measurements](../explanation/kernels.md)). None of the fast forms stores a tensor of `B·Q·K·D`, and tests compare each of them
with the plain form.
"""

SCORED = [
    Mechanism(
        kind=AttentionPooling,
        build=lambda: AttentionPooling(WIDTH),
        score="w·k + b (no query)",
        cost="B·K·D",
        operations="`B·K·D` for the scores and `B·K·D` for the context; there are no queries.",
        memory="`4·B·K` for the weights.",
        choose="you need one vector for a whole sequence, as in classification",
        when=(
            "Use it in models without a decoder, such as classifiers. It computes one weighted average of the "
            "whole sequence. Do not use it in a decoder, because every step would get the same context. `AdditivePooling` "
            "adds a tanh layer, `GatedPooling` a gate to this layer, and `MultiHeadPooling` computes several averages."
        ),
        picture=(
            "Here, every step of the decoder gets the pooled context, to show why a decoder needs a query: all "
            "rows are equal, so the model writes the same letter eight times, and is right once."
        ),
        example="""pool = AttentionPooling(16)
context, weights = pool(torch.randn(4, 7, 16), key_mask=padding_mask(torch.tensor([7, 5, 3, 0])))
print(tuple(context.shape), tuple(weights.shape), weights.sum(-1).round().tolist())""",
        notes=_POOLINGS,
        tests=("tests/attention/test_pooling.py",),
        also=(AdditivePooling, GatedPooling, MultiHeadPooling, MeanPooling, Pooling),
        also_title="Classes",
    ),
    Mechanism(
        kind=Additive,
        build=lambda: Additive(WIDTH),
        score="v·tanh(W_q q + W_k k)",
        cost="B·Q·K·D + B·(Q + K)·D²",
        operations=_ADDITIVE_OPERATIONS,
        memory=_ADDITIVE_MEMORY,
        choose="queries and keys differ in width or meaning; the default for recurrent translators",
        when=(
            "It is a safe choice for recurrent models: queries and keys can have different widths, and no score "
            "is larger than Σ|v|. If there are hundreds of queries and keys, matrix products are much faster. "
            "Then use [General](general.md) or [MultiHead](multi-head.md), unless Additive gives better results."
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
        choose="you want to repeat results of Luong et al.'s concat score",
        when=(
            "It computes the same function as [Additive](additive.md), with its two matrices stored as one. Only "
            "the initial weights differ, because their range depends on the sum of both widths. Use it to repeat "
            "a paper, or to load weights in this layout. Otherwise use Additive."
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
        choose="you want to repeat results of the tutorial's concat score",
        when=(
            "It has half the parameters of [Concat](concat.md), because it adds query and key before the projection. "
            "Both must therefore have the same width, and their features must have the same meaning. Use it to "
            "repeat the tutorial. Otherwise use Concat or [Additive](additive.md), which are the scores of the "
            "papers."
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
        choose="the attention must have no parameters",
        when=(
            "It is the cheapest score. It has no parameters, so the states of encoder and decoder must have the same width, "
            "and training must make the dot product of matching states large; recurrent models can learn this. The scores grow "
            "with the width. If the states are wide and not yet trained, the softmax gives nearly all weight to one key, and "
            "[ScaledDot](scaled-dot.md) learns better."
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
        choose="your own layers project queries and keys",
        when=(
            "It is the score inside every Transformer, without the projections. Use it with your own projections. "
            "If each query must find several things at once, use [MultiHead](multi-head.md)."
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
        choose="you need a fast recurrent model, or the widths of queries and keys differ",
        when=(
            "It costs only a little more than [Dot](dot.md), and queries and keys can have different widths. "
            "All operations are matrix products. The scores are not bounded: if the initial weights are too large, "
            "the softmax gives nearly all weight to one key. If training is unstable, use [Additive](additive.md)."
        ),
        example="""attention = General(16, key_size=24)
out = attention(torch.randn(2, 5, 16), torch.randn(2, 7, 24))
print(tuple(out.context.shape), tuple(attention.projection.weight.shape))""",
        tests=_CASES,
    ),
    Mechanism(
        kind=Cosine,
        build=lambda: Cosine(WIDTH),
        score="g q·k / (‖q‖ ‖k‖)",
        cost="B·Q·K·D",
        operations="`B·K·D` to prepare the keys and `B·Q·D` for the queries, then `B·Q·K·D` for scores and context each.",
        memory="`4·B·K·D` for the prepared keys and `4·B·Q·K` for the weights; with `need_weights=False` only the former.",
        choose="the lengths of vectors carry no information, as in retrieval and memories, or training is unstable",
        when=(
            "It is [Dot](dot.md) for vectors of length one, times a learned number g. No score is larger than g, so no key "
            "gets "
            "a large weight only because it is long, and training is stable. On the other hand, the length of a key cannot "
            "show "
            "that the key matters. Start with g around 10: with 1, the weights are nearly equal."
        ),
        example="""attention = Cosine(16)
query, key = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
one, other = attention(query, key, key), attention(100 * query, key, key)
print(torch.allclose(one.weights, other.weights, atol=1e-6))""",
        tests=_CASES,
    ),
    Mechanism(
        kind=Trilinear,
        build=lambda: Trilinear(WIDTH),
        score="w·[q; k; q∘k]",
        cost="B·Q·K·D",
        operations="`B·K·D` to prepare the keys and `B·Q·D` for the queries, then `B·Q·K·D` for scores and context each.",
        memory="`4·B·K·D` for the prepared keys and `4·B·Q·K` for the weights; with `need_weights=False` only the former.",
        choose="you want few parameters, and one encoder computes queries and keys, as in BiDAF",
        when=(
            "The score has one weight for each feature of the key, and one for its product with the same feature of the query. "
            "[General](general.md) uses a whole matrix for these products, with D² instead of 3·D parameters. The features of "
            "query and key must have the same meaning, as in BiDAF, where one encoder reads question and text. With different "
            "encoders, use General."
        ),
        example="""attention = Trilinear(16)
out = attention(torch.randn(2, 5, 16), torch.randn(2, 7, 16))
print(tuple(out.context.shape), tuple(attention.weight.shape))""",
        tests=_CASES,
    ),
    Mechanism(
        kind=LinearConcat,
        build=lambda: LinearConcat(WIDTH),
        score="w·[q; k] + b (the query cancels)",
        cost="B·Q·K·D + B·(Q + K)·D",
        operations="`B·K·D` to prepare the keys; then `B·Q·D` for the queries, `B·Q·K` sums, and `B·Q·K·D` for the context.",
        memory="`4·B·K` for the prepared keys and `4·B·Q·K` for the weights, whose rows are all equal.",
        choose="you want to repeat results of the tutorial's GRU translator; do not use it for anything else",
        when=(
            "Its weights do not depend on the query, as the proof above and a test show. It computes the same "
            "as [AttentionPooling](attention-pooling.md), but costs more. regard contains it because a well-known "
            "tutorial uses it. In a new model, use [Additive](additive.md), whose tanh avoids this fault."
        ),
        picture="All rows are equal, as the proof says: the model writes the same letter eight times, and is right once.",
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
        choose="scores must not be too large; the default scorer of the monotonic mechanisms",
        when=(
            "It is like [Additive](additive.md), but one parameter g determines the size of the scores, and is "
            "small at first. It is the default scorer of [SoftMonotonic](soft-monotonic.md) and [MoChA](mocha.md). "
            "Their scores become probabilities, and very large or small scores would have almost no gradient. "
            "With a softmax, it is hardly better than Additive."
        ),
        example="""attention = WeightNormAdditive(16, key_size=24)
out = attention(torch.randn(2, 5, 16), torch.randn(2, 7, 24))
print(tuple(out.weights.shape), round(attention.gain.item(), 3))""",
        tests=(BATTERY, "tests/contracts/cases/monotonic.py"),
    ),
]
