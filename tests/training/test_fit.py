"""What a run does, keeps and says, and what it says when it cannot go on."""

import errno
import io
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny import TinyTranslator

import regard
from regard.attention import Additive
from regard.config import (
    AdditiveConfig,
    AutoConfig,
    BahdanauDecoderConfig,
    CoverageConfig,
    EncoderConfig,
    RecurrentConfig,
    TokenizersConfig,
    TransformerConfig,
    WhitespaceConfig,
)
from regard.config.loading import dump_config, read_config
from regard.errors import BundleError, ConfigError, DataError, TrainingError
from regard.tasks.translation.train import TranslationValidator
from regard.training import fit, resume
from regard.training.folder import RunFolder

SMALL = RecurrentConfig(embedding_size=12, encoder=EncoderConfig(hidden_size=12), decoder=BahdanauDecoderConfig(hidden_size=12))


def train(config, **settings):
    return fit(config, model=TinyTranslator, progress=False, **settings)


def rows_of(config):
    lines = Path(config.out, "logs", "metrics.csv").read_text().splitlines()
    return [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]


def last_state(config):
    return torch.load(Path(config.out, "checkpoints", "last.ckpt"), weights_only=True)


def test_the_configured_model_is_trained_and_loads_again(config, change):
    config = change(replace(config, model=SMALL), max_epochs=1)
    translator = fit(config, progress=False)
    again = regard.load(config.out)
    given, loaded = (t.translate(["a b c"], beam_size=1)[0].text for t in (translator, again))
    assert given == loaded
    signature = json.loads(Path(config.out, "signature.json").read_text())
    assert signature["seed"] == config.seed
    assert "tok:13a" in signature["scores"]["bleu_signature"]
    assert signature["scores"]["pairs"] == 27
    assert signature["scores"]["translated_pairs"] == 8


def test_own_attention_goes_into_the_configured_decoder(config, change):

    own = AdditiveConfig().build(query_size=12, key_size=24)
    config = change(replace(config, model=SMALL), max_epochs=1)
    before = [parameter.detach().clone() for parameter in own.parameters()]
    translator = fit(config, attention=own, progress=False)
    assert any(module is own for module in translator.model.modules())
    assert all((now != then).any() for now, then in zip(own.parameters(), before, strict=True))


def test_the_loss_of_the_attention_is_trained_and_has_a_column_of_its_own(config, change):
    decoder = replace(SMALL.decoder, attention=CoverageConfig())
    config = change(replace(config, model=replace(SMALL, decoder=decoder)), max_epochs=2)
    translator = fit(config, progress=False)
    rows = rows_of(config)
    assert all(0 < float(row["attention_loss"]) < 1 for row in rows)
    assert translator.translate(["a b"])[0].source == "a b"
    assert regard.load(config.out).bundle.config.model.decoder.attention == CoverageConfig()


def test_without_a_loss_of_the_attention_its_column_is_empty(config, change):
    config = change(replace(config, model=SMALL), max_epochs=1)
    fit(config, progress=False)
    assert all(row["attention_loss"] == "" for row in rows_of(config))


def test_own_attention_must_be_an_object(config):
    message = r"attention is <class '.*Additive'>, expected an object .*: query_size=12, key_size=24"
    with pytest.raises(ConfigError, match=message):
        fit(replace(config, model=SMALL), attention=Additive, progress=False)
    message = "a model of kind 'transformer' takes no attention object; build a model with your own attention, and give it"
    with pytest.raises(ConfigError, match=message):
        fit(replace(config, model=TransformerConfig()), attention=Additive, progress=False)
    assert not Path(config.out).exists()


def test_max_steps_ends_in_mid_epoch_with_a_validation(config, change):
    config = change(config, max_steps=4)
    train(config)
    assert [row["step"] for row in rows_of(config)] == ["4"]
    assert last_state(config)["progress"]["finished"]


def test_max_minutes(config, change):
    config = change(config, max_minutes=1e-9)
    train(config)
    assert last_state(config)["progress"]["step"] == 1


