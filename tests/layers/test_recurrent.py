"""The recurrent layers against PyTorch's own over packed sequences, and against their formulas."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.attention.precision import compute_dtype
from regard.errors import ConfigError, ShapeError
from regard.layers.recurrent import RecurrentLayer

BATCH, STEPS, INPUT, HIDDEN = 5, 7, 3, 11
LENGTHS = torch.tensor([7, 1, 4, 7, 2])
MASK = torch.arange(STEPS) < LENGTHS[:, None]
PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def pair(cell: str, bidirectional: bool, dtype: torch.dtype) -> tuple[RecurrentLayer, nn.RNNBase]:
    """Our layer, and PyTorch's with the same weights."""
    torch.manual_seed(0)
    ours = RecurrentLayer(INPUT, hidden_size=HIDDEN, cell=cell, bidirectional=bidirectional).to(dtype)
    kind = {"gru": nn.GRU, "lstm": nn.LSTM}[cell]
    theirs = kind(INPUT, HIDDEN, batch_first=True, bidirectional=bidirectional).to(dtype)
    with torch.no_grad():
        for name in PARAMETERS:
            for direction, suffix in zip(getattr(ours, name), ("_l0", "_l0_reverse"), strict=False):
                getattr(theirs, name + suffix).copy_(direction)
    return ours, theirs


