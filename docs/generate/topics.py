"""The pages on several mechanisms: the index, the normalizers, the masks and positions."""

import inspect
from pathlib import Path

from docs.generate.heads import VARIANTS
from docs.generate.page import MECHANISMS, Results, join_blocks, render, render_function, show_example
from docs.generate.pictures import percent, variant
from docs.generate.toy import BATCH, LENGTH, LETTERS, STEPS, TASKS, WIDTH
from docs.site.folding import folded
from regard.attention import (
    AddedKeys,
    ALiBi,
    Entmax,
    Entmax15,
    LinearScaling,
    Llama3Scaling,
    Normalizer,
    NTKScaling,
    OutputGate,
    QKNorm,
    RelativeBias,
    RelativePositions,
    Rotary,
    Sigmoid,
    SoftCap,
    Softmax,
    SoftmaxSink,
    Softpick,
    Sparsemax,
    StickBreaking,
    TalkingHeads,
    Temperature,
    YaRNScaling,
    causal_mask,
    document_ids,
    document_mask,
    document_positions,
    masked_softmax,
    padding_mask,
    window_mask,
    zero_masked,
)

_INDEX = f"""# Attention mechanisms

All mechanisms of `regard.attention` are called in the same way, and each can be used alone. Each mechanism has a page with its
formula and source, its properties, its weights in three toy problems, its arguments, its cost, when to choose it, an example,
and its tests. The plain form of a mechanism is simple code for its formula. Two more pages describe what mechanisms share:
[normalizers](normalizers.md) turn scores into weights, and [masks and positions](masks-and-positions.md) say which queries may
attend to which keys, and how far apart they are.

{{table}}

In short: choose `Additive` for recurrent translators, `General` if speed matters, `MultiHead` for Transformers and long inputs,
`LocationSensitive` for speech, `Coverage` against repetition, `MoChA` if the output must begin before the input ends, and
`AttentionPooling` to turn a sequence into one vector.

[Compared with other libraries](#compared-with-other-libraries): the features of `nn.MultiheadAttention`, Keras,
x-transformers and fla, and their names in regard.

## The call

```python
out = attention(query, key, value, key_mask=key_mask, attn_mask=attn_mask, need_weights=True)
memory = attention.prepare(key, value, key_mask=key_mask)  # the same in two steps: keys once …
out, state = attention.attend(query, memory, state, attn_mask=attn_mask, need_weights=True)  # … queries as they come
```

| name | shape | meaning |
|---|---|---|
| `query` | (B,Q,Dq) | Q queries in each of B sequences |
| `key` | (B,K,Dk) | K keys to compare them with |
| `value` | (B,K,Dv) | values to average; the keys if left out |
| `key_mask` | (B,K) | boolean, True where there is a key |
| `attn_mask` | (Q,K), (B,Q,K) or, with heads, (B,H,Q,K) | boolean, True where a query may attend |
| `score_bias` | a shape of `attn_mask` | numbers to add to the scores, like PyTorch's float `attn_mask`; −∞: may not attend |
| `out.context` | (B,Q,Dv) | Σ_k weight_k value_k |
| `out.weights` | (B,Q,K), with heads (B,H,Q,K) | before dropout; None with `need_weights=False`, which takes the fastest path |
| `out.loss` | a scalar | the loss of the mechanism if it has one, else None |
| `state` | | information from earlier queries, if the mechanism is `stateful`; None at the beginning |

A query with nothing to attend to gets zero weights, a zero context and finite gradients. Masked keys and values change nothing,
even if they are NaN. The tests in [tests/contracts](../../tests/contracts/test_attention.py) check this for every mechanism.

## Cost

The pages count the multiply-adds of a forward pass (a backward pass needs about twice as many) and the bytes in float32 that
it allocates besides its inputs and the context; half precision needs half as many. B, Q, K and H are the numbers of sequences,
queries, keys and heads; G heads have their own keys. All widths are called D. The costs
in this table are the leading terms, without constant factors.

{{costs}}

{{libraries}}

## The toy problem

{{accuracies}}

Each picture shows a model that was trained for one or two seconds, on {STEPS} batches of {BATCH} random sequences of {LENGTH}
different letters out of {len(LETTERS)}. The model has to copy, reverse or sort them. Keys and values are the embedding of a
letter ({WIDTH} wide) plus the embedding of its position. The queries are the states of a GRU that reads the correct letters
written so far, and does not see the source. One linear layer predicts each letter from its context, so only the attention can
find the next letter. All mechanisms have the same model, budget and seed, so the pictures can be compared.

Columns are the letters of the source, rows those of the output, and the strongest blue is a weight of one. A red row is wrong:
it shows the correct letter and, in parentheses, the predicted one. The number above each matrix is the accuracy on 512 other
sequences, rounded down; a model that always attends to the same letter has 12%. This is an illustration, not a benchmark: it
shows what a mechanism *can* express and how easily it learns it, not which mechanism translates best. The numbers and weights
are in [toy.json](toy.json).

### What the weights mean

A weight is the share of a letter's vector in the context. It doesn't say how the output layer uses the context. Usually the
letter with the largest weight is the one that is written. An **orange** row is right although another letter has the largest
weight. This is possible because attention, embeddings and output layer are trained together, and the loss does not require
that a letter is written from its own vector: the output layer can learn that 0.6 of `b` and 0.4 of `c` mean "write c", or even
that the vector of `k` alone means `b` in one position. The model has then solved the task, and its picture doesn't show how.
Each page says how often the letter that is to be written has the largest weight.
"""