def test_a_kind_of_tokenizer_left_open_is_chosen_and_kept(config, change, tmp_path):
    lines = [f"say {a} {b} ." for a in "abcdefgh" for b in "abcdefgh"]
    path = tmp_path / "tokenised.tsv"
    path.write_text("".join(f"{line}\t{line}\n" for line in lines))
    data = replace(config.data, train=(str(path),), dev_size=6)
    tokenizers = TokenizersConfig(source=AutoConfig(), target=AutoConfig())
    translator = train(change(replace(config, data=data, tokenizers=tokenizers), max_epochs=1))
    chosen = TokenizersConfig(source=WhitespaceConfig(), target=WhitespaceConfig())
    assert translator.config.tokenizers == chosen
    assert read_config(Path(config.out, "config.yaml")).tokenizers == chosen
    assert RunFolder(config.out).read_start()[0].tokenizers == chosen
    assert translator.bundle.parts.target.kind == "whitespace"
    assert "tok:none" in translator.bundle.signature["scores"]["bleu_signature"]
    assert "tok:none" in translator.evaluate(lines[:2], lines[:2]).bleu_signature
    assert "the source is tokenised already" in str(translator.bundle.report["notes"])


def test_patience(config, change):
    config = change(config, learning_rate=1e-30, patience=2, max_epochs=9, monitor="loss", ema_decay=0.0)
    train(config)
    assert last_state(config)["progress"]["epoch"] == 3


def test_accumulation_is_one_large_batch(config, change):
    """Without dropout and mixed feeding, an epoch in one update has the same loss however it is cut."""
    plain = change(config, teacher_forcing=replace(config.training.teacher_forcing, end=1.0), ema_decay=0.0, max_steps=2)
    results = []
    for name, batch_tokens, accumulate in (("one", 100_000, 1), ("many", 60, 1000)):
        cut = change(replace(plain, out=plain.out + name), batch_tokens=batch_tokens, accumulate=accumulate)
        fit(cut, model=lambda source, target: TinyTranslator(source, target, dropout=0.0), progress=False)
        results.append(load_file(Path(cut.out, "model.safetensors")))
    assert results[0].keys() == results[1].keys()
    for name in results[0]:
        torch.testing.assert_close(results[0][name], results[1][name], rtol=0, atol=2e-5)


