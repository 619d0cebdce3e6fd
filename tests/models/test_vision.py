"""Pretrained vision encoders: the states and weights of `transformers` over patches, and folders that are refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from encoders import PREPARATION, save_image_encoder, tiny_image_encoder
from torch import Tensor

from regard.config import (
    DotConfig,
    LuongDecoderConfig,
    PretrainedImageConfig,
    RecurrentCaptionerConfig,
    TransformerCaptionerConfig,
)
from regard.errors import ConfigError
from regard.models.build import build_captioner
from regard.models.pretrained import read_encoder
from regard.models.vision import PretrainedImageEncoder, image_input
from regard.reweight import Sites, flatten
from regard.text.captions.images import Grid

transformers = pytest.importorskip("transformers")
GRID = Grid(rows=3, columns=3, cell=8, channels=3)
CLASS_TOKENS = {"vit": 1, "deit": 2, "clip_vision_model": 1, "clip": 1, "siglip_vision_model": 0, "siglip": 0}


def settings_of(folder: str, **settings) -> PretrainedImageConfig:
    return read_encoder(PretrainedImageConfig(**{"name": folder, "tuning": "frozen"} | settings))


def build(folder: str, **settings) -> PretrainedImageEncoder:
    torch.manual_seed(3)
    made = PretrainedImageEncoder(settings_of(folder, **settings), GRID)
    made.load_pretrained()
    return made.eval()


def images(count: int = 2) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (count, 24, 24, 3), np.uint8)


def cells(count: int = 2) -> Tensor:
    return torch.from_numpy(np.stack([GRID.split(image) for image in images(count)]))


def mask_of(source: Tensor) -> Tensor:
    return torch.ones(source.shape[:2], dtype=torch.bool)


@pytest.mark.parametrize("family", CLASS_TOKENS)
def test_states_and_weights_are_those_of_transformers(family):
    folder, first = tiny_image_encoder(family), CLASS_TOKENS[family]
    encoder, source = build(folder), cells()
    library = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    prepared = transformers.AutoImageProcessor.from_pretrained(folder)(list(images()), return_tensors="pt")
    sites = Sites(encoder.sites)
    with torch.no_grad():
        states = encoder(encoder.embed(source), mask_of(source), sites)
        expected = getattr(library, "vision_model", library)(prepared["pixel_values"], output_attentions=True)
    torch.testing.assert_close(states, expected.last_hidden_state[:, first:], atol=1e-5, rtol=1e-5)
    assert states.shape == (2, 9, 12)
    assert encoder.sites == ("encoder.0", "encoder.1")
    for site, weights in zip(encoder.sites, expected.attentions, strict=True):
        torch.testing.assert_close(sites.maps[site], weights[..., first:, first:], atol=1e-5, rtol=1e-5)


def test_weights_change_by_site():
    encoder, source = build(tiny_image_encoder()), cells()
    flat = Sites(("encoder.1",), {"encoder.1": flatten})
    with torch.no_grad():
        states, changed = (encoder(encoder.embed(source), mask_of(source), sites) for sites in (Sites(), flat))
    torch.testing.assert_close(flat.maps["encoder.1"], torch.full((2, 2, 9, 9), 0.1))  # the tenth is the class token's
    assert not torch.allclose(states, changed)


@pytest.mark.parametrize("prefix", ["vit.", "vision_model."])
def test_weights_of_larger_models_are_found(prefix, tmp_path):
    """Checkpoints of classifiers and of older versions have a prefix before the names of the encoder's weights."""
    from safetensors.torch import load_file, save_file

    family = "vit" if prefix == "vit." else "clip_vision_model"
    folder = Path(shutil.copytree(tiny_image_encoder(family), tmp_path / "encoder"))
    tensors = {f"{prefix}{name}": tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file({**tensors, "classifier.weight": torch.ones(2, 12)}, folder / "model.safetensors", metadata={"format": "pt"})
    own, other = (
        each.state_dict() for each in (build(str(folder), include=True), build(tiny_image_encoder(family), include=True))
    )
    assert own.keys() == other.keys()
    assert all(torch.equal(own[name], other[name]) for name in own)


@pytest.mark.parametrize("family", ["vit", "deit", "clip", "siglip"])
@pytest.mark.parametrize("tuning", ["frozen", "lora", "whole"])
def test_trained_and_stored_weights(family, tuning):
    encoder, source = build(tiny_image_encoder(family), tuning=tuning).train(), cells()
    parameters = dict(encoder.named_parameters())
    expected = {name for name, weight in parameters.items() if weight.requires_grad}
    assert set(encoder.state_dict()) == expected
    assert len(expected) == {"frozen": 0, "lora": 24, "whole": len(parameters)}[tuning]
    if expected:
        encoder(encoder.embed(source), mask_of(source), Sites()).square().sum().backward()
        assert all(parameters[name].grad is not None for name in expected)
    rates = {weight.learning_rate_factor for weight in parameters.values() if weight.requires_grad}
    assert len(rates) == {"frozen": 0, "lora": 2, "whole": 3}[tuning]  # of two layers, and of the patches
    other = build(tiny_image_encoder(family), tuning=tuning)
    other.load_state_dict(encoder.state_dict())
    with torch.no_grad():
        states = [each.eval()(each.embed(source), mask_of(source), Sites()) for each in (encoder, other)]
    assert torch.equal(*states)


def test_only_a_tuned_encoder_has_dropout():
    for family in ("vit", "clip"):
        for tuning, drops in (("frozen", False), ("whole", True)):
            encoder, source = build(tiny_image_encoder(family), tuning=tuning, dropout=0.5), cells()
            modes = (encoder.train(mode) for mode in (False, True))
            still, trained = (each(each.embed(source), mask_of(source), Sites()) for each in modes)
            assert torch.allclose(still, trained, atol=1e-5) is not drops


def test_a_frozen_encoder_reads_each_training_image_once():
    encoder, source = build(tiny_image_encoder()), cells(3)
    expected = encoder(encoder.embed(source), mask_of(source), Sites())
    encoder.train()
    states = [encoder(encoder.embed(source[:rows]), mask_of(source[:rows]), Sites()) for rows in (3, 2)]
    torch.testing.assert_close(states[0], expected)
    assert torch.equal(states[0][:2], states[1])
    assert len(encoder._kept) == 3


MODELS = {
    "recurrent": RecurrentCaptionerConfig(
        embedding_size=8, image_size=16, decoder=LuongDecoderConfig(hidden_size=16, attention=DotConfig())
    ),
    "transformer": TransformerCaptionerConfig(hidden_size=16, num_heads=2, decoder_layers=2, feed_forward_size=16),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("family", ["deit", "clip"])
def test_a_captioner_keeps_the_contract(name, family):
    torch.manual_seed(0)
    image = settings_of(tiny_image_encoder(family), tuning="whole", dropout=0.0)
    model = build_captioner(replace(MODELS[name], image=image), GRID, target_size=11).double()
    source, target = cells(3), torch.tensor([[2, 5, 6, 7], [2, 8, 0, 0], [2, 9, 10, 0]])
    model(source, target).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    model.eval()
    sites = ("cross", "encoder.1")
    with torch.no_grad():
        whole = model(source, target)
        alone = torch.cat([model(source[row : row + 1], target[row : row + 1]) for row in range(3)])
        torch.testing.assert_close(whole, alone)
        state = model.encode(source, mask_of(source), record=sites)
        for step in range(4):
            logits, attention, state = model.step(target[:, step, None], state, record=sites)
            torch.testing.assert_close(logits[:, 0], whole[:, step])
            assert attention["cross"].shape == (3, 1, 9)
            torch.testing.assert_close(attention["cross"].sum(-1), torch.ones(3, 1).double())
            assert attention["encoder.1"].shape == (3, 2, 9, 9)


def test_another_grid_is_an_error():
    config = replace(MODELS["recurrent"], image=settings_of(tiny_image_encoder()))
    with pytest.raises(
        ConfigError, match=r"the images have the Grid\(rows=2, .* patches of the encoder .* are a Grid\(rows=3,"
    ):
        build_captioner(config, Grid(rows=2, columns=3, cell=8, channels=3), target_size=11)


def test_the_normalisation_is_that_of_the_file(tmp_path):
    folder = save_image_encoder(tmp_path / "encoder")
    values = {
        (): ([0.48 * 255, 0.46 * 255, 0.41 * 255], [0.27 * 255, 0.26 * 255, 0.28 * 255]),
        (("do_rescale", False),): (PREPARATION["image_mean"], PREPARATION["image_std"]),
        (("do_normalize", False),): ([0, 0, 0], [255, 255, 255]),
        (("rescale_factor", 0.5), ("size", 24)): ([0.96, 0.92, 0.82], [0.54, 0.52, 0.56]),
    }
    for changes, (mean, std) in values.items():
        _set(folder, "preprocessor_config.json", **dict(changes))
        assert image_input(settings_of(str(folder)))[1:] == (pytest.approx(mean), pytest.approx(std))
        (folder / "preprocessor_config.json").write_text(json.dumps(PREPARATION))


def _set(folder: Path, file: str, **values) -> None:
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def _model(**values):
    return lambda folder: _set(folder, "config.json", **values)


def _preparation(**values):
    return lambda folder: _set(folder, "preprocessor_config.json", **values)


BAD = {
    "no preparation": (
        lambda folder: (folder / "preprocessor_config.json").unlink(),
        "has no preprocessor_config.json, which says",
    ),
    "pickles": (
        lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
        "has no model.safetensors, only weights in a format that can run code",
    ),
    "another size": (_model(intermediate_size=24), r"lacks the tensor 'layers\.0\.mlp\.fc1\.bias', or it has another size"),
    "another family": (_model(model_type="bert"), "model_type 'bert', expected one of: vit, deit, clip_vision_model, clip,"),
    "code": (_model(model_type="mine", auto_map={"AutoModel": "mine.Model"}), "its own code is not run"),
    "no tower": (_model(model_type="clip"), "has a wrong value: KeyError 'vision_config'"),
    "no whole patches": (_model(image_size=25), "images of 25 pixels in patches of 8, with 3 channels; expected square"),
    "long images": (_model(image_size=[24, 48]), r"images of \[24, 48\] pixels"),
    "huge images": (_model(image_size=8 << 30), r"images of \d+ pixels"),
    "huge patches": (_model(image_size=80, patch_size=80), "in patches of 80"),
    "no patches": (_model(patch_size=0), "has a wrong value: ZeroDivisionError|in patches of 0"),
    "channels": (_model(num_channels=4), "with 4 channels"),
    "not JSON": (lambda folder: (folder / "preprocessor_config.json").write_text("{"), "cannot be read"),
    "no object": (lambda folder: (folder / "preprocessor_config.json").write_text("[3]"), "does not describe the preparation"),
    "no mean": (_preparation(image_mean=None), "has image_mean None, expected 3 numbers from -255 to 255"),
    "two means": (_preparation(image_mean=[0.5, 0.5]), r"has image_mean \[0.5, 0.5\], expected 3"),
    "no spread": (_preparation(image_std=[1, 1, 0]), "has image_std .*, expected 3 numbers from 0.001 to 255"),
    "not a number": (_preparation(image_std=[1, 1, float("nan")]), "has image_std"),
    "words": (_preparation(image_mean=["a", "b", "c"]), "has image_mean"),
    "scale": (_preparation(rescale_factor=1e9), "has rescale_factor 1000000000.0, expected 1 number from 0.0001 to 1"),
    "size": (_preparation(size={"height": 24, "width": 32}), "makes images of size .*, but the encoder reads 24 x 24 pixels"),
    "crop": (_preparation(do_center_crop=True, crop_size=32), "makes images of size 32, but"),
}


@pytest.mark.parametrize("case", BAD)
def test_folders_that_are_refused(case, tmp_path):
    damage, message = BAD[case]
    damage(Path(shutil.copytree(tiny_image_encoder(), tmp_path / "encoder")))
    with pytest.raises(ConfigError, match=message):
        build(str(tmp_path / "encoder"))


def test_the_weights_of_other_parts_are_not_listed(caplog):
    build(tiny_image_encoder("clip"))  # whose file also has the weights that read texts
    assert not caplog.records


def test_a_name_that_is_missing():
    with pytest.raises(ConfigError, match=r"model\.image\.name is empty; name the folder .* hf://google/vit-base"):
        read_encoder(PretrainedImageConfig())
