"""Attention that modules write themselves: captured exactly, or named as not captured, and never with an effect on results."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.utils.checkpoint import checkpoint

import regard
from regard.errors import RequestError

softmax = torch.softmax


class Form(nn.Module):
    """A module with any code of two arguments."""

    def __init__(self, code) -> None:
        super().__init__()
        self.code = code

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return self.code(query, key)


def renormalised(query, key):
    weights = softmax(query @ key.mT, -1)
    return (weights / weights.sum(-1, keepdim=True)) @ key


def masked_after(query, key):
    weights = softmax(query @ key.mT, -1)
    return torch.where(weights > 0, weights, 0 * weights) @ key


def by_exp(query, key):
    weights = (query @ key.mT).exp()
    return weights / (weights.sum(-1, keepdim=True) + 1e-12) @ key


FORMS = {
    "renormalised": renormalised,
    "torch.where": masked_after,
    "exp and sum": by_exp,
    "clone": lambda q, k: softmax(q @ k.mT, -1).clone() @ k,
    "transposed": lambda q, k: (k.mT @ softmax(q @ k.mT, -1).mT).mT,
    "over the other axis": lambda q, k: softmax(k @ q.mT, 1).transpose(1, 2) @ k,
    "einsum of keys first": lambda q, k: torch.einsum("bkq,bkd->bqd", softmax(k @ q.mT, 1), k),
    "product and sum": lambda q, k: (softmax(q @ k.mT, -1)[..., None] * k[:, None]).sum(2),
    "product and sum, transposed": lambda q, k: (softmax(q @ k.mT, -1).mT.unsqueeze(-1) * k[:, :, None]).sum(1),
    "baddbmm": lambda q, k: torch.baddbmm(torch.zeros(2, 3, 8), softmax(q @ k.mT, -1), k),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_a_softmax_and_values(form):
    torch.manual_seed(0)
    query, key, module = torch.randn(2, 3, 8), torch.randn(2, 5, 8), Form(FORMS[form])
    expected = module(query, key)
    with regard.capture(module) as caught:
        assert torch.equal(module(query, key), expected)
    torch.testing.assert_close(caught[""], softmax(query @ key.mT, -1))
    assert len(caught.calls) == 1
    assert caught.unseen == ()


@pytest.mark.parametrize(
    "form",
    [
        lambda q, k: torch.bmm(softmax((q[:, :1] @ k.mT).squeeze(1), -1).unsqueeze(1), k),
        lambda q, k: (softmax(k @ q[:, :1].mT, 1) * k).sum(1),
        lambda q, k: torch.einsum("bk,bkd->bd", softmax((k @ q[:, 0, :, None]).squeeze(-1), -1), k),
    ],
)
def test_weights_of_one_query(form):
    torch.manual_seed(0)
    query, key, module = torch.randn(2, 3, 8), torch.randn(2, 5, 8), Form(form)
    with regard.capture(module) as caught:
        module(query, key)
    torch.testing.assert_close(caught[""].view(2, 1, 5), softmax(query[:, :1] @ key.mT, -1))


@pytest.mark.parametrize(
    "form",
    [
        lambda q, k: softmax(q @ k.mT, -1).topk(2, -1).values @ k[:, :2],
        lambda q, k: softmax(q, 1) @ k.mT,
    ],
)  # fmt: skip
def test_forms_that_are_not_recognised_are_named(form):
    module = nn.ModuleDict({"odd": Form(form), "plain": Form(FORMS["clone"])})
    module.forward = lambda q, k: (module["odd"](q, k), module["plain"](q, k))
    with regard.capture(module) as caught:
        module(torch.randn(2, 3, 8), torch.randn(2, 5, 8))
    assert "plain" in caught
    assert "odd" not in caught
    assert caught.unseen == ("odd",)
    record = caught.to_record(list("abcde"), list("xyz"))
    assert "attention in odd" in regard.AttentionRecord.from_json(record.to_json()).note


def test_a_softmax_whose_keys_are_split_is_named():
    def split(query, key):
        weights = softmax(query @ key.mT, -1)
        return weights[..., :2] @ key[:, :2] + weights[..., 2:] @ key[:, 2:]

    module = Form(split)
    with regard.capture(module) as caught:
        module(torch.randn(2, 3, 8), torch.randn(2, 5, 8))
    assert caught.unseen == ("",)


def test_a_softmax_that_is_the_result_is_no_attention():
    module = nn.ModuleList([Form(FORMS["clone"]), nn.Softmax(-1)])
    module.forward = lambda q, k: module[1](module[0](q, k))
    with regard.capture(module) as caught:
        module(torch.randn(2, 3, 8), torch.randn(2, 5, 8))
    assert (list(caught), caught.unseen) == (["0"], ())


class FlashAttention(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + x.mean(1, keepdim=True)


def test_a_module_called_attention_that_computed_none_is_named():
    module = nn.Sequential(FlashAttention(), nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)).eval()
    with regard.capture(module) as caught:
        module(torch.randn(1, 3, 8))
    assert (list(caught), caught.unseen) == (["1.self_attn"], ("0",))


class Folded(nn.Module):
    """Heads in the axis of the batch, sentence by sentence or head by head."""

    def __init__(self, *, heads_first: bool = False, fused: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.maps, self.heads_first, self.fused = nn.Linear(16, 48), heads_first, fused

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        parts = [each.view(batch, length, 4, 4).transpose(1, 2) for each in self.maps(x).chunk(3, -1)]
        q, k, v = ((each.transpose(0, 1) if self.heads_first else each).reshape(batch * 4, length, 4) for each in parts)
        self.weights = softmax(torch.bmm(q, k.mT) / 2, -1)
        found = functional.scaled_dot_product_attention(q, k, v) if self.fused else torch.bmm(self.weights, v)
        if self.heads_first:
            return found.view(4, batch, length, 4).permute(1, 2, 0, 3).flatten(2)
        return found.view(batch, 4, length, 4).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("fused", [False, True])
def test_heads_in_the_axis_of_the_batch(fused):
    module, x = Folded(fused=fused), torch.randn(2, 3, 16)
    with regard.capture(module) as caught:
        module(x)
    torch.testing.assert_close(caught[""], module.weights.view(2, 4, 3, 3))
    record = caught.to_record(list("abc"), batch=1)
    np.testing.assert_allclose(record.weights["encoder.0"], module.weights.view(2, 4, 3, 3)[1].detach(), atol=1e-6)


def test_heads_before_the_batch_are_refused():
    module, x = Folded(heads_first=True), torch.randn(2, 3, 16)
    with regard.capture(module) as caught:
        module(x)
    with pytest.raises(RequestError, match="sentences and heads cannot be told apart: run one sentence at a time"):
        caught.to_record(list("abc"))
    with regard.capture(module) as caught:
        module(x[1:])
    assert caught.to_record(list("abc")).num_heads("encoder.0") == 4


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("bias", [causal_lower_right, causal_upper_left])
def test_causal_biases(bias, heads):
    query, key = torch.randn(2, heads, 2, 8), torch.randn(2, heads, 5, 8)
    module = Form(lambda q, k: functional.scaled_dot_product_attention(q, k, k, attn_mask=bias(2, 5)))
    expected = module(query, key)
    with regard.capture(module) as caught:
        assert torch.equal(module(query, key), expected)
    assert type(caught[""]) is Tensor
    torch.testing.assert_close(caught[""] @ key, expected)


class Own(nn.MultiheadAttention):
    def forward(self, x, mask=None):
        return super().forward(x, x, x, attn_mask=mask, need_weights=False)[0]


@pytest.mark.parametrize("training", [False, True])
def test_a_subclass_with_its_own_signature(training):
    torch.manual_seed(0)
    module, x = nn.Sequential(Own(16, 4, dropout=0.5, batch_first=True)).train(training), torch.randn(2, 5, 16)
    with torch.no_grad():
        torch.manual_seed(1)
        expected, state = module(x), torch.get_rng_state()
        torch.manual_seed(1)
        with regard.capture(module) as caught:
            torch.testing.assert_close(module(x), expected)
        assert torch.equal(torch.get_rng_state(), state)
        weights = nn.MultiheadAttention.forward(module[0].eval(), x, x, x, average_attn_weights=False)[1]
    torch.testing.assert_close(caught["0"], weights)


def test_the_function_of_multi_head_attention():
    layer = nn.MultiheadAttention(16, 4)

    def pool(x, _):
        maps = (layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.5, layer.out_proj.weight, layer.out_proj.bias)
        return functional.multi_head_attention_forward(x[:1], x, x, 16, 4, *maps, need_weights=False)[0]

    module, x = Form(pool), torch.randn(7, 2, 16)
    torch.manual_seed(0)
    expected = module(x, x)
    torch.manual_seed(0)
    with regard.capture(module) as caught:
        assert torch.equal(module(x, x), expected)
    torch.testing.assert_close(caught[""], layer.eval()(x[:1], x, x, average_attn_weights=False)[1])


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputed_layers_are_recorded_once(reentrant):
    layers = nn.ModuleList(nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True) for _ in range(2))
    x = torch.randn(1, 3, 16, requires_grad=True)
    with regard.capture(layers) as caught:
        checkpoint(layers[1], checkpoint(layers[0], x, use_reentrant=reentrant), use_reentrant=reentrant).sum().backward()
    assert [call.name for call in caught.calls] == ["0.self_attn", "1.self_attn"]
    assert caught.unseen == ()


class Side(nn.Module):
    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x)[0]


def test_a_module_that_encoder_and_decoder_share():
    shared = nn.MultiheadAttention(8, 2, batch_first=True)
    module = nn.ModuleDict({"encoder": Side(shared), "decoder": Side(shared)})
    module.forward = lambda source, target: (module["encoder"](source), module["decoder"](target))
    with regard.capture(module) as caught:
        module(torch.randn(1, 4, 8), torch.randn(1, 4, 8))
    assert list(caught) == ["encoder.attention", "decoder.attention"]
    assert caught.to_record(list("abcd"), list("wxyz")).sites == ("encoder.0", "decoder.0")
    with regard.capture(shared) as caught:
        shared(*[torch.ones(1, 4, 8)] * 3)
        shared(*[torch.ones(1, 3, 8)] * 3)
    assert caught.to_record(list("abcd"), list("xyz")).sites == ("encoder.0", "decoder.0")


class Causal(nn.Module):
    def __init__(self, *, is_causal: bool = True) -> None:
        super().__init__()
        self.is_causal = is_causal

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        seen = keep[:, None] & torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return (x @ x.mT).masked_fill(~seen, torch.finfo(x.dtype).min).softmax(-1) @ x


def test_the_kind_of_a_site_does_not_depend_on_padding():
    module, keep = Causal(), torch.tensor([[True] * 4, [False, False, True, True]])
    with regard.capture(module) as caught:
        module(torch.randn(2, 4, 8), keep)
    assert [caught.to_record(list("abcd"), batch=batch).sites for batch in (0, 1)] == [("decoder.0",)] * 2
    for is_causal, site in ((True, "decoder.0"), (False, "encoder.0")):  # a single token shows nothing
        with regard.capture(Causal(is_causal=is_causal)) as caught:
            next(iter(caught._observer.names))(torch.randn(1, 1, 8), torch.ones(1, 1, dtype=torch.bool))
        assert caught.to_record(["a"]).sites == (site,)


class Joint(nn.Module):
    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        keys = torch.cat([x, source], 1)
        return softmax(x @ keys.mT, -1) @ keys


def test_one_softmax_over_source_and_target_is_refused_by_name():
    module = nn.ModuleDict({"decoder": Joint()})
    with regard.capture(module) as caught:
        module["decoder"](torch.randn(1, 3, 8), torch.randn(1, 4, 8))
    assert caught["decoder"].shape == (1, 3, 7)
    with pytest.raises(RequestError, match=r"'decoder' attends to source and target together \(4 \+ 3 keys\)"):
        caught.to_record(list("abcd"), list("xyz"))


def test_compiled_parts_are_refused_by_name_and_captured_without_compilation():
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True).eval()
    compiled, x = torch.compile(layer, backend="eager"), torch.randn(1, 3, 8)
    module = nn.Sequential(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True).eval(), compiled)
    message = r"compiled or scripted, which cannot be captured: run.*set_stance\('force_eager'\).*_orig_mod.*names"
    for refused, name, names in (
        (compiled, "this OptimizedModule is", None),
        (module, "'1' is", None),
        (module, "'1' is", ["1*"]),
    ):
        with pytest.raises(RequestError, match=name + " " + message), regard.capture(refused, names=names):
            raise AssertionError("the module ran")
    with regard.capture(module, names=["0.*"]) as caught:
        module[0](x)
    assert (list(caught), caught.unseen) == (["0.self_attn"], ())
    with torch.compiler.set_stance("force_eager"), regard.capture(module) as caught:
        module(x)
    assert list(caught) == ["0.self_attn", "1._orig_mod.self_attn"]


def test_an_observation_that_fails_warns_after_the_module_has_run():
    with torch.device("meta"):
        empty, x = Form(FORMS["clone"]), torch.randn(2, 3, 8)
        with (
            pytest.warns(UserWarning, match="on meta, expected a tensor with values"),
            pytest.raises(RequestError),
            regard.capture(empty),
        ):
            assert empty(x, x).shape == (2, 3, 8)


def test_captures_in_other_threads_neither_see_nor_change_each_other():
    model, x = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 9, batch_first=True), 2), torch.randn(2, 5, 16)
    expected = model.eval()(x)
    own = nn.ModuleList([Form(FORMS["clone"])])
    with ThreadPoolExecutor(1) as pool, ExitStack() as here:
        other = ExitStack()  # a capture in another thread, which ends after the one that began before it
        mine = here.enter_context(regard.capture(nn.ModuleList([model, own])))
        theirs = pool.submit(other.enter_context, regard.capture(nn.ModuleList([model, own]))).result()
        assert torch.equal(model(x), expected)
        assert torch.equal(pool.submit(model, x).result(), expected)
        own[0](x, x)
        pool.submit(own[0], x, x).result()
        here.close()
        pool.submit(other.close).result()
    names = ["0.layers.0.self_attn", "0.layers.1.self_attn", "1.0"]
    assert [[call.name for call in each.calls] for each in (mine, theirs)] == [names, names]


def test_a_capture_that_begins_inside_a_running_module():
    with ExitStack() as stack:
        module = Form(
            lambda query, key: softmax(query @ key.mT, -1) @ key if stack.enter_context(regard.capture(module)) else key
        )
        module.register_forward_hook(lambda *_: None)
        module(torch.randn(2, 3, 8), torch.randn(2, 5, 8))
        with pytest.raises(RequestError, match="no attention was captured"):
            stack.close()


def test_a_function_that_returns_nothing_is_no_error():
    module = Form(lambda query, key: (torch.zeros(0, 3).unbind(), FORMS["clone"](query, key))[1])
    with regard.capture(module) as caught:
        module(torch.randn(2, 3, 8), torch.randn(2, 5, 8))
    assert caught.unseen == ()


def test_captured_weights_do_not_keep_the_module():
    module = Form(FORMS["clone"])
    with regard.capture(module) as caught:
        module(torch.randn(2, 3, 8), torch.randn(2, 5, 8))
    kept = weakref.ref(module)
    del module
    gc.collect()
    assert kept() is None
    assert len(caught) == 1
