"""Segments of records: checks, files, units, and records of tokens with images among them."""

import json
import struct
import zlib

import numpy as np
import pytest

from regard.errors import DataError, RequestError, ShapeError
from regard.records import AttentionRecord, ImageSegment, Segment, SoundSegment, TextSegment, from_huggingface


def png(width=2, height=1):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x80" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


IMAGE = ImageSegment(start=1, end=7, name="image 1", rows=2, columns=3, picture=png())
SOUND = SoundSegment(start=0, end=3, seconds=0.02, wave=(0.0, 0.5, 1.0))


def prompt(**changes):
    tokens = ["<s>", *["<image>"] * 6, "▁Is", "▁it", "▁bl", "ue"]
    weights = np.tril(np.ones((11, 11))) / np.arange(1, 12)[:, None]
    output = {"attentions": [weights[None, None]]}
    return from_huggingface(output, tokens, source_segments=[IMAGE], special=["<s>", "<image>"], **changes)


def test_the_patches_of_a_prompt_are_words_named_by_their_place():
    made = prompt()
    assert made.target_segments == (IMAGE,)
    assert made.target_words[:6] == ("row 1, column 1", "row 1, column 2", "row 1, column 3", *IMAGE.places()[3:])
    assert made.target_words[6:] == ("Is", "it", "blue")
    [span] = made.view().column_spans
    assert (span.segment, span.start, span.end) == (IMAGE, 0, 6)
    [span] = made.view(special=True).row_spans
    assert (span.start, span.end) == (1, 7)


def test_units_keep_segments_and_the_names_of_places():
    tokens = prompt().in_units("tokens")
    assert tokens.target_segments == (IMAGE,)
    assert tokens.target_words == (*IMAGE.places(), "▁Is", "▁it", "▁bl", "ue")
    assert prompt(units="tokens") == tokens


def test_letters_stay_those_of_the_words_beside_an_image():
    made = AttentionRecord(
        source_tokens=("n", "<unk>", *["p"] * 6),
        target_tokens=("x",),
        source_words=("né", *IMAGE.places()),
        target_words=("x",),
        source_word_of=(0, 0, *range(1, 7)),
        target_word_of=(0,),
        weights={"cross": np.full((1, 8), 0.125)},
        source_scheme="characters",
        source_segments=(IMAGE.moved(1),),
    )
    assert made.words()[1] == ("n", "é", *IMAGE.places())
    assert [(each.start, each.end) for each in made.view().column_spans] == [(2, 8)]


def test_no_word_crosses_the_border_of_two_texts():
    made = from_huggingface(
        [np.full((1, 1, 4, 4), 0.25)],
        ["un", "##even", "##ly", "so"],
        source_segments=[TextSegment(start=0, end=2, name="A"), TextSegment(start=2, end=4, name="B")],
    )
    assert made.source_words == ("uneven", "##ly", "so")
    assert [(each.start, each.end) for each in made.view().column_spans] == [(0, 1), (1, 3)]


def test_a_decoder_that_reads_one_word_later_moves_the_segments_too():
    made = AttentionRecord(
        source_tokens=(),
        target_tokens=("a", "b", "c"),
        source_words=(),
        target_words=("a", "b", "c"),
        source_word_of=(),
        target_word_of=(0, 1, 2),
        weights={"decoder.0": np.eye(3)},
        target_segments=(TextSegment(start=0, end=1), TextSegment(start=1, end=2)),
    )
    assert [(each.start, each.end) for each in made.view(special=True).column_spans] == [(1, 2), (2, 3)]


@pytest.mark.parametrize("segment", [IMAGE, SOUND, TextSegment(start=0, end=2, name="<b>", times=((0, 0.5), (0.5, 1)))])
def test_segments_survive_files(segment):
    size = segment.end
    words = ["[CLS]"] * segment.start + list(segment.places() or ["a", "b"])
    made = from_huggingface([np.full((1, 1, size, size), 1 / size)], words, source_segments=[segment])
    for back in (AttentionRecord.from_json(made.to_json()), AttentionRecord.from_npz(made.to_npz())):
        assert back == made
        assert back.source_segments == (segment,)
    assert json.loads(made.to_json())["format_version"] == 5
    assert "source_segments" not in from_huggingface([np.eye(1)[None, None]], ["a"]).to_json()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "movie"}, "kind is 'movie'"),
        ({"rows": 3}, "9 patches"),
        ({"rows": -2, "columns": -3}, "from 1 to"),
        ({"rows": 2.0}, "from 1 to"),
        ({"rows": 10**4000, "columns": 10**4000}, "from 1 to"),
        ({"start": 3}, "3 to 7"),
        ({"end": 99, "columns": 49}, "11 tokens|7 tokens"),
        ({"picture": "!"}, "base64"),
        ({"picture": "aGVsbG8="}, "not a PNG"),
        ({"name": 1}, "name must be text"),
        ({"colour": "red"}, "no field 'colour'"),
        ({"rows": None}, "from 1 to"),
    ],
)
def test_segments_of_strangers_are_checked(change, message):
    data = json.loads(prompt().to_json())
    data["target_segments"] = [{**data["target_segments"][0], **change}]
    with pytest.raises(DataError, match=message):
        AttentionRecord.from_json(json.dumps(data))


