"""Pretrained encoders: the states and weights of `transformers`, files that are refused, and what training changes."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from encoders import real_encoder, save_encoder, tiny_encoder
from torch import Tensor

from regard.config import PretrainedEncoderConfig
from regard.errors import ConfigError
from regard.models.pretrained import PretrainedTextEncoder, max_tokens, read_encoder
from regard.reweight import Sites, flatten

transformers = pytest.importorskip("transformers")


def build(folder: str, **settings) -> PretrainedTextEncoder:
    torch.manual_seed(3)
    made = PretrainedTextEncoder(read_encoder(PretrainedEncoderConfig(name=folder, **settings)), range(22))
    if made.stored:
        made.load()
    return made.eval()


def texts() -> tuple[Tensor, Tensor]:
    mask = torch.arange(11) < torch.tensor([11, 4, 1])[:, None]
    return torch.randint(4, 22, (3, 11), generator=torch.Generator().manual_seed(0)).masked_fill(~mask, 0), mask


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_states_and_weights_are_those_of_transformers(family):
    encoder, (tokens, mask) = build(tiny_encoder(family), tuning="frozen"), texts()
    library = transformers.AutoModel.from_pretrained(tiny_encoder(family), attn_implementation="eager").eval()
    sites = Sites(encoder.sites)
    with torch.no_grad():
        states = encoder(encoder.embed(tokens), mask, sites)
        inputs = library.get_input_embeddings()(tokens)
        expected = library(inputs_embeds=inputs, attention_mask=mask.long(), output_attentions=True)
    torch.testing.assert_close(states[mask], expected.last_hidden_state[mask])
    assert encoder.sites == ("encoder.0", "encoder.1")
    for site, weights in zip(encoder.sites, expected.attentions, strict=True):
        torch.testing.assert_close(sites.maps[site], weights)


def test_weights_change_by_site():
    encoder, (tokens, mask) = build(tiny_encoder(), tuning="frozen"), texts()
    plain, flat = Sites(), Sites(("encoder.1",), {"encoder.1": flatten})
    with torch.no_grad():
        states, changed = (encoder(encoder.embed(tokens), mask, sites) for sites in (plain, flat))
    torch.testing.assert_close(flat.maps["encoder.1"][1, :, :, :4], torch.full((2, 11, 4), 0.25))
    assert not torch.allclose(states[1, 0], changed[1, 0])
    torch.testing.assert_close(states[2, 0], changed[2, 0])  # a text of one token has only one weight


@pytest.mark.parametrize(("tuning", "trained"), [("frozen", 0), ("lora", 24), ("whole", None)])
def test_trained_and_stored_weights(tuning, trained):
    encoder = build(tiny_encoder(), tuning=tuning)
    state, parameters = encoder.state_dict(), dict(encoder.named_parameters())
    expected = {name for name, weight in parameters.items() if weight.requires_grad}
    assert set(state) == expected
    assert len(expected) == (len(parameters) if trained is None else trained)
    other = build(tiny_encoder(), tuning=tuning)
    other.load_state_dict(state)  # the weights that are left out do not count as missing
    tokens, mask = texts()
    with torch.no_grad():
        torch.testing.assert_close(*(each(each.embed(tokens), mask, Sites()) for each in (encoder, other)))
    assert len(build(tiny_encoder(), tuning=tuning, include=True).state_dict()) == len(parameters)


def test_learning_rates_fall_by_layer():
    encoder = build(tiny_encoder(), tuning="whole", rate=0.5, layer_decay=0.8)
    rates = {name: weight.learning_rate_factor for name, weight in encoder.body.named_parameters()}
    assert rates["encoder.layer.1.output.dense.weight"] == 0.5
    assert rates["encoder.layer.0.output.dense.weight"] == pytest.approx(0.4)
    assert rates["embeddings.word_embeddings.weight"] == pytest.approx(0.32)


@pytest.mark.parametrize("include", [False, True])
def test_merged_adapters_give_equal_states(include):
    encoder, (tokens, mask) = build(tiny_encoder(), tuning="lora", rank=3, include=include), texts()
    for name, weight in encoder.named_parameters():
        if "lora" in name:
            torch.nn.init.normal_(weight, std=0.3)
    with torch.no_grad():
        before = encoder(encoder.embed(tokens), mask, Sites())
        plain = build(tiny_encoder(), tuning="frozen")
        assert not torch.allclose(before, plain(plain.embed(tokens), mask, Sites()), atol=1e-2)
        for _ in range(3):  # merged, loaded, merged again
            encoder.merge_adapters()
            torch.testing.assert_close(encoder(encoder.embed(tokens), mask, Sites()), before, rtol=1e-5, atol=1e-5)
            state, encoder = encoder.state_dict(), build(tiny_encoder(), tuning="lora", rank=3, include=include)
            encoder.load_state_dict(state)
            torch.testing.assert_close(encoder(encoder.embed(tokens), mask, Sites()), before, rtol=1e-5, atol=1e-5)


def test_layers_that_are_computed_again_give_equal_gradients():
    encoder, (tokens, mask) = build(tiny_encoder(), tuning="lora", dropout=0.0).train(), texts()
    adapters = [weight for weight in encoder.parameters() if weight.requires_grad]
    found = []
    for record in ((), encoder.sites):  # while weights are recorded, nothing is computed again
        states = encoder(encoder.embed(tokens), mask, Sites(record))
        found.append(torch.autograd.grad(states.square().sum(), adapters))
    assert any(each.any() for each in found[0])
    torch.testing.assert_close(found[0], found[1])


def test_a_frozen_encoder_reads_each_training_text_once():
    encoder, (tokens, mask) = build(tiny_encoder(), tuning="frozen").train(), texts()
    expected = encoder.eval()(encoder.embed(tokens), mask, Sites())
    encoder.train()
    states = [encoder(encoder.embed(tokens[:rows]), mask[:rows], Sites()) for rows in (3, 2)]
    torch.testing.assert_close(states[0][mask], expected[mask])
    assert torch.equal(states[0][:2], states[1])
    alone = encoder(encoder.embed(tokens[1:2, :4]), mask[1:2, :4], Sites())
    assert torch.equal(alone[0], states[0][1, :4])
    assert len(encoder._kept) == 3


def test_only_a_tuned_encoder_has_dropout():
    for tuning, drops in (("frozen", False), ("whole", True)):
        encoder, (tokens, mask) = build(tiny_encoder(), tuning=tuning, dropout=0.5), texts()
        modes = (encoder.train(mode) for mode in (False, True))
        still, trained = (each(each.embed(tokens), mask, Sites())[mask] for each in modes)
        assert torch.allclose(still, trained, atol=1e-5) is not drops


def test_positions_limit_the_tokens():
    assert max_tokens(read_encoder(PretrainedEncoderConfig(name=tiny_encoder("bert")))) == 512
    assert max_tokens(read_encoder(PretrainedEncoderConfig(name=tiny_encoder("roberta")))) == 510


def _without(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).unlink()


def _set(folder: Path, **values) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


BAD = {
    "no tokenizer": (lambda folder: _without(folder, "tokenizer.json"), "has no tokenizer.json, which has the offsets"),
    "pickles": (
        lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
        "has no model.safetensors, only weights in a format that can run code",
    ),
    "no weights": (lambda folder: _without(folder, "model.safetensors"), "expected the folder of a model"),
    "code": (lambda folder: _set(folder, model_type="mine", auto_map={"AutoModel": "mine.Model"}), "its own code is not run"),
    "another family": (lambda folder: _set(folder, model_type="gpt2"), "model_type 'gpt2', expected one of: bert,"),
    "too many layers": (lambda folder: _set(folder, num_hidden_layers=10**9), "1,000,000,000 layers, expected 1 to 200"),
    "wrong value": (lambda folder: _set(folder, num_hidden_layers="x"), "has a wrong value"),
    "wrong type": (lambda folder: _set(folder, model_type=[]), r"has model_type \[\]"),
    "unknown function": (lambda folder: _set(folder, hidden_act="nope"), "has a wrong value: KeyError 'nope'"),
    "no width": (lambda folder: _set(folder, hidden_size=0), "has a wrong value: ZeroDivisionError"),
    "other positions": (
        lambda folder: _set(folder, position_embedding_type="relative_key"),
        "'relative_key', expected absolute",
    ),
    "damaged weights": (lambda folder: (folder / "model.safetensors").write_bytes(b"{"), "weights of the encoder .* cannot be"),
    "not JSON": (lambda folder: (folder / "config.json").write_text("{"), "cannot be read"),
}


@pytest.mark.parametrize("case", BAD)
def test_folders_that_are_refused(case, tmp_path):
    damage, message = BAD[case]
    damage(Path(shutil.copytree(tiny_encoder(), tmp_path / "encoder")))
    with pytest.raises(ConfigError, match=message):
        build(str(tmp_path / "encoder"))


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # peft 0.21 with transformers 5.24
def test_further_settings_and_files_of_a_folder_are_not_used(tmp_path):
    from peft import LoraConfig, get_peft_model

    folder = Path(shutil.copytree(tiny_encoder(), tmp_path / "encoder"))
    adapted = get_peft_model(transformers.AutoModel.from_pretrained(folder), LoraConfig(r=2, target_modules=["query"]))
    adapted.save_pretrained(folder)  # an adapter that transformers would load too
    _set(folder, return_dict=False, chunk_size_feed_forward=3, num_labels=10**9)
    (tokens, mask), own, plain = texts(), build(str(folder), tuning="frozen"), build(tiny_encoder(), tuning="frozen")
    assert torch.equal(own(own.embed(tokens), mask, Sites()), plain(plain.embed(tokens), mask, Sites()))


def test_a_name_that_does_not_exist(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match="there is no encoder 'nobody/nothing', neither as a folder nor in the cache"):
        read_encoder(PretrainedEncoderConfig(name="nobody/nothing"))
    with pytest.raises(ConfigError, match=r"encoder\.name is empty"):
        read_encoder(PretrainedEncoderConfig())


def test_an_encoder_that_has_moved_is_found_by_its_name(tmp_path, monkeypatch):
    config = read_encoder(PretrainedEncoderConfig(name=str(save_encoder(tmp_path / "tiny"))))
    (tmp_path / "models").mkdir()
    shutil.move(tmp_path / "tiny", tmp_path / "models" / "tiny")
    with pytest.raises(ConfigError, match="set REGARD_ENCODERS to the folder that contains the encoder's folder"):
        PretrainedTextEncoder(config, range(22)).load()
    monkeypatch.setenv("REGARD_ENCODERS", str(tmp_path / "models"))
    PretrainedTextEncoder(config, range(22)).load()
    (tmp_path / "models" / "tiny" / "model.safetensors").write_bytes(b"another")
    with pytest.raises(ConfigError, match="are not those that the model was trained with"):
        PretrainedTextEncoder(config, range(22)).load()


def test_files_that_changed_or_are_incomplete(tmp_path):
    folder = save_encoder(tmp_path / "encoder")
    config = read_encoder(PretrainedEncoderConfig(name=str(folder), tuning="frozen"))
    huge = config.architecture.replace('"hidden_size": 12', '"hidden_size": 120000')
    with pytest.raises(ConfigError, match=r"config\.json .* is not the one that the model was trained with"):
        PretrainedTextEncoder(replace(config, architecture=huge), range(22))
    shutil.copy(Path(tiny_encoder("roberta")) / "model.safetensors", folder)
    with pytest.raises(ConfigError, match="are not those that the model was trained with"):
        PretrainedTextEncoder(config, range(22))
    config = read_encoder(PretrainedEncoderConfig(name=str(folder), tuning="frozen"))
    from safetensors.torch import load_file, save_file

    tensors = load_file(Path(tiny_encoder()) / "model.safetensors")
    del tensors["encoder.layer.1.output.dense.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = read_encoder(PretrainedEncoderConfig(name=str(folder), tuning="frozen"))
    with pytest.raises(ConfigError, match=r"lacks the tensor 'encoder.layer.1.output.dense.weight'"):
        PretrainedTextEncoder(config, range(22))


@pytest.mark.real
def test_the_real_encoder():
    encoder, (tokens, mask) = build(real_encoder(), tuning="frozen"), texts()
    library = transformers.AutoModel.from_pretrained(real_encoder()).eval()
    with torch.no_grad():
        states = encoder(encoder.embed(tokens), mask, Sites())
        expected = library(input_ids=tokens, attention_mask=mask.long()).last_hidden_state
    torch.testing.assert_close(states[mask], expected[mask], rtol=1e-4, atol=1e-5)
