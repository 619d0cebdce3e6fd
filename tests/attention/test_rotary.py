"""Layouts and scalings of rotary positions against `transformers`, and positions that the caller gives."""

import copy
import pickle
import weakref

import pytest
import torch
from torch import nn

from regard.attention import (
    Additive,
    ALiBi,
    LinearScaling,
    Llama3Scaling,
    MultiHead,
    NTKScaling,
    RelativeBias,
    Rotary,
    RotaryScaling,
    YaRNScaling,
    document_ids,
    document_mask,
    document_positions,
)
from regard.attention.heads.positions import RelativePositions
from regard.errors import ConfigError, RequestError, ShapeError

DYNAMIC_LENGTH = 2 * 128  # at twice the original length, the dynamic method with factor s is the fixed one with s + 1
SCALINGS = {
    "linear": (LinearScaling(4.0), {"rope_type": "linear", "factor": 4.0}),
    "ntk": (NTKScaling(5.0), {"rope_type": "dynamic", "factor": 4.0}),
    "yarn": (
        YaRNScaling(4.0, original_length=128),
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
    ),
    "yarn_bounds": (
        YaRNScaling(16.0, original_length=4096, fast=20.0, slow=2.0),
        {
            "rope_type": "yarn",
            "factor": 16.0,
            "original_max_position_embeddings": 4096,
            "beta_fast": 20.0,
            "beta_slow": 2.0,
        },
    ),
    "llama3": (
        Llama3Scaling(8.0, original_length=128),
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 128,
        },
    ),
}


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_scaled_frequencies_are_those_of_transformers(name, base):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaling, theirs = SCALINGS[name]
    config = LlamaConfig(
        hidden_size=64, num_attention_heads=2, max_position_embeddings=128, rope_parameters=theirs | {"rope_theta": base}
    )
    length = DYNAMIC_LENGTH if name == "ntk" else None
    wanted, magnitude = ROPE_INIT_FUNCTIONS[theirs["rope_type"]](config, device=torch.device("cpu"), seq_len=length)
    rotary = Rotary(base, scaling=scaling)
    torch.testing.assert_close(rotary.frequencies(32, torch.zeros(())), wanted, rtol=1e-5, atol=0)
    assert rotary.magnitude == pytest.approx(magnitude, rel=1e-6)


