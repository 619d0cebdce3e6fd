"""Predictions on a GPU equal those on a CPU, and a search waits for the GPU in no step."""

import numpy as np
import pytest
import torch
from gpu.presets import config_of

import regard
from regard.decoding import beam_search, greedy

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)
pytestmark = pytest.mark.gpu
TEXTS = ["ab cd", "efgh ab a", "a", "h g f e d c b a", "abc abc"]


@pytest.fixture(scope="module", params=["luong", "bahdanau", "transformer-tiny", "tutorial-luong-concat"])
def translator_run(request, files, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    regard.fit(config_of(request.param, files, folder, **{"training.max_steps": 60}), progress=False)
    return folder / "run"


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 5, "n_best": 3}], ids=["greedy", "beam"])
def test_translations_equal_those_of_a_cpu(translator_run, options):
    cpu, gpu = (regard.load(translator_run, device=device) for device in ("cpu", "cuda"))
    found = [model.translate(TEXTS, **options) for model in (cpu, gpu)]
    for a, b in zip(*found, strict=True):
        assert a.text == b.text
        assert a.score == pytest.approx(b.score, abs=2e-3)
        for site, weights in a.attention.weights.items():
            np.testing.assert_allclose(weights, b.attention.weights[site], atol=2e-3)


def test_evaluation_equals_that_of_a_cpu(translator_run):
    cpu, gpu = (regard.load(translator_run, device=device) for device in ("cpu", "cuda"))
    targets = [" ".join(reversed(text.split())) for text in TEXTS]
    a, b = (model.evaluate(TEXTS, targets, beam_size=3) for model in (cpu, gpu))
    assert a.bleu == pytest.approx(b.bleu, abs=0.5)
    assert a.loss == pytest.approx(b.loss, abs=2e-3)


@pytest.mark.parametrize("search", [greedy, beam_search])
def test_steps_wait_for_nothing(translator_run, search, monkeypatch):
    """Each step until the search reads which sentences have finished; the results are read at the end."""
    model = regard.load(translator_run, device="cuda").model
    source = torch.randint(5, 20, (4, 6), device="cuda")
    mask = torch.ones_like(source, dtype=torch.bool)
    expected = search(model, source, mask, max_length=7)
    step, steps = model.step, []

    def counted(*inputs, **options):
        steps.append(len(steps))
        torch.cuda.set_sync_debug_mode("error" if len(steps) < 7 else "default")
        return step(*inputs, **options)

    monkeypatch.setattr(model, "step", counted)
    try:
        found = search(model, source, mask, max_length=7)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(steps) > 6
    one, two = ([h.tokens for h in (row if isinstance(row, list) else [row])] for row in (found[0], expected[0]))
    assert one == two


def test_a_classifier_and_a_language_model(files, tmp_path):
    for preset in ("bilstm", "hierarchical", "bag"):
        regard.fit(config_of(preset, files, tmp_path / preset, **{"training.max_steps": 30}), progress=False)
        cpu, gpu = (regard.load(tmp_path / preset / "run", device=device) for device in ("cpu", "cuda"))
        for a, b in zip(cpu.classify(TEXTS), gpu.classify(TEXTS), strict=True):
            assert a.probabilities == pytest.approx(b.probabilities, abs=2e-3)
    regard.fit(config_of("language-tiny", files, tmp_path / "lm", **{"training.max_steps": 30}), progress=False)
    cpu, gpu = (regard.load(tmp_path / "lm" / "run", device=device) for device in ("cpu", "cuda"))
    assert cpu.evaluate(TEXTS).perplexity == pytest.approx(gpu.evaluate(TEXTS).perplexity, rel=2e-3)
    one, two = (gpu.generate(["ab cd"], samples=2, seed=3) for _ in range(2))
    assert [a.text for a in one[0]] == [b.text for b in two[0]]
