"""Students that learn from the word probabilities of trained models."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from training.test_resume import Stop, stop_at  # noqa: F401 (a fixture)

import regard
from regard.cli.main import main as run_command
from regard.cli.train import read_arguments
from regard.config import (
    BahdanauDecoderConfig,
    DistillationConfig,
    EncoderConfig,
    LanguageModelConfig,
    RecurrentConfig,
    TextDataConfig,
    WordsConfig,
)
from regard.errors import BundleError, ConfigError, DataError
from regard.models.build import build_translator
from regard.tasks.language.config import LanguageConfig, LanguageTrainingConfig
from regard.tasks.language.train import LanguageTraining
from regard.tasks.translation.train import TranslationTraining
from regard.training import fit, resume

SMALL = RecurrentConfig(embedding_size=8, encoder=EncoderConfig(hidden_size=8), decoder=BahdanauDecoderConfig(hidden_size=8))
SMALLER = RecurrentConfig(embedding_size=4, encoder=EncoderConfig(hidden_size=4), decoder=BahdanauDecoderConfig(hidden_size=4))


@pytest.fixture
def teachers(trained, change, tmp_path):
    """The folders of two teachers with one vocabulary, which a test may change."""
    folders = []
    for seed in (1, 2):

        def train(config, seed=seed):
            data = replace(config.data, dev=config.data.train)  # so that both are trained on the same pairs
            fit(change(replace(config, model=SMALL, data=data, seed=seed), max_epochs=2), progress=False)

        folders.append(Path(shutil.copytree(trained(f"teacher-{seed}", train), tmp_path / f"teacher-{seed}")))
    return folders


@pytest.fixture
def student(config, change, teachers, tmp_path):
    """The settings of a run that learns from both."""
    taught = DistillationConfig(teachers=tuple(map(str, teachers)), words=3)
    data = replace(config.data, dev=config.data.train, cache=str(tmp_path / "cache"))
    return change(replace(config, model=SMALLER, data=data, distillation=taught), max_epochs=2)


def probabilities_by_steps(folders: list[Path], source: Tensor, target_in: Tensor) -> Tensor:
    """The mean of the teachers' probabilities of one pair, a step at a time: (T,V)."""
    each = []
    for folder in folders:
        model = regard.load(folder, device="cpu").model.double().eval()
        state, rows = model.encode(source[None], torch.ones(1, len(source), dtype=torch.bool)), []
        for token in target_in:
            logits, _, state = model.step(token[None, None], state)
            rows.append(logits[0, 0].softmax(-1))
        each.append(torch.stack(rows))
    return torch.stack(each).mean(0)


def test_the_loss_is_the_formula_with_the_teachers_mean_probabilities(student, teachers) -> None:
    task = TranslationTraining().prepare(student, model=None, attention=None, start=None, progress=False)
    batch = task.batch(np.array([5, 0, 9]))
    model = task.model.eval()
    loss, nll = task.loss(batch, 1, 1)
    expected, gold_only = 0.0, 0.0
    for row in range(3):
        length, words = int(batch.source_mask[row].sum()), int(batch.target_mask[row].sum())
        source, given, gold = batch.source[row, :length], batch.target_in[row, :words], batch.target_out[row, :words]
        with torch.no_grad():
            best = probabilities_by_steps(teachers, source, given).topk(3)
            soft = best.values / best.values.sum(-1, keepdim=True)
            state, logits = model.encode(source[None], torch.ones(1, length, dtype=torch.bool)), []
            for token in given:
                row_logits, _, state = model.step(token[None, None], state)
                logits.append(row_logits[0, 0])
        log_q = torch.stack(logits).double().log_softmax(-1)
        of_gold = -log_q.gather(1, gold[:, None]).sum()
        of_teachers = -(soft * log_q.gather(1, best.indices)).sum()
        expected, gold_only = expected + 0.5 * of_gold + 0.5 * of_teachers, gold_only + of_gold
    # Probabilities are stored with eleven bits.
    assert loss.item() == pytest.approx(expected.item(), rel=1e-3)
    assert nll.item() == pytest.approx(gold_only.item(), rel=1e-5)


