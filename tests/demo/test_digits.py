"""The images of digits: what is written is what is there, and no handwriting is in two parts."""

import numpy as np
import pytest

from regard.demo import DigitCorpus, write_digits
from regard.demo.digits import _DIGITS, HEIGHT, SIZE, WIDTH, WORDS, _digits
from regard.errors import DataError


@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_all_ink_is_in_the_places_which_are_in_reading_order(part):
    for one in DigitCorpus(part).images(stop=50):
        words = one.text.split()
        assert one.pixels.shape == (HEIGHT, WIDTH)
        assert (1 if part == "train" else 3) <= len(words) == len(one.places) <= 5
        assert set(words) <= set(WORDS)
        assert list(one.places) == sorted(one.places, key=lambda place: (place[1] // (HEIGHT // 2), place[0]))
        outside = one.pixels.copy()
        for left, top, right, bottom in one.places:
            assert (right - left, bottom - top) == (SIZE, SIZE)
            assert outside[top:bottom, left:right].any(), "a digit, and no other digit's place"
            outside[top:bottom, left:right] = 0
        assert not outside.any()


def test_digits_of_the_test_part_are_those_of_the_table_as_they_are():
    images, digits = _digits()
    assert images.shape == (1797, 8, 8)
    assert np.bincount(digits).min() > 170
    known = {np.rint(image * (255 / 16)).astype(np.uint8).tobytes(): digit for image, digit in zip(images, digits, strict=True)}
    for one in DigitCorpus("test").images(stop=20):
        for word, (left, top, right, bottom) in zip(one.text.split(), one.places, strict=True):
            assert WORDS[known[one.pixels[top:bottom, left:right].tobytes()]] == word


def test_about_half_of_the_digits_of_the_training_part_are_varied():
    known = {np.rint(image * (255 / 16)).astype(np.uint8).tobytes() for image in _digits()[0]}
    kept = [
        one.pixels[top:bottom, left:right].tobytes() in known
        for one in DigitCorpus().images(stop=200)
        for left, top, right, bottom in one.places
    ]
    assert 0.4 < np.mean(kept) < 0.6


def test_no_digit_is_in_two_parts_and_all_are_used():
    parts = list(_DIGITS.values())
    assert sorted(number for part in parts for number in part) == list(range(1797))


def test_the_same_seed_gives_the_same_image_and_another_one_another():
    first, again, other = (DigitCorpus(seed=seed)[7] for seed in (1, 1, 2))
    assert first.pixels.tobytes() == again.pixels.tobytes() != other.pixels.tobytes()
    with pytest.raises(IndexError, match="there is no image 100000"):
        DigitCorpus()[100_000]


def test_an_existing_folder_is_not_replaced(tmp_path):
    with pytest.raises(DataError, match="already exists; name a new folder"):
        write_digits(tmp_path, 1)
