"""Mechanisms against the implementations of other libraries: whole modules with the same parameters.

α-entmax is compared with the package `entmax` in `test_normalizers`, and the frequencies of scaled rotary positions with
`transformers` in `test_rotary`.
"""

import inspect
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention import (
    Attention,
    ContextualPositionAttention,
    DifferentialAttention,
    Entmax,
    ForgettingAttention,
    GatedDeltaNet,
    LatentAttention,
    Llama3Scaling,
    MultiHead,
    Rotary,
    SoftmaxSink,
    TalkingHeads,
    YaRNScaling,
)

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
B, T, D, H = 2, 9, 32, 4


@pytest.fixture(autouse=True)
def doubles():
    """Other libraries read the default type."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def filled(module: nn.Module, std: float = 0.4) -> Any:
    """A module whose parameters are all drawn, so that none is at a value that hides it."""
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=std)
    return module.eval()


def stream(length: int = T) -> Tensor:
    return torch.randn(B, length, D, generator=torch.Generator().manual_seed(1))


def near(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found.double(), wanted.double(), rtol=0, atol=1e-5)
    assert wanted.abs().max() > 0.1


def load(attention: Attention, weights: dict[str, Tensor]) -> None:
    """Load parameters; all must be given."""
    attention.load_state_dict({name: weight.detach().clone() for name, weight in weights.items()})


def causal(length: int = T) -> Tensor:
    """An additive causal mask."""
    return torch.full((length, length), -math.inf).triu(1)[None, None]


def both(attention: Attention, x: Tensor) -> list[Tensor]:
    """The context with weights, without, and step by step."""
    state, steps = None, []
    for word in x.split(1, 1):
        out, state = attention.attend(word, attention.prepare(word), state)
        steps.append(out.context)
    return [attention(x).context, attention(x, need_weights=False).context, torch.cat(steps, 1)]


@torch.no_grad()
@pytest.mark.parametrize("layer", [0, 5])
def test_differential_attention_is_that_of_diff_llama(layer):
    from transformers.models.diffllama import DiffLlamaConfig
    from transformers.models.diffllama.modeling_diffllama import DiffLlamaAttention

    heads = 2 * H  # of half the width
    config = DiffLlamaConfig(
        hidden_size=D, num_attention_heads=heads, num_key_value_heads=heads, rms_norm_eps=1e-5, attn_implementation="eager"
    )
    theirs = filled(DiffLlamaAttention(config, layer))
    ours = DifferentialAttention(D, H, bias=False, causal=True, initial_lambda=0.8 - 0.6 * math.exp(-0.3 * layer))

    def paired(weight):
        """Their heads h and h + H are our head h."""
        return weight.unflatten(0, (2, H, -1)).transpose(0, 1).flatten(0, 2)

    weights = {f"{n}_projection.weight": paired(getattr(theirs, f"{n[0]}_proj").weight) for n in ("query", "key", "value")}
    vectors = [theirs.lambda_q1, theirs.lambda_k1, theirs.lambda_q2, theirs.lambda_k2]
    output = theirs.o_proj.weight
    load(
        ours,
        weights
        | {"lambda_vectors": torch.stack(vectors), "norm.weight": torch.ones(D // H), "output_projection.weight": output},
    )
    unmoved = torch.ones(1, T, D // heads), torch.zeros(1, T, D // heads)
    wanted, _ = theirs(stream(), unmoved, causal())
    for found in both(ours, stream()):
        near(found, wanted)


@torch.no_grad()
@pytest.mark.parametrize("query_latent_size", [None, 10])
def test_latent_attention_is_that_of_deepseek_v2(query_latent_size):
    from transformers.models.deepseek_v2 import DeepseekV2Config
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Attention, DeepseekV2RotaryEmbedding

    config = DeepseekV2Config(
        hidden_size=D,
        num_attention_heads=H,
        num_key_value_heads=H,
        kv_lora_rank=12,
        q_lora_rank=query_latent_size,
        qk_rope_head_dim=4,
        qk_nope_head_dim=D // H,
        v_head_dim=D // H,
        head_dim=4,
        attn_implementation="eager",
    )
    theirs = filled(DeepseekV2Attention(config, 0))
    ours = LatentAttention(
        D, H, latent_size=12, query_latent_size=query_latent_size, positions=Rotary(), rotary_size=4, bias=False, causal=True
    )
    latents, rotary = theirs.kv_a_proj_with_mqa.weight.split([12, 4])
    keys, values = theirs.kv_b_proj.weight.unflatten(0, (H, 2, -1)).unbind(1)
    weights = {
        "compression.weight": latents,
        "norm.weight": theirs.kv_a_layernorm.weight,
        "rotary_projection.weight": rotary,
        "key_expansion.weight": keys.flatten(0, 1),
        "value_expansion.weight": values.flatten(0, 1),
        "output_projection.weight": theirs.o_proj.weight,
    }
    if query_latent_size is None:
        weights["query_projection.weight"] = theirs.q_proj.weight
    else:
        weights["query_compression.weight"] = theirs.q_a_proj.weight
        weights["query_norm.weight"] = theirs.q_a_layernorm.weight
        weights["query_projection.weight"] = theirs.q_b_proj.weight
    load(ours, weights)
    turns = DeepseekV2RotaryEmbedding(config)(stream(), torch.arange(T)[None])
    wanted, *_ = theirs(stream(), causal(), None, turns)
    for found in both(ours, stream()):
        near(found, wanted)


def x_transformers(**options):
    """An attention module of x-transformers with drawn parameters."""
    from x_transformers.x_transformers import Attention as Theirs

    return filled(Theirs(dim=D, heads=H, dim_head=D // H, **options))


def maps(theirs) -> dict[str, Tensor]:
    names = {"query": theirs.to_q, "key": theirs.to_k, "value": theirs.to_v, "output": theirs.to_out}
    return {f"{name}_projection.weight": linear.weight for name, linear in names.items()}


@torch.no_grad()
def test_forgetting_attention_is_that_of_x_transformers():
    theirs = x_transformers(causal=True, data_dependent_alibi=True)
    ours, gates = ForgettingAttention(D, H, bias=False, causal=True), theirs.data_dependent_alibi.to_forget_gates[0]
    load(ours, maps(theirs) | {"gate_projection.weight": gates.weight, "gate_projection.bias": gates.bias})
    for found in both(ours, stream()):
        near(found, theirs(stream()))


@torch.no_grad()
@pytest.mark.parametrize("positions", [3, 16])
def test_contextual_positions_are_those_of_x_transformers(positions):
    theirs = x_transformers(causal=True, use_cope=True, cope_max_pos=positions)
    ours = ContextualPositionAttention(D, H, num_positions=positions, bias=False, causal=True)
    load(ours, maps(theirs) | {"position_table": theirs.attend.cope.pos_emb})
    for found in both(ours, stream()):
        near(found, theirs(stream()))


@torch.no_grad()
def test_talking_heads_are_those_of_x_transformers():
    theirs = x_transformers(causal=True, pre_talking_heads=True, post_talking_heads=True)
    ours = MultiHead(D, H, bias=False, causal=True, modifiers=[TalkingHeads()])
    before, after = theirs.attend.pre_softmax_talking_heads.weight, theirs.attend.post_softmax_talking_heads.weight
    mixing = {"score_weight": torch.eye(H) + before[..., 0, 0], "weight_weight": after[..., 0, 0]}  # they add the mixed scores
    load(ours, maps(theirs) | {f"modifiers.0.{name}": weight for name, weight in mixing.items()})
    for found in both(ours, stream()):
        near(found, theirs(stream()))


@torch.no_grad()
def test_entmax_of_heads_is_that_of_x_transformers_with_the_package_entmax():
    entmax = pytest.importorskip("entmax")
    theirs = x_transformers(causal=True)
    theirs.attend.attn_fn = lambda scores: entmax.entmax_bisect(scores, 1.3, dim=-1, n_iter=100)
    ours = MultiHead(D, H, bias=False, causal=True, normalizer=Entmax(alpha=1.3))
    load(ours, maps(theirs))
    for found in both(ours, stream()):
        near(found, theirs(stream()))


def of_llama(theirs) -> dict[str, Tensor]:
    """The four maps of an attention of `transformers`."""
    linears = {"query": theirs.q_proj, "key": theirs.k_proj, "value": theirs.v_proj, "output": theirs.o_proj}
    return {
        f"{name}_projection.{kind}": weight for name, linear in linears.items() for kind, weight in linear.named_parameters()
    }


@torch.no_grad()
def test_sinks_are_those_of_gpt_oss():
    from transformers.models.gpt_oss import GptOssConfig
    from transformers.models.gpt_oss.modeling_gpt_oss import GptOssAttention

    sizes = {"hidden_size": D, "num_attention_heads": H, "num_key_value_heads": 2, "head_dim": D // H, "num_hidden_layers": 2}
    config = GptOssConfig(**sizes, layer_types=["full_attention"] * 2, attn_implementation="eager")
    theirs = filled(GptOssAttention(config, 0))
    ours = MultiHead(D, H, num_kv_heads=2, causal=True, normalizer=SoftmaxSink(H, learned=True))
    load(ours, of_llama(theirs) | {"normalizer.sink": theirs.sinks.view(H, 1, 1)})
    half = D // H // 2  # of their rotary positions, which do nothing here
    wanted, _ = theirs(stream(), (torch.ones(1, T, half), torch.zeros(1, T, half)), causal())
    for found in both(ours, stream()):
        near(found, wanted)


SCALED = {
    "llama3": (
        Llama3Scaling(8.0, original_length=64),
        {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
    ),
    "yarn": (YaRNScaling(4.0, original_length=64), {"factor": 4.0, "original_max_position_embeddings": 64}),
}


@torch.no_grad()
@pytest.mark.parametrize("name", SCALED)
def test_attention_with_scaled_rotary_positions_is_that_of_llama(name):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

    scaling, parameters = SCALED[name]
    config = LlamaConfig(
        hidden_size=D,
        num_attention_heads=H,
        num_key_value_heads=2,
        max_position_embeddings=512,
        rope_parameters=parameters | {"rope_type": name, "rope_theta": 10_000.0},
        attn_implementation="eager",
    )
    theirs, length = filled(LlamaAttention(config, 0)), 100
    positions = Rotary(layout="half", scaling=scaling)
    ours = MultiHead(D, H, num_kv_heads=2, bias=False, causal=True, positions=positions)
    load(ours, of_llama(theirs))
    turns = LlamaRotaryEmbedding(config)(stream(length), torch.arange(length)[None])
    wanted, _ = theirs(stream(length), turns, causal(length))
    for found in both(ours, stream(length)):
        near(found, wanted)


@torch.no_grad()
@pytest.mark.parametrize("length", [9, 130])
def test_gated_delta_net_is_that_of_qwen3_next(length, monkeypatch):
    """Their convolutions are set to the identity: regard leaves them to the layer."""
    from transformers.models.qwen3_next import Qwen3NextConfig, modeling_qwen3_next
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

    # If the package fla is installed, they call its kernels, which need a GPU, instead of their own function.
    name = "torch_chunk_gated_delta_rule"
    monkeypatch.setattr(modeling_qwen3_next, name, inspect.unwrap(getattr(modeling_qwen3_next, name)))
    width = D // H
    heads = {
        "linear_num_value_heads": H,
        "linear_num_key_heads": H,
        "linear_key_head_dim": width,
        "linear_value_head_dim": width,
    }
    # They divide what a head reads by √E, which the norm undoes, but for its ε.
    config = Qwen3NextConfig(hidden_size=D, num_hidden_layers=4, rms_norm_eps=1e-5 / width, **heads)
    theirs = filled(Qwen3NextGatedDeltaNet(config, 0), std=0.2)  # they compute in float32
    theirs.conv1d.weight.copy_(
        (torch.arange(theirs.conv_kernel_size) == theirs.conv_kernel_size - 1).expand_as(theirs.conv1d.weight)
    )
    query, key, value, gate = theirs.in_proj_qkvz.weight.unflatten(0, (H, 4, -1)).unbind(1)
    rate, decay = theirs.in_proj_ba.weight.unflatten(0, (H, 2)).unbind(1)
    ours = GatedDeltaNet(D, H, bias=False, causal=True)
    load(
        ours,
        {
            **{
                f"{n}_projection.weight": w.flatten(0, 1)
                for n, w in (("query", query), ("key", key), ("value", value), ("gate", gate))
            },
            "rate_projection.weight": rate,
            "decay_projection.weight": decay,
            "decay_scale": theirs.A_log,
            "decay_bias": theirs.dt_bias,
            "norm.weight": theirs.norm.weight,
            "output_projection.weight": theirs.out_proj.weight,
        },
    )
    x = stream(length)
    wanted = theirs(x)
    for found in both(ours, x):
        near(found, wanted)
