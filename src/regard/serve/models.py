"""The models of the service by name, each with a queue. A model is replaced if its folder contains a newer one."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from regard.bundle.bundle import WEIGHTS
from regard.bundle.folder import version
from regard.bundle.signature import read_signature
from regard.errors import RegardError, RequestError, nearest
from regard.serve.batching import Batcher
from regard.serve.errors import ServiceError
from regard.serve.limits import Limits
from regard.serve.log import log
from regard.serve.metrics import Metrics
from regard.serve.request_models import Endpoint
from regard.task import find_task


@dataclass
class Served:
    """A model that the service has loaded."""

    name: str
    folder: Path
    predictor: Any
    seen: tuple[int, int] | None
    """Value of `version(folder)` at the last check; it changes if files in the folder are replaced. None: try again."""

    @property
    def task(self) -> str:
        """Name of the model's task."""
        return self.predictor.config.task

    def describe(self) -> dict[str, Any]:
        """Return a description of the model for clients."""
        facts = {"name": self.name, "task": self.task, "sites": list(self.predictor.model.sites), **self.predictor.facts()}
        return facts | {"weights": self.signature.get("files", {}).get(WEIGHTS, "")}

    @property
    def signature(self) -> Mapping[str, Any]:
        """Signature of the bundle."""
        return self.predictor.bundle.signature


def named_folders(arguments: Sequence[str], resolve: Callable[[str], Path] = Path) -> dict[str, Path]:
    """Return the folders of models by name. `NAME=DIR` sets the name; the default is that of the folder or Hub repository.

    `resolve` returns the folder for an argument without its name, such as `hf://…`.
    """
    found: dict[str, Path] = {}
    for argument in arguments:
        before, equals, after = argument.partition("=")
        named = bool(equals) and "/" not in before and not Path(argument).exists()
        folder = resolve(after if named else argument)
        if named:
            name = before
        elif argument.startswith("hf://"):
            name = argument.rpartition("/")[2].partition("@")[0]
        else:
            name = folder.resolve().name
        if name != name.encode(errors="replace").decode():  # bytes that are not UTF-8, which no answer can contain
            raise RequestError(f"serve: the folder name {name!r} is not UTF-8; name the model yourself: NAME=DIR")
        if name in found:
            raise RequestError(f"serve: two models are named '{name}'; name them yourself: first={found[name]} second={folder}")
        found[name] = folder
    return found


class Models:
    """All models of the service, which `load` loads from their folders by name."""

    def __init__(self, folders: Mapping[str, Path], load: Callable[[Path], Any], limits: Limits, metrics: Metrics) -> None:
        self._load, self._limits, self._metrics = load, limits, metrics
        self.served: dict[str, Served] = {}
        for name, folder in folders.items():
            seen = version(folder)
            self.served[name] = Served(name, folder, load(folder), seen)
        self.batchers: dict[str, Batcher] = {}
        self._watch: asyncio.Task[None] | None = None

    def start(self, reload_seconds: float) -> None:
        """Start the queues, and checks for newer models at this interval; 0 for no checks."""
        for name, served in self.served.items():
            self.batchers[name] = Batcher(name, partial(getattr, served, "predictor"), self._limits, self._metrics)
            self.batchers[name].start()
        if reload_seconds:
            self._watch = asyncio.create_task(self._reload_forever(reload_seconds))

    async def stop(self) -> None:
        """Stop the queues and the checks."""
        if self._watch is not None:
            self._watch.cancel()
        for batcher in self.batchers.values():
            await batcher.stop()

    @property
    def ready(self) -> bool:
        """Whether the queues of all models are being processed."""
        return bool(self.batchers) and all(batcher.works for batcher in self.batchers.values())

    def find(self, name: str | None, endpoint: Endpoint) -> Served:
        """Return the model for a request: the named one or, without a name, the only one that supports the operation."""
        able = [served.name for served in self.served.values() if served.task in endpoint.operations]
        if name is None:
            if len(able) == 1:
                return self.served[able[0]]
            if not able:
                expected = " or ".join(find_task(task).words.predictor for task in endpoint.operations)
                raise ServiceError(404, "no_model", f"this service has no model for this request, expected {expected}")
            raise ServiceError(422, "model_needed", f"several models can do this; name one in 'model': {', '.join(able)}")
        if name not in self.served:
            hint = nearest(name, self.served) or f"; expected one of: {', '.join(self.served)}"
            raise ServiceError(404, "unknown_model", f"there is no model of that name{hint}")
        if name not in able:
            kind = find_task(self.served[name].task).words.predictor
            raise ServiceError(
                422, "wrong_model", f"'{name}' is {kind}, which cannot do this; models that can: {', '.join(able) or 'none'}"
            )
        return self.served[name]

    async def _reload_forever(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="reload") as thread:
            while True:
                await asyncio.sleep(seconds)
                for served in self.served.values():
                    await loop.run_in_executor(thread, self._refresh, served)

    def _refresh(self, served: Served) -> None:
        """Load the model in a folder if it is not the loaded one. Running batches finish with the old model."""
        try:
            seen = version(served.folder)
            if seen == served.seen:
                return
            # A copy of the same model needs no loading.
            if read_signature(served.folder) == served.signature:
                served.seen = seen
                return
            fresh = self._load(served.folder)
            if fresh.config.task != served.task:
                raise RequestError(
                    f"{served.folder} now holds {find_task(fresh.config.task).words.predictor}; restart the service"
                )
        except Exception as error:
            # A damaged model is tried once, a folder that cannot be read at each check; only the first failure is logged.
            lasting = isinstance(error, RegardError) and not isinstance(error.__cause__, OSError)
            if lasting or served.seen is not None:
                self._metrics.reloads.labels(served.name, "failed").inc()
                log("reload_failed", model=served.name, reason=str(error))
            served.seen = seen if lasting else None
            return
        served.predictor, served.seen = fresh, seen
        self._metrics.reloads.labels(served.name, "done").inc()
        log("reloaded", model=served.name)
