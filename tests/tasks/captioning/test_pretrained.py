"""Captioners with a pretrained vision encoder, from training to a bundle that another process loads."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from encoders import save_image_encoder, tiny_image_encoder
from PIL import Image

import regard
from regard.config.loading import load_config
from regard.errors import BundleError, ConfigError, Interrupted, RequestError
from regard.export.onnx import export_onnx
from regard.export.page.contents import read_contents
from regard.task import Files, Text
from regard.tasks.captioning.commands import EvaluateCaptioner, LookAtImage
from regard.training.callbacks import Checkpointing

pytest.importorskip("transformers")
COLOURS = {"red": (220, 30, 30), "green": (20, 200, 40), "blue": (30, 40, 210)}


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """A table of images of 24 x 24 and 48 x 24 pixels, each with one coloured square."""
    folder, draw = tmp_path_factory.mktemp("squares"), np.random.default_rng(2)
    rows, regions = ["image,text"], ["regions"]
    for number in range(30):
        name, wide, left = list(COLOURS)[number % 3], number % 2, number % 4 < 2
        pixels = draw.integers(0, 60, (24, 24 + 24 * wide, 3), np.uint8)
        start = 0 if left else pixels.shape[1] - 10
        pixels[6:16, start : start + 10] = COLOURS[name]
        Image.fromarray(pixels).save(folder / f"{number}.png")
        rows.append(f"{number}.png,{name} {'left' if left else 'right'}")
        regions.append(";".join([f"{start} 6 {start + 10} 16"] * 2))
    (folder / "table.csv").write_text("\n".join(rows) + "\n")
    (folder / "table.regions").write_text("\n".join(regions) + "\n")
    return folder / "table.csv"


SMALL = {"model.embedding_size": 8, "model.image_size": 8, "model.decoder.hidden_size": 8}
TRANSFORMER = {
    "model.kind": "transformer",
    **{f"model.{name}": size for name, size in {"hidden_size": 8, "num_heads": 2, "feed_forward_size": 8}.items()},
    "model.decoder_layers": 1,
}


def settings_of(table: Path, out: Path, **settings) -> dict:
    chosen = {"task": "captioning", "data.train": str(table), "out": str(out), "data.cache": str(table.parent / "cache")}
    chosen |= {"model.image.kind": "pretrained", "model.image.name": tiny_image_encoder(), "overwrite": True}
    chosen |= SMALL if "model.kind" not in settings else {}
    chosen |= {"data.dev_size": 3, "training.max_epochs": 2, "training.batch_tokens": 90, "training.validation_pairs": 2}
    chosen |= {"training.tensorboard": False, "decoding.max_length": 4, "threads": 1}
    return chosen | settings


def train(table: Path, out: Path, **settings) -> regard.Captioner:
    return regard.fit(load_config(settings_of(table, out, **settings)), progress=False)


@pytest.fixture(scope="module")
def captioner(table, tmp_path_factory) -> regard.Captioner:
    return train(table, tmp_path_factory.mktemp("frozen") / "run")


def images(table: Path, count: int = 3) -> list[str]:
    return [str(table.parent / f"{number}.png") for number in range(count)]


def test_the_canvas_is_the_encoders(captioner):
    data, image = captioner.config.data, captioner.config.model.image
    assert (data.height, data.width, data.cell, data.colour) == (24, 24, 8, "colour")
    assert (image.tuning, len(image.checksum)) == ("frozen", 64)
    assert not any("body" in name for name in captioner.model.state_dict())


def test_records_have_the_patches(captioner, table, tmp_path):
    found = captioner.caption(images(table), record=("cross", "encoder.1"))
    for one in found:
        [segment] = one.attention.source_segments
        assert (segment.rows, segment.columns) == (3, 3)
        np.testing.assert_allclose(one.attention.weights["cross"].sum(-1), 1, rtol=1e-5)
        assert one.attention.weights["encoder.1"].shape == (2, 9, 9)
        assert (one.attention.weights["encoder.1"].sum(-1) < 1).all()  # the class token has the rest
    found[0].attention.save(tmp_path / "look.html")
    assert "row 2, column 3" in (tmp_path / "look.html").read_text()
    [look] = LookAtImage(target="red left", attribution=("integrated",)).run(captioner, [Text(images(table)[0])])
    assert look.record.weights["integrated"].shape == (3, 9)
    result = EvaluateCaptioner(regions=str(table.with_suffix(".regions"))).run(captioner, Files(str(table)))
    assert 0 < result.weight_on_regions < 1
    assert result.words == 60


SCRIPT = """
import sys, regard
captioner = regard.load(sys.argv[1])
print([one.log_probability for one in captioner.force(sys.argv[2:], ["red left"] * len(sys.argv[2:]))])
"""


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"model.image.tuning": "whole", "model.image.name": "deit"}, marks=pytest.mark.slow),
        TRANSFORMER | {"model.image.tuning": "lora", "model.image.name": "clip"},
    ],
)
def test_another_process_loads_the_bundle(settings, table, tmp_path):
    trained = train(
        table, tmp_path / "run", **settings | {"model.image.name": tiny_image_encoder(settings["model.image.name"])}
    )
    own = [one.log_probability for one in trained.force(images(table), ["red left"] * 3)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "run"), *images(table)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(own)


def test_a_model_names_its_encoder_or_holds_it(table, tmp_path):
    folder = save_image_encoder(tmp_path / "encoder", "siglip_vision_model")
    for include in (False, True):
        settings = {"model.image.name": str(folder), "model.image.include": include, "training.max_epochs": 1}
        train(table, tmp_path / f"run{include}", **settings)
    shutil.rmtree(folder)
    regard.load(tmp_path / "runTrue").caption(images(table))
    with pytest.raises(BundleError, match="there is no encoder"):
        regard.load(tmp_path / "runFalse")


@pytest.mark.parametrize("tuning", [pytest.param("lora", marks=pytest.mark.slow), "frozen", "whole"])
def test_a_resumed_run_gives_the_same_bytes(tuning, table, tmp_path, monkeypatch):
    train(table, tmp_path / "once", **{"model.image.tuning": tuning})
    after_update = Checkpointing.after_update

    def stop(self, run):
        if run.progress.step == 2:
            run.signals.received = 2
        after_update(self, run)

    monkeypatch.setattr(Checkpointing, "after_update", stop)
    with pytest.raises(Interrupted):
        train(table, tmp_path / "parts", **{"model.image.tuning": tuning})
    monkeypatch.undo()
    regard.resume(tmp_path / "parts", progress=False)
    assert (tmp_path / "parts/model.safetensors").read_bytes() == (tmp_path / "once/model.safetensors").read_bytes()


def test_settings_that_conflict(table, tmp_path):
    for settings, message in (
        ({"training.optimizer": "muon"}, "set training.optimizer to adamw"),
        ({"model.image.kind": "convolutional"}, "of kind 'convolutional' has no setting 'name'"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_config(settings_of(table, tmp_path / "run", **settings))
    for settings, message in (
        ({"data.height": 48}, "data.height is 48, but the encoder '.*' needs 24; leave data.height out"),
        ({"data.colour": "grey"}, "data.colour is grey, but the encoder '.*' needs colour"),
        ({"model.image.name": str(tmp_path / "none")}, "there is no encoder"),
        ({"model.image.name": ""}, r"model\.image\.name is empty"),
    ):
        with pytest.raises(ConfigError, match=message):
            train(table, tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_exports_refuse_by_name(captioner, tmp_path):
    with pytest.raises(RequestError, match="reads images"):
        export_onnx(captioner, tmp_path / "export")
    with pytest.raises(RequestError, match="reads images"):
        read_contents(captioner, "run")
