"""Translating in bfloat16 and int8, with real models."""

import json

import pytest
import torch

import regard
from regard.cli.main import main
from regard.config import DataConfig, RecurrentConfig, TokenizersConfig, TransformerConfig
from regard.models.build import build_translator
from regard.task import Bundle
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.data import Tokenizers
from regard.text.tokenizers.tokenizer import build_tokenizers


@pytest.fixture(params=[RecurrentConfig, TransformerConfig])
def translator(request):
    torch.manual_seed(0)
    tokenizer = build_tokenizers([(["a b c d"], ["a b c d"])], TokenizersConfig(), DataConfig())[0]
    model = build_translator(request.param(), source_size=tokenizer.size, target_size=tokenizer.size)
    config = TranslationConfig(model=request.param())
    return regard.Translator(
        Bundle(config=config, model=model, parts=Tokenizers(tokenizer, tokenizer), signature={}, report={})
    )


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_scores_are_close_to_those_in_float32(translator, precision):
    options = [{}, {"beam_size": 1}, {"sampling": regard.Sampling(count=2, seed=1)}]
    for each in options:
        exact, rounded = (translator.translate(["a b", "c"], max_length=5, precision=p, **each) for p in ("float32", precision))
        # After rounding, a draw can choose another word.
        same = [(one, other) for one, other in zip(exact, rounded, strict=True) if one.text == other.text]
        assert same
        for one, other in same:
            assert one.score == pytest.approx(other.score, rel=0.05)
            assert one.score != other.score
    assert {p.dtype for p in translator.model.parameters()} == {torch.float32}


def test_in_int8_texts_do_not_influence_each_other(translator):
    texts = ["a b", "c", "a b c d a b c d", "d d"]
    together = translator.translate(texts, max_length=5, precision="int8")
    for text, found in zip(texts, together, strict=True):
        (alone,) = translator.translate([text], max_length=5, precision="int8")
        assert (alone.text, alone.score) == (found.text, pytest.approx(found.score, abs=1e-2))


def test_translations_follow_a_change_of_the_weights(translator):
    before = translator.translate(["a b"], max_length=5, precision="bfloat16")[0]
    kept = translator._search_model._lowered
    assert translator.translate(["a b"], max_length=5, precision="bfloat16")[0].score == before.score
    assert translator._search_model._lowered is kept  # made once for the same weights
    with torch.no_grad():
        for parameter in translator.model.parameters():
            parameter.mul_(1.5)
    found, fresh = (
        one.translate(["a b"], max_length=5, precision="bfloat16")[0]
        for one in (translator, regard.Translator(translator.bundle))
    )
    assert (found.text, found.score) == (fresh.text, fresh.score)
    assert found.score != before.score


@pytest.mark.parametrize("method", ["translate", "evaluate"])
@pytest.mark.parametrize(
    ("precision", "message"),
    [
        ("int8", "precision int8 works on a CPU only, but the model is on meta; choose bfloat16, or the device cpu"),
        ("half", "precision is 'half', expected one of: float32, bfloat16, int8"),
    ],
)
def test_a_precision_is_refused_before_anything_is_computed(method, precision, message, translator, monkeypatch):
    monkeypatch.setattr(type(translator), "device", torch.device("meta"))
    monkeypatch.setattr(type(translator), "force", lambda *arguments, **options: pytest.fail("it scores the targets first"))
    with pytest.raises(regard.RequestError, match=message):
        getattr(translator, method)(*([["a"]] * (1 + (method == "evaluate"))), precision=precision)


def test_an_evaluation_names_its_precision(translator):
    found = [translator.evaluate(["a b", "c"], ["a", "c"], precision=p) for p in (None, "int8")]
    assert [one.precision for one in found] == ["float32", "int8"]
    assert "int8" not in found[0].render()
    assert ", int8\n" in found[1].render()
    assert found[0].loss == found[1].loss


def test_the_commands_have_it(translator, tmp_path, capsys):
    translator.save(tmp_path / "run")
    (tmp_path / "pairs.tsv").write_text("a b\ta\nc\tc\n")
    folder = str(tmp_path / "run")
    assert main(["evaluate", folder, str(tmp_path / "pairs.tsv"), "--precision", "int8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["precision"] == "int8"
    assert main(["translate", folder, "a b", "--precision", "int8", "--json", "--device", "cpu"]) == 0
    [expected] = translator.translate(["a b"], precision="int8")
    assert json.loads(capsys.readouterr().out)["score"] == pytest.approx(expected.score, abs=1e-4)
