"""A task that exists only here (own_task/rater.py): it trains, resumes, saves, loads, predicts, and has its commands."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import regard
from regard.cli.main import main
from regard.config.loading import load_config, render_config
from regard.config.plugins import BUILT_IN, locate_task, task_names
from regard.errors import BundleError, ConfigError
from regard.task import FileOperation, find_task

HOME = Path(__file__).with_name("own_task")
SOURCES = Path(regard.__file__).parent
RATINGS = {"good": 4.0, "fine": 3.0, "dull": 1.0, "awful": 0.0}


def ratings(count: int, seed: int) -> str:
    """Return texts with a number each, which depends on one word."""
    random = np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        word = str(random.choice(list(RATINGS)))
        words = ["the", str(random.choice(["cat", "dog", "fish"])), "was", word, *["today"] * int(random.integers(2))]
        lines.append(f"{' '.join(words)}\t{RATINGS[word]}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Two folders of Python packages: that of the task, and one that says that it is installed."""
    installed = tmp_path / "site"
    info = installed / "rater-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rater\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[regard.tasks]\nrating = rater:TASK\n")
    paths = [str(HOME), str(installed)]
    for path in paths:
        monkeypatch.syspath_prepend(path)
    locate_task.cache_clear()
    yield paths
    locate_task.cache_clear()
    sys.modules.pop("rater", None)


@pytest.fixture
def settings(packages, tmp_path):
    (tmp_path / "train.txt").write_text(ratings(60, 1))
    (tmp_path / "dev.txt").write_text(ratings(20, 2))
    return {
        "task": "rating",
        "out": str(tmp_path / "run"),
        "threads": 1,
        "data": {"train": [str(tmp_path / "train.txt")], "dev": [str(tmp_path / "dev.txt")]},
        "training": {"max_epochs": 30, "batch_tokens": 60, "learning_rate": 0.02, "precision": "float32", "tensorboard": False},
    }


