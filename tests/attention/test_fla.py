"""When the kernels of fla are used: by a double of fla on a CPU, which computes with our own recurrences in fla's layout."""

import sys
import types

import pytest
import torch

from regard.attention import GatedDeltaNet, LinearAttention
from regard.attention.fast import fla
from regard.attention.heads.gated_delta import delta_step
from regard.attention.heads.linear import add_key


class Double:
    """fla's two functions, one position after the other. `wrong` is the share of an error in what they return."""

    def __init__(self):
        self.calls, self.wrong = [], 0.0

    def chunk_linear_attn(self, q, k, v, *, scale, initial_state, output_final_state, normalize):
        assert (scale, output_final_state, normalize) == (1.0, True, False)
        return self._scan("linear", (q, k, v), initial_state, lambda state, key, value, t: add_key(state, key, value))

    def chunk_gated_delta_rule(self, q, k, v, *, g, beta, scale, initial_state, output_final_state):
        assert (scale, output_final_state) == (1.0, True)
        gates = torch.stack((g.float(), beta.float()), -1)
        return self._scan(
            "gated_delta", (q, k, v), initial_state, lambda state, key, value, t: delta_step(state, key, value, gates[:, t])
        )

    def _scan(self, name, heads, state, step):
        q, k, v = (one.float() for one in heads)
        self.calls.append((name, heads[0].dtype, tuple(q.shape)))
        found = []
        for t in range(q.shape[1]):
            state = step(state, k[:, t], v[:, t], t)
            found.append((q[:, t, :, :, None] * state).sum(-2))
        return (torch.stack(found, 1) * (1 + self.wrong)).to(heads[2].dtype), state


@pytest.fixture
def double(monkeypatch):
    """A double of fla, as if the CPU were a GPU."""
    found = Double()
    for name in ("linear_attn", "gated_delta_rule"):
        monkeypatch.setitem(sys.modules, f"fla.ops.{name}", found)
    monkeypatch.setattr(fla, "_suits", lambda query, dtype: dtype == torch.bfloat16)
    fla._agrees.cache_clear()
    yield found
    fla._agrees.cache_clear()


@pytest.mark.parametrize("kind", [LinearAttention, GatedDeltaNet])
def test_half_types_without_weights_use_it_and_agree(kind, double):
    torch.manual_seed(0)
    attention, x = kind(32, 2, causal=True), torch.randn(2, 70, 32)
    mask = torch.arange(70) < torch.tensor([[70], [41]])
    exact = attention(x, key_mask=mask, need_weights=False).context
    assert not double.calls  # not in float32
    with torch.autocast("cpu", torch.bfloat16):
        found = attention(x, key_mask=mask, need_weights=False).context
        weighted = attention(x, key_mask=mask)
        first, state = attention.attend(x[:, :64], attention.prepare(x[:, :64]), need_weights=False)
        last, _ = attention.attend(x[:, 64:], attention.prepare(x[:, 64:]), state, need_weights=False)
        whole = attention(x, need_weights=False).context
    names = [name for name, dtype, shape in double.calls if shape[1] != 100]  # 100: the comparison with ours
    assert len(names) == 4  # each call without weights, and none with them
    assert weighted.weights is not None
    assert {dtype for _, dtype, _ in double.calls} == {torch.bfloat16}
    for one, other in ((found, exact), (torch.cat([first.context, last.context], 1), whole)):
        assert (one - other).norm() / other.norm() < 0.02


def test_the_first_call_may_be_one_without_gradients(double):
    attention, x = GatedDeltaNet(32, 2, causal=True), torch.randn(2, 9, 32)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        attention(x, need_weights=False)
    assert len(double.calls) == 2  # the comparison, and the call


@pytest.mark.parametrize("kind", [LinearAttention, GatedDeltaNet])
def test_results_that_differ_are_refused_with_one_warning(kind, double):
    double.wrong = 0.5
    attention, x = kind(32, 2, causal=True), torch.randn(2, 9, 32)
    with torch.autocast("cpu", torch.bfloat16):
        with pytest.warns(UserWarning, match=r"fla's kernel for (linear|gated delta) is not used .*its results differ by"):
            found = attention(x, need_weights=False).context
        again = attention(x, need_weights=False).context  # without another warning, which would be an error
    assert len(double.calls) == 1
    torch.testing.assert_close(found, again)


def test_a_kernel_that_fails_is_refused_with_its_error(double, monkeypatch):
    def refuse(*arguments, **options):
        raise ImportError("Triton 3.1 is too old")

    double.chunk_linear_attn = refuse
    attention, x = LinearAttention(32, 2, causal=True), torch.randn(2, 9, 32)
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.warns(UserWarning, match=r"ImportError: Triton 3\.1 is too old"),
    ):
        attention(x, need_weights=False)


@pytest.mark.parametrize(
    ("dtype", "deterministic", "cuda", "variable", "expected"),
    [
        (torch.bfloat16, False, True, "", True),
        (torch.float16, False, True, "", True),
        (torch.float32, False, True, "", False),
        (torch.bfloat16, True, True, "", False),
        (torch.bfloat16, False, False, "", False),
        (torch.bfloat16, False, True, "0", False),
    ],
)
def test_where_it_may_be_used(dtype, deterministic, cuda, variable, expected, monkeypatch):
    monkeypatch.setattr(fla, "_INSTALLED", True)
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: deterministic)
    monkeypatch.setenv("REGARD_FLA", variable)
    query = types.SimpleNamespace(is_cuda=cuda, shape=(2, 4, 9, 64))
    assert fla._suits(query, dtype) is expected
    assert not fla._suits(types.SimpleNamespace(is_cuda=True, shape=(2, 4, 9, 512)), dtype)
