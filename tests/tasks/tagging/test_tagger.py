"""Taggers from end to end, on a few sentences: training, bundle, predictor, command line and service."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.attention import ScaledDot
from regard.cli.main import main
from regard.config.loading import load_config
from regard.errors import ConfigError, DataError, RequestError
from regard.export.onnx import export_onnx
from regard.serve.app import build_app
from regard.task import Files, Text
from regard.tasks.tagging.commands import EvaluateTagger, Tag

PEOPLE, PLACES = ["Ada", "Grace", "Alan", "Emmy", "Kurt"], ["Rome", "Paris", "New York", "Oslo"]
SETTINGS = {
    "task": "tagging",
    "tokenizer": {"kind": "bpe", "size": 40},
    "model": {"embedding_size": 24, "hidden_size": 16, "embedding_dropout": 0.1, "output_dropout": 0.1},
    "training": {"max_epochs": 4, "batch_tokens": 50, "learning_rate": 0.02, "tensorboard": False, "precision": "float32"},
    "threads": 1,
}


def conll(count: int, seed: int) -> str:
    """Return sentences about people and places."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        person, place = str(random.choice(PEOPLE)), str(random.choice(PLACES))
        verb = str(random.choice(["lives in", "left", "likes", "flew to"]))
        places = [(word, "I-LOC" if number else "B-LOC") for number, word in enumerate(place.split())]
        words = [(person, "B-PER"), *((word, "O") for word in verb.split()), *places, (".", "O")]
        rows.append("\n".join(f"{word}\t{tag}" for word, tag in words))
    return "\n\n".join(rows) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tags")
    for name, count, seed in (("train", 120, 1), ("dev", 20, 2), ("test", 20, 3)):
        (made / f"{name}.conll").write_text(conll(count, seed))
    return made


@pytest.fixture(scope="module")
def settings(folder):
    data = {name: [str(folder / f"{name}.conll")] for name in ("train", "dev")}
    return {**SETTINGS, "data": {**data, "cache": str(folder / "cache")}, "out": str(folder / "run")}


@pytest.fixture(scope="module")
def tagger(settings):
    return regard.fit(load_config(settings), progress=False)


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")

    def command(*arguments):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
        return code, *capsys.readouterr()

    return command


def test_it_finds_names_with_their_places_in_the_text(tagger):
    [found] = tagger.tag(["Ada flew  to New York."])
    assert found.words == ("Ada", "flew", "to", "New", "York", ".")
    assert found.tags == ("B-PER", "O", "O", "B-LOC", "I-LOC", "O")
    assert [(span.text, span.label, span.start, span.end) for span in found.spans] == [
        ("Ada", "PER", 0, 3),
        ("New York", "LOC", 13, 21),
    ]
    assert (found.probabilities > 0.5).all()
    assert repr(found) == "TaggedText('Ada flew  to New York.' → 'Ada (PER); New York (LOC)')"
    assert tagger.bundle.signature["scores"]["f1"] > 0.9


def test_lists_of_words_texts_with_spaces_and_single_sentences_agree(tagger):
    words = ["Emmy", "left", "Oslo", "."]
    forms = [words, "Emmy left Oslo.", tuple(words)]
    found = tagger.tag(forms)
    assert {(one.words, one.tags) for one in found} == {(tuple(words), found[0].tags)}
    [alone] = tagger.tag(["Emmy left Oslo ."], spaces=True)
    np.testing.assert_allclose(alone.probabilities, found[0].probabilities, atol=1e-6)
    assert tagger.tag(["Emmy left Oslo."], spaces=True)[0].words == ("Emmy", "left", "Oslo.")
    assert [one.tags for one in tagger.tag(["", [], "   "])] == [()] * 3
    assert tagger.tag([""])[0].attention is None


