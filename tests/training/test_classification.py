"""Learning to label texts: the loss by hand, the parts of a run that are its own, and exact resuming."""

import json
import math
import random
import re
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from regard.attention import AdditivePooling, AttentionPooling
from regard.config import LabelledDataConfig, RecurrentClassifierConfig
from regard.errors import ConfigError, Interrupted
from regard.models.build import build_classifier
from regard.models.text_classifier import Classified, TextClassifier
from regard.tasks.classification.config import ClassificationConfig, ClassificationTrainingConfig
from regard.tasks.classification.predict import Classifier
from regard.tasks.classification.train import TrainableClassifier, label_loss
from regard.tasks.loading import load
from regard.text.labelled.labels import Labels
from regard.text.tokenizers.tokenizer import Tokenizer
from regard.training import callbacks, fit, resume
from regard.training.callbacks import Checkpointing
from regard.training.cross_validation import cross_validate, holds_folds, resume_folds


@pytest.fixture(scope="session")
def letters(tmp_path_factory):
    """Strings of letters; those with an `a` are of one kind, a third of all."""
    draw, path = random.Random(0), tmp_path_factory.mktemp("data") / "letters.tsv"
    texts = sorted({" ".join(draw.choices("abcdefgh", [2, 3, 3, 3, 3, 3, 3, 3], k=draw.randint(2, 7))) for _ in range(400)})
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{'with' if 'a' in text else 'without'}\n" for text in texts))
    return path


@pytest.fixture
def config(letters, tmp_path):
    training = ClassificationTrainingConfig(
        max_epochs=3, batch_tokens=120, accumulate=2, learning_rate=0.01, ema_decay=0.9, precision="float32", tensorboard=False
    )
    return ClassificationConfig(
        data=LabelledDataConfig(train=(str(letters),), dev_size=30, cache=str(letters.parent / "cache")),
        model=RecurrentClassifierConfig(embedding_size=8, hidden_size=8, embedding_dropout=0.2, output_dropout=0.2),
        training=training,
        out=str(tmp_path / "run"),
        threads=1,
    )


def change(config, **settings):
    return replace(config, training=replace(config.training, **settings))


def model_bytes(folder):
    return Path(folder, "model.safetensors").read_bytes()


def test_loss_by_hand():
    logits = torch.tensor([[math.log(3), 0.0], [0.0, 0.0]])
    label = torch.tensor([0, 1])
    assert label_loss(logits, label).item() == pytest.approx(-math.log(3 / 4) - math.log(1 / 2))
    weight = torch.tensor([2.0, 10.0])
    assert label_loss(logits, label, weight=weight).item() == pytest.approx(-2 * math.log(3 / 4) - 10 * math.log(1 / 2))
    smoothed = -0.9 * math.log(3 / 4) - 0.1 * math.log(1 / 4) - math.log(1 / 2)
    assert label_loss(logits, label, label_smoothing=0.2).item() == pytest.approx(smoothed)
    several = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    assert label_loss(logits, several).item() == pytest.approx(-math.log(3 / 4) - 3 * math.log(1 / 2))


def test_it_learns_and_its_folder_is_a_classifier(config):
    classifier = fit(change(config, max_epochs=25, ema_decay=0.0), progress=False)
    assert isinstance(classifier, Classifier)
    assert classifier.evaluate(["b c a d", "b c d", "a", "h h h h"], ["with", "without", "with", "without"]).accuracy == 1
    scores = json.loads(Path(config.out, "signature.json").read_text())["scores"]
    assert scores["accuracy"] > 0.9
    assert classifier.temperature == scores["temperature"] != 1
    again = load(config.out)
    assert [one.label for one in again.classify(["b c a d", "b c d"])] == ["with", "without"]
    assert again.temperature == classifier.temperature
    header, first = Path(config.out, "logs", "metrics.csv").read_text().splitlines()[:2]
    assert header == "step,epoch,learning_rate,train_nll,dev_nll,accuracy,macro_f1,seconds,texts_per_second"
    assert len(first.split(",")) == 9


