"""A small trained model, made once by the command itself."""

import os
from pathlib import Path

import pytest

from regard.cli.main import main

WORDS = {
    "one": "eins",
    "two": "zwei",
    "red": "rot",
    "blue": "blau",
    "cat": "Katze",
    "dog": "Hund",
    "sees": "sieht",
    "tree": "Baum",
}
SMALL = [
    "--threads=1",
    "--device=cpu",
    "--data.source=en",
    "--data.target=de",
    "--tokenizers.source.kind=words",
    "--tokenizers.target.kind=words",
    "--model.embedding_size=16",
    "--model.encoder.hidden_size=16",
    "--model.decoder.hidden_size=16",
    "--training.max_epochs=2",
    "--training.tensorboard=false",
]


def write_pairs(path: Path, number: int = 80) -> Path:
    """Pairs of three to four words, no two alike."""
    known = list(WORDS)
    lines = []
    for index in range(number):
        chosen = [known[index % 8], known[index // 8 % 8], known[(index + index // 8) % 8], *(["tree"] if index % 3 else [])]
        lines.append(f"{' '.join(chosen)} .\t{' '.join(WORDS[word] for word in chosen)} .\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Keep prepared data out of the user's cache."""
    before = os.environ.get("REGARD_CACHE")
    os.environ["REGARD_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield Path(os.environ["REGARD_CACHE"])
    if before is None:
        del os.environ["REGARD_CACHE"]
    else:
        os.environ["REGARD_CACHE"] = before


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    """A file of pairs."""
    return write_pairs(tmp_path_factory.mktemp("data") / "pairs.tsv")


@pytest.fixture(scope="session")
def run(tmp_path_factory, pairs, cache):
    """The folder of a trained model."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    assert main(["train", "translation", f"--data.train={pairs}", f"--out={folder}", *SMALL]) == 0
    return folder


REVIEWS_SMALL = [
    "--threads=1",
    "--device=cpu",
    "--model.embedding_size=16",
    "--model.hidden_size=16",
    "--training.max_epochs=8",
    "--training.learning_rate=0.02",
    "--training.batch_sentences=16",
    "--training.tensorboard=false",
]


def write_reviews(path: Path, number: int = 120) -> Path:
    """Labelled texts, no two alike, whose label is one word's."""
    nouns = ["film", "plot", "cast", "score", "end", "book"]
    kinds = {"positive": ["fine", "great", "good", "warm"], "negative": ["dull", "poor", "bad", "flat"]}
    lines = []
    for index in range(number):
        label = ("positive", "negative")[index % 2]
        words = [nouns[index // 2 % 6], kinds[label][index // 12 % 4], nouns[(index // 48 + index // 2 + 1) % 6]]
        lines.append(f"the {words[0]} is {words[1]} , so is the {words[2]}{' !' * (index // 24 % 3)}\t{label}\n")
    path.write_text("text\tlabel\n" + "".join(dict.fromkeys(lines)), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def reviews(tmp_path_factory):
    """A file of labelled texts."""
    return write_reviews(tmp_path_factory.mktemp("data") / "reviews.tsv")


@pytest.fixture(scope="session")
def classifier(tmp_path_factory, reviews, cache):
    """The folder of a trained classifier."""
    folder = tmp_path_factory.mktemp("runs") / "reviews"
    assert main(["train", "classification", f"--data.train={reviews}", f"--out={folder}", *REVIEWS_SMALL]) == 0
    return folder


@pytest.fixture
def call(capsys):
    """`call("translate", folder, …)`: run a command that must succeed, and return what it printed."""

    def run_command(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    return run_command
