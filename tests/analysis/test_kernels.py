"""Attention kernels that return no weights: weights against an independent formula, and results that don't change.

Kernels that need a GPU are replaced by doubles on the CPU with the arguments of the originals.
"""

import json
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import flex_attention as flex

import regard
from regard.attention import MultiHead
from regard.errors import RequestError

QUERY, KEY = torch.randn(2, 4, 5, 8, generator=torch.Generator().manual_seed(0)), torch.randn(
    2, 2, 7, 8, generator=torch.Generator().manual_seed(1)
)  # fmt: skip
BIAS = torch.randn(4, 7, generator=torch.Generator().manual_seed(2))
PLACES = torch.arange(7) - torch.arange(5)[:, None]  # from a query to a key


class Form(nn.Module):
    """A module with any code."""

    def __init__(self, code) -> None:
        super().__init__()
        self.code = code

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.code(*inputs)


def by_hand(
    query: Tensor, key: Tensor, seen: Tensor | bool = True, bias: Tensor | float = 0.0, scale: float = 8**-0.5
) -> Tensor:
    """softmax(scale q kᵀ + bias) with −∞ where nothing is seen, in float64; zeros where a row sees nothing."""
    key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = torch.einsum("...qd,...kd->...qk", query.double(), key.double()) * scale + bias
    return scores.masked_fill(~torch.as_tensor(seen), -torch.inf).softmax(-1).nan_to_num(0).float()


def capture(code, *inputs: Tensor, **options) -> Tensor:
    """Return the captured weights of a call, after checking that its result is the same."""
    module = Form(code)
    with torch.no_grad():
        expected = module(*inputs)
        with regard.capture(module, **options) as caught:
            found = module(*inputs)
    assert torch.equal(found, expected)
    assert caught.unseen == ()
    assert len(caught.calls) == 1
    return caught[""]


# flex_attention warns that it isn't compiled.
@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_flex_attention_with_a_score_function_and_a_mask():
    mask = flex.create_block_mask(lambda b, h, q, k: (k <= q + b) & (h != 3), 2, 4, 5, 7, device="cpu")

    def code(query, key):
        def score(score, b, h, q, k):
            return score + BIAS[h, k]

        return flex.flex_attention(query, key, key, score_mod=score, block_mask=mask, scale=0.3, enable_gqa=True)

    seen = (torch.arange(2)[:, None, None, None] >= PLACES) & (torch.arange(4)[:, None, None] != 3)
    expected = by_hand(QUERY, KEY, seen, BIAS[:, None], 0.3)
    torch.testing.assert_close(capture(code, QUERY, KEY), expected)
    torch.testing.assert_close(capture(code, QUERY, KEY, rows=[4, 1], heads=[2, 0]), expected[:, [2, 0]][:, :, [4, 1]])


