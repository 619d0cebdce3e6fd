"""Files as people have them: each is read as its owner means it, or refused with its columns and the setting to use."""

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from tables import refused

from regard.config import DataConfig, LabelledDataConfig
from regard.errors import DataError
from regard.text.labelled.readers import read_labelled
from regard.text.pairs.readers import read_pairs
from regard.text.report import ReadingReport

ENGLISH = [
    f"{who} {does} in the {where} ." for who in ("The old man", "A young woman", "My neighbour", "The tall teacher")
    for does in ("was reading a newspaper", "is walking with the dog", "has slept for an hour") for where in ("park", "city")
]  # fmt: skip
FRENCH = [
    f"{who} {does} dans {where} ." for who in ("Le vieil homme", "Une jeune femme", "Mon voisin", "Le grand professeur")
    for does in ("lisait un journal", "se promène avec le chien", "a dormi pour une heure") for where in ("le parc", "la ville")
]  # fmt: skip
GERMAN = [
    f"{who} {does} in {where} ." for who in ("Der alte Mann", "Eine junge Frau", "Mein Nachbar", "Der große Lehrer")
    for does in ("hat die Zeitung gelesen", "geht mit dem Hund", "hat für eine Stunde geschlafen")
    for where in ("dem Park", "der Stadt")
]  # fmt: skip
ATTRIBUTION = [f"CC-BY 2.0 (France) Attribution: tatoeba.org #{i} (CM) & #{i + 7} (Pfirsichbaeumchen)" for i in range(24)]
MOODS = [("happy", "sad")[i % 2] for i in range(24)]
NUMBERS = [str(i) for i in range(24)]
TITLES = [f"Title {'of a' if i % 2 else 'on the'} number {'x' * (i % 5 + 1)}" for i in range(24)]


def write(
    folder: Path, header: str | None, *columns: list[str], name: str = "x.csv", end: str = "\n", mark: bool = False
) -> Path:
    """Write a table, with the separator that its name implies."""
    buffer = io.StringIO(newline="")
    rows = list(zip(*columns, strict=True))
    if name.endswith(".tsv"):
        buffer.write("".join("\t".join(row) + end for row in ([header.split(",")] if header else []) + [list(r) for r in rows]))
    else:
        csv.writer(buffer, lineterminator=end).writerows(([header.split(",")] if header else []) + rows)
    path = folder / name
    path.write_bytes((b"\xef\xbb\xbf" if mark else b"") + buffer.getvalue().encode())
    return path


def pairs(path: Path, **settings: object) -> list[tuple[str, str]]:
    return tables.pairs(path, **settings)[0]


def labelled(path: Path, **settings: object) -> list[tuple[str, str]]:
    return tables.labelled(path, **settings)[0]


WANTED = list(zip(ENGLISH, FRENCH, strict=True))
NOTES = ["checked", "", "see above", ""] * 6


@pytest.mark.parametrize("name", ["x.csv", "x.tsv"])
@pytest.mark.parametrize(
    ("header", "settings"),
    [
        ("id,Anglais,note,Français", {}),
        ("id,Anglais,note,Français", {"source": "en", "target": "fr"}),
        (",English sentence,Comment,French sentence", {"source": "en", "target": "fr"}),
        ("Nr,Inglés,Observaciones,Francés", {"source": "en", "target": "fr"}),
        ("номер,Английский,примечание,Французский", {"source": "eng", "target": "fra"}),
        ("番号,英語,メモ,フランス語", {"source": "en-US", "target": "fr"}),
        ("编号,英文,备注,法文", {}),
        ("número,Inglês,observação,Francês", {}),
        ("id,text_en,meta,text_fr", {"source": "en", "target": "fr"}),
        ("id,eng,x,fra", {}),
        ("id,foo,bar,baz", {"source": "en", "target": "fr"}),
    ],
)
def test_pairs_with_a_header(tmp_path, name, header, settings):
    path = write(tmp_path, header, NUMBERS, ENGLISH, NOTES, FRENCH, name=name, end="\r\n", mark=True)
    assert pairs(path, **settings) == WANTED


def test_the_target_may_come_first(tmp_path):
    turned = {"source": "en", "target": "fr"}
    assert pairs(write(tmp_path, "Français,Anglais", FRENCH, ENGLISH), **turned) == WANTED
    assert pairs(write(tmp_path, "target,source", FRENCH, ENGLISH)) == WANTED
    assert pairs(write(tmp_path, None, ENGLISH, FRENCH, name="x.tsv"), **turned) == WANTED


