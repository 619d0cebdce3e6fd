"""Captioners from end to end, on a few images of digits: training, bundle, predictor, command line and service."""

import base64
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.config.loading import load_config
from regard.demo import DigitCorpus, write_digits
from regard.errors import DataError, RequestError
from regard.export.onnx import export_onnx
from regard.serve.app import build_app
from regard.stopping import Stopped, is_wanted
from regard.task import Files, Text
from regard.tasks.captioning.commands import EvaluateCaptioner, LookAtImage, MeasureCaptioner, WriteCaption
from regard.tasks.captioning.probe import ImageProbe
from regard.text.symbols import END

SETTINGS = {
    "task": "captioning",
    "model": {"embedding_size": 16, "image_size": 16, "decoder": {"hidden_size": 24}},
    "training": {"max_epochs": 2, "validation_pairs": 4, "tensorboard": False},
    "decoding": {"beam_size": 2, "max_length": 8},
    "threads": 1,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables of a few images."""
    made = tmp_path_factory.mktemp("digits") / "digits"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.demo.digits.SIZES", {"dev": 12, "test": 10})
        write_digits(made, 40)
    return made


@pytest.fixture(scope="module")
def captioner(folder):
    data = {"train": [str(folder / "train.csv")], "dev": [str(folder / "dev.csv")], "cache": str(folder / "cache")}
    return regard.fit(load_config({**SETTINGS, "data": data, "out": str(folder / "run")}), progress=False)


@pytest.fixture
def images(folder):
    return [str(folder / f"test/00/{number:05}.png") for number in range(5)]


def address(path: str) -> str:
    return f"data:image/png;base64,{base64.b64encode(Path(path).read_bytes()).decode()}"


def test_every_form_of_an_image_gives_the_same_text(captioner, images):
    path = images[0]
    with Image.open(path) as picture:
        array = np.asarray(picture)
        forms = [path, address(path), array, picture, np.stack([array] * 3, -1), Path(path).read_bytes()]
        results = captioner.caption(forms)
    assert len({(one.text, round(one.log_probability, 5)) for one in results}) == 1
    assert [bool(one.image) for one in results] == [True, *[False] * 5]


def test_a_batch_equals_one_by_one_and_forced_scores_are_those_of_the_search(captioner, images):
    found = captioner.caption(images, n_best=2)
    alone = [captioner.caption([image])[0] for image in images]
    assert [one.text for one in found] == [one.text for one in alone]
    forced = captioner.force(images, [one.text for one in found])
    for one, other in zip(found, forced, strict=True):
        if one.finished:
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
            np.testing.assert_allclose(one.attention.weights["cross"], other.attention.weights["cross"], atol=1e-5)
    assert all(len(one.alternatives) == 1 for one in found)


def test_the_record_has_the_cells_and_the_picture(captioner, images):
    [found] = captioner.force(images[:1], ["one two three"])
    record = found.attention
    [segment] = record.source_segments
    assert (segment.rows, segment.columns, record.source_words[13]) == (8, 12, "row 2, column 2")
    with Image.open(io.BytesIO(segment.picture)) as picture:
        assert picture.size == (48, 32)
    assert record.matrix().shape == (3, 96)
    assert record.target_words == ("one", "two", "three")


def test_attention_moved_by_hand_is_used(captioner, images):
    """All weight on one cell: then the context is that cell's value at each step."""

    def first_cell(weights: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        moved = torch.zeros_like(weights)
        moved[..., 0] = 1
        return moved

    [plain] = captioner.force(images[:1], ["one two"])
    [moved] = captioner.force(images[:1], ["one two"], reweight=first_cell)
    assert moved.attention.weights["cross"][:, 0].tolist() == [1, 1, 1]
    assert moved.log_probability != pytest.approx(plain.log_probability, abs=1e-6)


def test_evaluation_measures_the_weight_on_the_regions(captioner, folder):
    files = Files(str(folder / "test.csv"))
    found = EvaluateCaptioner(regions=str(folder / "test.regions")).run(captioner, files)
    expected, corpus = [], DigitCorpus("test")
    for number in range(10):
        one = corpus[number]
        [forced] = captioner.force([one.pixels], [one.text])
        for row, (left, top, right, bottom) in zip(forced.attention.matrix(), one.places, strict=True):
            rows, columns = np.indices((8, 12)) * 4
            inside = (left < columns + 4) & (columns < right) & (top < rows + 4) & (rows < bottom)
            assert 4 <= inside.sum() <= 9
            expected.append(row[inside.reshape(-1)].sum())
    assert found.weight_on_regions == pytest.approx(np.mean(expected), abs=1e-5)
    assert found.words == len(expected)
    assert "mean weight of a word on its region" in found.render()
    plain = EvaluateCaptioner().run(captioner, files)
    assert (plain.weight_on_regions, plain.words) == (None, 0)
    arrays = captioner.evaluate(iter([corpus[0].pixels]), np.array([corpus[0].text]), regions=np.array([corpus[0].places]))
    assert arrays.words == len(corpus[0].places)
    with pytest.raises(RequestError, match="image 1 has 1 regions, but its text has 2 words"):
        captioner.evaluate([corpus[0].pixels], ["one two"], regions=[[(0, 0, 8, 8)]])


def test_a_bundle_loads_again_and_gives_the_same(captioner, folder, images):
    again = regard.load(folder / "run")
    assert [one.text for one in again.caption(images)] == [one.text for one in captioner.caption(images)]
    assert "8 × 12 cells" in (folder / "run/README.md").read_text()
    assert "captions to train on" in str(regard.info(folder / "run").render())


def test_wrong_images_are_errors_that_name_them(captioner, folder):
    with pytest.raises(RequestError, match="got one image, expected a list"):
        captioner.caption("photo.png")
    with pytest.raises(DataError, match=r"gone\.png"):
        captioner.caption([str(folder / "gone.png")])
    with pytest.raises(DataError, match=r"train\.csv"):
        captioner.caption([str(folder / "train.csv")])
    with pytest.raises(RequestError, match="reads images"):
        export_onnx(captioner, folder / "export")


def test_a_service_reads_images_of_the_request_and_no_files(captioner, folder, images):
    from fastapi.testclient import TestClient

    with TestClient(build_app({"digits": folder / "run"}, load=regard.load), base_url="http://127.0.0.1") as client:
        answer = client.post("/v1/caption", json={"images": [address(images[0])]})
        assert answer.json()["captions"][0]["text"] == captioner.caption(images[:1])[0].text
        record = client.post("/v1/attention", json={"texts": [address(images[0])]}).json()["records"][0]
        assert record["source_segments"][0]["rows"] == 8
        for path, body in (("caption", {"images": [images[0]]}), ("attention", {"texts": [images[0]]})):
            refused = client.post(f"/v1/{path}", json=body)
            assert refused.status_code == 422
            assert "is not in the request" in refused.json()["error"]["message"]


def test_operations_are_commands(captioner, images):
    [result] = WriteCaption(n_best=2).run(captioner, [Text(images[0])], record=None)
    plain = WriteCaption(n_best=2).plain(result)
    assert json.loads(json.dumps(plain))["alternatives"][0]["text"] == result.alternatives[0].text
    [look] = LookAtImage(target="one").run(captioner, [Text(images[0])])
    assert look.headline.startswith(f"{images[0]}\none   (log probability")


def test_attributions_of_cells(captioner, images):
    texts = ["one two", "three"]
    records = captioner.attribute(images[:2], ["all"], texts=texts)
    plain = captioner.force(images[:2], texts)
    for record, own, text in zip(records, plain, texts, strict=True):
        assert set(record.sites) == {"cross", "gradients", "integrated", "values", "leave_one_out"}
        shape = (len(text.split()) + 1, captioner.grid.num_cells)
        assert {array.shape for array in record.weights.values()} == {shape}
        assert record.weights["cross"] == pytest.approx(own.attention.weights["cross"], abs=1e-6)
    cells = torch.from_numpy(captioner.read("test", images[:1])[0].cells)[None]
    ids = [*captioner.tokenizer.encode("one two").ids, END]
    probe = ImageProbe(captioner.model, cells, ids)
    with torch.no_grad():
        own, black = (probe.logits(each).log_softmax(-1)[0, range(3), ids] for each in (cells, torch.zeros_like(cells)))
    assert own.tolist() == pytest.approx(plain[0].token_log_probabilities.tolist(), abs=1e-5)
    difference = (own - black).numpy()
    assert records[0].weights["integrated"].sum(1) == pytest.approx(difference, abs=0.02 * max(1, abs(difference).max()))
    # A cell that is black already loses nothing when it is painted black, and one with ink does.
    losses, ink = records[0].weights["leave_one_out"], (cells[0] > 0).any(-1).numpy()
    assert abs(losses[:, ~ink]).max() < 1e-5 < abs(losses[:, ink]).max()
    [look] = LookAtImage(attribution=("values",)).run(captioner, [Text(images[0])])
    assert look.site == "values"


def test_faithfulness_is_about_the_text_that_the_settings_give(captioner, images):
    [read] = captioner.read("faithfulness", images[:1])
    decoding = replace(captioner.config.decoding, beam_size=4, groups=2)
    probe = ImageProbe(captioner.model, torch.from_numpy(read.cells)[None], decoding)
    assert len(probe.decision) <= captioner.config.decoding.max_length == 8
    ids = [number for number in probe.decision.tolist() if number != END]
    assert captioner.tokenizer.decode(ids) == captioner.caption(images[:1], beam_size=1)[0].text


def test_faithfulness_on_a_table(captioner, folder, capsys):
    operation = MeasureCaptioner(texts=4, permutations=2, attribution=("leave_one_out", "rollout"))
    found = operation.run(captioner, Files(str(folder / "test.csv")))
    assert found.texts == 4
    assert found.deleted.best >= found.deleted.attention
    assert [one.texts for one in found.attributions] == [4, 4, 0]
    assert "Blackening it lowers the next token's probability" in found.render()
    assert "4 images" in found.render()
    capsys.readouterr()
    with pytest.raises(RequestError, match="there is no image"):
        regard.measure_caption_faithfulness(captioner, [])


def test_reading_images_ends_when_nobody_waits(captioner, images):
    """A request of many small files with huge images must not keep others waiting."""
    answers = iter([True, True])
    token = is_wanted.set(lambda: next(answers, False))
    try:
        with pytest.raises(Stopped):
            captioner.read("caption", images)
    finally:
        is_wanted.reset(token)


def test_an_image_is_read_once(captioner, folder, monkeypatch):
    opened = []
    read = captioner.grid.read
    monkeypatch.setattr(type(captioner.grid), "read", lambda self, *arguments: opened.append(arguments) or read(*arguments))
    image = str(folder / "test/00/00000.png")
    found = captioner.evaluate([image], ["one two"], regions=[[(0, 0, 8, 8), (8, 0, 16, 8)]])
    assert found.words == 2
    assert len(opened) == 1
    captioner.attribute([image], ["values"])
    assert len(opened) == 2
