"""The objective, the feeding, the optimizer, the averages, the machine and the display, each by itself."""

import io
import math
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from tiny import TinyTranslator
from torch import nn

from regard.config import TrainingConfig
from regard.errors import ConfigError, missing_operation
from regard.machine import (
    Machine,
    are_products_deterministic,
    exact_dtype,
    in_parts,
    prediction_tokens,
    resolve_machine,
    seed_step,
)
from regard.tasks.objective import draw_gold, objective
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.train import TranslationScores
from regard.text.batching import Batch
from regard.training.optimizer import MovingAverage, build_optimizer, mean_weights
from regard.training.progress import Bars, Lines, clock_time
from regard.training.run import Progress


@pytest.fixture
def batch():
    target = torch.tensor([[5, 6, 3], [7, 3, 0]])
    return Batch(
        source=torch.tensor([[4, 5, 3], [6, 3, 0]]),
        source_mask=torch.tensor([[True, True, True], [True, True, False]]),
        target_in=torch.tensor([[2, 5, 6], [2, 7, 0]]),
        target_out=target,
        target_mask=target != 0,
        index=torch.arange(2),
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_objective_is_the_sum_over_real_words(batch, smoothing):
    model = TinyTranslator(8, 8, dropout=0.0).double()
    loss, nll = objective(model, batch, label_smoothing=smoothing)
    features, _ = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
    log_p = model.logits(features).log_softmax(-1)
    by_hand_nll, by_hand = 0.0, 0.0
    for row, column in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]:
        gold = -log_p[row, column, batch.target_out[row, column]]
        by_hand_nll += gold
        by_hand += (1 - smoothing) * gold - smoothing * log_p[row, column].mean()
    torch.testing.assert_close(nll, by_hand_nll.detach())
    torch.testing.assert_close(loss.detach(), by_hand.detach())
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_gold_everywhere_takes_the_fast_path():
    assert draw_gold(torch.zeros(3, 4), 1.0, "token") is None


@pytest.mark.parametrize("unit", ["sentence", "token"])
def test_gold_is_drawn_by_sentence_or_token(unit):
    torch.manual_seed(0)
    drawn = draw_gold(torch.zeros(2000, 11), 0.3, unit)
    assert drawn[:, 0].all()
    assert drawn[:, 1:].float().mean() == pytest.approx(0.3, abs=0.04)
    whole = (drawn[:, 1:] == drawn[:, 1:2]).all(1).float().mean()
    assert whole == 1 if unit == "sentence" else whole < 0.1


def test_never_gold_still_begins_with_the_start_symbol():
    assert draw_gold(torch.zeros(2, 3), 0.0, "token").tolist() == [[True, False, False]] * 2


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_optimizer_equals_the_plain_one_and_spares_biases(kind):
    plain_kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind]
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    weight, bias = (parameter.detach().clone().requires_grad_() for parameter in (model.weight, model.bias))
    ours = build_optimizer(model, TrainingConfig(optimizer=kind, weight_decay=0.1, learning_rate=0.01, betas=(0.8, 0.9)))
    plain = [
        plain_kind([tensor], lr=0.01, betas=(0.8, 0.9), weight_decay=decay, foreach=False)
        for tensor, decay in ((weight, 0.1), (bias, 0.0))
    ]
    for _ in range(3):
        for parameter, copy in ((model.weight, weight), (model.bias, bias)):
            parameter.grad = torch.randn_like(parameter)
            copy.grad = parameter.grad.clone()
        for optimizer in (ours, *plain):
            optimizer.step()
    torch.testing.assert_close(model.weight, weight)
    torch.testing.assert_close(model.bias, bias)


def test_moving_average_by_hand_and_its_swap():
    model = nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(1.0)
    average = MovingAverage(model, decay=0.5)
    expected = 1.0
    for step, value in ((1, 2.0), (2, 5.0), (100, 9.0)):
        model.weight.data.fill_(value)
        average.update(step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
    assert average.averages[0].item() == pytest.approx(expected)
    average.swap()
    assert model.weight.item() == pytest.approx(expected)
    average.swap()
    assert model.weight.item() == 9.0
    assert average.averages[0].item() == pytest.approx(expected)


def test_mean_of_weights():
    states = [{"w": torch.tensor([1.0, 2.0]), "n": torch.tensor(1)}, {"w": torch.tensor([3.0, 6.0]), "n": torch.tensor(2)}]
    mean = mean_weights(states)
    assert mean["w"].tolist() == [2.0, 4.0]
    assert mean["n"].item() == 2


def test_random_numbers_are_a_function_of_seed_and_step():
    draws = []
    for seed, step in ((1, 1), (1, 2), (2, 1), (1, 1)):
        seed_step(seed, step)
        draws.append(tuple(torch.rand(4).tolist()))
    assert draws[0] == draws[3]
    assert len(set(draws)) == 3


def test_device_that_is_not_there():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ConfigError, match="device is 'cuda:3', but there is no CUDA device that PyTorch can use"):
        resolve_machine(TranslationConfig(device="cuda:3"))


def test_the_environment_limits_the_threads_and_a_setting_wins(monkeypatch):
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert resolve_machine(TranslationConfig(device="cpu")).threads == 1
    assert resolve_machine(TranslationConfig(device="cpu", threads=3)).threads == 3


def test_auto_precision_asks_the_processor(monkeypatch):
    processors = {
        "without": (False, False, True, False),
        "with Intel's matrix unit": (True, True, False, True),
        "Intel's without it": (False, True, False, False),
        "AMD's": (False, True, True, True),
    }
    for amx, bf16, amd, expected in processors.values():
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda answer=amx: answer)
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda answer=bf16: answer)
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda answer=amd: {"sse4a": answer}, raising=False)
        assert resolve_machine(TranslationConfig(device="cpu")).precision == ("bfloat16" if expected else "float32")