def test_tables_without_a_header(tmp_path):
    assert pairs(write(tmp_path, None, ENGLISH, FRENCH, ATTRIBUTION, name="x.tsv")) == WANTED
    assert pairs(write(tmp_path, None, NUMBERS, ENGLISH, NUMBERS, FRENCH, name="x.tsv")) == WANTED
    three = write(tmp_path, None, ENGLISH, FRENCH, GERMAN, name="x.tsv")
    for languages in ({}, {"source": "de", "target": "en"}):
        message = refused(pairs, three, **languages)
        assert "cannot tell which columns hold a source and a target" in message
        assert "--data.columns 0,1" in message


def test_a_first_line_of_codes_is_no_header_of_codes(tmp_path):
    numbered = [f"go{i}" for i in range(24)]
    turned = [f"og{i}" for i in range(24)]
    assert pairs(write(tmp_path, None, numbered, turned, name="x.tsv"), columns=("0", "1")) == list(
        zip(numbered, turned, strict=True)
    )
    with_names = write(tmp_path, "source,target", numbered, turned, name="y.tsv")
    assert pairs(with_names, columns=("source", "target"))[0] == ("go0", "og0")


def test_a_row_number_is_no_sentence(tmp_path):
    message = refused(pairs, write(tmp_path, "id,Anglais", NUMBERS, ENGLISH))
    assert "no column looks like the target" in message
    assert "--data.columns" in message
    assert "0 'id': '0' (numbers)" in message
    assert f"1 'Anglais': '{ENGLISH[0]}'"[:40] in message
    assert pairs(write(tmp_path, "id,Anglais", NUMBERS, ENGLISH), columns=("id", "Anglais"))[3] == ("3", ENGLISH[3])


@pytest.mark.parametrize("header", [None, "text,value", "date,iso", "words,number"])
def test_the_only_two_columns_may_be_text_and_dates_but_not_numbers(tmp_path, header):
    days, numbers = [f"19{i % 10}2-01-{i + 1:02d}" for i in range(24)], [f"{i * 37 % 100}" for i in range(24)]
    assert pairs(write(tmp_path, header, ENGLISH, days, name="x.tsv")) == list(zip(ENGLISH, days, strict=True))
    for columns in ((numbers, ENGLISH), (ENGLISH, numbers)):
        path = write(tmp_path, header, *columns, name="x.tsv")
        assert "cannot tell which columns" in refused(pairs, path)
        assert pairs(path, columns=("0", "1")) == list(zip(*columns, strict=True))


def test_dates_are_a_source_too(tmp_path):
    days = [f"1982-01-{i + 1:02d}" for i in range(24)]
    assert pairs(write(tmp_path, None, days, GERMAN, name="x.tsv")) == list(zip(days, GERMAN, strict=True))


@pytest.mark.parametrize(("header", "numbers"), [("text,id", [f"{i * 37 % 100}" for i in range(24)]), (None, NUMBERS)])
def test_a_row_number_is_no_translation(tmp_path, header, numbers):
    message = refused(pairs, write(tmp_path, header, ENGLISH, numbers, name="x.tsv"))
    assert "no column looks like the target" in message
    assert "(numbers)" in message


def test_letters_and_phones_have_a_header(tmp_path):
    words, phones = [f"w{'a' * i}" for i in range(24)], [f"W{' AE1' * i}" for i in range(24)]
    assert len(pairs(write(tmp_path, "word,phones", words, phones, name="x.tsv"))) == 24


def test_doubt_shows_the_columns_and_the_setting(tmp_path):
    message = refused(pairs, write(tmp_path, "alpha,beta,gamma", ENGLISH, FRENCH, GERMAN), header="yes")
    for name, sample in (("alpha", ENGLISH[0]), ("beta", FRENCH[0]), ("gamma", GERMAN[0])):
        assert f"'{name}': '{sample[:20]}" in message
    assert "Set data.columns, for example --data.columns alpha,beta" in message
    hostile = write(tmp_path, "al\x1bpha,beta,gamma", [f"\x1b[31m{'x y ' * 5000}{i}" for i in range(24)], FRENCH, GERMAN)
    for header in ("auto", "yes"):
        assert "\x1b" not in refused(pairs, hostile, header=header)
        assert len(refused(pairs, hostile, header=header)) < 800


def test_names_that_occur_twice(tmp_path):
    texts = write(tmp_path, "text,text,label", ENGLISH, FRENCH, MOODS)
    assert "for example --data.text 0 --data.label label" in refused(labelled, texts)
    assert "columns 0 and 1 have the same name 'text'; give a column's number (data.text)" in refused(
        labelled, texts, text="text"
    )
    assert labelled(texts, text="1", label="label") == list(zip(FRENCH, MOODS, strict=True))


