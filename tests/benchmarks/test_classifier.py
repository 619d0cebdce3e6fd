import json

import pytest
import torch
from benchmarks.classifier import PlainClassifier, main

from regard.config import RecurrentClassifierConfig
from regard.models.build import build_classifier
from regard.models.text_classifier import TextClassifier


def same(sizes: RecurrentClassifierConfig) -> tuple[TextClassifier, PlainClassifier]:
    """regard's classifier, and the plain one with its weights."""
    model = build_classifier(sizes, vocabulary_size=11, num_labels=3).eval()
    plain = PlainClassifier(sizes, vocabulary_size=11, num_labels=3).eval()
    own = dict(model.named_parameters())
    kinds = [f"{kind}_{part}" for kind in ("weight", "bias") for part in ("ih", "hh")]
    with torch.no_grad():
        plain.embedding.weight.copy_(own["embedding.weight"])
        for name in kinds:
            for direction, suffix in enumerate(("", "_reverse")):
                getattr(plain.lstm, f"{name}_l0{suffix}").copy_(own[f"layers.0.{name}"][direction])
        for name, theirs in (("score", "pooling.projection"), ("output", "output")):
            for part in ("weight", "bias"):
                getattr(getattr(plain, name), part).copy_(own[f"{theirs}.{part}"])
    return model, plain


def test_the_rival_is_the_same_model() -> None:
    model, plain = same(RecurrentClassifierConfig(embedding_size=5, hidden_size=7))
    mask = torch.arange(6) < torch.tensor([[6], [1], [3]])
    tokens = torch.randint(4, 11, (3, 6)).masked_fill(~mask, 0)
    torch.testing.assert_close(model(tokens, mask).logits, plain(tokens, mask), atol=1e-5, rtol=1e-4)
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in plain.parameters())


@pytest.mark.slow
def test_one_line_of_figures(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--reviews", "300", "--rounds", "1", "--updates", "1", "--batch-tokens", "512"])
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"]["regard"] == found["parameters"]["plain"]
    assert found["training_ratio"] > 0
    assert found["single_ms"] > 0
    assert found["sentences_per_second"].keys() == {"labels", "labels_and_attention"}
