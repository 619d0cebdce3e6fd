"""Encodings, unusable lines, missing labels, separators, JSON arrays and `|||`."""

import json
from pathlib import Path

import pytest
from tables import pairs, read_all_labelled, write

from regard.config import DataConfig, LabelledDataConfig, TextDataConfig
from regard.config.loading import load_config
from regard.errors import ConfigError, DataError
from regard.text.encodings import advise_encoding
from regard.text.labelled.readers import read_labelled
from regard.text.pairs.readers import read_pairs
from regard.text.plain import read_texts
from regard.text.reasons import MISSING_LABEL, NOT_UNICODE
from regard.text.report import ReadingReport

LINES = [f"Ein Mädchen sieht {i} Bäume über dem Fluß.\tA girl sees {i} trees – “fine”." for i in range(200)]
TEXT = "\n".join(LINES) + "\n"


def labelled(*paths: Path, **settings: object) -> tuple[list[tuple[str, tuple[str, ...]]], ReadingReport]:
    return read_all_labelled(*paths, **settings)[:2]


WANTED = [tuple(line.split("\t")) for line in LINES]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["x.tsv", "x.txt", "x.csv", "x.jsonl", "x"])
def test_files_with_a_byte_order_mark(tmp_path, encoding, name):
    content = TEXT.replace("\n", "\r\n") if "json" not in name else "\n".join(json.dumps({"a": a, "b": b}) for a, b in WANTED)
    mark = "\ufeff" if encoding.endswith(("le", "be")) else ""
    found, report = pairs(write(tmp_path, (mark + content).encode(encoding), name))
    assert found == WANTED
    assert not report.skipped
    first = next(read_texts([tmp_path / name], TextDataConfig(), ReadingReport()))
    assert first.text[0][:3] in ("Ein", '{"a')


def test_blocks_may_part_a_character(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.text.opening.BLOCK_BYTES", 7)
    assert pairs(write(tmp_path, TEXT.encode("utf-16")))[0] == WANTED
    assert pairs(write(tmp_path, TEXT.encode("cp1252")), encoding="cp1252")[0] == WANTED


def test_an_encoding_can_be_set(tmp_path):
    found, report = pairs(write(tmp_path, TEXT.encode("cp1252")), encoding="Windows-1252")
    assert found == WANTED
    assert report.encoding == "Windows-1252"
    bad = TEXT.replace("\n", "\n\x81", 3).encode("latin-1", "replace")
    _, report = pairs(write(tmp_path, bad), encoding="cp1252")
    assert report.skipped[NOT_UNICODE].lines == [2, 3, 4]
    assert "skipped 3: not valid cp1252 (lines 2, 3, 4)" in report.render()
    with pytest.raises(ConfigError, match=r"data.encoding is 'windows1252x', which is not a text encoding of Python"):
        load_config({"data": {"encoding": "windows1252x"}})
    with pytest.raises(ConfigError, match=r"data.allow_skipped is 1.5, expected from 0 to 1"):
        load_config({"task": "language", "data": {"allow_skipped": 1.5}})


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8-sig", "UTF-8"), ("utf-16", "UTF-16")])
def test_a_byte_order_mark_wins_over_the_setting(tmp_path, encoding, shown):
    found, report = pairs(write(tmp_path, TEXT.encode(encoding)), encoding="cp1252")
    assert (found, report.encoding) == (WANTED, shown)


POLISH = "Mężczyzna jedzie na rowerze przez most.\nKobieta ma na sobie zieloną sukienkę.\n"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Мужчина едет на велосипеде по мосту.\nЖенщина в зеленом платье.\n", "cp1251"),
        ("Мужчина едет на велосипеде по мосту.\nЖенщина в зеленом платье.\n", "koi8_r"),
        ("男の人が自転車で橋を渡っています。\n女性は緑のドレスを着ています。\n", "cp932"),
        ("一个男人骑自行车过桥。\n女人穿着绿色的裙子。\n", "gb18030"),
        (TEXT, "utf-16-le"),
    ],
)
def test_the_encoding_that_is_advised(tmp_path, text, encoding):
    assert advise_encoding(write(tmp_path, text.encode(encoding))).endswith(f": set data.encoding to {encoding}.")


