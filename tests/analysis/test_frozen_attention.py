"""The measures tell attention that was trained from attention that was frozen at random."""

from collections.abc import Collection
from itertools import combinations

import numpy as np
import pytest
import torch
from analysis.known_classifier import KnownClassifier
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.config import RecurrentClassifierConfig
from regard.models.build import build_classifier
from regard.models.text_classifier import Classified, Reweight, TextClassifier
from regard.tasks.classification.faithfulness import examine
from regard.tasks.classification.probe import WordedText

_WORDS, _LENGTH, _SEEDS = 60, 12, 5


def draw(texts: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Texts with one word, of two for each label, that decides the label among words that mean nothing."""
    ids, labels = generator.integers(8, _WORDS, size=(texts, _LENGTH)), generator.integers(2, size=texts)
    places = generator.integers(_LENGTH, size=texts)
    ids[np.arange(texts), places] = 4 + 2 * labels + generator.integers(2, size=texts)
    return ids, labels


def train(model: TextClassifier, *, steps: int, learning_rate: float, seed: int, texts: int = 100) -> tuple[float, float]:
    """Gives the gap of AOPC comprehensiveness between attention's order of words and random ones, and the accuracy."""
    generator = np.random.default_rng(seed)
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=learning_rate)
    model.train()
    for _ in range(steps):
        ids, labels = draw(64, generator)
        tokens = torch.from_numpy(ids)
        loss = nn.functional.cross_entropy(
            model(tokens, torch.ones_like(tokens, dtype=torch.bool)).logits, torch.from_numpy(labels)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ids, labels = draw(texts, np.random.default_rng(0))
    found = examine(model, [WordedText(row, np.arange(_LENGTH)) for row in ids], labels, permutations=2)
    return found.comprehensiveness.attention - found.comprehensiveness.random, found.accuracy


def exact_p(first: list[float], second: list[float]) -> float:
    """Two-sided permutation test of the difference of means, over all ways to deal the values out."""
    values = np.array(first + second)
    gaps = [
        abs(values[list(chosen)].mean() - np.delete(values, list(chosen)).mean())
        for chosen in combinations(range(len(values)), len(first))
    ]
    return float(np.mean(np.array(gaps) >= abs(np.mean(first) - np.mean(second)) - 1e-12))


def test_the_permutation_test_worked_by_hand():
    assert exact_p([3, 4], [1, 2]) == pytest.approx(2 / 6)
    assert exact_p([6.0, 7, 8, 9, 10], [1.0, 2, 3, 4, 5]) == pytest.approx(2 / 252)


def test_a_table_of_scores():
    """Every word has a score and a value; the scores are trained too, or stay as they were drawn."""
    gaps: dict[bool, list[float]] = {True: [], False: []}
    for frozen in gaps:
        for seed in range(_SEEDS):
            drawn = np.random.default_rng(seed).normal(size=_WORDS)
            model = KnownClassifier(np.exp(drawn).tolist(), (0.01 * drawn).tolist())
            model.scores.requires_grad_(not frozen)
            gap, _ = train(model, steps=60, learning_rate=0.2, seed=seed, texts=40)
            gaps[frozen].append(gap)
    assert min(gaps[False]) > 0.2
    assert exact_p(gaps[False], gaps[True]) < 0.01


class FrozenAttention(TextClassifier):
    """A classifier whose attention is the same random weights for every text, in training too.

    To freeze only the pooling's own parameters would not do: the encoder learns to write what they read.
    """

    sites = ("pool",)

    def __init__(self, inner: TextClassifier) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("scores", torch.randn(_LENGTH))

    def embed(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        return self.inner.embed(tokens)

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        mask: Bool[Tensor, "B S"],
        *,
        embedded: Float[Tensor, "B S E"] | None = None,
        reweight: Reweight | None = None,
        record: Collection[str] = (),
    ) -> Classified:
        def replace(weights: Tensor, mask: Tensor) -> Tensor:
            scores = self.scores[: weights.shape[-1]].expand_as(weights).masked_fill(~mask, -torch.inf)
            drawn = scores.softmax(-1)
            return drawn if reweight is None else reweight(drawn, mask)

        return self.inner(tokens, mask, embedded=embedded, reweight=replace, record=record)


@pytest.mark.slow
def test_a_recurrent_classifier():
    config = RecurrentClassifierConfig(embedding_size=16, hidden_size=16, embedding_dropout=0.0, output_dropout=0.0)
    gaps: dict[bool, list[float]] = {True: [], False: []}
    for frozen in gaps:
        for seed in range(_SEEDS):
            torch.manual_seed(seed)
            model = build_classifier(config, vocabulary_size=_WORDS, num_labels=2)
            gap, accuracy = train(FrozenAttention(model) if frozen else model, steps=100, learning_rate=0.02, seed=seed)
            assert accuracy > 0.9
            gaps[frozen].append(gap)
    assert exact_p(gaps[False], gaps[True]) < 0.01
