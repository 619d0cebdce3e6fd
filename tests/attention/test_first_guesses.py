"""What someone tries first who knows PyTorch, Keras or x-transformers: it works, or the error shows the right call.

Each line is the code that a user types, and what they get: an expression that is true afterwards, or the words of the error.
B = 2, Q = 5, K = 9, H = 2 heads, width 8.
"""

import doctest
import inspect
import io
import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard.attention
from regard.errors import RegardError
from regard.layers.recurrent import RecurrentLayer

WORKS = [
    # The result unpacks as that of nn.MultiheadAttention.
    ("context, weights = Additive(8)(q, k, v)", "context.shape == (2, 5, 8) and weights.shape == (2, 5, 9)"),
    ("context = MultiHead(8, 2)(q, k, v)[0]", "context.shape == (2, 5, 8)"),
    ("weights = MultiHead(8, 2)(q, k, v)[1]", "weights.shape == (2, 2, 5, 9)"),
    ("context, _ = MultiHead(8, 2)(q, k, v, need_weights=False)", "_ is None"),
    ("out = MultiHead(8, 2)(query=q, key=k, value=v)", "out.context.shape == (2, 5, 8) and len(out) == 2"),
    ("context, weights = AttentionPooling(8)(k)", "context.shape == (2, 8) and weights.shape == (2, 9)"),
    # Self-attention, sizes by position.
    ("out = MultiHead(8, 2)(q)", "out.weights.shape == (2, 2, 5, 5)"),
    ("a = Additive(8); out = a(q)", "torch.equal(out.context, a(q, q, q).context)"),
    ("out = ScaledDot(8)(q)", "out.weights.shape == (2, 5, 5)"),
    ("out = MultiHead(8, num_heads=2, causal=True)(q)", "out.weights[0, 0, 0, 1:].sum() == 0"),
    ("pool = MultiHeadPooling(8, 2)", "pool(k).context.shape == (2, 16)"),
    # Keys and values in one: what Keras calls the value.
    ("a = Additive(8); out = a(q, k)", "torch.equal(out.context, a(q, k, k).context)"),
    # Device and dtype as in torch.nn.
    ("a = MultiHead(8, 2, device='meta')", "all(p.is_meta for p in a.parameters())"),
    ("a = Additive(8, dtype=torch.float64)", "a(q.double(), k.double()).context.dtype == torch.float64"),
    ("a = Coverage(8).to(torch.float64)", "a(q.double(), k.double()).context.dtype == torch.float64"),
    # Without a batch axis.
    ("out = MultiHead(8, 2)(q[0], k[0], v[0])", "out.context.shape == (5, 8) and out.weights.shape == (2, 5, 9)"),
    ("context, weights = Additive(8)(q[0], k[0], key_mask=key_mask[0])", "context.shape == (5, 8) and weights.shape == (5, 9)"),
    ("context, weights = AdditivePooling(8)(k[0])", "context.shape == (8,) and weights.shape == (9,)"),
    # Masks that broadcast, as in scaled_dot_product_attention.
    ("out = MultiHead(8, 2)(q, k, v, attn_mask=key_mask[:, None, None])", "(out.weights[1, :, :, 6:] == 0).all()"),
    ("out = Additive(8)(q, k, v, attn_mask=key_mask[:, None, None])", "(out.weights[1, :, 6:] == 0).all()"),
    ("out = Additive(8)(q, k, v, attn_mask=torch.ones(2, 1, 5, 9).bool())", "out.weights.shape == (2, 5, 9)"),
    ("out = MultiHead(8, 2)(q, k, v, attn_mask=torch.ones(1, 5, 9).bool())", "out.weights.shape == (2, 2, 5, 9)"),
    ("out = MultiHead(8, 2)(q, k, v, attn_mask=torch.ones(5, 9).bool().tril())", "out.weights[0, 0, 0, 1] == 0"),
    (
        "out = MultiHead(8, 2)(q, k, v, attn_mask=torch.ones(1, 2, 5, 9).bool())",
        "out.weights.shape == (2, 2, 5, 9)",
    ),
    # Normalizers by name.
    ("a = Additive(8, normalizer='sparsemax')", "isinstance(a.normalizer, Sparsemax)"),
    ("a = MultiHead(8, 2, normalizer='entmax15')", "isinstance(a.normalizer, Entmax15)"),
    ("a = AttentionPooling(8, normalizer='sigmoid')", "isinstance(a.normalizer, Sigmoid)"),
    (
        "a = Additive(8, normalizer=nn.Softmax(-1))",
        "(a(q, k, key_mask=key_mask).weights[1, :, 6:] == 0).all()",
    ),
    # Weights of PyTorch's module.
    (
        "theirs = nn.MultiheadAttention(8, 2, batch_first=True); a = MultiHead(8, 2); a.load_state_dict(theirs.state_dict())",
        "torch.allclose(a(q, k, v).context, theirs(q, k, v)[0], atol=1e-6)",
    ),
    (
        "theirs = nn.MultiheadAttention(8, 2, kdim=8, vdim=6, bias=False, batch_first=True); "
        "a = MultiHead(8, 2, value_size=6, bias=False); a.load_state_dict(theirs.state_dict())",
        "torch.allclose(a(q, k, v[..., :6]).context, theirs(q, k, v[..., :6])[0], atol=1e-6)",
    ),
    (
        "theirs = nn.TransformerEncoderLayer(8, 2, 16); a = nn.ModuleDict({'self_attn': MultiHead(8, 2)}); "
        "a.load_state_dict({n: p for n, p in theirs.state_dict().items() if n.startswith('self_attn')})",
        "torch.equal(a['self_attn'].output_projection.weight, theirs.self_attn.out_proj.weight)",
    ),
    ("a = MultiHead(8, 2); a.load_state_dict(MultiHead(8, 2).state_dict())", "True"),
    # What print shows.
    (
        "shown = repr(MultiHead(8, 2, causal=True, window=(3, 0), positions=Rotary()))",
        "all(x in shown for x in ('size=8', 'num_heads=2', 'causal=True', 'window=(3, 0)', 'Rotary(', 'Softmax()'))",
    ),
    ("shown = repr(Additive(8, key_size=6))", "all(x in shown for x in ('query_size=8', 'key_size=6', 'attention_size=8'))"),
    ("shown = repr(MultiHeadPooling(8, 2, normalizer='sparsemax'))", "'num_heads=2' in shown and 'Sparsemax()' in shown"),
    ("shown = repr(ALiBi(4))", "shown == 'ALiBi(num_heads=4)'"),
]

