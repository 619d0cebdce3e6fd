"""The search for settings: ranges, trials, pruning, and a study that can be continued. Runs are fakes here."""

from __future__ import annotations

import csv
import re
from types import SimpleNamespace
from typing import Any

import pytest

from regard.cli.main import main
from regard.config.loading import load_config, override_layer
from regard.errors import ConfigError, DataError, Interrupted, RequestError, TrainingError
from regard.training import search as module
from regard.training.search import Range, search, write_table

pytest.importorskip("optuna")
RANGES = {"training.learning_rate": Range.parse("x", "0.001:0.1:log"), "model.embedding_size": Range.parse("x", "8,16")}


def build(settings, folder):
    return load_config({"task": "translation", "out": folder}, override_layer(dict(settings)))


@pytest.fixture
def runs(monkeypatch) -> list[dict[str, Any]]:
    """The configurations of all runs. A run has two validations; its score is its learning rate unless `behave` says else."""
    made: list[dict[str, Any]] = []

    def fit(config, callbacks):
        rate = config.training.learning_rate
        made.append({"rate": rate, "size": config.model.embedding_size, "out": config.out})
        progress = SimpleNamespace(best=None, validations=0, finished=False)
        run = SimpleNamespace(progress=progress, config=SimpleNamespace(training=SimpleNamespace(monitor=fit.monitor)))
        if error := fit.errors.pop(len(made) - 1, None):
            raise error
        for number in (1, 2):
            progress.best, progress.validations = fit.score(rate) * number, number
            callbacks[0].after_validation(run, {"bleu": progress.best})
        made[-1]["finished"] = True

    fit.errors, fit.score, fit.monitor = {}, lambda rate: rate, "bleu"
    monkeypatch.setattr(module, "fit", fit)
    monkeypatch.setattr(module, "made_by", fit, raising=False)
    return made


@pytest.mark.parametrize("text", ["1", "1,", "a:b", "2:1", "1:1", "0:1:log", "1:2:3", "1:inf", "", "1:2:lin"])
def test_ranges_that_are_none(text):
    with pytest.raises(RequestError, match=re.escape(f"--search.x is '{text}', expected at least two values (1,2,3)")):
        Range.parse("search.x", text)


def test_trials(runs, tmp_path):
    tables = []
    found = search(build, RANGES, tmp_path / "s", trials=7, after_trial=lambda all_: tables.append(len(all_)))
    assert tables == list(range(1, 8))
    assert {run["size"] for run in runs} == {8, 16}
    assert all(0.001 <= run["rate"] <= 0.1 for run in runs)
    assert [one.value for one in found if one.state == "complete"] == sorted(
        (one.value for one in found if one.state == "complete"), reverse=True
    )
    best = max(runs, key=lambda run: run["rate"])
    assert (found[0].folder, found[0].score) == (best["out"], pytest.approx(2 * best["rate"]))
    assert found[0].settings == {"training.learning_rate": f"{best['rate']:.4g}", "model.embedding_size": str(best["size"])}
    write_table(found, tmp_path / "t.csv")
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert (rows[0]["state"], rows[0]["monitor"], float(rows[0]["score"])) == ("complete", "bleu", found[0].score)


def test_a_trial_below_the_median_is_pruned(runs, tmp_path):
    module.made_by.score = lambda rate: 1.0 if len(runs) <= 5 else 0.1
    found = search(build, RANGES, tmp_path / "s", trials=6)
    assert [one.state for one in found] == ["complete"] * 5 + ["pruned"]
    assert "finished" not in runs[-1]
    assert found[-1].score == pytest.approx(0.1)


def test_the_loss_of_a_pruned_trial_is_shown_as_a_loss(runs, tmp_path):
    module.made_by.score, module.made_by.monitor = lambda rate: -1.0 if len(runs) <= 5 else -5.0, "loss"
    said = []
    search(build, RANGES, tmp_path / "s", trials=6, say=said.append)
    assert said[-1] == "trial 5 is pruned: its score 5 is worse than the median of earlier trials"


def test_an_interrupted_search_continues_with_the_same_settings(runs, tmp_path):
    module.made_by.errors[1] = Interrupted("stopped", signal_number=2)
    with pytest.raises(Interrupted, match="stopped during trial 1; repeat the command to continue") as error:
        search(build, RANGES, tmp_path / "s", trials=3)
    assert error.value.exit_code == 130
    found = search(build, RANGES, tmp_path / "s", trials=3)
    assert (runs[2]["rate"], runs[2]["size"]) == (runs[1]["rate"], runs[1]["size"])
    assert sorted(one.state for one in found) == ["complete", "complete", "complete", "failed"]
    assert len(search(build, RANGES, tmp_path / "s", trials=3)) == len(found)  # nothing is left to do
    with pytest.raises(ConfigError, match=r"has other settings or ranges \(model.embedding_size\); repeat its command"):
        search(build, {**RANGES, "model.embedding_size": Range.parse("x", "8,32")}, tmp_path / "s", trials=4)


