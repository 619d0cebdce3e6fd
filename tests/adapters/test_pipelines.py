"""Calls in the manner of Hugging Face's pipelines."""

import pytest
from bundle.conftest import make as make_translator
from bundle.test_classifiers import make as make_classifier
from tasks.language.test_language_model import make as make_language_model

import regard
from regard.bundle import save_bundle
from regard.decoding import Sampling
from regard.errors import RequestError

TEXTS = ["she kissed him .", "a cat sleeps on the mat .", "she sleeps ."]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipelines")
    for name, bundle in {"deu": make_translator(), "reviews": make_classifier(), "stories": make_language_model()}.items():
        save_bundle(folder / name, bundle)
    return folder


def test_translation(runs):
    translate = regard.pipeline("translation", runs / "deu", device="cpu")
    own = [one.text for one in translate.model.translate(TEXTS)]
    assert translate(TEXTS[0]) == [{"translation_text": own[0]}]
    expected = [{"translation_text": text} for text in own]
    assert translate(TEXTS) == expected
    assert translate(TEXTS, batch_size=2) == expected
    assert list(translate(text for text in TEXTS)) == expected
    assert translate([]) == []
    greedy = translate.model.translate(TEXTS[:1], beam_size=1)[0].text
    assert regard.pipeline("translation_en_to_de", translate.model)(TEXTS[:1], num_beams=1) == [{"translation_text": greedy}]


def test_text_classification(runs):
    classify = regard.pipeline("text-classification", str(runs / "reviews"), device="cpu")
    own = classify.model.classify(TEXTS)
    best = [{"label": one.label, "score": one.probability} for one in own]
    assert classify(TEXTS) == best
    assert classify(TEXTS[0]) == [{"label": own[0].label, "score": pytest.approx(own[0].probability)}]
    two = classify(TEXTS[0], top_k=2)
    assert [one["label"] for one in two] == list(own[0].probabilities)[:2]
    assert [len(one) for one in classify(TEXTS, top_k=None)] == [3, 3, 3]
    assert classify(TEXTS, top_k=1) == [[one] for one in best]
    assert regard.pipeline("sentiment-analysis", classify.model)(TEXTS) == best


def test_text_generation(runs):
    generate = regard.pipeline("text-generation", runs / "stories", device="cpu")
    own = generate.model.generate(["the cat", "a dog"], samples=2, max_length=5)
    expected = [[{"generated_text": one.text} for one in samples] for samples in own]
    assert generate(["the cat", "a dog"], num_return_sequences=2, max_new_tokens=5) == expected
    assert generate("the cat", num_return_sequences=2, max_new_tokens=5) == expected[0]
    [short] = generate("the cat", max_new_tokens=5, do_sample=False, return_full_text=False)
    [whole] = generate("the cat", max_new_tokens=5, do_sample=False)
    assert whole["generated_text"] == "the cat" + short["generated_text"]


def test_batches_draw_the_samples_of_the_whole_list(runs):
    generate = regard.pipeline("text-generation", runs / "stories", device="cpu")
    translate = regard.pipeline("translation", runs / "deu", device="cpu")
    for pipeline, text, options in (
        (generate, "the", {"temperature": 9.0, "max_new_tokens": 6}),
        (translate, "she sleeps .", {"sampling": Sampling(temperature=9.0, first=3), "max_length": 6}),
    ):
        whole = pipeline([text] * 4, **options)
        assert len(set(map(str, whole))) > 1
        assert [pipeline([text] * 4, batch_size=size, **options) for size in (1, 3)] == [whole, whole]
        assert list(pipeline(iter([text] * 4), **options)) == whole


pipe = regard.pipeline


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda runs: pipe("translate", runs / "deu"), "there is no task 'translate'; did you mean 'translation'?"),
        (lambda runs: pipe("summary", runs / "deu"), "there is no task 'summary', expected translation, text-class"),
        (lambda runs: pipe("text-generation", runs / "deu"), "the model is a translator, but the task 'text-gen"),
        (
            lambda runs: pipe("translation", runs / "deu")("a", beamsize=2),
            "'beamsize'; did you mean 'beam_size'?",
        ),
        (
            lambda runs: pipe("text-classification", runs / "reviews")("a", topk=2),
            "'topk'; did you mean 'top_k'?",
        ),
        (
            lambda runs: pipe("text-classification", runs / "reviews")("a", top_k=0),
            "top_k is 0, expected 1 or more",
        ),
        (lambda runs: pipe("translation", runs / "deu")(["a"], batch_size=0), "batch_size is 0, expected 1 or more"),
    ],
)
def test_what_is_refused(runs, call, message):
    with pytest.raises(RequestError) as caught:
        call(runs)
    assert message in str(caught.value)
