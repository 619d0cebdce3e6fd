"""A language model's predictor: scores, texts that continue a prompt, records, and what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.bundle import load_bundle, save_bundle
from regard.config import (
    BPEConfig,
    CharactersConfig,
    GenerationConfig,
    LanguageModelConfig,
    TextDataConfig,
    UnigramConfig,
    WordsConfig,
)
from regard.errors import RequestError
from regard.models.build import build_language_model
from regard.reweight import at_step, attend_to, flatten
from regard.task import Bundle, Files, Text
from regard.tasks.language.commands import EvaluateLanguageModel, LookAtText
from regard.tasks.language.config import LanguageConfig
from regard.tasks.language.predict import LanguageModel
from regard.tasks.language.train import LanguageTraining
from regard.tasks.loading import load
from regard.text.symbols import END, START, show_space
from regard.text.tokenizers.tokenizer import build_tokenizer

TEXTS = ["the cat sees the tree", "a dog hears a bird", "the bird likes the old dog"]
MODEL = LanguageModelConfig(hidden_size=20, num_layers=2, num_heads=2, feed_forward_size=23)


def make(tokenizer: object = None, *, longest: int = 50, seed: int = 0) -> Bundle:
    learned = build_tokenizer([TEXTS], tokenizer or WordsConfig(), progress=False)
    config = LanguageConfig(
        data=TextDataConfig(max_tokens=longest),
        tokenizer=tokenizer or WordsConfig(),
        model=MODEL,
        generation=GenerationConfig(max_length=8),
    )
    torch.manual_seed(seed)
    built = build_language_model(MODEL, vocabulary_size=learned.size)
    with torch.no_grad():
        built.embedding.weight.mul_(3)  # sharper than at the start of training
    return Bundle(config=config, model=built, parts=learned, signature={"seed": 1, "scores": {"loss": 2.0}})


@pytest.fixture
def model() -> LanguageModel:
    return LanguageModel(make())


def by_hand(model: LanguageModel, text: str, begin: int = START, last: bool = True) -> float:
    ids = [begin, *model.tokenizer.encode(text).ids, *([END] if last else [])]
    words = torch.tensor([ids])
    with torch.no_grad():
        features, _ = model.model.decode(words, model.model.encode(words, torch.ones_like(words, dtype=torch.bool)))
        scores = model.model.logits(features)[0].log_softmax(-1)
    return sum(scores[place, word].item() for place, word in enumerate(ids[1:]))


def test_scores_by_hand(model):
    scored = model.score([*TEXTS, ""])
    for text, one in zip([*TEXTS, ""], scored, strict=True):
        assert one.text == text
        assert len(one.token_log_probabilities) == len(text.split()) + 1
        assert one.log_probability == pytest.approx(by_hand(model, text), rel=1e-5)
        assert one.perplexity == pytest.approx(math.exp(-one.log_probability / len(one.token_log_probabilities)), rel=1e-5)
        assert one.attention is None


def test_long_texts_are_read_in_blocks():
    model = LanguageModel(make(longest=2))
    [one] = model.score(["the cat sees the tree"], record=model.model.sites)
    cat, the = (model.tokenizer.encode(word).ids[0] for word in ("cat", "the"))
    parts = [("the cat", START, False), ("sees the", cat, False), ("tree", the, True)]
    assert one.log_probability == pytest.approx(sum(by_hand(model, *part) for part in parts), rel=1e-5)
    weights = one.attention.weights["decoder.1"]
    assert weights.shape == (2, 6, 6)
    assert not weights[:, 2:, :2].any()
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


def test_evaluation_by_hand(model):
    texts = [*TEXTS, "the zebra"]
    found = model.evaluate(texts)
    total = -sum(by_hand(model, text) for text in texts)
    words = sum(len(text.split()) + 1 for text in texts)
    assert (found.texts, found.tokens, found.unknown) == (4, words, 1)
    assert found.loss == pytest.approx(total / words, rel=1e-5)
    assert found.perplexity == pytest.approx(math.exp(total / words), rel=1e-4)
    assert found.word_perplexity == pytest.approx(found.perplexity)
    assert found.bits_per_character == pytest.approx(total / math.log(2) / sum(len(text) + 1 for text in texts), rel=1e-5)
    assert f"1 of them unknown to the model ({1 / words:.2%})" in found.render()
    assert found.to_dict()["perplexity"] == found.perplexity
    assert model.evaluate(np.array(texts)) == model.evaluate(text for text in texts) == found
    with pytest.raises(RequestError, match="evaluate: there are no texts"):
        model.evaluate([])


def test_a_file_of_blocks_has_the_scores_of_its_texts(tmp_path):
    texts = ["def f(x):\n    if x:\n        return 1\n    return 2", "for y in z:\n    print(y)"]
    (tmp_path / "code.txt").write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    learned = build_tokenizer([map(show_space, texts)], CharactersConfig(), progress=False)
    data = TextDataConfig(unit="block", max_tokens=200)
    built = build_language_model(MODEL, vocabulary_size=learned.size)
    model = LanguageModel(replace(make(), parts=learned, config=replace(make().config, data=data), model=built))
    found = model.evaluate(texts)
    assert EvaluateLanguageModel().run(model, Files(str(tmp_path / "code.txt"))) == found
    loss, words = found.loss * found.tokens, sum(len(text.split()) + 1 for text in texts)
    assert found.word_perplexity == pytest.approx(math.exp(loss / words))
    assert found.bits_per_character == pytest.approx(loss / math.log(2) / sum(len(text) + 1 for text in texts))


def test_generation_keeps_the_prompt_and_repeats(model):
    prompts = ["the cat", "", "a", "a dog hears"]
    found = model.generate(prompts, samples=3, seed=5)
    assert [len(own) for own in found] == [3] * 4
    for prompt, own in zip(prompts, found, strict=True):
        for one in own:
            assert one.prompt == prompt
            assert one.text.startswith(prompt)
            assert one.num_tokens <= 8 - one.finished
            assert len(one.text.split()) == len(prompt.split()) + one.num_tokens
            assert one.log_probability < 0
    assert [[one.text for one in own] for own in model.generate(prompts, samples=3, seed=5)] == texts_of(found)
    assert texts_of(model.generate(prompts, samples=3, seed=6)) != texts_of(found)
    # What is drawn depends on a prompt and its place, and on nothing else of the batch.
    assert texts_of(model.generate(["the cat", "the bird likes"], samples=3, seed=5))[0] == texts_of(found)[0]


def test_a_file_in_parts_is_drawn_as_the_whole_and_as_no_other_seed(model):
    prompts = ["the cat"] * 4
    how = {"samples": 8, "temperature": 9.0}
    whole = texts_of(model.generate(prompts, **how))
    assert texts_of(model.generate(prompts[2:], numbers=range(2, len(prompts)), **how)) == whole[2:]
    assert texts_of(model.generate(prompts[:2], seed=2, **how)) != whole[2:]


def texts_of(found) -> list[list[str]]:
    return [[one.text for one in own] for own in found]


def test_the_most_probable_word(model):
    prompts = ["the", "a dog"]
    greedy = model.generate(prompts, temperature=0)
    assert texts_of(model.generate(prompts, top_k=1)) == texts_of(greedy)
    assert texts_of(model.generate(prompts, temperature=1e-4, top_p=1.0)) == texts_of(greedy)
    for prompt, [one] in zip(prompts, greedy, strict=True):
        if one.finished:
            rest = by_hand(model, one.text) - by_hand(model, prompt, last=False)
            assert one.log_probability == pytest.approx(rest, rel=1e-4)


def test_limits(model):
    assert model.generate(["the cat"], max_length=1, temperature=0)[0][0].num_tokens <= 1
    assert all(one.num_tokens <= 50 for [one] in model.generate(["the cat"], max_length=0))
    assert model.generate([]) == []


def test_words_of_the_prompt_that_are_unknown_stay(model):
    [[one]] = model.generate(["the zebra sees "])
    assert one.text.startswith("the zebra sees")
    assert "  " not in one.text


def test_prompts_stay_if_more_quotation_marks_follow():
    learned = build_tokenizer([["the boys' garden is old", "the girls' cat"]], WordsConfig(), progress=False)
    built = build_language_model(MODEL, vocabulary_size=learned.size)
    model = LanguageModel(replace(make(), parts=learned, model=built))
    for prompt in ("the boys' garden", "the boys'"):
        [own] = model.generate([prompt], samples=60, temperature=5.0, max_length=4)
        rest = [one.text.removeprefix(prompt) for one in own if one.text.startswith(prompt)]
        assert len(rest) == 60
        assert any("'" in text for text in rest)
        assert {text[:1] for text in rest} <= {"", " ", "'"}
    assert not any("  " in text for text in rest)


@pytest.mark.parametrize("tokenizer", [BPEConfig(size=60), UnigramConfig(size=40)])
def test_pieces_of_words(tokenizer):
    model = LanguageModel(make(tokenizer))
    [own] = model.generate(["the cat"], samples=4, max_length=20)
    assert all(one.text.startswith("the cat") for one in own)
    [one] = model.score([TEXTS[2]], record=["decoder.0"])
    assert one.attention.target_words == tuple(TEXTS[2].split())
    assert one.attention.matrix("decoder.0").shape == (6, 6)


def test_records_are_of_the_words_that_were_read(model, tmp_path):
    [one] = model.score([TEXTS[0]], record=model.model.sites)
    record = one.attention
    assert record.sites == ("decoder.0", "decoder.1")
    assert record.target_tokens == ("<s>", *TEXTS[0].split())
    assert record.target_words == tuple(TEXTS[0].split())
    matrix = record.matrix("decoder.0", 1)
    assert matrix.shape == (5, 5)
    assert not np.triu(matrix, 1).any()
    np.testing.assert_allclose(matrix.sum(1) + record.view("decoder.0", 1).hidden, 1, rtol=1e-5)
    for name in ("map.html", "map.json", "map.npz"):
        record.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size
    [[drawn]] = model.generate(["the"], record=["decoder.1"], max_length=3, seed=2)
    given = drawn.attention.weights["decoder.1"]
    size = drawn.num_tokens + 1 + drawn.finished
    assert given.shape == (2, size, size)
    [again] = model.score([drawn.text], record=["decoder.1"])
    np.testing.assert_allclose(again.attention.weights["decoder.1"][:, :size, :size], given, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature is -1, expected 0 or more"),
        ({"top_p": 0.0}, "top_p is 0, expected more than 0 and at most 1"),
        ({"top_k": -1}, "top_k is -1, expected 0 or more"),
        ({"max_length": -1}, "max_length is -1, expected 0 or more"),
        ({"temperature": 0, "samples": 2}, "at temperature 0 all 2 samples would be the same; set samples to 1"),
        ({"samples": 0}, "samples is 0, expected 1 or more"),
        ({"record": ["decoder.7"]}, "record names the attention 'decoder.7'; this model has: decoder.0, decoder.1"),
        ({"record": True}, "record is True, expected a list of attention sites"),
        ({"record": "decoder.0"}, "record is 'decoder.0', expected a list"),
    ],
)
def test_bad_requests(model, options, message):
    with pytest.raises(RequestError, match=message):
        model.generate(["the"], **options)


def test_one_text_is_no_list(model):
    with pytest.raises(RequestError, match="generate: got one text, expected a list"):
        model.generate("the")
    with pytest.raises(RequestError, match="score: got one text, expected a list"):
        model.score("the")


def test_a_bundle_comes_back(tmp_path):
    bundle = make(seed=4)
    save_bundle(tmp_path / "one", bundle)
    assert {"config.yaml", "model.safetensors", "tokenizer.json", "signature.json", "report.json", "README.md"} == {
        path.name for path in (tmp_path / "one").iterdir()
    }
    again = load_bundle(tmp_path / "one")
    assert isinstance(again, Bundle)
    assert again.config == bundle.config
    saved, loaded = bundle.model.state_dict(), again.model.state_dict()
    assert all(torch.equal(saved[name], loaded[name]) for name in saved)
    model, other = load(tmp_path / "one", device="cpu"), LanguageModel(bundle)
    assert isinstance(model, LanguageModel)
    assert texts_of(model.generate(["the"], samples=2)) == texts_of(other.generate(["the"], samples=2))
    model.save(tmp_path / "two")
    for name in ("model.safetensors", "config.yaml", "tokenizer.json", "README.md"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    card = (tmp_path / "one" / "README.md").read_text()
    assert "pipeline_tag: text-generation" in card
    assert "regard generate DIR" in card
    assert "`words`" in card


def test_a_text_can_be_followed_while_it_is_written(model):
    prompts, seen = ["the cat", "a dog"], {}
    found = model.generate(
        prompts, samples=2, seed=4, follow=lambda place, sample, text: seen.setdefault((place, sample), []).append(text)
    )
    assert found == model.generate(prompts, samples=2, seed=4)
    for place, samples in enumerate(found):
        for sample, one in enumerate(samples):
            if one.num_tokens:
                assert seen[place, sample][-1] == one.text
                assert len(seen[place, sample]) == one.num_tokens
    best = []
    [last] = model.generate(["the"], temperature=0, follow=lambda place, sample, text: best.append(text))
    assert best[-1] == last[0].text


def test_numbers_choose_what_is_drawn(model):
    prompts = ["the", "the", "the"]
    first = [one.text for [one] in model.generate(prompts, seed=2)]
    assert [one.text for [one] in model.generate(prompts, seed=2, numbers=[2, 0, 1])] == [first[2], first[0], first[1]]
    with pytest.raises(RequestError, match="got 3 prompts and 1 numbers, expected the same number of each"):
        model.generate(prompts, numbers=[1])


def test_other_attention(model):
    """A function alone is for all layers; a text scored under it has the same likelihood as one generated under it."""
    plain = model.score(TEXTS)
    for reweight in (flatten, {"decoder.0": flatten, "decoder.1": flatten}):
        changed = model.score(TEXTS, reweight=reweight, record=["decoder.1"])
        assert all(one.log_probability != other.log_probability for one, other in zip(plain, changed, strict=True))
        weights = changed[0].attention.weights["decoder.1"]
        assert weights[:, 2, :3] == pytest.approx(1 / 3)
    for temperature in (0, 1):
        [[made]] = model.generate(["the"], temperature=temperature, reweight=at_step((1, 3), attend_to(0)))
        [scored] = model.score([made.text], reweight=at_step((1, 3), attend_to(0)))
        size = len(made.text.split()) - 1 + made.finished
        assert made.log_probability == pytest.approx(scored.token_log_probabilities[1 : 1 + size].sum(), rel=1e-4)
    with pytest.raises(
        RequestError, match=r"^reweight names the attention 'cross'; this model has: decoder.0, decoder.1, decoder"
    ):
        model.score(TEXTS, reweight={"cross": flatten})


def test_generated_texts_go_on_after_the_white_space_of_their_prompts():
    code = ["if x:␊␠␠y␊␉z", "x = y␊z"]
    learned = build_tokenizer([code], CharactersConfig(), progress=False)
    bundle = replace(make(), parts=learned, model=build_language_model(MODEL, vocabulary_size=learned.size))
    for prompt in ("if x:\n  ", "\tz\n", "z\n\n"):
        [[generation]] = LanguageModel(bundle).generate([prompt], temperature=0)
        assert generation.text.startswith(prompt)
        assert not set("␊␉␠") & set(generation.text)


def test_the_beginnings_for_a_page_end_at_words(tmp_path):
    """They leave the model something to write."""
    file = tmp_path / "texts.txt"
    texts = [f"{name} moved his car to the other side ." for name in ("Tom", "Anna", "Ben", "Eve")]
    file.write_text("\n".join([*texts, "Yes"]) + "\n", encoding="utf-8")
    data = TextDataConfig(train=(str(file),), dev_size=0, cache=str(tmp_path / "cache"))
    config = LanguageConfig(data=data, tokenizer=CharactersConfig())
    training = LanguageTraining()
    config, _, tokenizer = training.read(config, None, progress=False)
    beginnings, held_out = training.held_out(config, tokenizer)
    assert not held_out
    assert sorted(beginnings) == sorted(text.removesuffix(" to the other side .") for text in texts)


def test_looking_at_a_text_shows_the_last_layer(model):
    [look] = LookAtText().run(model, [Text(TEXTS[0])])
    assert look.site == look.record.sites[-1] == "decoder.1"
