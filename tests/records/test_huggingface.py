"""What a model of `transformers` returns, by that library where it is installed, and by plain objects of the same form."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.errors import ArgumentError, DataError, RequestError, ShapeError
from regard.records import from_huggingface

LAYERS, BATCH, HEADS, SOURCE, TARGET = 2, 3, 2, 5, 4
TOKENS = ["[CLS]", "un", "##able", "story", "[SEP]"]
TARGETS = ["▁die", "▁Ge", "schichte", "</s>"]


def weights(rows: int, columns: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    draw = torch.Generator().manual_seed(seed)
    return tuple(torch.rand(BATCH, HEADS, rows, columns, generator=draw).softmax(-1) for _ in range(LAYERS))


def test_a_model_of_one_text():
    attentions = weights(SOURCE, SOURCE)
    made = from_huggingface(SimpleNamespace(attentions=attentions, cross_attentions=(), logits=None), TOKENS, batch=1)
    assert made.sites == ("encoder.0", "encoder.1")
    assert made.source_words == ("unable", "story")
    np.testing.assert_array_equal(made.weights["encoder.1"], attentions[1][1].numpy())
    joined = attentions[0][1].mean(0)[1:4, 1:4]
    expected = torch.stack([joined[:2].mean(0), joined[2]])
    expected = torch.stack([expected[:, :2].sum(1), expected[:, 2]], 1)
    np.testing.assert_allclose(made.matrix("encoder.0"), expected, atol=1e-6)
    assert from_huggingface({"attentions": attentions}, TOKENS, batch=1) == made
    assert from_huggingface(attentions, TOKENS, batch=1) == made
    assert made.rollout().sites[-1] == "encoder.rollout"


def test_an_argument_that_only_a_model_has():
    with pytest.raises(ArgumentError, match="a record has no option 'attributions'"):
        from_huggingface(weights(SOURCE, SOURCE), TOKENS, attributions=["values"])


def test_an_encoder_and_a_decoder():
    output = SimpleNamespace(
        encoder_attentions=weights(SOURCE, SOURCE),
        decoder_attentions=weights(TARGET, TARGET, 1),
        cross_attentions=weights(TARGET, SOURCE, 2),
        attentions=None,
    )
    made = from_huggingface(output, TOKENS, TARGETS, batch=2, source_text="Unable story", target_text="Die Geschichte")
    assert made.sites == ("encoder.0", "encoder.1", "decoder.0", "decoder.1", "cross.0", "cross.1")
    assert made.target_words == ("die", "Geschichte")
    assert made.target_text == "Die Geschichte"
    np.testing.assert_array_equal(made.weights["cross.1"], output.cross_attentions[1][2].numpy())
    assert made.matrix("cross.0").shape == (2, 2)
    assert not made.target_is_read
    assert from_huggingface(output, TOKENS, TARGETS, target_is_read=True).target_is_read


def test_the_kind_of_a_model_does_not_depend_on_the_padding_of_a_sentence():
    causal = torch.ones(4, 4).tril()
    causal /= causal.sum(-1, keepdim=True)
    padded = torch.cat([torch.full((2, 4), 0.25), torch.tensor([[0, 0, 1, 0], [0, 0, 0.5, 0.5]])])
    batch = torch.stack([causal, padded])[:, None]  # an eager model gives padding on the left equal weights
    for row in (0, 1):
        made = from_huggingface((batch,), list("abcd"), batch=row)
        assert (made.sites, made.target_tokens) == (("decoder.0",), tuple("abcd"))
    short = torch.tensor([[1.0, 0, 0, 0]]).expand(4, 4)  # a sentence of an encoder with one token, which has no later ones
    batch = torch.stack([weights(4, 4)[0][0, 0], short])[:, None]
    assert [from_huggingface((batch,), list("abcd"), batch=row).sites for row in (0, 1)] == [("encoder.0",)] * 2


def test_a_decoder_alone_that_attends_to_anothers_states():
    """GPT-2 and BERT as decoders name what is within the target `attentions`."""
    output = SimpleNamespace(attentions=weights(TARGET, TARGET, 1), cross_attentions=weights(TARGET, SOURCE, 2))
    made = from_huggingface(output, TOKENS, TARGETS, batch=1)
    assert made.sites == ("decoder.0", "decoder.1", "cross.0", "cross.1")
    np.testing.assert_array_equal(made.weights["decoder.1"], output.attentions[1][1].numpy())


def test_a_decoder_alone():
    """No token's weights look ahead, so the sites are the decoder's, and the tokens are what it reads."""
    attentions = tuple(layer.tril() for layer in weights(SOURCE, SOURCE))
    made = from_huggingface({"attentions": attentions}, TOKENS, batch=1, source_text="Unable story")
    assert made.sites == ("decoder.0", "decoder.1")
    assert made.target_is_read
    assert (made.source_words, made.target_words, made.target_text) == ((), ("unable", "story"), "Unable story")
    np.testing.assert_array_equal(made.weights["decoder.1"], attentions[1][1].numpy())


def test_what_generate_returns_step_by_step():
    decoder, cross = weights(TARGET, TARGET, 1), weights(TARGET, SOURCE, 2)
    for layer in decoder:
        layer.mul_(torch.ones(TARGET, TARGET).tril())
    output = SimpleNamespace(
        encoder_attentions=weights(SOURCE, SOURCE),
        decoder_attentions=tuple(tuple(w[:, :, t : t + 1, : t + 1] for w in decoder) for t in range(TARGET)),
        cross_attentions=tuple(tuple(w[:, :, t : t + 1] for w in cross) for t in range(TARGET)),
    )
    made = from_huggingface(output, TOKENS, TARGETS, batch=1)
    np.testing.assert_array_equal(made.weights["cross.1"], cross[1][1].numpy())
    np.testing.assert_array_equal(made.weights["decoder.0"], decoder[0][1].numpy())


def test_attention_follows_each_hypothesis_through_a_beam():
    """As a run with the hypothesis as target shows."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.MarianConfig(
        vocab_size=20, d_model=8, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=9, decoder_ffn_dim=9, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
        forced_eos_token_id=1,
        attn_implementation="eager",
    )  # fmt: skip
    model, source = transformers.MarianMTModel(config).eval(), torch.arange(2, 12).view(2, 5)
    options = {"max_new_tokens": 4, "output_attentions": True, "return_dict_in_generate": True}
    with torch.no_grad():
        written = model.generate(source, num_beams=3, num_return_sequences=2, **options)
        assert len({tuple(row) for row in written.beam_indices.tolist()}) > 1
        for row in range(4):
            length = int((written.beam_indices[row] >= 0).sum())
            words = [f"▁{x}" for x in written.sequences[row, 1 : length + 1].tolist()]
            made = from_huggingface(written, TOKENS, words, batch=row)
            again = model(
                source[row // 2][None], decoder_input_ids=written.sequences[row : row + 1, :length], output_attentions=True
            )
            for family in ("encoder", "decoder", "cross"):
                expected = again[f"{family}_attentions"][1][0].numpy()
                np.testing.assert_allclose(made.weights[f"{family}.1"], expected, atol=1e-5)


def test_layers_without_attention_keep_their_numbers():
    one, other = weights(SOURCE, SOURCE)
    assert from_huggingface({"attentions": (one, None, other)}, TOKENS).sites == ("encoder.0", "encoder.2")


def test_refusals():
    attentions = weights(SOURCE, SOURCE)
    for nothing in (SimpleNamespace(attentions=None), SimpleNamespace(attentions=(None, None)), {}):
        with pytest.raises(RequestError, match=r"has no attentions: call the model with output_attentions=True, .*'eager'"):
            from_huggingface(nothing, TOKENS)
    with pytest.raises(RequestError, match="batch is 3, and there are 3 sentences: choose one of 0 to 2"):
        from_huggingface(attentions, TOKENS, batch=3)
    with pytest.raises(ShapeError, match=r"encoder.0 has shape \(2, 5, 5\), expected \(B, H, Q, K\)"):
        from_huggingface([layer[0] for layer in attentions], TOKENS)
    with pytest.raises(ShapeError, match=r"encoder.0'\] has shape \(2, 5, 5\), expected \(S, S\) = \(3, 3\)"):
        from_huggingface(attentions, TOKENS[:3])
    with pytest.raises(RequestError, match="has decoder_attentions or cross_attentions; give its tokens"):
        from_huggingface({"cross_attentions": weights(TARGET, SOURCE)}, TOKENS)
    with pytest.raises(RequestError, match="batch is 2, and there are 2 hypotheses: choose one of 0 to 1"):
        from_huggingface({"beam_indices": torch.zeros(2, 3), "attentions": attentions}, TOKENS, TARGETS, batch=2)
    for wrong in (None, "a b", [1, 2]):
        with pytest.raises(DataError, match="tokens must be a list of strings, got"):
            from_huggingface(attentions, wrong)
