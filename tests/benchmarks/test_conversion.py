"""Weights in the forms of CTranslate2 and JoeyNMT: the same translations with the same scores, of all that can be converted."""

from itertools import product

import pytest
import torch
from benchmarks.conversion import (
    CTRANSLATE2,
    JOEYNMT,
    check_shape_of,
    joeynmt_lacks,
    lacks,
    read_parts,
    read_spelt,
    spell,
    spellings,
    to_ctranslate2,
    to_joeynmt,
    unscaled,
)

from regard.attention import ALiBi
from regard.config import TransformerConfig
from regard.decoding.beam import beam_search
from regard.errors import RegardError
from regard.models.build import build_translator
from regard.text.symbols import END, PAD, START

WORDS, LIMIT, SOURCES = 37, 24, 40
SHAPE = {"hidden_size": 16, "num_heads": 2, "feed_forward_size": 12, "encoder_layers": 2, "decoder_layers": 1}
DEEP = ("layer", "deep", "relu", "rotary")
CONVERTED = [parts for parts in product(*CTRANSLATE2.values()) if "deep" not in parts or parts == DEEP]
"""`deep` goes over as `post`, of which it differs by what `test_a_model_without_scales_computes_the_same` holds to."""


def build(**changes):
    torch.manual_seed(3)
    config = TransformerConfig(**{"tie_embeddings": "all", "norm_order": "post", **SHAPE, **changes})
    return build_translator(config, source_size=WORDS, target_size=WORDS).eval()


def draw_sources():
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 25, (SOURCES,), generator=generator).tolist()
    return [torch.randint(4, WORDS, (length,), generator=generator).tolist() for length in lengths]


def pad(rows):
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


@torch.no_grad()
def shaken(source, **changes):
    """A model whose weights are all of some size, those of norms and biases too, and whose translations end now and then."""
    model = build(output_bias=True, tie_embeddings="none", **changes)
    for parameter in model.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    model.output.weight.mul_(2)
    model.output.bias[: START + 1] = -30  # symbols that no trained model gives, and that CTranslate2 would not be fed
    logits = model.logits(model.decode(torch.randint(4, WORDS, (SOURCES, 8)), model.encode(source, source != PAD))[0])
    model.output.bias[END] += (logits[..., 4:].amax(-1) - logits[..., END]).quantile(0.3)
    return model


@torch.no_grad()
def scores_of(model, source, targets):
    """Log probabilities of targets, the end symbol's with them where they are not as long as the limit lets them be."""
    target = pad([[START, *tokens, END] for tokens in targets])
    features, _ = model.decode(target[:, :-1], model.encode(source, source != PAD))
    found = model.logits(features).log_softmax(-1).gather(-1, target[:, 1:, None])[..., 0]
    counted = torch.tensor([min(len(tokens) + 1, LIMIT) for tokens in targets])
    return (found * (torch.arange(found.shape[1]) < counted[:, None])).sum(1).tolist()


@pytest.mark.parametrize(("norm", "norm_order", "feed_forward", "positions"), CONVERTED)
def test_ctranslate2_finds_the_same_translations_with_the_same_scores(tmp_path, norm, norm_order, feed_forward, positions):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed: pip install regard[bench]")
    sources = draw_sources()
    ids = pad([[*source, END] for source in sources])
    model = shaken(ids, norm=norm, norm_order=norm_order, feed_forward=feed_forward, positions=positions)
    to_ctranslate2(check_shape_of(model), tmp_path)
    translator = ctranslate2.Translator(str(tmp_path), compute_type="float32", intra_threads=1)

    def translate(beam_size, num_hypotheses):
        options = {"length_penalty": 0, "min_decoding_length": 0, "max_decoding_length": LIMIT, "max_batch_size": 16}
        pieces = [spell(source).split() for source in sources]
        counts = {"beam_size": beam_size, "num_hypotheses": num_hypotheses}
        found = translator.translate_batch(pieces, return_scores=True, **counts, **options)
        texts = [[read_spelt(" ".join(words)) for words in result.hypotheses] for result in found]
        return texts, [result.scores for result in found]

    for beam_size in (1, 5):
        texts, scores = translate(beam_size, 1)
        hypotheses = [
            found for [found] in beam_search(model, ids, ids != PAD, beam_size=beam_size, length_penalty=0.0, max_length=LIMIT)
        ]
        ours = [(found.tokens, found.log_probability) for found in hypotheses]
        # Where a beam is cut at the limit, regard ranks what has ended first and CTranslate2 does not.
        alike = [
            beam_size == 1 or (found.finished and len(text) < LIMIT) for found, [text] in zip(hypotheses, texts, strict=True)
        ]
        assert sum(alike) >= 30
        for (tokens, score), [text], [their], counts in zip(ours, texts, scores, alike, strict=True):
            if counts:
                assert tokens == text
                assert their == pytest.approx(score, abs=1e-4)
    # All five that its beam ends with, long and cut ones too, have the scores that regard gives them.
    texts, scores = translate(5, 5)
    flat = [text for found in texts for text in found]
    assert max(map(len, flat)) >= 8
    wanted = scores_of(model, ids.repeat_interleave(torch.tensor([len(found) for found in texts]), 0), flat)
    assert [score for found in scores for score in found] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize(("norm", "norm_order", "feed_forward", "positions"), CONVERTED)