FAILS = [
    # The names of others, in calls.
    (
        "MultiHead(8, 2)(q, k, v, key_padding_mask=pad)",
        r"MultiHead has no argument 'key_padding_mask': give key_mask=~key_padding_mask",
    ),
    (
        "MultiHead(8, 2)(q, k, v, is_causal=True)",
        r"'is_causal': build MultiHead\(512, 8, causal=True\), or give attn_mask=causal_mask",
    ),
    ("Additive(8)(q, k, use_causal_mask=True)", r"'use_causal_mask': build MultiHead\(512, 8, causal=True\)"),
    (
        "Additive(8)(q, k, attention_mask=key_mask)",
        r"key_mask=attention_mask.bool\(\).*\(Hugging Face\), or attn_mask=.*\(Keras\)",
    ),
    ("Additive(8)(q, k, mask=key_mask)", r"'mask': give key_mask=mask for a \(B, K\) mask .* True means 'may attend'"),
    ("MultiHead(8, 2)(q, k, v, average_attn_weights=True)", r"average them with out.weights.mean\(1\)"),
    ("Additive(8)(q, k, return_attention_scores=True)", r"give need_weights: out.weights holds the weights"),
    ("MultiHead(8, 2)(q, k, v, dropout_p=0.1)", r"'dropout_p': it is set at construction; give dropout, as in MultiHead\(512"),
    ("Dot(8)(q, k, scale=0.1)", r"'scale': it is set at construction; give scale, as in Dot\(256, scale=0.1\)"),
    ("MultiHead(8, 2)(q, context=k)", r"'context': give key, the second argument"),
    ("Additive(8)(q, k, need_weigths=False)", r"did you mean 'need_weights'\?"),
    (
        "Additive(8)(q, k, foo=1)",
        r"has no argument 'foo'; it has query, key, value, key_mask, attn_mask, score_bias, query_positions, key_positions",
    ),
    ("AttentionPooling(8)(k, mask=key_mask)", r"AttentionPooling has no argument 'mask': give key_mask=mask"),
    # Masks by position, and masks of other kinds and shapes.
    ("MultiHead(8, 2)(q, k, v, key_mask)", r"1 positional argument too many; .* Give masks by name: key_mask=… \(B, K\)"),
    (
        "AttentionPooling(8)(k, key_mask)",
        r"1 positional argument too many; values is the only positional argument. Give the mask by name",
    ),
    (
        "Additive(8)(q, k, key_mask=key_mask.long())",
        r"key_mask is int64, expected a boolean mask .* Convert 0/1 masks with key_mask.bool",
    ),
    (
        "MultiHead(8, 2)(q, k, v, attn_mask=torch.zeros(5, 9))",
        r"attn_mask is float32.* masks of 0 and −inf with attn_mask == 0.*; numbers to add to the scores are a score_bias",
    ),
    (
        "MultiHead(8, 2)(q, k, v, attn_mask=key_mask)",
        r"has shape \(2, 9\), expected .*; a \(B, K\) mask of the keys that exist is a key_mask",
    ),
    (
        "MultiHead(8, 2)(q, k, v, attn_mask=torch.ones(4, 5, 9).bool())",
        r"unflatten the mask of nn.MultiheadAttention with attn_mask.unflatten\(0, \(2, 2\)\)",
    ),
    (
        "Additive(8)(q, k, key_mask=key_mask[:, None, None])",
        r"a mask of more axes that broadcasts to \(B, H, Q, K\) is an attn_mask",
    ),
    ("Additive(8)(q, k, attn_mask=torch.ones(2, 4, 5, 9).bool())", r"expected \(Q, K\) .*; this mechanism has no heads"),
    # Inputs.
    (
        "Additive(8)([q, k])",
        r"Additive: query is a list, expected a tensor; give each tensor as an argument, as in attention\(query, key",
    ),
    ("Additive(8)(q.numpy(), k.numpy())", r"query is a ndarray, expected a tensor; convert it with torch.as_tensor"),
    (
        "Additive(8)(q[0], k)",
        r"query has shape \(5, 8\), without a batch axis, and key has \(2, 9, 8\); give all of them a batch axis",
    ),
    (
        "Additive(8, key_size=6)(q)",
        r"got no key, .* queries have width 8 and its keys have width 6; give a key, as in attention\(query, key\)",
    ),
    ("Additive(8)(q, value=v)", r"got a value without a key; give both, as in attention\(query, key, value\)"),
    # The names of others, in constructors.
    ("MultiHead(embed_dim=8, num_heads=2)", r"MultiHead\(…\) has no argument 'embed_dim': give the width first, by position"),
    ("MultiHead(8, heads=2)", r"'heads': give num_heads, the second argument of MultiHead\(512, 8\)"),
    ("MultiHead(8, 2, batch_first=True)", r"'batch_first': leave it out: tensors are always batch first"),
    ("MultiHead(8, num_heads=2, key_dim=4)", r"'key_dim': give head_size, the width of a head"),
    ("QKNorm(4)", r"QKNorm takes no argument by position, but got 1 positional argument; give the others by name: epsilon=…"),
    ("Entmax(alfa=1.5)", r"Entmax\(…\) has no argument 'alfa'; did you mean 'alpha'"),
    ("MultiHead(8, 2, qk_norm=True)", r"'qk_norm': give modifiers=\[QKNorm\(\)\]"),
    ("MultiHead(8, 2, kdim=6)", r"'kdim': give key_size"),
    ("MultiHead(8, 2, add_zero_attn=True)", r"give modifiers=\[AddedKeys\(learned=True, zero=True\)\]"),
    (
        "MultiHead(8, 2, 0.1)",
        r"takes size and num_heads by position, but got 3 positional arguments; give the others by name: num_kv_heads=…",
    ),
    ("Additive(units=8)", r"'units': give attention_size, the width of the tanh layer"),
    (
        "Additive(8, 6)",
        r"Additive takes query_size by position, but got 2 positional arguments; give the others by name: attention_size=…",
    ),
    ("Additive(8, atention_size=4)", r"did you mean 'attention_size'\?"),
    ("AttentionPooling(embed_dim=8)", r"'embed_dim': give the width first"),
    # Values that would fail later.
    ("MultiHead(8, num_heads=2.0)", r"MultiHead\(num_heads=2.0\): num_heads must be an int, such as num_heads=2"),
    ("Additive(1.5)", r"Additive\(query_size=1.5\): query_size must be an int"),
    ("Additive('8')", r"Additive\(query_size='8'\): query_size must be an int"),
    ("MultiHead(8, 3)", r"size must be a multiple of num_heads"),
    (
        "MultiHead(8, 2, window=3)",
        r"window=3\): expected two ints.*window=\(3, 0\) for the 3 before it, window=\(3, 3\) for both sides",
    ),
    ("MultiHead(8, 2, window=(2.0, 0))", r"window=\(2.0, 0\)\): expected two ints"),
    ("MultiHead(8, 2, dropout='0.1')", r"dropout='0.1'\): dropout must be a number"),
    ("MultiHead(8, 2, causal='yes')", r"causal='yes'\): causal must be True or False"),
    (
        "Additive(8, normalizer='spasemax')",
        r"expected 'entmax', 'entmax15', 'sigmoid', .*, or a module .* did you mean 'sparsemax'\?",
    ),
    (
        "Additive(8, normalizer='tanh')",
        r"normalizer='tanh'\): expected 'entmax', 'entmax15', 'sigmoid', 'sink', 'softmax', .*, or a module",
    ),
    (
        "Additive(8, normalizer=Sparsemax)",
        r"normalizer=Sparsemax\): expected an instance, got the class; give normalizer=Sparsemax\(…\)",
    ),
    ("Additive(8, normalizer=F.softmax)", r"expected a Module, such as normalizer=Sparsemax\(\)"),
    (
        "MultiHead(8, 2, positions=Rotary)",
        r"positions=Rotary\): expected an instance, got the class; give positions=Rotary\(…\)",
    ),
    (
        "MultiHead(8, 2, positions='rotary')",
        r"positions='rotary'\): expected a RelativePositions, such as positions=Rotary\(\)",
    ),
    (
        "LocalMonotonic(8, scorer=Additive)",
        r"scorer=Additive\): expected an instance, got the class; give scorer=Additive\(…\)",
    ),
    ("SoftMonotonic(8, scorer=nn.Linear(8, 8))", r"expected a ScoredAttention, such as scorer=Additive\(256\)"),
    ("Rotary(torch.nan)", r"Rotary\(base=nan\): .*a finite number"),
    ("Rotary(torch.inf)", r"Rotary\(base=inf\): .*a finite number"),
    ("YaRNScaling(2.0, 64, fast='32')", r"YaRNScaling\(fast='32'\): fast must be a number"),
    ("YaRNScaling(2.0, 64, slow='1')", r"YaRNScaling\(slow='1'\): slow must be a number"),
    ("YaRNScaling(2.0, 64, fast=torch.inf)", r"YaRNScaling\(fast=inf.*finite number"),
    ("RelativeBias(2, bidirectional='no')", r"bidirectional='no'\): bidirectional must be True or False"),
    ("Additive(4, bias='no')", r"Additive\(bias='no'\): bias must be True or False"),
    ("MultiHead.from_torch(nn.LSTM(8, 8))", r"expected a MultiheadAttention, such as module=nn.MultiheadAttention\(512, 8\)"),
    # States.
    (
        "a = MultiHead(8, 2); m = a.prepare(k); a.attend(q, m, m)",
        r"only an attention that never looks ahead keeps the keys .* build it with causal=True or window=\(n, 0\), or leave",
    ),
    ("a = Additive(8); m = a.prepare(k); a.attend(q, m, m)", r"Additive.attend got a state, but its weights do not depend on"),
    (
        "MultiHead(8, 2).load_state_dict(nn.MultiheadAttention(8, 2, add_bias_kv=True).state_dict())",
        r"cannot load .* built with add_bias_kv; build it with modifiers=\[AddedKeys\(\)\]",
    ),
]


