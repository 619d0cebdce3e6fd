"""The endpoints that need a model: one for each name of an operation."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from regard.errors import RequestError
from regard.serve.errors import ServiceError
from regard.serve.limits import Limits
from regard.serve.models import Models, Served
from regard.serve.request_models import Body, Endpoint
from regard.serve.responses import submit_stream, wait
from regard.task import Text, TextOperation, find_task

_NUMBERS = 1 << 62


class _Error(BaseModel):
    """Status, code and message of an error."""

    status: int = Field(description="Status of the answer in HTTP, such as 422.")
    code: str = Field(description="Short name of the error for programs, such as `invalid_request`.")
    message: str = Field(description="What is wrong with the request, for people.")


class _Refusal(BaseModel):
    """The answer to a request that gets no result."""

    error: _Error = Field(description="The error.")


def add_endpoints(app: FastAPI, models: Models, limits: Limits, endpoints: Sequence[Endpoint]) -> None:
    """Add the endpoints to the application."""
    for endpoint in endpoints:
        app.add_api_route(
            f"/v1/{endpoint.name}",
            _handler(endpoint, models, limits),
            methods=["POST"],
            response_model=endpoint.answer,
            responses={"default": {"model": _Refusal, "description": "The request gets no result."}},
            description=endpoint.first.__doc__,
        )


def _handler(endpoint: Endpoint, models: Models, limits: Limits) -> Callable[..., Awaitable[Response]]:
    async def answer(body: Any, request: Request) -> Response:
        given = {name: value for name, value in body if value is not None and name not in Body.model_fields}
        served = models.find(body.model, endpoint)
        kind, streams = endpoint.operations[served.task], given.pop("stream", False)
        texts = _texts(kind, given, endpoint, asdict(limits)[kind.longest])
        operation = _operation(kind, given, served, endpoint).within(served.predictor, asdict(limits))
        size = {"texts": len(texts), "characters": sum(text.size for text in texts)}
        request.state.facts.update({"model": served.name, **size})
        longest = limits.deadline_seconds
        seconds = min(body.timeout or longest, longest)
        batcher = models.batchers[served.name]

        def finish(results: list[Any]) -> dict[str, Any]:
            unknown = [served.predictor.unknown_words([text.text]) for text in texts]
            return {"model": served.name, kind.answers: results, "unknown_words": unknown}

        if streams:
            lines = submit_stream(batcher, operation, texts, seconds, finish)
            return StreamingResponse(lines, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        results = await wait(batcher, operation, texts, seconds, lambda: _gone(request))
        return JSONResponse(await asyncio.to_thread(finish, results))

    answer.__annotations__["body"] = endpoint.body  # FastAPI checks the body with this class
    return answer


def _texts(kind: type[TextOperation], given: dict[str, Any], endpoint: Endpoint, longest: int) -> list[Text]:
    """Take the texts out of the fields of a body, each with the values that belong to it alone."""
    texts: Sequence[str] = given.pop(endpoint.first.inputs)
    if any(len(text) > longest for text in texts):
        raise ServiceError(413, "too_large", f"{endpoint.first.inputs}: expected at most {longest:,} characters each")
    try:
        kind.require_text(texts)
        for text in texts:
            kind.check_sent(text)
    except RequestError as error:
        raise ServiceError(422, "invalid_request", str(error)) from error
    lists: dict[str, Sequence[str]] = {}
    for option, name in kind.per_text.items():
        if name in given:
            lists[option] = given.pop(name)
            if len(lists[option]) != len(texts):
                message = f"got {len(texts)} {kind.inputs} and {len(lists[option])} {name}, expected the same number of each"
                raise ServiceError(422, "invalid_request", message)
    # Without a seed, each text gets a random number, so that it can still share a batch with other texts.
    random = "seed" in kind.options() and "seed" not in given
    numbers = [secrets.randbelow(_NUMBERS) for _ in texts] if random else range(len(texts))
    values = [{option: each[place] for option, each in lists.items()} for place in range(len(texts))]
    return [Text(text, number, own) for text, number, own in zip(texts, numbers, values, strict=True)]


def _operation(kind: type[TextOperation], given: Mapping[str, Any], served: Served, endpoint: Endpoint) -> TextOperation:
    """Return the operation with the options of a body, which must all be for the task of the model."""
    for name in given:
        if name not in kind.options():
            others = [
                task for task, other in endpoint.operations.items() if name in (*other.options(), *other.per_text.values())
            ]
            whom = " and ".join(find_task(task).words.predictors for task in others)
            raise ServiceError(422, "invalid_request", f"{name} are for {whom}; leave them out")
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if sites := options.get("sites"):
        known = served.predictor.model.sites
        if any(site not in known for site in sites):
            raise ServiceError(422, "unknown_site", f"this model has no such attention site, only: {', '.join(known)}")
    try:
        return kind.create(**options)
    except RequestError as error:
        raise ServiceError(422, "invalid_request", str(error)) from error


async def _gone(request: Request) -> None:
    """Wait until the client closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