def test_a_record_has_a_row_for_each_tag(tagger, tmp_path):
    [found] = tagger.tag(["Ada flew to New York."])
    record = found.attention
    assert record.target_words == ("Ada/B-PER", "flew/O", "to/O", "New/B-LOC", "York/I-LOC", "./O")
    assert record.source_words == found.words
    assert len(record.source_tokens) > 6  # subwords
    assert record.matrix().shape == (6, 6)
    np.testing.assert_allclose(record.matrix().sum(1), 1, atol=1e-5)
    for name in ("map.png", "map.html", "map.json"):
        record.save(tmp_path / name)
    assert "which words the model attended to when it chose the tag of that word" in (tmp_path / "map.html").read_text()
    assert tagger.tag(["Ada left Oslo."], record=())[0].attention is None


def test_long_sentences_are_tagged_in_parts_and_never_cut(tagger):
    words = ["Ada", "left", "Rome", "."] * 200
    [found] = tagger.tag([words])
    assert len(found.words) == len(found.tags) == 800
    assert found.tags.count("B-LOC") > 150
    weights = found.attention.weights["tag"]
    assert weights.shape == (800, len(found.attention.source_tokens))
    assert not weights[0, 256:].any()  # a part reads at most data.max_tokens tokens
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)
    [odd] = tagger.tag(["x" * 10_000 + " left Rome ."], spaces=True)
    assert len(odd.tags) == 4


def test_saved_and_loaded_it_predicts_the_same(tagger, settings):
    loaded = regard.load(settings["out"])
    first, second = (model.tag(["Kurt likes Paris."])[0] for model in (tagger, loaded))
    assert first.tags == second.tags
    np.testing.assert_array_equal(first.probabilities, second.probabilities)
    np.testing.assert_array_equal(first.attention.matrix(), second.attention.matrix())
    assert repr(loaded).startswith("Tagger(4 tags: 'B-LOC', 'B-PER', 'I-LOC', 'O'; model: TextTagger")
    assert loaded.facts() == {"tags": ["B-LOC", "B-PER", "I-LOC", "O"]}


def test_evaluation_equals_the_scores_of_its_tags(tagger, folder):
    found = EvaluateTagger().run(tagger, Files(str(folder / "test.conll")))
    assert found.f1 > 0.9
    assert {one.label for one in found.labels} == {"LOC", "PER"}
    sentences, tags = [["Ada", "left", "Oslo"], ["Mars"]], [["B-PER", "O", "B-ORG"], ["B-PLANET"]]
    found = tagger.evaluate(sentences, tags)
    assert found.unknown == ("B-ORG", "B-PLANET")
    assert found.accuracy == 0.5
    known = tagger.tag(sentences, record=())[0].probabilities[:2]
    np.testing.assert_allclose(found.loss, -np.log(known).mean(), rtol=1e-5)
    assert "tags that the model does not know: B-ORG, B-PLANET" in found.render()
    assert tagger.evaluate(map(np.array, sentences), map(np.array, tags)) == found
    odd, outside = (tagger.evaluate([["Ada", "left", "Oslo"]], [named]) for named in (["B-PER", "_", "B-ORG"], ["O"] * 3))
    assert (odd.spans, odd.f1, outside.spans, outside.f1) == (True, 0.5, True, 0)
    for wrong, message in (
        (([["a"]], [["O", "O"]]), "sentence 1 has 1 words and 2 tags"),
        (([], []), "got 0 sentences and 0 tags"),
    ):
        with pytest.raises(RequestError, match=message):
            tagger.evaluate(*wrong)


@pytest.mark.parametrize("given", ["Ada", [3], [None], [["Ada", 3]]])
def test_other_input_is_refused(tagger, given):
    with pytest.raises(RequestError, match=r"expected a list of texts|expected a str"):
        tagger.tag(given)


def test_weights_that_are_not_finite_are_refused(tagger):
    with torch.no_grad():
        bias, old = tagger.model.output.bias, tagger.model.output.bias.clone()
        bias.fill_(float("nan"))
        with pytest.raises(RequestError, match="the tagger's scores are not finite"):
            tagger.tag(["Ada"])
        bias.copy_(old)