def test_autocast_only_in_half_precision():
    for wanted in ("float32", "bfloat16", "float16"):
        with Machine(torch.device("cpu"), 1, wanted).autocast():
            assert torch.is_autocast_enabled("cpu") is (wanted != "float32")
            assert wanted == "float32" or torch.get_autocast_dtype("cpu") == getattr(torch, wanted)


@pytest.mark.parametrize(
    ("bf16", "capability", "expected"),
    [(True, (8, 0), "bfloat16"), (False, (7, 5), "float16"), (False, (7, 0), "float16"), (False, (6, 1), "float32")],
)
def test_auto_precision_of_a_gpu(bf16, capability, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **options: bf16)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert resolve_machine(TranslationConfig(device="cuda")).precision == expected


def test_apples_gpu_is_used_only_by_name(monkeypatch):
    with pytest.raises(ConfigError, match="device is 'mps', but PyTorch finds no Apple GPU"):
        resolve_machine(TranslationConfig(device="mps"))
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    machine = resolve_machine(TranslationConfig(device="mps"))
    assert (machine.device.type, machine.precision) == ("mps", "float32")
    assert resolve_machine(TranslationConfig()).device.type == "cpu"
    assert exact_dtype(machine.device) == torch.float32
    with machine.autocast():
        assert not torch.is_autocast_enabled("mps")


def test_operations_that_apples_gpu_lacks_are_named():
    error = NotImplementedError("The operator 'aten::linalg_qr.out' is not currently implemented for the MPS device. If you …")
    assert missing_operation(error).startswith(
        "aten::linalg_qr.out does not run on Apple's GPU (device mps); set the environment"
    )
    assert missing_operation(RuntimeError("CUDA out of memory")) == ""


@pytest.mark.parametrize(("gigabytes", "expected"), [(80, 65_536), (24, 16_384), (4, 8_192)])
def test_batches_of_predictions_suit_the_memory_of_a_gpu(gigabytes, expected, monkeypatch):
    memory = SimpleNamespace(total_memory=int(gigabytes * 0.98 * 2**30))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: memory)
    assert prediction_tokens(torch.device("cuda", 0)) == expected
    assert prediction_tokens(torch.device("cuda", 0), 100) == 100
    assert prediction_tokens(torch.device("cpu")) == 8192


def test_batches_that_do_not_fit_are_halved():
    def work(rows):
        if len(rows) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return sum(rows)

    assert sum(in_parts(work, list(range(11)))) == sum(range(11))
    assert in_parts(sum, [1, 2, 3]) == [6]
    with pytest.raises(torch.OutOfMemoryError):
        in_parts(lambda rows: work([*rows] * 3), [1, 2])
    with pytest.raises(ZeroDivisionError):
        in_parts(lambda rows: 1 / 0, [1, 2])


def test_a_process_that_has_used_the_gpu_is_not_deterministic_and_says_so(monkeypatch):
    def refuse(*matrices):
        assert torch.are_deterministic_algorithms_enabled()
        raise RuntimeError("Deterministic behavior was enabled …, you must set … CUBLAS_WORKSPACE_CONFIG=:4096:8 …")

    assert are_products_deterministic(torch.device("cpu"))
    monkeypatch.setattr(torch, "mm", refuse)
    with pytest.warns(UserWarning, match="restart the notebook with os.environ"):
        assert not are_products_deterministic(torch.device("cpu"))
    assert not torch.are_deterministic_algorithms_enabled()


def test_perplexity_never_overflows():
    scores = TranslationScores(
        nll=800.0, bleu=0, chrf=0, exact_match=0, bleu_signature="", chrf_signature="", pairs=1, translated_pairs=0
    )
    assert scores.perplexity == math.inf


@pytest.mark.parametrize(("seconds", "shown"), [(5, "0:05"), (65.4, "1:05"), (7265, "2:01:05"), (-1, "0:00")])
def test_clock_time(seconds, shown):
    assert clock_time(seconds) == shown


def run_at(step):
    progress = Progress(step=step, count=step * 100, seconds=step * 0.5, batch=step % 10)
    config = SimpleNamespace(training=SimpleNamespace(accumulate=1, max_epochs=2, max_minutes=0.0))
    return SimpleNamespace(
        task=SimpleNamespace(unit="target tokens"),
        progress=progress,
        config=config,
        total_steps=20,
        epoch_steps=10,
        epoch=1 + step // 10,
        lap=lambda name: None,
    )


def test_lines_come_now_and_then_with_speed_and_time_left():
    stream = io.StringIO()
    lines = Lines(stream, every=0.0)
    lines.start(run_at(0))
    lines.after_update(run_at(4))
    assert stream.getvalue() == "epoch 1, update 4 of 20, 200 target tokens/s, 0:08 left\n"
    quiet = io.StringIO()
    lines = Lines(quiet, every=100.0)
    lines.start(run_at(0))
    lines.after_update(run_at(4))
    assert quiet.getvalue() == ""


def test_bars_show_epochs_updates_speed_and_validation_and_take_markup_as_text():
    stream = io.StringIO()
    bars = Bars(Console(file=stream, force_terminal=True, width=120))
    bars.start(run_at(0))
    bars.after_update(run_at(4))
    with bars.validating(7) as advance:
        advance()
        bars.say("[bold]prediction[/bold]")
    bars.stop()
    shown = stream.getvalue()
    for words in ("epochs", "updates", "4/10", "200 target tokens/s, 0:08 left", "0/7", "[bold]prediction[/bold]"):
        assert words in shown
