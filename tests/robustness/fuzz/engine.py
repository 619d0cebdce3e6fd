"""Feeds generated inputs to one target after another: mutations of a corpus, which grows by every input that reaches new lines.

A target takes bytes and gives a result or raises a `RegardError`; anything else is a failure: another exception, a message
nobody can read, seconds of work for a few bytes, more memory than `MEMORY`, and (in `run.py`, which gives each target a process
of its own) the end of the process.
"""

import random
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import regard
from regard.errors import RegardError

MEMORY = 1 << 30
"""Bytes of address space that a target may take beyond what it has when it is ready."""
SECONDS = 2.0
"""Of processor time that an input may take: all are small."""
LONGEST_INPUT = 1 << 16
"""Bytes. Few are as long, since most of what there is to find is found in short ones, which are read fast."""
LONGEST_MESSAGE = 2000
"""Characters of an error's message; more is not one clear error but a part of the input."""

SEAM = b"\n--8<--\n"
"""Between two files, or two parts of a file, of one input."""

_SOURCE = str(Path(regard.__file__).parent)
_STEPS = 4  # mutations of one input, at most
_TRACED = 32  # where lines are watched by `sys.settrace`, which takes ten times as long, one input in so many is
_SHORT = 1 << 10  # bytes of an input where no seed is longer, but for one in so many:
_LONG = 32
_NUMBERS = (
    *(0, 1, 2, 3, 7, 8, 16, 127, 128, 255, 256, 1023, 4096, 65535, 65536),
    *(2**bits - below for bits in (31, 32, 63, 64) for below in (0, 1)),
)
_SPELLINGS = (
    *(b"0", b"-1", b"1e999", b"-1e-999", b"NaN", b"Infinity", b"9" * 400, b"9" * 5000, b"1000000000", b"99999999999999999999"),
    *(b"null", b"true", b"[]", b"{}", b'""', b"[" * 3000, b'{"a":' * 3000, b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *("\u2028".encode(), "²".encode(), "٣".encode(), "\u0130".encode(), "e\u0301".encode(), "👩‍🚀".encode(), "▁".encode()),
    *(b"\\ud800", b"\\u0000", b"\r", b"\n", b"\r\n", b"\t", b" ", b'"', b"../", b"/", b"\x1f\x8b", b"PAR1", b"PK\x03\x04"),
)


@dataclass(frozen=True)
class Target:
    """What is fed."""

    name: str
    start: Callable[[Path], Callable[[bytes], object]]
    """Gets a folder of its own and gives the function under test."""
    seeds: Callable[[], Sequence[bytes]]
    """Gives inputs to begin with, beside those of `corpus/NAME`."""
    words: Sequence[bytes] = ()
    """What is put in here and there, beside numbers and spellings that are hard everywhere."""
    seconds: float = SECONDS
    """Processor time that an input may take."""


@dataclass
class Outcome:
    """What became of the inputs of one target."""

    inputs: int = 0
    results: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    failures: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """By the place of the failure: what it was, and the shortest input that made it."""
    times_failed: int = 0
    found: list[bytes] = field(default_factory=list)
    """Inputs that reached new lines."""
    lines: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    """Seconds of its time, those of the imports left out."""
    slowest: float = 0.0
    grown: int = 0
    """Bytes of memory at the peak beyond those at the start."""


class Lines:
    """Which lines of regard have been reached: by `sys.monitoring` from Python 3.12 on, where each costs once, else by
    `sys.settrace` for some of the inputs. Of every input that is refused, the lines on the way to where it was."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, int]] = set()
        self._monitoring = getattr(sys, "monitoring", None)

    @contextmanager
    def watching(self, number: int) -> Iterator[None]:
        """Watch one input."""
        if self._monitoring is None:
            if number % _TRACED:
                yield
                return
            before = sys.gettrace()
            sys.settrace(self._trace)
            try:
                yield
            finally:
                sys.settrace(before)
            return
        tool = self._monitoring
        tool.set_events(tool.COVERAGE_ID, tool.events.LINE)
        try:
            yield
        finally:
            tool.set_events(tool.COVERAGE_ID, 0)

    @contextmanager
    def registered(self) -> Iterator[None]:
        """While a target is fed."""
        tool = self._monitoring
        if tool is None or tool.get_tool(tool.COVERAGE_ID):
            self._monitoring = None
            yield
            return
        tool.use_tool_id(tool.COVERAGE_ID, "fuzz")
        tool.register_callback(tool.COVERAGE_ID, tool.events.LINE, self._line)
        try:
            yield
        finally:
            tool.free_tool_id(tool.COVERAGE_ID)

    def add_refusal(self, error: BaseException) -> None:
        """The lines on the way to an error."""
        place = error.__traceback__
        while place is not None:
            name = place.tb_frame.f_code.co_filename
            if name.startswith(_SOURCE):
                self.seen.add((name, place.tb_lineno))
            place = place.tb_next

    def _line(self, code: CodeType, line: int) -> Any:
        if code.co_filename.startswith(_SOURCE):
            self.seen.add((code.co_filename, line))
        return self._monitoring.DISABLE  # type: ignore[union-attr]

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        return self._trace_line if frame.f_code.co_filename.startswith(_SOURCE) else None

    def _trace_line(self, frame: FrameType, event: str, argument: object) -> Any:
        self.seen.add((frame.f_code.co_filename, frame.f_lineno))
        return self._trace_line


class TooSlowError(BaseException):
    """Not an `Exception`, so that nothing on the way takes it for its own."""


def feed(
    target: Target,
    corpus: Sequence[bytes],
    folder: Path,
    *,
    inputs: int,
    seed: int,
    before: Callable[[int, bytes], None] = lambda number, data: None,
    until: float = float("inf"),
) -> Outcome:
    """Feed a target.

    Args:
        target: What is fed.
        corpus: Inputs to begin with, beside its seeds.
        folder: Empty; for its files.
        inputs: How many.
        seed: Of the mutations.
        before: Called before each input, with its number.
        until: `time.monotonic()` at which to stop, once what the corpus holds has been fed.
    """
    generator = random.Random(f"{target.name} {seed}")
    pool = list(dict.fromkeys([*target.seeds(), *corpus]))
    known, words = len(pool), (*_SPELLINGS, *target.words, *target.words)
    short = max(_SHORT, *map(len, pool))
    run, outcome, lines = target.start(folder), Outcome(), Lines()
    with suppress(Exception):
        run(pool[0])  # what is imported or built at the first call counts as the start
    start, begun, used = _peak(), time.monotonic(), time.process_time()
    with lines.registered(), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        for number in range(inputs):
            most = LONGEST_INPUT if number % _LONG == 0 else short
            data = pool[number] if number < known else mutate(generator, pool, words)[:most]
            before(number, data)
            count = len(lines.seen)
            with lines.watching(number if number >= known else 0):
                refusal = _try(run, data, outcome, target.seconds)
            if refusal is not None:
                lines.add_refusal(refusal)
            if len(lines.seen) > count and number >= known:
                outcome.found.append(data)
                if len(data) <= short:
                    pool.append(data)
            if number >= known and time.monotonic() > until:
                break
    outcome.lines, outcome.seconds, outcome.grown = len(lines.seen), time.monotonic() - begun, _peak() - start
    outcome.processor = time.process_time() - used
    return outcome


def _try(run: Callable[[bytes], object], data: bytes, outcome: Outcome, seconds: float) -> RegardError | None:
    outcome.inputs += 1
    begun, refusal = time.monotonic(), None
    try:
        run(data)
        outcome.results += 1
    except RegardError as error:
        refusal = error
        outcome.refusals[type(error).__name__] += 1
        message = str(error)
        if not message or len(message) > LONGEST_MESSAGE:
            _fail(outcome, f"{_place(error)}: a message of {len(message):,} characters: {message[:200]}", data)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # those of libraries in other languages are not all an Exception
        shown = "".join(traceback.format_exception(error)[-12:])
        _fail(outcome, f"{_place(error)}: {type(error).__name__}\n{shown[-3000:]}", data)
    taken = time.monotonic() - begun
    if taken > seconds and (taken := _used(run, data)) > seconds:
        _fail(outcome, f"slow: {taken:.1f} s", data)
    outcome.slowest = max(outcome.slowest, taken)
    return refusal


def _used(run: Callable[[bytes], object], data: bytes) -> float:
    """Processor time of an input that took long: others may have kept the machine busy. (Asking for it each time costs more
    than a reader in some sandboxes.)"""
    begun = time.process_time()
    with suppress(Exception, TooSlowError):
        run(data)
    return time.process_time() - begun


def _fail(outcome: Outcome, what: str, data: bytes) -> None:
    outcome.times_failed += 1
    key = what.split("\n", 1)[0][:160].partition(" characters")[0]
    if key not in outcome.failures or len(data) < len(outcome.failures[key][1]):
        outcome.failures[key] = (what, data)


def _place(error: BaseException) -> str:
    """The last line of regard on the way to an error, else the last of all."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(_SOURCE)] or frames
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "?"


def mutate(generator: random.Random, pool: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """One input made of those in the pool, mostly of late ones."""
    late = generator.random() < 0.3 and len(pool) > 20
    data = bytearray(generator.choice(pool[-20:] if late else pool))
    for _ in range(generator.randint(1, _STEPS)):
        _change(generator, data, pool, words)
    return bytes(data[:LONGEST_INPUT])


def _change(generator: random.Random, data: bytearray, pool: Sequence[bytes], words: Sequence[bytes]) -> None:
    size = len(data)
    at = generator.randrange(size + 1)
    end = min(size, at + int(generator.expovariate(0.1)) + 1)
    match generator.randrange(12):
        case 0 | 1 if size:
            data[min(at, size - 1)] = generator.randrange(256)
        case 2 if size:
            data[min(at, size - 1)] ^= 1 << generator.randrange(8)
        case 3:
            del data[at:end]
        case 4:
            data[at:at] = data[at:end] * generator.choice((1, 1, 2, 50, 500))
        case 5 | 6:
            data[at:at] = generator.choice(words)
        case 7:
            data[at:end] = generator.choice(words)
        case 8:
            width = generator.choice((1, 2, 4, 8))
            number = generator.choice(_NUMBERS) % (1 << 8 * width)
            data[at : at + width] = number.to_bytes(width, generator.choice(("little", "big")))
        case 9:
            other = generator.choice(pool)
            begin = generator.randrange(len(other) + 1)
            data[at:end] = other[begin : begin + generator.randint(0, 200)]
        case 10:
            other = generator.choice(pool)
            data[at:] = other[generator.randrange(len(other) + 1) :]
        case _:
            del data[generator.choice((at, size - size // 8)) :]


def limit_memory() -> None:
    """From here on, no more than `MEMORY` beyond what this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.getrlimit(resource.RLIMIT_AS)[1]))


def limit_time(seconds: float) -> Callable[[int, bytes], None]:
    """Give what is to be called before each input so that none takes much longer. In the main thread only."""
    current, ticks = -1, 0

    def tick(signal_number: int, frame: object) -> None:
        nonlocal ticks, seen
        ticks, seen = (ticks + 1 if seen == current >= 0 else 0), current  # what is imported before the first takes its time
        if ticks > seconds:
            ticks = 0
            raise TooSlowError(f"more than {seconds:g} s")

    def before(number: int, data: bytes) -> None:
        nonlocal current
        current = number

    seen = current
    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    return before


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
