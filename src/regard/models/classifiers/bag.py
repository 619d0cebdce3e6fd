"""A bag of words and n-grams under attention pooling.

A word is read alone and in each n-gram that it stands in: "dull" in "not dull" is dull, and it is what follows "not" there.
So an n-gram has as many vectors as it has words, one for each place in it, and the one of a word's place is added to the word's
own. That keeps the attention a distribution over words, with nothing to share out afterwards: a word that neighbours turn or
silence ("not good", "looked good") has the weight that it has in this place, and an n-gram's plain words ("is" in "is dull")
need not get what its telling word earns. There is no way from words to labels but through the weighted sum.
"""

import math
from collections.abc import Collection

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.build import build_pooling
from regard.config import BagClassifierConfig
from regard.layers.dropout import Dropout
from regard.models.classifiers.words import WordDropout
from regard.models.text_classifier import Classified, Reweight, TextClassifier
from regard.shapes import check_shape
from regard.text.symbols import PAD

_MULTIPLIERS = (0x9E3779B97F4A7C15 - (1 << 64), 0xC2B2AE3D27D4EB4F - (1 << 64))  # odd, of xxHash and of the golden ratio
_INITIAL_NORM = 0.5


class BagClassifier(TextClassifier):
    """h_s = E[x_s] + Σ_n Σ_k G[hash(x_{s−k} … x_{s−k+n−1}; k)]; logits = W Σ_s weight_s h_s + b, weights of the pooling of h.

    n goes from 2 to the longest n-grams, and k is the word's place in the n-gram, from 0 to n − 1.

    Shapes: E (V,D), G (buckets,D), W (C,D).

    Reference: Joulin et al. 2017 have the hashed n-grams, Wang, Manning 2012 the strength of pairs of words.
    Differs from the papers: attention in place of the mean, and n-grams belong to the words in them.
    """

    sites = ("pool",)

    def __init__(self, config: BagClassifierConfig, *, vocabulary_size: int, num_labels: int, embedding_size: int = 0) -> None:
        """Args:
        config: What it is made of.
        vocabulary_size: V.
        num_labels: C.
        embedding_size: D, of word vectors; 0 for the configured one.
        """
        super().__init__()
        width = embedding_size or config.embedding_size
        self.embedding = nn.Embedding(vocabulary_size, width, padding_idx=PAD)
        # Vectors of a small length: what training never touched has little to say, in the scores and in the values.
        with torch.no_grad():
            self.embedding.weight.mul_(_INITIAL_NORM / math.sqrt(width))
        self.max_ngram = config.max_ngram
        if config.max_ngram > 1:
            self.ngram_embedding = nn.Embedding(config.num_buckets, width)
            nn.init.zeros_(self.ngram_embedding.weight)  # an n-gram that was never seen leaves its words as they are
        self.word_dropout = WordDropout(config.word_dropout)
        self.embedding_dropout, self.output_dropout = Dropout(config.embedding_dropout), Dropout(config.output_dropout)
        self.pooling = build_pooling(config.pooling, size=width)
        self.output = nn.Linear(self.pooling.output_size, num_labels)

    def embed(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B S E"]:
        """Each word's own vector and those of its places in n-grams, summed; an n-gram with padding in it is none."""
        embedded: Tensor = self.embedding(tokens)
        length = tokens.shape[1]
        for size in range(2, min(self.max_ngram, length) + 1):
            windows = tokens.unfold(1, size, 1)
            real = (windows != PAD).all(dim=2).unsqueeze(-1)
            for place in range(size):
                rows = self.ngram_embedding(ngram_rows(windows, place=place, num_rows=self.ngram_embedding.num_embeddings))
                embedded = embedded + functional.pad(rows.where(real, 0), (0, 0, place, size - 1 - place))
        return embedded

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        mask: Bool[Tensor, "B S"],
        *,
        embedded: Float[Tensor, "B S E"] | None = None,
        reweight: Reweight | None = None,
        record: Collection[str] = (),
    ) -> Classified:
        """Score the labels of each text, as the contract has it."""
        check_shape("mask", mask, "B S", check_shape("tokens", tokens, "B S"))
        if embedded is None:
            embedded = self.embed(self.word_dropout(tokens, mask).masked_fill(~mask, PAD))
        context, weights = self.pooling(self.embedding_dropout(embedded), key_mask=mask, reweight=reweight)
        logits = self.output(self.output_dropout(context))
        return Classified(logits, {"pool": weights} if "pool" in record else {})


def ngram_rows(ngrams: Int[Tensor, "B S N"], *, place: int, num_rows: int) -> Int[Tensor, "B S"]:
    """Which row of a table an n-gram's word has: a hash of the words in their order, of how many they are, and of the place.

    Integer products wrap around 64 bits, on every device alike.
    """
    state = torch.full_like(ngrams[..., 0], ngrams.shape[2] * 256 + place)
    for position in range(ngrams.shape[2]):
        state = _mix(state + ngrams[..., position])
    return state.remainder(num_rows)


def _mix(state: Tensor) -> Tensor:
    state = state * _MULTIPLIERS[0]
    return (state ^ ((state >> 29) & ((1 << 35) - 1))) * _MULTIPLIERS[1]
