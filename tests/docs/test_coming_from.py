"""The table for users of other libraries: each row is run with copied weights, and both sides give the same."""

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import regard.attention

PAGE = (Path(__file__).parents[2] / "docs/how-to/coming-from-pytorch.md").read_text("utf-8")
ROWS = dict(
    re.findall(r"^\| (.*?) \| (.*?) \|$", PAGE.partition("| elsewhere | here |\n|---|---|\n")[2].partition("\n\n")[0], re.M)
)
B, Q, K, H, E = 2, 5, 5, 8, 64
X = torch.randn(B, Q, 512, generator=torch.Generator().manual_seed(0))
SMALL = X[..., :256]
PADDING = torch.arange(K) >= torch.tensor([[3], [5]])  # True: ignore
MASK = torch.rand(Q, K, generator=torch.Generator().manual_seed(1)) < 0.4  # True: ignore
MASK.fill_diagonal_(False)
NAMES = {name: getattr(regard.attention, name) for name in regard.attention.__all__} | {"nn": nn, "torch": torch}
TESTS: dict[str, Callable[[list[str]], None]] = {}


def row(start: str):
    """Mark the test of the row whose left cell begins like this."""

    def mark(test):
        [name] = [left for left in ROWS if left.replace("`", "").startswith(start)]
        assert name not in TESTS
        TESTS[name] = test
        return test

    return mark


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


def snippet(name: str) -> dict:
    """What the page's example with this name in it defines."""
    [code] = [code for code in re.findall(r"```python\n(.*?)```", PAGE, re.S) if name in code]
    scope: dict = {}
    exec(code, scope)
    return scope


def build(code: str, **scope):
    torch.manual_seed(2)
    return eval(code, NAMES | scope).eval()


def options(code: str, **scope) -> dict:
    return eval(f"dict({code})", NAMES | scope)


def from_torch(left: str, right: str) -> tuple[nn.Module, nn.Module]:
    theirs, ours = build(left), build(right)
    nn.init.normal_(theirs.in_proj_bias)  # zero at the start, where it would hide a mistake
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


THEIRS = "nn.MultiheadAttention(512, 8, batch_first=True)"


@row("nn.MultiheadAttention(512, 8, batch_first")
def test_torch(here):
    theirs, ours = from_torch(THEIRS, here[0])
    expected = theirs(X, X, X, average_attn_weights=False)
    for found, right in zip(ours(X, X, X), expected, strict=True):
        close(found, right)


@row("nn.MultiheadAttention(512, 8, kdim")
def test_widths(here):
    theirs, ours = from_torch("nn.MultiheadAttention(512, 8, kdim=256, vdim=128, batch_first=True)", here[0])
    close(ours(X, SMALL, X[..., :128]).context, theirs(X, SMALL, X[..., :128])[0])


@row("dropout_p")
def test_dropout(here):
    """With one key, the context is zero where its weight was dropped."""
    ours = build(here[0]).train()
    query, one = torch.randn(1, 4000, 512), torch.ones(1, 1, 512)
    heads = ours.output_projection
    heads.weight.data, heads.bias.data = torch.eye(512), torch.zeros(512)
    found = ours(query, one).context == 0
    expected = scaled_dot_product_attention(query, one, one, dropout_p=0.1) == 0
    assert abs(found.float().mean() - expected.float().mean()) < 0.03


@row("attention(x, x, x)")
def test_itself(here):
    theirs, ours = from_torch(THEIRS, "MultiHead(512, 8)")
    close(eval(here[0], {"attention": ours, "x": X}).context, theirs(X, X, X)[0])


@row("average_attn_weights")
def test_average(here):
    theirs, ours = from_torch(THEIRS, "MultiHead(512, 8)")
    close(eval(here[0], {"out": ours(X)}), theirs(X, X, X, average_attn_weights=True)[1])


@row("key_padding_mask")
def test_padding(here):
    theirs, ours = from_torch(THEIRS, "MultiHead(512, 8)")
    close(ours(X, **options(here[0], padding=PADDING)).context, theirs(X, X, X, key_padding_mask=PADDING)[0])


@row("attn_mask=mask of nn")
def test_mask(here):
    theirs, ours = from_torch(THEIRS, "MultiHead(512, 8)")
    close(ours(X, **options(here[0], mask=MASK)).context, theirs(X, X, X, attn_mask=MASK)[0])


