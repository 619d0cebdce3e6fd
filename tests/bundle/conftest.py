"""Small trained-looking models, saved."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regard.bundle import save_bundle
from regard.config.loading import load_config
from regard.models.build import build_translator
from regard.task import Bundle
from regard.tasks.translation.data import Tokenizers
from regard.text.tokenizers.tokenizer import build_tokenizers

PAIRS = (["she kissed him .", "a cat sleeps on the mat ."], ["sie küsste ihn .", "eine Katze schläft auf der Matte ."])


def make(*, seed: int = 0, joint: bool = False, tie: str = "none", attention=None, **fields) -> Bundle:
    model = {
        "embedding_size": 8,
        "encoder": {"hidden_size": 5},
        "decoder": {"hidden_size": 7, "readout": "deep"},
        "tie_embeddings": tie,
    }
    data = {"source": "en", "target": "de", "train": ["deu.txt"]}
    config = load_config({"data": data, "model": model, "tokenizers": {"joint": joint}, "out": "runs/deu"})
    source, target = build_tokenizers([PAIRS], config.tokenizers, config.data)
    torch.manual_seed(seed)
    translator = build_translator(config.model, source_size=source.size, target_size=target.size, attention=attention)
    facts = {"signature": {"seed": 1, "data": "abc", "scores": {"bleu": 12.5}}, "report": {"num_train": 2}} | fields
    return Bundle(config=config, model=translator, parts=Tokenizers(source, target), **facts)


@pytest.fixture
def bundle() -> Callable[..., Bundle]:
    return make


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "deu"
    save_bundle(folder, make())
    return folder
