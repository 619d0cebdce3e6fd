"""Wait for the results of a request until they are complete, the deadline passes, or the client disconnects."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from regard.errors import RegardError, out_of_memory
from regard.serve.batching import Batcher, Item
from regard.serve.errors import ServiceError
from regard.task import Text, TextOperation

Event = tuple[int, int, str]
"""The number of a prompt, the number of a sample, and the text generated so far."""


async def wait(
    batcher: Batcher, operation: TextOperation, texts: Sequence[Text], seconds: float, gone: Callable[[], Awaitable[None]]
) -> list[Any]:
    """Submit texts, and return their results within some seconds; `gone` returns when the client closes the connection."""
    items, results = _submit(batcher, operation, texts)
    left: asyncio.Future[Any] = asyncio.ensure_future(gone())
    try:
        await asyncio.wait((results, left), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if results.done():
            return list(results.result())
        if left.done():
            raise ServiceError(499, "client_closed", "the client closed the connection")
        raise _late(seconds)
    except ServiceError:
        raise
    except Exception as error:
        raise _explained(error) from error
    finally:
        left.cancel()
        batcher.withdraw(items)


def submit_stream(
    batcher: Batcher, operation: TextOperation, texts: Sequence[Text], seconds: float, finish: Callable[[list[Any]], Any]
) -> AsyncIterator[str]:
    """Submit prompts, and return server-sent events: new parts of texts, and at the end the whole result or an error.

    The first arguments are those of `wait`; `finish` returns the content of the last event, given the results.
    """
    loop, events = asyncio.get_running_loop(), asyncio.Queue[Event | None]()

    def follower(place: int) -> Callable[[int, str], None]:
        def follow(sample: int, text: str) -> None:
            loop.call_soon_threadsafe(events.put_nowait, (place, sample, text))

        return follow

    followed = [replace(work, follow=follower(place)) for place, work in enumerate(texts)]
    items, results = _submit(batcher, operation, followed)
    results.add_done_callback(lambda _: events.put_nowait(None))
    # `asyncio.timeout` could interrupt the task while it waits for a slow reader, and the stream would end without an error.
    deadline = loop.call_later(seconds, batcher.withdraw, items)

    def is_late() -> bool:
        return any(item.answer.cancelled() for item in items)

    async def lines() -> AsyncIterator[str]:
        # What was sent of each sample; it is never taken back.
        written: dict[tuple[int, int], str] = {}
        try:
            while (event := await events.get()) is not None and not is_late():
                place, sample, text = event
                before = written.setdefault((place, sample), texts[place].text.rstrip())
                if new := new_part(before, text):
                    written[place, sample] = before + new
                    yield _event({"prompt": place, "sample": sample, "text": new})
            if is_late():
                raise _late(seconds)
            yield _event({"done": True, **await asyncio.to_thread(finish, list(results.result()))})
        except ServiceError as error:
            yield _event(error.to_dict())
        except Exception as error:
            explained = _explained(error)
            if not isinstance(explained, ServiceError):
                yield _event(ServiceError(500, "internal", "internal error").to_dict())
                raise
            yield _event(explained.to_dict())
        finally:
            deadline.cancel()
            batcher.withdraw(items)

    return lines()


def _submit(batcher: Batcher, operation: TextOperation, texts: Sequence[Text]) -> tuple[list[Item], "asyncio.Future[Any]"]:
    items = batcher.submit(operation, texts)
    results: asyncio.Future[Any] = asyncio.gather(*(item.answer for item in items))
    results.add_done_callback(asyncio.Future.exception)  # asyncio reports errors that nobody reads
    return items, results


def new_part(before: str, text: str) -> str:
    """Return the part of a text that was not sent `before`, without its last word, which may still change."""
    stable = text[: max(text.rstrip().rfind(" "), 0)]
    return stable[len(before) :] if stable.startswith(before) else ""


def _event(content: Any) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"


def _late(seconds: float) -> ServiceError:
    return ServiceError(504, "deadline", f"the answer was not complete within {seconds:g} seconds")


def _explained(error: Exception) -> Exception:
    """Turn an error that a model raised into a `ServiceError`; return an unexpected error unchanged."""
    if isinstance(error, RegardError):
        return ServiceError(422, "invalid_request", str(error))
    if out_of_memory(error):
        return ServiceError(503, "out_of_memory", "there is not enough memory for this request; send fewer or shorter texts")
    return error