def test_a_student_has_the_teachers_vocabulary_and_says_whom_it_learned_from(student, teachers, capfd) -> None:
    student = replace(student, tokenizers=replace(student.tokenizers, source=WordsConfig(min_count=9)))
    made = fit(student)
    teacher = regard.load(teachers[0], device="cpu")
    assert made.bundle.model.vocabulary == teacher.bundle.model.vocabulary
    assert made.config.tokenizers == teacher.config.tokenizers
    said = " ".join(capfd.readouterr().err.split())
    assert "learning from 2 teachers" in said
    assert str(teachers[1]) in said
    assert "the 3 most probable words at each token hold" in said
    again = regard.load(student.out, device="cpu")
    assert again.config.distillation.teachers == tuple(map(str, teachers))


@pytest.mark.slow
def test_weight_zero_is_training_without_teachers(student, change) -> None:
    taught = fit(replace(student, distillation=replace(student.distillation, weight=0.0)), progress=False)
    alone = fit(replace(student, distillation=DistillationConfig(), out=student.out + "-alone"), progress=False)
    for name, weights in alone.model.state_dict().items():
        torch.testing.assert_close(taught.model.state_dict()[name], weights, rtol=1e-4, atol=1e-5)
    full = fit(replace(student, distillation=replace(student.distillation, weight=1.0), out=student.out + "-1"), progress=False)
    assert any(not torch.allclose(full.model.state_dict()[name], weights) for name, weights in alone.model.state_dict().items())


@pytest.mark.parametrize("keep_cache", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_resumed_student_has_the_same_bits(student, tmp_path, stop_at, keep_cache) -> None:  # noqa: F811
    whole = fit(replace(student, out=str(tmp_path / "whole")), progress=False)
    go_on = stop_at(9)
    with pytest.raises(Stop):
        fit(student, progress=False)
    go_on()
    if not keep_cache:
        shutil.rmtree(tmp_path / "cache")
    again = resume(student.out, progress=False)
    for name, weights in whole.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], weights), name


@pytest.mark.slow
def test_a_second_student_reads_the_cache(student, monkeypatch) -> None:
    fit(student, progress=False)
    monkeypatch.setattr("regard.tasks.distillation._most_probable", None)
    fit(replace(student, out=student.out + "-2", seed=7), progress=False)


def test_a_teacher_that_changed_stops_a_resume(student, teachers, stop_at) -> None:  # noqa: F811
    go_on = stop_at(9)
    with pytest.raises(Stop):
        fit(student, progress=False)
    go_on()
    shutil.rmtree(teachers[0])
    shutil.copytree(teachers[1], teachers[0])
    with pytest.raises(DataError, match=r"teacher-1 or .*teacher-2 has changed since the run began"):
        resume(student.out, progress=False)
    shutil.rmtree(teachers[0])
    with pytest.raises(BundleError, match="teacher-1"):
        resume(student.out, progress=False)


def test_teachers_with_different_vocabularies_are_refused(student, teachers, trained, change, other) -> None:
    message = r"the teacher in .*stranger.* has another vocabulary than the one in .*teacher-1.*--data\.dev"
    with pytest.raises(ConfigError, match=message):
        fit(
            replace(student, distillation=replace(student.distillation, teachers=(str(teachers[0]), str(other)))),
            progress=False,
        )


@pytest.fixture
def other(trained, change, tmp_path):
    """A translator with another vocabulary."""
    path = tmp_path / "digits.tsv"
    path.write_text("".join(f"{number} {number + 1}\t{number} {number - 1}\n" for number in range(40)))

    def train(config):
        data = replace(config.data, train=(str(path),), dev_size=0, cache=str(tmp_path / "cache"))
        fit(change(replace(config, model=SMALL, data=data), max_epochs=1, patience=0), progress=False)

    return trained("stranger", train)


def test_a_student_that_starts_from_a_model_with_another_vocabulary_is_refused(student, other) -> None:
    with pytest.raises(ConfigError, match="has another vocabulary than this run"):
        fit(replace(student, model=regard.load(other, device="cpu").config.model, start_from=str(other)), progress=False)


def test_a_teacher_of_ones_own_is_refused(student, teachers, tmp_path) -> None:
    own = replace(student, out=str(tmp_path / "own"), distillation=DistillationConfig())
    fit(own, model=lambda source, target: build_translator(SMALL, source_size=source, target_size=target), progress=False)
    taught = replace(student, distillation=replace(student.distillation, teachers=(own.out,)))
    with pytest.raises(ConfigError, match="has a part that is your own object"):
        fit(taught, progress=False)


