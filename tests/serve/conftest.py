"""Small models, and the service as a process of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from bundle.conftest import make as make_translator
from bundle.test_classifiers import make as make_classifier
from tasks.language.test_language_model import make as make_language_model

from regard.bundle import save_bundle

SLOW = {"beam_size": 8, "n_best": 1, "min_length": 250, "max_length": 300}
"""Settings of a translation that takes long."""
START_SECONDS = 120


def save_models(folder: Path) -> Path:
    """Save one model of each task."""
    for name, bundle in {"deu": make_translator(), "reviews": make_classifier(), "stories": make_language_model()}.items():
        save_bundle(folder / name, bundle)
    return folder


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Path:
    return save_models(tmp_path_factory.mktemp("served"))


class Service:
    """A running service."""

    def __init__(self, *arguments: str | Path, environment: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "regard", "serve", "--port", "0", "--threads", "1", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
        )
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = self.wait_for("listening")["url"]
        self.client = httpx.Client(base_url=self.url, timeout=120)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)

    def events(self, name: str) -> list[dict]:
        """Return the events of this name in the log."""
        return [event for event in map(json.loads, [*self.log]) if event["event"] == name]

    def wait_for(self, name: str, count: int = 1) -> dict:
        """Wait until the log has this event."""
        end = time.monotonic() + START_SECONDS
        while len(found := self.events(name)) < count:
            assert time.monotonic() < end, f"no {name}: {''.join(self.log)}"
            assert self.process.poll() is None or not self._reader.is_alive(), "".join(self.log)
            assert self.process.poll() is None, f"the service ended: {''.join(self.log)}"
            time.sleep(0.02)
        return found[-1]

    def post(self, path: str, **body) -> httpx.Response:
        return self.client.post(path, json=body)

    def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels."""
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.partition("{")[0].partition(" ")[0] == name)

    def wait_until_texts_wait(self) -> None:
        """Wait until accepted texts wait for a model."""
        end = time.monotonic() + START_SECONDS
        while not self.metric("regard_waiting_texts"):
            assert time.monotonic() < end, f"no text waits: {''.join(self.log)}"
            time.sleep(0.01)

    def stop(self) -> int:
        """Stop the service, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self._reader.join(10)
        self.client.close()
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code


@contextmanager
def serving(*arguments: str | Path, environment: dict[str, str] | None = None) -> Iterator[Service]:
    """Run a service."""
    service = Service(*arguments, environment=environment)
    try:
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="session")
def service(runs) -> Iterator[Service]:
    """A service with three models, for requests that leave it as it is."""
    with serving(*(runs / name for name in ("deu", "reviews", "stories"))) as found:
        yield found
        assert found.process.poll() is None, "the service died"