@pytest.mark.parametrize("scaling", [None, "yarn"])
def test_the_half_layout_rotates_as_transformers_does(scaling):
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    rotary = Rotary(layout="half", scaling=None if scaling is None else SCALINGS[scaling][0])
    heads = torch.randn(2, 3, 7, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    angle = (11 + torch.arange(7, dtype=torch.float64))[:, None] * rotary.frequencies(8, heads)
    angle = torch.cat([angle, angle], -1)[None]
    wanted, _ = apply_rotary_pos_emb(heads, heads, angle.cos() * rotary.magnitude, angle.sin() * rotary.magnitude)
    torch.testing.assert_close(rotary.rotate(heads, 11), wanted, rtol=0, atol=1e-12)
    given = rotary.rotate(heads, (11 + torch.arange(7)).expand(2, 7))
    torch.testing.assert_close(given, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [None, *SCALINGS])
def test_kept_rotations_equal_the_formula_at_any_position_and_in_any_order(name):
    scaling = None if name is None else SCALINGS[name][0]
    kept = Rotary(scaling=scaling)
    for start, length, dtype in (
        (0, 3, torch.float32),
        (-2, 5, torch.float32),
        (500, 2, torch.float32),
        (2, 1, torch.float64),
        (7, 130, torch.float32),
    ):
        heads = torch.randn(2, 3, length, 8, generator=torch.Generator().manual_seed(start), dtype=dtype)
        given = (start + torch.arange(length)).expand(2, length)
        assert torch.equal(kept.rotate(heads, start), Rotary(scaling=scaling).rotate(heads, given))
    kept.base = 100.0
    assert torch.equal(kept.rotate(heads, 7), Rotary(100.0, scaling=scaling).rotate(heads, 7))


class Backwards(Rotary):
    """Rotates the other way."""

    def rotate(self, heads, start):
        return super().rotate(heads.flip(-1), start).flip(-1)


def replaced(rotate) -> Rotary:
    rotary = Rotary()
    rotary.rotate = rotate
    return rotary


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    "rotary",
    [
        *(Rotary(layout=layout, scaling=scaling) for layout in ("pairs", "half") for scaling in (None, LinearScaling(4.0))),
        Backwards(),
        replaced(lambda heads, start: heads + start),
        replaced(lambda heads, start: heads.neg_()),
        replaced(Rotary(3.0).rotate),
        ALiBi(4),
    ],
    ids=["pairs", "pairs, scaled", "half", "half, scaled", "own rotate", "replaced", "in place", "another's", "no rotation"],
)
def test_heads_at_one_position_are_rotated_in_place(rotary, dtype):
    read = torch.randn(2, 5, 3, 4, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    wanted = rotary.rotate(read[:, :, :2].flatten(0, 2)[:, :, None].clone(), 9).view(2, 5, 2, 4, 8)
    values = read[:, :, 2].clone()
    assert rotary.rotate_one(read[:, :, :2], 9) is None
    assert torch.equal(read[:, :, :2], wanted)
    assert torch.equal(read[:, :, 2], values), "only the given heads change"
    alone = read[0, 0, 2].clone()
    rotary.rotate_one(alone, 9)
    assert torch.equal(alone, rotary.rotate(values[0, 0][None, :, None], 9)[0, :, 0]), "heads without a batch"
    rotary.rotate_one(read[:0], 9)
    assert rotary.rotate(read[:0, 0], 9).shape == (0, 3, 4, 8), "no heads"


def test_rotations_that_a_search_kept_serve_training():
    rotary = Rotary()
    heads = torch.randn(1, 2, 5, 8, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        rotary.rotate(heads, 0)
    needs = heads.clone().requires_grad_()
    rotary.rotate(needs, 0).sum().backward()
    assert torch.isfinite(needs.grad).all()


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev])
def test_nothing_of_a_transform_is_kept(transform):
    attention = MultiHead(8, 2, positions=Rotary())
    inputs = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    transform(lambda x: attention(x).context.sum())(inputs)
    copied = pickle.loads(pickle.dumps(copy.deepcopy(attention)))
    assert torch.equal(copied(inputs).context, attention(inputs).context)


def test_what_a_recorded_update_reads_stays_when_the_cache_grows(monkeypatch):
    rotary, heads = Rotary(), torch.randn(1, 2, 5, 8)
    rotary.rotate(heads, 3)
    read = weakref.ref(rotary._kept[1])
    with monkeypatch.context() as recording:
        recording.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        recording.setattr(torch.Tensor, "is_cuda", True)
        rotary.rotate(heads, 3)
    rotary.rotate(heads, 200)
    assert rotary._kept[1] is not read() is not None


@pytest.mark.parametrize("layout", ["pairs", "half"])
@pytest.mark.parametrize(("rows", "keys"), [(0, 4), (2, 0)])
def test_gradients_without_rows_or_keys(layout, rows, keys):
    query, key = torch.randn(rows, 3, 8, requires_grad=True), torch.randn(rows, keys, 8, requires_grad=True)
    MultiHead(8, 2, positions=Rotary(layout=layout))(query, key).context.sum().backward()
    assert not key.grad.numel()


def test_a_bias_with_a_key_mask_inside_vmap():
    attention, inputs = MultiHead(8, 2, positions=RelativeBias(2)), torch.randn(3, 5, 8)
    mask = torch.tensor([[True, True, True, False, False], [True] * 5, [True, False, True, False, True]])
    found = torch.vmap(lambda x, k: attention(x[None], key_mask=k[None], need_weights=False).context[0])(inputs, mask)
    torch.testing.assert_close(found, attention(inputs, key_mask=mask, need_weights=False).context)


