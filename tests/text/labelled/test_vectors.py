import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.errors import DataError
from regard.text.labelled.vectors import read_vectors


def write(folder: Path, content: str | bytes, name: str = "vectors.txt") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


GLOVE = "the 0.1 -0.2 3e-1\n, 1 2 3\n. . . 4 5 6\nParis 7 8 9\nNASA 1 1 1\n7 2 2 2\nat name@domain.com 3 3 3\n"


@pytest.mark.parametrize("form", ["glove", "fasttext", "crlf", "gz", "tabs"])
def test_every_form(tmp_path, form):
    text = GLOVE
    if form == "fasttext":
        text = "7 3\n" + text.replace("\n", " \n")
    elif form == "crlf":
        text = text.replace("\n", "\r\n")
    elif form == "tabs":
        text = text.replace("the ", "the\t")
    path = write(tmp_path, gzip.compress(text.encode()) if form == "gz" else text)
    vectors = read_vectors(path, ["the", "absent", ". . .", "7", "at name@domain.com"])
    assert vectors.matrix.dtype == np.float32
    assert vectors.found.tolist() == [True, False, True, True, True]
    wanted = np.array([[0.1, -0.2, 0.3], [0, 0, 0], [4, 5, 6], [2, 2, 2], [3, 3, 3]], np.float32)
    np.testing.assert_array_equal(vectors.matrix, wanted)


def test_other_cases_stand_in_and_the_word_itself_comes_first(tmp_path):
    path = write(tmp_path, "PARIS 1\nParis 2\nparis 3\nNASA 4\nThe 5\nthe 6\nthe 7\n")
    vectors = read_vectors(path, ["paris", "nasa", "THE", "the", "Nasa"])
    assert vectors.matrix[:, 0].tolist() == [3, 4, 6, 6, 4]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    table=st.dictionaries(
        st.text(
            st.characters(exclude_categories=("Cs", "Cc", "Zs"), exclude_characters=" \t\n\r\0\ufeff"), min_size=1, max_size=6
        ),
        st.lists(st.floats(-9, 9, width=32), min_size=4, max_size=4),
        min_size=1,
        max_size=12,
    ),
    header=st.booleans(),
)
def test_what_was_written_comes_back(tmp_path, table, header):
    rows = [" ".join([word, *(repr(float(number)) for number in numbers)]) for word, numbers in table.items()]
    path = write(tmp_path, "\n".join(([f"{len(table)} 4"] if header else []) + rows))
    vectors = read_vectors(path, list(table))
    assert vectors.found.all()
    np.testing.assert_array_equal(vectors.matrix, np.array(list(table.values()), np.float32))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a 1 2 3\nb 1 2\nc 1 2 3\n", "line 2: has 2 numbers, expected 3 as in the other lines (it starts 'b 1 2')"),
        ("a 1 2\nb 1 2\nc 1.5 2 3.5\n", "line 3: has 3 numbers, expected 2 as in the other lines"),
        ("a 1 x\nb 1 2\n", "line 1: could not convert string to float: 'x'; expected a word and its numbers"),
        ("a 1 nan\nb 1 2\n", "line 1: holds a number that is not finite"),
        ("3 2\na 1 2\nb 3 4\n", "its first line announces 3 vectors, but there are 2; copy it again"),
        ("3 2\na 1\nb 3 4\nc 5 6\n", "line 2: has 1 numbers, expected 2"),
        ("word\nother\n", "holds no word vectors; expected lines of a word and its numbers"),
        ("a 1 \0\x80\n", "line 1: holds a NUL byte; expected the text format, not a binary one"),
        ("PK\x03\x04zip", "is packed with zip, expected plain or gzip; unpack it first"),
        ("", "is empty, expected word vectors"),
    ],
)
def test_files_that_are_wrong(tmp_path, content, message):
    path = write(tmp_path, content)
    with pytest.raises(DataError) as caught:
        read_vectors(path, ["a", "b", "c"])
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_ragged_lines_far_down_are_found_too(tmp_path):
    path = write(tmp_path, "".join(f"w{number} 1 2 3\n" for number in range(5000)) + "last 1 2\n")
    with pytest.raises(DataError, match="line 5001: has 2 numbers, expected 3"):
        read_vectors(path, [])