def index(results: Results) -> str:
    """Return the page with the table of all mechanisms."""
    tables = {
        "table": ["| mechanism | score | choose it when |", "|---|---|---|"],
        "costs": ["| mechanism | state | cost |", "|---|---|---|"],
        "accuracies": ["| mechanism | copy | reverse | sort |", "|---|---|---|---|"],
    }
    for entry in MECHANISMS:
        link = f"[{entry.name}]({entry.slug}.md)"
        scores = " | ".join(percent(results[entry.name][task]["accuracy"]) for task in TASKS)
        tables["table"].append(f"| {link} | {entry.score} | {entry.choose} |")
        tables["costs"].append(f"| {link} | {entry.state} | {entry.cost} |")
        tables["accuracies"].append(f"| {link} | {scores} |")
    tables["costs"] = [folded(f"States and costs of {len(MECHANISMS)} mechanisms", "\n".join(tables["costs"]))]
    tables["accuracies"] = [folded(f"Accuracies of {len(MECHANISMS)} mechanisms", "\n".join(tables["accuracies"]))]
    libraries = (Path(__file__).parent / "libraries.md").read_text(encoding="utf-8").strip()
    page = _INDEX.replace("{libraries}", libraries)
    for name, rows in tables.items():
        page = page.replace(f"{{{name}}}", "\n".join(rows))
    return page


_NORMALIZERS = (
    Normalizer,
    Softmax,
    Temperature,
    Entmax15,
    Sparsemax,
    Entmax,
    Sigmoid,
    SoftmaxSink,
    Softpick,
    StickBreaking,
    SoftCap,
)