def names() -> dict[str, object]:
    """What the code of a guess may use."""
    torch.manual_seed(0)
    key_mask = torch.arange(9) < torch.tensor([[9], [6]])
    found = {name: getattr(regard.attention, name) for name in regard.attention.__all__}
    tensors = {"q": torch.randn(2, 5, 8), "k": torch.randn(2, 9, 8), "v": torch.randn(2, 9, 8)}
    return found | tensors | {"key_mask": key_mask, "pad": ~key_mask, "torch": torch, "nn": nn, "F": F, "np": np}


@pytest.mark.parametrize(("code", "then"), WORKS, ids=[code for code, _ in WORKS])
def test_it_works(code, then, unchecked):
    scope = names()
    exec(code, scope)
    assert eval(then, scope)


@pytest.mark.parametrize(("code", "message"), FAILS, ids=[code for code, _ in FAILS])
def test_the_error_shows_the_right_call(code, message, unchecked):
    with pytest.raises(RegardError) as caught:
        exec(code, names())
    text = str(caught.value)
    assert re.search(message, text), text
    assert len(text) < 400, "too long to read"


@pytest.mark.parametrize("code", ["Additive(8)(q, k, mask=key_mask)", "MultiHead(8, heads=2)", "Additive(8)([q, k])"])
def test_a_wrong_argument_is_a_type_error_too(code, unchecked):
    with pytest.raises(TypeError):
        exec(code, names())