def test_a_subclass_may_learn_its_frequencies():
    class Learned(Rotary):
        def __init__(self):
            super().__init__()
            self.theta = nn.Parameter(torch.tensor([1.0, 0.1]))

        def frequencies(self, head_size, like):
            return self.theta

    class Scaled(RotaryScaling):
        factor = nn.Parameter(torch.tensor(2.0))

        def scale(self, theta, base):
            return theta / self.factor

    heads = torch.randn(1, 1, 3, 4, generator=torch.Generator().manual_seed(0))
    for rotary, weight in ((learned := Learned(), learned.theta), (Rotary(scaling=Scaled()), Scaled.factor)):
        rotary.rotate(heads, 1)[..., 0].sum().backward()
        assert weight.grad.abs().sum() > 0
        before = rotary.rotate(heads, 1)
        with torch.no_grad():
            weight.mul_(1.5)
        assert not torch.allclose(rotary.rotate(heads, 1), before), "the changed frequencies are used"


@pytest.mark.parametrize("layout", ["pairs", "half"])
def test_gradients_and_half_precision_of_each_layout(layout):
    rotary = Rotary(base=7.0, layout=layout, scaling=YaRNScaling(2.0, original_length=9))
    x = torch.randn(2, 2, 3, 4, dtype=torch.float64, requires_grad=True, generator=torch.Generator().manual_seed(0))
    assert torch.autograd.gradcheck(lambda heads: rotary.rotate(heads, 2), x)
    half = rotary.rotate(x.detach().bfloat16(), 4095)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.double(), rotary.rotate(x.detach().bfloat16().double(), 4095), rtol=0, atol=3e-2)


POSITIONS = {
    "rotary": lambda: Rotary(),
    "half": lambda: Rotary(layout="half", scaling=Llama3Scaling(original_length=4)),
    "alibi": lambda: ALiBi(2),
    "t5": lambda: RelativeBias(2, num_buckets=8, max_distance=9),
}


def multi_head(positions, **options):
    torch.manual_seed(0)
    made = MultiHead(8, 2, positions=POSITIONS[positions](), **options).double()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("need_weights", [True, False])
