"""Tables of images with texts: what is read, what is refused, and how an image becomes cells."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard import images
from regard.config import CaptionDataConfig, WordsConfig
from regard.config.loading import load_config
from regard.errors import ConfigError, DataError
from regard.text.captions.images import Grid, is_address, read_address
from regard.text.captions.prepare import CaptionSchema, choose_canvas, read_captions
from regard.text.captions.regions import read_regions
from regard.text.preparation import prepare_data
from regard.text.report import ReadingReport

GRID = Grid(rows=2, columns=3, cell=4, channels=3)


def picture(path: Path, width: int = 12, height: int = 8, colour: tuple[int, int, int] = (200, 10, 10)) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    Image.new("RGB", (width, height), colour).save(path)
    return path


@pytest.fixture
def table(tmp_path):
    """A table of rows (image, text); the images of the first twelve exist."""

    def write(rows=(), count: int = 12) -> Path:
        for number in range(count):
            picture(tmp_path / f"photos/{number}.png", colour=(number * 10, 0, 255))
        own = [[f"photos/{number}.png", f"number {number}"] for number in range(count)]
        with (tmp_path / "captions.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["image", "text"], *own, *rows])
        return tmp_path / "captions.csv"

    return write


def read(path: Path, **settings) -> tuple[list[str], list[str], ReadingReport]:
    report, data = ReadingReport(), replace(CaptionDataConfig(train=(str(path),)), **settings)
    chunks = list(read_captions([path], data, report))
    return [one for chunk in chunks for one in chunk.source], [one for chunk in chunks for one in chunk.target], report


def test_cells_are_in_reading_order_and_join_to_the_image():
    canvas = np.arange(8 * 12 * 3, dtype=np.uint8).reshape(8, 12, 3)
    cells = GRID.split(canvas)
    np.testing.assert_array_equal(cells[4], canvas[4:8, 4:8].reshape(-1))
    np.testing.assert_array_equal(GRID.join(cells), canvas)
    found, size = GRID.read(canvas)
    np.testing.assert_array_equal(found, cells)
    assert size == (12, 8)


def test_another_shape_gets_black_borders():
    cells, size = GRID.read(np.full((40, 20), 255, np.uint8))
    canvas = GRID.join(cells)
    assert size == (20, 40)
    assert canvas[:, 4:8].min() == 255
    assert not canvas[:, :4].any()
    assert not canvas[:, 8:].any()
    canvas = GRID.join(GRID.read(np.full((10, 30), 255, np.uint8))[0])  # 12 × 4 pixels, two rows above and below
    assert canvas[2:6].min() == 255
    assert not canvas[[0, 1, 6, 7]].any()


def test_regions_have_the_cells_that_they_touch():
    masks = GRID.cells_in([(0, 0, 20, 20), (12, 21, 14, 22)], (20, 40))  # the image is 4 × 8 pixels in the middle of the canvas
    assert masks.tolist() == [[False, True, False, False, False, False], [False, False, False, False, True, False]]
    assert GRID.cells_in([(3, 3, 5, 5)], (12, 8)).tolist() == [[True, True, False, True, True, False]]
    assert GRID.cells_in([(4, 0, 8, 4)], (12, 8)).sum() == 1
    assert GRID.cells_in([], (12, 8)).shape == (0, 6)


def test_an_image_is_not_a_table(tmp_path):
    with pytest.raises(DataError, match=r"one\.png: is an image, expected a table of image files and texts"):
        read(picture(tmp_path / "one.png"))


def test_rows_are_read_and_unusable_ones_counted_with_their_lines(table):
    path = table([["photos/gone.png", "nothing"], ["photos/1.png", " "], ["", "no name"], ["photos/1.png", "again"]], count=30)
    names, texts, report = read(path)
    assert (len(names), texts[-1], Path(names[-1]).name) == (31, "again", "1.png")
    assert {reason: entry.lines for reason, entry in report.skipped.items()} == {
        "header": [1],
        "no such image file": [32],
        "empty text": [33],
        "empty name of an image": [34],
    }
    assert "line 32 names 'photos/gone.png'" in report.render()


def test_columns_are_found_by_their_names(tmp_path):
    picture(tmp_path / "a.png")
    (tmp_path / "captions.csv").write_text("image_id,text,image_path,text_id\n" + "7,a square,a.png,8\n" * 3)
    images, texts, _ = read(tmp_path / "captions.csv")
    assert (len(images), texts) == (3, ["a square"] * 3)


def test_too_many_missing_images_are_an_error(table):
    with pytest.raises(
        DataError, match=r"captions.csv: 2 of 14 rows .*no such image file: line 14 names 'a.png', .* folder of the table\. Fix"
    ):
        read(table([["a.png", "a"], ["b.png", "b"]]))


@pytest.mark.parametrize("name", ["../secret.png", "{outside}/secret.png", "link.png"])
def test_an_image_outside_the_folder_is_an_error(tmp_path, name):
    picture(tmp_path / "secret.png")
    picture(tmp_path / "data/inside.png")
    (tmp_path / "data/link.png").symlink_to(tmp_path / "secret.png")
    (tmp_path / "data/captions.csv").write_text(f"image,text\ninside.png,fine\n{name.format(outside=tmp_path)},secret\n")
    with pytest.raises(DataError, match=r"captions.csv, line 3: the image '.*' is outside the folder of the table"):
        read(tmp_path / "data/captions.csv")


def prepare(path: Path, tmp_path: Path, **settings):
    data = replace(CaptionDataConfig(train=(str(path),), dev_size=2, cache=str(tmp_path / "cache")), **settings)
    return prepare_data(CaptionSchema(replace(data, **choose_canvas(data)), WordsConfig()), seed=1, progress=False)


def test_prepared_images_come_back_and_a_changed_one_is_noticed(table, tmp_path):
    path = table([["photos/3.png", "number 3"], ["photos/3.png", "blue"], ["photos/3.png", "another text"]], count=20)
    first = prepare(path, tmp_path)
    assert "exact repeat of an earlier image with the same text" in first.report.render()
    assert "images are 12 × 8 pixels, in colour, in 2 × 3 cells of 4 × 4 pixels" in first.report.render()
    assert "they share no image with training" in first.report.render()
    for corpus in (first.train, first.dev):
        names, texts = corpus.texts(range(len(corpus)))
        batch = corpus.batch(range(len(corpus)))
        assert batch.source.shape == (len(corpus), 6, 48)
        for name, cells in zip(names, batch.source, strict=True):
            np.testing.assert_array_equal(cells, GRID.read(tmp_path / name)[0])
        known = [first.tokenizers[0].decode(row[row > 3].tolist()) for row in batch.target_out]
        assert known == texts or corpus is first.dev  # whose words may be unknown
    held = set(first.dev.texts(range(len(first.dev)))[0])
    assert len(held) == len(first.dev) > 0
    assert not held & set(first.train.texts(range(len(first.train)))[0])
    again = prepare(path, tmp_path)
    assert (again.fingerprint, again.train.path) == (first.fingerprint, first.train.path)
    picture(tmp_path / "photos/5.png", colour=(1, 2, 3))
    assert prepare(path, tmp_path).fingerprint != first.fingerprint


@pytest.mark.parametrize("damage", ["text", "cut", "bomb"])
def test_a_file_that_is_no_image_is_named_with_its_line(table, tmp_path, monkeypatch, damage):
    path, wrong = table(), tmp_path / "photos/7.png"
    if damage == "text":
        wrong.write_text("not an image")
    elif damage == "cut":
        Image.effect_noise((64, 64), 50).save(wrong)
        wrong.write_bytes(wrong.read_bytes()[:500])
    else:
        monkeypatch.setattr(images, "MAX_PIXELS", 200)
        picture(wrong, 100, 100)
    with pytest.raises(DataError, match=r"captions.csv, line 9: the image '.*7.png'"):
        prepare(path, tmp_path, height=8, width=12, colour="colour")


def test_other_sizes_are_scaled_and_the_report_says_so(table, tmp_path):
    path = table([["photos/big.png", "big"]])
    picture(tmp_path / "photos/big.png", 300, 100)
    assert "1 of 13 had another size, and were scaled to fit" in prepare(path, tmp_path, dev_size=0).report.render()


def test_the_canvas_is_chosen_from_the_images(tmp_path):
    (tmp_path / "a.csv").write_text("file_name\tcaption\nx.png\ta\n".replace("\t", ","))
    Image.new("L", (640, 320), 9).save(tmp_path / "x.png")
    data = CaptionDataConfig(train=(str(tmp_path / "a.csv"),))
    assert choose_canvas(data) == {"width": 96, "height": 48, "colour": "grey"}
    assert choose_canvas(replace(data, cell=8, height=64, colour="colour")) == {"width": 192, "height": 64, "colour": "colour"}


def test_settings_that_do_not_fit_are_an_error():
    for wrong, message in (
        ({"cell": 6}, "power of two"),
        ({"height": 30}, "multiple of data.cell"),
        ({"columns": ["a"]}, "two"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_config({"task": "captioning", "data": wrong})


def test_regions_of_lines(tmp_path):
    path = tmp_path / "a.regions"
    path.write_text("regions\n0 0 8 8; 8 0.5 16 8\n1 2 3\n5 5 5 9\n")
    assert read_regions(path, [2]) == [[(0, 0, 8, 8), (8, 0.5, 16, 8)]]
    for line, message in ((3, "line 3: a region is '1 2 3'"), (4, "line 4: the region .* is empty"), (5, "has 4 lines")):
        with pytest.raises(DataError, match=message):
            read_regions(path, [line])


def test_an_address_holds_an_image():
    assert read_address("data:image/png;base64,YWJj") == b"abc"
    assert is_address("DATA:image/png;base64,YWJj")
    assert not is_address("photo.png")
    with pytest.raises(DataError, match="is not encoded in Base64"):
        read_address("data:image/png,abc")
