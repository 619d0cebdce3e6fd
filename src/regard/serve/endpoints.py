"""The endpoints of the service that need a model."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from regard.serve import answers
from regard.serve.bodies import Bodies, Body
from regard.serve.errors import ServiceError
from regard.serve.limits import Limits
from regard.serve.models import Models
from regard.serve.operations import Attend, Classify, Generate, Operation, Translate, Work
from regard.serve.waiting import submit_stream, wait

_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": answers.Refusal, "description": words}
    for status, words in {
        400: "The body is not JSON",
        401: "The token is missing or wrong",
        404: "There is no such model",
        408: "The body arrives too slowly",
        413: "The body or a text is too large",
        415: "The body is not labelled as JSON",
        421: "The request names another host",
        422: "The body is not as expected",
        429: "The queue is full; Retry-After says when to try again",
        500: "Internal error; the message contains its number in the log",
        503: "There is not enough memory, or the service is stopping",
        504: "The deadline has passed",
    }.items()
}
_NUMBERS = 1 << 62


def add_endpoints(app: FastAPI, models: Models, limits: Limits, bodies: Bodies) -> None:
    """Add the endpoints.

    Args:
        app: The application.
        models: Its models.
        limits: Limits of requests.
        bodies: Classes of the requests' bodies.
    """
    Translating, Classifying, Generating, Attending = bodies.translate, bodies.classify, bodies.generate, bodies.attention

    @app.post("/v1/translate", response_model=answers.Translations, responses=_REFUSALS)
    async def translate(body: Translating, request: Request) -> Response:
        """Translate texts."""
        settings = _settings(body, "texts")
        operation = Translate(most_beam=limits.beam, most_tokens=limits.tokens, **settings)
        return await _answer(request, body, operation, [*map(Work, body.texts)], "translations")  # type: ignore[attr-defined]

    @app.post("/v1/classify", response_model=answers.Classifications, responses=_REFUSALS)
    async def classify(body: Classifying, request: Request) -> Response:
        """Label texts."""
        operation = Classify(**_settings(body, "texts"))
        return await _answer(request, body, operation, [*map(Work, body.texts)], "classifications")  # type: ignore[attr-defined]

    @app.post("/v1/generate", response_model=answers.Generations, responses=_REFUSALS)
    async def generate(body: Generating, request: Request) -> Response:
        """Continue prompts.

        With `stream` (the default), the answer is a stream of server-sent events. Each event contains a new part of a text;
        the last one contains `done` and the whole result, or `error`.
        """
        settings = _settings(body, "prompts", "stream")
        seed = settings.pop("seed")
        operation = Generate(most_tokens=limits.tokens, seed=seed or 0, **settings)
        prompts: Sequence[str] = body.prompts  # type: ignore[attr-defined]
        # Without a seed, each prompt gets a random number, so that it can still share a batch with other prompts.
        numbers = range(len(prompts)) if seed is not None else [secrets.randbelow(_NUMBERS) for _ in prompts]
        works = [Work(prompt, number=number) for prompt, number in zip(prompts, numbers, strict=True)]
        if not body.stream:  # type: ignore[attr-defined]
            return await _answer(request, body, operation, works, "generations")
        batcher = models.find(body.model, Generate)  # type: ignore[attr-defined]
        _note(request, batcher.name, works)
        lines = submit_stream(
            batcher, operation, works, _seconds(body), lambda results: {"model": batcher.name, "generations": results}
        )
        return StreamingResponse(lines, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    @app.post("/v1/attention", response_model=answers.Records, responses=_REFUSALS)
    async def attention(body: Attending, request: Request) -> Response:
        """Return the attention of predictions, of given translations, or of texts that a language model reads."""
        texts, targets, sites = body.texts, body.targets, body.sites  # type: ignore[attr-defined]
        if targets is not None and len(targets) != len(texts):
            message = f"got {len(texts)} texts and {len(targets)} targets, expected the same number of each"
            raise ServiceError(422, "invalid_request", message)
        operation = Attend(
            most_tokens=limits.tokens,
            most_weights=limits.attention_weights,
            sites=None if sites is None else tuple(sites),
            forced=targets is not None,
        )
        works = [Work(text, target) for text, target in zip(texts, targets or [None] * len(texts), strict=True)]
        return await _answer(request, body, operation, works, "records")

    async def _answer(request: Request, body: Any, operation: Operation, works: Sequence[Work], name: str) -> Response:
        batcher = models.find(body.model, type(operation))
        _note(request, batcher.name, works)
        results = await wait(batcher, operation, works, _seconds(body), lambda: _gone(request))
        return JSONResponse({"model": batcher.name, name: results})

    def _seconds(body: Any) -> float:
        return min(body.timeout or limits.deadline_seconds, limits.deadline_seconds)


def _settings(body: Any, *others: str) -> dict[str, Any]:
    """Return the fields of a body that are settings of its operation."""
    return {name: value for name, value in body if name not in (*others, *Body.model_fields)}


async def _gone(request: Request) -> None:
    """Wait until the client closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _note(request: Request, model: str, works: Sequence[Work]) -> None:
    """Store the model and the size of the request for the log."""
    facts: Mapping[str, Any] = {"model": model, "texts": len(works), "characters": sum(work.size for work in works)}
    request.state.facts.update(facts)
