"""What every test may use. Shapes in signatures are checked under pytest (`jaxtyping-packages` in pyproject.toml); tests of
`torch.compile` run in a process of their own with `JAXTYPING_DISABLE=1`, because the checks would break its full graphs.
"""

from collections.abc import Iterator

import pytest
from jaxtyping import config


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Without the shape checks: what a user's wrong argument meets at run time."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)
