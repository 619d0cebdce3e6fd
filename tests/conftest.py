"""What every test may use. Shapes in signatures are checked under pytest (`jaxtyping-packages` in pyproject.toml); tests of
`torch.compile` run in a process of their own with `JAXTYPING_DISABLE=1`, because the checks would break its full graphs.
"""

import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings
from jaxtyping import config

settings.register_profile("any machine", deadline=None)  # an example takes as long as other programs let it
settings.load_profile("any machine")

if config.jaxtyping_disable:
    # Even switched off, the import hook leaves wrappers that a full graph cannot hold.
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "jaxtyping._import_hook"]


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Without the shape checks: what a user's wrong argument meets at run time."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)