def attend(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | bool, scale: float, softcap: float = 0.0) -> Tensor:
    """A double's result in the layout of FlashAttention, (…,T,H,D)."""
    query, key, value = (each.transpose(-2, -3) for each in (query, key, value))
    key, value = (each.repeat_interleave(query.shape[-3] // key.shape[-3], -3) for each in (key, value))
    scores = query @ key.mT * scale
    scores = softcap * (scores / softcap).tanh() if softcap else scores
    return (
        (scores.masked_fill(~torch.as_tensor(seen), -torch.inf).softmax(-1).nan_to_num(0) @ value)
        .transpose(-2, -3)
        .contiguous()
    )


def packed(starts_q: Tensor, starts_k: Tensor, *, causal: bool, left: int) -> Tensor:
    """Return what each query of several texts in a row may see, text by text."""
    seen = torch.zeros(int(starts_q[-1]), int(starts_k[-1]), dtype=torch.bool)
    for q, q_end, k, k_end in zip(starts_q[:-1], starts_q[1:], starts_k[:-1], starts_k[1:], strict=True):
        for row in range(q, q_end):
            place = row - q + (k_end - k) - (q_end - q)
            for column in range(k, k_end):
                distance = column - k - place
                seen[row, column] = (not causal or distance <= 0) and (left < 0 or distance >= -left)
    return seen


def define(name: str, arguments: str, function) -> torch.library.Library:
    """Define an operator, and return what keeps it."""
    library = torch.library.Library(name.partition("::")[0], "FRAGMENT")
    library.define(f"{name.partition('::')[2]}({arguments}) -> (Tensor, Tensor)")
    library.impl(name.partition("::")[2], lambda *args: (function(*args), args[0].new_zeros(1)), "CPU")
    return library


FLASH_2 = (
    "Tensor q, Tensor k, Tensor v, float dropout_p, float softmax_scale, bool causal, int window_size_left, "
    "int window_size_right, float softcap, Tensor? alibi_slopes, bool return_softmax"
)
VARLEN_2 = (
    "Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, int max_seqlen_q, int max_seqlen_k, "
    "float dropout_p, float softmax_scale, bool causal, int window_size_left=-1, int window_size_right=-1, float softcap=0.0, "
    "Tensor? alibi_slopes=None, bool return_softmax=False, Tensor? block_table=None"
)
STARTS_Q, STARTS_K = torch.tensor([0, 2, 5], dtype=torch.int32), torch.tensor([0, 3, 7], dtype=torch.int32)


@pytest.mark.parametrize("alibi", [False, True])
def test_the_operator_of_flash_attention(alibi):
    """Its causal mask ends at the last key, it limits scores, and a bias unknown to `capture` is noticed."""

    def function(q, k, v, dropout, scale, causal, left, right, softcap, slopes, _):
        shift = 0 if slopes is None else slopes.view(-1, 1, 1) * PLACES
        seen = (PLACES - 2 <= 0) & (-left <= PLACES - 2)
        return attend(q, k, v, seen, scale, softcap) + (0 if slopes is None else shift.sum())

    library = define("regard_double_2::_flash_attn_forward", FLASH_2, function)
    slopes = torch.ones(4) if alibi else None

    def code(q, k):
        return torch.ops.regard_double_2._flash_attn_forward(
            q, k, k, 0.0, 0.5, True, 3, -1, 2.0, alibi_slopes=slopes, return_softmax=False
        )[0]

    inputs = QUERY.transpose(1, 2), KEY.transpose(1, 2)
    if alibi:
        with (
            pytest.warns(UserWarning, match="times the values differ by"),
            pytest.raises(RequestError, match="no attention was"),
        ):
            capture(code, *inputs)
    else:
        scores = 2 * ((QUERY @ KEY.repeat_interleave(2, 1).mT * 0.5) / 2).tanh()
        expected = scores.masked_fill((PLACES > 2) | (PLACES < -1), -torch.inf).softmax(-1)
        torch.testing.assert_close(capture(code, *inputs), expected)
    del library


def test_the_operator_of_flash_attention_for_texts_in_a_row():
    def function(q, k, v, starts_q, starts_k, _, __, dropout, scale, causal, left, *___):
        return attend(q, k, v, packed(starts_q, starts_k, causal=causal, left=left), scale)

    library = define("regard_double_3::_flash_attn_varlen_forward", VARLEN_2, function)

    def code(q, k, **pages):
        return torch.ops.regard_double_3._flash_attn_varlen_forward(
            q, k, k, STARTS_Q, STARTS_K, 3, 4, 0.0, 0.5, True, 1, **pages
        )[0]

    query, key = QUERY[:1], KEY[:1]
    seen = torch.tensor([
        [1, 1, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 1, 1],
    ], dtype=torch.bool)  # fmt: skip
    inputs = query[0].transpose(0, 1), key[0].transpose(0, 1)
    torch.testing.assert_close(capture(code, *inputs), by_hand(query, key, seen, scale=0.5))
    with (
        pytest.warns(UserWarning, match="the keys are in pages or have a length of their own"),
        pytest.raises(RequestError, match="no attention was captured"),
    ):
        capture(lambda q, k: code(q, k, block_table=torch.zeros(1, dtype=torch.int32)), *inputs)
    del library


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (1, 0)])
def test_varlen_attn_of_pytorch(window):
    varlen = pytest.importorskip("torch.nn.attention.varlen")

    def function(q, k, v, starts_q, starts_k, _, __, causal=False, scale=None, window_size=None, *___):
        seen = packed(starts_q, starts_k, causal=window_size[1] == 0, left=window_size[0])
        return attend(q, k, v, seen, scale or 8**-0.5), q.new_zeros(4, 5), torch.zeros(2, dtype=torch.uint64)

    library = torch.library.Library("torch_attn", "IMPL")
    library.impl("_varlen_attn", function, "CPU")
    try:
        found = capture(
            lambda q, k: varlen.varlen_attn(q, k, k, STARTS_Q, STARTS_K, 3, 4, window_size=window, enable_gqa=True),
            QUERY[0].transpose(0, 1),
            KEY[0].transpose(0, 1),
        )
    finally:
        library._destroy()
    seen = packed(STARTS_Q, STARTS_K, causal=window[1] == 0, left=window[0])
    torch.testing.assert_close(found, by_hand(QUERY[:1], KEY[:1], seen))