@pytest.mark.parametrize(
    ("text", "encoding", "reading"),
    [
        ("Over.\tÜber.\n", "cp1252", "cp1252 or cp1250 or iso8859_2 or cp1254 or cp1257 ('Over. Über.')"),
        ("O cão não está aqui.\n", "cp1252", "cp1252 or cp1254 ('O cão não está aqui.'), cp1250 or iso8859_2 ('O căo năo está"),
        (POLISH, "cp1250", "cp1250 ('a ma na sobie zieloną sukienkę.')"),
        (POLISH, "iso8859_2", "iso8859_2 ('a ma na sobie zieloną sukienkę.')"),
    ],
)
def test_readings_of_the_latin_alphabet(tmp_path, text, encoding, reading):
    advice = advise_encoding(write(tmp_path, text.encode(encoding)))
    assert advice.startswith("x.tsv is not in UTF-8: set data.encoding to the encoding that reads this line right: cp1252")
    assert reading in advice


def test_a_file_that_is_largely_unusable_stops_with_advice(tmp_path):
    lines = [line.encode("cp1252" if i < 412 else "utf-8") for i, line in enumerate(3 * LINES)]
    path = write(tmp_path, b"\n".join(lines))
    with pytest.raises(DataError) as caught:
        pairs(path)
    message = str(caught.value)
    assert "412 of 600 lines (69%) are unusable, but data.allow_skipped allows 10%" in message
    assert "x.tsv has lines in UTF-8 and lines in another encoding: convert all lines to UTF-8." in message
    assert "set data.encoding" not in message
    assert "set data.allow_skipped to 0.69 to use the other lines" in message
    assert "skipped 412: not valid UTF-8" in message
    assert len(pairs(path, allow_skipped=0.69)[0]) == 188
    with pytest.raises(DataError, match="412 of 600 lines"):
        list(read_texts([path], TextDataConfig(), ReadingReport()))


def test_each_of_several_files_is_judged_alone(tmp_path):
    good, bad = write(tmp_path, TEXT * 20, "good.txt"), write(tmp_path, TEXT.encode("cp1252"), "bad.txt")
    for read, config in ((read_texts, TextDataConfig()), (read_labelled, LabelledDataConfig())):
        with pytest.raises(DataError, match=r"bad.txt: 200 of 200 lines \(100%\) are unusable"):
            list(read([good, bad], config, ReadingReport()))


@pytest.mark.parametrize(
    ("lines", "settings", "fine"),
    [
        (["a\tb"] * 4 + ["c"], {}, True),
        (["a\tb"] * 4 + ["c", "d"], {}, False),
        (["a\tb"] * 4 + ["c"], {"allow_skipped": 0.0}, False),
        ([f"a {i}\tb {i}" for i in range(18)] + ["c", ""] * 2, {}, True),
        ([f"a {i}\tb {i}" for i in range(17)] + ["\tc"] * 2, {}, False),
        ([f"a {i}\tb {i}" for i in range(17)] + ["\tc"] * 2, {"allow_skipped": 0.2}, True),
        (["a\tb"] * 3 + [""] * 90 + ["\t"] * 5, {}, True),
        (["a\tb"], {"allow_skipped": 0.0}, True),
    ],
)
def test_what_counts_as_unusable(tmp_path, lines, settings, fine):
    path = write(tmp_path, "\n".join(lines))
    if fine:
        pairs(path, **settings)
    else:
        with pytest.raises(DataError, match="are unusable"):
            pairs(path, **settings)


