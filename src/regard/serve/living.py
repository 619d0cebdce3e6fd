"""The living page of each model. `regard page` writes it in a separate process when it is first requested."""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.serve.log import log
from regard.serve.models import Served

Write = Callable[[Path, Path], Awaitable[str]]
"""Function that writes the page of a model's folder to a file. It returns the reason of a failure, or an empty text."""


async def write_page(folder: Path, page: Path) -> str:
    """Write a page in another process, because the export changes PyTorch while it runs, and needs much memory.

    Returns:
        The reason of a failure, or an empty text.
    """
    process = await asyncio.create_subprocess_exec(
        # With -P, Python does not import modules from the working directory, which may be the folder of a stranger's model.
        *(sys.executable, "-P", "-m", "regard", "page", "--to", str(page), "--overwrite", "--", str(folder.absolute())),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # one core; the others are for requests
    )
    try:
        _, told = await process.communicate()
    except asyncio.CancelledError:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    lines = told.decode("utf-8", "replace").strip().splitlines() or [f"the process ended with code {process.returncode}"]
    return "" if process.returncode == 0 else lines[-1].removeprefix("regard: ")


class LivingPages:
    """The pages of all models. After a model has been reloaded, its page is written again.

    If a page cannot be written, the service doesn't try again until the model's weights change: each attempt needs much time
    and memory, and most causes of a failure, such as a missing package, remain.

    Args:
        write: Function that writes a page.
    """

    def __init__(self, write: Write = write_page) -> None:
        self._write = write
        self._folder = TemporaryDirectory(prefix="regard-pages-")
        self._numbers = count()
        self._made: dict[str, tuple[str, Path, asyncio.Task[str]]] = {}

    def find(self, served: Served) -> Path | str | None:
        """Return the page of a model; the first call for new weights starts to write it.

        Returns:
            The page's file; or, if writing failed, the reason as a text; or None while the page is being written.
        """
        version = str(served.describe()["weights"])
        made = self._made.get(served.name)
        if made is None or made[0] != version:
            if made is not None:
                made[2].cancel()
                made[1].unlink(missing_ok=True)
            page = Path(self._folder.name, f"{next(self._numbers)}.html")
            made = self._made[served.name] = version, page, asyncio.create_task(self._build(served, page))
        _, page, task = made
        return (task.result() or page) if task.done() else None

    async def _build(self, served: Served, page: Path) -> str:
        start = time.perf_counter()
        try:
            problem = await self._write(served.folder, page)
        except OSError as error:
            problem = f"{error.strerror or error}"
        facts: dict[str, Any] = {"model": served.name, "seconds": round(time.perf_counter() - start, 1)}
        if problem:
            log("page_failed", reason=problem, **facts)
        else:
            log("page_written", **facts)
        return problem

    async def stop(self) -> None:
        """Stop writing, and delete the pages."""
        tasks = [task for _, _, task in self._made.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._folder.cleanup()
