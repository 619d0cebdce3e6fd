"""What processes send each other: plain data over the loopback interface of their host, and no objects."""

import os
from pathlib import Path
from pickle import UnpicklingError

import numpy as np
import pytest
import torch
from several import run_several

from regard.errors import Interrupted
from regard.processes.team import joined

SENT = {
    "weights": [torch.arange(6.0).view(2, 3), torch.tensor(True), torch.zeros(0, 4), torch.ones(2, dtype=torch.bfloat16)],
    "optimizer": {0: {"step": 3, "betas": (0.9, 0.999)}, 1: None},
    "scores": {"loss": float("inf"), "text": "ä\udcff", "finished": True},
}


class Code:
    """What runs code when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("ran",)


def listening():
    """Return the addresses at which this process listens, as Linux writes them."""
    own = {os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink() and os.path.lexists(path)}
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    return [row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's table of sockets")
def test_plain_data_and_tensors_arrive_over_loopback():
    def work(rank):
        with joined() as team:
            numbers = team.broadcast(lambda: {"scores": [np.float64(0.5), (np.int64(3), np.True_)]})
            return team.broadcast(lambda: SENT if rank == 0 else None), listening(), numbers

    for outcome in run_several(work):
        assert not outcome.trace, outcome.trace
        found, addresses, numbers = outcome.value
        assert numbers == {"scores": [0.5, (3, True)]}
        torch.testing.assert_close(found.pop("weights"), SENT["weights"], rtol=0, atol=0)
        assert found == {name: value for name, value in SENT.items() if name != "weights"}
        assert "0100007F" in addresses  # 127.0.0.1


def test_objects_are_refused_and_run_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def work(rank):
        with joined() as team:
            try:
                team.broadcast(Code)
            except UnpicklingError as error:
                return str(error)

    first, second = run_several(work)
    assert "Weights only load failed" in second.value, first.trace + second.trace
    assert not list(tmp_path.iterdir())


def test_an_error_is_the_same_in_every_process():
    def stop():
        raise Interrupted("stopped; resume with …", signal_number=15)

    def work(rank):
        with joined() as team:
            team.broadcast(stop)

    for outcome in run_several(work):
        assert isinstance(outcome.error, Interrupted), outcome.trace
        assert (str(outcome.error), outcome.error.exit_code) == ("stopped; resume with …", 143)
