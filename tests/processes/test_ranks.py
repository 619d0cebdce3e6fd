"""What launchers say in the environment."""

import pytest

from regard.errors import ConfigError
from regard.processes.ranks import Ranks, own_name, read_ranks
from regard.processes.rendezvous import find_meeting_point

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
SLURM = {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "4", "SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_NTASKS_PER_NODE": "2"}


def spread(tasks_per_node, *, rank, node, local, tasks=7):
    """A step of SLURM without --ntasks-per-node."""
    numbers = {"STEP_ID": 0, "NTASKS": tasks, "PROCID": rank, "NODEID": node, "LOCALID": local}
    return {f"SLURM_{name}": str(value) for name, value in numbers.items()} | {"SLURM_TASKS_PER_NODE": tasks_per_node}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Ranks()),
        ({"RANK": "3"}, Ranks()),
        (TORCHRUN, Ranks(3, 4, 1, 2)),
        ({**SLURM, **TORCHRUN}, Ranks(3, 4, 1, 2)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, Ranks(1, 2, 0, 1)),
        (SLURM, Ranks(2, 4, 0, 2)),
        (spread("2(x3),1", rank=5, node=2, local=1), Ranks(5, 7, 1, 2)),
        (spread("2(x3),1", rank=6, node=3, local=0), Ranks(6, 7, 0, 1)),
        (spread("3", rank=1, node=0, local=1, tasks=3), Ranks(1, 3, 1, 3)),
        (spread("8(x2)", rank=1, node=0, local=1, tasks=3) | {"SLURM_STEP_TASKS_PER_NODE": "3"}, Ranks(1, 3, 1, 3)),
        (spread("8(x2)", rank=1, node=0, local=1, tasks=4) | {"SLURM_NNODES": "2"}, Ranks(1, 4, 1, 2)),  # the allocation's
        (spread("many", rank=0, node=0, local=0, tasks=3), Ranks(0, 3, 0, 3)),
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
        ({**SLURM, "SLURM_PROCID": "one"}, "SLURM_STEP_ID is set and SLURM_PROCID is 'one'; expected a whole number"),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "says that this is process 2 of 2; expected 0 <= RANK < WORLD_SIZE"),
    ],
)
def test_contradictions(environment, message):
    with pytest.raises(ConfigError, match=message):
        read_ranks(environment)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"WORLD_SIZE": "2", "MASTER_ADDR": "node7", "MASTER_PORT": "29400"}, ("node7", 29400)),
        ({"WORLD_SIZE": "2"}, ("127.0.0.1", 15000)),
        ({"SLURM_JOB_ID": "1234567", "SLURM_NODELIST": "gpu[03-05,9],cpu1"}, ("gpu03", 19567)),
        ({"SLURM_JOB_ID": "12", "SLURM_NODELIST": "gpu[1-9]", "SLURM_STEP_NODELIST": "gpu7"}, ("gpu7", 15012)),
        ({"SLURM_JOB_ID": "x", "SLURM_NODELIST": "rack-1.a.org,rack-2"}, ("rack-1.a.org", 15000)),
        ({"SLURM_NODELIST": "n[0001]x", "MASTER_PORT": "4"}, ("n0001x", 4)),
        ({"SLURM_NODELIST": "127.0.0.1"}, ("127.0.0.1", 15000)),
    ],
)
def test_where_processes_meet(environment, expected):
    assert find_meeting_point(environment) == expected


def test_a_port_that_is_no_number():
    with pytest.raises(ConfigError, match="MASTER_PORT is 'x'"):
        find_meeting_point({"WORLD_SIZE": "2", "MASTER_PORT": "x"})


def test_messages_name_the_process_they_come_from():
    assert own_name({"WORLD_SIZE": "4", "RANK": "2"}) == "process 2 of 4: "
    assert own_name({"WORLD_SIZE": "4", "RANK": "0"}) == own_name({}) == own_name({"WORLD_SIZE": "4"}) == ""
