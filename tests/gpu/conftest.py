"""Made-up data for the tests that need a GPU, and a fixture that triggers a warning of PyTorch."""

import random
import warnings

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def warned_once():
    """Trigger the warning about the debug mode of these tests, which comes once in each process, so that no test fails."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Synchronization debug mode is a prototype")
        torch.cuda.set_sync_debug_mode("error")
    torch.cuda.set_sync_debug_mode("default")


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Pairs, labelled texts and plain text of made-up words."""
    draw, folder = random.Random(0), tmp_path_factory.mktemp("data")
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(1, 6))) for _ in range(300)]
    lines = sorted({" ".join(draw.choices(words, k=draw.randint(2, 12))) for _ in range(600)})
    (folder / "pairs.tsv").write_text("".join(f"{line}\t{' '.join(reversed(line.split()))}\n" for line in lines))
    (folder / "labelled.tsv").write_text("".join(f"{'good' if 'a' in line[:6] else 'bad'}\t{line}\n" for line in lines))
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    return folder
