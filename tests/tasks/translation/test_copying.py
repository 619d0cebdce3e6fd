"""Translators that copy names, from the data to the record, on a task that a small model learns in seconds."""

import random
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

import regard
from regard.config.loading import load_config
from regard.errors import ConfigError, DataError, RequestError
from regard.records import AttentionRecord
from regard.tasks.loading import load
from regard.tasks.translation.predict import Translator
from regard.text.copying import Copier
from regard.text.tokenizers.tokenizer import build_tokenizers
from regard.training import resume
from regard.viz import terminal

WORDS = {"sees": "sieht", "calls": "ruft", "finds": "findet", "red": "rote", "old": "alte", "cat": "Katze", "aunt": "Tante"}
VERBS, ADJECTIVES, NOUNS = ["sees", "calls", "finds"], ["red", "old"], ["cat", "aunt"]


def write_pairs(path, number=160):
    """`Kalo sees the old cat .`, with a name that occurs once, and `and` between two such names in some pairs."""
    draw, seen = random.Random(3), set()
    lines = []
    while len(lines) < number:
        first, second = ("".join(draw.choices(["ka", "lo", "ri", "ve", "tu", "mi"], k=4)).capitalize() for _ in range(2))
        if {first, second} & seen or first == second:
            continue
        seen |= {first, second}
        words = [draw.choice(VERBS), draw.choice(ADJECTIVES), draw.choice(NOUNS)]
        verb, adjective, noun = words if len(lines) % 2 else [words[0], words[1], ""]
        source = f"{first} {verb} the {adjective} {noun or second} ."
        lines.append(f"{source}\t{first} {WORDS[verb]} die {WORDS[adjective]} {WORDS[noun] if noun else second} .\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copying")
    return {
        "task": "translation",
        "data.train": [str(write_pairs(folder / "pairs.tsv"))],
        "data.source": "en",
        "data.target": "de",
        "data.dev_size": 8,
        "data.cache": str(folder / "cache"),
        "tokenizers.source": {"kind": "words", "min_count": 2},
        "tokenizers.target": {"kind": "words", "min_count": 2},
        "model": {
            "kind": "recurrent",
            "copy": True,
            "embedding_size": 24,
            "encoder": {"hidden_size": 24},
            "decoder": {"kind": "luong", "hidden_size": 32},
        },
        "training.batch_tokens": 96,
        "training.max_epochs": 12,
        "training.learning_rate": 1e-2,
        "training.tensorboard": False,
        "training.validation_pairs": 3,
        "device": "cpu",
        "threads": 1,
        "out": str(folder / "run"),
    }


@pytest.fixture(scope="module")
def translator(settings):
    return regard.fit(load_config(settings), progress=False)


def test_names_that_training_never_saw(translator):
    [one, two] = translator.translate(["Bordo sees the old cat.", "Xyz calls the red Bordo."], beam_size=3)
    assert (one.text, two.text) == ("Bordo sieht die alte Katze.", "Xyz ruft die rote Bordo.")
    record = one.attention
    assert record.target_words == ("Bordo", "sieht", "die", "alte", "Katze", ".")
    assert record.target_tokens[0] == "Bordo"
    view = record.view()
    assert not any(view.unknown_rows)
    assert view.unknown_columns[0]  # in the source, it is unknown
    assert len(record.p_gen) == len(one.token_log_probabilities)
    assert record.p_gen[0] < 0.3 < 0.7 < min(record.p_gen[1:5])
    assert view.p_gen[:6] == pytest.approx(record.p_gen[:6])
    again = load(translator.bundle.config.out, "cpu").translate(["Bordo sees the old cat."], beam_size=3)[0]
    assert (again.text, again.log_probability) == (one.text, pytest.approx(one.log_probability))


def test_given_targets_have_the_scores_of_the_search(translator):
    text = "Bordo calls the old Xyz."
    [found] = translator.translate([text])
    [forced] = translator.force([text], [found.text])
    assert forced.log_probability == pytest.approx(found.log_probability, abs=1e-4)
    assert forced.attention.p_gen == pytest.approx(found.attention.p_gen, abs=1e-4)
    assert translator.score([text], [found.text])[0].log_probability > -2
    [other] = translator.score([text], ["Nobody ruft die alte Xyz."])  # a word that the source lacks is the unknown symbol
    assert other.log_probability < -5


def test_no_p_gen_without_attention(translator):
    [one] = translator.translate(["Bordo sees the old cat."], record=())
    assert (one.text, one.attention) == ("Bordo sieht die alte Katze.", None)
    [empty] = translator.translate([""])
    assert (empty.text, len(empty.attention.p_gen)) == ("", 1)


