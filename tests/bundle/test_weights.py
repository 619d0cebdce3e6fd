"""Weights of models that are about to be loaded."""

import subprocess
import sys

import torch
from torch import nn

from regard.bundle.weights import Uninitialised


def test_nothing_is_drawn_for_weights_that_a_file_will_replace():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    with Uninitialised():
        made = [nn.Linear(5, 7), nn.Embedding(11, 3), nn.LSTM(3, 5), nn.MultiheadAttention(6, 2)]
        nn.init.orthogonal_(torch.empty(3, 3))
        nn.init.normal_(tensor=torch.empty(3))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert sum(parameter.numel() for module in made for parameter in module.parameters()) > 0
    assert not torch.equal(nn.Linear(5, 7).weight, nn.Linear(5, 7).weight)


def test_a_translation_imports_no_compiler(saved):
    """PyTorch's compiler takes as long to import as all the rest."""
    code = (
        "import sys, regard\n"
        f"translator = regard.load({str(saved)!r}, device='cpu')\n"
        "translator.translate(['a b']), translator.unknown_words(['a b'])\n"
        "avoided = ('torch._dynamo', 'torch._inductor', 'sympy', 'matplotlib', 'pyarrow.compute', 'regard.training')\n"
        "print([name for name in avoided if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