def test_the_command_line_has_it(tagger, settings, folder, run, tmp_path):
    out = settings["out"]
    assert run("tag", out, "Ada left New York.")[:2] == (0, "Ada\tB-PER\nleft\tO\nNew\tB-LOC\nYork\tI-LOC\n.\tO\n\n")
    code, text, _ = run("tag", out, "Ada left Oslo .", "--spaces", "--json")
    plain = json.loads(text)
    assert (code, plain["tags"], plain["spans"][1]) == (
        0,
        ["B-PER", "O", "B-LOC", "O"],
        {"text": "Oslo", "label": "LOC", "start": 9, "end": 13},
    )
    code, text, _ = run("look", out, "Ada left Oslo.", "--to", tmp_path / "map.png")
    assert (code, text) == (0, f"written to {tmp_path / 'map.png'}: Ada/B-PER left/O Oslo/B-LOC ./O\n")
    code, text, err = run("look", out, "Ada left Oslo.")
    assert (code, "Oslo/B-LOC" in text) == (0, True), err
    code, text, err = run("evaluate", out, folder / "test.conll", "--json")
    assert (code, json.loads(text)["f1"] > 0.9) == (0, True), err
    # A table gets columns, and what is printed can be evaluated again.
    (tmp_path / "letters.csv").write_text("id,text\n1,Ada left Oslo.\n2,\n")
    assert run("tag", out, "--input", tmp_path / "letters.csv", "--output", tmp_path / "tagged.csv")[0] == 0
    rows = (tmp_path / "tagged.csv").read_text().splitlines()
    assert rows[:2] == ["id,text,tags,spans", "1,Ada left Oslo.,B-PER O B-LOC O,Ada (PER); Oslo (LOC)"]
    (tmp_path / "lines.txt").write_text("Ada left Oslo.\nGrace likes Rome.\n")
    assert run("tag", out, "--input", tmp_path / "lines.txt", "--output", tmp_path / "lines.conll")[0] == 0
    code, text, err = run("evaluate", out, tmp_path / "lines.conll", "--json")
    assert (code, json.loads(text)["accuracy"]) == (0, 1.0), err
    code, text, err = run("info", out)
    assert (code, "tagger" in text, "B-LOC, B-PER, I-LOC, O" in text) == (0, True, True), err
    code, _, err = run("export", out, "--to", tmp_path / "onnx")
    assert (code, "a TextTagger cannot be exported to ONNX" in err) == (2, True), err
    code, _, err = run("page", out, "--to", tmp_path / "page.html")
    assert (code, "Traceback" in err) == (2, False), err


def test_the_service_has_it(tagger, settings):
    from starlette.testclient import TestClient

    app = build_app({"names": Path(settings["out"])}, load=lambda folder: tagger)
    with TestClient(app, base_url="http://127.0.0.1") as web:
        [answer] = web.post("/v1/tag", json={"texts": ["Ada left Oslo ."], "spaces": True}).json()["results"]
        assert answer["tags"] == ["B-PER", "O", "B-LOC", "O"]
        [record] = web.post("/v1/attention", json={"texts": ["Ada left Oslo."]}).json()["records"]
        assert regard.AttentionRecord.from_json(json.dumps(record)).matrix().shape == (4, 4)


def test_transformers_words_and_own_attention(settings, folder):
    model = {"kind": "transformer", "embedding_size": 16, "num_heads": 2, "num_layers": 1, "feed_forward_size": 16}
    short = {"training": {"max_epochs": 1}, "tokenizer": {"kind": "whitespace"}}
    found = regard.fit(load_config({**settings, "model": model, "out": str(folder / "transformer")}, short), progress=False)
    [one] = found.tag(["Ada left Oslo."], record=found.model.sites)
    assert {site: weights.shape for site, weights in one.attention.weights.items()} == {"tag": (4, 4), "encoder.0": (2, 4, 4)}
    assert one.attention.matrix().shape == (4, 4)
    own = regard.fit(load_config({**settings, "out": str(folder / "own")}, short), attention=ScaledDot(32), progress=False)
    assert own.bundle.custom == "attention"
    assert type(regard.load(folder / "own", attention=ScaledDot(32)).model.attention) is ScaledDot


