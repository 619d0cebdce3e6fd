"""What Apple's GPUs lack, tested on a CPU: training and searching need no float64. Nothing here has run on such a GPU."""

import pytest
import torch
from test_recorded import PRESETS, SMALL, batch_of
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import regard
from regard.decoding import beam_search
from regard.layers import loop_scores, positions
from regard.models.build import build_language_model, build_translator
from regard.tasks.objective import objective
from regard.training.optimizer import build_optimizer

TINY = {"model.hidden_size": 8, "model.feed_forward_size": 8}
SHALLOW = {"model.encoder_layers": 1, "model.decoder_layers": 1}


class NoFloat64(TorchDispatchMode):
    """Refuses every result in float64."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        results = func(*args, **(kwargs or {}))
        for one in tree_leaves(results):
            assert not (isinstance(one, torch.Tensor) and one.dtype in (torch.float64, torch.complex128)), (
                f"{func}: {one.dtype}"
            )
        return results


@pytest.mark.parametrize(
    ("preset", "settings"),
    [*PRESETS.items(), ("transformer-small", TINY | SHALLOW), ("tutorial-luong-dot", SMALL), ("language-tiny", TINY)],
)
def test_training_and_searching_need_no_float64(preset, settings, monkeypatch):
    for module in (positions, loop_scores):
        monkeypatch.setattr(module, "exact_dtype", lambda device: torch.float32)
    config = regard.load_preset(preset, {"data.train": ["pairs.tsv"], **settings})
    if config.task == "language":
        model = build_language_model(config.model, vocabulary_size=30)
    else:
        model = build_translator(config.model, source_size=30, target_size=30)
    optimizer, batch = build_optimizer(model, config.training), batch_of()
    with NoFloat64():
        loss, _ = objective(model.train(), batch, label_smoothing=0.1)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        found = beam_search(model.eval(), batch.source, batch.source_mask, beam_size=3, max_length=5)
    assert len(found) == len(batch)


def test_the_mode_refuses_float64():
    with pytest.raises(AssertionError, match=r"torch\.float64"), NoFloat64():
        torch.ones(2).double()