def test_given_positions_take_the_place_of_consecutive_ones(name, need_weights):
    attention, x = multi_head(name, causal=True), drawn(2, 7, 8)
    plain = attention(x)
    same = attention(x, query_positions=torch.arange(7), need_weights=need_weights)
    torch.testing.assert_close(same.context, plain.context, rtol=0, atol=1e-12)
    moved = attention(x, query_positions=torch.arange(7) + torch.tensor([[5], [90]]), need_weights=need_weights)
    torch.testing.assert_close(moved.context, plain.context, rtol=0, atol=1e-12)  # distances alone count
    assert not torch.allclose(attention(x, query_positions=2 * torch.arange(7)).context, plain.context)
    one = attention(x[0], query_positions=torch.arange(7), need_weights=need_weights)
    torch.testing.assert_close(one.context, plain.context[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("need_weights", [True, False])
def test_packed_documents_are_those_alone(name, need_weights):
    attention, x = multi_head(name, causal=True), drawn(2, 9, 8)
    documents = document_ids([[4, 3], [2, 5, 2]])
    out = attention(
        x,
        attn_mask=document_mask(documents),
        query_positions=document_positions(documents),
        need_weights=need_weights,
    )
    for row, start, stop in ((0, 0, 4), (0, 4, 7), (1, 0, 2), (1, 2, 7), (1, 7, 9)):
        alone = attention(x[row : row + 1, start:stop])
        torch.testing.assert_close(out.context[row, start:stop], alone.context[0], rtol=0, atol=1e-12)
        if need_weights:
            torch.testing.assert_close(out.weights[row, :, start:stop, start:stop], alone.weights[0], rtol=0, atol=1e-12)
    assert out.context[0, 7:].eq(0).all()


@pytest.mark.parametrize("window", [None, (2, 0)])
@pytest.mark.parametrize("name", POSITIONS)
def test_steps_with_given_positions_equal_one_call(name, window):
    attention, x = multi_head(name, causal=True, window=window), drawn(2, 6, 8)
    positions = torch.tensor([0, 2, 3, 7, 8, 12])
    out, state = attention(x, query_positions=positions), None
    for i in range(6):
        at, token = positions[i : i + 1], x[:, i : i + 1]
        step, state = attention.attend(token, attention.prepare(token, key_positions=at), state, query_positions=at)
        torch.testing.assert_close(step.context, out.context[:, i : i + 1], rtol=0, atol=1e-12)
        state = state.select(torch.tensor([0, 1]))


def test_document_masks_worked_by_hand():
    documents = document_ids([[2, 1], [1, 0, 3]], size=5)
    assert documents.tolist() == [[0, 0, 1, -1, -1], [0, 2, 2, 2, -1]]
    assert document_positions(documents)[1].tolist()[:4] == [0, 0, 1, 2]
    both = document_mask(documents, causal=False).int().tolist()
    assert both[0] == [[1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0] * 5, [0] * 5]
    assert document_ids([]).shape == (0, 0)


def test_what_makes_no_sense_is_refused(unchecked):
    x = drawn(2, 5, 8)
    with pytest.raises(RequestError, match=r"got key_positions, but was built without positions; build it with"):
        MultiHead(8, 2).double().prepare(x, key_positions=torch.arange(5))
    attention = multi_head("rotary", causal=True)
    with pytest.raises(RequestError, match=r"MultiHead got query_positions without key_positions; give both or none"):
        attention.attend(x, attention.prepare(x), query_positions=torch.arange(5))
    with pytest.raises(ShapeError, match=r"key_positions has shape \(2, 4\), expected \(B, T\) = \(2, 5\)"):
        multi_head("rotary")(x, x, query_positions=torch.arange(5), key_positions=torch.zeros(2, 4).long())
    with pytest.raises(ShapeError, match=r"key_positions is float32, expected whole numbers"):
        multi_head("rotary")(x, query_positions=torch.arange(5).float())
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'key_positions'"):
        Additive(8).double()(x, query_positions=torch.arange(5))
    _, state = attention.attend(x, attention.prepare(x))
    with pytest.raises(RequestError, match=r"key_positions in some steps only"):
        attention.attend(x, attention.prepare(x, key_positions=torch.arange(5)), state, query_positions=torch.arange(5))
    with pytest.raises(ShapeError, match=r"document_ids: lengths must be 0 or more, and sum to at most size=2"):
        document_ids([[2, 1]], size=2)
    for build, message in (
        (lambda: Rotary(layout="halves"), r"layout='halves'\): expected 'pairs' or 'half'; did you mean 'half'\?"),
        (lambda: Rotary(scaling=4.0), r"scaling=4.0\): expected a RotaryScaling, such as scaling=LinearScaling\(4.0\)"),
        (lambda: LinearScaling(0.5), r"LinearScaling\(factor=0.5\): factor must be a finite number of 1 or more"),
        (lambda: YaRNScaling(2.0, original_length=0), r"original_length must be 1 or more"),
        (
            lambda: YaRNScaling(2.0, 64, fast=1.0),
            r"YaRNScaling\(fast=1.0\): fast must be a finite number above 1.0",
        ),
        (lambda: Llama3Scaling(low=5.0), r"Llama3Scaling\(high=4.0\): high must be a finite number above 5.0"),
    ):
        with pytest.raises(ConfigError, match=message):
            build()
    assert RotaryScaling().scale(x, 3.0) is x


@pytest.mark.parametrize("heads", [1, 2])
def test_positions_of_ones_own_see_queries_and_keys_apart(heads):
    """Also where one product gives queries, keys and values: with many rows."""

    class PerHead(RelativePositions):
        def rotate(self, heads, start):
            return heads * torch.arange(1, heads.shape[1] + 1)[:, None, None]

    torch.manual_seed(0)
    attention, x = MultiHead(8, heads, positions=PerHead()).eval(), torch.randn(30, 10, 8)
    few = torch.cat([attention(part).context for part in x.split(5)])
    torch.testing.assert_close(attention(x).context, few, rtol=1e-5, atol=1e-5)
