"""A bag of words and n-grams with attention pooling.

The state of a word is the sum of its word vector and the vectors of the n-grams that end with it: in "not dull", the state of
"dull" includes the vector of "not dull". So attention stays a distribution over words, and a word whose meaning is changed by
the words before it ("not good", "looked good") gets the weight for this context. If an n-gram's vector were added to its other
words too, "is" in "is dull" would get attention that belongs to "dull". Words affect the labels only through the weighted sum.
"""

import math
from collections.abc import Iterable, Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from regard.config import BagClassifierConfig
from regard.models.classifiers.pooled import PooledClassifier
from regard.models.text_classifier import Example
from regard.reweight import Sites
from regard.text.symbols import PAD

_MULTIPLIERS = (0x9E3779B97F4A7C15 - (1 << 64), 0xC2B2AE3D27D4EB4F - (1 << 64))  # odd numbers, from the golden ratio and xxHash
_INITIAL_NORM = 0.5
_COUNTED_NORM = 0.05  # small compared with log-count ratios, whose magnitude is about 1
_COUNTED_SCALE = 3.0  # factor of the initial logits; they are averages of ratios, of which few are large


class BagClassifier(PooledClassifier):
    """h_s = E[x_s] + Σ_n G[hash(x_{s−n+1} … x_s)]; logits = W Σ_s weight_s h_s + b; the pooling computes the weights from h.

    The length n of the n-grams goes from 2 to `max_ngram`.

    Shapes: E (V,D), G (buckets,D), W (C,D).

    Reference: Joulin et al. 2017 for hashed n-grams; Wang, Manning 2012 for the benefit of pairs of words.
    Differs from the papers: attention instead of the mean, and each n-gram is added to its last word only.
    """

    def __init__(self, config: BagClassifierConfig, *, vocabulary_size: int, num_labels: int, embedding_size: int = 0) -> None:
        super().__init__()
        width = embedding_size or config.embedding_size
        self.embedding = nn.Embedding(vocabulary_size, width, padding_idx=PAD)
        # Short vectors, so that words that training never updates have little effect on scores and values.
        with torch.no_grad():
            self.embedding.weight.mul_(_INITIAL_NORM / math.sqrt(width))
        self.max_ngram = config.max_ngram
        self.count_smoothing = 0 if embedding_size else config.count_smoothing  # pretrained vectors replace this initialisation
        if config.max_ngram > 1:
            self.ngram_embedding = nn.Embedding(config.num_buckets, width)
            nn.init.zeros_(self.ngram_embedding.weight)  # an unseen n-gram does not change its words
        self.size = width
        self.build_dropouts(config)
        self.build_head(config, num_labels)

    def embed(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        """Return each word's vector plus the vectors of the n-grams that end with it; n-grams with padding are left out."""
        embedded: Tensor = self.embedding(tokens)
        for rows, real in self._ngrams(tokens):
            vectors = self.ngram_embedding(rows).where(real.unsqueeze(-1), 0)
            embedded = embedded + functional.pad(vectors, (0, 0, tokens.shape[1] - rows.shape[1], 0))
        return embedded

    def _ngrams(self, tokens: Int[Tensor, "B S"]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield for each n the table rows of the n-grams (B, S − n + 1), and a mask of the n-grams without padding."""
        for hashes, whole in hashed_ngrams(tokens, self.max_ngram):
            yield hashes.remainder(self.ngram_embedding.num_embeddings), whole

    def states(self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites) -> Float[Tensor, "B S E"]:
        """Return the embeddings after dropout."""
        return self.embedding_dropout(embedded)

    @torch.no_grad()
    def prime(self, examples: Iterable[Example], *, label_weight: Float[Tensor, " C"] | None = None) -> None:
        """Initialise with the log-count ratios of words and n-grams in the training texts, as used by naive Bayes.

        r_ic = log((α + n_ic) / Σ_j (α + n_jc)) − log((α + n_i − n_ic) / Σ_j (α + n_j − n_jc)), where α is `count_smoothing`, i
        occurs in n_ic texts of label c, and n_i = Σ_c n_ic. The sums are over all words that occur if i is a word, and over all
        n-grams that occur if i is an n-gram. With an orthogonal P (C,D), the vectors are r P (for words, small random vectors
        are added), and the output weights are a multiple of P, so that the initial logits are averages of the ratios, times a
        constant.

        If α is 0, or pretrained word vectors are used, nothing happens.

        Reference: Wang, Manning 2012, eqs. 1–3, where r scales the features of a linear classifier.
        Differs from the paper: r is only the initial value.
        """
        if not self.count_smoothing:
            return
        num_labels, width = self.output.out_features, self.embedding.embedding_dim
        device = self.output.weight.device
        words = torch.zeros(self.embedding.num_embeddings, num_labels, device=device)
        ngrams = torch.zeros(self.ngram_embedding.num_embeddings if self.max_ngram > 1 else 0, num_labels, device=device)
        for tokens, mask, label in examples:
            gold = label.float() if label.ndim == 2 else functional.one_hot(label, num_labels).float()
            tokens = tokens.masked_fill(~mask, PAD)
            count_texts(words, tokens, mask, gold)
            for rows, real in self._ngrams(tokens):
                count_texts(ngrams, rows, real, gold)
        directions = nn.init.orthogonal_(torch.empty(num_labels, width, device=device))
        self.embedding.weight.mul_(_COUNTED_NORM / _INITIAL_NORM).add_(log_ratios(words, self.count_smoothing) @ directions)
        if self.max_ngram > 1:
            self.ngram_embedding.weight.copy_(log_ratios(ngrams, self.count_smoothing) @ directions)
        # Each head of the pooling returns the whole width, so all heads get the same initial weights.
        heads = self.pooling.output_size // width
        self.output.weight.copy_(directions.repeat(1, heads) * (_COUNTED_SCALE / heads))


def count_texts(
    counts: Float[Tensor, "R C"], rows: Int[Tensor, "B K"], real: Bool[Tensor, "B K"], gold: Float[Tensor, "B C"]
) -> None:
    """Add to `counts`, for each row of a table and each label, the number of texts with this label that contain the row.

    The rows of the words or n-grams of a text count where `real` is True; `gold` is 1 for each label of a text.
    """
    text = torch.arange(len(rows), device=rows.device)[:, None].expand_as(rows)
    once = torch.stack((text[real], rows[real])).unique(dim=1)
    counts.index_add_(0, once[1], gold[once[0]])


def log_ratios(counts: Float[Tensor, "R C"], smoothing: float) -> Float[Tensor, "R C"]:
    """Return the log-count ratio of each row and label (see `BagClassifier.prime`); zero for rows that do not occur."""
    total = counts.sum(dim=1, keepdim=True)
    seen = total > 0
    shares = [(side + smoothing).where(seen, 0) for side in (counts, total - counts)]
    inside, outside = (share / share.sum(dim=0).clamp(min=smoothing) for share in shares)
    return (inside.where(seen, 1) / outside.where(seen, 1)).log()


def hashed_ngrams(tokens: Int[Tensor, "B S"], most: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield, for each n from 2 to `most`, the n-grams' hashes (B, S − n + 1), and a mask of the n-grams without padding."""
    for size in range(2, min(most, tokens.shape[1]) + 1):
        windows = tokens.unfold(1, size, 1)
        yield hash_ngrams(windows), (windows != PAD).all(dim=2)


def hash_ngrams(ngrams: Int[Tensor, "B S N"]) -> Int[Tensor, "B S"]:
    """Return a hash of each n-gram, from its words, their order and their number."""
    # Integer products overflow 64 bits in the same way on every device.
    state = torch.full_like(ngrams[..., 0], ngrams.shape[2])
    for position in range(ngrams.shape[2]):
        state = _mix(state + ngrams[..., position])
    return state


def _mix(state: Tensor) -> Tensor:
    state = state * _MULTIPLIERS[0]
    return (state ^ ((state >> 29) & ((1 << 35) - 1))) * _MULTIPLIERS[1]
