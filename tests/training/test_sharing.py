from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.training.updater import share_batches


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 8))
def test_processes_share_without_overlap_or_loss(sizes, world_size):
    """Sizes of 0 never come, and must do no harm."""
    bounds = np.cumsum([0, *sizes])
    batches = [np.arange(start, stop) for start, stop in pairwise(bounds)]
    shares = [share_batches(batches, rank, world_size) for rank in range(world_size)]
    assert len({len(own) for own in shares}) == 1
    assert sorted(np.concatenate([part for own in shares for part in own]).tolist()) == list(range(sum(sizes)))
    if len(batches) % world_size == 0:
        assert sorted(len(part) for own in shares for part in own) == sorted(sizes)
    if len(batches) == 1:
        counts = [len(own[0]) for own in shares]
        assert max(counts) - min(counts) <= 1


def test_one_process_takes_all():
    batches = [np.array([3, 1]), np.array([2])]
    assert [part.tolist() for part in share_batches(batches, 0, 1)] == [[3, 1], [2]]