def test_a_second_search_in_the_same_folder_is_refused(runs, tmp_path):
    def second(found):
        with pytest.raises(
            ConfigError, match=r"process \d+ on this machine searches in '.*'; wait until that search has ended"
        ):
            search(build, RANGES, tmp_path / "s", trials=2)

    assert [one.state for one in search(build, RANGES, tmp_path / "s", trials=2, after_trial=second)] == ["complete"] * 2
    assert len(search(build, RANGES, tmp_path / "s", trials=3)) == 3


def test_a_damaged_study(runs, tmp_path):
    log = tmp_path / "s/study.log"
    search(build, RANGES, tmp_path / "s", trials=1)
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"half')  # as a full disk leaves it
    assert len(search(build, RANGES, tmp_path / "s", trials=2)) == len(search(build, RANGES, tmp_path / "s", trials=2)) == 2
    log.write_bytes(whole + b"[]\n")
    with pytest.raises(DataError, match=r"study\.log is damaged"):
        search(build, RANGES, tmp_path / "s", trials=2)


def test_failed_trials_are_reported_and_do_not_count(runs, tmp_path):
    module.made_by.errors[0] = TrainingError("the loss is\nnot finite")
    said = []
    found = search(build, RANGES, tmp_path / "s", trials=2, say=said.append)
    assert "trial 0 failed: the loss is\\nnot finite" in said
    assert [one.state for one in found] == ["complete", "complete", "failed"]
    module.made_by.errors.update({number: TrainingError("no") for number in range(20)})
    runs.clear()
    with pytest.raises(ConfigError, match="5 trials in a row failed; the messages above say why"):
        search(build, RANGES, tmp_path / "other", trials=1)


def test_a_search_ends_if_every_later_trial_fails_and_can_be_continued(runs, tmp_path):
    module.made_by.errors.update({number: ConfigError("mlflow cannot start") for number in (0, *range(2, 7))})
    with pytest.raises(ConfigError, match="5 trials in a row failed"):
        search(build, RANGES, tmp_path / "s", trials=3)
    assert len(runs) == 7
    assert [one.state for one in search(build, RANGES, tmp_path / "s", trials=3)] == ["complete"] * 3 + ["failed"] * 6


def test_whole_numbers(runs, tmp_path):
    found = search(build, {"model.embedding_size": Range.parse("x", "8:12")}, tmp_path / "s", trials=4)
    assert all(one.settings["model.embedding_size"] in {"8", "9", "10", "11", "12"} for one in found)


def test_large_whole_numbers(runs, tmp_path):
    found = search(build, {"training.batch_tokens": Range.parse("x", "1024:1048576:log")}, tmp_path / "s", trials=1)
    assert 1024 <= int(found[0].settings["training.batch_tokens"]) <= 1048576


@pytest.mark.parametrize("text", ["0.99991:0.9999999", "0.5:0.9999999", "1e-9:1e-3:log", "0.001:0.1"])
def test_numbers_of_a_range_stay_in_it_and_are_told_apart(text):
    found = Range.parse("x", text)
    assert found.ends() == tuple(str(float(end)) for end in text.split(":")[:2])
    numbers = [float(found.spell(found.low + (found.high - found.low) * part / 50)) for part in range(51)]
    assert (numbers[0], numbers[-1], len({*numbers})) == (found.low, found.high, 51)
    assert all(found.low <= number <= found.high for number in numbers)


def test_trials_use_the_numbers_that_are_reported(runs, tmp_path):
    found = search(build, {"training.learning_rate": Range.parse("x", "0.9999:0.99999")}, tmp_path / "s", trials=3)
    reported = {float(one.settings["training.learning_rate"]) for one in found}
    assert reported == {run["rate"] for run in runs}
    assert len(reported) == 3


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("model.embedding_size", "8.5:12", "model.embedding_size is '8.5'"),
        ("data.source", "1:2", "is a range of numbers, but this setting needs values with commas between them"),
        ("training.learning_rat", "1:2", "did you mean 'training.learning_rate'"),
        ("training.learning_rate", "-1:2", "training.learning_rate is -1, expected more than 0"),
    ],
)
def test_nothing_is_written_for_a_range_that_does_not_suit_its_setting(runs, tmp_path, name, text, message):
    with pytest.raises(ConfigError, match=message):
        search(build, {name: Range.parse("x", text)}, tmp_path / "s", trials=2)
    assert not (tmp_path / "s").exists()


def test_data_that_cannot_be_read_end_the_search(runs, tmp_path):
    module.made_by.errors[0] = DataError("no such file")
    with pytest.raises(DataError, match="no such file"):
        search(build, RANGES, tmp_path / "s", trials=2)


