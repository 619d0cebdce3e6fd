"""Headers and widths of tables: lines wider than the header, titles above it, sorted files, and files in another encoding."""

import json
from pathlib import Path

import pytest
from tables import labelled, pairs, refused, skipped

from regard.cli.lines import read_lines
from regard.config import DataConfig, TextDataConfig
from regard.text.pairs.readers import read_pairs
from regard.text.plain import read_texts
from regard.text.reasons import HEADER, TOO_MANY_COLUMNS
from regard.text.report import ReadingReport

ENGLISH = [f"The old man number {i} is walking" for i in range(30)]
GERMAN = [f"Der alte Mann Nummer {i} geht spazieren" for i in range(30)]
THAI = [
    "ผู้ชายคนนี้กำลังเดินอยู่ในสวนสาธารณะกับสุนัขของเขา",
    "เธออ่านหนังสือพิมพ์ทุกเช้าที่บ้านของเธอในกรุงเทพ",
    "วันนี้อากาศดีมากเราควรไปเที่ยวทะเลกันเถอะ",
]
THAI = [f"{text} {i}" for i, text in enumerate(THAI * 10)]
MOODS = [("happy", "sad")[i % 2] for i in range(30)]
WANTED = list(zip(ENGLISH, GERMAN, strict=True))


def write(folder: Path, header: str, *columns: list[str], name: str = "x.csv", encoding: str = "utf-8") -> Path:
    separator = "\t" if name.endswith(".tsv") else ","
    lines = header.splitlines() + [",".join(row) for row in zip(*columns, strict=True)]
    path = folder / name
    path.write_bytes("".join(line.replace(",", separator) + "\n" for line in lines).encode(encoding))
    return path


ROW_NAMES = [str(i + 1) for i in range(30)]


@pytest.mark.parametrize("name", ["x.csv", "x.tsv"])
def test_row_names_without_a_name_in_the_header(tmp_path, name):
    path = write(tmp_path, "en,de", ROW_NAMES, ENGLISH, GERMAN, name=name)
    for settings in ({}, {"columns": ("en", "de")}):
        message = refused(pairs, path, **settings)
        assert "no usable pair" in message
        assert (
            "Lines with too many columns have unquoted separators in the text, row names (in R, write with row.names=FALSE) or "
            "further columns; to read them, give two columns by number, counted from 0, with data.columns." in message
        )
    found, report = pairs(path, columns=("1", "2"))
    assert (found, report.columns, skipped(report)) == (WANTED, ["1", "2"], {HEADER: [1]})
    path = write(tmp_path, "text,label", ROW_NAMES, ENGLISH, MOODS, name=name)
    assert "row names" in refused(labelled, path)
    assert labelled(path, text="1", label="2")[0] == list(zip(ENGLISH, MOODS, strict=True))


def test_columns_given_by_number_that_only_the_header_has(tmp_path):
    path = write(tmp_path, "text,mood,label", ENGLISH, MOODS)
    assert "skipped 30: too few columns" in refused(labelled, path, text="0", label="2")


def test_a_comma_without_quotes_in_every_text(tmp_path):
    path = write(tmp_path, "label,text", MOODS, [f"great film {i}, but boring" for i in range(30)])
    assert "have unquoted separators in the text" in refused(labelled, path)
    ragged = [f"great film {i}" + ", and long" * (i % 4 + 1) for i in range(30)]
    assert "have unquoted separators in the text" in refused(labelled, write(tmp_path, "label,text", MOODS, ragged))
    ends = write(tmp_path, "text,label", ENGLISH, MOODS, [""] * 30, [" "] * 30)
    assert labelled(ends)[0] == list(zip(ENGLISH, MOODS, strict=True))


@pytest.mark.parametrize("header", ["english,german", ""])
def test_a_comma_without_quotes_in_some_texts(tmp_path, header):
    english = [f"Hello, yes {i}" if i % 3 == 0 else text for i, text in enumerate(ENGLISH)]
    german = [f"Hallo, ja {i}" if i % 3 == 0 else text for i, text in enumerate(GERMAN)]
    message = refused(pairs, write(tmp_path, header, english, german))
    assert "10 of 30 rows (33%) are unusable" in message
    assert "Lines with too many columns have unquoted separators in the text" in message
    assert "to read them, give two columns by number, counted from 0, with data.columns." in message
    found, report = pairs(write(tmp_path, header, english, german), allow_skipped=0.4)
    assert found == [pair for i, pair in enumerate(WANTED) if i % 3]
    assert report.skipped[TOO_MANY_COLUMNS].count == 10


