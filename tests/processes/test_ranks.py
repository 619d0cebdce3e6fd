"""What launchers say in the environment."""

import pytest

from regard.errors import ConfigError
from regard.processes.ranks import Ranks, own_name, read_ranks

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Ranks()),
        ({"RANK": "3"}, Ranks()),
        (TORCHRUN, Ranks(3, 4, 1, 2)),
        ({"WORLD_SIZE": "1", "RANK": "0"}, Ranks()),
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
        ({"WORLD_SIZE": "2", "RANK": "1"}, "WORLD_SIZE is set and LOCAL_RANK is not set; expected a whole number"),
        ({**TORCHRUN, "RANK": "4"}, "says that this is process 4 of 4, and 1 of 2 on this host; start the processes with"),
    ],
)
def test_contradictions(environment, message):
    with pytest.raises(ConfigError, match=message):
        read_ranks(environment)


def test_messages_name_the_process_they_come_from():
    assert own_name(TORCHRUN) == "process 3 of 4: "
    assert own_name({**TORCHRUN, "RANK": "0"}) == own_name({}) == own_name({"WORLD_SIZE": "4"}) == ""