def test_texts_in_parts_copy_from_their_own_part(translator):
    config = translator.config
    short = replace(config, data=replace(config.data, max_tokens=7))
    text = "Bordo sees the old cat. Xyz calls the red aunt. Wukk finds the old Bordo."
    [one] = Translator(replace(translator.bundle, config=short)).translate([text])
    assert one.text == "Bordo sieht die alte Katze. Xyz ruft die rote Tante. Wukk findet die alte Bordo."
    assert len(one.attention.p_gen) == len(one.attention.target_tokens) == 21


def test_required_words_are_copied(translator):
    text = "Bordo calls the old Xyz."
    [one] = translator.translate([text], constraints=[["Xyz"]], beam_size=4)
    assert one.text == "Bordo ruft die alte Xyz."
    [one] = translator.translate([text], prefix="Xyz", beam_size=4)
    assert one.text.startswith("Xyz")
    assert one.attention.target_tokens[0] == "Xyz"
    drawn = translator.translate([text], sampling=regard.decoding.Sampling(count=3))[0]
    assert len(drawn.alternatives) == 2


def test_pictures_have_a_column(translator, tmp_path, capsys):
    record = translator.translate(["Bordo sees the old cat."])[0].attention
    terminal.render(record)
    printed = " ".join(capsys.readouterr().out.split())
    assert "p_gen" in printed
    assert "The last column, p_gen, is the probability that the step generated the word from the vocabulary" in printed
    for ending in (".png", ".html", ".json", ".npz"):
        record.save(tmp_path / f"map{ending}")
    assert "The last column, p_gen," in (tmp_path / "map.html").read_text(encoding="utf-8")
    for ending in (".json", ".npz"):
        assert regard.load_record(tmp_path / f"map{ending}") == record
    with pytest.raises(DataError, match="expected a number from 0 to 1 for each of the 7 target_tokens"):
        AttentionRecord(**{**vars(record), "p_gen": (2.0,) * len(record.p_gen)})


def test_a_resumed_run_gives_the_same_bytes(settings, tmp_path):
    short = settings | {"training.max_epochs": 2}
    regard.fit(load_config(short | {"out": str(tmp_path / "whole")}), progress=False)
    regard.fit(load_config(short | {"out": str(tmp_path / "parts"), "training.max_epochs": 1}), progress=False)
    resume(tmp_path / "parts", overrides={"training.max_epochs": 2}, progress=False)
    whole, parts = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert whole == parts


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"tokenizers.source.kind": "bpe"}, ConfigError, "tokenizers.source.kind is 'bpe', which spells unknown words"),
        (
            {"tokenizers.source.min_count": 1, "tokenizers.target.min_count": 1},
            DataError,
            "no training pair has a word to copy",
        ),
        ({"training.consistency.kind": "r_drop"}, ConfigError, "needs training.consistency.kind none"),
        ({"distillation.teachers": ["runs/one"]}, ConfigError, "a student of teachers cannot copy"),
    ],
)
def test_settings_that_cannot_copy(settings, tmp_path, change, error, message):
    flat = {
        f"tokenizers.{side}.{name}": value
        for side in ("source", "target")
        for name, value in settings[f"tokenizers.{side}"].items()
    }
    others = {name: value for name, value in settings.items() if not name.startswith("tokenizers")}
    with pytest.raises(error, match=message):
        regard.fit(load_config(others | flat | change | {"out": str(tmp_path / "none")}), progress=False)
    assert not (tmp_path / "none").exists()


def test_what_copying_models_refuse(translator):
    with pytest.raises(RequestError, match="neither attributions nor measures of faithfulness"):
        translator.attribute(["Bordo sees the old cat."], ["gradients"])
    with pytest.raises(RequestError, match=r"copies source words \(model.copy\), which CTranslate2"):
        translator.translate(["Bordo sees the old cat."], engine="ctranslate2")


def test_ids_of_words():
    texts = [(["the Cat sees Ann and Ann"], ["die Katze sieht"])]
    config = regard.config.TokenizersConfig(
        source=regard.config.WordsConfig(), target=regard.config.WordsConfig(lowercase=True)
    )
    source, target = build_tokenizers(iter(texts), config, regard.config.DataConfig())
    copier, size = Copier(source, target), target.size
    words = copier.source.split("Ann, DIE ann and Bob")
    assert words == ["Ann", ",", "DIE", "ann", "and", "Bob"]
    assert copier.ids(words) == [size, size + 1, target.look_up("die")[1], size, size + 4, size + 5]
    assert copier.extended([1, 1, 7], ["bob", "Eve", "x"], words) == [size + 5, 1, 7]
    both = copier.encoded(np.array([5, 3]), ["Ann"])
    assert both.tolist() == [[5, size], [3, 3]]
    assert list(islice(words, 2)) == ["Ann", ","]
    characters = regard.config.TokenizersConfig(
        source=regard.config.CharactersConfig(), target=regard.config.WordsConfig(lowercase=True)
    )
    with pytest.raises(ConfigError, match="the tokenizer of the source is of kind 'characters'"):
        Copier(*build_tokenizers(iter(texts), characters, regard.config.DataConfig()))