@pytest.fixture
def stop_at(monkeypatch):
    """As Ctrl-C after an update."""

    def set_up(folder, step):
        inner = Checkpointing.after_update

        def stop(self, run):
            if str(run.folder.path) == folder and run.progress.step == step:
                run.signals.received = 2
            inner(self, run)

        monkeypatch.setattr(callbacks.Checkpointing, "after_update", stop)
        return monkeypatch.undo

    return set_up


def test_interrupted_and_resumed_it_ends_with_the_same_bits(config, stop_at):
    whole = replace(config, out=config.out + "-whole")
    fit(whole, progress=False)
    let_go = stop_at(config.out, 7)
    with pytest.raises(Interrupted):
        fit(config, progress=False)
    let_go()
    resume(config.out, progress=False)
    assert model_bytes(config.out) == model_bytes(whole.out)


def test_rare_labels_count_more_when_balanced(config):
    plain = fit(change(config, max_epochs=2, ema_decay=0.0, monitor="macro_f1"), progress=False)
    even = fit(
        replace(change(config, max_epochs=2, ema_decay=0.0, class_weights="balanced"), out=config.out + "-even"), progress=False
    )
    texts = [" ".join("bcdefgh"[place:] + "bcdefgh"[:place]) for place in range(7)]
    rare = [classifier.probabilities(classifier.scores(texts))[:, 0].mean() for classifier in (plain, even)]
    assert even.labels.names[0] == min(zip(even.labels.counts, even.labels.names, strict=True))[1] == "with"
    assert rare[1] > rare[0]


def test_balanced_labels_weigh_inversely_to_their_numbers_of_texts(config):
    data = SimpleNamespace(labels=Labels(("good", "bad", "unseen"), False, (1, 5, 0)))
    task = SimpleNamespace(config=change(config, class_weights="balanced"), data=data)
    expected = torch.tensor([7 / 3, 7 / 15, 7 / 3])  # N / (C n_c) with n_c of 1 at least
    torch.testing.assert_close(TrainableClassifier.label_weight.func(task), expected)


