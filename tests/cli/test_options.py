"""Options that several commands share."""

import pytest
import torch

from regard.cli import options


@pytest.fixture
def threads():
    """What PyTorch is set to; it is not changed."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "set_num_threads", found.append)
        patch.setattr(torch, "get_num_threads", lambda: 64)
        yield found


@pytest.mark.parametrize(
    ("wanted", "cores", "spare", "set_to"), [(0, 8, 0, 8), (0, 8, 1, 7), (0, 1, 1, 1), (3, 8, 1, 3), (2, 1, 0, 2)]
)
def test_threads_are_all_cores_without_those_to_spare(threads, monkeypatch, wanted, cores, spare, set_to):
    monkeypatch.setattr(options, "count_cores", lambda processes: cores // processes)
    options.set_threads(wanted, spare=spare)
    assert threads == [set_to]
