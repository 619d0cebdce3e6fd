"""Every command, with hostile data, models and file names, on a terminal: no control character that we did not intend."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import yaml
from bundle.test_hostile import resign
from end_to_end.conftest import write_pairs, write_reviews
from PIL import Image

from regard.cli.main import command_names
from regard.errors import printable

EVIL = "\x1b]0;owned\x07\x1b[5m\x9b5m\x7f\x08\u202e\x1b[5A"
"""A window title, blinking text in two notations, delete, backspace, a mark that reverses text, the cursor five lines up."""
OWN = re.compile(
    r"\x1b\[(?:0|1|2|4|1;4|1;2|2;37|3[0-7]|9[0-7]|[34]8;[25];[\d;]+|39|49)m"  # colours, but no blinking (5)
    r"|\x1b\[\?25[lh]|\x1b\[2K|\x1b\[1A|\r"  # cursor off and on, clear the line, one line up: progress bars
)
FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
RUNNER = """
import json, sys
from regard.cli.main import main
for number, arguments in enumerate(json.loads(sys.stdin.read())):
    print(f"@@{number}", flush=True)
    try:
        code = main(arguments)
    except SystemExit as error:
        code = error.code
    print(f"@@{number} ended with {code}", flush=True)
"""


def on_terminal(command: list[str], *, content: str = "", act: Callable[[list[bytes]], None] | None = None) -> str:
    """Run a program whose output and errors go to a pseudo-terminal that changes nothing; return what it wrote there."""
    ours, theirs = pty.openpty()
    attributes = termios.tcgetattr(theirs)
    attributes[1] &= ~termios.OPOST  # else the terminal puts a carriage return before each line feed
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    found: list[bytes] = []

    def read() -> None:
        try:
            while part := os.read(ours, 1 << 16):
                found.append(part)
        except OSError:  # all programs have closed the terminal
            pass

    reader = threading.Thread(target=read)
    reader.start()
    assert process.stdin is not None
    process.stdin.write(content.encode())
    process.stdin.close()
    if act is not None:
        act(found)
        process.send_signal(signal.SIGTERM)
    process.wait()
    reader.join()
    os.close(ours)
    return b"".join(found).decode("utf-8")


def check(shown: str) -> None:
    """Assert that a terminal got no control character but those of colours and bars."""
    rest = OWN.sub("", shown)
    if found := FORBIDDEN.search(rest):
        raise AssertionError(f"{found[0]!r} reached the terminal: {rest[max(0, found.start() - 300) : found.end() + 60]!r}")


def run_commands(commands: list[list[object]]) -> list[tuple[str, int]]:
    """Run commands one after the other in one process on a terminal; return what each wrote, and its exit code."""
    plain = [[str(argument) for argument in command] for command in commands]
    shown = on_terminal([sys.executable, "-c", RUNNER], content=json.dumps(plain))
    found = []
    for number, command in enumerate(plain):
        match = re.search(rf"@@{number}\n(.*?)@@{number} ended with (\d+)\n", shown, re.DOTALL)
        assert match is not None, f"{command} did not end:\n{shown}"
        found.append((match[1], int(match[2])))
    return found


def hostile(text: str) -> str:
    """Put the hostile characters into some words, before words, and at the ends of lines."""
    return text.replace("red", f"r{EVIL}ed").replace("film", f"film{EVIL}").replace("cat", f"{EVIL} cat")


TASKS = {
    "deu": "translation",
    "reviews": "classification",
    "stories": "language",
    "tags": "tagging",
    "captions": "captioning",
}
"""The folder and the task of each model."""
SMALL = ["--threads=1", "--device=cpu", "--training.max_steps=3", "--training.tensorboard=false"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Hostile files, and models trained on them by the commands, with what the terminal got."""
    folder = tmp_path_factory.mktemp("hostile") / f"x{EVIL}y"
    folder.mkdir()
    names = ("pairs.tsv", "reviews.tsv", "texts.txt", "tagged.conll", "images.tsv")
    files = pairs, reviews, texts, tagged, images = [folder / f"{EVIL}{name}" for name in names]
    pairs.write_text(hostile(write_pairs(folder / "plain.tsv").read_text()), newline="\n")
    (folder / "few.tsv").write_text("".join(pairs.read_text().splitlines(keepends=True)[:3]), newline="\n")
    labelled = hostile(write_reviews(folder / "plain.tsv").read_text())
    reviews.write_text(labelled.replace("positive", f"posi{EVIL}tive"), newline="\n")
    texts.write_text(hostile((folder / "plain.tsv").read_text()), newline="\n")
    tagged.write_text(f"Ada{EVIL}\tB-P{EVIL}ER\nreads\tO\n\n" * 30)
    names = [f"{EVIL}{number}.png" for number in range(20)]
    for number, name in enumerate(names):
        Image.new("L", (16, 16), 10 * number).save(folder / name)
    images.write_text("image\ttext\n" + "".join(f"{name}\tgrey{EVIL} square\n" for name in names))
    recurrent = ["--model.embedding_size=8", "--model.hidden_size=8"]
    tiny = [
        "--preset=language-tiny",
        "--model.hidden_size=8",
        "--model.num_heads=2",
        "--model.feed_forward_size=8",
        "--model.num_layers=1",
    ]
    both = ["--model.embedding_size=8", "--model.encoder.hidden_size=8", "--model.decoder.hidden_size=8"]
    languages = [f"--data.source=en{EVIL}", f"--data.target={EVIL}de", "--preset=demo"]
    found = run_commands(
        [
            ["train", "translation", f"--data.train={pairs}", f"--out={folder / 'deu'}", *SMALL, *both, *languages],
            ["train", "classification", f"--data.train={reviews}", f"--out={folder / 'reviews'}", *SMALL, *recurrent],
            ["train", "language", f"--data.train={texts}", f"--out={folder / 'stories'}", *SMALL, *tiny],
            ["train", "tagging", f"--data.train={tagged}", f"--out={folder / 'tags'}", *SMALL, *recurrent],
            ["train", "captioning", "--preset=digits", f"--data.train={images}", f"--out={folder / 'captions'}", *SMALL],
            ["resume", folder / "deu", "--training.max_steps=4"],
        ]
    )
    for shown, code in found:
        assert code == 0, shown
    return folder, *files, found


