"""Attributions against values worked by hand, finite differences, and each other."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from analysis.known_classifier import KnownClassifier, sigmoid, worded
from tasks.conftest import make

from regard import measure_translation_faithfulness
from regard.config import (
    BahdanauDecoderConfig,
    DecodingConfig,
    LuongDecoderConfig,
    RecurrentClassifierConfig,
    RecurrentConfig,
    TransformerConfig,
)
from regard.errors import RequestError
from regard.models.build import build_translator
from regard.models.classifiers.recurrent import RecurrentClassifier
from regard.task.operation import Text
from regard.tasks.attribution import UnavailableError, attribute, check_names, with_attributions
from regard.tasks.classification.faithfulness import examine
from regard.tasks.classification.probe import TextProbe
from regard.tasks.translation.predict import Translator
from regard.tasks.translation.probe import TranslationProbe
from regard.tasks.translation.text_commands import LookAtTranslation
from regard.text.symbols import END, UNKNOWN

# Tokens 4 to 7 have attention 4 : 3 : 2 : 1 and values 2, 1, 0, −1; the unknown word, token 1, has the value 3.
MODEL = KnownClassifier([1, 1, 1, 1, 4, 3, 2, 1], [0, 3, 0, 0, 2, 1, 0, -1])
TEXT = worded(4, 5, 6, 7)  # context 0.8 + 0.3 + 0 − 0.1 = 1
WEIGHTS, VALUES = np.array([0.4, 0.3, 0.2, 0.1]), np.array([2, 1, 0, -1])
TRANSLATORS = {
    "bahdanau": RecurrentConfig(embedding_size=8, decoder=BahdanauDecoderConfig(hidden_size=12)),
    "luong": RecurrentConfig(embedding_size=8, decoder=LuongDecoderConfig(hidden_size=12)),
    "transformer": TransformerConfig(hidden_size=8, num_heads=2, feed_forward_size=11, encoder_layers=1, decoder_layers=2),
}


def log_sigmoid(x):
    return np.log(sigmoid(x))


@pytest.mark.parametrize("num_heads", [0, 2])
def test_a_linear_classifier_worked_by_hand(num_heads):
    probe = TextProbe(KnownClassifier([1, 1, 1, 1, 4, 3, 2, 1], [0, 3, 0, 0, 2, 1, 0, -1], num_heads=num_heads), TEXT)
    # d log p / d weight = (1 − p) value; each of H heads has 1/H of this gradient, and the mean over heads is taken
    slope = (1 - sigmoid(1)) / (num_heads or 1)
    assert attribute(probe, "gradients")[0] == pytest.approx(slope * np.maximum(WEIGHTS * VALUES, 0))
    # from unknown words, the context goes from 3 to 1, and the antiderivative of 1 − σ is log σ
    mean = (log_sigmoid(3) - log_sigmoid(1)) / 2
    [row] = attribute(probe, "integrated")
    assert row == pytest.approx(WEIGHTS * (VALUES - 3) * mean)
    assert row.sum() == pytest.approx(log_sigmoid(1) - log_sigmoid(3))
    left = [log_sigmoid(1) - log_sigmoid(1 - weight * value) for weight, value in zip(WEIGHTS, VALUES, strict=True)]
    assert attribute(probe, "values")[0] == pytest.approx(left)
    without = [log_sigmoid(1) - log_sigmoid(x) for x in (1 / 3, 7 / 7, 10 / 8, 11 / 9)]
    assert attribute(probe, "leave_one_out")[0] == pytest.approx(without)
    assert attribute(probe, "attention")[0] == pytest.approx(WEIGHTS)


def test_value_zeroing_of_more_tokens_than_are_changed_together():
    found = attribute(TextProbe(MODEL, worded(*[4, 5, 6, 7] * 5)), "values")[0]
    left = [log_sigmoid(1) - log_sigmoid(1 - part / 5) for part in WEIGHTS * VALUES]
    assert found == pytest.approx(np.tile(left, 5))


def test_tokens_of_a_word_share_what_it_has_and_special_tokens_have_nothing():
    probe = TextProbe(MODEL, worded(4, 5, 6, 7, word_of=[0, 1, 1, -1]))
    found = attribute(probe, "leave_one_out")
    assert found.shape == (1, 4)
    assert found[0, 1] == found[0, 2]
    assert found[0, 3] == 0
    assert probe.to_words(found)[0] == pytest.approx(probe.lost(probe.keep(~np.eye(2, dtype=bool)))[0])
    assert attribute(probe, "integrated")[0, 3] == 0  # it is the same in both texts


def test_integrated_gradients_of_a_recurrent_classifier_are_complete():
    torch.manual_seed(0)
    model = RecurrentClassifier(
        RecurrentClassifierConfig(embedding_size=6, hidden_size=5), vocabulary_size=9, num_labels=3
    ).double()
    model.eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
        tokens, mask = torch.tensor([[4, 5, 6, 7, 8], [1] * 5]), torch.ones(2, 5, dtype=torch.bool)
        probe = TextProbe(model, worded(4, 5, 6, 7, 8))
        own, unknown = model(tokens, mask).logits.log_softmax(-1)[:, int(probe.decision)].tolist()
    assert attribute(probe, "integrated").sum() == pytest.approx(own - unknown, rel=0.02, abs=0.02)
    with pytest.raises(UnavailableError, match="no layers of self-attention"):
        attribute(probe, "rollout")


def translator_with(name, **settings):
    translator = make(**settings)
    torch.manual_seed(0)
    size = translator.bundle.parts.source.size
    translator.model = build_translator(TRANSLATORS[name], source_size=size, target_size=size).double().eval()
    with torch.no_grad():
        for parameter in translator.model.parameters():
            parameter.mul_(1 if name == "transformer" else 2)
    return translator


@pytest.mark.parametrize("name", TRANSLATORS)
def test_gradients_of_translators_are_finite_differences(name):
    translator, step, column, small = translator_with(name), 1, 2, 1e-5
    probe = TranslationProbe(translator.model, torch.tensor([[5, 6, 7, END]]), [8, 9, END])
    layers = [site for site in translator.model.sites if site.startswith("cross.")] or ["cross"]
    found = []
    for site in layers:
        weights = probe.weights([site])[site]
        heads = range(len(weights)) if weights.ndim == 3 else [None]
        for head in heads:
            scores = []
            for sign in (1, -1):
                calls = []

                def change(weights, mask, calls=calls, sign=sign, head=head):
                    calls.append(1)
                    row = step if weights.shape[-2] > 1 else 0
                    if weights.shape[-2] == 1 and len(calls) != step + 1:
                        return weights
                    changed = weights.clone()
                    changed[(0, *([] if head is None else [head]), row, column)] += sign * small
                    return changed

                state = translator.model.encode(probe.source, torch.ones_like(probe.source, dtype=torch.bool))
                features, _ = translator.model.decode(probe.target_in, state, reweight={site: change})
                logs = translator.model.logits(features).log_softmax(-1)
                scores.append(float(logs[0, step, int(probe.decision[step])].detach()))
            weight = weights[(*([] if head is None else [head]), step, column)]
            found.append(max(0.0, float(weight) * (scores[0] - scores[1]) / (2 * small)))
    assert attribute(probe, "gradients")[step, column] == pytest.approx(np.mean(found), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_all_attributions_of_translators(name):
    translator = translator_with(name)
    [record] = translator.attribute(["one two three ."], ["all"], targets=["two one"])
    extra = {"cross.rollout"} if name == "transformer" else set()
    assert {"cross", "gradients", "integrated", "values", "leave_one_out"} | extra == set(record.sites)
    assert {array.shape for array in record.weights.values()} == {(3, 5)}
    [again] = translator.force(["one two three ."], ["two one"], record=())
    source = torch.tensor([[*translator.tokenizers.source.encode("one two three .").ids, END]])
    unknown = torch.tensor([[1, 1, 1, 1, END]])
    probe = TranslationProbe(translator.model, source, [*translator.tokenizers.target.encode("two one").ids, END])
    with torch.no_grad():
        both = [probe.logits(each).log_softmax(-1)[0, range(3), probe.decision] for each in (source, unknown)]
    assert both[0].tolist() == pytest.approx(again.token_log_probabilities.tolist(), abs=1e-5)
    difference = (both[0] - both[1]).numpy()
    assert record.weights["integrated"].sum(1) == pytest.approx(difference, abs=0.02 * max(1, abs(difference).max()))
    if extra:
        sites = [site for site in translator.model.sites if "." in site]
        [whole] = translator.force(["one two three ."], ["two one"], record=sites)
        expected = whole.attention.rollout("cross").weights["cross.rollout"]
        assert record.weights["cross.rollout"] == pytest.approx(expected, abs=1e-6)


def test_the_tokens_that_the_model_wrote_are_attributed():
    translator, source = translator_with("luong", **{"decoding.max_length": 3}), "one two three ."
    with torch.no_grad():
        translator.model.output.bias[UNKNOWN] += 30
    translator = Translator(replace(translator.bundle, model=translator.model))
    [result] = translator.translate([source])
    look = LookAtTranslation(attribution=("gradients",))
    [shown] = look.run(translator, [Text(source)])
    assert shown.record.target_tokens == result.attention.target_tokens == ("<unk>",) * 3
    assert shown.record.log_probability == pytest.approx(result.log_probability, abs=1e-5)
    assert shown.record.weights["gradients"].shape == (3, 5)
    [given] = replace(look, target="two one").run(translator, [Text(source)])
    assert given.record.target_tokens == ("two", "one", "</s>")


def test_attributions_of_a_source_in_parts_are_refused():
    translator = translator_with("luong", **{"data.max_tokens": 3})
    with pytest.raises(RequestError, match=r"'one two three \.' was translated in parts, because it has more than 3 tokens"):
        translator.attribute(["one two three ."], ["gradients"])
    assert translator.attribute(["one two"], ["gradients"])


def test_a_source_of_two_tokens_is_measured_and_one_of_one_token_is_not():
    assert measure_translation_faithfulness(make(), ["one two", "one"], attributions=["values"]).texts == 1


def test_a_translator_whose_attention_decides():
    # A step's word is the one attended to: value zeroing and gradients find it, and so does leave-one-out of the last word.
    found = measure_translation_faithfulness(make(), ["one two three .", "Anna saw Ben ."], attributions=["all"])
    by_name = {one.name: one for one in found.attributions}
    assert by_name["attention"].losses["erased"] == pytest.approx(found.erased.attention)
    assert by_name["attention"].p == {}
    for name in ("gradients", "values"):
        assert by_name[name].losses == pytest.approx(by_name["attention"].losses)
        assert by_name[name].seconds > 0
    assert by_name["integrated"].texts == 0
    assert "no embedding" in found.render()
    assert found.to_dict()["attributions"][0]["name"] == "attention"


def test_the_table_of_a_classifier():
    texts = [TEXT, worded(7, 6, 5, 4, 4), worded(4, 7)]
    found = examine(MODEL, texts, np.array([0, 0, 0]), permutations=3, attributions=["integrated", "leave_one_out"])
    plain = examine(MODEL, texts, np.array([0, 0, 0]), permutations=3)
    assert plain.comprehensiveness == found.comprehensiveness  # the other measures stay the same
    assert plain.attributions == ()
    attended, _, best = found.attributions
    assert attended.losses["comprehensiveness"] == pytest.approx(found.comprehensiveness.attention)
    assert best.losses["comprehensiveness"] == pytest.approx(found.comprehensiveness.best)
    assert "The words that decide are found best by " in found.render()
    assert "attribution    comprehensiveness  sufficiency  p vs. attention" in found.render()


def test_names_and_refusals():
    assert check_names("attribute", ["values,attention", "values"]) == ["values", "attention"]
    with pytest.raises(
        RequestError, match=r"attribute: there is no attribution 'gradient', expected .*did you mean 'gradients'"
    ):
        check_names("attribute", ["gradient"])
    [record] = make().force(["one two"], ["one two"])
    source = torch.tensor([[*make().tokenizers.source.encode("one two").ids, END]])
    probe = TranslationProbe(make().model, source, DecodingConfig())
    for names in ("all", ["all"], ["values, all"], ["all,integrated"]):
        assert "integrated" not in with_attributions(record.attention, probe, names).sites
    with pytest.raises(RequestError, match="integrated: the input of this model has no embedding"):
        with_attributions(record.attention, probe, ["integrated"])
    with pytest.raises(RequestError, match="attribute: a source is empty"):
        make().attribute([""], ["values"], targets=["one"])


@pytest.mark.parametrize("name", ["gradients", "integrated"])
def test_source_and_target_may_be_embedded_by_one_module(name):
    torch.manual_seed(0)
    config = TransformerConfig(hidden_size=8, num_heads=2, feed_forward_size=11, decoder_layers=1, tie_embeddings="all")
    model = build_translator(config, source_size=12, target_size=12).double().eval()  # two modules with the same weight
    probe = TranslationProbe(model, torch.tensor([[5, 6, 7, END]]), [8, 9, 10, END])
    expected = attribute(probe, name), probe.gradients()
    model.source_embedding = model.target_embedding
    for one, other in zip((attribute(probe, name), probe.gradients()), expected, strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-12)