SMALL = {
    "vocab_size": 20, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 9, "sliding_window": 4,
}  # fmt: skip
IDS = torch.randint(3, 20, (2, 7), generator=torch.Generator().manual_seed(0))


def flash_double(
    module, query, key, value, attention_mask, dropout=0.0, scaling=None, sliding_window=None, position_ids=None, **_
):
    """FlashAttention 2 as `transformers` calls it: no weights, a mask (B,K) of padding, and texts that share a row."""
    count, total = query.shape[-2], key.shape[-2]
    places = torch.arange(total) - torch.arange(total - count, total)[:, None]
    seen = places <= 0
    seen = seen & (places > -sliding_window) if sliding_window else seen
    if attention_mask is not None:
        seen = seen & attention_mask.bool()[:, None, None, :] & attention_mask.bool()[:, None, -count:, None]
    elif len(query) == 1 and (position_ids.diff() < 0).any():
        number = (position_ids[0] == 0).cumsum(0)
        seen = seen & (number == number[:, None])
    return attend(*(each.transpose(1, 2) for each in (query, key, value)), seen, scaling), None


def mistral(transformers, kind: str) -> nn.Module:
    torch.manual_seed(0)
    config = transformers.MistralConfig(**SMALL)
    return transformers.MistralForCausalLM._from_config(config, attn_implementation=kind).eval()


@pytest.fixture
def models():
    """A model with sliding windows whose FlashAttention is a double, and the same one with eager attention."""
    transformers = pytest.importorskip("transformers")
    interface = pytest.importorskip("transformers.modeling_utils").AttentionInterface
    original = interface()["flash_attention_2"]
    interface.register("flash_attention_2", flash_double)
    flash, eager = (mistral(transformers, "eager") for _ in range(2))
    flash.config._attn_implementation = flash.model.config._attn_implementation = "flash_attention_2"
    yield flash, eager
    assert interface()["flash_attention_2"] is flash_double  # restored after each capture
    interface.register("flash_attention_2", original)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"attention_mask": torch.tensor([[1] * 7, [0, 0, 1, 1, 1, 1, 1]])},
        {"attention_mask": torch.tensor([[1] * 7, [1, 1, 1, 1, 1, 0, 0]])},
        {"input_ids": IDS[:1], "position_ids": torch.tensor([[0, 1, 2, 0, 1, 2, 3]])},
    ],
    ids=["plain", "left", "right", "packed"],
)
@torch.no_grad()
def test_flash_attention_of_transformers(models, inputs):
    flash, eager = models
    inputs = {"input_ids": IDS} | inputs
    expected = flash(**inputs, use_cache=False).logits
    with regard.capture(flash) as caught, regard.capture(flash, rows=[-1, 2], heads=[3]) as part:
        assert torch.equal(flash(**inputs, use_cache=False).logits, expected)
    own = eager(**inputs, use_cache=False, output_attentions=True).attentions
    kept = inputs.get("attention_mask", torch.ones(inputs["input_ids"].shape)).bool()
    assert caught.unseen == ()
    for layer, weights in enumerate(own):
        found = caught[f"model.layers.{layer}.self_attn"]
        torch.testing.assert_close(found.transpose(1, 2)[kept], weights.transpose(1, 2)[kept], rtol=0, atol=1e-5)
        assert torch.equal(part[f"model.layers.{layer}.self_attn"], found[:, [3]][:, :, [-1, 2]])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@torch.no_grad()
