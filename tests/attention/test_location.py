"""Location-sensitive attention: worked by hand, its state, and what it refuses."""

import pytest
import torch

from regard.attention import Additive, LocationSensitive
from regard.errors import ConfigError


def test_the_first_query_is_answered_as_additive_attention_does():
    torch.manual_seed(0)
    location, additive = LocationSensitive(5, key_size=7), Additive(5, key_size=7, bias=True)
    additive.load_state_dict(location.state_dict(), strict=False)
    query, key = torch.randn(2, 2, 5), torch.randn(2, 11, 7)
    ours, plain = location(query, key).weights, additive(query, key).weights
    torch.testing.assert_close(ours[:, 0], plain[:, 0])
    assert not torch.allclose(ours[:, 1], plain[:, 1], atol=1e-4)


def test_the_state_of_half_types_is_float32():
    attention = LocationSensitive(5).bfloat16()
    _, state = attention.attend(torch.randn(2, 1, 5).bfloat16(), attention.prepare(torch.randn(2, 7, 5).bfloat16()))
    assert state.history.dtype == torch.float32


def test_a_gradient_reaches_everything_through_earlier_weights():
    torch.manual_seed(0)
    attention = LocationSensitive(5, num_filters=3, kernel_size=3)
    attention(torch.randn(2, 3, 5), torch.randn(2, 7, 5)).weights[:, 2].square().sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in attention.parameters())


def test_sizes_are_refused():
    message = r"LocationSensitive\(kernel_size=4\): a filter of even width has no middle; use 3 or 5"
    with pytest.raises(ConfigError, match=message):
        LocationSensitive(5, kernel_size=4)
    for name in ("num_filters", "kernel_size", "attention_size", "key_size"):
        with pytest.raises(ConfigError, match=rf"LocationSensitive\({name}=0\): {name} must be 1 or more"):
            LocationSensitive(5, **{name: 0})
