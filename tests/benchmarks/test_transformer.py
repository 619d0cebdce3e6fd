"""The Transformer that is measured against others: the same shape, and the same weights in their forms."""

from pathlib import Path

import pytest
import torch
import yaml
from benchmarks import decoding, streaming, transformer
from benchmarks.conversion import check_shape_of, read_spelt, spell, spellings, to_ctranslate2, to_joeynmt
from benchmarks.joeynmt_transformer import transformer_config, write_vocabulary

from regard.config import TransformerConfig
from regard.config.loading import dump_config, load_config
from regard.errors import RegardError
from regard.models.build import build_translator
from regard.presets import load_preset
from regard.text.symbols import END, START

WORDS = 23
SHAPE = {"hidden_size": 8, "num_heads": 2, "feed_forward_size": 12, "encoder_layers": 2, "decoder_layers": 1}


def build(**changes):
    torch.manual_seed(3)
    config = TransformerConfig(**{"tie_embeddings": "all", "norm_order": "post", **SHAPE, **changes})
    return build_translator(config, source_size=WORDS, target_size=WORDS).eval()


def test_a_sentence_is_spelt_by_numbers_and_read_again():
    assert spell([4, 22, 1]) == "p4 p22 <unk>"
    assert read_spelt("p4 p22 <unk>") == [4, 22, 1]
    assert spellings(6) == ["<pad>", "<unk>", "<s>", "</s>", "p4", "p5"]


def test_joeynmt_has_the_unknown_symbol_before_padding(tmp_path):
    model = build()
    to_joeynmt(check_shape_of(model), tmp_path)
    state = torch.load(tmp_path / "best.ckpt")["model_state"]
    table = model.output.weight.detach()
    assert torch.equal(state["trg_embed.lut.weight"], torch.cat([table[[1, 0]], table[2:]]))
    assert torch.equal(
        state["decoder.layers.0.src_trg_att.k_layer.weight"], model.decoder.layers[0].cross_attention.key_projection.weight
    )
    matrices = {name.rsplit(".", 1)[0] for name in state}
    assert len(matrices) == 3 + 2 + 2 * 8 + 13  # embeddings and output, positions, layers


def test_models_of_other_parts_are_refused(tmp_path):
    with pytest.raises(RegardError, match="not built as preset transformer-tiny is"):
        check_shape_of(build(norm_order="pre"))
    with pytest.raises(RegardError, match="the model is a Linear, expected a Transformer"):
        check_shape_of(torch.nn.Linear(1, 1))
    with pytest.raises(RegardError, match="tie_embeddings: all"):
        to_joeynmt(check_shape_of(build(tie_embeddings="none")), tmp_path)


@torch.no_grad()
def test_ctranslate2_gives_the_same_scores_with_the_same_weights(tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    model = build()
    to_ctranslate2(check_shape_of(model), tmp_path)
    source, target = torch.tensor([[5, 9, 17, 4, END]]), torch.tensor([[START, 22, 7, 7, END]])
    features, _ = model.decode(target[:, :-1], model.encode(source, source > 0))
    wanted = model.logits(features).log_softmax(-1).gather(-1, target[:, 1:, None]).flatten()
    translator = ctranslate2.Translator(str(tmp_path), compute_type="float32", intra_threads=1)
    [found] = translator.score_batch([spell(source[0, :-1].tolist()).split()], [spell(target[0, 1:-1].tolist()).split()])
    torch.testing.assert_close(torch.tensor(found.log_probs), wanted, atol=1e-4, rtol=0)


def test_joeynmt_is_given_the_shape_of_the_preset(tmp_path):
    model = load_preset("transformer-tiny").model
    vocabulary = write_vocabulary(tmp_path / "pieces", 9)
    made = transformer_config(model, data={"train": Path("a")}, vocabulary=vocabulary, model_dir=Path("m"), updates=25)
    assert yaml.safe_load(yaml.safe_dump(made)) == made
    parts = made["model"]["encoder"], made["model"]["decoder"]
    assert [part["num_layers"] for part in parts] == [model.encoder_layers, model.decoder_layers]
    assert {part["ff_size"] for part in parts} == {model.feed_forward_size}
    assert {part["dropout"] for part in parts} == {model.layer_dropout}
    assert made["training"]["validation_freq"] % made["training"]["logging_freq"] == 0
    assert vocabulary.read_text().split()[4:] == ["p4", "p5", "p6", "p7", "p8"]


def test_the_run_that_is_measured_is_the_preset_and_a_valid_one(tmp_path):
    data = {"train": tmp_path / "train", "dev": tmp_path / "val"}
    config = transformer.preset_run(data, tmp_path, 17)
    assert load_config(dump_config(config)) == config
    assert config.training.max_steps == 17
    assert config.model == load_preset("transformer-tiny").model


def test_figures_are_medians_of_the_best_size():
    rounds = {
        "regard": [{"1": (10.0, 20.0), "2": (30.0, 40.0)}, {"1": (12.0, 22.0), "2": (34.0, 44.0)}, {"1": (0, 0), "2": (0, 0)}],
        "joeynmt": [{"64": (3.0, 4.0)}],
    }
    found = decoding._figures(rounds)
    assert found["clock"]["sentences_per_second"] == {"regard": 30.0, "joeynmt": 3.0}
    assert found["processor"]["over_joeynmt"] == 10


@pytest.mark.parametrize("module", [decoding, transformer])
def test_unknown_rivals_are_refused(module, tmp_path):
    extra = ["somewhere"] if module is decoding else []
    options = module._options([*extra, "--rivals", "moses", "--out", str(tmp_path)])
    with pytest.raises(RegardError, match="--rivals is 'moses', expected some of "):
        module.compare(options)


def test_lines_are_repeated_and_memory_is_read(tmp_path):
    (tmp_path / "few").write_text("a\nb\n")
    streaming._write(tmp_path / "many", tmp_path / "few", 5)
    assert (tmp_path / "many").read_text() == "a\nb\na\nb\na\n"
    assert 0 < streaming._memory()["anonymous_mb"] < streaming._memory()["peak_mb"]