@row("attn_mask=mask (B·H")
def test_mask_of_heads(here):
    theirs, ours = from_torch(THEIRS, "MultiHead(512, 8)")
    mask = torch.rand(B * H, Q, K) < 0.4
    mask[..., 0] = False
    close(ours(X, **options(here[0], mask=mask, B=B, H=H)).context, theirs(X, X, X, attn_mask=mask)[0])


@row("attn_mask=mask of scaled")
def test_mask_of_products(here):
    assert here == []
    dot = build("ScaledDot(512)")
    close(dot(X, attn_mask=~MASK).context, scaled_dot_product_attention(X, X, X, attn_mask=~MASK))


@row("a mask of 0")
def test_mask_of_numbers(here):
    mask = torch.zeros(Q, K).masked_fill(MASK, -torch.inf)
    close(
        build("ScaledDot(512)")(X, **options(here[0], mask=mask)).context, scaled_dot_product_attention(X, X, X, attn_mask=mask)
    )


@row("is_causal")
def test_causal(here):
    theirs, ours = from_torch(THEIRS, here[0])
    mask = nn.Transformer.generate_square_subsequent_mask(Q)
    expected = theirs(X, X, X, attn_mask=mask, is_causal=True)[0]
    close(ours(X).context, expected)
    plain = build("MultiHead(512, 8)")
    plain.load_state_dict(theirs.state_dict())
    close(plain(X, **options(here[1], Q=Q, K=K)).context, expected)


@row("Hugging Face's attention_mask")
def test_hugging_face(here):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 1, "vocab_size": 11, "intermediate_size": 8}
    config = transformers.BertConfig(**sizes, attn_implementation="eager")
    theirs = transformers.BertModel(config, add_pooling_layer=False).eval()
    layer, ours = theirs.encoder.layer[0], build("MultiHead(512, 8)")
    parts = {"query": layer.attention.self.query, "key": layer.attention.self.key, "value": layer.attention.self.value}
    for name, linear in {**parts, "output": layer.attention.output.dense}.items():
        getattr(ours, f"{name}_projection").load_state_dict(linear.state_dict())
    attention_mask, ids = (~PADDING).long(), torch.arange(B * K).view(B, K)
    expected = theirs(ids, attention_mask=attention_mask, output_attentions=True).attentions[0]
    embedded = theirs.embeddings(ids)
    close(ours(embedded, **options(here[0], attention_mask=attention_mask)).weights, expected)


def keras(query: Tensor, value: Tensor, key: Tensor, ours: nn.Module, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Keras's formula: kernels (D,H,E) and (H,E,D) and biases (H,E), queries divided by √key_dim; `ours` gives the weights."""
    kernel = {n: getattr(ours, f"{n}_projection").weight.T for n in ("query", "key", "value", "output")}
    bias = {n: getattr(ours, f"{n}_projection").bias for n in ("query", "key", "value", "output")}
    given = {"query": query, "key": key, "value": value}
    q, k, v = (torch.einsum("btd,dhe->bthe", x, kernel[n].unflatten(1, (H, E))) + bias[n].view(H, E) for n, x in given.items())
    scores = torch.einsum("bqhe,bkhe->bhqk", q / math.sqrt(E), k)
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None], -1e9)
    weights = scores.softmax(-1)
    found = torch.einsum("bhqk,bkhe->bqhe", weights, v)
    return torch.einsum("bqhe,hed->bqd", found, kernel["output"].unflatten(0, (H, E))) + bias["output"], weights


KERAS = "MultiHead(256, 8, head_size=64)"


@row("Keras's MultiHeadAttention")
def test_keras(here):
    ours = build(here[0])
    assert ours.query_projection.weight.shape == (H * E, 256)
    for found, expected in zip(ours(SMALL), keras(SMALL, SMALL, SMALL, ours), strict=True):
        close(found, expected)


@row("Keras's layer(query, value, key)")
def test_keras_order(here):
    ours, key, value = build(KERAS), SMALL.flip(1), SMALL.roll(1, 2)
    found = eval(here[0], {"attention": ours, "query": SMALL, "key": key, "value": value})
    close(found.context, keras(SMALL, value, key, ours)[0])


