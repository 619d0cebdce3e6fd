"""Separators and quotation marks of CSV and tab-separated files."""

import pytest
from tables import labelled, pairs, write

from regard.errors import DataError
from regard.text.reasons import TOO_MANY_COLUMNS


def test_semicolons_with_decimal_commas(tmp_path):
    rows = "Guter Film;pos;3,5\nSchlechter Film;neg;1,5\n" * 10
    with pytest.raises(DataError, match="commas and semicolons both split its rows into columns"):
        labelled(write(tmp_path, rows, "x.csv"), text="0", label="1")
    for start in ("text;label;stars\n", "sep=;\n"):
        found, report = labelled(write(tmp_path, start + rows, "x.csv"), text="0", label="1")
        assert found[:2] == [("Guter Film", "pos"), ("Schlechter Film", "neg")]
        assert report.form == "semicolon-separated"
    quoted = '"Guter Film";"3,5"\n"Nicht gut";"1,5"\n' * 10
    with pytest.raises(DataError, match="commas and semicolons both split its rows into columns"):
        labelled(write(tmp_path, quoted, "x.csv"), text="0", label="1")
    for start in ("text;rating\n", "sep=;\n"):
        assert labelled(write(tmp_path, start + quoted, "x.csv"), text="0", label="1")[1].form == "semicolon-separated"
    ragged = "text;rating\n" + "Guter Film;3,5\nSchlechter Film;1,5;ja\nKein Film;2,5\n" * 10
    _, report = labelled(write(tmp_path, ragged, "x.csv"), allow_skipped=0.5)
    assert report.form == "semicolon-separated"


@pytest.mark.parametrize(
    ("row", "commas", "semicolons"),
    [
        ("Guter Film;3,5", "'Guter Film;3' and '5'", "'Guter Film' and '3,5'"),
        ("Hello, yes;Hallo, ja", "'Hello' and 'yes;Hallo' and 'ja'", "'Hello, yes' and 'Hallo, ja'"),
    ],
)
def test_two_separators_that_fit_equally_well(tmp_path, row, commas, semicolons):
    path = write(tmp_path, f"{row}\n" * 10, "x.csv")
    with pytest.raises(DataError) as caught:
        pairs(path)
    assert str(caught.value) == (
        f"{path}: commas and semicolons both split its rows into columns: a row is {commas} with commas, and {semicolons} with "
        "semicolons; add a first line that names the right one: sep=, or sep=;"
    )
    for separator in ",;":
        found, _ = pairs(write(tmp_path, f"sep={separator}\n" + f"{row}\n" * 10, "x.csv"), columns=("0", "1"))
        assert found[0] == tuple(cell.strip() for cell in row.split(separator)[:2])


def test_a_tab_wins_over_commas_that_split_as_many_rows(tmp_path):
    rows = [(f"Hello, yes {i}", f"Hallo, ja {i}") for i in range(10)]
    assert pairs(write(tmp_path, "".join("\t".join(row) + "\n" for row in rows), "x.csv"))[0] == rows


CODE = "".join(f'{i},"def f(x):\n\ty = x\n\tz = y\n",{("good", "bad")[i % 2]}\n' for i in range(40))
TABBED = "".join(f"{('pos', 'neg')[i % 2]},film\tnumber {i} was long\n" for i in range(40))


def test_tabs_in_the_texts_of_a_comma_separated_file(tmp_path):
    for content in ("id,code,label\n" + CODE, CODE):
        found, report = labelled(write(tmp_path, content, "x.csv"), text="1", label="2")
        assert (found[0], len(found)) == (("def f(x):\n\ty = x\n\tz = y", "good"), 40)
        assert report.form == "comma-separated"
    assert labelled(write(tmp_path, "label,text\n" + TABBED, "x.csv"))[0][1] == ("film\tnumber 1 was long", "neg")
    rows = "".join(f"A house {i},Ein\tHaus {i}\n" for i in range(10))
    assert pairs(write(tmp_path, "en,de\n" + rows, "x.csv"))[0][0] == ("A house 0", "Ein\tHaus 0")
    mixed = "".join(f"A house {i},Ein{chr(9) * (i % 3 > 0)}Haus {i}\n" for i in range(10))
    assert pairs(write(tmp_path, mixed, "x.csv"))[0][1] == ("A house 1", "Ein\tHaus 1")


def test_commas_do_not_hide_the_bad_quotes_of_a_tab_separated_file(tmp_path):
    rows = "".join(f'Yes, number {i}\t"Ja" sagte er\n' for i in range(10))
    with pytest.raises(DataError, match="bad quoting"):
        pairs(write(tmp_path, "en\tde\n" + rows, "x.csv"))


def test_a_title_does_not_hide_the_separator(tmp_path):
    with pytest.raises(DataError, match="above the header 'English' and 'German', such as the title 'Vocabulary list'"):
        pairs(write(tmp_path, "Vocabulary list\nEnglish;German\n" + "Well, yes;Ja\nNo;Nein\n" * 5, "x.csv"))


