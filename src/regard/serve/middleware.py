"""The middleware of the service: it checks a request, limits its body, logs and counts it, and hides tracebacks."""

import asyncio
import base64
import binascii
import hmac
import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from regard.serve.errors import ServiceError
from regard.serve.limits import Limits
from regard.serve.log import log, places
from regard.serve.metrics import Metrics

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

# Paths that need no token, and no accepted host name, because programs that watch a container use many.
_OPEN = frozenset({"/healthz", "/readyz"})
# IP addresses: the name of a web site has a letter in its last part, and no brackets.
_ADDRESS = re.compile(r"[0-9.]+|\[[0-9a-f:.]+\]")
_CLOSE = {"Connection": "close"}
_GONE = ServiceError(499, "client_closed", "the client closed the connection")


class Middleware:
    """An ASGI application that wraps another one, and checks, counts and logs its requests; see `build_app`."""

    def __init__(
        self, app: App, *, limits: Limits, metrics: Metrics, token: str = "", hosts: Collection[str] | None = None
    ) -> None:
        self._app, self._limits, self._metrics = app, limits, metrics
        self._token, self._hosts = token.encode("utf-8", "surrogateescape"), hosts
        self.paths: Mapping[str, Collection[str]] = {}
        """Methods that the inner application answers, by path."""
        self.draining = False
        """Whether the service is about to stop. It then answers the accepted requests and closes connections."""

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        facts: dict[str, Any] = {}
        answer = _Answer(send, uuid.uuid4().hex, lambda: self.draining)
        scope.setdefault("state", {})["facts"] = facts
        start = time.perf_counter()
        try:
            self._check(scope)
            await self._app(scope, _Body(receive, self._limits), answer)
        except ServiceError as error:
            await answer.refuse(error)
        except asyncio.CancelledError:
            await answer.refuse(ServiceError(503, "stopping", "the service stopped before the answer was complete", _CLOSE))
            raise
        except Exception as error:
            trace = places(error.__traceback__)
            log("error", level=logging.ERROR, id=answer.id, error=type(error).__name__, places=trace)
            await answer.refuse(ServiceError(500, "internal", f"internal error; its number in the log is {answer.id}"))
        finally:
            self._finish(scope, answer, time.perf_counter() - start, facts)

    def _check(self, scope: Mapping[str, Any]) -> None:
        """Check host, token and content type."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["path"] not in _OPEN:
            name = re.sub(r":[0-9]*$", "", headers.get("host", "").lower())
            if self._hosts is not None and name not in self._hosts and not _ADDRESS.fullmatch(name):
                message = "the header 'Host' has an unexpected name; if you use this name for the service, start it with "
                raise ServiceError(421, "wrong_host", f"{message}--allow-host NAME or, for any name, with a token")
            given = _given_token(headers.get("authorization", ""))
            # The time of the comparison does not depend on how many characters are right.
            if self._token and not hmac.compare_digest(given, self._token):
                message = "a token is needed: send the header 'Authorization: Bearer TOKEN'"
                raise ServiceError(401, "unauthorized", message, {"WWW-Authenticate": 'Basic realm="regard"'})
        if "POST" in self.paths.get(scope["path"], ()) and scope["method"] == "POST":
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json" or headers.get("content-encoding", "identity").lower() != "identity":
                message = "the body must be plain JSON: send the header 'Content-Type: application/json'"
                raise ServiceError(415, "not_json", message)

    def _finish(self, scope: Mapping[str, Any], answer: "_Answer", seconds: float, facts: Mapping[str, Any]) -> None:
        route = scope["path"] if scope["path"] in self.paths else "other"
        self._metrics.requests.labels(route, str(answer.status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        shown = {"id": answer.id, "method": scope["method"], "route": route, "status": answer.status, **facts}
        log("request", milliseconds=round(seconds * 1000, 2), **shown)


class _Answer:
    """A function that sends an answer with some further headers, and stores its status; 0 before the answer begins."""

    def __init__(self, send: Send, number: str, closes: Callable[[], bool]) -> None:
        self._send, self.id, self._closes = send, number, closes
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            further = [(b"x-request-id", self.id.encode()), (b"x-content-type-options", b"nosniff")]
            if self._closes():
                further.append((b"connection", b"close"))
            message = {**message, "headers": [*message.get("headers", ()), *further]}
        await self._send(message)

    async def refuse(self, error: ServiceError) -> None:
        """Send an error as the answer, unless an answer was already started."""
        if self.status:
            return
        response = error.response()
        await self({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
        await self({"type": "http.response.body", "body": response.body})


class _Body:
    """A function that receives the parts of a request's body, and checks their total size and time."""

    def __init__(self, receive: Receive, limits: Limits) -> None:
        self._receive, self._limits = receive, limits
        self._size, self._end, self._complete = 0, time.monotonic() + limits.body_seconds, False

    async def __call__(self) -> Message:
        """Return the next message; the body may be neither too large nor too slow."""
        if self._complete:
            return await self._receive()
        try:
            async with asyncio.timeout(self._end - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            words = f"the body did not arrive within {self._limits.body_seconds:g} seconds"
            raise ServiceError(408, "too_slow", words, _CLOSE) from None
        if message["type"] == "http.disconnect":
            raise _GONE
        self._size += len(message.get("body", b""))
        self._complete = not message.get("more_body")
        if self._size > self._limits.body_bytes:
            size = f"{self._limits.body_bytes:,} bytes"
            raise ServiceError(413, "too_large", f"the body is too large, expected at most {size}", _CLOSE)
        return message


def _given_token(header: str) -> bytes:
    """Return the token of an Authorization header: a bearer token, or a password from the browser; empty for other headers."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip(" \t").encode("latin-1")  # only these two: in Latin-1, other bytes of a token may mean spaces
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""