@row("Keras's attention_mask")
def test_keras_mask(here):
    ours, attention_mask = build(KERAS), (~MASK).long().expand(B, Q, K)
    close(
        ours(SMALL, **options(here[0], attention_mask=attention_mask)).context,
        keras(SMALL, SMALL, SMALL, ours, attention_mask.bool())[0],
    )


@row("Keras's use_causal_mask")
def test_keras_causal(here):
    ours, causal = build(here[0]), torch.ones(B, Q, K, dtype=torch.bool).tril()
    close(ours(SMALL).context, keras(SMALL, SMALL, SMALL, ours, causal)[0])


@row("Keras's return_attention_scores")
def test_keras_scores(here):
    ours = build(KERAS)
    _, weights = ours(SMALL)
    close(weights, keras(SMALL, SMALL, SMALL, ours)[1])
    assert ours(SMALL, **options(here[0])).weights is None


def x_transformers(**given) -> nn.Module:
    module = pytest.importorskip("x_transformers.x_transformers")
    torch.manual_seed(3)
    return module.Attention(**{"dim": 256, "heads": 8} | given).eval()


def copied(theirs: nn.Module, right: str, **scope) -> nn.Module:
    ours = build(right, **scope)
    parts = {"query": theirs.to_q, "key": theirs.to_k, "value": theirs.to_v, "output": theirs.to_out}
    for name, linear in parts.items():
        getattr(ours, f"{name}_projection").load_state_dict(linear.state_dict())
    return ours


def same(theirs: nn.Module, ours: nn.Module, **extra) -> None:
    expected, intermediates = theirs(SMALL, return_intermediates=True, **extra)[:2]
    context, weights = ours(SMALL)
    close(context, expected)
    close(weights, intermediates.post_softmax_attn)


@row("x-transformers' Attention(dim=256, heads=8)")
def test_x(here):
    theirs = x_transformers()
    same(theirs, copied(theirs, here[0]))


@row("x-transformers' causal=True")
def test_x_causal(here):
    theirs = x_transformers(causal=True)
    same(theirs, copied(theirs, here[0]))


@row("x-transformers' kv_heads=2")
def test_x_groups(here):
    theirs, found = x_transformers(kv_heads=2), snippet("def copy_weights")
    found["copy_weights"](theirs)
    close(found["attention"](SMALL).context, theirs(SMALL))
    ours = build(here[0])
    ours.load_state_dict(found["attention"].state_dict())
    close(ours(SMALL).context, theirs(SMALL))


@row("x-transformers' alibi_pos_bias")
def test_x_alibi(here):
    layers = pytest.importorskip("x_transformers.x_transformers").AttentionLayers(
        dim=256, heads=8, depth=1, alibi_pos_bias=True
    )
    theirs = x_transformers()
    same(theirs, copied(theirs, here[0]), attn_bias=layers.rel_pos(Q, K))


@row("x-transformers' rotary_pos_emb=True, rotary_emb_dim")
def test_x_rotary(here):
    rotate(here, {"rotary_emb_dim": 64})


@row("x-transformers' rotary_pos_emb=True, which")
def test_x_half_rotary(here):
    rotate(here, {})


def rotate(here, given):
    module = pytest.importorskip("x_transformers.x_transformers")
    layers = module.AttentionLayers(dim=256, heads=8, depth=1, rotary_pos_emb=True, **given)
    theirs = x_transformers()
    scope = {"HalfRotary": snippet("class HalfRotary")["HalfRotary"]}
    same(theirs, copied(theirs, here[0], **scope), rotary_pos_emb=layers.rotary_pos_emb.forward_from_seq_len(Q))


@row("x-transformers' sigmoid")
def test_x_sigmoid(here):
    theirs = x_transformers(sigmoid=True)
    same(theirs, copied(theirs, here[0]))


for name in [name for name in globals() if name.startswith("test_")]:
    del globals()[name]  # they are called by the test below, once for each row


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("left", [pytest.param(n, marks=[pytest.mark.slow] * n.startswith("Hugging")) for n in ROWS])
def test_both_sides_of_a_row_give_the_same(left):
    TESTS[left](re.findall(r"`([^`]+)`", ROWS[left]))
