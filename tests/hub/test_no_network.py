"""Nothing but an address on the hub opens a connection."""

import subprocess
import sys

import pytest
from end_to_end.conftest import REVIEWS_SMALL, SMALL, write_pairs, write_reviews

GUARD = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        print("CONNECTION", event, arguments[1:], file=sys.stderr)
        raise RuntimeError(f"a connection was opened: {event}")

sys.addaudithook(refuse)
from regard.cli.main import main

for line in COMMANDS:
    if main(line) != EXPECTED:
        sys.exit(f"failed: {line}")
"""


def run(commands, expected=0, **environment):
    program = GUARD.replace("COMMANDS", repr(commands)).replace("EXPECTED", str(expected))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment or None)


def test_the_guard_sees_a_connection(tmp_path):
    done = run([["translate", "hf://user/deu", "a"]], 2)
    assert "CONNECTION socket." in done.stderr


@pytest.mark.slow
def test_commands_open_no_connection(tmp_path):
    pairs, reviews = write_pairs(tmp_path / "pairs.tsv"), write_reviews(tmp_path / "reviews.tsv")
    stories = tmp_path / "stories.txt"
    stories.write_text("".join(line.partition("\t")[0] + "\n" for line in pairs.read_text(encoding="utf-8").splitlines()))
    language = ["--preset=language-tiny", "--device=cpu", "--threads=1", "--training.tensorboard=false", "--tokenizer.size=60"]
    language += ["--model.hidden_size=16", "--model.feed_forward_size=32", "--training.max_steps=3"]
    deu, labels, text = (str(tmp_path / name) for name in ("deu", "labels", "text"))
    done = run(
        [
            ["train", "translation", f"--data.train={pairs}", f"--out={deu}", *SMALL],
            ["train", "classification", f"--data.train={reviews}", f"--out={labels}", *REVIEWS_SMALL],
            ["train", "language", f"--data.train={stories}", f"--out={text}", *language],
            ["resume", deu],
            ["info", deu],
            ["curves", deu, "--to", str(tmp_path / "curves.png")],
            ["translate", deu, "one cat .", "--heatmap", str(tmp_path / "map.png")],
            ["classify", labels, "the film is fine"],
            ["generate", text, "one"],
            ["look", deu, "one cat .", "--to", str(tmp_path / "look.html")],
            ["align", deu, str(pairs)],
            ["evaluate", deu, str(pairs)],
            ["evaluate", labels, str(reviews)],
            ["faithfulness", labels, str(reviews), "--permutations", "2"],
            ["compare", deu, deu, str(pairs), "--resamples", "10"],
            ["export", deu, "--to", str(tmp_path / "onnx")],
            ["page", deu, "--to", str(tmp_path / "page.html"), "--example", "one cat ."],
        ]
    )
    assert "CONNECTION" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