@pytest.mark.parametrize("average_last", [0, 1, 3])
def test_without_dev_pairs(config, change, capsys, average_last):
    config = replace(config, data=replace(config.data, dev_size=0))
    config = change(config, average_last=average_last, ema_decay=0.0, patience=1 - average_last // 3)
    fit(config, model=TinyTranslator)
    idle = "nothing is held out to validate on (data.dev, data.dev_size), so training.patience has no effect"
    assert (idle in capsys.readouterr().err) == bool(config.training.patience)
    assert json.loads(Path(config.out, "signature.json").read_text())["scores"] == {}
    weights = [torch.load(path, weights_only=True) for path in sorted(Path(config.out, "checkpoints").glob("weights-*"))]
    assert len(weights) >= max(average_last, 1)  # the checkpoint before the last has its own
    weights = weights[-max(average_last, 1) :]
    saved = load_file(Path(config.out, "model.safetensors"))
    for name, value in saved.items():
        mean = torch.stack([state[name].double() for state in weights]).mean(0).float()
        torch.testing.assert_close(value, mean, rtol=0, atol=0)


def test_the_best_is_kept_not_the_last(config, change, monkeypatch):
    found = iter([1.0, 3.0, 2.0])
    monkeypatch.setattr("regard.tasks.translation.train.TranslationScores.monitored", lambda self, name: next(found))
    train(config)
    [best] = Path(config.out, "checkpoints").glob("weights-*")
    state = last_state(config)["progress"]
    assert int(best.stem.removeprefix("weights-")) == state["best_step"] == state["step"] * 2 // 3
    kept, saved = torch.load(best, weights_only=True), load_file(Path(config.out, "model.safetensors"))
    assert all(torch.equal(kept[name], saved[name]) for name in saved)


def best_by(config, score):
    """Return the update at which the logs have the highest score, which must not be the first or the last validation."""
    rows = [row for row in rows_of(config) if row["dev_nll"]]
    best = max(rows, key=score)
    assert best not in (rows[0], rows[-1])
    return int(best["step"])


@pytest.mark.parametrize("average_last", [0, 1])
def test_of_equal_scores_the_lower_loss_is_better(config, change, monkeypatch, capsys, average_last):
    monkeypatch.setattr("regard.tasks.translation.train.TranslationScores.monitored", lambda self, name: 0.0)
    losses, score = iter([3.0, 1.0, 2.0]), TranslationValidator.score
    monkeypatch.setattr(TranslationValidator, "score", lambda self, nll, after: score(self, next(losses), after))
    fit(change(config, monitor="bleu", average_last=average_last), model=TinyTranslator)
    state = last_state(config)["progress"]
    assert state["best_step"] == best_by(config, lambda row: -float(row["dev_nll"]))
    assert state["bad_validations"] == 1
    kept = json.loads(Path(config.out, "signature.json").read_text())["kept"]
    assert kept == [state["step"] if average_last else state["best_step"]]
    which = "last model" if average_last else "best model by bleu"
    ended = f"ended because of training.max_epochs 3; kept the {which}, after update {kept[0]}\n"
    assert ended in capsys.readouterr().err


def scores_in_turn(monkeypatch, *scores):
    """Let the validations of a run find these scores."""
    found = iter(scores)
    monkeypatch.setattr("regard.tasks.translation.train.TranslationScores.monitored", lambda self, name: next(found))


@pytest.mark.parametrize("average_last", [0, pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("interrupted", [False, True])
def test_the_best_is_kept_if_patience_ends_the_run(config, change, monkeypatch, capsys, average_last, interrupted):
    scores_in_turn(monkeypatch, 1.0, 3.0, 2.0, 2.5, 2.9)
    config = change(config, max_epochs=9, patience=3, average_last=average_last, ema_decay=0.0)
    if interrupted:
        train(change(config, max_epochs=4))
        resume(config.out, overrides={"training.max_epochs": 9}, model=TinyTranslator)
    else:
        fit(config, model=TinyTranslator)
    state, signature = last_state(config)["progress"], json.loads(Path(config.out, "signature.json").read_text())
    assert state["epoch"] == 5
    assert signature["kept"] == [state["best_step"]] == [state["step"] * 2 // 5]
    weights = torch.load(Path(config.out, "checkpoints", f"weights-{state['best_step']:08d}.ckpt"), weights_only=True)
    saved = load_file(Path(config.out, "model.safetensors"))
    assert all(torch.equal(weights[name], saved[name]) for name in saved)
    assert signature["scores"]["loss"] == state["scores"][state["best_step"]]["loss"]
    ended = f"ended because of training.patience 3; kept the best model by bleu, after update {state['best_step']}\n"
    assert ended in capsys.readouterr().err


def test_a_folder_that_holds_a_run_is_not_touched_unless_asked(config, change):
    config = change(config, max_steps=1)
    train(config)
    before = Path(config.out, "model.safetensors").read_bytes()
    with pytest.raises(
        ConfigError, match=r"already holds a run; name another folder, continue with `regard resume .*`, or replace"
    ):
        train(config)
    missing = replace(config, overwrite=True, data=replace(config.data, train=("nowhere.tsv",)))
    with pytest.raises(DataError):
        train(missing)
    assert Path(config.out, "model.safetensors").read_bytes() == before
    Path(config.out, "mine.txt").write_text("kept")
    train(replace(config, overwrite=True, seed=5))
    assert Path(config.out, "model.safetensors").read_bytes() != before
    assert Path(config.out, "mine.txt").read_text() == "kept"
    with pytest.raises(ConfigError, match="already holds a run"):  # to overwrite is not among the settings a run keeps
        train(read_config(Path(config.out, "config.yaml")))


def test_a_model_larger_than_memory(config):
    huge = replace(config, model=replace(config.model, embedding_size=10**9))
    with pytest.raises(ConfigError, match="the model does not fit into memory; lower the sizes under model"):
        fit(huge, progress=False)
    assert not Path(config.out).exists()


def test_a_folder_of_something_else_is_refused(config, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "holiday.jpg").touch()
    for overwrite in (True, False):
        with pytest.raises(ConfigError, match="holds files that are not a run's; name a new or an empty folder"):
            train(replace(config, overwrite=overwrite))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="which is a file; name a folder"):
        train(replace(config, out=str(tmp_path / "file")))
    with pytest.raises(ConfigError, match="cannot be written to; name another folder"):
        train(replace(config, out=str(tmp_path / "file" / "below")))


def test_monitor_needs_what_it_looks_at(config, change):
    with pytest.raises(ConfigError, match=r"training.monitor is 'bleu', but training.validation_pairs is 0, so no pair"):
        train(change(config, validation_pairs=0, monitor="bleu"))
    translator = train(change(config, validation_pairs=0, max_steps=1))
    assert translator.config.training.monitor == "loss"
    assert rows_of(config)[-1]["bleu"] == "0.0"


@pytest.mark.parametrize(("words", "monitor"), [(5, "bleu"), (1, "chrf")])
def test_the_monitor_suits_the_targets(config, change, tmp_path, words, monitor):
    path = tmp_path / "pairs.tsv"
    stems = [first + second for first in "abcdefgh" for second in "klmnopqr"]
    path.write_text("".join(f"{stem}\t{' '.join([stem + 's'] * words)}\n" for stem in stems))
    config = replace(config, data=replace(config.data, train=(str(path),), header="no"))
    translator = train(change(config, max_steps=1))
    assert translator.config.training.monitor == monitor
    assert RunFolder(config.out).read_start()[0].training.monitor == monitor
    config = change(replace(config, overwrite=True), max_steps=1, monitor="exact_match")
    assert train(config).config.training.monitor == "exact_match"
    assert rows_of(config)[-1]["exact_match"] == "0.0"


class Overflowing(TinyTranslator):
    """Its loss is infinite from the third update on."""

    calls = 0

    def decode(self, *arguments, **settings):
        features, maps = super().decode(*arguments, **settings)
        type(self).calls += self.training
        return features * (float("inf") if type(self).calls > 6 else 1.0), maps


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_checkpoint(config, change, monkeypatch):
    Overflowing.calls = 0
    config = change(config, checkpoint_every=1, precision="bfloat16", clip_norm=0.0, max_skipped=0)
    with pytest.raises(TrainingError) as caught:
        fit(config, model=Overflowing, progress=False)
    text = str(caught.value)
    assert text.startswith(
        "training has stopped: the loss or its gradient is not finite at update 4 (learning rate 0.001), 1 times since the "
        "last validation; the last good checkpoint"
    )
    assert text.endswith(
        "training.learning_rate, training.clip_norm 1.0 (clipping is off), training.precision float32 (now bfloat16)"
    )
    state = last_state(config)
    assert state["progress"]["step"] == 3
    assert all(value.isfinite().all() for value in state["model"].values())


class Astray(TinyTranslator):
    """From the third epoch's validation on, the loss is fine and no word has a finite score; or the loss is not fine either."""

    in_loss = False

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.modes = [True]

    def eval(self):
        self.modes.append(False)
        return super().eval()

    def broken(self):
        return not self.training and len(self.modes) > 3

    def step(self, tokens, state, *, record=(), reweight=None):
        logits, maps, state = super().step(tokens, state, record=record)
        return logits * (float("nan") if self.broken() else 1.0), maps, state

    def decode(self, *arguments, **settings):
        features, maps = super().decode(*arguments, **settings)
        return features * (float("nan") if self.in_loss and self.broken() else 1.0), maps


@pytest.mark.parametrize(("in_loss", "what"), [(False, "output on dev"), (True, "loss on dev")])
def test_a_validation_that_is_not_finite_stops_the_run_and_keeps_the_checkpoint(config, monkeypatch, in_loss, what):
    monkeypatch.setattr(Astray, "in_loss", in_loss)
    with pytest.raises(TrainingError, match=f"the {what} is not finite at update .*; the last good checkpoint is kept in"):
        fit(config, model=Astray, progress=False)
    assert last_state(config)["progress"]["epoch"] == 2
    assert load_file(Path(config.out, "model.safetensors"))


class Full(io.FileIO):
    """A file on a disk that is full."""

    def write(self, content):
        super().write(bytes(content)[:100])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_the_last_checkpoint_as_it_was(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    folder.checkpoints.mkdir()
    folder.save_checkpoint({"step": 1}, keep=[])
    monkeypatch.setattr(os, "fdopen", Full)
    with pytest.raises(TrainingError, match=r"last.ckpt': the disk is full .*; everything written before is intact: free some"):
        folder.save_checkpoint({"step": 2, "weights": torch.zeros(1000)}, keep=[])
    monkeypatch.undo()
    assert folder.load_checkpoint() == ({"step": 1, "keep": []}, "")
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["previous.ckpt"]


@pytest.mark.parametrize(
    "name", ["config.yaml", "README.md", "logs/mine.txt", "checkpoints/last.ckpt", "checkpoints/sub/x", ".incoming/README.md"]
)
def test_files_with_the_names_of_a_runs_are_refused(tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(ConfigError, match="holds files that are not a run's"):
        RunFolder(tmp_path).check_free(overwrite=False)


def test_to_overwrite_takes_what_a_run_writes_and_nothing_else(tmp_path, config):
    names = ["logs/mine.txt", "logs/plots/a", "checkpoints/notes.txt", ".incoming/mine", ".incoming-photos/mine"]
    for name in ("checkpoints/run.json", "checkpoints/weights-00000001.ckpt", "logs/metrics.csv", "labels.json", *names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("some")
    folder = RunFolder(tmp_path)
    folder.check_free(overwrite=True)
    with folder.held():
        folder.start({"settings": dump_config(config)})
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {*names, "checkpoints/run.json"}


@pytest.mark.parametrize("killed_at", ["README.md", "last.ckpt", "run.json"])
def test_a_run_that_makes_way_for_another_counts_as_one_until_it_is_gone(tmp_path, config, monkeypatch, killed_at):
    """A command that was killed in the middle of an overwriting is given again."""
    for name in ("mine.txt", "README.md", "checkpoints/run.json", "checkpoints/last.ckpt", "logs/metrics.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("some")
    folder, unlink = RunFolder(tmp_path), Path.unlink

    def killed(path, **settings):
        if path.name == killed_at:
            raise KeyboardInterrupt
        unlink(path, **settings)

    with folder.held(), monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            folder.start({"settings": dump_config(config)})
    assert folder.holds_run()
    folder.check_free(overwrite=True)
    with folder.held():
        folder.start({"settings": dump_config(config)})
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["run.json"]
    assert (tmp_path / "mine.txt").exists()


def test_a_checkpoint_of_another_format_is_refused(config, change):
    config = change(config, max_steps=1)
    train(config)
    folder = RunFolder(config.out)
    folder.save_checkpoint({**last_state(config), "format": 99}, keep=[1])
    with pytest.raises(BundleError, match="its checkpoint has format 99, expected 6; resume it with the version of regard"):
        regard.resume(config.out, model=TinyTranslator, progress=False)


def test_what_is_said_without_a_terminal(config, change, capfd):
    fit(change(config, max_epochs=1), model=TinyTranslator)
    out, err = capfd.readouterr()
    assert out == ""
    for words in (
        "pairs kept",
        "epoch 1, update",
        "dev loss",
        "pairs: BLEU nrefs:1",
        "source    ",
        "trained 1 epoch (",
        "tokens/s",
    ):
        assert words in err
    assert err.count("  prediction  ") == 3
    assert "GPU available" not in err
    assert "\x1b" not in err


def test_the_callers_random_numbers_and_threads_are_left_alone(config, change):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    threads = torch.get_num_threads()
    train(change(config, max_steps=2))
    assert torch.equal(torch.rand(2), expected)
    assert torch.get_num_threads() == threads


def test_tensorboard_files(config, change):
    train(change(config, max_steps=2, tensorboard=True))
    assert any(path.name.startswith("events.out.tfevents") for path in Path(config.out, "logs").iterdir())


def test_plain_defaults_come_with_advice(config, capsys, monkeypatch):
    monkeypatch.setattr(RunFolder, "held", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        fit(replace(config, model=type(config)().model, training=type(config)().training))
    assert "regard.choose_config('translation', …) chooses settings from the data" in capsys.readouterr().err
