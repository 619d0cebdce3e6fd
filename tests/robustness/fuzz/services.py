"""Targets that strangers reach: the bodies of requests to the service, and the data of a page."""

import asyncio
import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from fuzz.bundles import bundles
from fuzz.engine import Target
from fuzz.files import JSON

import regard
from regard.errors import RequestError
from regard.export.page import join
from regard.serve.app import build_app
from regard.serve.limits import Limits
from regard.serve.request_models import find_endpoints

PATHS = ("/v1/translate", "/v1/classify", "/v1/generate", "/v1/attention")
SMALL = Limits(texts=4, characters=200, attention_characters=100, beam=3, samples=3, tokens=6, batch=4, window_ms=0)
FIELDS = sorted({name for endpoint in find_endpoints(SMALL) for name in endpoint.body.model_fields})

_KEPT: list[Any] = []
"""Applications: their loops must not be collected while something waits in them."""


class _Application:
    """An ASGI application, called without a server."""

    def __init__(self, app: Any) -> None:
        self._app, self._loop = app, asyncio.new_event_loop()
        self._begun: asyncio.Queue[Any] = asyncio.Queue()
        self._lifespan = self._loop.create_task(app({"type": "lifespan"}, self._wait, self._begun.put))
        told = self._loop.run_until_complete(self._begun.get())
        assert told["type"] == "lifespan.startup.complete", told
        self._started = True

    async def _wait(self) -> dict[str, str]:
        if self._begun.empty() and not hasattr(self, "_started"):
            return {"type": "lifespan.startup"}
        return await asyncio.Event().wait()  # for ever: the service does not stop

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the answer."""
        scope: dict[str, Any] = {"type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "root_path": ""}
        scope |= {"path": path, "raw_path": path.encode(), "query_string": b""}
        scope |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}
        scope["headers"] = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        parts: list[dict[str, Any]] = []
        incoming = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> dict[str, Any]:
            return next(incoming, None) or await asyncio.Event().wait()

        async def send(message: dict[str, Any]) -> None:
            parts.append(message)

        self._loop.run_until_complete(self._app(scope, receive, send))
        return parts[0]["status"], b"".join(part.get("body", b"") for part in parts[1:])


def _service(folder: Path) -> Callable[[bytes], object]:
    torch.set_num_threads(1)
    app = build_app(bundles(folder), load=lambda run: regard.load(run, device="cpu"), limits=SMALL, reload_seconds=0)
    application = _Application(app)
    _KEPT.append(application)

    def run(data: bytes) -> None:
        path, _, body = data.partition(b"\n")
        status, answer = application.post(PATHS[sum(path) % len(PATHS)], body)
        text = answer.decode()
        assert status != 500, text[:500]
        assert '"status": 500' not in text, text[:500]
        if status == 200:
            return
        error = json.loads(text)["error"]
        assert set(error) == {"status", "code", "message"}, text[:500]
        assert error["status"] == status, text[:500]
        assert all(character.isprintable() or character == "\n" for character in error["message"]), text[:500]
        raise RequestError(error["message"])

    return run


def _bodies() -> list[bytes]:
    texts = [{"texts": ["she kissed him ."]}, {"texts": ["a", "b c"], "model": "translation", "beam_size": 2, "n_best": 2}]
    attention = {"texts": ["a b"], "model": "translation", "targets": ["a"], "sites": ["cross"]}
    prompts = [{"prompts": ["a"], "stream": False, "seed": 1}, {"prompts": ["a"]}]
    others = [{"texts": ["a"], "model": "classification"}, {"texts": ["a"], "model": "language"}]
    bodies = {0: texts, 1: [{"texts": ["a"], "top_k": 1}], 2: prompts, 3: [attention, *others]}
    return [bytes([number]) + b"\n" + json.dumps(body).encode() for number, each in bodies.items() for body in each]


class _Outline(HTMLParser):
    """The elements of a document with their attributes, and the texts of its title and its data."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.elements: list[Any] = []
        self.texts: dict[str, str] = {}
        self._inside = ""
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, attrs))
        self._inside = dict(attrs).get("id") or tag

    def handle_endtag(self, tag: str) -> None:
        """Note the end of an element."""
        self.elements.append(tag)
        self._inside = ""

    def handle_comment(self, data: str) -> None:
        """Note a comment."""
        self.elements.append(f"<!--{data}")

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.texts[self._inside] = self.texts.get(self._inside, "") + data


def _page(folder: Path) -> Callable[[bytes], object]:
    facts = join.read_library()[2]

    def outline(given: dict[str, Any], title: str) -> _Outline:
        with patch.object(join, "read_library", lambda: ("/* the library */", b"x", facts)):  # megabytes otherwise
            return _Outline(join.build_document(given, {}, title=title))

    plain = outline({"models": []}, "title")

    def run(data: bytes) -> None:
        text = data.decode("utf-8", errors="replace")
        words = text.split("\n")
        model = {"name": words[0], "labels": words, "target": {"tokens": words, text: words}, "card": text}
        given = {"models": [model], "examples": words}
        found = outline(given, words[0])
        assert found.elements == plain.elements
        assert {**json.loads(found.texts["data"]), "onnxruntime": None} == {**given, "onnxruntime": None}
        assert found.texts.get("title", "") == words[0]

    return run


HOSTILE = (
    b"</script> <script> <!-- --> <![CDATA[ ]]> </title> <img/src=x/onerror=alert(1)> {{DATA}} {{SCRIPT}} \\1 \\g<0> &lt; "
    b"&#60; ' \" `${1}` __proto__ constructor \\u003c/script>"
).split(b" ")
SERVICES = (
    Target("service", _service, _bodies, [*JSON, *(f'"{name}"'.encode() for name in FIELDS)]),
    Target("page", _page, lambda: [b"she kissed him .\n</script><script>alert(1)</script>", "kü\u2028ßte".encode()], HOSTILE),
)