def test_word_vectors_start_the_embedding(config, letters, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{letter} {' '.join(str(place + 0.5) for place in range(5))}\n" for letter in "abc"))
    config = replace(config, data=replace(config.data, vectors=str(vectors)))
    still = fit(change(config, max_epochs=1, learning_rate=1e-12, ema_decay=0.0), progress=False)
    note = still.bundle.report["notes"][-1]
    assert re.search(r"vectors.txt: for 3 of the \d+ words of the vocabulary \(.*; if words are split into subwords, set", note)
    assert still.model.embedding.weight.shape[1] == still.config.data.vectors_size == 5
    [row] = still.encode(["a d"])
    assert still.model.embedding.weight[row[0]].tolist() == pytest.approx([0.5, 1.5, 2.5, 3.5, 4.5])
    assert load(config.out).scores(["a d"]) == pytest.approx(still.scores(["a d"]))


def test_a_width_of_word_vectors_without_vectors(config):
    config = replace(config, data=replace(config.data, vectors_size=50))
    with pytest.raises(ConfigError, match=r"data.vectors_size is 50, but data.vectors names no .* with model.embedding_size"):
        fit(change(config, max_epochs=1), progress=False)


def test_word_vectors_of_another_width(config, tmp_path):
    """A model of one's own has two embeddings of words, of which only one has the width of the vectors."""
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("a 1 2 3 4 5\nb 5 4 3 2 1\n")
    config = replace(config, data=replace(config.data, vectors=str(vectors)))

    def build(vocabulary_size, num_labels):
        model = build_classifier(config.model, vocabulary_size=vocabulary_size, num_labels=num_labels, embedding_size=5)
        model.other = nn.Embedding(vocabulary_size, 4, padding_idx=0)
        return model

    message = "data.vectors: expected all word embeddings of the model to have width 5, found 4, 5"
    with pytest.raises(ConfigError, match=message):
        fit(change(config, max_epochs=1), model=build, progress=False)


def test_a_pooling_of_ones_own(config):
    fit(change(config, max_epochs=1), attention=AdditivePooling(16, attention_size=3), progress=False)
    again = load(config.out, attention=AdditivePooling(16, attention_size=3))
    assert isinstance(again.model.pooling, AdditivePooling)
    with pytest.raises(
        ConfigError, match="the pooling reads states of width 5 and returns width 5, but this RecurrentClassifier needs widths"
    ):
        fit(replace(config, out=config.out + "-2"), attention=AttentionPooling(5), progress=False)
    with pytest.raises(ConfigError, match=r"attention is 'soft', expected an object of a regard.attention.Pooling class"):
        fit(replace(config, out=config.out + "-3"), attention="soft", progress=False)


def test_a_model_of_ones_own(config):
    class Mean(TextClassifier):
        sites = ("pool",)

        def __init__(self, vocabulary_size, num_labels):
            super().__init__()
            self.table, self.output = nn.Embedding(vocabulary_size, 4), nn.Linear(4, num_labels)

        def embed(self, tokens):
            return self.table(tokens)

        def forward(self, tokens, mask, *, embedded=None, reweight=None, record=()):
            weights = mask / mask.sum(1, keepdim=True).clamp(min=1)
            values = self.embed(tokens) if embedded is None else embedded
            return Classified(self.output((weights[..., None] * values).sum(1)), {"pool": weights})

    fit(change(config, max_epochs=1), model=Mean, progress=False)
    with pytest.raises(ConfigError, match=r"expected a regard.models.text_classifier.TextClassifier, or a function"):
        fit(replace(config, out=config.out + "-2"), model=lambda words, labels: nn.Linear(1, 1), progress=False)
    size = Tokenizer.load(Path(config.out, "tokenizer.json")).size
    for sizes, message in (
        ((size, 3), r"model gives scores to 3 labels, but the data has 2; give fit a function that builds the model"),
        ((size - 1, 2), rf"model cannot read a vocabulary of {size} tokens \(index out of range"),
    ):
        with pytest.raises(ConfigError, match=message):
            fit(replace(config, out=config.out + "-4"), model=Mean(*sizes), progress=False)
    assert load(config.out, model=Mean(size, 2)).classify(["a"])[0].label in ("with", "without")


def test_cross_validation_holds_out_every_text_once(config):
    config = replace(change(config, max_epochs=1), data=replace(config.data, folds=3))
    result = cross_validate(config, progress=False)
    assert len(result.folds) == 3
    sizes = [json.loads(Path(config.out, f"fold-{fold}", "report.json").read_text())["num_dev"] for fold in (1, 2, 3)]
    assert max(sizes) - min(sizes) <= 2
    assert result.mean("accuracy") == pytest.approx(sum(fold["accuracy"] for fold in result.folds) / 3)
    assert result.render().splitlines()[-1].startswith("sd")
    with pytest.raises(ConfigError, match=r"this classification run has no folds; .* set data.folds to 2 or more"):
        cross_validate(replace(config, data=replace(config.data, folds=0)))
    with pytest.raises(ConfigError, match=r"data.folds is '3', expected 3"):
        cross_validate(replace(config, data=replace(config.data, folds="3")))
    with pytest.raises(ConfigError, match=r"cross_validate: `out` is empty"):
        cross_validate(replace(config, out=""))


def test_a_cross_validation_is_resumed_as_a_whole(config, stop_at):
    config = replace(change(config, max_epochs=1), data=replace(config.data, folds=3))
    whole = cross_validate(replace(config, out=config.out + "-whole"), progress=False)
    # An older one, with other settings, is to be replaced, and its third fold is still there.
    cross_validate(replace(config, seed=2), progress=False)
    let_go = stop_at(str(Path(config.out, "fold-2")), 3)
    with pytest.raises(Interrupted, match=rf"stopped in fold 2 of 3; continue with: regard resume {config.out}$") as caught:
        cross_validate(replace(config, overwrite=True), progress=False)
    assert caught.value.exit_code == 130
    let_go()
    assert holds_folds(config.out)
    assert not holds_folds(Path(config.out, "fold-1"))
    with pytest.raises(ConfigError, match=rf"already holds folds; .* continue with `regard resume {config.out}`"):
        cross_validate(config, progress=False)
    assert resume_folds(config.out, progress=False) == whole
    assert json.loads(Path(config.out, "folds.json").read_text())["mean"]["loss"] == pytest.approx(whole.mean("loss"))


@pytest.mark.parametrize("overwrite", [False, True])
def test_ctrl_c_in_the_first_fold_says_how_to_go_on(config, stop_at, overwrite):
    """The saved settings differ from those that were given: the tokenizer was chosen, and nothing is to be overwritten."""
    config = replace(change(config, max_epochs=1), data=replace(config.data, folds=2), overwrite=overwrite)
    stop_at(str(Path(config.out, "fold-1")), 3)
    with pytest.raises(Interrupted, match=rf"stopped in fold 1 of 2; continue with: regard resume {config.out}$"):
        cross_validate(config, progress=False)


@pytest.mark.parametrize("fold", [1, 2])
def test_ctrl_c_between_folds_says_how_to_go_on(config, monkeypatch, fold):
    """While the data of a fold are prepared, no run of it has begun that would say so."""

    def stopped(own, **settings):
        if own.data.fold == fold:
            raise KeyboardInterrupt
        return fit(own, **settings)

    monkeypatch.setattr(sys.modules[cross_validate.__module__], "fit", stopped)
    config = replace(change(config, max_epochs=1), data=replace(config.data, folds=3))
    with pytest.raises(KeyboardInterrupt if fold == 1 else Interrupted) as caught:
        cross_validate(config, progress=False)
    if fold == 2:
        assert str(caught.value) == f"stopped in fold 2 of 3; continue with: regard resume {config.out}"
        assert caught.value.exit_code == 130


def test_scores_are_estimated_by_folds_without_a_change_to_the_model(config, tmp_path, capsys):
    config = change(config, max_epochs=1)
    own = replace(change(config, score_folds=3), data=replace(config.data, dev_size=0))
    scores = fit(own, progress=True).bundle.signature["scores"]
    assert "estimating the scores by cross-validation: 3 models" in capsys.readouterr().err
    folded = replace(config, data=replace(config.data, folds=3), out=str(tmp_path / "folds"))
    folds = [
        load(tmp_path / "folds" / f"fold-{n}").bundle.signature["scores"]
        for n in range(1, 4)
        if n > 1 or cross_validate(folded)
    ]
    sizes = [fold["texts"] for fold in folds]
    for name in ("accuracy", "loss"):
        mean = sum(fold[name] * size for fold, size in zip(folds, sizes, strict=True)) / sum(sizes)
        assert scores[name] == pytest.approx(mean, rel=1e-12)
    assert scores["accuracy_sd"] == pytest.approx(statistics.stdev(fold["accuracy"] for fold in folds))
    assert scores["macro_f1"] == pytest.approx(statistics.mean(fold["macro_f1"] for fold in folds))
    rows = Path(config.data.train[0]).read_text().splitlines()[1:]
    without = sum(row.endswith("without") for row in rows)
    assert (scores["texts"], scores["folds"]) == (len(rows), 3)
    assert (scores["majority_label"], scores["majority_share"]) == ("without", pytest.approx(without / len(rows)))
    plain = fit(replace(change(own, score_folds=0), out=str(tmp_path / "plain")), progress=False)
    assert plain.bundle.signature["scores"] == {}
    assert model_bytes(own.out) == model_bytes(plain.config.out)
    assert resume(own.out, progress=False).bundle.signature["scores"] == scores
