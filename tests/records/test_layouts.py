"""Records of images, sounds and several texts, made from any matrix."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.errors import DataError, ShapeError
from regard.images import read_image
from regard.records import TextSegment


def saved(image, **options):
    buffer = io.BytesIO()
    image.save(buffer, **options)
    return buffer.getvalue()


def test_an_image_and_words_on_one_side(tmp_path):
    path = tmp_path / "<b>.png"
    path.write_bytes(saved(Image.new("RGB", (1600, 800), "red"), format="PNG"))
    image = regard.patches(2, 3, path, name="photo")
    made = regard.record(np.full((2, 8), 0.125), ["<s>", image, "What"], ["a", "cat"])
    assert made.source_words == ("<s>", *image.places(), "What")
    [segment] = made.source_segments
    assert (segment.start, segment.end, segment.rows, segment.columns, segment.name) == (1, 7, 2, 3, "photo")
    assert Image.open(io.BytesIO(segment.picture)).size == (768, 384)
    assert made.source_text == "<s> [photo] What"
    assert made.matrix().shape == (2, 8)


def test_several_texts_and_images_by_their_names():
    parts = {"image 1": regard.patches(1, 2), "question": ["who", "?"], "image 2": regard.patches(1, 1)}
    made = regard.record({"encoder.0": np.eye(5)}, parts, [])
    assert [(each.name, each.start, each.end) for each in made.source_segments] == [
        ("image 1", 0, 2),
        ("question", 2, 4),
        ("image 2", 4, 5),
    ]
    assert isinstance(made.source_segments[1], TextSegment)
    assert made.source_text == "[image 1] who ? [image 2]"


def test_the_wave_of_a_sound():
    samples = np.concatenate([np.zeros(8000), -np.ones(8000), np.full(8000, 0.5)])
    sound = regard.frames(75, 0.02, samples, 16000)
    assert len(sound.wave) == 2000
    assert sound.wave[0] == sound.wave[665] == 0
    assert sound.wave[667] == sound.wave[1332] == 1
    assert sound.wave[-1] == 0.5
    padded = regard.frames(150, 0.02, torch.tensor(samples), 16000)
    assert padded.wave[-800:] == (0.0,) * 800
    assert regard.frames(2, 1.0, [0.0, 0.25]).wave == (0.0, 1.0)
    assert regard.frames(2, 1.0, [0.0]).wave == (0.0,)
    assert regard.record([[0.5, 0.5]], sound_of(2), ["yes"]).source_words == ("0.00 s", "0.02 s")


def sound_of(count):
    return regard.frames(count, 0.02)


@pytest.mark.parametrize(
    "image",
    [
        Image.new("RGBA", (4, 2), (255, 255, 255, 0)),
        Image.new("L", (4, 2), 255),
        Image.new("P", (4, 2), 0).convert("RGB").point(lambda _: 255).convert("P"),
        Image.fromarray(np.full((2, 4), 65535, np.uint16)),
        np.full((2, 4), 255, np.uint8),
        np.ones((2, 4, 3)),
        torch.ones(3, 2, 4),
        saved(Image.new("RGB", (4, 2), "white"), format="JPEG"),
        saved(Image.new("RGB", (4, 2), "white"), format="GIF"),
    ],
    ids=["transparent", "grey", "palette", "sixteen bits", "bytes", "floats", "tensor", "jpeg", "gif"],
)
def test_images_of_all_kinds_are_read(image):
    found = read_image(image)
    assert (found.size, found.mode, found.getpixel((0, 0))) == ((4, 2), "RGB", (255, 255, 255))


def test_an_image_is_turned_upright():
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    content = saved(Image.new("RGB", (4, 2)), format="JPEG", exif=exif)
    assert read_image(content).size == (2, 4)
    assert b"Exif" not in regard.patches(1, 1, content).picture


def bomb():
    content = bytearray(saved(Image.new("L", (1, 1)), format="BMP"))
    content[18:26] = (60000).to_bytes(4, "little") * 2
    return bytes(content)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"hello", "not an image in one of the formats"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
        (saved(Image.effect_noise((64, 64), 90), format="PNG")[:900], "damaged"),
        (bomb(), "expected at most 100,000,000|damaged"),
        (np.zeros((2, 2, 5)), "shape"),
        (np.full((2, 2), -1.0), "undo the normalisation"),
        (np.full((2, 2), np.nan), "undo the normalisation"),
        ("no-such-file.png", "no-such-file.png: No such file"),
    ],
    ids=["text", "eps", "cut", "bomb", "shape", "negative", "nan", "missing"],
)
def test_what_is_no_image_is_refused_by_name(source, message):
    with pytest.raises(DataError, match=message):
        regard.patches(2, 2, source)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: regard.patches(0, 2), DataError, "at least 1"),
        (lambda: regard.frames(0, 1.0), DataError, "at least 1"),
        (lambda: regard.frames(2, 1.0, np.zeros((2, 3))), ShapeError, "one channel"),
        (lambda: regard.frames(2, 1.0, [1.0], rate=0), DataError, "rate must be above 0"),
        (lambda: regard.record([[1.0]], [TextSegment(start=0, end=1)], ["a"]), DataError, "by its name and words"),
        (lambda: regard.record([[1.0]], [3], ["a"]), DataError, "list of strings"),
        (lambda: regard.record([[1.0]], "a", ["a"]), DataError, "list of strings"),
        (lambda: regard.record([[1.0]], regard.patches(1, 2), ["a"]), ShapeError, "2 source tokens"),
    ],
)
def test_errors_say_what_is_expected(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("rate", [float("inf"), float("nan"), 1e300, -1, 0, "fast"])
def test_rates_that_are_not_possible(rate):
    with pytest.raises(DataError, match="frames: rate"):
        regard.frames(3, 0.02, [0.1, 0.2], rate)
