"""Modules that fast paths serve, and modules whose formula may be another one."""

import pytest
import torch

from regard.attention import MultiHead, ScoredAttention, Softmax
from regard.attention.capabilities import is_exactly
from regard.errors import ShapeError
from regard.inference.ctranslate2 import is_plain_heads
from regard.layers.recurrent import RecurrentLayer


class Child(Softmax):
    """The same."""


def test_a_subclass_runs_the_plain_form():
    assert is_exactly(Softmax(), Softmax)
    assert not is_exactly(Child(), Softmax)
    assert not is_plain_heads(MultiHead(4, 2, normalizer=Child()))


def test_a_method_that_somebody_replaced_and_a_hook():
    module = Softmax()
    handle = module.register_forward_hook(lambda *_: None)
    assert not is_exactly(module, Softmax)
    handle.remove()
    assert is_exactly(module, Softmax)
    module.forward = lambda scores, mask=None: scores
    assert not is_exactly(module, Softmax)


@pytest.mark.parametrize("name", ["step", "states"])
def test_a_replaced_method_of_a_layer(name):
    layer = RecurrentLayer(4, hidden_size=4, cell="gru")
    assert is_exactly(layer, RecurrentLayer)
    setattr(layer, name, getattr(layer, name))
    assert not is_exactly(layer, RecurrentLayer)


def test_the_normalizer_counts():
    class Other(Softmax):
        def forward(self, scores):
            return super().forward(2 * scores)

    assert is_plain_heads(MultiHead(4, 2))
    assert not is_plain_heads(MultiHead(4, 2, normalizer=Other()))
    assert not is_exactly(Other(), Softmax)


def test_scores_of_another_shape_are_refused(unchecked):
    class Wrong(ScoredAttention):
        def scores(self, query, memory):
            return query @ memory.key.transpose(1, 2)[..., :1]

    with pytest.raises(ShapeError, match=r"result of Wrong.scores has shape \(2, 3, 1\), expected \(B, Q, K\) = \(2, 3, 7\)"):
        Wrong(4)(torch.randn(2, 3, 4), torch.randn(2, 7, 4))
