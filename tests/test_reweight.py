"""Changes of attention weights: each against a result worked out by hand."""

import pytest
import torch

import regard
from regard.attention import Additive, MultiHead
from regard.errors import RequestError
from regard.reweight import at_step, attend_to, chain, check_reweight, erase, flatten, for_site, on_heads, sharpen

WEIGHTS = torch.tensor([[[0.5, 0.3, 0.2, 0.0], [0.1, 0.9, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]]])
MASK = torch.tensor([[True, True, True, False], [True, True, False, False], [True, True, True, True]])


def check(change, expected, weights=WEIGHTS, mask=MASK) -> None:
    torch.testing.assert_close(change(weights, mask), torch.tensor([expected], dtype=weights.dtype))


def test_flatten():
    check(flatten, [[1 / 3, 1 / 3, 1 / 3, 0], [0.5, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25]])


def test_a_row_with_nothing_to_attend_to_stays_zero():
    nothing = torch.zeros(1, 1, 4)
    for change in (flatten, sharpen(2), erase(0), attend_to(1)):
        check(change, [[0.0] * 4], nothing, torch.zeros(1, 4, dtype=torch.bool))


def test_sharpen():
    check(sharpen(2), [[25 / 38, 9 / 38, 4 / 38, 0], [0.01 / 0.82, 0.81 / 0.82, 0, 0], [0.25, 0.25, 0.25, 0.25]])
    check(sharpen(1), WEIGHTS[0].tolist())
    root = torch.tensor([0.5, 0.3, 0.2]).sqrt()
    torch.testing.assert_close(sharpen(0.5)(WEIGHTS, MASK)[0, 0, :3], root / root.sum())


def test_sharpen_far_beyond_what_a_number_holds():
    check(sharpen(1000), [[1, 0, 0, 0], [0, 1, 0, 0], [0.25, 0.25, 0.25, 0.25]])


def test_totals_stay_what_they_were():
    """Weights that do not sum to one, as those of a sigmoid, keep their sum."""
    large = 3 * WEIGHTS
    for change in (sharpen(2), erase(1), attend_to(0)):
        torch.testing.assert_close(change(large, MASK).sum(-1), large.sum(-1))


def test_erase():
    check(erase(0), [[0, 0.6, 0.4, 0], [0, 1, 0, 0], [0, 1 / 3, 1 / 3, 1 / 3]])
    check(erase(0, 1), [[0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0.5, 0.5]])
    check(erase(-1, 17), [[0.5, 0.3, 0.2, 0], [0.1, 0.9, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0]])


def test_attend_to_leaves_rows_that_may_not():
    check(attend_to(2), [[0, 0, 1, 0], [0.1, 0.9, 0, 0], [0, 0, 1, 0]])
    check(attend_to(1, 2), [[0, 0.5, 0.5, 0], [0, 1, 0, 0], [0, 0.5, 0.5, 0]])


def test_at_step():
    check(at_step(1, attend_to(0)), [[0.5, 0.3, 0.2, 0], [1, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]])
    check(at_step((0, 2), attend_to(0)), [[1, 0, 0, 0], [0.1, 0.9, 0, 0], [1, 0, 0, 0]])
    at_two = at_step(2, attend_to(0)).at(torch.tensor([2]))  # three hypotheses at step 2
    check(at_two, [[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]])
    check(at_step(2, attend_to(0)).at(torch.tensor([1])), WEIGHTS[0].tolist())


def test_on_heads():
    heads = torch.stack([WEIGHTS[0], WEIGHTS[0]])[None]
    found = on_heads(1, at_step(1, attend_to(0)))(heads, MASK)
    assert torch.equal(found[0, 0], WEIGHTS[0])
    assert torch.equal(found[0, 1], at_step(1, attend_to(0))(WEIGHTS, MASK)[0])
    with pytest.raises(RequestError, match=r"^on_heads: heads are 1, 2, but this attention has 2 heads, numbered from 0$"):
        on_heads((1, 2), flatten)(heads, MASK)
    with pytest.raises(RequestError, match=r"^on_heads: heads are 0, but this attention has no heads; leave on_heads out$"):
        on_heads(0, flatten)(WEIGHTS, MASK)


def test_chain():
    check(chain(erase(0), sharpen(2)), [[0, 9 / 13, 4 / 13, 0], [0, 1, 0, 0], [0, 1 / 3, 1 / 3, 1 / 3]])
    check(chain(at_step(0, erase(0)), at_step(1, flatten)), [[0, 0.6, 0.4, 0], [0.5, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25]])
    check(chain(), WEIGHTS[0].tolist())


def test_for_site():
    by_site = {"cross": flatten, "cross.1": erase}
    assert for_site(by_site, "cross.0") is for_site(by_site, "cross") is flatten
    assert for_site(by_site, "cross.1") is erase
    assert for_site(by_site, "encoder.0") is for_site(None, "cross") is None


@pytest.mark.parametrize("mechanism", [MultiHead(8, 2), Additive(8, attention_size=5)])
def test_a_mechanism_takes_it_in_its_call(mechanism):
    torch.manual_seed(0)
    x = torch.randn(3, 5, 8)
    context, weights = mechanism(x, reweight=attend_to(1))
    torch.testing.assert_close(weights[..., 1], torch.ones_like(weights[..., 1]))
    one = mechanism(x, x[:, 1:2])
    torch.testing.assert_close(context, one.context)
    alone, _ = mechanism(x[0], reweight=attend_to(1))
    torch.testing.assert_close(alone, context[0])
    torch.testing.assert_close(mechanism(x, reweight=attend_to(1), need_weights=False).context, context)


WRONG = {
    r"^sharpen: power is -1, expected a finite number above 0; use 2 to square the weights, or": lambda: sharpen(-1),
    r"^erase: columns are \(\), expected indices of tokens, as in erase\(2\) or erase\(0, 3\)$": lambda: erase(),
    r"^attend_to: columns are \('him',\), expected indices of tokens, as in attend_to\(2\)": lambda: attend_to("him"),
    r"^at_step: steps is -1, expected an index from 0, or several: at_step\(1, …\)$": lambda: at_step(-1, flatten),
    r"^at_step: got a str, expected a function of weights and mask, such as regard.reweight.flatten$": lambda: at_step(1, "x"),
    r"^reweight is a list, expected functions by site, as in reweight={'cross': flatten}$": lambda: check_reweight([], ()),
    r"^reweight names the attention 'cros'; this model has: cross; did you mean 'cross'\?$": lambda: check_reweight(
        {"cros": flatten}, ("cross",)
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_refused(message):
    with pytest.raises(RequestError, match=message):
        WRONG[message]()


def test_the_module_is_an_attribute():
    assert regard.reweight.flatten is flatten
