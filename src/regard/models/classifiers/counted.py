"""A linear classifier of words and n-grams, fitted to all training texts before training begins.

With few texts, it is more accurate than a `BagClassifier` of the same words and n-grams, which is trained in batches
(`benchmarks/log.md`). Training does not change it further. It is used as a member of a combined classifier.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from regard.attention.masks import zero_masked
from regard.attention.pooling import Pooling
from regard.config import CountedClassifierConfig
from regard.models.classifiers.bag import count_texts, hashed_ngrams, log_ratios
from regard.models.classifiers.pooled import NeuralClassifier, WordDropout
from regard.models.text_classifier import Example
from regard.reweight import Sites
from regard.text.symbols import PAD

_SMOOTHING = 1.0  # smoothing of the counts, as in naive Bayes
_ITERATIONS, _HISTORY = 25, 4  # iterations and history size of L-BFGS
_LEAST = 1e-6  # least magnitude of a word's evidence, so that no division by zero occurs
_MOST_NUMBERS = 1 << 24  # maximum number of values in the table of n-grams
_MOST = 1 << 18  # maximum number of texts; more texts hardly improve a linear classifier


class MagnitudePooling(Pooling):
    """weight_k = value_kD / Σ_j value_jD: weighted by the last feature of each state, which is not negative."""

    def weigh(self, values: Tensor, key_mask: Tensor | None) -> Tensor:
        """Return the weights (B,K); zeros in rows whose magnitudes are all zero."""
        magnitude = values[..., -1]
        return magnitude / magnitude.sum(dim=1, keepdim=True).clamp(min=torch.finfo(magnitude.dtype).tiny)


class CountedClassifier(NeuralClassifier):
    """logits = 1/√(4F) Σ_s e_s + b, with the evidence e_s = Σ_n T[x_{s−n+1} … x_s] of a text of F words and n-grams.

    Only the first occurrence of a word or n-gram has evidence, because presence is more informative than frequency.

    T = g∘r, with log-count ratios r (see `BagClassifier.prime`) and factors g, called gains. The gains minimise the mean of
    −log p(label) over the N training texts plus λ/2N Σ (g − 1)², where λ is the setting `shrinkage`. So words and n-grams with
    little data keep the ratios of naive Bayes.

    The sum is written as attention, with directions weighted by magnitude, weight_s = |e_s| / Σ_j |e_j|:
    Σ_s e_s = Σ_s weight_s (e_s/|e_s|) Σ_j |e_j|. So the weight of a word is its share of all evidence, for any label.

    N-grams are hashed into the buckets of T. Each bucket belongs to one n-gram; the other n-grams that fall into it have
    no evidence.

    Shapes: T (V + buckets, C), b (C,).

    Reference: Wang, Manning 2012, eqs. 1–3.
    Differs from the paper: the gains shrink towards 1, while the paper interpolates them with their mean; the loss is the
    logistic one; and the sum is divided by √(4F).
    """

    sites = ("pool",)
    evidence: Tensor
    bias: Tensor
    keys: Tensor

    def __init__(self, config: CountedClassifierConfig, *, vocabulary_size: int, num_labels: int) -> None:
        super().__init__()
        self.max_ngram, self.shrinkage, self.word_dropout = config.max_ngram, config.shrinkage, WordDropout(0.0)
        # Fewer buckets for many labels, so that the table fits into memory.
        self.num_buckets = max(1, min(config.num_buckets, _MOST_NUMBERS // num_labels))
        buckets = self.num_buckets if config.max_ngram > 1 else 0
        self.register_buffer("evidence", torch.zeros(vocabulary_size + buckets, num_labels))
        self.register_buffer("bias", torch.zeros(num_labels))
        self.register_buffer("keys", torch.zeros(buckets, dtype=torch.int64))  # hash of the n-gram that owns each bucket
        self.pooling = MagnitudePooling(num_labels + 1)

    def embed(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        """Return the evidence of each word and of the n-grams that end with it; E is the number of labels."""
        rows, real = self._rows(tokens)
        return functional.embedding(rows, self.evidence).where(real.unsqueeze(-1), 0).sum(dim=2)

    def classify(
        self, tokens: Int[Tensor, "B S"], embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites
    ) -> Float[Tensor, "B C"]:
        """Return the scores of the labels from the evidence; see `NeuralClassifier`."""
        embedded = zero_masked(embedded, mask)
        magnitude = embedded.square().sum(dim=-1).clamp(min=_LEAST**2).sqrt() * mask
        whole = magnitude.sum(dim=1, keepdim=True) * self._scale(mask.sum(dim=1, keepdim=True)).to(embedded.dtype)
        directions = embedded / magnitude.clamp(min=_LEAST).unsqueeze(-1) * whole.unsqueeze(-1)
        states = torch.cat((directions, magnitude.unsqueeze(-1)), dim=-1)
        context, weights = self.pooling(states, key_mask=mask, reweight=sites.options("pool").get("reweight"))
        sites.add("pool", weights)
        return context[:, :-1] + self.bias

    def _rows(self, tokens: Int[Tensor, "B S"]) -> tuple[Int[Tensor, "B S N"], Bool[Tensor, "B S N"]]:
        """Return the table rows of each token and of the n-grams that end at it, and a mask of those that have evidence."""
        rows, real = [tokens], [tokens != PAD]
        for shorter, (hashes, whole) in enumerate(hashed_ngrams(tokens, self.max_ngram), 1):
            buckets, before = hashes.remainder(self.num_buckets), (shorter, 0)
            rows.append(functional.pad(len(self.evidence) - self.num_buckets + buckets, before))
            real.append(functional.pad(whole & (self.keys[buckets] == hashes), before))
        stacked, counting = torch.stack(rows, dim=2), torch.stack(real, dim=2)
        return stacked, counting & _first_of_each(stacked.masked_fill(~counting, -1))

    def _scale(self, lengths: Int[Tensor, "*B"]) -> Float[Tensor, "*B"]:
        """Return 1/√(4F) for texts with the given numbers of words, where F is the number of their words and n-grams."""
        shorter = torch.arange(self.max_ngram, device=lengths.device)
        features = (lengths.unsqueeze(-1) - shorter).clamp(min=0).sum(dim=-1)
        return (4.0 * features).clamp(min=4).rsqrt()

    @torch.no_grad()
    def prime(self, examples: Iterable[Example], *, label_weight: Float[Tensor, " C"] | None = None) -> None:
        """Count words and n-grams, and fit the gains and b with L-BFGS.

        If there are more than 2¹⁸ texts, only every second text is used, or every third, and so on, so that at most 2¹⁸ remain.

        A model that was fitted before keeps its evidence T₀: T = T₀ + g∘r with gains that shrink towards 0, and b shrinks
        towards its old value. So words and n-grams with little new data hardly change.
        """
        kept = _spread(examples, _MOST)
        self._give_out_buckets(kept)
        texts, seen = self._read(kept)
        ratios = log_ratios(texts.counts, _SMOOTHING)
        known = self.evidence[seen]
        fitted = bool(self.evidence.any())
        usual = 0.0 if fitted else 1.0
        before = functional.embedding_bag(texts.rows, known, texts.starts, mode="sum")
        gains = torch.full_like(ratios, usual).requires_grad_()
        bias = self.bias.clone().requires_grad_()
        optimizer = torch.optim.LBFGS((gains, bias), max_iter=_ITERATIONS, history_size=_HISTORY, line_search_fn="strong_wolfe")

        def objective() -> Tensor:
            optimizer.zero_grad()
            sums = before + functional.embedding_bag(texts.rows, gains * ratios, texts.starts, mode="sum")
            logits = sums * texts.scale + bias
            if texts.label.ndim == 1:
                loss = functional.cross_entropy(logits, texts.label, weight=label_weight, reduction="sum") / len(logits)
            else:
                gold = texts.label.to(logits.dtype)
                loss = functional.binary_cross_entropy_with_logits(logits, gold, weight=label_weight)
            change = (gains - usual).square().sum()
            if fitted:
                change = change + (bias - self.bias).square().sum()
            loss = loss + self.shrinkage / 2 * change / len(logits)
            loss.backward()
            return loss

        optimizer.step(objective)
        self.evidence[seen] = known + gains * ratios
        self.bias.copy_(bias)

    def refine(self, examples: Iterable[Example], *, label_weight: Float[Tensor, " C"] | None = None) -> None:
        """Fit the model to new texts, as `prime` does for a model that was fitted before."""
        self.prime(examples, label_weight=label_weight)

    def _give_out_buckets(self, examples: Sequence[Example]) -> None:
        """Assign free buckets to the n-grams of the training texts, the most frequent first. Other n-grams have no evidence."""
        # If n-grams shared buckets, with as many buckets as n-grams, the accuracy would be one percentage point lower.
        texts = (tokens.masked_fill(~mask, PAD) for tokens, mask, _ in examples)
        found = [hashes[whole] for tokens in texts for hashes, whole in hashed_ngrams(tokens, self.max_ngram)]
        if not found:
            return
        hashes, counts = torch.cat(found).unique(return_counts=True)
        # The rarest come first, so that the most frequent ones overwrite them below.
        ordered = hashes[counts.argsort(stable=True)].cpu().numpy()
        before = self.keys.cpu().numpy()
        keys = before.copy()
        keys[ordered % self.num_buckets] = ordered  # for an index that occurs several times, NumPy keeps the last value
        self.keys.copy_(torch.from_numpy(np.where(before == 0, keys, before)))

    def _read(self, examples: Iterable[Example]) -> "tuple[_Texts, Int[Tensor, ' R']]":
        """Return the texts, and the indices of the table rows that occur in them."""
        counts = torch.zeros_like(self.evidence)
        rows, sizes, scales, labels = [], [], [], []
        for tokens, mask, label in examples:
            found, real = (part.flatten(1) for part in self._rows(tokens.masked_fill(~mask, PAD)))
            gold = label if label.ndim == 2 else functional.one_hot(label, counts.shape[1])
            count_texts(counts, found, real, gold.to(counts.dtype))
            rows.append(found[real].int())
            sizes.append(real.sum(dim=1))
            scales.append(self._scale(mask.sum(dim=1)))
            labels.append(label)
        ends = torch.cat(sizes).cumsum(dim=0)
        starts = functional.pad(ends[:-1], (1, 0)).int()
        seen = counts.any(dim=1).nonzero().squeeze(1)
        # Only the rows that occur are fitted, so they get consecutive numbers.
        place = torch.zeros(len(counts), dtype=torch.int32, device=counts.device)
        place[seen] = torch.arange(len(seen), dtype=torch.int32, device=counts.device)
        scale, label = torch.cat(scales).to(counts.dtype).unsqueeze(-1), torch.cat(labels)
        return _Texts(place[torch.cat(rows)], starts, scale, label, counts[seen]), seen


def _spread(examples: Iterable[Example], most: int) -> list[Example]:
    """Return every n-th text, with the smallest n for which at most `most` texts remain."""
    kept = list(examples)
    step = max(1, -(-sum(len(tokens) for tokens, _, _ in kept) // most))
    starts = itertools.accumulate((len(tokens) for tokens, _, _ in kept), initial=0)
    parts = [tuple(part[-start % step :: step] for part in one) for one, start in zip(kept, starts, strict=False)]
    return [(tokens, mask, label) for tokens, mask, label in parts if len(tokens)]


def _first_of_each(rows: Int[Tensor, "B S N"]) -> Bool[Tensor, "B S N"]:
    """Return a mask that is True where a number occurs for the first time along axis 1, for each index of the other axes."""
    if torch.compiler.is_exporting():  # ONNX has no stable sort; comparing all pairs needs S² numbers per text
        earlier = torch.ones(rows.shape[1], rows.shape[1], dtype=torch.bool, device=rows.device).tril(-1)
        return ~((rows[:, :, None] == rows[:, None]) & earlier[:, :, None]).any(2)
    ordered, order = rows.sort(dim=1, stable=True)
    again = functional.pad(ordered[:, 1:] == ordered[:, :-1], (0, 0, 1, 0))[:, : rows.shape[1]]
    return torch.zeros_like(again).scatter(1, order, ~again)


class _Texts(NamedTuple):
    """All training texts. The R table rows that occur in them are numbered from 0 to R − 1."""

    rows: Tensor
    """Numbers of the rows that occur in each text, for all texts concatenated."""
    starts: Tensor
    """Index in `rows` at which each text begins."""
    scale: Tensor
    """1/√(4F) of each text; see `CountedClassifier`."""
    label: Tensor
    counts: Tensor
    """Number of texts of each label in which each row occurs, (R, C)."""