@pytest.mark.slow
def test_a_language_model_learns_from_another(tmp_path) -> None:
    path = tmp_path / "song.txt"
    path.write_text("".join(f"{line} .\n" for line in 25 * ["one two three", "three two one", "two two one three"]))
    model = LanguageModelConfig(
        hidden_size=16, num_layers=1, num_heads=2, feed_forward_size=16, embedding_dropout=0.0, layer_dropout=0.0
    )
    data = TextDataConfig(train=(str(path),), dev_size=0, drop_repeats=False, max_tokens=3, cache=str(tmp_path / "cache"))
    training = LanguageTrainingConfig(
        max_epochs=8, batch_sentences=4, learning_rate=0.01, tensorboard=False, precision="float32"
    )
    teacher = LanguageConfig(
        data=data, tokenizer=WordsConfig(), model=model, training=training, out=str(tmp_path / "teacher"), threads=1
    )
    teaching = fit(teacher, progress=False)
    taught = DistillationConfig(teachers=(teacher.out,), weight=1.0, words=99)
    student = replace(teacher, out=str(tmp_path / "student"), distillation=taught)
    task = LanguageTraining().prepare(student, model=None, attention=None, start=None, progress=False)
    batch = task.batch(np.arange(6))
    task.model.load_state_dict(teaching.model.state_dict())
    task.model.eval()
    loss, _ = task.loss(batch, 1, 1)
    features, _ = task.model.decode(batch.target_in, task.model.encode(batch.source, batch.source_mask))
    weight, bias = task.model.output_weight()
    p = torch.nn.functional.linear(features, weight, bias).double().softmax(-1)[batch.target_mask]
    assert loss.item() == pytest.approx(-(p * p.log()).sum().item(), rel=1e-3), "the entropy of the teacher itself"
    made = fit(student, progress=False)
    assert made.evaluate(["one two three ."]).loss < 1.0


def test_a_classifier_cannot_teach_a_translator_nor_learn_by_words(student, tmp_path, capfd) -> None:
    path = tmp_path / "labels.tsv"
    path.write_text("".join(f"text {number}\t{'good' if number % 2 else 'bad'}\n" for number in range(40)))
    run_command(
        ["train", "classification", "--data.train", str(path), "--out", str(tmp_path / "labels"), "--training.max_epochs", "1"]
    )
    taught = replace(student, distillation=replace(student.distillation, teachers=(str(tmp_path / "labels"),)))
    with pytest.raises(ConfigError, match=r"the teacher in .*labels' is a classifier, expected a translator"):
        fit(taught, progress=False)
    capfd.readouterr()
    assert run_command(["train", "classification", "--data.train", str(path), "--distill", "x"]) == 2
    assert "--distill" in capfd.readouterr().err


def test_the_command_takes_the_teachers_tokenizers(teachers, pairs, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    files = ["--data.train", str(pairs), "--out", str(tmp_path / "new")]
    config = read_arguments(
        "translation", [*files, "--distill", *map(str, teachers), "--distillation.weight", "0.7"], choose=True
    )
    teacher = regard.load(teachers[0], device="cpu").config
    assert config.tokenizers == teacher.tokenizers
    assert config.distillation == DistillationConfig(teachers=tuple(map(str, teachers)), weight=0.7)
    repeated = read_arguments(
        "translation", [*files, *(part for one in teachers for part in ("--distill", str(one)))], choose=True
    )
    assert repeated.distillation.teachers == config.distillation.teachers
    with_preset = read_arguments(
        "translation", [*files, "--preset", "luong", f"--distillation.teachers={teachers[0]}"], choose=True
    )
    assert with_preset.tokenizers == teacher.tokenizers


def test_the_command_trains_a_student(teachers, pairs, tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    command = [
        "train",
        "translation",
        "--data.train",
        str(pairs),
        "--distill",
        *map(str, teachers),
        "--out",
        str(tmp_path / "new"),
    ]
    small = ["--model.embedding_size", "4", "--training.max_epochs", "1", "--training.max_steps", "3"]
    assert not run_command([*command, *small, "--threads", "1"])
    assert "learning from 2 teachers" in capfd.readouterr().err
    assert regard.load(tmp_path / "new", device="cpu").config.distillation.teachers == tuple(map(str, teachers))