def test_words_for_missing_labels_are_no_classes(tmp_path):
    rows = "".join(f"text {i} is here,{'good' if i % 2 else 'bad'}\n" for i in range(60))
    missing = "".join(f"a text,{word}\n" for word in ("NaN", "N/A", "null", "None", "nan"))
    found, report = labelled(write(tmp_path, "text,label\n" + rows + missing + "None,good\nnan,none\n", "x.csv"))
    assert {label for _, (label,) in found} == {"good", "bad", "none"}
    assert [text for text, _ in found[-2:]] == ["None", "nan"]
    assert report.skipped[MISSING_LABEL].count == 5
    assert "skipped 5: missing label: NaN, N/A, null or None (lines 62, 63, 64, 65, 66)" in report.render()
    typed = [{"text": f"t {i}", "label": ("None", "x")[i % 2]} for i in range(20)] + [{"text": "z", "label": "NaN"}]
    found, report = labelled(write(tmp_path, "\n".join(map(json.dumps, typed)), "x.jsonl"))
    assert {label for _, (label,) in found} == {"None", "x"}
    assert report.skipped[MISSING_LABEL].lines == [21]
    assert labelled(write(tmp_path, "a\n", "None.txt"), write(tmp_path, "b\n", "some.txt"))[0] == [
        ("a", ("None",)), ("b", ("some",)),
    ]  # fmt: skip
    several, _ = labelled(write(tmp_path, "text\tlabels\na\tx;y\nb\tNaN\nc\tx\n"), label_separator=";")
    assert several == [("a", ("x", "y")), ("b", ()), ("c", ("x",))]


@pytest.mark.parametrize(
    ("separator", "form"), [(";", "semicolon-separated"), (",", "comma-separated"), ("|", "separated by |")]
)
@pytest.mark.parametrize("line", ["sep={}\r\n", '"SEP={}"\n'])
def test_the_separator_that_excel_names(tmp_path, separator, form, line):
    rows = [f'{i}{separator}Das ist; wohl, der "{i}." Satz{separator}ja' for i in range(4)]
    quoted = [row.replace("Das", '"Das').replace("Satz", 'Satz"').replace(f'"{i}."', f'""{i}.""') for i, row in enumerate(rows)]
    table = "\n".join([line.format(separator) + f"Nr{separator}Text{separator}Label", *quoted, "5"])
    found, report = labelled(write(tmp_path, table, "x.csv"), text="Text", label="Label")
    assert found[3] == ('Das ist; wohl, der "3." Satz', ("ja",))
    assert report.form == form
    assert [skip.lines for skip in report.skipped.values()] == [[2], [7]]  # the header, and the row with too few columns


