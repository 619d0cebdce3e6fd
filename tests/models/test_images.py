"""Layers that read images, against convolutions written out in loops, and captioners by the contract of all models."""

import numpy as np
import pytest
import torch

from regard.config import ConvolutionalConfig, PatchesConfig, RecurrentCaptionerConfig, TransformerCaptionerConfig
from regard.errors import ConfigError, ShapeError
from regard.models.build import build_captioner
from regard.models.images import ConvolutionalEmbedding, PatchEmbedding
from regard.text.captions.images import Grid

GRID = Grid(rows=3, columns=5, cell=4, channels=3)


def cells(count: int) -> torch.Tensor:
    return torch.randint(0, 256, (count, GRID.num_cells, GRID.cell_size), generator=torch.Generator().manual_seed(1)).byte()


def convolve(image: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: int) -> np.ndarray:
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    size = weight.shape[2]
    rows, columns = ((side - size) // stride + 1 for side in padded.shape[1:])
    found = np.zeros((len(weight), rows, columns))
    for row in range(rows):
        for column in range(columns):
            window = padded[:, row * stride : row * stride + size, column * stride : column * stride + size]
            found[:, row, column] = (weight * window).sum((1, 2, 3)) + bias
    return found


@pytest.mark.parametrize("kind", [ConvolutionalEmbedding, PatchEmbedding])
def test_vectors_equal_the_formula(kind):
    torch.manual_seed(0)
    layers, source = kind(GRID, 32, scale=0.5).double(), cells(2)
    found = layers(source).detach().numpy()
    parameters = {name: value.detach().numpy() for name, value in layers.named_parameters()}
    for image, vectors in zip(source.numpy(), found, strict=True):
        if kind is PatchEmbedding:
            features = image / 255 @ parameters["projection.weight"].T + parameters["projection.bias"]
        else:
            x = GRID.join(image).transpose(2, 0, 1) / 255
            first, last = ("first", "first_norm", 1), ("last", "", 1)
            for name, norm, stride in (first, ("halving.0", "norms.0", 2), ("halving.1", "norms.1", 2), last):
                x = np.maximum(convolve(x, parameters[f"{name}.weight"], parameters[f"{name}.bias"], stride), 0)
                if norm:
                    x = (x - x.mean()) / np.sqrt(x.var() + 1e-5) * parameters[f"{norm}.weight"][:, None, None]
                    x = x + parameters[f"{norm}.bias"][:, None, None]
            features = x.reshape(len(x), -1).T
        normal = (features - features.mean()) / np.sqrt(features.var() + 1e-5)
        positions = (parameters["rows"] + parameters["columns"]).reshape(GRID.num_cells, -1)
        np.testing.assert_allclose(vectors, normal * parameters["norm.weight"] + parameters["norm.bias"] + positions, atol=1e-9)


MODELS = {
    "recurrent": RecurrentCaptionerConfig(embedding_size=8, image_size=16),
    "recurrent patches": RecurrentCaptionerConfig(embedding_size=8, image_size=16, image=PatchesConfig(), bridge="mean"),
    "transformer": TransformerCaptionerConfig(hidden_size=16, num_heads=2, encoder_layers=1, decoder_layers=2),
    "transformer patches": TransformerCaptionerConfig(
        hidden_size=16, num_heads=2, encoder_layers=1, decoder_layers=1, image=PatchesConfig(), positions="rotary"
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_captioner_keeps_the_contract(name):
    torch.manual_seed(0)
    model = build_captioner(MODELS[name], GRID, target_size=11).double()
    source, target = cells(3), torch.tensor([[2, 5, 6, 7], [2, 8, 0, 0], [2, 9, 10, 0]])
    model(source, target).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    model.eval()
    with torch.no_grad():
        whole, mask = model(source, target), torch.ones(3, GRID.num_cells, dtype=torch.bool)
        alone = torch.cat([model(source[row : row + 1], target[row : row + 1]) for row in range(3)])
        torch.testing.assert_close(whole, alone)
        state = model.encode(source, mask, record=("cross",))
        for step in range(4):
            logits, attention, state = model.step(target[:, step, None], state, record=("cross",))
            torch.testing.assert_close(logits[:, 0], whole[:, step])
            assert attention["cross"].shape == (3, 1, GRID.num_cells)
            torch.testing.assert_close(attention["cross"].sum(-1), torch.ones(3, 1).double())


def test_ids_in_place_of_cells_are_an_error():
    model = build_captioner(MODELS["recurrent"], GRID, target_size=11)
    with pytest.raises(ShapeError, match="source"):
        model.encode(torch.ones(2, 5, dtype=torch.long), torch.ones(2, 5, dtype=torch.bool))
    with pytest.raises(ConfigError, match="expected the configuration of a captioner"):
        build_captioner(ConvolutionalConfig(), GRID, target_size=11)
