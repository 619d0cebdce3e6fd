"""Lives of a run in processes of their own, ended at any moment: forked from one that has everything imported, or commands."""

import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dying.sitecustomize import count_down

from regard.config.loading import render_config
from regard.errors import RegardError
from regard.training import fit, resume
from regard.training.callbacks import Checkpointing
from regard.training.progress import Reporter
from regard.training.run import Run

_DYING = Path(__file__).parent / "dying"


@dataclass(frozen=True)
class End:
    """How a life ended."""

    code: int
    """Exit code; minus the signal's number where one ended it."""
    said: str
    """Standard error."""
    kept: int
    """The update of the last checkpoint that was written to its end; −1 without one."""


@dataclass(frozen=True)
class Death:
    """SIGKILL at a moment: after so many moments that count, updates and operations on files, or after so many seconds."""

    moments: int = 0
    seconds: float = 0.0


def draw_death(draw: random.Random, longest: float) -> Death:
    """Three in four by moments, which a seed repeats exactly, among the first hundred; the others by the clock."""
    return Death(moments=draw.randint(1, 100)) if draw.random() < 0.75 else Death(seconds=draw.uniform(0.0, longest))


def live(work: Callable[[], object], death: Death = Death(), *, folder: Path) -> End:
    """Do something in a process of its own, perhaps not to its end.

    Args:
        work: What is done.
        death: When it is killed; never, by default.
        folder: Operations on what is in here count as moments.
    """
    said = folder.with_name(f"{folder.name}.said")
    reads, writes = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if not process:
        os.close(reads)
        _child(work, death, folder, said, writes)
    os.close(writes)
    if death.seconds:
        time.sleep(death.seconds)
        os.kill(process, signal.SIGKILL)
    with open(reads) as pipe:
        kept = pipe.read().split()
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return End(code, said.read_text(), int(kept[-1]) if kept else -1)


def _child(work: Callable[[], object], death: Death, folder: Path, said: Path, pipe: int) -> None:
    code = 70
    try:
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 (pytest holds another)
        _report(pipe)
        if death.moments:
            _count_down(death.moments, str(folder))
        work()
        code = 0
    except RegardError as error:
        print(f"regard: {error}", file=sys.stderr, flush=True)
        code = error.exit_code
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _report(pipe: int) -> None:
    save = Checkpointing._save

    def saved(self: Checkpointing, run: Run) -> None:
        save(self, run)
        os.write(pipe, f"{run.progress.step}\n".encode())

    Checkpointing._save = saved


def _count_down(moments: int, folder: str) -> None:
    count, moved = count_down(moments, folder), Reporter.after_update

    def updated(*arguments: object) -> None:
        count()
        moved(*arguments)

    Reporter.after_update = updated


def begin_or_resume(config: object) -> None:
    """What somebody does again and again whose machine fails: begin, and go on where there is something to go on with."""
    if _has_begun(config):
        resume(config.out, progress=False)
    else:
        fit(config, progress=False)


def live_by_command(config: object, death: Death = Death()) -> End:
    """The same by `regard train` and `regard resume`, from the start of Python to its end.

    Args:
        config: The run.
        death: When it is killed; never, by default. Operations on the run's folder and on what lies beside it count as
            moments, and seconds are those of the processor, so that they fall alike on an idle machine and on a busy one.
    """
    folder = Path(config.out)
    said, settings = folder.with_name("command.said"), folder.with_name("command.yaml")
    settings.write_text(render_config(config))
    words = ["resume", config.out] if _has_begun(config) else ["train", "translation", "--config", str(settings)]
    environment = dict(os.environ)
    if death.moments:
        environment |= {"PYTHONPATH": str(_DYING), "REGARD_TESTS_DEATH": f"{death.moments}:{folder.parent}"}
    with said.open("w") as file:
        command = [sys.executable, "-m", "regard", *words]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file, env=environment)
    while death.seconds and process.poll() is None:
        if _processor_seconds(process.pid) >= death.seconds:
            process.kill()
        time.sleep(0.01)
    return End(process.wait(), said.read_text(), -1)


def _has_begun(config: object) -> bool:
    return Path(config.out, "checkpoints", "run.json").exists()


def _processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
