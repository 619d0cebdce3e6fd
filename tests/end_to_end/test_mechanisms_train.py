"""Each mechanism trains inside a recurrent translator from the command line, on the built-in pairs, to 90 BLEU or more.

The translator is that of `regard demo`, on half of its pairs. One training takes about two minutes on a free core.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from regard.demo import DemoCorpus

pytestmark = pytest.mark.slow
PAIRS, HELD_OUT, FAR = 15_000, 300, 40_000
BUDGET = ["--preset=demo", "--training.batch_tokens=512", "--training.max_epochs=4", "--threads=1", "--device=cpu"]
MECHANISMS = (
    "differential_attention",
    "forgetting_attention",
    "latent_attention",
    "contextual_position_attention",
    "linear_attention",
    "gated_delta_net",
    "cosine",
    "trilinear",
)
NORMALIZERS = ("sink", "softpick", "stick_breaking", "entmax")


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[Path, Path]:
    """Pairs to train on, and pairs that share no sentence with them."""
    folder, corpus = tmp_path_factory.mktemp("data"), DemoCorpus(seed=1)
    train, held_out = folder / "train.tsv", folder / "held-out.tsv"
    corpus.write(train, stop=PAIRS)
    seen = {text for pair in corpus.pairs(stop=PAIRS) for text in pair}
    others = [pair for pair in corpus.pairs(FAR, FAR + 4 * HELD_OUT) if not seen & set(pair)][:HELD_OUT]
    assert len(others) == HELD_OUT
    held_out.write_text("".join(f"{source}\t{target}\n" for source, target in others), encoding="utf-8")
    return train, held_out


def regard(*arguments: object) -> str:
    """Run a command in a process of its own, in which the checks of shapes don't cost time."""
    done = subprocess.run([sys.executable, "-m", "regard", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "setting", [f"kind={kind}" for kind in MECHANISMS] + [f"normalizer.kind={kind}" for kind in NORMALIZERS]
)
def test_a_translator_reaches_90_bleu(setting, files, tmp_path):
    train, held_out = files
    out, option = tmp_path / "run", f"--model.decoder.attention.{setting}"
    regard("train", "translation", *BUDGET, f"--data.train={train}", option, f"--out={out}")
    scores = json.loads(regard("evaluate", out, held_out, "--threads=1", "--device=cpu", "--json"))
    assert scores["bleu"] >= 90