def test_a_header_that_matches_nothing_is_no_example(tmp_path):
    for read, columns in ((pairs, (ENGLISH, FRENCH)), (labelled, (ENGLISH, MOODS))):
        path = write(tmp_path, "foo,bar", *columns)
        assert "the first line could be a header or an example: 'foo' and 'bar'" in refused(read, path)
        assert read(path, header="yes") == list(zip(*columns, strict=True))
    assert "the first line could be a header" in refused(pairs, write(tmp_path, "a b c,d e f", ENGLISH, FRENCH))
    short = [["Go.", "Run!", "Hi."] * 8, ["Geh.", "Lauf!", "Hallo."] * 8]
    assert pairs(write(tmp_path, None, *short, name="x.tsv"), drop_repeats=False)[0] == ("Go.", "Geh.")
    assert labelled(write(tmp_path, None, ENGLISH, MOODS))[0] == (ENGLISH[0], "happy")


REVIEWS = list(zip(ENGLISH, MOODS, strict=True))


@pytest.mark.parametrize("name", ["x.csv", "x.tsv"])
@pytest.mark.parametrize(
    "header",
    [
        "id,Review Text,Sentiment",
        ",text,target",
        "Nr.,Texte,Catégorie",
        "id,Comentario,Etiqueta",
        "编号,评论,标签",
        "номер,Отзыв,Тональность",
        "番号,レビュー本文,ラベル",
        "Unnamed: 0,conteúdo,classe",
        "ID,Kommentar,Kategorie",
        "PhraseId,tweet_text,label_name",
        "x,foo,bar",
    ],
)
def test_labelled_texts_with_a_header(tmp_path, name, header):
    assert labelled(write(tmp_path, header, NUMBERS, ENGLISH, MOODS, name=name, mark=True, end="\r\n")) == REVIEWS


def test_a_header_with_empty_columns_at_the_end(tmp_path):
    blank = [""] * 24
    assert labelled(write(tmp_path, "id,Review Text,Sentiment,,,", NUMBERS, ENGLISH, MOODS, blank, blank, blank)) == REVIEWS
    header, filled = "Review Text,Sentiment,,", [ENGLISH, MOODS, NUMBERS, NUMBERS]
    assert labelled(write(tmp_path, header, *filled), text="0", label="1")[0] == ("Review Text", "Sentiment")


@pytest.mark.parametrize("name", ["Núm.", "No.", "Nº", "Nummer.", "Note."])
def test_an_abbreviation_in_a_header(tmp_path, name):
    assert pairs(write(tmp_path, f"{name},Inglés,Francés", NUMBERS, ENGLISH, FRENCH)) == WANTED


def test_labelled_texts_without_a_header(tmp_path):
    assert labelled(write(tmp_path, None, MOODS, ENGLISH, name="x.tsv")) == REVIEWS
    assert labelled(write(tmp_path, None, ["01"[i % 2] for i in range(24)], ENGLISH))[1] == (ENGLISH[1], "1")
    assert labelled(write(tmp_path, None, NUMBERS, ENGLISH, MOODS)) == REVIEWS
    news = write(tmp_path, None, [str(i % 4 + 1) for i in range(24)], TITLES, ENGLISH)
    message = refused(labelled, news)
    assert "1 and 2 could each be the text" in message
    assert "--data.text" in message
    assert "--data.label 0" in message


def test_tables_of_reviews(tmp_path):
    stars = [str(i % 5 + 1) for i in range(24)]
    products = [f"B00{i % 7}E4KFG{i}" for i in range(24)]
    users = [f"A3SGXH7AUHU8G{i}" for i in range(24)]
    header = "Id,ProductId,UserId,HelpfulnessNumerator,Score,Time,Summary,Text"
    long = [f"{text} {text} {text}" for text in ENGLISH]
    amazon = write(tmp_path, header, NUMBERS, products, users, stars, stars, ["1303862400"] * 24, TITLES, long)
    assert labelled(amazon) == list(zip(long, stars, strict=True))
    assert labelled(write(tmp_path, "review,sentiment", long, MOODS)) == list(zip(long, MOODS, strict=True))
    assert labelled(write(tmp_path, "Class Index,Title,Description", stars, TITLES, long))[0] == (long[0], "1")
    message = refused(labelled, write(tmp_path, "text,category,sentiment", long, stars, MOODS))
    assert "'category' and 'sentiment' could each be the label" in message
    assert "could each be the text" in refused(labelled, write(tmp_path, "premise,hypothesis,label", ENGLISH, GERMAN, MOODS))
    message = refused(labelled, write(tmp_path, None, ENGLISH, FRENCH, name="x.tsv"))
    assert "no column looks like the label, whose values must repeat" in message


