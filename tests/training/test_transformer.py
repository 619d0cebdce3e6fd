"""A Transformer through the whole way: trained, kept, loaded, and looked into."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.config import BPEConfig, TeacherForcingConfig, TokenizersConfig, TransformerConfig
from regard.records import AttentionRecord
from regard.training import fit

SMALL = TransformerConfig(
    hidden_size=16, num_heads=2, feed_forward_size=24, encoder_layers=2, decoder_layers=2, tie_embeddings="all"
)


@pytest.fixture
def run(config, change):
    pieces = BPEConfig(size=40)
    tokenizers = TokenizersConfig(source=pieces, target=pieces, joint=True)
    config = replace(config, model=SMALL, tokenizers=tokenizers, data=replace(config.data, max_tokens=20))
    settings = {"max_epochs": 3, "learning_rate": 5e-3, "average_last": 2, "ema_decay": 0.0, "batch_tokens": 400}
    return change(config, teacher_forcing=TeacherForcingConfig(), **settings)


def losses(config) -> list[float]:
    header, *lines = Path(config.out, "logs", "metrics.csv").read_text().splitlines()
    place = header.split(",").index("dev_nll")
    return [float(line.split(",")[place]) for line in lines if line.split(",")[place]]


def test_it_learns_and_repeats_itself(run, tmp_path):
    """With dropout, and with weights averaged; twice the same, bit for bit."""
    fit(run, progress=False)
    again = replace(run, out=str(tmp_path / "again"))
    fit(again, progress=False)
    kept = [Path(config.out, "model.safetensors").read_bytes() for config in (run, again)]
    assert kept[0] == kept[1]
    found = losses(run)
    assert found[-1] < found[0]


def test_all_its_attention_can_be_recorded(run, change):
    fit(change(run, max_epochs=1), progress=False)
    translator = regard.load(run.out)
    sites = translator.model.sites
    texts = ["a b c d", "", "a b c d e f g h " * 8]
    for text, made in zip(texts, translator.translate(texts, record=sites), strict=True):
        record = made.attention
        assert set(record.weights) == {site for site in sites if text or not site.startswith("encoder")}
        assert record.matrix().shape == (len(record.target_words), len(text.split()))
        if text:
            assert record.matrix("encoder.1").shape == (len(text.split()),) * 2
        assert record.matrix("decoder.0").shape == (len(record.target_words),) * 2
        again = AttentionRecord.from_json(record.to_json())
        assert all(np.array_equal(again.weights[site], record.weights[site]) for site in record.weights)
    [default] = translator.translate(texts[:1])
    assert set(default.attention.weights) == {"cross"}
    [forced] = translator.force(["a b c"], ["c b a"], record=sites)
    assert forced.attention.num_heads("decoder.1") == 2
