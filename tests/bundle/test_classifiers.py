"""A classifier's bundle: what comes back, and what is refused or left aside."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.bundle import load_bundle, save_bundle
from regard.bundle.card import render_card
from regard.bundle.signature import checksum_of
from regard.config import (
    BagClassifierConfig,
    CombinedClassifierConfig,
    CountedClassifierConfig,
    RecurrentClassifierConfig,
    WordsConfig,
)
from regard.errors import BundleError
from regard.models.build import build_classifier
from regard.task import Bundle
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.classification.data import ClassifierParts, save_faithfulness
from regard.text.labelled.labels import Labels
from regard.text.tokenizers.resolve import sentence_ends
from regard.text.tokenizers.tokenizer import build_tokenizer


def make(model=None, *, seed: int = 0, temperature: float = 1.5) -> Bundle:
    config = ClassificationConfig(
        tokenizer=WordsConfig(), model=model or RecurrentClassifierConfig(embedding_size=6, hidden_size=5)
    )
    tokenizer = build_tokenizer([["a gripping , honest film .", "a dull one !"]], WordsConfig(), progress=False)
    torch.manual_seed(seed)
    built = build_classifier(
        config.model, vocabulary_size=tokenizer.size, num_labels=3, sentence_ends=sentence_ends(tokenizer.vocabulary())
    )
    labels = Labels(("bad", "good", "so-so"), False, (3, 2, 1))
    facts = {"seed": 1, "data": "abc", "scores": {"accuracy": 0.75}}
    return Bundle(config=config, model=built, parts=ClassifierParts(tokenizer, labels, temperature), signature=facts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_bundle(tmp_path / "reviews", make())
    return tmp_path / "reviews"


def rewrite(folder: Path, name: str, content: str) -> None:
    """Change a file as somebody would who knows of the checksums."""
    (folder / name).write_text(content)
    signature = json.loads((folder / "signature.json").read_text())
    signature["files"][name] = hashlib.sha256(content.encode()).hexdigest()
    (folder / "signature.json").write_text(json.dumps({**signature, "checksum": checksum_of(signature)}) + "\n")


@pytest.mark.parametrize(
    "model",
    [
        RecurrentClassifierConfig(embedding_size=6, hidden_size=5),
        BagClassifierConfig(embedding_size=4),
        CombinedClassifierConfig(counted=CountedClassifierConfig(num_buckets=31)),
    ],
)
def test_what_was_saved_comes_back(tmp_path, model):
    bundle = make(model)
    save_bundle(tmp_path / "one", bundle)
    again = load_bundle(tmp_path / "one")
    assert isinstance(again, Bundle)
    assert (again.config, again.parts.labels) == (bundle.config, bundle.parts.labels)
    assert (again.parts.temperature, again.parts.faithfulness) == (1.5, "")
    saved, loaded = bundle.model.state_dict(), again.model.state_dict()
    assert saved.keys() == loaded.keys()
    assert all(torch.equal(saved[name], loaded[name]) for name in saved)
    save_bundle(tmp_path / "two", bundle)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_a_table_of_counts_that_claims_to_be_huge(tmp_path):
    small = RecurrentClassifierConfig(embedding_size=6, hidden_size=5)
    save_bundle(tmp_path, make(CombinedClassifierConfig(counted=CountedClassifierConfig(num_buckets=31), recurrent=small)))
    config = (tmp_path / "config.yaml").read_text()
    rewrite(tmp_path, "config.yaml", config.replace("num_buckets: 31", "num_buckets: 900000000"))
    planned = r"model\.safetensors holds [\d,]+ numbers, but config\.yaml and the tokenizers need [\d,]{9,}"
    with pytest.raises(BundleError, match=planned):
        load_bundle(tmp_path)


def test_the_card_is_of_a_classifier(folder):
    card = (folder / "README.md").read_text()
    for part in (
        "Classification of texts as bad, good, so-so",
        "text-classification",
        "regard classify DIR",
        "accuracy",
        "0.75",
    ):
        assert part in card


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "it does not hold labels"),
        ("[]", "it does not hold labels"),
        (
            '{"labels": {"names": ["a", "a"], "multiple": false, "counts": [1, 1]}, "temperature": 1}',
            "one of them occurs twice",
        ),
        (
            '{"labels": {"names": ["a"], "multiple": false, "counts": [1]}, "temperature": 0}',
            "temperature is 0.0, expected a number from 0.001",
        ),
        ('{"labels": {"names": ["a"], "multiple": false, "counts": [1]}, "temperature": NaN}', "temperature is nan, expected"),
        ('{"labels": {"names": ["a"], "multiple": false, "counts": [1]}, "temperature": 1}', "has shape"),
    ],
)
def test_labels_that_are_damaged(folder, content, message):
    rewrite(folder, "labels.json", content)
    with pytest.raises(BundleError, match=message):
        load_bundle(folder)


def test_settings_of_another_task_are_refused(folder):
    rewrite(folder, "config.yaml", "task: translation\n")
    with pytest.raises(BundleError, match=r"config.yaml is for translation, but the model's signature is for classification"):
        load_bundle(folder)


def test_faithfulness_counts_for_the_weights_that_it_was_measured_on(folder):
    found = {"sentence": "Its attention points at words that matter.", "texts": 1}
    weights = load_bundle(folder).signature["files"]["model.safetensors"]
    save_faithfulness(folder, found, weights=weights)
    assert load_bundle(folder).parts.faithfulness == "Its attention points at words that matter. Measured on 1 text."
    save_bundle(folder, make(seed=1))
    assert load_bundle(folder).parts.faithfulness == ""
    (folder / "faithfulness.json").unlink()
    with pytest.raises(BundleError, match=r"was replaced by another while it was measured, so the measurement was not saved"):
        save_faithfulness(folder, found, weights=weights)
    assert not (folder / "faithfulness.json").exists()


@pytest.mark.parametrize("content", ["", "[]", '{"sentence": 3}', '{"sentence": "x"}', "[" * 10_000])
def test_faithfulness_that_is_none_is_left_aside(folder, content):
    (folder / "faithfulness.json").write_text(content)
    assert load_bundle(folder).parts.faithfulness == ""


def test_no_faithfulness_without_a_model(tmp_path):
    with pytest.raises(BundleError, match=r"is not a trained model|there is no folder"):
        save_faithfulness(tmp_path / "none", {"sentence": "x"}, weights="")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("![p](http://127.0.0.1/p.png)", r"!\[p\](http\://127.0.0.1/p.png)"),
        ("[a](http://x.org) www.x.org", r"\[a\](http\://x.org) www\.x.org"),
        ("<img src=//x.org/p>", "&lt;img src=//x.org/p>"),
        ("```![p](a)`", r"\`\`\`!\[p\](a)\`"),
        ("*a* _b_ c_d \\ &amp;", r"\*a\* \_b\_ c_d \\ \&amp;"),
    ],
)
def test_a_label_is_text_in_the_card(label, expected):
    bundle = make()
    bundle = replace(bundle, parts=replace(bundle.parts, labels=Labels((label, "good", "so-so"), False, (3, 2, 1))))
    lines = render_card(bundle, {"versions": {"regard": "1"}}).splitlines()
    assert f"# Classification of texts as {expected}, good, so-so" in lines
