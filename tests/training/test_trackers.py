"""Libraries for tracking get the rows of the logs; nothing starts unless it was asked for. Their modules are fakes here."""

from __future__ import annotations

import csv
import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tiny import TinyTranslator

from regard.errors import ConfigError, Interrupted
from regard.training import Callback, fit, resume
from regard.training.trackers import MLflow, Trackio, Wandb


class Service:
    """What a fake library was asked to do."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.broken = False

    def init(self, **options: Any) -> Service:
        if self.broken:
            raise RuntimeError("no key:\nlog in")
        self.calls.append(("init", options))
        return self

    def log(self, values: dict[str, float], step: int) -> None:
        if self.broken:
            raise ConnectionError("unreachable")
        self.calls.append(("log", step, values))

    def finish(self) -> None:
        self.calls.append(("finish",))

    @property
    def rows(self) -> list[tuple[int, dict[str, float]]]:
        return [(call[1], call[2]) for call in self.calls if call[0] == "log"]


class Client:
    """MLflow's client, which keeps one experiment and its runs."""

    runs: dict[str, dict[str, Any]]

    def get_experiment_by_name(self, name: str) -> SimpleNamespace | None:
        return SimpleNamespace(experiment_id="7") if name in self.names else None

    def create_experiment(self, name: str) -> str:
        self.names.append(name)
        return "7"

    def create_run(self, experiment: str, run_name: str) -> SimpleNamespace:
        assert experiment == "7"
        self.runs["r1"] = {"name": run_name, "params": {}, "rows": [], "status": "RUNNING"}
        return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

    def update_run(self, identity: str, status: str) -> None:
        self.runs[identity]["status"] = status

    def log_param(self, identity: str, name: str, value: str) -> None:
        assert len(value) <= 500
        self.runs[identity]["params"][name] = value

    def log_metric(self, identity: str, name: str, value: float, step: int) -> None:
        self.runs[identity]["rows"].append((name, value, step))

    def set_terminated(self, identity: str) -> None:
        self.runs[identity]["status"] = "FINISHED"


@pytest.fixture
def install(monkeypatch):
    """`install("wandb", service)`: an importable module of that name with the service's functions."""

    def make(name: str, **members: Any) -> None:
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)

    return make


class StopOnce(Callback):
    """Interrupt a run, as Ctrl-C does, after the second update."""

    def after_update(self, run):
        if run.progress.step == 2 and not run.progress.finished and not run.history[:-1]:
            run.signals.received = 2


def test_rows_are_those_of_the_csv_file_and_a_resumed_run_continues(config, change, install):
    service = Service()
    install("wandb", init=service.init)
    config = change(config, max_steps=4, validate_every=2, track=("wandb",), track_project="mine")
    with pytest.raises(Interrupted):
        fit(config, model=TinyTranslator, progress=False, callbacks=[StopOnce()])
    resume(config.out, model=TinyTranslator, progress=False, callbacks=[Callback()])
    (_, first), (_, second) = (call for call in service.calls if call[0] == "init")
    assert (first["project"], first["name"], first["resume"]) == ("mine", "run", "allow")
    assert first["id"] == second["id"]
    assert first["config"]["training.max_steps"] == 4
    with Path(config.out, "logs", "metrics.csv").open() as file:
        expected = [(int(row["step"]), float(row["learning_rate"])) for row in csv.DictReader(file)]
    assert [(step, values["learning_rate"]) for step, values in service.rows] == expected
    assert all("step" not in values and len(values) > 4 for _, values in service.rows)
    assert service.calls[-1] == ("finish",)


def test_mlflow(config, change, install):
    runs: dict[str, dict[str, Any]] = {}
    client = type("Client", (Client,), {"runs": runs, "names": []})
    install("mlflow", MlflowClient=client)
    config = change(config, max_steps=1, track=("mlflow",))
    fit(config, model=TinyTranslator, progress=False)
    assert (runs["r1"]["name"], runs["r1"]["status"]) == ("run", "FINISHED")
    assert runs["r1"]["params"]["training.max_steps"] == "1"
    assert {step for _, _, step in runs["r1"]["rows"]} == {1}
    again = MLflow("regard", "run", "r1", {"a": 1})
    assert (again.identity, runs["r1"]["status"], "a" in runs["r1"]["params"]) == ("r1", "RUNNING", False)


def test_trackio_knows_runs_by_their_names(install):
    service = Service()
    install("trackio", init=service.init)
    first = Trackio("regard", "run", "", {})
    first.log({"loss": 1.0}, 3)
    first.close()
    assert Trackio("regard", "run", first.identity, {}).identity == first.identity
    assert first.identity.startswith("run-")
    assert [call[0] for call in service.calls] == ["init", "log", "finish", "init"]
    assert service.calls[0][1]["name"] == service.calls[3][1]["name"] == first.identity


def test_nothing_is_imported_unless_it_is_named(config, change, install, monkeypatch):
    for name in ("wandb", "mlflow", "trackio"):
        monkeypatch.setitem(sys.modules, name, None)  # an import would fail
    fit(change(config, max_steps=1), model=TinyTranslator, progress=False)
    assert not Path(config.out, "logs", "tracked.json").exists()


def test_a_service_that_fails_later_does_not_stop_training(config, change, install, capsys):
    service = Service()
    install("wandb", init=service.init)

    class Break(Callback):
        def start(self, run):
            service.broken = True

    fit(change(config, max_steps=2, track=("wandb",)), model=TinyTranslator, callbacks=[Break()])
    assert "tracking by wandb has ended, and training continues without it: unreachable" in capsys.readouterr().err


def test_what_is_refused(config, change, install, monkeypatch):
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(
        ConfigError, match=r"training.track names wandb, which is not installed: pip install 'regard\[tracking\]"
    ):
        fit(change(config, track=("wandb",)), model=TinyTranslator, progress=False)
    assert not Path(config.out).exists()
    service = Service()
    service.broken = True
    install("wandb", init=service.init)
    with pytest.raises(
        ConfigError, match=r"wandb cannot start \(no key:\\nlog in\); correct this, and continue with: regard resume"
    ):
        fit(change(config, max_steps=1, track=("wandb",)), model=TinyTranslator, progress=False)
    service.broken = False
    Path(config.out, "logs").mkdir(exist_ok=True)
    Path(config.out, "logs", "tracked.json").write_text("[1")  # damaged: another tracked run begins
    resume(config.out, model=TinyTranslator, progress=False)
    assert service.calls[-1] == ("finish",)
    assert json.loads(Path(config.out, "logs", "tracked.json").read_text()).keys() == {"wandb"}
    assert Wandb("p", "n", "old", {}).identity == "old"
