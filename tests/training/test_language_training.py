"""A language model's run: it learns, it is judged by perplexity, and wrong requests are refused."""

import csv
import math
from types import SimpleNamespace

import pytest
import torch

import regard
from regard.config import LanguageModelConfig, LinearDecayConfig, TextDataConfig, WordsConfig
from regard.errors import ConfigError
from regard.machine import resolve_machine
from regard.models.build import build_language_model
from regard.task import Validator
from regard.tasks.language.config import LanguageConfig, LanguageTrainingConfig
from regard.tasks.language.train import TrainableLanguageModel
from regard.tasks.words import WordScores
from regard.text.corpora import TextCorpus, cut_blocks
from regard.text.mapped import MappedWriter

MODEL = LanguageModelConfig(
    hidden_size=32, num_layers=1, num_heads=2, feed_forward_size=16, embedding_dropout=0.0, layer_dropout=0.0
)
SONG = [
    "one two three four five six",
    "three five seven six two four",
    "seven six five four three two",
    "two four one three seven six",
]


@pytest.fixture
def run(tmp_path):
    """The settings of a small run on a text that is easily learned by heart."""
    path = tmp_path / "song.txt"
    path.write_text("".join(f"{line} .\n" for line in 25 * SONG), encoding="utf-8")
    return LanguageConfig(
        data=TextDataConfig(train=(str(path),), dev_size=0, drop_repeats=False, cache=str(tmp_path / "cache")),
        tokenizer=WordsConfig(),
        model=MODEL,
        training=LanguageTrainingConfig(
            max_epochs=8,
            batch_sentences=4,
            learning_rate=0.01,
            schedule=LinearDecayConfig(),
            precision="float32",
            tensorboard=False,
        ),
        out=str(tmp_path / "run"),
        device="cpu",
        threads=1,
    )


def test_it_learns_a_text_by_heart(run):
    model = regard.fit(run, progress=False)
    assert isinstance(model, regard.LanguageModel)
    found = model.evaluate([f"{line} ." for line in SONG])
    assert found.loss < 0.21, "four ways to begin, and then nothing to guess: log 4 over 8 tokens, 0.17, or little more"
    [[seven], [two]] = model.generate(["seven", "two four"], temperature=0)
    assert (seven.text, two.text) == (f"{SONG[2]}.", f"{SONG[3]}.")
    with open(f"{run.out}/logs/metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["train_perplexity"]) == pytest.approx(math.exp(float(rows[-1]["train_nll"])))
    again = regard.load(run.out)
    assert again.evaluate(SONG) == model.evaluate(SONG)


def test_perplexity_by_hand(tmp_path):
    torch.manual_seed(0)
    model = build_language_model(MODEL, vocabulary_size=11).eval()
    texts = [[4, 5, 6], [7, 8]]
    with MappedWriter(tmp_path / "dev.arrow", TextCorpus.schema) as writer:
        writer.append((cut_blocks(torch.tensor([4, 5, 6, 7, 8]).int().numpy(), torch.tensor([0, 3, 5]).numpy(), 99)[0],), ())
    training = LanguageTrainingConfig(precision="float32", batch_tokens=4)
    config = LanguageConfig(device="cpu", threads=1, training=training)
    data = SimpleNamespace(dev=TextCorpus(tmp_path / "dev.arrow"))
    validator = Validator(TrainableLanguageModel(config, data, model, None), resolve_machine(config))
    total = 0.0
    for text in texts:
        words = torch.tensor([[2, *text, 3]])
        state = model.encode(words, torch.ones_like(words, dtype=torch.bool))
        for position in range(len(text) + 1):
            logits, _, state = model.step(words[:, position, None], state)
            total -= logits[0, 0].log_softmax(-1)[words[0, position + 1]].item()
    scores = validator.validate()
    assert scores.nll == pytest.approx(total / 7, rel=1e-5)
    assert scores.to_dict()["perplexity"] == pytest.approx(math.exp(total / 7), rel=1e-5)
    described = validator.task.describe_scores(scores.to_dict())
    assert described == f"loss {scores.nll:.3f}, perplexity {scores.perplexity:,.3f}"


def test_a_hopeless_models_perplexity_is_no_error():
    assert WordScores(800.0).perplexity == math.inf


def test_a_model_of_ones_own(run):
    small = run.__class__(**{**vars(run), "training": LanguageTrainingConfig(max_epochs=1, tensorboard=False)})
    model = regard.fit(small, model=lambda size: build_language_model(MODEL, vocabulary_size=size), progress=False)
    assert model.bundle.custom == "model"
    with pytest.raises(regard.RequestError, match=r"the model of .* is a Python object of the model's author"):
        regard.load(run.out)
    again = regard.load(run.out, model=build_language_model(MODEL, vocabulary_size=model.tokenizer.size))
    assert again.evaluate(SONG) == model.evaluate(SONG)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"attention": torch.nn.Identity()}, "a language model has an attention in every layer"),
        ({"model": torch.nn.Identity}, "model is a Identity, expected a regard.models.seq2seq.Seq2Seq"),
        ({"model": build_language_model(MODEL, vocabulary_size=7)}, "model predicts 7 words, but the vocabulary has 12"),
    ],
)
def test_what_cannot_be_trained_is_refused(run, given, message):
    if "model" in given and given["model"] is torch.nn.Identity:
        given = {"model": lambda _: torch.nn.Identity()}
    with pytest.raises(ConfigError, match=message):
        regard.fit(run, **given, progress=False)


def test_a_run_needs_a_file():
    with pytest.raises(ConfigError, match=r"data\.train is empty; name a text file to learn from"):
        regard.fit(LanguageConfig(), progress=False)
