"""A folder like that of someone who follows the documentation: data files and small trained models."""

import os
import shutil
from pathlib import Path

import pytest
from end_to_end.conftest import REVIEWS_SMALL, write_pairs, write_reviews

from regard.cli.main import main
from regard.demo import write_digits

_TRANSFORMER = [
    *("--preset=transformer-tiny", "--data.source=en", "--data.target=de", "--device=cpu", "--threads=1"),
    *("--tokenizers.source.size=100", "--tokenizers.target.size=100", "--training.tensorboard=false"),
    *("--model.hidden_size=16", "--model.feed_forward_size=32", "--training.max_steps=20"),
    *("--model.encoder_layers=3", "--model.decoder_layers=3", "--model.num_heads=2", "--decoding.max_length=12"),
]
_LANGUAGE = [
    *("--preset=language-tiny", "--device=cpu", "--threads=1", "--training.tensorboard=false", "--tokenizer.size=100"),
    *("--model.hidden_size=16", "--model.feed_forward_size=32", "--training.max_steps=5", "--generation.max_length=20"),
]

_CAPTIONING = [
    *("--preset=digits", "--device=cpu", "--threads=1", "--training.tensorboard=false", "--training.max_steps=2"),
    *("--model.image_size=16", "--model.decoder.hidden_size=16"),
]
_TAGGING = [
    *("--preset=tagger", "--device=cpu", "--threads=1", "--training.tensorboard=false", "--training.max_steps=2"),
    *("--model.hidden_size=16", "--tokenizer.size=60"),
]


def write_data(folder: Path) -> None:
    """Write the files that the documentation names."""
    write_pairs(folder / "deu.txt")
    write_reviews(folder / "reviews.csv")
    lines = (folder / "deu.txt").read_text(encoding="utf-8").splitlines()
    (folder / "pairs.tsv").write_text("".join(f"{line}\n" for line in lines[:20]), encoding="utf-8")
    (folder / "medicine.tsv").write_text("".join(f"{line}\n" for line in lines[20:60]), encoding="utf-8")
    (folder / "test.tsv").write_text("".join(f"{line}\n" for line in lines[60:]), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.demo.digits.SIZES", {"dev": 12, "test": 5})
        write_digits(folder / "digits", 40)
    names = "Ada\tB-PER\nlived\tO\nin\tO\nNew\tB-LOC\nYork\tI-LOC\n.\tO\n\n"
    (folder / "names.conll").write_text("".join(names.replace("Ada", f"Ada{number}") for number in range(30)), encoding="utf-8")
    texts = [line.partition("\t")[0] for line in lines]
    (folder / "stories.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Path:
    """The folder after the models were trained."""
    folder = tmp_path_factory.mktemp("documentation")
    write_data(folder)
    runs = folder / "runs"
    for task, data, name, settings in (
        ("translation", "deu.txt", "deu", _TRANSFORMER),
        ("classification", "reviews.csv", "reviews", REVIEWS_SMALL),
        ("language", "stories.txt", "stories", _LANGUAGE),
        ("captioning", "digits/train.csv", "digits", _CAPTIONING),
        ("tagging", "names.conll", "names", _TAGGING),
    ):
        assert main(["train", task, f"--data.train={folder / data}", f"--out={runs / name}", *settings]) == 0
    return folder


@pytest.fixture
def workspace(finished, tmp_path, monkeypatch) -> Path:
    """A copy of it, which is the current folder."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", os.fspath(tmp_path / "cache"))
    return tmp_path