def normalizers() -> str:
    """Return the page on normalizers."""
    example = """attention = Additive(16, normalizer=Temperature(Sparsemax(), temperature=0.5))
out = attention(torch.randn(2, 5, 16), torch.randn(2, 7, 16))
print(attention.normalized, bool((out.weights == 0).any()), Additive(16, normalizer=Sigmoid()).normalized)"""
    return join_blocks(
        [
            "# Normalizers",
            "A normalizer turns scores into weights. Every mechanism with scores has an argument `normalizer=`. "
            "The weights of the mechanism sum to one (`normalized`) if those of the normalizer do. The mechanism applies the "
            "masks: a normalizer gets scores that are −∞ where a query may not attend, and gives these keys a weight of zero. "
            "Rows without allowed keys become zeros afterwards. Your own normalizer is any module that is called with scores, "
            "such as `nn.Softmax(-1)`, or a subclass of `regard.attention.Normalizer`.",
            "![The same six scores through each normalizer](figures/normalizers.png)",
            "| normalizer | cost of a row | zeros | rows sum to one | choose it when |\n"
            "|---|---|---|---|---|\n"
            "| `Softmax` | K exponentials | never | yes | you have no special need; only it has fused kernels "
            "|\n"
            "| `Temperature` | that of the wrapped one | as the wrapped one | as the wrapped one | you want sharper or flatter "
            "weights than those after training |\n"
            "| `Entmax15` | a sort, K log K | often | yes | you want weight on a few keys only, and smooth gradients "
            "|\n"
            "| `Sparsemax` | a sort, K log K | most | yes | you want nearly hard alignments and clear pictures "
            "|\n"
            "| `Entmax` | 20 passes over the row | depends on α | yes | each head must learn how sparse it is |\n"
            "| `Sigmoid` | K exponentials | never | no | each key must get its weight independently of the others "
            "|\n"
            "| `SoftmaxSink` | K + 1 exponentials | never | no, less than one | a query must be able to attend "
            "to nothing |\n"
            "| `Softpick` | K exponentials | half | no | a query must be able to attend to nothing, with exact zeros |\n"
            "| `StickBreaking` | K exponentials | never | no, less than one | you want to prefer recent keys "
            "without positions |\n"
            "| `SoftCap` | that of the wrapped one | as the wrapped one | as the wrapped one | scores must not become too "
            "large "
            "in training |",
            "In a run: `--model.decoder.attention.normalizer.kind` with `softmax`, `sparsemax`, `entmax15`, `entmax`, "
            "`sigmoid`, `sink`, `softpick` or `stick_breaking`, `--model.decoder.attention.normalizer.temperature 0.5`, and "
            "`--model.decoder.attention.normalizer.soft_cap 50`. The plain forms are the first functions of "
            "[softmax.py](../../src/regard/attention/normalizers/softmax.py), "
            "[sparse.py](../../src/regard/attention/normalizers/sparse.py) and "
            "[sink.py](../../src/regard/attention/normalizers/sink.py).",
            "Only `Softmax` has fused forms: with another normalizer, `need_weights=False` saves nothing. With "
            "sparse normalizers, a key of weight zero gets no gradient, so a model can stay at a wrong key that "
            "it chose early. `Entmax15` has fewer zeros than `Sparsemax`, so this happens less often. With `Sigmoid`, "
            "the context grows with the number of keys, so the layer after it may need a normalization.",
            *(render_function(kind, level=2) for kind in _NORMALIZERS),
            "## Example",
            show_example(example),
            "## Tests",
            "- [tests/attention/test_normalizers.py](../../tests/attention/test_normalizers.py)\n"
            "- [tests/contracts/cases/normalizers.py](../../tests/contracts/cases/normalizers.py)",
        ]
    )


