"""Which modules answer for the formula of their class, and which have changed it."""

import pytest
import torch
from torch import nn

from regard.attention import MultiHead, ScoredAttention, Softmax
from regard.attention.capabilities import Unchanged, capability, is_unchanged
from regard.errors import ShapeError


class Parent(nn.Module):
    changes_nothing = Unchanged("scale")

    def forward(self, x):
        return self.scale() * x

    def scale(self):
        return 2

    @capability
    def formula(self):
        return "2 x"


class Child(Parent):
    """The same."""


class Changed(Parent):
    def scale(self):
        return 3


class Declared(Changed):
    changes_nothing = True

    @capability
    def formula(self):
        return "3 x"


def test_a_subclass_that_overrides_a_method_loses_the_capability():
    assert [cls().formula() for cls in (Parent, Child, Changed, Declared)] == ["2 x", "2 x", None, "3 x"]
    assert [cls.changes_nothing for cls in (Parent, Child, Changed, Declared)] == [True, True, False, True]


def test_a_method_that_somebody_replaced_and_a_hook():
    module = Parent()
    handle = module.register_forward_hook(lambda *_: None)
    assert module.formula() is None
    handle.remove()
    assert module.formula() == "2 x"
    module.scale = lambda: 5
    assert module.formula() is None


def test_the_normalizer_counts():
    class Other(Softmax):
        def forward(self, scores, mask=None):
            return super().forward(2 * scores, mask)

    assert MultiHead(4, 2).head_maps() is not None
    assert MultiHead(4, 2, normalizer=Other()).head_maps() is None
    assert not is_unchanged(Other(), Softmax)


def test_scores_of_another_shape_are_refused(unchecked):
    class Wrong(ScoredAttention):
        def scores(self, query, memory):
            return query @ memory.key.transpose(1, 2)[..., :1]

    with pytest.raises(ShapeError, match=r"result of Wrong.scores has shape \(2, 3, 1\), expected \(B, Q, K\) = \(2, 3, 7\)"):
        Wrong(4)(torch.randn(2, 3, 4), torch.randn(2, 7, 4))