def start(directions: int, cell: str, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    draw = torch.Generator().manual_seed(1)
    hidden, memory = torch.randn(2, BATCH, directions * HIDDEN, generator=draw, dtype=torch.float64).to(dtype)
    return hidden, memory if cell == "lstm" else None


@pytest.fixture(params=["default", "native"])
def loop(request, monkeypatch) -> None:
    """The loop of this machine, and PyTorch's own, which GPUs use for both cells and all number formats."""
    if request.param == "native":
        monkeypatch.setattr(RecurrentLayer, "_native_dtype", lambda self, inputs: compute_dtype(inputs))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_equals_pytorch_over_packed_sequences(cell: str, bidirectional: bool, dtype: torch.dtype, loop: None) -> None:
    ours, theirs = pair(cell, bidirectional, dtype)
    directions = 1 + bidirectional
    results = []
    for layer in (ours, theirs):
        torch.manual_seed(2)
        inputs = torch.randn(BATCH, STEPS, INPUT, dtype=dtype, requires_grad=True)
        hidden, memory = (None if s is None else s.requires_grad_() for s in start(directions, cell, dtype))
        if layer is ours:
            outputs, (last, last_cell) = layer(inputs, MASK, (hidden, memory))
        else:
            packed = pack_padded_sequence(inputs, LENGTHS, batch_first=True, enforce_sorted=False)
            shaped = [
                s.unflatten(1, (directions, HIDDEN)).transpose(0, 1).contiguous() for s in (hidden, memory) if s is not None
            ]
            packed, final = layer(packed, tuple(shaped) if memory is not None else shaped[0])
            outputs = pad_packed_sequence(packed, batch_first=True, total_length=STEPS)[0]
            final = final if memory is not None else (final,)
            last, last_cell = (*(s.transpose(0, 1).flatten(1) for s in final), None)[:2]
        outputs = outputs.masked_fill(~MASK[..., None], 0)
        total = sum((t * torch.randn(t.shape, dtype=dtype)).sum() for t in (outputs, last, last_cell) if t is not None)
        total.backward()
        parameters = [getattr(ours, n).grad for n in PARAMETERS] if layer is ours else None
        if parameters is None:
            suffixes = ("_l0", "_l0_reverse")[:directions]
            parameters = [torch.stack([getattr(theirs, n + s).grad for s in suffixes]) for n in PARAMETERS]
        results.append(
            [outputs, last, last_cell, inputs.grad, hidden.grad, None if memory is None else memory.grad, *parameters]
        )
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    for one, other in zip(*results, strict=True):
        if other is not None:
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("masked", [False, True])
def test_the_states_alone_are_the_same(cell: str, bidirectional: bool, dtype: torch.dtype, masked: bool, loop: None) -> None:
    layer, _ = pair(cell, bidirectional, dtype)
    mask = MASK if masked else None
    kept = MASK if masked else torch.ones_like(MASK)
    results = []
    for run in (layer.states, lambda *args: layer(*args)[0]):
        torch.manual_seed(2)
        inputs = torch.randn(BATCH, STEPS, INPUT, dtype=dtype, requires_grad=True)
        states = run(inputs, mask)
        assert states.dtype == dtype
        layer.zero_grad()
        (states * torch.randn(states.shape, dtype=dtype))[kept].sum().backward()
        results.append([states[kept], inputs.grad, *(p.grad.clone() for p in layer.parameters())])
        with torch.no_grad():
            torch.testing.assert_close(run(inputs, mask), states)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_graph_can_be_walked_twice(cell: str, loop: None) -> None:
    layer, _ = pair(cell, True, torch.float64)
    inputs = torch.randn(BATCH, STEPS, INPUT, dtype=torch.float64, requires_grad=True)
    total = layer(inputs, MASK)[0][MASK].square().sum()
    [first] = torch.autograd.grad(total, inputs, retain_graph=True)
    assert torch.equal(torch.autograd.grad(total, inputs)[0], first)


def test_the_states_alone_of_nothing() -> None:
    layer, _ = pair("lstm", True, torch.float32)
    assert layer.states(torch.zeros(BATCH, 0, INPUT), MASK[:, :0]).shape == (BATCH, 0, 2 * HIDDEN)
    inputs = torch.randn(BATCH, STEPS, INPUT, requires_grad=True)
    mask = MASK & (torch.arange(BATCH) != 3)[:, None]
    layer.states(inputs, mask)[mask].sum().backward()
    assert inputs.grad.isfinite().all()
    assert not inputs.grad[3].any()


def test_the_states_alone_read_no_padding_in_bfloat16() -> None:
    layer, _ = pair("lstm", True, torch.float32)
    inputs = torch.randn(BATCH, STEPS, INPUT)
    exact = layer.states(inputs, MASK)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = layer.states(inputs.masked_fill(~MASK[..., None], 1e4), MASK)
    assert rounded.dtype == torch.float32
    assert 0 < (rounded - exact)[MASK].abs().max() < 0.02


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_step_by_step_equals_all_at_once(cell: str, loop: None) -> None:
    layer, _ = pair(cell, False, torch.float64)
    inputs, state = torch.randn(BATCH, STEPS, INPUT, dtype=torch.float64), start(1, cell, torch.float64)
    whole, _ = layer(inputs, initial=state)
    for position in range(STEPS):
        state = layer.step(inputs[:, position], state)
        torch.testing.assert_close(state[0], whole[:, position])


def test_bfloat16_products_stay_close_and_sums_stay_float32(loop: None) -> None:
    layer, _ = pair("lstm", True, torch.float32)
    inputs = torch.randn(BATCH, STEPS, INPUT)
    exact, _ = layer(inputs, MASK)
    with torch.autocast("cpu", torch.bfloat16):
        rounded, _ = layer(inputs, MASK)
    assert rounded.dtype == torch.float32
    kept = MASK[..., None].expand_as(exact)
    assert 0 < (rounded - exact)[kept].abs().max() < 0.02


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_float16_on_a_cpu(cell: str) -> None:
    layer, _ = pair(cell, True, torch.float32)
    inputs = torch.randn(BATCH, STEPS, INPUT, requires_grad=True)
    with torch.autocast("cpu", torch.float16):
        rounded, _ = layer(inputs, MASK)
        rounded[MASK].sum().backward()
    assert inputs.grad.isfinite().all()
    assert 0 < (rounded - layer(inputs, MASK)[0])[MASK].abs().max() < 5e-3


def test_processors_without_bfloat16_use_our_loop_for_it(monkeypatch) -> None:
    monkeypatch.setattr("regard.layers.recurrent.can_pack", lambda dtype: False)
    layer, _ = pair("lstm", True, torch.float32)
    inputs = torch.randn(BATCH, STEPS, INPUT)
    assert layer._native_dtype(inputs) == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert layer._native_dtype(inputs) is None
        layer(inputs, MASK)


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore")  # Dynamo warns about itself
def test_a_compiled_lstm_trains() -> None:
    layer, _ = pair("lstm", True, torch.float32)
    inputs = torch.randn(BATCH, STEPS, INPUT)
    grads = []
    for run in (layer, torch.compile(layer, backend="aot_eager")):
        layer.zero_grad()
        states, (last, cell) = run(inputs, MASK)
        (states[MASK].sum() + last.sum() + cell.sum()).backward()
        grads.append([parameter.grad.clone() for parameter in layer.parameters()])
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_every_layer_of_pytorchs_module_is_taken(kind: type[nn.RNNBase], bidirectional: bool, bias: bool) -> None:
    theirs = kind(INPUT, HIDDEN, num_layers=2, batch_first=True, bidirectional=bidirectional, bias=bias).double().eval()
    inputs = torch.randn(BATCH, STEPS, INPUT, dtype=torch.float64)
    wanted, last = theirs(inputs)
    first, second = (RecurrentLayer.from_torch(theirs, layer=n) for n in range(2))
    states, (final, cell) = second(first(inputs)[0])
    torch.testing.assert_close(states, wanted, rtol=0, atol=1e-12)
    hidden = last[0] if isinstance(last, tuple) else last
    both = 1 + bidirectional
    torch.testing.assert_close(final, hidden[-both:].transpose(0, 1).flatten(1), rtol=0, atol=1e-12)
    assert (cell is not None) == (kind is nn.LSTM)
    assert not first.training
    assert first.weight_ih.data_ptr() != theirs.weight_ih_l0.data_ptr()


def test_what_has_no_counterpart_is_refused() -> None:
    for module, options, message in (
        (nn.RNN(3, 4), {}, r"from_torch\(RNN\(3, 4\), layer=0\): expected an nn.LSTM or nn.GRU that has this layer"),
        (nn.LSTM(3, 4), {"layer": 1}, r"layer=1\): expected an nn.LSTM or nn.GRU that has this layer"),
        (nn.LSTM(3, 4, proj_size=2), {}, r"does not project its states \(proj_size=0\), such as nn.LSTM"),
    ):
        with pytest.raises(ConfigError, match=message):
            RecurrentLayer.from_torch(module, **options)
    with pytest.raises(ConfigError, match=r"RecurrentLayer\(cell='rnn'\): expected 'gru' or 'lstm'"):
        RecurrentLayer(3, hidden_size=4, cell="rnn")
    with pytest.raises(
        ConfigError, match=r"RecurrentLayer\(hidden_size=4.0\): hidden_size must be an int, such as hidden_size=4"
    ):
        RecurrentLayer(3, hidden_size=4.0, cell="gru")
    shown = repr(RecurrentLayer(3, hidden_size=4, cell="gru"))
    assert shown == "RecurrentLayer(3, hidden_size=4, cell='gru', bidirectional=False)"


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_an_initial_state_of_other_sizes_is_refused(cell: str, rows: int, unchecked: None) -> None:
    """PyTorch's own loop of an LSTM reads beyond a smaller state, which ends the process."""
    layer, inputs = RecurrentLayer(3, hidden_size=4, cell=cell), torch.randn(2, 5, 3)
    good, wrong = torch.zeros(2, 4), torch.zeros(rows, 4)
    with pytest.raises(ShapeError, match=rf"the initial state has shape \({rows}, 4\), expected \(B, 4\) = \(2, 4\)"):
        layer(inputs, initial=(wrong, good if cell == "lstm" else None))
    with pytest.raises(ShapeError, match=r"the initial state has shape \(2, 5\)"):
        layer(inputs, initial=(torch.zeros(2, 5), good if cell == "lstm" else None))
    if cell == "lstm":
        with pytest.raises(ShapeError, match=rf"the initial cell state has shape \({rows}, 4\)"):
            layer(inputs, initial=(good, wrong))
    else:
        with pytest.raises(ShapeError, match=r"a GRU has none; give initial=\(state, None\)"):
            layer(inputs, initial=(good, good))


def test_inputs_and_masks_of_other_sizes_are_refused(unchecked: None) -> None:
    layer, inputs = RecurrentLayer(3, hidden_size=4, cell="gru"), torch.randn(2, 5, 3)
    for wrong, message in (
        ((inputs[..., :2],), r"inputs has shape \(2, 5, 2\), expected \(B, S, 3\)"),
        ((inputs, torch.ones(2, 4, dtype=torch.bool)), r"mask has shape \(2, 4\), expected \(B, S\) = \(2, 5\)"),
        (
            (inputs, torch.ones(2, 5)),
            r"mask is float32, expected a boolean mask of shape \(B, S\) in which True means 'not padding'",
        ),
    ):
        with pytest.raises(ShapeError, match=message):
            layer(*wrong)