def masks_and_positions(results: Results) -> str:
    """Return the page on masks, positions and modifiers."""
    example = """positions = ALiBi(4)
attention = MultiHead(16, num_heads=4, causal=True, window=(2, 0), positions=positions)
out = attention(torch.randn(1, 5, 16), torch.randn(1, 5, 16), key_mask=padding_mask(torch.tensor([4]), 5))
print((out.weights[0, 0] > 0).int().tolist())
print(torch.equal(causal_mask(5) & window_mask(5, before=2), window_mask(5, before=2)), positions.slopes)"""
    rows = []
    for name in VARIANTS:
        scores = " | ".join(percent(results[variant(name)][task]["accuracy"]) for task in TASKS)
        rows.append(f"| `{name}` | {scores} |")
    return join_blocks(
        [
            "# Masks and relative positions",
            "A mask is boolean, and True means *may attend*, as in PyTorch's `scaled_dot_product_attention` and "
            "unlike `nn.MultiheadAttention`. regard never adds a large negative number to scores, because it "
            "overflows in half precision, and gives weight to padding in rows without allowed keys. Combine masks "
            "with `&`.",
            "![Masks](figures/masks.png)",
            "Blue is True. If Q and K differ, the last query is aligned with the last key, as in step-by-step decoding "
            "with cached keys (the second picture has three new queries and five cached keys). A mask of shape "
            "(B,Q,K) takes `B·Q·K` bytes, and one of shape (Q,K) takes `Q·K`.",
            *(render_function(f, level=2) for f in (padding_mask, causal_mask, window_mask, masked_softmax, zero_masked)),
            "# Several documents in one row",
            "Short documents can be packed into one row, so that no computation is spent on padding. Give the mask as "
            "`attn_mask`, and the positions as `query_positions`; each document then gets the result that it would get alone.",
            *(render_function(f, level=2) for f in (document_ids, document_mask, document_positions)),
            "# Relative positions",
            "Attention alone does not know the order of the keys. `MultiHead` has an argument `positions`, which "
            "is one of three modules. It tells each head how far a key is from the query.",
            "![ALiBi's biases, T5's buckets, rotary products](figures/positions.png)",
            "The first row shows the bias of ALiBi for three of four heads. Orange and red are negative: each head prefers "
            "near keys, to a different degree. The second row shows the buckets of `RelativeBias(…, num_buckets=8, "
            "max_distance=10)`, in both directions and causal. Small distances have a bucket each, and large "
            "distances share one. The last picture shows the product of two equal vectors of 16 features with "
            "rotary positions. The product becomes smaller with the distance, but not steadily.",
            "| module | parameters | cost | choose it when |\n"
            "|---|---|---|---|\n"
            "| `Rotary` | none | `2·B·(Q + K)·D` multiply-adds; keys are rotated once | you build a current "
            "language model; fused kernels still work |\n"
            "| `ALiBi` | none | `4·H·Q·K` bytes of bias | inputs may be longer than in training |\n"
            "| `RelativeBias` | num_buckets·H | `4·H·Q·K` bytes of bias | you load weights of T5, or each distance "
            "needs its own learned bias |",
            "## Masks and positions in the toy problem",
            "![Multi-head attention with masks and positions](figures/multi-head-variants.png)",
            "| MultiHead with | copy | reverse | sort |\n|---|---|---|---|\n" + "\n".join(rows),
            "The pictures show the mean of two heads. With `causal` and `window=(1, 1)`, queries attend only "
            "to a part of the source, and the model cannot reverse it. See "
            "[how to read the pictures](index.md#the-toy-problem). "
            "Here the keys also contain embeddings of their positions, so the model knows the order without `positions`.",
            "The arguments `query_positions` and `key_positions` of a call replace the consecutive positions in all of these "
            "modules.",
            *(render_function(kind, level=2) for kind in (RelativePositions, Rotary, ALiBi, RelativeBias)),
            "## Scaled rotary positions",
            "A model can read inputs longer than those of its training if the frequencies of `Rotary` are changed: "
            "`Rotary(scaling=YaRNScaling(4.0, original_length=4096))`. The frequencies equal those of Hugging Face's "
            "`transformers`.",
            "\n".join(
                f"- `{kind.__name__}`: {(inspect.getdoc(kind) or '').splitlines()[0]}"
                for kind in (LinearScaling, NTKScaling, YaRNScaling, Llama3Scaling)
            ),
            "# Modifiers of multi-head attention",
            "Each modifier changes one or more steps of the attention, as in "
            "`MultiHead(512, 8, modifiers=[QKNorm(), OutputGate()])`. "
            "Fast paths that do not support a modifier are not used: with `TalkingHeads`, no fused kernel "
            "runs, and with any modifier, packed inference and ONNX graphs call the module itself, and CTranslate2 refuses "
            "the model. Your own modifier is a subclass of `HeadModifier`.",
            *(render_function(kind, level=2) for kind in (QKNorm, TalkingHeads, OutputGate, AddedKeys)),
            "## Example",
            show_example(example),
            "## Tests",
            "\n".join(
                f"- [{path}](../../{path})"
                for path in (
                    "tests/attention/test_masks.py",
                    "tests/attention/test_modifiers.py",
                    "tests/attention/test_positions.py",
                    "tests/attention/test_rotary.py",
                    "tests/contracts/cases/multihead.py",
                )
            ),
        ]
    )


_ORIGIN = "\n<!-- Written by `make docs-figures`: change the docstrings or docs/generate, not this page. -->\n"


def pages(results: Results) -> dict[str, str]:
    """Return the text of every page by the name of its file."""
    made = {
        "index.md": index(results),
        **{f"{entry.slug}.md": render(entry, results) for entry in MECHANISMS},
        "normalizers.md": normalizers(),
        "masks-and-positions.md": masks_and_positions(results),
    }
    return {name: text.rstrip("\n") + "\n" + _ORIGIN for name, text in made.items()}
