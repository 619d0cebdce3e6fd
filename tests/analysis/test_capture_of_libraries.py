"""Attention inside models of other libraries, against the weights that they return themselves."""

import json

import pytest
import torch
from torch import Tensor, nn

import regard

BATCH, SOURCE, TARGET = 2, 7, 5
IDS = torch.randint(3, 20, (BATCH, SOURCE), generator=torch.Generator().manual_seed(0))
TARGET_IDS = IDS[:, :TARGET].flip(1)
MASK = torch.arange(SOURCE) < torch.tensor([[SOURCE], [4]])
SMALL = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 9}
TEXT = {"input_ids": IDS, "attention_mask": MASK}
PAIR = TEXT | {"decoder_input_ids": TARGET_IDS}

CASES = {
    "BertModel": ("BertConfig", SMALL, TEXT, "encoder.layer.{}.attention.self", "attentions"),
    "GPT2Model": ("GPT2Config", {"vocab_size": 20, "n_embd": 16, "n_layer": 2, "n_head": 4}, TEXT, "h.{}.attn", "attentions"),
    "LlamaModel": ("LlamaConfig", SMALL | {"num_key_value_heads": 2}, TEXT, "layers.{}.self_attn", "attentions"),
    "MarianModel": (
        "MarianConfig",
        {
            "vocab_size": 20, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
            "decoder_attention_heads": 4, "encoder_ffn_dim": 9, "decoder_ffn_dim": 9, "pad_token_id": 0, "eos_token_id": 1,
            "decoder_start_token_id": 0,
        },
        PAIR,
        "decoder.layers.{}.encoder_attn",
        "cross_attentions",
    ),
    "T5Model": (
        "T5Config",
        {"vocab_size": 20, "d_model": 16, "d_kv": 4, "num_layers": 2, "num_heads": 4, "d_ff": 9},
        PAIR,
        "decoder.block.{}.layer.0.SelfAttention",
        "decoder_attentions",
    ),
    "ViTModel": (
        "ViTConfig",
        {name: size for name, size in SMALL.items() if name != "vocab_size"} | {"image_size": 8, "patch_size": 4},
        {"pixel_values": torch.randn(BATCH, 3, 8, 8, generator=torch.Generator().manual_seed(1))},
        "layers.{}.attention",
        "attentions",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("own", ["sdpa", "eager"])
@pytest.mark.parametrize("model", CASES)
def test_a_model_of_transformers(model, own, grad):
    """Weights equal those that the model returns with its eager attention, and its output is bit-identical."""
    transformers = pytest.importorskip("transformers")
    config, settings, inputs, site, field = CASES[model]
    built = []
    for kind in (own, "eager"):
        torch.manual_seed(0)
        made = getattr(transformers, config)(**settings)
        # The default is scaled_dot_product_attention.
        built.append(getattr(transformers, model)._from_config(made, attn_implementation=kind).eval())
    torch.set_grad_enabled(grad)
    try:
        expected = built[0](**inputs)
        with regard.capture(built[0]) as caught:
            found = built[0](**inputs)
        eager = built[1](**inputs, output_attentions=True)
    finally:
        torch.set_grad_enabled(True)
    assert torch.equal(found.last_hidden_state, expected.last_hidden_state)
    for layer, weights in enumerate(eager[field]):
        assert weights.shape[1] == 4
        seen = caught[site.format(layer)]
        # Rows of padding have nothing to attend to in some models, and each kind gives them other weights.
        rows = MASK if weights.shape[-2] == SOURCE else torch.ones(weights.shape[0], weights.shape[-2], dtype=torch.bool)
        torch.testing.assert_close(seen.transpose(1, 2)[rows], weights.transpose(1, 2)[rows], rtol=0, atol=1e-6)


@pytest.mark.slow
def test_every_architecture_of_transformers(tmp_path):
    """`capture` equals `output_attentions` or names what it lacks, and never changes a result."""
    pytest.importorskip("transformers")
    from tools import capture_survey

    capture_survey.main(["--out", str(tmp_path / "rows.jsonl")])
    lines = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    rows = {(row["name"], row["kind"]): row for row in lines}.values()  # `started` stays the last one if the process died
    assert [row for row in rows if row["verdict"] in ("WRONG", "started") or row.get("identical") is False] == []
    exact = [row["kind"] for row in rows if row["verdict"] == "exact"]
    assert exact.count("eager") > 300
    assert exact.count("sdpa") > 230  # many architectures have no such implementation


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_steps_of_llama_whose_heads_share_keys():
    """Where there is one query, `transformers` passes the heads that share keys as queries."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=2, bos_token_id=1, eos_token_id=2)
    model = transformers.LlamaForCausalLM(config).eval()
    with regard.capture(model, names=["model.layers.1.*"], heads=[0, 3]) as caught:
        written = model.generate(**TEXT, max_new_tokens=3, min_new_tokens=3, do_sample=False)
    assert [tuple(call.weights.shape) for call in caught.calls] == [
        (BATCH, 2, rows, keys) for rows, keys in ((7, 7), (1, 8), (1, 9))
    ]
    mask = torch.cat([MASK, torch.ones(BATCH, 2, dtype=torch.bool)], 1)
    with torch.no_grad(), regard.capture(model) as whole:
        model(written[:, :-1], attention_mask=mask)
    expected = whole["model.layers.1.self_attn"][:, [0, 3], 8:]
    torch.testing.assert_close(caught.calls[2].weights[0], expected[0], rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("flash", [False, True])
def test_x_transformers(flash):
    library = pytest.importorskip("x_transformers")
    torch.manual_seed(0)
    sizes = {"dim": 16, "depth": 2, "heads": 4, "attn_dim_head": 8, "rotary_pos_emb": True}
    model, plain = (
        library.TransformerWrapper(num_tokens=20, max_seq_len=9, attn_layers=library.Decoder(**sizes, attn_flash=each)).eval()
        for each in (flash, False)
    )
    plain.load_state_dict(model.state_dict())
    with torch.no_grad():
        expected = model(IDS, mask=MASK)
        with regard.capture(model) as caught:
            assert torch.equal(model(IDS, mask=MASK), expected)
        _, own = plain(IDS, mask=MASK, return_attn=True)
    assert len(caught) == 2
    for seen, weights in zip(caught.values(), own, strict=True):
        torch.testing.assert_close(seen, weights, rtol=0, atol=1e-6)


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_encoder_of_pytorch():
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 9, batch_first=True), 2).eval()
    x = torch.randn(BATCH, SOURCE, 16)
    expected, own = model(x, src_key_padding_mask=~MASK), []

    def keep(_: nn.Module, __: tuple, output: tuple[Tensor, Tensor]) -> None:
        own.append(output[1])

    with regard.capture(model) as caught:
        torch.testing.assert_close(model(x, src_key_padding_mask=~MASK)[MASK], expected[MASK])
    for layer in model.layers:
        layer.self_attn.register_forward_hook(keep)
        ask = layer.self_attn.forward
        layer.self_attn.forward = lambda *a, ask=ask, **b: ask(*a, **b | {"need_weights": True, "average_attn_weights": False})
    model(x, src_key_padding_mask=~MASK)
    for seen, weights in zip(caught.values(), own, strict=True):
        rows = (seen - weights).transpose(1, 2)[MASK]
        assert rows.abs().max() < 1e-6
