"""A hierarchical classifier: attention over the words of each sentence, and over the sentences of a document."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.config import HierarchicalClassifierConfig
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.layers.recurrent import RecurrentLayer
from regard.models.classifiers.pooled import NeuralClassifier, build_embedding
from regard.reweight import Sites


class HierarchicalClassifier(NeuralClassifier):
    """s_i = pool_t GRU(embed(w_it)), d = pool_i GRU(s_i), logits = W d + b.

    w_it is word t of sentence i, and d is the vector of the document. Both recurrent layers are bidirectional (GRUs, or LSTMs
    if configured), and both poolings are of the configured kind.

    A sentence ends after one or more tokens that end sentences, or when it has `max_sentence` tokens. Each site has a weight
    for each token: in `"word"`, the weight of the token in its sentence; in `"sentence"`, the weight of the token's sentence in
    the document; in `"pool"`, the product of these two weights. If the pooling has heads, `"pool"` uses the mean of the word
    heads, because each sentence head reads the outputs of all word heads.

    Reference: Yang et al. 2016, eqs. 1–11.
    Differs from the paper: sentences are found by tokens, and dropout is added.
    """

    sites = ("pool", "word", "sentence")

    def __init__(
        self,
        config: HierarchicalClassifierConfig,
        *,
        vocabulary_size: int,
        num_labels: int,
        sentence_ends: Sequence[int] = (),
        embedding_size: int = 0,
    ) -> None:
        super().__init__()
        width, states_size = embedding_size or config.embedding_size, 2 * config.hidden_size
        self.max_sentence = config.max_sentence
        self.register_buffer("ends_sentence", _flags(sentence_ends, vocabulary_size))
        self.embedding = build_embedding(vocabulary_size, width)
        self.build_dropouts(config)
        self.output_dropout = Dropout(config.output_dropout)
        self.word_layer = RecurrentLayer(width, hidden_size=config.hidden_size, cell=config.cell, bidirectional=True)
        self.word_pooling = config.pooling.build(size=states_size)
        self.sentence_layer = RecurrentLayer(
            self.word_pooling.output_size, hidden_size=config.hidden_size, cell=config.cell, bidirectional=True
        )
        self.sentence_pooling = config.pooling.build(size=states_size)
        self.output = nn.Linear(self.sentence_pooling.output_size, num_labels)

    def classify(
        self, tokens: Int[Tensor, "B S"], embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], sites: Sites
    ) -> Float[Tensor, "B C"]:
        """Return the scores of the labels; see `NeuralClassifier`.

        A function for `pool` that replaces weights applies to `word` and to `sentence`, unless they have one of their own.
        """
        assert isinstance(self.ends_sentence, Tensor)
        layout = cut_sentences(self.ends_sentence[tokens], mask, max_sentence=self.max_sentence)
        words = _take(self.embedding_dropout(embedded).flatten(0, 1), layout.token)
        states = self.word_layer.states(words, layout.word_mask)
        changes = sites.reweight or {}
        word_change, sentence_change = (changes.get(site, changes.get("pool")) for site in ("word", "sentence"))
        sentences, word_weights = self.word_pooling(states, key_mask=layout.word_mask, reweight=word_change)
        states = self.sentence_layer.states(_take(sentences, layout.sentence), layout.sentence_mask)
        document, sentence_weights = self.sentence_pooling(states, key_mask=layout.sentence_mask, reweight=sentence_change)
        if sites.record:
            word, sentence = layout.at_tokens(mask, word_weights, sentence_weights)
            counts = sentence * (word if word.ndim == 2 else word.mean(dim=1, keepdim=True))
            sites.maps.update(pool=counts, word=word, sentence=sentence)
        return self.output(self.output_dropout(document))


@dataclass(frozen=True)
class SentenceLayout:
    """Positions of the M sentences in a batch of B texts.

    W is the number of words in the longest sentence, and N the largest number of sentences in a text.
    """

    token: Tensor
    """Index of each word in the flattened batch, (M,W); undefined for padding."""
    word_mask: Tensor
    """True at words, (M,W)."""
    sentence: Tensor
    """Number of each sentence of each text, (B,N), from 0 to M − 1: its row in `token`; undefined for padding."""
    sentence_mask: Tensor
    """True at sentences, (B,N)."""

    def at_tokens(self, mask: Tensor, word_weights: Tensor, sentence_weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return two weights of each token, (B,[H,]S): its weight in its sentence, and the weight of its sentence.

        They come from the weights of the words of each sentence, (M,[H,]W), and of the sentences of each text, (B,[H,]N).
        """
        sizes = self.word_mask.sum(dim=1)  # words of each sentence, in the order of the text
        found = [
            word_weights.movedim(-1, 1)[self.word_mask],
            sentence_weights.movedim(-1, 1)[self.sentence_mask].repeat_interleave(sizes, dim=0),
        ]
        word, sentence = (w.new_zeros(*mask.shape, *w.shape[1:]).index_put((mask,), w).movedim(1, -1) for w in found)
        return word, sentence


def cut_sentences(ends: Bool[Tensor, "B S"], mask: Bool[Tensor, "B S"], *, max_sentence: int) -> SentenceLayout:
    """Split texts into sentences: after each run of tokens that end sentences, at the latest after `max_sentence` tokens."""
    size = mask.shape[1]
    position = torch.arange(size, device=mask.device).expand_as(mask)
    starts = position == 0
    starts[:, 1:] |= ends[:, :-1] & ~ends[:, 1:]
    # The distance from the sentence's first token, at which a long sentence is split.
    offset = position - position.where(starts, 0).cummax(dim=1).values if size else position
    starts = (offset % max_sentence == 0) & mask
    first = starts.flatten().nonzero()[:, 0]
    counts, lengths = starts.sum(dim=1), mask.sum(dim=1)
    # A sentence ends where the next sentence of the same text begins; the last sentence ends with the text.
    row = first // max(size, 1)
    after = torch.cat((first[1:], first.new_full((min(1, len(first)),), mask.numel())))
    length = torch.minimum(after, row * size + lengths[row]) - first
    word = torch.arange(int(length.max()) if len(length) else 0, device=mask.device)
    number = torch.arange(int(counts.max()) if len(counts) else 0, device=mask.device)
    return SentenceLayout(
        token=(first[:, None] + word).clamp(max=mask.numel() - 1),
        word_mask=word < length[:, None],
        sentence=((counts.cumsum(dim=0) - counts)[:, None] + number).clamp(max=len(first) - 1),
        sentence_mask=number < counts[:, None],
    )


def _take(rows: Float[Tensor, "M D"], index: Int[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
    return rows.index_select(0, index.flatten()).unflatten(0, index.shape)


def _flags(ids: Sequence[int], size: int) -> Tensor:
    """Return flags (size,) that are True at the ids; they are a buffer, so that they are saved with the weights."""
    wrong = [number for number in ids if not 0 <= number < size]
    if wrong:
        raise ConfigError(
            f"HierarchicalClassifier(sentence_ends): {wrong[0]} is not an id of a vocabulary of {size} words; expected a "
            f"number from 0 to {size - 1}"
        )
    flags = torch.zeros(size, dtype=torch.bool)
    flags[list(ids)] = True
    return flags
