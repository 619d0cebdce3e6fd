"""What launchers say in the environment."""

from itertools import pairwise

import pytest

from regard.errors import ConfigError
from regard.ranks import Ranks, read_ranks

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
SLURM = {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "4", "SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_NTASKS_PER_NODE": "2"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Ranks()),
        ({"RANK": "3"}, Ranks()),
        (TORCHRUN, Ranks(3, 4, 1, 2)),
        ({**SLURM, **TORCHRUN}, Ranks(3, 4, 1, 2)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, Ranks(1, 2, 0, 1)),
        (SLURM, Ranks(2, 4, 0, 2)),
        ({**SLURM, "SLURM_JOB_NAME": "bash"}, Ranks()),
        ({name: value for name, value in SLURM.items() if name != "SLURM_STEP_ID"}, Ranks()),  # in a batch script, without srun
    ],
)
def test_environments(environment, expected):
    assert read_ranks(environment) == expected


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"WORLD_SIZE": "2"},
            "WORLD_SIZE is set and RANK is not set; expected a whole number: start the processes with torchrun",
        ),
        ({"WORLD_SIZE": "2", "RANK": "one"}, "WORLD_SIZE is set and RANK is 'one'; expected a whole number"),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "says that this is process 2 of 2; expected 0 <= RANK < WORLD_SIZE"),
    ],
)
def test_contradictions(environment, message):
    with pytest.raises(ConfigError, match=message):
        read_ranks(environment)


@pytest.mark.parametrize("count", [0, 1, 5, 12])
def test_shares_are_all_and_alike(count):
    shares = [Ranks(rank, 4).share(count) for rank in range(4)]
    assert shares[0][0] == 0
    assert shares[-1][1] == count
    assert all(one[1] == other[0] for one, other in pairwise(shares))
    sizes = [stop - start for start, stop in shares]
    assert max(sizes) - min(sizes) <= 1