@pytest.fixture
def run(capsys, monkeypatch):
    """Return a function that runs `regard` in this process, and returns its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "120")

    def command(*arguments):
        try:
            code = main(list(arguments))
        except SystemExit as stop:  # argparse has printed a help
            code = stop.code
        return code, *capsys.readouterr()

    return command


def start(packages, *arguments):
    paths = os.pathsep.join([*packages, str(SOURCES.parent)])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    return subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_it_trains_predicts_with_attention_saves_and_loads(settings, tmp_path):
    rater = regard.fit(load_config(settings), progress=False)
    good, awful = rater.rate(["the fish was good", "the dog was awful"])
    assert (good.rating > 3, awful.rating < 1) == (True, True)
    matrix = good.attention.matrix()
    assert matrix.shape == (1, 4)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-5)
    good.attention.save(tmp_path / "map.png")

    loaded = regard.load(settings["out"])
    [again] = loaded.rate(["the fish was good"])
    assert again.rating == good.rating
    np.testing.assert_array_equal(again.attention.matrix(), matrix)
    assert rater.bundle.signature["scores"]["loss"] < 0.2
    card = (tmp_path / "run" / "README.md").read_text()
    assert "# Ratings of texts\n\nA rater with attention, trained with regard" in card
    assert "| words | 10 |" in card
    assert "On the held-out texts:" in card


def test_it_starts_from_a_trained_model_and_overwrites_one(settings, tmp_path):
    regard.fit(load_config(settings), progress=False)
    (tmp_path / "more.txt").write_text(ratings(20, 3))
    start_from = {"data.train": [str(tmp_path / "more.txt")], "out": str(tmp_path / "more"), "training.max_epochs": 1}
    tuned = regard.fit(start_from, start_from=settings["out"], progress=False)
    assert tuned.bundle.signature["started_from"]["folder"] == settings["out"]
    assert tuned.bundle.parts == regard.load(settings["out"]).bundle.parts
    # A run of another task in the same folder leaves no file of this one.
    assert (tmp_path / "run" / "lexicon.json").exists()
    texts = tmp_path / "texts.txt"
    texts.write_text("the cat sees a dog\n" * 3)
    tiny = {"kind": "transformer", "hidden_size": 4, "num_heads": 1, "num_layers": 1, "feed_forward_size": 4}
    other = {"task": "language", "data": {"train": [str(texts)], "dev_size": 0}, "tokenizer": {"kind": "whitespace"}}
    training = {"max_epochs": 1, "tensorboard": False}
    config = load_config(other, {"model": tiny, "training": training, "out": settings["out"], "overwrite": True})
    regard.fit(config, progress=False)
    assert not (tmp_path / "run" / "lexicon.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("updates", [pytest.param(2, marks=pytest.mark.slow), 7])
def test_killed_and_resumed_it_ends_with_the_same_bytes(settings, packages, run, tmp_path, updates):
    config = load_config(settings, {"training": {"checkpoint_every": 1, "max_epochs": 2}})
    regard.fit(replace(config, out=str(tmp_path / "whole")), progress=False)
    (tmp_path / "config.yaml").write_text(render_config(config))
    script = tmp_path / "slow.py"
    script.write_text(
        "import sys, time\nimport regard\nfrom regard.training.callbacks import Checkpointing\n"
        "inner = Checkpointing.after_update\n"
        "def slowly(self, update):\n    inner(self, update)\n    print('update', flush=True)\n    time.sleep(0.05)\n"
        "Checkpointing.after_update = slowly\n"
        "regard.fit(regard.read_config(sys.argv[1]), progress=False)\n"
    )
    process = start(packages, str(script), str(tmp_path / "config.yaml"))
    for _ in range(updates):
        assert process.stdout.readline() == "update\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)  # closes the pipes, too
    assert process.returncode == -signal.SIGKILL
    code, _, err = run("resume", settings["out"])
    assert code == 0, err
    assert "continuing " in err
    whole, resumed = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "run"))
    assert resumed == whole


@dataclass(frozen=True, kw_only=True)
class CountLines(FileOperation):
    """Count the lines of files."""

    name = "count"

    def run(self, predictor, files):
        lines = sum(len(Path(path).read_text().splitlines()) for path in files.paths)
        return SimpleNamespace(render=lambda: f"{lines} lines")


def test_the_command_line_has_it(settings, run, tmp_path, monkeypatch):
    data = settings["data"]["train"][0]
    code, out, err = run("train", "--help")
    assert code == 0, err
    assert "regard train rating          train a rater on texts with numbers (`regard train rating --help`)" in out
    code, out, err = run("train", "rating", "--help-all")
    assert code == 0, err
    assert "a text file with a text, a tab and a number per line" in out
    assert "--model.hidden_size  (default: 16; 1 or more)" in out

    folder = str(tmp_path / "mine")
    options = ["--data.train", data, "--training.max_epochs", "30", "--training.learning_rate", "0.02", "--width", "12"]
    code, out, err = run("train", "rating", *options, "--training.batch_tokens", "60", "--out", folder)
    assert code == 0, err
    assert "60 rated texts, 0 held out" in err
    assert f'The model is in {folder}. Next:\n  regard look {folder} "a text"' in out
    code, out, err = run("look", folder, "the fish was good", "--to", str(tmp_path / "map.json"))
    assert code == 0, err
    assert out.endswith("\tthe fish was good\n")
    assert regard.records.load_record(tmp_path / "map.json").matrix().shape == (1, 4)
    code, out, err = run("rate", folder, "the fish was good", "--rounded")
    assert (code, out) == (0, "4\tthe fish was good\n"), err
    code, out, err = run("rate", folder, "the fish was awful", "--json", "--rounded")
    assert (code, out) == (0, '{"text": "the fish was awful", "rating": 0}\n'), err
    code, out, err = run("evaluate", folder, data, "--json")
    assert code == 0, err
    assert 0 < json.loads(out)["loss"] < 0.5
    with monkeypatch.context() as patch:
        patch.setattr(type(find_task("rating")), "operations", (CountLines,))
        code, out, err = run("count", folder, data)
    assert (code, out) == (0, "60 lines\n"), err
    code, out, err = run("info", folder)
    assert code == 0, err
    assert f"{folder}: rater\n" in out
    assert "hidden_size: 12" in out


def test_the_service_has_it(settings):
    from starlette.testclient import TestClient

    from regard.serve.app import build_app

    regard.fit(load_config(settings), progress=False)
    app = build_app({"tags": Path(settings["out"])}, load=lambda folder: regard.load(folder, device="cpu"))
    with TestClient(app, base_url="http://127.0.0.1") as web:
        answer = web.post("/v1/rate", json={"texts": ["the fish was good"], "rounded": True}).json()
        assert answer["results"] == [{"text": "the fish was good", "rating": 4}]
        [record] = web.post("/v1/attention", json={"texts": ["the cat"]}).json()["records"]
        assert regard.AttentionRecord.from_json(json.dumps(record)).matrix().shape == (1, 2)
        assert "/v1/rate" in web.get("/docs").text


def test_mistakes_are_explained(settings, run, tmp_path):
    run("train", "rating", "--data.train", settings["data"]["train"][0], "--out", str(tmp_path / "mine"))
    for arguments, message in (
        (["train", "rating"], "train rating: nothing to train on; name a file of rated texts with --data.train FILE"),
        (["train", "ratin"], "train: there is no task 'ratin'; did you mean 'rating'?"),
        (["train", "rating", "--data.train", "x", "--model.hidden_size", "0"], "model.hidden_size is 0, expected 1 or more"),
        (["translate", str(tmp_path / "mine"), "x"], "holds a rater, expected a translator"),
        (["evaluate", str(tmp_path / "mine"), "x", "--beam", "3"], "--beam is for translators and captioners, and"),
        (["export", str(tmp_path / "mine"), "--to", str(tmp_path / "onnx")], "a RatingModel cannot be exported to ONNX"),
    ):
        code, _, err = run(*arguments)
        assert (code, message in err) == (2, True), err
        assert "Traceback" not in err


def test_its_files_are_checked(settings, packages, tmp_path):
    regard.fit(load_config(settings), progress=False)
    lexicon = tmp_path / "run" / "lexicon.json"
    lexicon.write_text("{}")
    with pytest.raises(
        BundleError, match=r"lexicon.json is damaged: its content does not match the checksum in signature.json"
    ):
        regard.load(settings["out"])
    lexicon.unlink()
    with pytest.raises(BundleError, match=r"lexicon.json is missing"):
        regard.load(settings["out"])


def test_without_its_package_there_is_no_such_task(settings, monkeypatch):
    regard.fit(load_config(settings), progress=False)
    locate_task.cache_clear()
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not path.endswith("site")])
    assert "rating" not in task_names()
    with pytest.raises(ConfigError, match="task is 'rating', expected one of: translation, classification, language"):
        load_config(settings)
    with pytest.raises(BundleError, match="task is 'rating', expected one of: translation, classification, language"):
        regard.load(settings["out"])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("rater:NOTHING", r"task is 'broken', whose entry point 'rater:NOTHING' cannot be loaded: .*NOTHING"),
        (
            "no_such_package:TASK",
            r"task is 'broken', whose entry point 'no_such_package:TASK' cannot be loaded: ModuleNotFoundError: No module",
        ),
        ("rater:Rater", r"the entry point of task 'broken' is a type, expected a regard.task.Task object"),
    ],
)
def test_a_broken_entry_point_is_explained(packages, value, message):
    (Path(packages[1]) / "rater-1.0.dist-info" / "entry_points.txt").write_text(f"[regard.tasks]\nbroken = {value}\n")
    with pytest.raises(ConfigError, match=message):
        find_task("broken")


def test_a_broken_task_does_not_break_commands_for_others(packages, run):
    (Path(packages[1]) / "rater-1.0.dist-info" / "entry_points.txt").write_text("[regard.tasks]\nbroken = rater:NOTHING\n")
    for arguments in (["evaluate", "--help"], ["train", "--help"]):
        code, out, err = run(*arguments)
        assert code == 0, err
        assert "regard" in out


def test_built_in_tasks_are_found_without_a_search(monkeypatch):
    def refused(**names):
        raise AssertionError("entry points were searched")

    monkeypatch.setattr("regard.config.plugins.entry_points", refused)
    for name in BUILT_IN:
        assert find_task(name).name == name


def test_settings_and_words_of_tasks_need_no_torch():
    code = (
        "import sys\nfrom regard.task import find_task\nfrom regard.config.loading import load_config\n"
        "for name in ('translation', 'classification', 'language', 'captioning', 'tagging'):\n"
        "    load_config({'task': name}), find_task(name).words.summary\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules, sorted(sys.modules)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr


def task_classes() -> set[str]:
    """Return the names of all classes that are defined in `regard.tasks`."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in (SOURCES / "tasks").rglob("*.py"))
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def type_tests(tree: ast.AST) -> list[tuple[int, set[str]]]:
    """Return the classes by which code branches (isinstance, issubclass, `match`, `type(…) is`), with their lines."""

    def names(node: ast.AST) -> set[str]:
        return {
            part.id if isinstance(part, ast.Name) else part.attr
            for part in ast.walk(node)
            if isinstance(part, ast.Name | ast.Attribute)
        }

    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
            found.append((node.lineno, names(node.args[1])))
        elif isinstance(node, ast.MatchClass):
            found.append((node.lineno, names(node.cls)))
        elif isinstance(node, ast.Compare) and "type" in names(node.left):
            found.append((node.lineno, set().union(*map(names, node.comparators))))
    return found


def test_no_code_outside_tasks_asks_for_the_class_of_a_task():
    classes = task_classes()
    assert {"TranslationConfig", "ClassifierParts", "LanguageModel", "Translator"} <= classes
    wrong = [
        f"{path.relative_to(SOURCES)}:{line}: {', '.join(sorted(named & classes))}"
        for path in sorted(SOURCES.rglob("*.py"))
        if path.relative_to(SOURCES).parts[0] != "tasks"
        for line, named in type_tests(ast.parse(path.read_text(encoding="utf-8")))
        if named & classes
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(config, TranslationConfig)",
        "isinstance(config, (int, config_module.TranslationConfig))",
        "assert isinstance(x, int | TranslationConfig)",
        "match x:\n    case TranslationConfig(model=m):\n        pass",
        "type(x) is TranslationConfig",
    ],
)
def test_such_code_is_found(code):
    assert any("TranslationConfig" in named for _, named in type_tests(ast.parse(code)))


def test_no_line_of_regard_knows_this_task():
    texts = {path: path.read_text(encoding="utf-8").lower() for path in SOURCES.rglob("*.py")}
    assert [path for path, text in texts.items() if re.search(r"\brat(er|ing)\b", text)] == []
