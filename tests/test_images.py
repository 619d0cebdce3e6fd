"""Images of any kind become what they show, and copies carry nothing else."""

import io
import os

import numpy as np
import pytest
import torch
from PIL import Image

from regard.errors import DataError
from regard.images import read_image, to_png


def saved(image, form, **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def grey(image):
    return np.asarray(image)[..., 0].ravel().tolist()


def test_16_bits_become_8():
    numbers = np.array([[0, 0x4000, 0x8000, 0xFFFF]], np.uint16)
    pgm = b"P5 4 1 65535\n" + numbers.astype(">u2").tobytes()
    for content in (pgm, saved(Image.fromarray(numbers), "PNG"), saved(Image.fromarray(numbers), "TIFF")):
        assert grey(read_image(content)) == [0, 64, 128, 255]


def test_other_numbers_are_those_of_arrays():
    shares = Image.fromarray(np.array([[0, 0.5, 1]], np.float32))
    assert grey(read_image(saved(shares, "TIFF"))) == [0, 128, 255]
    assert grey(read_image(torch.tensor([[0, 0.5, 1]], dtype=torch.bfloat16))) == [0, 128, 255]
    with pytest.raises(DataError, match="from 0 to 70000"):
        read_image(Image.fromarray(np.array([[0, 70000]], np.int32)))


def test_no_metadata_reaches_copies():
    plain = Image.new("RGB", (50, 40), "red")
    large = saved(plain, "JPEG", icc_profile=os.urandom(2_000_000), comment=b"secret")
    copy = to_png(read_image(large), max_bytes=10_000)
    assert Image.open(io.BytesIO(copy)).info == {}
    assert b"secret" not in saved(read_image(large), "JPEG")


def test_copies_are_made_smaller_until_they_fit():
    noise = read_image(np.random.default_rng(0).integers(0, 256, (64, 90, 3)))
    copy = to_png(noise, max_bytes=5_000)
    assert len(copy) <= 5_000
    assert Image.open(io.BytesIO(copy)).width >= 30


def test_an_image_of_the_caller_stays_as_it_is():
    given = Image.new("RGB", (2, 2), "red")
    given.info["comment"] = b"mine"
    read = read_image(given)
    read.putpixel((0, 0), (0, 0, 0))
    assert given.getpixel((0, 0)) == (255, 0, 0)
    assert given.info == {"comment": b"mine"}
