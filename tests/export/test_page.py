"""Writing a page: what is in it, what is refused, and in which words. What it does is tested in a browser."""

import gzip
import hashlib
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from export.page_models import make_classifier, make_translator

import regard
from regard.cli.main import main
from regard.config import AttentionConfig, PoolingConfig
from regard.errors import RegardError, RequestError
from regard.export.page import write_page
from regard.export.page.contents import describe_tokenizer, read_contents
from regard.export.page.examples import _choose, _known_spelling, choose_examples
from regard.export.page.join import join_modules, read_file, read_library
from regard.text.symbols import UNKNOWN
from regard.text.tokenizers.pretrained import PretrainedScheme
from regard.text.tokenizers.schemes import SpacyScheme


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    make_translator(folder / "recurrent")
    make_classifier(folder / "reviews", "words")
    return folder


def test_a_page_holds_the_model_and_the_command_gives_the_same_page(runs, tmp_path, capsys):
    title, examples = "Dogs & cats", ["A dog.", "The dog.", "The cat."]
    page = write_page(runs / "recurrent", tmp_path / "deep" / "page.html", title=title, examples=examples)
    text = page.path.read_text()
    assert page.size == len(text.encode())
    assert page.models == ("recurrent",)
    assert set(re.findall(r'id="blob-([^"]+)"', text)) == {"0-encoder", "0-step", "onnxruntime"}
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
    assert (data["title"], data["examples"]) == (title, examples)
    assert "<title>Dogs &amp; cats</title>" in text
    assert data["models"][0]["task"] == "translation"
    assert data["onnxruntime"]["license"] == "MIT"
    assert "Content-Security-Policy\" content=\"default-src 'none'; " in text
    (tmp_path / "examples.txt").write_text("The dog.\n\nThe cat.\n")
    again = tmp_path / "again.html"
    arguments = ["page", str(runs / "recurrent"), "--to", str(again), "--example", "A dog.", "--examples"]
    assert main([*arguments, str(tmp_path / "examples.txt"), "--title", title]) == 0
    assert f"{again}: " in capsys.readouterr().out
    assert re.sub(r'id="blob-0.*', "", again.read_text()) == re.sub(r'id="blob-0.*', "", text)


def test_the_page_has_the_formula_of_each_score():
    """Kinds whose weights are more than a normalizer of one score per key have no formula on the page."""
    text = read_file("js/pipeline.js").decode()
    scored, pooled = (
        set(re.findall(r"(\w+): \"", re.search(rf"const {name} = (\{{.*?\}});", text, re.S)[1]))
        for name in ("SCORES", "POOLED")
    )
    others = {"monotonic", "hard_monotonic", "mocha", "hard_mocha", "linear_attention", "gated_delta_net"}
    others |= {"differential_attention", "forgetting_attention", "contextual_position_attention", "latent_attention"}
    mechanisms, poolings = (
        {kind for kind, cls in family.kinds().items() if cls.__module__.startswith("regard.")}
        for family in (AttentionConfig, PoolingConfig)
    )
    assert (scored | others, pooled) == (mechanisms, poolings)


def test_the_page_knows_whether_weights_sum_to_one(runs, tmp_path):
    pooling = {"kind": "linear", "normalizer": {"kind": "sigmoid"}}
    run = make_classifier(tmp_path / "sigmoid", "words", pooling=pooling)
    for folder, expected in ((run, False), (runs / "reviews", True), (runs / "recurrent", True)):
        assert read_contents(regard.load(folder, device="cpu"), "x")[0]["normalized"] is expected


def test_examples_are_texts_whose_words_the_models_know(runs):
    translator = regard.load(runs / "recurrent", device="cpu")
    known, trained = choose_examples([translator])
    assert not trained
    assert 0 < len(known) <= 6
    assert all(1 not in translator.bundle.parts.source.encode(text).ids for text in known)


def test_an_example_shows_where_attention_and_decision_differ():
    texts = [f"{'one ' * size}two ." for size in range(2, 12)]
    tokenizer = SimpleNamespace(encode=lambda text: SimpleNamespace(ids=[9]))
    apart = {texts[0]: 0.5, texts[3]: 0.2}
    predictor = SimpleNamespace(disagreement=lambda text: apart.get(text, 0.0))
    examples = _choose(texts, tokenizer, predictor)
    assert texts[0] in examples  # otherwise, the shortest texts are not chosen
    assert len(examples) <= 6
    apart[texts[0]] = apart[texts[3]] = 0.05
    assert texts[0] not in _choose(texts, tokenizer, predictor)
    assert texts[-1] in _choose(texts, tokenizer, predictor)  # one long text


def test_texts_that_are_too_long_are_cut_after_a_word():
    tokenizer = SimpleNamespace(encode=lambda text: SimpleNamespace(ids=[9]))
    predictor = SimpleNamespace(disagreement=lambda text: 0.0)
    assert _choose(["Hunde " * 60], tokenizer, predictor) == [("Hunde " * 26).strip()]
    assert _choose(["犬" * 300, "犬がいる"], tokenizer, predictor) == ["犬がいる", "犬" * 160]


