"""Two hosts, as far as the network goes: two network namespaces with a cable between them, and `torchrun --nnodes 2`."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

BIN = Path(sys.executable).parent
NAMES = (f"regard-test-a-{os.getpid()}", f"regard-test-b-{os.getpid()}")
CABLES = ("regard-a", "regard-b")
ADDRESSES = ("10.213.7.1", "10.213.7.2")


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def network():
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip` here")
    try:
        ip("netns", "add", NAMES[0])
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespace can be made here: {error.stderr.strip()}")
    try:
        ip("netns", "add", NAMES[1])
        ip("link", "add", CABLES[0], "netns", NAMES[0], "type", "veth", "peer", "name", CABLES[1], "netns", NAMES[1])
        for name, cable, address in zip(NAMES, CABLES, ADDRESSES, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", cable)
            ip("-n", name, "link", "set", cable, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "delete", name], check=False)


@pytest.fixture
def hosts(network, tmp_path):
    """Each has a folder of its own, and the data; nothing else is shared."""
    draw = random.Random(0)
    lines = {" ".join(draw.choices("abcdefgh", k=draw.randint(2, 7))) for _ in range(300)}
    folders = []
    for name in NAMES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "letters.tsv").write_text("".join(f"{line}\t{line[::-1]}\n" for line in sorted(lines)))
        folders.append(tmp_path / name)
    return folders


def start(hosts, *arguments, folder=None):
    """`torchrun --nnodes 2 … regard ARGUMENTS` on both hosts."""
    running = []
    for rank, (name, cable, host) in enumerate(zip(NAMES, CABLES, hosts, strict=True)):
        launch = ["--nnodes", "2", "--node-rank", str(rank), "--nproc-per-node", "1", "--master-addr", ADDRESSES[0]]
        command = ["ip", "netns", "exec", name, BIN / "torchrun", *launch, "--master-port", "29511", "--no-python"]
        # A host without a name that the other knows has to say which of its networks to use.
        environment = os.environ | {"GLOO_SOCKET_IFNAME": cable, "REGARD_CACHE": str(host / "cache"), "OMP_NUM_THREADS": "1"}
        running.append(
            subprocess.Popen(
                [*command, BIN / "regard", *map(str, arguments)],
                cwd=folder or host,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    return running


def end(running, seconds=240):
    said = [process.communicate(timeout=seconds)[0] for process in running]
    return [process.returncode for process in running], said


MODEL = ("--model.embedding_size", "12", "--model.encoder.hidden_size", "12", "--model.decoder.hidden_size", "12")
TRAINING = ("--training.batch_tokens", "120", "--training.precision", "float32", "--training.tensorboard", "false")
TRAIN = ("train", "translation", "--data.train", "letters.tsv", "--data.dev_size", "30", "--threads", "1", *MODEL, *TRAINING)


def worker_of(launcher):
    """The process that a torchrun on the other side of `ip netns exec` started."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    return int(children[0])


def test_training(hosts):
    codes, said = end(start(hosts, *TRAIN, "--training.max_epochs", "2", "--out", "run"))
    assert codes == [0, 0], "\n".join(said)
    assert "trained 2 epochs" in said[0]
    assert "trained" not in said[1]
    assert (hosts[0] / "run" / "model.safetensors").exists()
    assert not (hosts[1] / "run").exists()


def test_a_host_that_loses_its_process_ends_the_other(hosts):
    running = start(hosts, *TRAIN, "--training.max_epochs", "100000", "--training.checkpoint_every", "5", "--out", "run")
    checkpoint = hosts[0] / "run" / "checkpoints" / "last.ckpt"
    begun = time.monotonic()
    while not checkpoint.exists():
        assert time.monotonic() - begun < 200
        assert [process.poll() for process in running] == [None, None], end(running)[1]
        time.sleep(0.1)
    os.kill(worker_of(running[1]), signal.SIGKILL)
    begun = time.monotonic()
    running[0].wait(60)
    passed = time.monotonic() - begun
    codes, said = end(running)
    assert passed < 30
    assert 0 not in codes
    assert "another process of the run has ended; its message is above or in its own log" in said[0]
    resumed = subprocess.Popen([BIN / "regard", "resume", "run"], cwd=hosts[0], stderr=subprocess.PIPE, text=True)
    for line in resumed.stderr:
        if "processes was 2 and is 1" in line:
            break
    else:
        pytest.fail("nothing was said of the number of processes")
    resumed.kill()
    resumed.communicate()