def test_parts_are_read_from_the_model(norm, norm_order, feed_forward, positions):
    model = build(norm=norm, norm_order=norm_order, feed_forward=feed_forward, positions=positions)
    parts = read_parts(check_shape_of(model))
    assert (parts.norm, parts.norm_order, parts.feed_forward, parts.positions) == (norm, norm_order, feed_forward, positions)
    assert bool(joeynmt_lacks(model)) == (norm == "rms" or feed_forward == "swiglu" or positions == "rotary")


@pytest.mark.parametrize("changes", [{}, {"norm": "rms", "feed_forward": "swiglu", "positions": "rotary"}])
def test_a_model_without_scales_computes_the_same(changes):
    source = pad(draw_sources())
    model = shaken(source, norm_order="deep", **changes).double()
    plain = unscaled(model)
    assert (read_parts(model).norm_order, read_parts(plain).norm_order) == ("deep", "post")
    target = torch.randint(4, WORDS, (SOURCES, 8))
    ours, theirs = (
        each.logits(each.decode(target, each.encode(source, source != PAD))[0]).log_softmax(-1) for each in (model, plain)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_what_has_no_counterpart_is_refused_by_its_setting():
    with pytest.raises(
        RegardError, match=r"the model has positions: learned, which CTranslate2 .*norm_order: pre or post or deep, "
    ):
        check_shape_of(build(positions="learned"))


def test_parts_of_ones_own_are_refused_by_their_names():
    with pytest.raises(RegardError, match="the model is a Linear, expected a Transformer"):
        check_shape_of(torch.nn.Linear(1, 1))
    model = build()
    model.decoder.layers[0].self_attention.positions = ALiBi(2)
    with pytest.raises(RegardError, match="positions: MultiHead of another form and sinusoidal"):
        check_shape_of(model)
    model = build(positions="rotary")
    model.decoder.layers[0].cross_attention.positions = model.decoder.layers[0].self_attention.positions
    with pytest.raises(RegardError, match="positions: MultiHead of another form and rotary"):
        check_shape_of(model)
    model = build()
    model.encoder.layers[1].feed_forward.activation = torch.nn.GELU(approximate="tanh")
    with pytest.raises(RegardError, match="feed_forward: GELU and relu"):
        check_shape_of(model)


def test_joeynmt_is_refused_what_it_has_not(tmp_path):
    model = build(positions="rotary", norm="rms", feed_forward="swiglu", tie_embeddings="none", output_bias=True)
    with pytest.raises(
        RegardError, match=r"JoeyNMT 2\.3 has not; it can be given norm: layer, norm_order: pre or post, "
    ) as refused:
        to_joeynmt(model, tmp_path)
    had = ("norm: rms", "feed_forward: swiglu", "positions: rotary", "embeddings that are not all tied", "output_bias: true")
    assert all(part in str(refused.value) for part in had)
    assert lacks(TransformerConfig(norm_order="deep"), JOEYNMT) == "norm_order: deep"  # to be trained; weights go over


def test_a_sentence_is_spelt_by_numbers_and_read_again():
    assert spell([4, 22, 1]) == "p4 p22 <unk>"
    assert read_spelt("p4 p22 <unk>") == [4, 22, 1]
    assert spellings(6) == ["<pad>", "<unk>", "<s>", "</s>", "p4", "p5"]


@pytest.mark.parametrize("order", ["pre", "post", "deep"])
def test_joeynmt_gets_every_weight_and_has_the_unknown_symbol_before_padding(tmp_path, order):
    model = build(norm_order=order)
    to_joeynmt(check_shape_of(model), tmp_path)
    state = torch.load(tmp_path / "best.ckpt")["model_state"]
    table = model.output.weight.detach()
    assert torch.equal(state["trg_embed.lut.weight"], torch.cat([table[[1, 0]], table[2:]]))
    assert torch.equal(
        state["decoder.layers.0.src_trg_att.k_layer.weight"], model.decoder.layers[0].cross_attention.key_projection.weight
    )
    tied = ("src_embed.lut.weight", "trg_embed.lut.weight")
    trained = [tensor for name, tensor in state.items() if not name.endswith(".pe") and name not in tied]
    assert sum(map(torch.numel, trained)) == sum(map(torch.numel, model.parameters()))
    assert ("decoder.layer_norm.weight" in state) == (order == "pre")