def commands_for(folder: Path, pairs: Path, reviews: Path, texts: Path, tagged: Path, images: Path) -> list[list[object]]:
    """Return commands that use what is in the folder: all but `train` and `serve`."""
    deu, labels, stories, tags, captions = (folder / name for name in TASKS)
    image = images.with_name(f"{EVIL}0.png")
    sentence = f"one r{EVIL}ed cat{EVIL} ."
    return [
        ["demo", "--out", deu],
        ["presets", f"lu{EVIL}ong"],
        ["resume", deu, "--training.max_steps=4"],
        *(["info", model] for model in (deu, labels, stories, tags, captions)),
        ["curves", deu, labels, "--to", folder / "curves.png", "--title", EVIL],
        ["translate", deu, sentence],
        ["translate", deu, "--input", pairs, "--json"],
        ["translate", deu, sentence, "--prefix", sentence, "--n-best", "2"],
        ["translate", deu, "--input", folder / f"{EVIL}missing"],
        ["classify", labels, "--input", texts],
        ["classify", labels, sentence, "--json"],
        ["generate", stories, sentence, "--max-length", "5"],
        ["generate", stories, sentence, "--max-length", "5", "--json"],
        ["evaluate", deu, pairs],
        ["evaluate", labels, reviews, "--confusion", folder / "confusion.svg"],
        ["evaluate", labels, reviews, "--json"],
        ["evaluate", stories, texts],
        ["evaluate", labels, pairs],
        ["tag", tags, sentence],
        ["tag", tags, "--input", texts, "--json"],
        ["evaluate", tags, tagged],
        ["evaluate", tags, pairs],
        ["look", tags, sentence],
        ["caption", captions, image],
        ["caption", captions, image, "--json"],
        ["caption", captions, folder / f"{EVIL}missing.png"],
        ["evaluate", captions, images],
        ["look", captions, image, "--to", folder / "image.html"],
        [
            "search",
            "tagging",
            "--search.training.learning_rate=0.001,0.01",
            "--trials=1",
            f"--out={folder / 'search'}",
            f"--data.train={tagged}",
            *SMALL,
        ],
        ["search", "tagging", f"--search.{EVIL}=1,2", f"--data.train={tagged}", f"--out={folder / 'search-2'}"],
        ["score", deu, pairs],
        ["score", deu, pairs, "--json"],
        ["compare", deu, deu, pairs, "--resamples", "20"],
        ["compare", labels, labels, reviews, "--resamples", "20"],
        ["faithfulness", labels, reviews],
        ["faithfulness", deu, pairs.with_name("few.tsv")],
        ["look", deu, sentence, "--to", folder / "map.html"],
        ["look", deu, sentence, "--target", f"eins {EVIL} rot"],
        ["look", labels, sentence, "--to", folder / "words.svg"],
        ["look", stories, sentence],
        ["align", deu, pairs],
        ["corpus", "--pairs", "5", "--to", folder / "corpus.tsv"],
        ["export", labels, "--to", folder / "exported"],
        ["page", labels, "--to", folder / "playground.html", "--title", EVIL, "--examples", texts],
        ["push", labels, f"us{EVIL}er/name"],
        ["serve", f"a{EVIL}={folder / EVIL}", "--port", "0"],
        ["serve", deu, "--port", "0", "--page", folder / f"{EVIL}.html"],
        ["train", "translation", f"--data.train={pairs}", f"--out={deu}"],
        ["train", "classification", f"--data.train={reviews}", f"--data.label={EVIL}", f"--out={folder / 'new'}"],
        ["train", "translation", f"--{EVIL}=1"],
        [f"tra{EVIL}in"],
        ["translate", f"hf://user/{EVIL}", "a"],
    ]