def test_a_loss_is_better_if_it_is_lower():
    found = [module.Found(number, {}, score, "loss", "complete", "") for number, score in ((0, 2.0), (1, 1.0))]
    assert found[1].value > found[0].value


def test_a_negative_score_is_worse_than_a_positive_one(runs, tmp_path):
    module.made_by.score = lambda rate: 0.5 if len(runs) == 2 else -0.9
    found = search(build, RANGES, tmp_path / "s", trials=3)
    assert (found[0].number, [one.score for one in found]) == (1, [1.0, -1.8, -1.8])


@pytest.fixture
def reviews(tmp_path, monkeypatch):
    """A table of texts with labels in the current folder, and the command that searches with it."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{'good' if number % 2 else 'bad'} film number {number},{number % 2}\n" for number in range(120))
    (tmp_path / "reviews.csv").write_text("text,label\n" + rows)
    (tmp_path / "c.yaml").write_text("training: {max_epochs: 1}\n")
    command = ["search", "classification", "--config", "c.yaml", "--data.train", "reviews.csv", "--out", "found"]
    return [*command, "--search.training.learning_rate", "0.001:0.1:log"]


def test_a_search_is_not_continued_with_another_config_file_or_other_data(reviews, tmp_path, capsys):
    command = [*reviews, "--preset", "bag", "--data.dev_size", "10", "--trials"]
    assert main([*command, "1"]) == 0
    rows = (tmp_path / "reviews.csv").read_text()
    (tmp_path / "reviews.csv").write_text(rows + "a good film,1\n")
    assert main([*command, "2"]) == 2
    assert "search: the data have changed since the search began; put the old files back" in capsys.readouterr().err
    (tmp_path / "reviews.csv").write_text(rows)
    (tmp_path / "c.yaml").write_text("training: {max_epochs: 2}\n")
    assert main([*command, "2"]) == 2
    assert "has other settings or ranges (training.max_epochs); repeat its command" in capsys.readouterr().err
    (tmp_path / "c.yaml").write_text("training: {max_epochs: 1}\n")
    assert main([*command, "2"]) == 0
    assert (tmp_path / "found/trials.csv").read_text().count("complete") == 2


def test_a_search_without_dev_examples_is_refused_before_any_training(reviews, tmp_path, capsys):
    assert main([*reviews, "--trials", "1"]) == 2  # score folds are chosen, which hold nothing out of the trial itself
    assert "there are no dev examples to compare the trials with; hold some out, as with --data" in capsys.readouterr().err
    assert not (tmp_path / "found").exists()


def test_the_command(runs, tmp_path, monkeypatch, capsys):
    (tmp_path / "pairs.tsv").write_text("".join(f"a b {number}\tc d {number}\n" for number in range(40)))
    monkeypatch.chdir(tmp_path)
    command = ["search", "translation", "--data.train", "pairs.tsv", "--preset", "luong", "--out", "found", "--trials=2"]
    command += ["--search.training.learning_rate", "0.001:0.1:log"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    best = max(runs, key=lambda run: run["rate"])
    assert "state     bleu  training.learning_rate" in printed
    assert f"--training.learning_rate {best['rate']:g}" in printed
    assert f"regard translate {best['out']}" in printed
    assert (tmp_path / "found" / "trials.png").stat().st_size > 1000
    assert (tmp_path / "found" / "trials.csv").read_text().count("complete") == 2


def test_the_command_lists_failed_trials(runs, tmp_path, monkeypatch, capsys):
    module.made_by.errors[0] = TrainingError("no")
    (tmp_path / "pairs.tsv").write_text("".join(f"a b {number}\tc d {number}\n" for number in range(40)))
    monkeypatch.chdir(tmp_path)
    assert main(["search", "translation", "--data.train=pairs.tsv", "--trials=1", "--search.model.embedding_size=8,16"]) == 0
    assert re.search(r"\n *0 +failed +(8|16)\n", capsys.readouterr().out)
    assert (tmp_path / "runs" / "pairs-search" / "trials.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translatio"], "there is no task 'translatio'; did you mean 'translation'?"),
        (["translation", "--data.train", "x.tsv"], "no setting is searched; name one"),
        (["translation", "--trials", "0"], "--trials is '0', expected a whole number of 1 or more"),
        (["translation", "--to", "x.txt"], "--to"),
        (["translation", "--search.seed"], "--search.seed needs a value"),
        (["translation", "--seed", "1", "--search.seed", "1,2"], "search: --seed and --search.seed are the same setting"),
        (["translation", "--search.seed", "1"], "--search.seed is '1', expected at least two values (1,2,3)"),
    ],
)
def test_what_the_command_refuses(arguments, message, capsys):
    assert main(["search", *arguments]) == 2
    assert message in capsys.readouterr().err
