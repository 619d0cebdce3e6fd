"""The hierarchical classifier: where it cuts, its formula document by document, and its weights at the tokens."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.config import HierarchicalClassifierConfig, LinearPoolingConfig, MeanPoolingConfig, MultiHeadPoolingConfig
from regard.errors import ConfigError
from regard.models.classifiers.hierarchical import HierarchicalClassifier, cut_sentences

ENDS, WORDS = (4, 5), 19


def cut(texts: list[list[int]], max_sentence: int) -> list[list[list[int]]]:
    """The sentences of each text, by the layout."""
    size = max(map(len, texts), default=0)
    tokens = torch.tensor([text + [0] * (size - len(text)) for text in texts], dtype=torch.int64).view(len(texts), size)
    mask = torch.arange(size) < torch.tensor([len(text) for text in texts])[:, None]
    layout = cut_sentences(torch.isin(tokens, torch.tensor(ENDS)), mask, max_sentence=max_sentence)
    flat = tokens.flatten()
    words = [flat[place[kept]].tolist() for place, kept in zip(layout.token, layout.word_mask, strict=True)]
    return [[words[i] for i in row[kept].tolist()] for row, kept in zip(layout.sentence, layout.sentence_mask, strict=True)]


def by_hand(text: list[int], max_sentence: int) -> list[list[int]]:
    found: list[list[int]] = []
    for previous, word in zip([None, *text], text, strict=False):
        if previous is None or (previous in ENDS and word not in ENDS) or len(found[-1]) == max_sentence:
            found.append([])
        found[-1].append(word)
    return found


def test_cuts_after_runs_of_ends_and_at_the_longest():
    texts = [[9, 9, 4, 8, 8, 8, 8, 5, 4, 7], [], [4], [7] * 7]
    assert cut(texts, 4) == [[[9, 9, 4], [8, 8, 8, 8], [5, 4], [7]], [], [[4]], [[7] * 4, [7] * 3]]


@given(st.lists(st.lists(st.integers(3, 8), max_size=12), min_size=1, max_size=5), st.integers(1, 5))
def test_cuts_as_by_hand(texts, max_sentence):
    assert cut(texts, max_sentence) == [by_hand(text, max_sentence) for text in texts]


def build(pooling, **settings) -> HierarchicalClassifier:
    torch.manual_seed(0)
    config = HierarchicalClassifierConfig(embedding_size=7, hidden_size=3, pooling=pooling, max_sentence=4, **settings)
    return HierarchicalClassifier(config, vocabulary_size=WORDS, num_labels=2, sentence_ends=ENDS).double().eval()


TEXTS = [[9, 9, 4, 8, 8, 8, 8, 5, 4, 7], [6, 7, 8], [9, 10, 5, 11, 12, 13]]


def batch() -> tuple[Tensor, Tensor]:
    tokens = torch.tensor([text + [0] * (10 - len(text)) for text in TEXTS])
    return tokens, tokens != 0


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("pooling", [LinearPoolingConfig(), MultiHeadPoolingConfig(num_heads=2)], ids=lambda p: p.kind)
def test_equals_sentences_one_by_one(pooling, cell):
    model = build(pooling, cell=cell)
    tokens, mask = batch()
    logits, attention = model(tokens, mask, record=model.sites)
    for row, text in enumerate(TEXTS):
        vectors, word_weights, spread = [], [], []
        for sentence in by_hand(text, 4):
            states, _ = model.word_layer(model.embedding(torch.tensor([sentence])))
            vector, weights = model.word_pooling(states)
            vectors.append(vector)
            word_weights.append(weights[0])
        states, _ = model.sentence_layer(torch.stack(vectors, dim=1))
        document, sentence_weights = model.sentence_pooling(states)
        torch.testing.assert_close(logits[row], model.output(document)[0], rtol=0, atol=1e-12)
        spread = [sentence_weights[0, ..., i : i + 1].expand_as(w) for i, w in enumerate(word_weights)]
        for site, parts in {"word": word_weights, "sentence": spread}.items():
            torch.testing.assert_close(attention[site][row][..., : len(text)], torch.cat(parts, -1), rtol=0, atol=1e-12)
            assert not attention[site][row][..., len(text) :].any()


def test_uniform_weights_at_both_levels():
    tokens, mask = batch()

    def uniform(weights: Tensor, mask: Tensor) -> Tensor:
        return (mask.to(weights.dtype) / mask.sum(-1, keepdim=True).clamp(min=1)).expand_as(weights)

    model, mean = build(LinearPoolingConfig()), build(MeanPoolingConfig())
    mean.load_state_dict({k: v for k, v in model.state_dict().items() if "pooling" not in k})
    found = model(tokens, mask, record=["pool"], reweight=uniform)
    expected = mean(tokens, mask, record=["pool"])
    torch.testing.assert_close(found.logits, expected.logits)
    torch.testing.assert_close(found.attention["pool"], expected.attention["pool"])
    assert found.attention["pool"][0, :3].tolist() == pytest.approx([1 / 12] * 3)


def test_ends_are_saved_with_the_weights():
    model, other = build(MeanPoolingConfig()), build(MeanPoolingConfig())
    other.ends_sentence.zero_()
    other.load_state_dict(model.state_dict())
    assert other.ends_sentence.nonzero().flatten().tolist() == list(ENDS)


def test_an_id_outside_the_vocabulary_is_refused():
    message = (
        r"HierarchicalClassifier\(sentence_ends\): 19 is not an id of a vocabulary of 19 words; expected a number from 0 to"
    )
    with pytest.raises(ConfigError, match=message):
        HierarchicalClassifier(HierarchicalClassifierConfig(), vocabulary_size=WORDS, num_labels=2, sentence_ends=(4, 19))