def test_a_model_of_other_tags_is_refused(settings, folder, tagger):
    size, tags = tagger.tokenizer.size, len(tagger.tags)
    for sizes, message in (
        ((size, tags + 1), f"model gives scores to {tags + 1} tags, but the data has {tags}"),
        ((size - 1, tags), f"model cannot read a vocabulary of {size} tokens"),
    ):
        model = regard.build_tagger(tagger.config.model, vocabulary_size=sizes[0], num_tags=sizes[1])
        with pytest.raises(ConfigError, match=message):
            regard.fit(load_config({**settings, "out": str(folder / "other")}), model=model, progress=False)


def test_parts_of_speech_have_an_accuracy(settings, folder):
    rows = [
        [{"tokens": ["dogs", "bark"], "tags": ["NOUN", "VERB"]}, {"tokens": ["a", "dog"], "tags": ["DET", "NOUN"]}][i % 2]
        for i in range(40)
    ]
    (folder / "pos.jsonl").write_text(
        "\n".join(
            json.dumps({**row, "tokens": [*row["tokens"], str(i)], "tags": [*row["tags"], "NUM"]}) for i, row in enumerate(rows)
        )
    )
    data = {"train": [str(folder / "pos.jsonl")], "dev_size": 4, "cache": str(folder / "cache")}
    found = regard.fit(
        load_config({**settings, "data": data, "out": str(folder / "pos")}, {"training": {"batch_tokens": 12}}), progress=False
    )
    scores = found.bundle.signature["scores"]
    assert (scores["spans"], scores["accuracy"] > 0.8, scores["f1"]) == (False, True, scores["accuracy"])
    [one] = found.tag(["dogs bark"])
    assert (one.tags, one.spans) == (("NOUN", "VERB"), ())


def test_dev_sentences_without_spans_have_an_f1_of_0(settings, folder):
    (folder / "outside.conll").write_text("left\tO\n.\tO\n")
    data = {**settings["data"], "dev": [str(folder / "outside.conll")]}
    training = {"training": {"monitor": "f1"}}
    found = regard.fit(load_config({**settings, "data": data, "out": str(folder / "dry")}, training), progress=False)
    assert (found.bundle.signature["scores"]["spans"], found.bundle.signature["scores"]["f1"]) == (True, 0)


def test_it_can_be_trained_further_on_the_same_tags_only(tagger, settings, folder):
    (folder / "more.conll").write_text(conll(12, 5))
    changes = {
        "data.train": [str(folder / "more.conll")],
        "data.dev": [],
        "data.dev_size": 0,
        "out": str(folder / "more"),
        "training.max_epochs": 1,
    }
    tuned = regard.fit(changes, start_from=settings["out"], progress=False)
    assert tuned.tags.names == tagger.tags.names
    (folder / "new.conll").write_text(conll(12, 5) + "\nMars\tB-PLANET\n")
    with pytest.raises(DataError, match="label 'B-PLANET' is unknown; the model knows 'B-LOC'"):
        regard.fit(
            {**changes, "data.train": [str(folder / "new.conll")], "out": str(folder / "new")},
            start_from=settings["out"],
            progress=False,
        )


def test_a_model_is_refused_by_exports_and_wrong_settings_by_name(tagger, settings, tmp_path):
    with pytest.raises(RequestError, match="a TextTagger cannot be exported to ONNX"):
        export_onnx(settings["out"], tmp_path / "onnx")
    wrong = {**settings, "model": {"kind": "transformer", "embedding_size": 10, "num_heads": 4}}
    with pytest.raises(ConfigError, match=r"model\.num_heads is 4, expected a divisor of model\.embedding_size \(10\)"):
        load_config(wrong)
    with pytest.raises(ConfigError, match=r"data\.columns names 1, expected two"):
        load_config({**settings, "data": {"columns": ["0"]}})


def test_the_operation_gives_a_result_for_each_text(tagger):
    found = Tag().run(tagger, [Text("Ada left Oslo."), Text("")], record=())
    assert [Tag().cells(one) for one in found] == [("B-PER O B-LOC O", "Ada (PER); Oslo (LOC)"), ("", "")]
    assert Tag().headline(found[0]) == "Ada/B-PER left/O Oslo/B-LOC ./O"
