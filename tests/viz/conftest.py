import matplotlib
import pytest


@pytest.fixture(autouse=True)
def unhinted_text():
    """Measure texts as pictures draw them: as wide in every resolution."""
    with matplotlib.rc_context({"text.hinting": "none"}):
        yield
