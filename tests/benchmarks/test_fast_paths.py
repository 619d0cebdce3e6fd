"""The measurement of fast paths: both forms of a path give the same, and a line says what was measured."""

import pytest
import torch
from benchmarks import fast_paths


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(fast_paths, "SIZES", {"sentences": (2, 3, 5, 8), "step": (2, 1, 5, 8), "long": (2, 4, 6, 8)})
    monkeypatch.setattr(fast_paths, "HEADS", ((2, 2, 3, 5, 4),))
    monkeypatch.setattr(fast_paths, "SEQUENCES", ((2, 2, 67, 4),))


PATHS = [fast_paths.blocks, fast_paths.laid_out_keys, fast_paths.fused, fast_paths.rotary, fast_paths.summaries]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_both_forms_give_the_same(path, dtype):
    near = {"rtol": 2e-4, "atol": 2e-4} if dtype == torch.float32 else {"rtol": 0.2, "atol": 0.3}
    torch.manual_seed(0)
    for name, without, fast in path(dtype):
        torch.testing.assert_close(without(), fast(), **near, msg=lambda text, name=name: f"{name}: {text}")