def test_data_parallel_gathers_outputs(monkeypatch, unchecked):
    """What `nn.DataParallel` does with its replicas' outputs; copies between devices are replaced, as there is no GPU."""
    gather = torch.nn.parallel.scatter_gather
    monkeypatch.setattr(gather.Gather, "apply", lambda device, axis, *parts: torch.cat(parts, axis))
    scope = names()
    attention = regard.attention.MultiHead(8, 2)
    whole = attention(scope["q"], scope["k"])
    parts = [attention(scope["q"][b : b + 1], scope["k"][b : b + 1]) for b in range(2)]
    found = gather.gather(parts, "cpu")
    assert type(found) is type(whole)
    torch.testing.assert_close(found.context, whole.context)
    torch.testing.assert_close(found.weights, whole.weights)
    assert gather.gather([attention(scope["q"], need_weights=False)] * 2, "cpu").weights is None


def test_the_output_is_a_pytree():
    scope = names()
    output = regard.attention.MultiHead(8, 2)(scope["q"])
    doubled = torch.utils._pytree.tree_map(lambda tensor: 2 * tensor, output)
    assert torch.equal(doubled.context, 2 * output.context)
    assert torch.equal(doubled.weights, 2 * output.weights)
    assert doubled.loss is None


PUBLIC = [getattr(regard.attention, name) for name in regard.attention.__all__]
SHOWN = [*PUBLIC, regard.attention.MultiHead.from_torch, RecurrentLayer, RecurrentLayer.from_torch]