def test_flash_attention_of_transformers_while_it_generates(models):
    flash, eager = models
    mask = torch.tensor([[1] * 7, [0, 0, 1, 1, 1, 1, 1]])
    options = {"attention_mask": mask, "max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False}
    with regard.capture(flash) as caught:
        flash.generate(IDS, **options)
    own = eager.generate(IDS, **options, output_attentions=True, return_dict_in_generate=True).attentions
    assert len(caught.calls) == 6
    for call, weights in zip(caught.calls, [layer for step in own for layer in step], strict=True):
        rows = mask.bool() if call.weights.shape[2] == 7 else torch.ones(2, 1, dtype=torch.bool)
        torch.testing.assert_close(call.weights.transpose(1, 2)[rows], weights.transpose(1, 2)[rows], rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["sdpa", "eager", "paged|eager", pytest.param("flex_attention", marks=pytest.mark.compile)])
@torch.no_grad()
def test_every_backend_of_transformers_that_runs_on_a_cpu(backend):
    """Weights equal those of eager attention, and results are the same bit by bit."""
    transformers = pytest.importorskip("transformers")
    model, eager = (mistral(transformers, kind) for kind in (backend, "eager"))
    mask = torch.tensor([[1] * 7, [0, 0, 1, 1, 1, 1, 1]])
    if backend == "paged|eager":  # its mask is made by the server that calls it
        mask = torch.full((7, 7), -torch.inf).triu(1).masked_fill(torch.ones(7, 7).tril(-4).bool(), -torch.inf)[None, None]
    expected = model(IDS, attention_mask=mask, use_cache=False).logits
    with regard.capture(model) as caught:
        assert torch.equal(model(IDS, attention_mask=mask, use_cache=False).logits, expected)
    kept = torch.ones(2, 7, dtype=torch.bool) if mask.ndim > 2 else mask.bool()
    own = eager(IDS, attention_mask=None if mask.ndim > 2 else mask, use_cache=False, output_attentions=True).attentions
    for layer, weights in enumerate(own):
        found = caught[f"model.layers.{layer}.self_attn"]
        torch.testing.assert_close(found.transpose(1, 2)[kept], weights.transpose(1, 2)[kept], rtol=0, atol=1e-5)


def test_rows_of_every_kind_of_attention():
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8)
    for module in (
        nn.TransformerEncoderLayer(8, 2, 8, batch_first=True).eval(),
        MultiHead(8, num_heads=2),
        Form(lambda x: torch.softmax(x @ x.mT, -1) @ x),
    ):
        with regard.capture(module) as whole, regard.capture(module, rows=[-1, 0]) as part:
            module(x)
        assert part.calls[0].weights.shape[-2] == 2
        torch.testing.assert_close(part.calls[0].weights, whole.calls[0].weights[..., [-1, 0], :])
    record = part.to_record(list("abcde"), batch=1)
    assert record.sites == ("cross.0",)
    assert (record.source_words, record.target_words) == (tuple("abcde"), ("e", "a"))
    with pytest.raises(RequestError, match="capture kept some rows, from which a record can be made only for a module"):
        part.to_record(list("abcde"), list("ab"))


@pytest.mark.slow
def test_memory_of_a_row_of_a_long_text():
    """A forward pass of 32,000 tokens, each in a process of its own because peak memory never falls."""
    pytest.importorskip("transformers")
    sizes = ["--tokens=32000", "--layers=2", "--width=64", "--runs=1"]
    peaks = []
    for setting in ("without", "one row"):
        command = [sys.executable, "-m", "benchmarks.capture", f"--setting={setting}", *sizes]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        peaks.append(json.loads(done.stdout)["peak_mb_above_model"])
    assert peaks[0] > 10
    assert peaks[1] < 1.5 * peaks[0]