@pytest.mark.slow
def test_training_on_hostile_data(made):
    *_, found = made
    assert any("evil" not in shown and printable(EVIL) in shown for shown, _ in found)
    for shown, _ in found:
        check(shown)
    assert any(bar in shown for shown, _ in found for bar in ("\x1b[2K",)), "the terminal was taken for none: no bars"


@pytest.mark.slow
def test_every_command_with_hostile_data_labels_and_file_names(made):
    folder, *files, _ = made
    commands = commands_for(folder, *files)
    assert {"train", *(command[0] for command in commands)} >= set(command_names())
    for command, (shown, code) in zip(commands, run_commands(commands), strict=True):
        assert "Traceback" not in shown, f"{command}:\n{shown}"
        assert code in (0, 2), shown
        check(shown)


def forge_vocabulary(model: Path) -> None:
    """Put hostile characters into a symbol of each vocabulary."""
    for path in model.glob("tokenizer*.json"):
        content = json.loads(path.read_text())
        vocabulary = content["tokenizer"]["model"]["vocab"]
        if isinstance(vocabulary, list):  # symbols with their scores
            vocabulary[-1][0] += EVIL
        else:
            last = max(vocabulary, key=vocabulary.__getitem__)
            vocabulary[last + EVIL] = vocabulary.pop(last)
        path.write_text(json.dumps(content))
    resign(model)


def forge_labels(model: Path) -> None:
    """Put hostile characters into each label."""
    for path in model.glob("labels.json"):
        content = json.loads(path.read_text())
        labels = content.get("labels", content)  # a classifier's, and a tagger's
        labels["names"] = [name + EVIL for name in labels["names"]]
        path.write_text(json.dumps(content))
    resign(model)


def forge_names(model: Path) -> None:
    """Put hostile characters where a model keeps names and notes: settings, report, signature, and card."""
    config = yaml.safe_load((model / "config.yaml").read_text())
    config |= {"out": EVIL, "chosen": [EVIL], "start_from": EVIL}
    config["data"] |= {"train": [EVIL], "dev": [EVIL], "cache": EVIL}
    config["data"] |= {name: EVIL for name in ("source", "target", "label", "text") if name in config["data"]}
    (model / "config.yaml").write_text(yaml.safe_dump(config))
    report = json.loads((model / "report.json").read_text())
    report["notes"] = [EVIL]
    report["train"] |= {"files": [EVIL], "form": EVIL, "columns": [EVIL]}
    (model / "report.json").write_text(json.dumps(report))
    (model / "README.md").write_text(EVIL)
    origin = {"folder": EVIL, "weights": EVIL, "data": EVIL, "updates": 3}
    facts = {"data": EVIL, "commit": EVIL, EVIL: EVIL, "scores": {EVIL: EVIL, "loss": EVIL, "decoding": EVIL}}
    resign(model, started_from=origin, versions={"regard": EVIL, "torch": EVIL}, **facts)


@pytest.mark.slow
@pytest.mark.parametrize("change", [forge_vocabulary, forge_labels, forge_names])
def test_every_command_with_forged_models(made, change, tmp_path):
    folder, *files, _ = made
    for name in TASKS:
        shutil.copytree(folder / name, tmp_path / name, ignore=shutil.ignore_patterns("checkpoints"))
        change(tmp_path / name)
    commands = commands_for(tmp_path, *files)
    data = dict(zip(TASKS, files, strict=True))
    for name, task in TASKS.items():
        own = [f"--data.train={data[name]}", "--training.max_steps=1", "--threads=1", f"--out={tmp_path / f'new-{name}'}"]
        commands.append(["train", task, "--from", tmp_path / name, *own])
    codes = {}
    for command, (shown, code) in zip(commands, run_commands(commands), strict=True):
        assert "Traceback" not in shown, f"{command}:\n{shown}"
        assert code in (0, 2), shown
        check(shown)
        codes[command[0], Path(str(command[-1] if len(command) < 2 else command[1])).name] = code
    if change is forge_vocabulary:
        assert codes["translate", "deu"] == codes["classify", "reviews"] == codes["generate", "stories"] == 2


@pytest.mark.slow
def test_the_service_with_hostile_requests(made):
    folder = made[0]

    def act(found: list[bytes]) -> None:
        while (match := re.search(rb'"url": "([^"]+)"', b"".join(found))) is None:
            pass
        with httpx.Client(base_url=match[1].decode(), timeout=60) as client:
            for body in ({"texts": [EVIL], "model": EVIL}, {"texts": [f"a {EVIL}"]}, {EVIL: EVIL}, [EVIL]):
                client.post("/v1/translate", json=body, headers={"X-Request-Id": "a\x9b5m".encode("latin-1")})
            client.post("/v1/classify", json={"texts": [EVIL]})
            client.get("/v1/%1b%5b5m%9b5m/%c2%9b")

    shown = on_terminal(
        [sys.executable, "-m", "regard", "serve", str(folder / "deu"), str(folder / "reviews"), "--port", "0"], act=act
    )
    assert '"event": "stopped"' in shown
    check(shown)