def test_the_signature_of_a_class_is_that_of_its_constructor():
    parameters = inspect.signature(regard.attention.Additive).parameters
    assert list(parameters)[:2] == ["query_size", "attention_size"]
    assert "device" in parameters  # which the constructor passes on
    assert list(inspect.signature(regard.attention.Additive(2)).parameters) != list(parameters)  # a module's call


@pytest.mark.parametrize("documented", SHOWN, ids=lambda documented: documented.__qualname__)
def test_the_examples_of_docstrings_are_true(documented, unchecked):
    found = doctest.DocTestFinder(recurse=False).find(documented, globs=names() | {"RecurrentLayer": RecurrentLayer})
    for test in found:
        report = io.StringIO()
        assert doctest.DocTestRunner(verbose=False).run(test, out=report.write).failed == 0, report.getvalue()


CONSTRUCTED = [
    thing
    for thing in PUBLIC
    if inspect.isclass(thing) and issubclass(thing, nn.Module) and "__init__" in vars(thing) and not inspect.isabstract(thing)
]


def sections_of(documented):
    """The text of each section of a docstring."""
    return dict(re.findall(r"^(Args|Raises|Example):\n((?:(?: .*)?\n?)*)", inspect.getdoc(documented) or "", re.M))


def arguments_in(sections):
    return re.findall(r"^    (\w+): \S", sections.get("Args", ""), re.M)


@pytest.mark.parametrize("documented", CONSTRUCTED, ids=lambda documented: documented.__name__)
def test_docstrings_of_classes_have_their_sections(documented):
    """Summary, `Args:` and `Example:`, each on a line of its own; a base class may document some arguments."""
    sections, text = sections_of(documented), inspect.getdoc(documented)
    inherits = re.search("^The (other )?arguments are those of `", text, re.M)
    assert "Example" in sections, text
    assert "Args" in sections or inherits, text
    parameters = list(inspect.signature(documented.__init__).parameters)[1:]
    documented_names = arguments_in(sections)
    assert documented_names == [name for name in parameters if name in documented_names]
    if documented_names != parameters:
        assert inherits, text
        parameters = [name for name in parameters if name != "options"]
        above = [sections_of(base) for base in documented.__mro__[1:]]
        assert set(parameters) <= {
            *documented_names,
            *(name for each in above if "Args" in each for name in arguments_in(each)),
        }
    assert not documented.__init__.__doc__ or documented.__init__.__doc__ == object.__init__.__doc__
