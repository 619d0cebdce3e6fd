"""A bounded queue in front of a model: the texts of many requests are grouped into batches of texts with similar lengths.

A batch ends at its next step if nobody waits for any of its texts, or if it delays other requests too long. If it was too long,
its texts go to the end of the queue, and no longer share a batch with other requests, because they could delay these again.
"""

import asyncio
import json
import math
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import accumulate, count
from typing import Any

from regard.serve.errors import ServiceError
from regard.serve.limits import Limits
from regard.serve.metrics import Metrics
from regard.stopping import Stopped, is_wanted
from regard.task import Look, Text, TextOperation

# Maximum number of seconds that a client is asked to wait before it tries again.
_LONGEST_RETRY = 60


@dataclass(eq=False)
class Item:
    """A text in the queue."""

    operation: TextOperation
    text: Text
    cost: int
    request: int
    """Number of the request that the text belongs to."""
    alone: int = 0
    """The same number if the text may share a batch only with other texts of its request, else 0."""
    answer: "asyncio.Future[Any]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Batcher:
    """The queue of one model, and the thread that the model runs in.

    `predictor` returns the predictor for a batch; after a reload, it returns the new one.
    """

    def __init__(self, name: str, predictor: Callable[[], Any], limits: Limits, metrics: Metrics) -> None:
        self.name, self._predictor, self._limits, self._metrics = name, predictor, limits, metrics
        self._caps = asdict(limits)
        self._waiting: dict[Item, None] = {}  # in order of arrival
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"model-{name}")
        self._recent: deque[float] = deque([0.05], maxlen=64)
        self._numbers = count(1)
        self._batch: Sequence[Item] = ()  # the last one taken
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start processing the queue."""
        self._task = asyncio.create_task(self._work())

    @property
    def works(self) -> bool:
        """Whether the queue is being processed."""
        return self._task is not None and not self._task.done()

    async def stop(self) -> None:
        """Stop working, at the next step of a running batch; texts without an answer stay unanswered."""
        self.withdraw([*self._waiting, *self._batch])
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._thread.shutdown(wait=False, cancel_futures=True)

    def submit(self, operation: TextOperation, texts: Sequence[Text]) -> list[Item]:
        """Put the texts of a request into the queue: all, or none if they need too much work or the queue is full."""
        predictor, number = self._predictor(), next(self._numbers)
        items = [Item(operation, text, operation.cost(predictor, text, self._caps), number) for text in texts]
        if (total := sum(item.cost for item in items)) > (most := self._limits.work):
            words = f"the request may need {total:,} units of work, expected at most {most:,} (limits.work): "
            words += "send fewer or shorter texts, or lower beam_size, samples or max_length"
            raise ServiceError(413, "too_much_work", words)
        if len(self._waiting) + len(texts) > self._limits.queue:
            seconds = len(self._waiting) * sum(self._recent) / len(self._recent)  # time in which the queue will be processed
            message = f"{len(self._waiting)} texts wait for the model '{self.name}', out of at most {self._limits.queue}; "
            retry = {"Retry-After": str(min(_LONGEST_RETRY, max(1, math.ceil(seconds))))}
            raise ServiceError(429, "queue_full", f"{message}try again later", retry)
        self._waiting |= dict.fromkeys(items)
        self._count()
        if items:
            self._arrived.set()
        return items

    def withdraw(self, items: Sequence[Item]) -> None:
        """Remove the texts of a request from the queue, and cancel their answers if they are not complete."""
        for item in items:
            item.answer.cancel()
            self._waiting.pop(item, None)
        self._count()

    def _count(self) -> None:
        self._metrics.waiting.labels(self.name).set(len(self._waiting))

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
                # An idle model waits a moment, so that texts that arrive together share a batch.
                if self._limits.window_ms:
                    await asyncio.sleep(self._limits.window_ms / 1000)
            batch = self._take()
            if not batch:
                continue
            start = time.perf_counter()
            results = await loop.run_in_executor(self._thread, self._run, batch)
            self._measure(batch, time.perf_counter() - start)
            for item, result in zip(batch, results, strict=True):
                if item.answer.done():
                    continue
                if isinstance(result, Stopped):
                    # A batch that was stopped for others begins again later, and may then delay only its own request.
                    item.alone = item.request
                    self._waiting[item] = None
                elif isinstance(result, Exception):
                    item.answer.set_exception(result)
                else:
                    item.answer.set_result(result)

    def _take(self) -> list[Item]:
        """Take a batch from the queue: the first text, and texts with the same settings and the closest lengths."""
        if not self._waiting:
            return []
        before = {item.request for item in self._batch}
        # Other requests than those of the last batch come first, so that a long request cannot keep them waiting.
        order = sorted(self._waiting, key=lambda item: item.request in before)
        oldest = order[0]

        def kind(item: Item) -> tuple[Any, ...]:  # if only some texts of a batch had a target, the model would need two passes
            return item.operation, item.alone, frozenset(item.text.values)

        wanted = kind(oldest)
        alike = [item for item in order if kind(item) == wanted]
        alike.sort(key=lambda item: abs(item.text.size - oldest.text.size))  # stable, so that the oldest is the first
        batch = alike[: min(self._limits.batch, oldest.operation.most_together)]
        totals = list(accumulate(item.cost for item in batch))
        # The first text is always taken, even if it alone is more work than a batch may have.
        batch = batch[: max(1, bisect_right(totals, self._limits.batch_work))]
        self._batch = batch
        self._waiting = {item: None for item in order if item not in batch}
        self._count()
        return batch

    def _run(self, batch: Sequence[Item]) -> Sequence[Any]:
        """Return the result of each text, or its error."""
        own = {item.request for item in batch}
        end = time.monotonic() + self._limits.deadline_seconds / 3  # others are answered in the rest of the time

        def goes_on() -> bool:  # the model's thread asks this at each step; the event loop changes `_waiting` meanwhile
            in_time = time.monotonic() < end or all(item.request in own for item in list(self._waiting))
            return in_time and not all(item.answer.done() for item in batch)

        is_wanted.set(goes_on)
        try:
            operation = batch[0].operation
            return [self._plain(operation, one) for one in operation.run(self._predictor(), [item.text for item in batch])]
        except Exception as error:
            if len(batch) == 1 or isinstance(error, Stopped):
                return [error] * len(batch)
            # An error of one text must not affect the others.
            return [result for item in batch for result in self._run([item])]

    def _plain(self, operation: TextOperation, result: Any) -> Any:
        """Return a result as data for JSON, or an error if its attention is too large; None if there is no attention."""
        if not isinstance(result, Look):
            return operation.plain(result)
        if result.record is None:
            return None
        size = sum(weights.size for weights in result.record.weights.values())
        if size > (most := self._limits.attention_weights):
            words = f"the attention consists of {size:,} weights, expected at most {most:,}; "
            return ServiceError(413, "too_large", words + "send a shorter text or name fewer sites")
        return json.loads(result.record.to_json())

    def _measure(self, batch: Sequence[Item], seconds: float) -> None:
        self._recent.append(seconds / len(batch))
        self._metrics.batch_seconds.labels(self.name).observe(seconds)
        self._metrics.batch_texts.labels(self.name).observe(len(batch))
        self._metrics.texts.labels(self.name).inc(len(batch))
        self._metrics.characters.labels(self.name).inc(sum(item.text.size for item in batch))
