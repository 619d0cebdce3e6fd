"""Text in, label out: order, batches, long and empty texts, records."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.config import LabelledDataConfig, RecurrentClassifierConfig, WordsConfig
from regard.errors import DataError, RequestError
from regard.models.build import build_classifier
from regard.reweight import at_step, attend_to, flatten, sharpen
from regard.task import Bundle
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.classification.data import ClassifierParts
from regard.tasks.classification.predict import Classifier
from regard.tasks.loading import load
from regard.text.labelled.labels import Labels
from regard.text.tokenizers.tokenizer import build_tokenizer

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
TEXTS = ["one two three", "", "ten", "four five six seven eight nine ten one two three four five", "zero, one!", "two two two"]


def make(*, multiple: bool = False, names: tuple[str, ...] = ("bad", "good"), temperature: float = 2.0) -> Classifier:
    torch.manual_seed(0)
    config = ClassificationConfig(
        data=LabelledDataConfig(max_tokens=8),
        tokenizer=WordsConfig(),
        model=RecurrentClassifierConfig(embedding_size=7, hidden_size=5),
    )
    tokenizer = build_tokenizer([WORDS], WordsConfig(), progress=False)
    model = build_classifier(config.model, vocabulary_size=tokenizer.size, num_labels=len(names))
    labels = Labels(names, multiple, tuple(range(1, len(names) + 1)))
    return Classifier(Bundle(config=config, model=model, parts=ClassifierParts(tokenizer, labels, temperature)))


def test_batches_are_as_one_by_one_in_order():
    classifier = make()
    together = classifier.classify(TEXTS)
    assert [one.text for one in together] == TEXTS
    for one, text in zip(together, TEXTS, strict=True):
        [alone] = classifier.classify([text])
        assert alone.label == one.label
        assert alone.probabilities == pytest.approx(one.probabilities, abs=1e-6)
        assert alone.attention.word_weights() == pytest.approx(one.attention.word_weights(), abs=1e-6)


def test_probabilities_are_those_of_the_scores_at_the_temperature():
    classifier = make(temperature=3.0)
    scores = classifier.scores(TEXTS)
    wanted = torch.softmax(torch.from_numpy(scores).double() / 3, -1).numpy()
    np.testing.assert_allclose(classifier.probabilities(scores), wanted, rtol=1e-12)
    for found, row in zip(classifier.classify(TEXTS), wanted, strict=True):
        assert found.label == classifier.labels.names[row.argmax()]
        assert found.labels == (found.label,)
        assert found.probability == pytest.approx(row.max())
        assert list(found.probabilities.values()) == sorted(found.probabilities.values(), reverse=True)


def test_several_labels_each_have_their_own_probability():
    classifier = make(multiple=True, names=("a", "b", "c"), temperature=1.0)
    huge = np.array([[1000.0, -1000.0, 0.0]])
    assert classifier.probabilities(huge).tolist() == [[1.0, 0.0, 0.5]]
    for found in classifier.classify(TEXTS):
        assert set(found.labels) == {name for name, value in found.probabilities.items() if value > 0.5}


def test_records_have_the_words_that_were_read():
    classifier = make()
    found = classifier.classify(TEXTS)
    record = found[3].attention
    assert record.source_words == tuple(TEXTS[3].split()[:8])  # of a long text, its beginning
    assert record.weights["pool"].shape == (1, 8)
    assert record.word_weights().sum() == pytest.approx(1, abs=1e-6)
    assert record.target_words == (found[3].label,)
    assert record.probabilities == found[3].probabilities
    assert found[1].attention.source_words == ()  # a text without words
    assert found[4].attention.source_words == ("zero", ",", "one", "!")
    assert classifier.classify(TEXTS, record=())[0].attention is None


def test_of_a_long_text_it_is_said_how_much_was_read():
    found = make().classify(TEXTS)
    assert [one.cut_at for one in found] == [None, None, None, 8, None, None]
    said = "The model read only the first 8 tokens (data.max_tokens); the text is longer."
    assert [one.attention.note.startswith(said) for one in found] == [one.cut_at is not None for one in found]
    assert "do not prove" in found[3].attention.note


def test_what_was_found_about_faithfulness_is_in_the_record():
    bundle = make().bundle
    classifier = Classifier(replace(bundle, parts=replace(bundle.parts, faithfulness="Not much.")))
    assert classifier.classify(["one"])[0].attention.note == "Not much."


def test_evaluation_names_the_most_confident_mistakes():
    classifier = make()
    labels = [one.label for one in classifier.classify(TEXTS)]
    found = classifier.evaluate(TEXTS, labels)
    assert (found.accuracy, found.mistakes) == (1.0, ())
    wrong = ["bad" if label == "good" else "good" for label in labels]
    found = classifier.evaluate(TEXTS, wrong)
    assert found.accuracy == 0
    sure = [mistake.probability for mistake in found.mistakes]
    assert sure == sorted(sure, reverse=True)
    assert found.mistakes[0].label != found.mistakes[0].predicted
    assert "the most confident mistakes" in found.render()
    assert found.to_dict()["accuracy"] == 0


def test_evaluation_of_arrays_generators_and_numbers():
    classifier = make(names=("0", "1"))
    plain = classifier.evaluate(TEXTS, list("010011"))
    numbers = [0, 1, 0, 0, 1, 1]
    for texts, labels in (
        (np.array(TEXTS), np.array(numbers)),
        ((text for text in TEXTS), iter(numbers)),
        (TEXTS, torch.tensor(numbers).float()),
    ):
        assert classifier.evaluate(texts, labels) == plain
    assert make(names=("false", "true")).evaluate(TEXTS, np.array(numbers) == 1).accuracy == plain.accuracy
    for missing in (None, float("nan")):
        with pytest.raises(DataError, match=f"^text 2 has the label {missing}, expected a label"):
            classifier.evaluate(TEXTS[:2], [1, missing])
    with pytest.raises(RequestError, match="evaluate: got one text, expected a list of texts"):
        classifier.evaluate("one", ["1"])


def test_with_several_labels_a_mistake_is_as_sure_as_its_surest_wrong_label():
    classifier = make(multiple=True, names=("a", "b", "c"))
    text = "one two\nthree"
    [row] = classifier.probabilities(classifier.scores([text])).tolist()
    right = [name for name, p in zip("abc", row, strict=True) if p > 0.5]
    flipped = sorted({*right} ^ {"a", "b"})
    found = classifier.evaluate([text], [flipped])
    [mistake] = found.mistakes
    assert mistake.probability == pytest.approx(max(max(p, 1 - p) for p in row[:2]))
    assert mistake.predicted == (", ".join(right) or "nothing")
    assert "one two three" in found.render()
    assert found.loss == pytest.approx(-sum(np.log(p if n in flipped else 1 - p) for n, p in zip("abc", row, strict=True)))


def test_mistakes_in_what_is_asked():
    classifier = make()
    with pytest.raises(RequestError, match="classify: got one text, expected a list of texts"):
        classifier.classify("one")
    with pytest.raises(RequestError, match="classify: text 2 is a int, expected a str"):
        classifier.classify(["one", 2])
    with pytest.raises(RequestError, match="record names the attention 'cross'; this model has: pool"):
        classifier.classify(["one"], record=["cross"])
    with pytest.raises(RequestError, match="got 1 texts and 0 labels"):
        classifier.evaluate(["one"], [])
    with pytest.raises(DataError, match="text 2: label 'godo' is unknown; the model knows 'bad', 'good'; did you mean 'good'"):
        classifier.evaluate(["one", "two"], ["bad", "godo"])
    with pytest.raises(DataError, match="text 1 has 2 labels, but this model was trained on texts with one each"):
        classifier.evaluate(["one"], [("bad", "good")])


def test_settings_are_not_a_trained_model():
    config = make().config
    with pytest.raises(RequestError, match=r"settings of a run \(ClassificationConfig\).*regard\.load\('runs/NAME'\)"):
        load(config)
    with pytest.raises(RequestError, match=r"regard\.load\('runs/reviews'\) loads the model"):
        load(replace(config, out="runs/reviews"))
    with pytest.raises(RequestError, match="load: got int, expected the folder of a trained model"):
        load(3)


def test_saved_and_loaded_it_is_the_same(tmp_path):
    classifier = make()
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.labels == classifier.labels
    assert again.temperature == classifier.temperature
    np.testing.assert_array_equal(again.scores(TEXTS), classifier.scores(TEXTS))


def test_other_attention():
    classifier = make()
    plain = classifier.classify(TEXTS)
    changed = classifier.classify(TEXTS, reweight=attend_to(1))
    for one, other in zip(plain, changed, strict=True):
        weights = other.attention.weights["pool"][0]
        if len(weights) > 1:
            assert weights.tolist() == [float(place == 1) for place in range(len(weights))]
            assert one.probability != other.probability
        else:
            assert one.probabilities == pytest.approx(other.probabilities)
    for reweight in ({"pool": sharpen(3)}, at_step(0, sharpen(3))):  # a label is one step
        alike = (classifier.classify(TEXTS, reweight=each) for each in (sharpen(3), reweight))
        for one, other in zip(*alike, strict=True):
            assert one.probabilities == pytest.approx(other.probabilities)
    assert classifier.classify(TEXTS, reweight=at_step(1, flatten))[0].probability == plain[0].probability
    with pytest.raises(RequestError, match=r"^reweight names the attention 'cross'; this model has: pool$"):
        classifier.classify(TEXTS, reweight={"cross": flatten})


def test_attention_and_decision_disagree_if_another_word_costs_more():
    classifier, text = make(), "one two three four"
    [found] = classifier.classify([text])
    words, label = text.split(), found.label
    shorter = [" ".join(words[:place] + words[place + 1 :]) for place in range(4)]
    lost = [found.probability - one.probabilities[label] for one in classifier.classify(shorter)]
    attended = int(found.attention.word_weights().argmax())
    assert classifier.disagreement(text) == pytest.approx(max(lost) - lost[attended], abs=1e-6)
    assert classifier.disagreement("") == 0
    assert classifier.unknown_words(["one zero", "two eleven zero"]) == ["zero", "eleven"]
    with pytest.raises(RequestError, match="unknown_words: got one text, expected a list of texts"):
        classifier.unknown_words("one zero")