QUOTED = (
    "The quotation marks around cells of x.tsv are read as text; to remove them, set data.format to csv, or write the file "
    "without them."
)
PLAIN = "".join(f"a good film {i}\tpos\na bad film {i}\tneg\n" for i in range(20))


@pytest.mark.parametrize(
    ("content", "last"),
    [
        ('"good film"\t"pos"\n"bad film"\t"neg"\n' * 10, ("bad film", "neg")),
        ('"good, film"\tpos\n"bad ""film"""\tneg\n' * 10, ('bad "film"', "neg")),
    ],
)
def test_quoted_cells_between_tabs(tmp_path, content, last):
    path = tmp_path / "x.tsv"
    path.write_bytes(content.encode())
    _, report = labelled(path, header="no")
    assert f"\n  {QUOTED}\n" in report.render()
    found, report = labelled(path, format="csv", header="no")
    assert found[-1] == last
    assert not report.skipped
    assert not report.advice


@pytest.mark.parametrize(
    "content",
    [
        '"Yes," he said\tpos\n"No," said she\tneg\n' * 10,  # CSV allows no text after a closing quote
        PLAIN + '"good\tpos\na film"\tneg\n',
        PLAIN + '"good\n' + PLAIN,
        PLAIN + '"good film"\tpos\n',
    ],
)
def test_quotation_marks_that_are_text(tmp_path, content):
    _, report = labelled(write(tmp_path, content, "x.tsv"), header="no")
    assert not report.advice


@pytest.mark.parametrize("header", ["", "label, text\n"])
def test_a_space_between_a_comma_and_a_quote(tmp_path, header):
    content = header + 'pos, "good, nice"\nneg, "bad, ""awful"""\npos,  "so, so"\nneg, bad\n' * 10
    found, report = labelled(write(tmp_path, content, "x.csv"), text="1", label="0")
    assert found[:4] == [("good, nice", "pos"), ('bad, "awful"', "neg"), ("so, so", "pos"), ("bad", "neg")]
    assert report.kept == 40
    path = write(tmp_path, header + 'pos, "good film"\nneg, "bad film"\n' * 10, "x.csv")
    assert labelled(path, text="1", label="0", header="yes" if header else "no")[0][0] == ("good film", "pos")
    assert labelled(write(tmp_path, "sep=,\n" + content, "x.csv"), text="1", label="0")[0][0] == ("good, nice", "pos")


def test_a_quote_after_a_comma_in_a_sentence_is_text(tmp_path):
    rows = "".join(f"good film {i},pos\nbad film {i},neg\n" for i in range(20))
    _, report = labelled(write(tmp_path, "text,label\n" + rows + 'He said, "hi" to me,pos\n', "x.csv"))
    assert report.kept == 40
    assert report.skipped[TOO_MANY_COLUMNS].lines == [42]
    rows = "".join(f'"He said, ""hi {i}""",pos\n"bad film {i}",neg\n' for i in range(20))
    assert labelled(write(tmp_path, "text,label\n" + rows, "x.csv"))[0][0] == ('He said, "hi 0"', "pos")


@pytest.mark.parametrize("header", ["en,de\n", ""])
def test_decimal_commas_of_a_target(tmp_path, header):
    lines = [f"Sentence {i} is here,Satz {chr(97 + i % 26)} ist hier\n" for i in range(60)]
    lines[7] = "It costs 3.50,Es kostet 3,50\n"
    found, report = pairs(write(tmp_path, header + "".join(lines), "x.csv"))
    assert len(found) == 59
    assert report.skipped[TOO_MANY_COLUMNS].lines == [8 + bool(header)]
    path = write(tmp_path, "en,de\n" + "".join(f"It costs {i}.50,Es kostet {i},50\n" for i in range(60)), "x.csv")
    with pytest.raises(DataError, match="too many columns"):
        pairs(path)


def test_tabs_with_a_line_that_is_not_a_row(tmp_path):
    rows = [f"Der Film {i} war sehr {('gut', 'lang')[i % 2]}\t{1 + i % 5},5\n" for i in range(59)]
    path = write(tmp_path, "".join([*rows, "Der Film war gut, aber lang\n"]), "x.csv")
    found, report = labelled(path, text="0", label="1")
    assert (report.form, len(found)) == ("tab-separated", 59)
    assert found[0] == ("Der Film 0 war sehr gut", "1,5")


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.txt"])
def test_another_separator_is_named_in_the_first_line(tmp_path, name):
    content = "text|label\n" + "a good day|pos\nbad day|neg\n" * 10
    with pytest.raises(DataError, match=r"if \| separates the columns, add the first line sep=\|, and set data.format to csv"):
        labelled(write(tmp_path, content, name))
    found, _ = labelled(write(tmp_path, "sep=|\n" + content, name), format="csv")
    assert found[0] == ("a good day", "pos")
