import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError, ShapeError
from regard.records import alignment_error_rate, format_pharaoh, parse_pharaoh, read_pharaoh

LINKS = st.frozensets(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=12)


def test_error_rate_worked_by_hand():
    # A = {00, 11, 22}, S = {00, 11}, P = S and {12}: |A∩S| = 2, |A∩P| = 2, 1 - 4/5
    assert alignment_error_rate([(0, 0), (1, 1), (2, 2)], [(0, 0), (1, 1)], [(1, 2)]) == pytest.approx(0.2)
    # a possible link costs nothing: |A∩S| = 1, |A∩P| = 2, 1 - 3/3
    assert alignment_error_rate([(0, 0), (1, 2)], [(0, 0)], [(1, 2)]) == 0.0
    assert alignment_error_rate([(0, 1)], [(0, 0)]) == 1.0


def test_counts_are_summed_over_sentences():
    predicted = [{(0, 0)}, {(0, 0), (1, 1), (2, 2)}]
    sure = [{(0, 1)}, {(0, 0), (1, 1), (2, 2)}]
    assert alignment_error_rate(predicted, sure) == pytest.approx(1 - 6 / 8)
    assert alignment_error_rate([[(0, 0)]], [[(0, 0)]]) == 0.0
    assert alignment_error_rate([[]], [[(0, 0)]]) == 1.0
    assert alignment_error_rate([[], []], [[], []]) == 0.0


def test_sentences_that_start_without_links_and_links_as_lists():
    assert alignment_error_rate([[], [[0, 0]]], [[], [(0, 0)]]) == 0.0
    assert alignment_error_rate([((0, 0), (1, 1))], [((0, 0), (1, 1))]) == 0.0
    assert alignment_error_rate([[0, 0], [1, 1]], [(0, 0), (1, 2)]) == 0.5


@given(LINKS, LINKS, LINKS)
def test_bounds_and_the_perfect_score(predicted, sure, possible):
    assert 0 <= alignment_error_rate(predicted, sure, possible) <= 1
    assert alignment_error_rate(sure, sure, possible) == 0


def test_numbers_of_sentences_must_agree():
    with pytest.raises(ShapeError, match="predicted has 2 sentences, sure 1, possible 1: expected the same number"):
        alignment_error_rate([{(0, 0)}, {(0, 0)}], [{(0, 0)}])


@given(LINKS)
def test_pharaoh_round_trip(links):
    assert parse_pharaoh(format_pharaoh(links)) == (set(links), set(links))


def test_possible_links():
    assert parse_pharaoh("0-0 1?2 3p4\n") == ({(0, 0)}, {(0, 0), (1, 2), (3, 4)})


@pytest.mark.parametrize("bad", ["0_0", "0-", "-1-2", "1-2-3", "a-b", "0-9999999999"])
def test_a_bad_link_is_named_with_its_line(tmp_path, bad):
    path = tmp_path / "gold.txt"
    path.write_text(f"0-0\n\n1-1 {bad}\n")
    with pytest.raises(DataError, match=r"gold.txt, line 3: .* is not a link, expected source-target counted from 0"):
        list(read_pharaoh(path))


def test_files(tmp_path):
    path = tmp_path / "gold.txt"
    path.write_bytes(b"\xef\xbb\xbf0-0\r\n\r\n")
    assert list(read_pharaoh(path)) == [({(0, 0)}, {(0, 0)}), (set(), set())]
    with pytest.raises(DataError, match=r"absent.txt: alignments cannot be read: No such file"):
        list(read_pharaoh(tmp_path / "absent.txt"))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"gold.txt: alignments cannot be read: it is not UTF-8 text"):
        list(read_pharaoh(path))
