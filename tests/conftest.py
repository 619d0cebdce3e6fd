"""What every test may use. Slow tests, and those of packages that compute with tensors, check the shapes in signatures
(`jaxtyping-packages` in pyproject.toml); in other tests, the checks would take a third of the time. Tests of `torch.compile`
run in a process of their own with `JAXTYPING_DISABLE=1`, because the checks would break its full graphs.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import config

settings.register_profile("any machine", deadline=None)  # an example takes as long as other programs let it
settings.load_profile("any machine")

if config.jaxtyping_disable:
    # Even switched off, the import hook leaves wrappers that a full graph cannot hold.
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "jaxtyping._import_hook"]

# Folders whose tests check shapes. The contracts run every mechanism, model and task.
_CHECKED = ("attention", "contracts", "decoding", "inference", "layers", "models")
_DISABLED = config.jaxtyping_disable
config.update("jaxtyping_disable", True)  # while tests are collected


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check shapes or not, before the fixtures of the test are made."""
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    checked = folder in _CHECKED or item.get_closest_marker("slow") is not None
    config.update("jaxtyping_disable", _DISABLED or not checked)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Without the shape checks: what a user's wrong argument meets at run time."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)
