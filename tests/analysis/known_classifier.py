"""A classifier whose weights are known by heart."""

from collections.abc import Collection, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.models.text_classifier import Classified, Reweight, TextClassifier
from regard.tasks.classification.probe import WordedText


class KnownClassifier(TextClassifier):
    """weight_s ∝ exp(score of token s), context = Σ_s weight_s value of token s, logits = (context, 0, −1 − context, …)."""

    sites = ("pool",)

    def __init__(
        self, importance: Sequence[float], values: Sequence[float], *, num_labels: int = 2, num_heads: int = 0
    ) -> None:
        """`importance` is exp(score), of each token's id."""
        super().__init__()
        self.scores = nn.Parameter(torch.tensor(importance, dtype=torch.float64).log())
        self.values = nn.Parameter(torch.tensor(values, dtype=torch.float64)[:, None])
        self.num_labels = num_labels
        self.num_heads = num_heads

    def embed(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        return self.values[tokens]

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        mask: Bool[Tensor, "B S"],
        *,
        embedded: Float[Tensor, "B S E"] | None = None,
        reweight: Reweight | None = None,
        record: Collection[str] = (),
    ) -> Classified:
        weights = self.scores[tokens].masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num(0.0)
        if self.num_heads:
            weights, mask = weights[:, None].expand(-1, self.num_heads, -1), mask[:, None]
        if reweight is not None:
            weights = reweight(weights, mask)
        one = weights.mean(1) if self.num_heads else weights
        context = (one * (self.embed(tokens) if embedded is None else embedded)[..., 0]).sum(-1)
        more = [-1 - number - context for number in range(self.num_labels - 2)]
        logits = torch.stack([context, torch.zeros_like(context), *more], -1)
        return Classified(logits, {"pool": weights} if "pool" in record else {})


def worded(*ids: int, word_of: Sequence[int] | None = None) -> WordedText:
    """A text of these tokens, each a word of its own if nothing else is said."""
    return WordedText(np.array(ids, np.int32), np.array(range(len(ids)) if word_of is None else word_of, np.int64))


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))