EXTRAS = {
    "licence": ["CC BY 4.0"] * 30,
    "attribution": [f"CC-BY 2.0 (France) Attribution: tatoeba.org #{i} (CM) & #{i + 7} (x)" for i in range(30)],
    "score": [f"0.{i + 10}" for i in range(30)],
    "date": ["2024-01-02"] * 30,
}


def write_some(folder: Path, header: str, further: list[str], chosen: range | list[int]) -> Path:
    """Write pairs, some of which have a further column."""
    path = folder / "x.tsv"
    lines = [[*pair, further[i]] if i in chosen else pair for i, pair in enumerate(WANTED)]
    path.write_text(header + "".join("\t".join(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("header", ["", "English\tGerman\n"])
@pytest.mark.parametrize("extra", EXTRAS)
def test_further_columns(tmp_path, header, extra):
    if not header:
        assert pairs(write_some(tmp_path, header, EXTRAS[extra], range(20)))[0] == WANTED
    for chosen in (range(12), range(18, 30)):
        path = write_some(tmp_path, header, EXTRAS[extra], chosen)
        assert "to read them, give two columns by number" in refused(pairs, path)
        assert pairs(path, columns=("0", "1"))[0] == WANTED
    assert TOO_MANY_COLUMNS in pairs(write_some(tmp_path, header, EXTRAS[extra], range(29, 30)))[1].skipped


def test_row_names_before_a_column_of_scores(tmp_path):
    for last in ("score", "date"):
        path = write(tmp_path, f"en,de,{last}", ROW_NAMES, ENGLISH, GERMAN, EXTRAS[last])
        for settings in ({}, {"source": "en", "target": "de"}, {"columns": ("en", "de")}):
            assert "row names" in refused(pairs, path, **settings)
        assert pairs(path, columns=("1", "2"))[0] == WANTED


def test_columns_by_number_below_a_header(tmp_path):
    comments = [f"this is a note {i}" for i in range(30)]
    path = write_some(tmp_path, "English\tGerman\n", comments, [i for i in range(30) if i % 5 < 2])
    message = refused(pairs, path)
    assert "12 of 30 lines (40%) are unusable" in message
    assert "or further columns; to read them, give two columns by number" in message
    found, report = pairs(path, columns=("0", "1"))
    assert (found, report.columns, skipped(report)) == (WANTED, ["English", "German"], {HEADER: [1]})


def test_a_stray_tab_in_a_file_without_a_header(tmp_path):
    path = write(tmp_path, "", [*ENGLISH, "A stray\ttab"], [*GERMAN, "Ein Tab"], name="x.tsv")
    found, report = pairs(path)
    assert (found, skipped(report)) == (WANTED, {TOO_MANY_COLUMNS: [31]})


LONG = [f"Una película número {i} muy larga" for i in range(3000)]
SORTED = ["pos"] * 1500 + ["neg"] * 1500
CHANNELS = ["web", "forum", "app"] * 1000


@pytest.mark.parametrize("name", ["x.csv", "x.tsv"])
def test_a_file_that_is_sorted_by_its_label(tmp_path, name):
    path = write(tmp_path, "Comentario,Clasificación,Canal", LONG, SORTED, CHANNELS, name=name)
    assert labelled(path)[0] == list(zip(LONG, SORTED, strict=True))
    for header in ("Foo,Bar,Baz", ""):
        path = write(tmp_path, header, LONG, SORTED, CHANNELS, name=name)
        message = refused(labelled, path, header="yes" if header else "no")
        assert "could each be the label" in message
        assert "1 'Bar': 'pos' (one value)" in message or not header


def test_a_constant_column_beside_a_label(tmp_path):
    path = write(tmp_path, "text,lang,label", ENGLISH, ["en"] * 30, MOODS)
    assert labelled(path)[0] == list(zip(ENGLISH, MOODS, strict=True))
    assert "'Bar' and 'Baz' could each be the label" in refused(
        labelled, write(tmp_path, "Foo,Bar,Baz", ENGLISH, ["pos"] * 30, MOODS), header="yes"
    )


CHINESE = [f"这部电影真的很好看第{i}次" for i in range(30)]
PLACES = [("北京", "上海", "广州")[i % 3] for i in range(30)]
OPINIONS = [("正面", "负面")[i % 2] for i in range(30)]


@pytest.mark.parametrize(
    ("encoding", "shown", "name"), [("gb18030", "GB 18030", "gb18030"), ("utf-16-le", "UTF-16 (little-endian)", "utf-16-le")]
)
def test_an_error_about_columns_names_the_encoding(tmp_path, encoding, shown, name):
    columns = CHINESE, PLACES, ["网站"] * 30, OPINIONS
    path = write(tmp_path, "评论,地点,渠道,标签", *columns, encoding=encoding)
    message = refused(labelled, path)
    assert message.startswith(f"{path}: is probably not in UTF-8. x.csv looks like {shown}")
    assert f": set data.encoding to {name}. Reading it as UTF-8 gives this error: cannot tell which columns hold" in message
    assert "--data.text \\udc" not in message
    assert labelled(path, encoding=encoding)[0] == list(zip(CHINESE, OPINIONS, strict=True))
    assert "encoding" not in refused(labelled, write(tmp_path, "", *columns))
    one = write(
        tmp_path, "", [f"Só um texto número {i}" for i in range(30)], encoding="utf-16-le" if "16" in name else "cp1252"
    )
    assert ("looks like UTF-16" if "16" in name else "reads this line right: cp1252") in refused(labelled, one)
    assert "Is data.encoding right? It is ascii. Reading it as ascii gives" in refused(labelled, one, encoding="ascii")


def test_a_single_bad_byte_does_not_blame_the_encoding(tmp_path):
    path = write(tmp_path, "text,label", [*ENGLISH, "Só um texto"], [*MOODS, "sad"], encoding="cp1252")
    message = refused(labelled, path, text="txt")
    assert message.startswith(f"{path}: there is no column 'txt'")
    assert "UTF-8" not in message
    path = write(tmp_path, "opinião,label", ENGLISH, MOODS, encoding="cp1252")
    assert "is probably not in UTF-8" in refused(labelled, path, text="opinião", label="label")
    path = write(tmp_path, "text,label", [f"Só {i}" if i % 5 == 0 else f"x {i}" for i in range(30)], MOODS, encoding="cp1252")
    assert "is probably not in UTF-8" in refused(labelled, path, text="txt")


@pytest.mark.parametrize("title", ["# exported from X", "Vocabulary list 2024,", "Vocabulary list 2024,\n,\nspring"])
@pytest.mark.parametrize("settings", [{}, {"header": "yes"}, {"columns": ("english", "german")}])
def test_a_title_above_the_header(tmp_path, title, settings):
    path = write(tmp_path, f"{title}\nEnglish,German", ENGLISH, GERMAN)
    lines = [line for line in title.split("\n") if line != ","]
    wanted = (
        f"above the header 'English' and 'German', such as the title '{lines[0].rstrip(',')}'; delete what is above the header"
    )
    assert wanted in refused(pairs, path, **settings)
    path = write(tmp_path, f"{title}\nReview,Sentiment,Date".replace(",\n", ",,\n"), ENGLISH, MOODS, ["2024-01-02"] * 30)
    if "columns" not in settings:
        assert "above the header 'Review' and 'Sentiment'" in refused(labelled, path, **settings)


def test_a_short_first_line_above_examples(tmp_path):
    assert pairs(write(tmp_path, "# exported from X", ENGLISH, GERMAN))[0] == WANTED
    assert pairs(write(tmp_path, "Hello,\nYes,Ja", ENGLISH, GERMAN))[0] == [("Yes", "Ja"), *WANTED]
    assert len(pairs(write(tmp_path, "Title,\nEnglish,German", ENGLISH, GERMAN), header="no")[0]) == 31


def test_the_default_header_of_pandas(tmp_path):
    found, report = pairs(write(tmp_path, ",0,1", ROW_NAMES, ENGLISH, GERMAN))
    assert (found, skipped(report)) == (WANTED, {HEADER: [1]})
    found, report = labelled(write(tmp_path, ",0,1", ROW_NAMES, ENGLISH, MOODS))
    assert (found, skipped(report)) == (list(zip(ENGLISH, MOODS, strict=True)), {HEADER: [1]})
    assert pairs(write(tmp_path, ",0,9", ROW_NAMES, ENGLISH, GERMAN))[0][0] == ("0", "9")


def test_a_header_in_thai(tmp_path):
    path = write(tmp_path, "คำเดิม,คำแปล", ENGLISH, THAI)
    assert "the first line could be a header or an example" in refused(pairs, path)
    assert pairs(path, header="yes")[0] == list(zip(ENGLISH, THAI, strict=True))
    path = write(tmp_path, "ความคิดเห็น,ป้ายกำกับ", THAI, MOODS)
    assert "the first line could be a header or an example" in refused(labelled, path)
    assert labelled(path, header="yes")[0] == list(zip(THAI, MOODS, strict=True))
    assert len(pairs(write(tmp_path, "", ENGLISH, THAI))[0]) == 30


@pytest.mark.parametrize("header", ["Front,Back", "English word,German word", "English (text),German sentence", "Wort,Deutsch"])
@pytest.mark.parametrize("settings", [{}, {"source": "en", "target": "de"}])
def test_headers_above_words(tmp_path, header, settings):
    path = write(tmp_path, header, ["dog", "cat", "house"], ["Hund", "Katze", "Haus"])
    found = pairs(path, **settings)[0]
    expected = header != "Wort,Deutsch"  # only one of its cells names a side
    assert found == [tuple(header.split(","))] * (not expected) + [("dog", "Hund"), ("cat", "Katze"), ("house", "Haus")]


def test_two_cells_that_name_the_same_language_are_a_pair(tmp_path):
    path = write(tmp_path, "", ["English word", "dog"], ["Englisches Wort", "Hund"], name="x.tsv")
    assert pairs(path)[0][0] == ("English word", "Englisches Wort")


@pytest.mark.parametrize(
    ("lines", "settings", "found"), [("Pairs\na\tb\nc\td\n", {"header": "yes"}, "1 column"), ("0\t1\n", {}, "0 columns")]
)
def test_a_first_line_that_is_no_header(tmp_path, lines, settings, found):
    path = tmp_path / "x.tsv"
    path.write_text(lines)
    wanted = f"x.tsv: has {found}, expected a source and a target; if its first line is not a header, set data.header to no"
    assert refused(pairs, path, **settings).endswith(wanted)


def test_a_header_alone(tmp_path):
    assert "no usable pair" in refused(pairs, write(tmp_path, "source,target", name="x.tsv"))


def test_a_small_file_with_a_constant_column(tmp_path):
    columns = [f"A text with the number {i} ." for i in range(60)], ["en"] * 60, [f"name{i}" for i in range(60)]
    assert "nickname" in refused(labelled, write(tmp_path, "text,lang,nickname", *columns))


def test_a_title_above_a_header_with_adjectives(tmp_path):
    path = write(tmp_path, "Vokabeln der Klasse 7b\nEnglischer Satz;Deutsche Übersetzung", ENGLISH, GERMAN)
    path.write_text(path.read_text().replace(",", ";"))
    assert "has 1 line above the header 'Englischer Satz' and 'Deutsche Übersetzung'" in refused(pairs, path)


MARK = "\ufeff"
LABELLED = [("text,label", "{0},{1}"), ("id,comment_text,toxic", "7,{0},{1}"), ('"review","sentiment"', '"{0}","{1}"')]


@pytest.mark.parametrize("name", ["x.csv", "x.tsv"])
@pytest.mark.parametrize("mark", ["", MARK])
@pytest.mark.parametrize(("header", "row"), LABELLED)
def test_headers_of_joined_files_are_skipped_and_counted(tmp_path, header, row, mark, name):
    if name == "x.tsv":
        header, row = header.replace(",", "\t").replace('"', ""), row.replace(",", "\t").replace('"', "")
    part = mark + header + "\r\n" + "".join(row.format(*pair) + "\r\n" for pair in zip(ENGLISH, MOODS, strict=True))
    (tmp_path / name).write_text(part * 3, encoding="utf-8", newline="")
    for settings in ({}, {"header": "yes"}):
        found, report = labelled(tmp_path / name, **settings)
        assert (found, skipped(report)) == (list(zip(ENGLISH, MOODS, strict=True)) * 3, {HEADER: [1, 32, 63]})


def test_headers_of_joined_pairs_and_parallel_files_are_skipped(tmp_path):
    path = write(tmp_path, "English,German", ENGLISH, GERMAN, name="x.tsv")
    path.write_bytes(path.read_bytes() * 2)
    assert (pairs(path)[0], skipped(pairs(path)[1])) == (WANTED * 2, {HEADER: [1, 32]})
    for name, lines in (("x.en", ["English", *ENGLISH]), ("x.de", ["German", *GERMAN])):
        (tmp_path / name).write_text(f"{MARK}{chr(10).join(lines)}\n" * 2, encoding="utf-8")
    report = ReadingReport()
    chunks = list(read_pairs([tmp_path / "x.en", tmp_path / "x.de"], DataConfig(source="en", target="de"), report))
    assert [pair for chunk in chunks for pair in zip(chunk.source, chunk.target, strict=True)] == WANTED * 2
    assert skipped(report) == {HEADER: [1, 32]}


def test_a_short_pair_that_occurs_twice_is_not_silently_a_header(tmp_path):
    path = write(tmp_path, "Hello,Hallo", ENGLISH, GERMAN, name="x.tsv")
    path.write_bytes(path.read_bytes() * 2)
    assert "the first line could be a header or an example: 'Hello' and 'Hallo'" in refused(pairs, path)
    assert pairs(path, header="no")[0] == [("Hello", "Hallo"), *WANTED] * 2


def test_byte_order_marks_inside_json_lines_and_texts_are_removed(tmp_path):
    (tmp_path / "x.jsonl").write_text(f'{MARK}{{"text": "a b", "label": "x"}}\n' * 2, encoding="utf-8")
    assert labelled(tmp_path / "x.jsonl")[0] == [("a b", "x")] * 2
    (tmp_path / "x.jsonl").write_text(f'{{"{MARK}text": "a b", "label": "x"}}\n' * 2, encoding="utf-8")
    assert labelled(tmp_path / "x.jsonl", text="text")[0] == [("a b", "x")] * 2
    (tmp_path / "x.txt").write_text(f"{MARK}once\n" * 2, encoding="utf-8")
    assert [chunk.text for chunk in read_texts([tmp_path / "x.txt"], TextDataConfig(), ReadingReport())] == [["once", "once"]]
    assert list(read_lines(str(tmp_path / "x.txt"), "translate")) == ["once", "once"]


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl"])
def test_invisible_characters_do_not_make_a_second_label(tmp_path, name):
    odd = ["good", "good\u200b", f"{MARK}good", "\u200egood\u00a0", "\u2060good\u00ad", "\u3000\u200c good"]
    rows = [(text, label) for text, label in zip(ENGLISH, odd * 5, strict=True)]
    if name == "x.jsonl":
        lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
    else:
        lines = [("," if name == "x.csv" else "\t").join(row) for row in [("text", "label"), *rows]]
    (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    assert {label for _, label in labelled(tmp_path / name)[0]} == {"good"}


@pytest.mark.parametrize("header", ["metin,etiket", "szöveg,címke", "opinia,etykieta"])
def test_known_names_in_other_languages(tmp_path, header):
    assert labelled(write(tmp_path, header, ENGLISH[:4], MOODS[:4]))[0] == list(zip(ENGLISH[:4], MOODS[:4], strict=True))


def test_a_first_line_of_unknown_words_above_a_few_texts(tmp_path):
    for read, path in (
        (pairs, write(tmp_path, "foo,bar", ENGLISH[:5], GERMAN[:5])),
        (labelled, write(tmp_path, "foo,bar", ENGLISH[:4], MOODS[:4], name="y.csv")),
    ):
        message = refused(read, path)
        assert "the first line could be a header or an example: 'foo' and 'bar'; the next line is 'The old man" in message
        assert message.endswith("Set data.header to yes if the first line names the columns, or to no if it is an example")
        assert [len(read(path, header=header, drop_repeats=False)[0]) for header in ("yes", "no")] == (
            [5, 6] if read is pairs else [4, 5]
        )


def test_a_first_line_of_words_that_may_be_a_header(tmp_path):
    words = [f"l{'aeiou'[i % 5] * (i + 1)}k" for i in range(12)]
    path = write(tmp_path, "singular,plural", words, [f"{word}s" for word in words], name="x.tsv")
    found, report = pairs(path)
    assert found[0] == ("singular", "plural")
    assert "Line 1 is read as an example. If it names the columns, set data.header to yes." in report.render()
    found, report = pairs(path, header="yes")
    assert found[0] == (words[0], f"{words[0]}s")
    assert not report.advice