def test_a_picture_that_unpacks_to_too_much_is_refused_unread():
    with pytest.raises(DataError, match="pixels"):
        ImageSegment(start=0, end=1, rows=1, columns=1, picture=png()[:16] + struct.pack(">II", 60000, 60000) + png()[24:])
    with pytest.raises(DataError, match="bytes"):
        ImageSegment(start=0, end=1, rows=1, columns=1, picture=png() + b"\0" * 2**20)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: SoundSegment(start=0, end=3, seconds=0.0), DataError, "from 1e-06"),
        (lambda: SoundSegment(start=0, end=3, seconds=1e300), DataError, "from 1e-06"),
        (lambda: TextSegment(start=0, end=1, times=((1, 1e300),)), DataError, "1e\\+06"),
        (lambda: SoundSegment(start=0, end=3, seconds=float("nan")), DataError, "finite"),
        (lambda: SoundSegment(start=0, end=3, seconds=1, wave=(2.0,)), DataError, "0 to 1"),
        (lambda: SoundSegment(start=0, end=3, seconds=1, wave=[0.0] * 2001), DataError, "2001"),
        (lambda: TextSegment(start=0, end=3, times=((0, 1),)), ShapeError, "expected 3"),
        (lambda: TextSegment(start=0, end=1, times=((1, 0),)), DataError, "begin <= end"),
        (lambda: TextSegment(start=2, end=2), DataError, "start < end"),
    ],
)
def test_values_that_are_not_possible(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ([TextSegment(start=0, end=1), TextSegment(start=0, end=3)], "before the end"),
        ([TextSegment(start=0, end=2)], "both sides of a border"),
        ([SoundSegment(start=1, end=3, seconds=1)], "a word of its own"),
        ([Segment(start=0, end=2)], "not Segment itself"),
        ("abc", "list of segments"),
        ([7], "must be an object"),
    ],
)
def test_segments_must_fit_the_words(segments, message):
    with pytest.raises(DataError, match=message):
        AttentionRecord(
            source_tokens=("a", "b", "c"),
            target_tokens=("x",),
            source_words=("a", "bc"),
            target_words=("x",),
            source_word_of=(0, 1, 1),
            target_word_of=(0,),
            weights={"cross": [[1.0, 0, 0]]},
            source_segments=segments,
        )


def test_frames_are_named_by_their_time():
    assert SOUND.places() == ("0.00 s", "0.02 s", "0.04 s")
    assert SoundSegment(start=0, end=2, seconds=0.0025).places() == ("0.000 s", "0.003 s")


def test_attention_between_segments_of_the_same_name_is_not_guessed():
    texts = (TextSegment(start=0, end=2, name="A"), TextSegment(start=2, end=4, name="A"))
    made = from_huggingface({"attentions": [np.full((1, 1, 4, 4), 0.25)]}, ["a", "b", "c", "d"], source_segments=texts)
    with pytest.raises(RequestError, match="2 segments are named 'A'; give each its own name"):
        made.view(between=("A", ""))


def test_mistakes_are_named():
    output, tokens = {"attentions": [np.full((1, 1, 2, 2), 0.5)]}, ["a", "b"]
    made = from_huggingface(output, tokens, source_segments=[{"kind": "text", "start": 0, "end": 2, "name": "A"}])
    assert made.source_segments == (TextSegment(start=0, end=2, name="A"),)
    with pytest.raises(DataError, match="source_segments must be a list of segments, got TextSegment"):
        from_huggingface(output, tokens, source_segments=made.source_segments[0])
    with pytest.raises(ShapeError, match="ends at token 3, but the side has 2 tokens"):
        from_huggingface(output, tokens, source_segments=[TextSegment(start=0, end=3)])
    for between in ("AA", ("A",), 1):
        with pytest.raises(RequestError, match="expected the names of two segments"):
            made.view(between=between)