@pytest.mark.parametrize(
    ("separator", "form"), [(",", "comma-separated"), (";", "semicolon-separated"), ("\t", "tab-separated")]
)
def test_the_separator_is_reported(tmp_path, separator, form):
    rows = "".join(f"Ein Satz über {i} Dinge{separator}A sentence on {i} things\n" for i in range(30))
    _, report = pairs(write(tmp_path, f"de{separator}en\n" + rows, "x.csv"), source="de", target="en")
    assert report.form == form
    ragged = f"de{separator}en\n" + rows.replace("Ein Satz", "Ein, ja; Satz", 1)
    assert pairs(write(tmp_path, ragged, "x.csv"), source="de", target="en")[1].form == form


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", ["x.json", "x.jsonl"])
def test_json_arrays(tmp_path, name, indent):
    rows = [{"id": i, "translation": {"de": de, "en": en}} for i, (de, en) in enumerate(WANTED)]
    path = write(tmp_path, json.dumps(rows, indent=indent, ensure_ascii=False), name)
    found, report = pairs(path, source="de", target="en")
    assert found == WANTED
    assert (report.form, report.read) == ("a JSON array", 200)
    texts = [{"text": de, "label": i % 2} for i, (de, _) in enumerate(WANTED)]
    texts[3]["label"] = texts[4]["text"] = None
    found, report = labelled(write(tmp_path, json.dumps(texts, indent=indent), name))
    assert found[:3] == [(WANTED[0][0], ("0",)), (WANTED[1][0], ("1",)), (WANTED[2][0], ("0",))]
    assert "skipped 1: empty label (row 4)" in report.render()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"a": "x", "b": "y"}, 7]', r"element 2: is a number, expected an object with a source and a target"),
        ('[{"a": "x", "b": "y"} {"a"', r"is not a JSON array \(Expecting ',' delimiter: line 1 column 23"),
        ('[{"a": "x", "b": "y"}, {"a": "x"', r"is not a JSON array"),
        ('[{"a": "x", "b": "y"}', r"is not a JSON array"),
        ('[{"a": "x", "b": "y"}]\n{}', r"is not a JSON array \(Extra data"),
        ('[{"a": "x", "b": "y"}' + ', {"a": "x"}' * 2 + "]", r"2 of 3 rows \(67%\) are unusable"),
        ("[]", r"no usable pair"),
        ('[{"a":' + "[" * 100_000, r"nested too deeply"),
    ],
)
def test_json_arrays_that_are_damaged(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        pairs(write(tmp_path, content, "x.json"))


def test_sides_separated_by_bars(tmp_path):
    content = "".join(f"{de} ||| {en}\n" for de, en in WANTED)
    found, report = pairs(write(tmp_path, content, "x.txt"), format="fast_align")
    assert found == WANTED
    assert report.form == "separated by |||"
    with pytest.raises(DataError, match=r"has one column .*set data.format to that of the file, such as .*fast_align"):
        pairs(tmp_path / "x.txt")
    assert pairs(write(tmp_path, content + "one side\n", "x.de-en"), format="fast_align")[0] == WANTED
    assert pairs(write(tmp_path, "a ||| b\tc\nd\te\n", "y.txt"))[0] == [("a ||| b", "c"), ("d", "e")]


@pytest.mark.parametrize("encoding", ["utf-16", "UTF_16", "utf-32"])
def test_a_file_without_a_mark_is_little_endian(tmp_path, encoding):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(
        "\n".join(f"the dog {n}\tder Hund läuft {n}" for n in range(20)).encode(f"{encoding.replace('_', '-')}-le")
    )
    chunks = read_pairs([path], DataConfig(encoding=encoding), ReadingReport())
    assert [text for chunk in chunks for text in chunk.target][3] == "der Hund läuft 3"


ROWS = [{"en": "Go.", "de": "Geh."}, {"en": "Stop!", "de": "Halt!"}]
COLUMNS = {"en": ["Go.", "Stop!"], "de": ["Geh.", "Halt!"]}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"version": 1, "data": ROWS}, "'data' holds lists of objects"),
        (COLUMNS, "lists"),
        ({side: dict(enumerate(column)) for side, column in COLUMNS.items()}, "could each be"),
    ],
)
def test_json_objects_around_the_rows(tmp_path, content, message, indent):
    path = write(tmp_path, json.dumps(content, indent=indent), "x.json")
    for read in (pairs, labelled):
        with pytest.raises(DataError) as caught:
            read(path)
        expected = message if indent is None else "To write each object on one line: jq -c . x.json"
        assert expected in str(caught.value)


def test_json_objects_on_several_lines(tmp_path):
    path = write(tmp_path, "\n".join(json.dumps(row, indent=2) for row in ROWS), "x.jsonl")
    with pytest.raises(DataError, match=r"expected one object per line: .*: jq -c \. x\.jsonl > lines\.jsonl"):
        pairs(path)


def test_a_single_row_is_no_table(tmp_path):
    assert pairs(write(tmp_path, json.dumps({"translation": ROWS[0]}), "x.jsonl"))[0] == [("Go.", "Geh.")]
    row = {"en": "Go.", "de": "Geh.", "notes": [{"a": 1}]}
    assert pairs(write(tmp_path, json.dumps(row), "x.jsonl"))[0] == [("Go.", "Geh.")]


def test_a_table_is_no_text(tmp_path):
    report = ReadingReport()
    assert len(list(read_texts([write(tmp_path, "id,text\n1,Go.\n", "x.csv")], TextDataConfig(), report))) == 1
    assert "warning: x.csv is named like a table, but is read as text" in report.render()
    with pytest.raises(DataError, match="x: is a Parquet file, expected text; write its texts to a text file"):
        list(read_texts([write(tmp_path, b"PAR1\x15\x04", "x")], TextDataConfig(), ReadingReport()))


def test_counts_in_the_singular(tmp_path):
    assert "1 line read, 1 pair kept" in pairs(write(tmp_path, "Go.\tGeh.\n"))[1].render()
