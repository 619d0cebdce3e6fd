"""The recurrent classifier: its formula in loops, PyTorch's packed layers, and what training hides."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.config import RecurrentClassifierConfig
from regard.models.classifiers.pooled import WordDropout
from regard.models.classifiers.recurrent import RecurrentClassifier
from regard.reweight import Sites
from regard.text.symbols import UNKNOWN

WORDS, WIDTH, HIDDEN, LABELS = 29, 13, 17, 3
LENGTHS = torch.tensor([11, 1, 4, 11, 2])
MASK = torch.arange(11) < LENGTHS[:, None]
TOKENS = torch.randint(4, WORDS, MASK.shape, generator=torch.Generator().manual_seed(1)).masked_fill(~MASK, 0)


def build(**settings) -> RecurrentClassifier:
    torch.manual_seed(0)
    config = RecurrentClassifierConfig(embedding_size=WIDTH, hidden_size=HIDDEN, **settings)
    return RecurrentClassifier(config, vocabulary_size=WORDS, num_labels=LABELS).double().eval()


@pytest.fixture
def model() -> RecurrentClassifier:
    return build()


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def run_lstm(inputs: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    """Hochreiter & Schmidhuber's cell, a word at a time."""
    w_ih, w_hh, b_ih, b_hh = weights
    hidden, cell, states = np.zeros(HIDDEN), np.zeros(HIDDEN), []
    for x in inputs:
        i, f, g, o = np.split(w_ih @ x + b_ih + w_hh @ hidden + b_hh, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
        states.append(hidden)
    return np.array(states)


def test_equals_its_formula(model):
    logits, attention = model(TOKENS, MASK, record=["pool"])
    [layer] = model.layers
    ways = [
        [p[way].detach().numpy() for p in (layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh)] for way in (0, 1)
    ]
    for row, length in enumerate(LENGTHS.tolist()):
        words = model.embedding.weight.detach().numpy()[TOKENS[row, :length].numpy()]
        states = np.concatenate([run_lstm(words, ways[0]), run_lstm(words[::-1], ways[1])[::-1]], axis=1)
        projection = model.pooling.projection
        scores = np.array([projection.weight.detach().numpy()[0] @ h + projection.bias.item() for h in states])
        weights = np.exp(scores) / np.exp(scores).sum()
        context = sum(w * h for w, h in zip(weights, states, strict=True))
        expected = model.output.weight.detach().numpy() @ context + model.output.bias.detach().numpy()
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(attention["pool"][row, :length].detach().numpy(), weights, rtol=0, atol=1e-12)
        assert not attention["pool"][row, length:].any()


def packed(model: RecurrentClassifier, dtype: torch.dtype) -> tuple[Tensor, nn.LSTM]:
    """The same model over PyTorch's packed sequences."""
    lstm = nn.LSTM(WIDTH, HIDDEN, batch_first=True, bidirectional=True).to(dtype)
    with torch.no_grad():
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            for way, suffix in enumerate(("_l0", "_l0_reverse")):
                getattr(lstm, name + suffix).copy_(getattr(model.layers[0], name)[way])
    inputs = pack_padded_sequence(model.embedding(TOKENS), LENGTHS, batch_first=True, enforce_sorted=False)
    states = pad_packed_sequence(lstm(inputs)[0], batch_first=True, total_length=MASK.shape[1])[0]
    scores = model.pooling.projection(states)[..., 0].masked_fill(~MASK, -torch.inf)
    return model.output((scores.softmax(-1)[:, None] @ states)[:, 0]), lstm


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str)
def test_equals_packed_sequences(model, dtype, tolerance):
    """In float32 by the fused loop, gradients too."""
    model = model.to(dtype)
    gradients = []
    for way in ("ours", "packed"):
        model.zero_grad()
        logits, lstm = (model(TOKENS, MASK).logits, None) if way == "ours" else packed(model, dtype)
        nn.functional.cross_entropy(logits, torch.arange(5) % LABELS).backward()
        if lstm is None:
            recurrent = model.layers[0].weight_hh.grad.clone()
        else:
            recurrent = torch.stack([lstm.weight_hh_l0.grad, lstm.weight_hh_l0_reverse.grad])
        gradients.append([logits, recurrent, model.embedding.weight.grad.clone(), model.pooling.projection.weight.grad.clone()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance)


def test_evaluation_with_and_without_a_gradient_is_the_same(model):
    model = model.float()
    with torch.no_grad():
        without = model(TOKENS, MASK).logits
    torch.testing.assert_close(without, model(TOKENS, MASK).logits, rtol=0, atol=1e-6)


def test_a_layer_reads_the_layer_below():
    model = build(num_layers=2, layer_dropout=0.5, word_dropout=0.0, embedding_dropout=0.0, output_dropout=0.0)
    first, second = model.layers
    embedded = model.embedding(TOKENS)
    expected = second.states(first.states(embedded, MASK), MASK)
    torch.testing.assert_close(model.states(embedded, MASK, Sites()), expected)
    torch.manual_seed(1)
    dropped = model.train().states(embedded, MASK, Sites())
    torch.manual_seed(1)
    torch.testing.assert_close(dropped, second.states(model.layer_dropout(first.states(embedded, MASK)), MASK))
    assert not torch.allclose(dropped, expected, atol=1e-3)


def test_word_dropout():
    torch.manual_seed(0)
    hide = WordDropout(0.25)
    tokens, mask = torch.full((50, 100), 7), torch.ones(50, 100, dtype=torch.bool)
    mask[:, 60:] = False
    hidden = hide(tokens, mask)
    assert set(hidden.unique().tolist()) == {UNKNOWN, 7}
    assert 0.2 < (hidden == UNKNOWN)[mask].float().mean() < 0.3
    assert (hidden[~mask] == 7).all()
    assert hide.eval()(tokens, mask) is tokens