@pytest.mark.parametrize(("source", "english"), [("en", True), ("English", True), ("de", False), ("source", False)])
def test_examples_need_an_english_source(runs, source, english):
    translator = regard.load(runs / "recurrent", device="cpu")
    data = replace(translator.config.data, source=source)
    bundle = replace(translator.bundle, config=replace(translator.config, data=data))
    assert bool(choose_examples([regard.Translator(bundle)]).texts) == english


def test_the_runtime_is_the_one_that_is_described():
    facts = json.loads(read_file("onnxruntime/files.json"))
    assert facts["license"] == "MIT"
    assert b"MIT License" in read_file("onnxruntime/LICENSE")
    for name, expected in facts["sha256"].items():
        assert hashlib.sha256(gzip.decompress(read_file(f"onnxruntime/{name}.gz"))).hexdigest() == expected
    script, binary, _ = read_library()
    assert gzip.decompress(binary).startswith(b"\0asm")
    assert facts["version"] in script
    assert "globalThis.ort={InferenceSession:" in script
    assert "</script" not in script


def test_a_damaged_runtime_is_refused(monkeypatch):
    read_library.cache_clear()
    monkeypatch.setattr(
        "regard.export.page.join.read_file",
        lambda name: gzip.compress(b"x") if name.endswith("wasm.gz") else read_file(name),
    )
    with pytest.raises(RegardError, match=r"ort-wasm-simd-threaded.wasm.gz .* is damaged; install regard again"):
        read_library()


def test_modules_are_joined_after_those_that_they_import():
    joined = join_modules()
    assert not re.search(r"^(import|export) ", joined, re.MULTILINE)
    order = re.findall(r"^// (\w+\.js)$", joined, re.MULTILINE)
    assert order.index("dom.js") < order.index("bands.js") < order.index("translation.js") < order.index("main.js")
    assert len(order) == len(set(order))


@pytest.mark.parametrize(
    ("names", "path", "options", "message"),
    [
        (["recurrent"], "page.txt", {}, r"the page's file is .*page.txt, expected a name that ends in .html"),
        ([], "page.html", {}, "got 0 models, expected 1 to 4 for one page"),
        (["recurrent"] * 5, "page.html", {}, "got 5 models, expected 1 to 4 for one page"),
        (
            ["recurrent", "reviews"],
            "page.html",
            {},
            r"a page compares models of one task, but recurrent is for translation and re",
        ),
        (
            ["recurrent"],
            "page.html",
            {"examples": ["  "]},
            "the example '  ' cannot be shown; expected a text that is not blank and has at most 1,000",
        ),
        (
            ["recurrent"],
            "there.html",
            {},
            r"there.html exists; replace it with overwrite \(--overwrite\), or name another file",
        ),
    ],
)
def test_what_is_refused(runs, tmp_path, names, path, options, message):
    (tmp_path / "there.html").write_text("mine")
    with pytest.raises(RequestError, match=message):
        write_page([runs / name for name in names], tmp_path / path, **options)
    assert (tmp_path / "there.html").read_text() == "mine"
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(("scheme", "rules"), [(SpacyScheme, "spaCy's rules"), (PretrainedScheme, "a pretrained tokenizer")])
def test_a_tokenizer_that_runs_in_python_only_is_refused(scheme, rules):
    with pytest.raises(RequestError, match=f"the source tokenizer splits text by .*{rules}, which cannot run in a browser"):
        describe_tokenizer(SimpleNamespace(scheme=scheme), read="source")


def test_other_models_are_refused(runs, tmp_path, monkeypatch):
    translator = regard.load(runs / "recurrent", device="cpu")
    translator.model = object()
    with pytest.raises(
        RequestError, match=r"model 1 has a model of type object; a page shows only regard's translators, .*: leave it out"
    ):
        write_page(translator, tmp_path / "page.html")


def test_mistakes_of_the_command(runs, tmp_path, capsys):
    page = tmp_path / "page.html"
    page.write_text("x")
    assert main(["page", str(runs / "recurrent"), "--to", str(page)]) == 2
    assert "exists; replace it with overwrite" in capsys.readouterr().err
    assert main(["page", str(tmp_path / "nothing"), "--to", str(tmp_path / "x.html")]) == 2
    assert "nothing" in capsys.readouterr().err
    table = tmp_path / "new.csv"
    table.write_text("customer,Review,date\n1,A dog.,2024\n")
    options = ["--to", str(tmp_path / "x.html"), "--examples", str(table)]
    assert main(["page", str(runs / "recurrent"), *options]) == 2
    assert "new.csv is named like a table, but --examples reads a text file" in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()


def test_an_example_is_spelled_as_the_model_knows_it():
    def knows(sentence):
        ids = dict.fromkeys(sentence.split(), UNKNOWN + 1)
        return SimpleNamespace(encode=lambda text: SimpleNamespace(ids=[ids.get(word, UNKNOWN) for word in text.split()]))

    for known in ("the cat sat .", "The cat sat .", "the cat sat.", "The cat sat."):
        assert _known_spelling("the cat sat .", [knows(known)]) == known
    assert _known_spelling("the cat sat .", [knows("the cat sat ."), knows("The cat sat.")]) == ""
