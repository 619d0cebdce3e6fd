"""`regard train` on files as people have them: the right columns, or one message that says what to set."""

import json
import re
from dataclasses import replace

import pytest

import regard
from regard.cli.main import main
from regard.export.page.examples import choose_examples
from regard.task import find_task

SMALL = ["--threads=1", "--device=cpu", "--training.max_epochs=1", "--training.tensorboard=false", "--model.embedding_size=8"]
PAIRS = [*SMALL, "--model.encoder.hidden_size=8", "--model.decoder.hidden_size=8"]
NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
ROWS = [(f"She saw {a} dogs and {b} cats .", f"Elle a vu {b} chats et {a} chiens .") for a in NUMBERS for b in NUMBERS]


def train(task, file, out, *arguments):
    more = PAIRS if task == "translation" else [*SMALL, "--model.hidden_size=8"] if task == "classification" else SMALL[:-1]
    return main(["train", task, f"--data.train={file}", f"--out={out}", *more, *arguments])


def test_the_columns_of_a_spreadsheet_of_sentences(tmp_path, capsys):
    file = tmp_path / "phrases.csv"
    file.write_text("id;Anglais;note;Français\r\n" + "".join(f"{i};{a};;{b}\r\n" for i, (a, b) in enumerate(ROWS)), "utf-8-sig")
    assert train("translation", file, tmp_path / "run") == 0
    out = "".join(capsys.readouterr())
    assert "semicolon-separated, columns Anglais and Français" in out
    data = regard.load(tmp_path / "run", device="cpu").config.data
    assert (data.source, data.target) == ("Anglais", "Français")
    assert "from Anglais to Français" in (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    assert f'first pair: "{ROWS[0][0]}" → "{ROWS[0][1]}"' in out


def test_the_columns_of_a_spreadsheet_of_reviews(tmp_path, capsys):
    file = tmp_path / "reviews.csv"
    rows = "".join(f"{i},{a},{'good' if i % 2 else 'bad'}\n" for i, (a, _) in enumerate(ROWS))
    file.write_text("id,Review Text,Sentiment\n" + rows + "64,What is it ?,NaN\n")
    assert train("classification", file, tmp_path / "run") == 0
    out = "".join(capsys.readouterr())
    assert "columns Review Text and Sentiment" in out
    assert f'first text: "{ROWS[0][0]}" with the label "bad"' in out
    assert "skipped 1: missing label" in out
    assert "2 labels: " in out


def test_a_table_to_classify_is_read_by_the_column_that_training_found(tmp_path, capsys):
    file, new = tmp_path / "feedback.csv", tmp_path / "new.csv"
    file.write_text("ticket,said,mood\n" + "".join(f"{i},{a},{'good' if i % 2 else 'bad'}\n" for i, (a, _) in enumerate(ROWS)))
    assert train("classification", file, tmp_path / "run") == 0
    assert "columns said and mood" in "".join(capsys.readouterr())
    new.write_text(f"ticket,note,said\n7,urgent,{ROWS[0][0]}\n")
    assert main(["classify", str(tmp_path / "run"), f"--input={new}", "--device=cpu"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header == "ticket,note,said,label,probability"
    assert row.startswith(f"7,urgent,{ROWS[0][0]},")


@pytest.mark.parametrize(
    ("task", "name", "content", "message"),
    [
        ("translation", "x.csv", "id,Anglais\n" + "".join(f"{i},{a}\n" for i, (a, _) in enumerate(ROWS)), "--data.columns"),
        ("classification", "x.csv", "".join(f"{i % 4},{a},{b}\n" for i, (a, b) in enumerate(ROWS)), "--data.text"),
        (
            "translation",
            "x.tsv",
            "".join(f"{a} é\t{b}\n" for a, b in ROWS).encode("cp1252"),
            "set data.encoding to the encoding that reads this line right: cp1252 ",
        ),
    ],
    ids=["a row number", "two texts", "another encoding"],
)
def test_files_that_are_refused(tmp_path, capsys, task, name, content, message):
    file, out = tmp_path / name, tmp_path / "run"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert train(task, file, out) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("task", ["classification", "language"])
def test_dev_texts_that_training_holds(tmp_path, capsys, task):
    file = tmp_path / "x.tsv"
    rows = [f"{a}\t{'good' if i % 2 else 'bad'}" if task == "classification" else a for i, (a, _) in enumerate(ROWS)]
    file.write_text("\n".join(rows))
    arguments = ["--preset=language-tiny"] if task == "language" else []
    assert train(task, file, tmp_path / "run", f"--data.dev={file}", *arguments) == 0
    out = "".join(capsys.readouterr())
    assert "warning: all 64 dev texts are in the training data too" in out
    assert f'first text: "{ROWS[0][0]}"' in out


def test_a_page_offers_held_out_texts(run, classifier, pairs, reviews, tmp_path):
    """They are those that the model was validated on; without the files, nothing is refused."""
    for folder, file, column in ((run, pairs, 0), (classifier, reviews, 0)):
        predictor = regard.load(folder, device="cpu")
        texts = {line.split("\t")[column] for line in file.read_text(encoding="utf-8").splitlines()}
        dev, held_out = find_task(predictor.config.task).training.held_out(predictor.config, predictor.bundle.parts)
        examples, trained = choose_examples([predictor])
        assert held_out
        assert not trained
        assert 1 <= len(examples) <= 6
        assert set(examples) <= set(dev) <= texts
    moved = replace(predictor.config, data=replace(predictor.config.data, train=(str(tmp_path / "gone.tsv"),)))
    predictor.bundle = replace(predictor.bundle, config=moved)
    assert not set(choose_examples([predictor]).texts) & texts


def test_a_page_offers_training_texts_if_nothing_was_held_out(tmp_path, capsys):
    """Built-in English reviews say nothing about a model for German questions."""
    file, page = tmp_path / "fragen.tsv", tmp_path / "page.html"
    texts = [f"Wo sind die {number} Hunde ?" for number in range(20)]
    file.write_text("".join(f"{text}\t{'Ort' if i % 2 else 'Zahl'}\n" for i, text in enumerate(texts)), encoding="utf-8")
    assert train("classification", file, tmp_path / "run", "--data.dev_size=0", "--tokenizer.kind=characters") == 0
    capsys.readouterr()
    assert main(["page", str(tmp_path / "run"), "--to", str(page)]) == 0
    examples = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"))[1])["examples"]
    assert 1 <= len(examples) <= 6
    assert set(examples) <= set(texts)
    assert "the model was trained on the examples of the page" in capsys.readouterr().err
