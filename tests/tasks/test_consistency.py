"""Two passes in the losses of the tasks: what is computed, and that a run trains with them."""

import pytest
import torch
from torch.nn import functional

import regard
from regard.config import RDropConfig, SimCutConfig, TransformerConfig
from regard.config.loading import load_config
from regard.errors import ConfigError
from regard.layers.consistency import Consistency
from regard.models.build import build_translator
from regard.tasks.classification.train import TrainableClassifier, label_log_probability
from regard.tasks.objective import alignment_loss, objective
from regard.text.pairs.gold import AlignedBatch
from regard.training import resume


@pytest.fixture
def batch():
    target = torch.tensor([[5, 6, 3], [7, 3, 0]])
    gold = torch.zeros(2, 3, 3)
    gold[0, 0, 1] = gold[1, 0, 0] = 1
    return AlignedBatch(
        source=torch.tensor([[4, 5, 3], [6, 3, 0]]),
        source_mask=torch.tensor([[True, True, True], [True, True, False]]),
        target_in=torch.tensor([[2, 5, 6], [2, 7, 0]]),
        target_out=target,
        target_mask=target != 0,
        index=torch.arange(2),
        gold=gold,
    )


def model_without_dropout():
    torch.manual_seed(0)
    config = TransformerConfig(
        hidden_size=16,
        num_heads=2,
        feed_forward_size=16,
        encoder_layers=1,
        decoder_layers=1,
        embedding_dropout=0,
        layer_dropout=0,
    )
    return build_translator(config, source_size=9, target_size=9).double()


@pytest.mark.parametrize("config", [RDropConfig(), SimCutConfig(cut=0.0)], ids=["r_drop", "sim_cut"])
def test_two_equal_passes_have_the_loss_of_one(batch, config):
    model = model_without_dropout()
    model.output.bias = None
    options = {"label_smoothing": 0.1, "alignment_weight": 0.5}
    use_gold = torch.tensor([[True, True, False], [True, False, True]])
    for fed in (None, use_gold):
        one = objective(model, batch, use_gold=fed, **options)
        two = objective(model, batch, use_gold=fed, consistency=Consistency.of(config), **options)
        torch.testing.assert_close(one, two)
    _, attention = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask), record=("cross",))
    without = objective(model, batch, label_smoothing=0.1)[0]
    links = alignment_loss(attention["cross"], batch.gold.double(), model.alignment_step)
    torch.testing.assert_close(objective(model, batch, **options)[0], without + 0.5 * links)


def test_sim_cut_is_the_divergence_of_a_pass_with_hidden_tokens(batch):
    model = model_without_dropout().train()
    seen = []
    handle = model.output.register_forward_hook(lambda *call: seen.append(call[2]))
    torch.manual_seed(1)
    loss, nll = objective(model, batch, consistency=Consistency.of(SimCutConfig(cut=0.5, weight=2.0)))
    handle.remove()
    assert len(seen) == 1  # a hooked map is called, with both passes at once
    log_p, log_q = seen[0].log_softmax(-1)
    divergence = functional.kl_div(log_q, log_p, log_target=True, reduction="sum")
    assert divergence > 0.01
    torch.testing.assert_close(loss, nll + 2 * divergence)


def test_several_labels_diverge_label_by_label():
    logits = torch.randn(2, 3, 4, dtype=torch.float64)
    p, q = label_log_probability(logits, torch.zeros(3, 4))
    zero = torch.zeros((), dtype=torch.float64)
    found = Consistency(0.5, 1.0, 0.0).loss(zero, zero, p, q)
    yes, no = (logits.sigmoid(), 1 - logits.sigmoid())
    expected = sum((one[0] * (one[0] / one[1]).log()).sum() for one in (yes, no))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("task", ["translation", "classification", "language"])
def test_every_task_trains_with_two_passes_and_bpe_dropout_and_resumes(task, tmp_path):
    lines = {
        "translation": "a b c\tc b a\nb c d\td c b\na d\td a\n",
        "classification": "good\ta b c\nbad\td e f\ngood\ta a b\nbad\te f d\n",
        "language": "a b c d\nb c d a\nc d a b\n",
    }[task]
    tokenizers = ["tokenizers.source.kind", "tokenizers.target.kind"] if task == "translation" else ["tokenizer.kind"]
    (tmp_path / "data.txt").write_text(lines)
    settings = {
        "task": task,
        "data.train": [str(tmp_path / "data.txt")],
        "data.cache": str(tmp_path / "cache"),
        "data.dev_size": 0,
        "training.consistency.kind": "sim_cut",
        "training.bpe_dropout": 0.2,
        **dict.fromkeys(tokenizers, "bpe"),
        "training.max_steps": 4,
        "training.checkpoint_every": 2,
        "training.precision": "float32",
        "training.tensorboard": False,
        "out": str(tmp_path / "run"),
        "threads": 1,
    }
    whole = regard.fit(load_config(settings), progress=False).bundle.model.state_dict()
    part = {"training.max_steps": 2, "out": str(tmp_path / "part")}
    regard.fit(load_config(settings, part), progress=False)
    resumed = resume(tmp_path / "part", overrides={"training.max_steps": 4}, progress=False).bundle.model.state_dict()
    for name, tensor in whole.items():
        assert torch.equal(tensor, resumed[name])  # also the drawn segmentations and hidden tokens


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"training.consistency.kind": "r_drop"}, r"training\.consistency has no effect in the task 'classification'"),
        ({"training.bpe_dropout": 0.1, "tokenizer.kind": "bpe"}, r"training\.bpe_dropout has no effect in the task"),
        ({"training.compile_layers": True}, r"training\.compile_layers and .* are for layers of Transformers"),
    ],
)
def test_what_would_have_no_effect_is_refused_before_anything_is_written(setting, message, tmp_path, monkeypatch):
    monkeypatch.setattr(TrainableClassifier, "follows", ())  # as a task of one's own
    (tmp_path / "data.txt").write_text("good\ta b c\nbad\td e f\ngood\ta a b\nbad\te f d\n" * 2)
    settings = {
        "task": "classification",
        "data.train": [str(tmp_path / "data.txt")],
        "data.cache": str(tmp_path / "cache"),
        "data.dev_size": 0,
        "out": str(tmp_path / "run"),
        **setting,
    }
    with pytest.raises(ConfigError, match=message):
        regard.fit(load_config(settings), progress=False)
    assert not (tmp_path / "run").exists()