def test_typed_tables(tmp_path):
    table = {"idx": list(range(24)), "Review Text": ENGLISH, "when": ["2020-01-02"] * 24, "Stimmung": MOODS}
    pq.write_table(pa.table(table), tmp_path / "x.parquet")
    assert labelled(tmp_path / "x.parquet") == REVIEWS
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert labelled(tmp_path / "x.jsonl") == REVIEWS
    pq.write_table(pa.table({"url": ["https://x.org/a"] * 24, "fra": FRENCH, "eng": ENGLISH}), tmp_path / "y.parquet")
    assert pairs(tmp_path / "y.parquet", source="en", target="fr") == WANTED
    pq.write_table(pa.table({"a": FRENCH, "b": ENGLISH, "c": GERMAN}), tmp_path / "z.parquet")
    assert "'a': 'Le vieil homme" in refused(pairs, tmp_path / "z.parquet")


@pytest.mark.parametrize("further", [[], ["Noch ein Satz."]], ids=["lines differ", "as many lines"])
def test_a_header_in_one_of_two_parallel_files(tmp_path, further):
    (tmp_path / "a.en").write_text("\n".join(["English", *ENGLISH]))
    (tmp_path / "a.de").write_text("\n".join([*GERMAN, *further]))
    given, files = DataConfig(source="en", target="de"), [tmp_path / "a.en", tmp_path / "a.de"]
    with pytest.raises(DataError, match=r"a.en begins with what looks like a header, 'English', and .*data.header to no"):
        list(read_pairs(files, given, ReadingReport()))


def test_headers_in_both_parallel_files(tmp_path):
    (tmp_path / "a.en").write_text("\n".join(["English", *ENGLISH]))
    (tmp_path / "a.de").write_text("\n".join(["Deutsch", *GERMAN]))
    report = ReadingReport()
    chunk, *_ = read_pairs([tmp_path / "a.en", tmp_path / "a.de"], DataConfig(source="en", target="de"), report)
    assert (chunk.source[0], chunk.target[0], chunk.line[0]) == (ENGLISH[0], GERMAN[0], 2)
    assert report.skipped["header"].lines == [1]


def test_words_for_a_language_in_itself_are_a_pair(tmp_path):
    path = tmp_path / "words.tsv"
    path.write_text("English\tEnglisch\nGerman\tDeutsch\nhouse\tHaus\n")
    assert pairs(path)[0] == ("English", "Englisch")


def test_the_first_example_is_in_the_report(tmp_path):
    report = ReadingReport()
    list(read_pairs([write(tmp_path, "id,Anglais,Français", NUMBERS, ENGLISH, FRENCH)], DataConfig(), report))
    assert "columns Anglais and Français" in report.render()
    assert f'first pair: "{ENGLISH[0]}" → "{FRENCH[0]}"' in report.render()
    report = ReadingReport()
    path = write(tmp_path, "text,label", ["a \x1b[31m" + "b" * 100], ["x\u202ey"])
    list(read_labelled([path], LabelledDataConfig(), report))
    assert f'first text: "a \\u001b[31m{"b" * 53}…" with the label "x\\u202ey"' in report.render()


def test_names_that_can_mean_a_text_or_a_label(tmp_path):
    stars = [("1", "5")[i % 2] for i in range(24)]
    dates = [f"2024-01-{i + 1:02d}" for i in range(24)]
    path = write(tmp_path, "Datum,Bewertung,Sterne", dates, GERMAN, stars)
    assert labelled(path) == list(zip(GERMAN, stars, strict=True))
    assert labelled(write(tmp_path, "Text,Bewertung", GERMAN, stars)) == list(zip(GERMAN, stars, strict=True))


def test_numbers_that_never_repeat_are_no_labels(tmp_path):
    path = write(tmp_path, "text,score", ENGLISH, [f"0.{i:03d}" for i in range(24)])
    assert "no column looks like the label, whose values must repeat" in refused(labelled, path)


def test_several_columns_of_0_and_1_are_no_single_label(tmp_path):
    marks = [[str((i // step) % 2) for i in range(24)] for step in (1, 2, 3)]
    path = write(tmp_path, "text,toxic,insult,threat", ENGLISH, *marks)
    message = refused(labelled, path)
    assert "'toxic' and 'insult' could each be the label" in message
    assert labelled(path, label="insult") == list(zip(ENGLISH, marks[1], strict=True))
    assert labelled(write(tmp_path, "id,text,toxic", NUMBERS, ENGLISH, marks[0]))[1] == (ENGLISH[1], "1")


@pytest.mark.parametrize("read", [pairs, labelled])
def test_names_of_columns_for_a_table_without_a_header(tmp_path, read):
    path = write(tmp_path, None, ENGLISH, FRENCH, name="x.tsv")
    wanted = {"columns": ("en", "fr")} if read is pairs else {"text": "en", "label": "fr"}
    message = refused(read, path, **wanted)
    assert f"there is no column 'en'; it has '{ENGLISH[0][:30]}…', '{FRENCH[0][:30]}…'" in message
