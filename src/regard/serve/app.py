"""The service as an ASGI application: models, endpoints, pages and metrics."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Route

from regard.serve import pages
from regard.serve.endpoints import add_endpoints
from regard.serve.errors import ServiceError
from regard.serve.limits import DEFAULT_LIMITS, Limits
from regard.serve.metrics import Metrics
from regard.serve.middleware import Middleware
from regard.serve.models import Models
from regard.serve.request_models import Endpoint, find_endpoints, refusal
from regard.version import __version__

_CODES = {400: "invalid_json", 404: "not_found", 405: "wrong_method"}


def build_app(
    folders: Mapping[str, Path],
    *,
    load: Callable[[Path], Any],
    limits: Limits = DEFAULT_LIMITS,
    token: str = "",
    hosts: Collection[str] | None = None,
    reload_seconds: float = 2.0,
    home: str = "",
) -> Middleware:
    """Load models from their folders by name, and build the service as an ASGI application.

    Args:
        folders: Folders of the models by name.
        load: Function that loads a folder.
        limits: Limits of requests, queues and batches.
        token: Secret that requests must contain; empty to accept requests without one.
        hosts: Accepted host names of requests, in lower case, besides IP addresses; None for any.
        reload_seconds: Seconds between two checks for newer models; 0 for no checks.
        home: HTML document to show at `/`, such as a page that `regard page` wrote; empty for the list of models.
    """
    metrics = Metrics()
    models = Models(folders, load, limits, metrics)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        models.start(reload_seconds)
        yield
        await models.stop()

    app = FastAPI(
        title="regard",
        version=__version__,
        description="Predict with trained models, and see their attention.",
        docs_url=None,  # FastAPI's page loads scripts from the network
        redoc_url=None,
        lifespan=lifespan,
    )
    endpoints = find_endpoints(limits)
    _add_errors(app, endpoints)
    add_endpoints(app, models, limits, endpoints)
    middleware = Middleware(cast(Any, app), limits=limits, metrics=metrics, token=token, hosts=hosts)
    _add_pages(app, models, metrics, middleware, home)
    # Only known paths become labels of metrics; others could be any number of different texts.
    middleware.paths = {route.path: route.methods or () for route in app.routes if isinstance(route, Route)}
    return middleware


def _add_errors(app: FastAPI, endpoints: Sequence[Endpoint]) -> None:
    """Add handlers that turn every error into a JSON answer."""
    expected = {f"/v1/{endpoint.name}": endpoint.body for endpoint in endpoints}

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return refusal(error, expected.get(request.url.path)).response()

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> Response:
        if isinstance(error, ServiceError):
            return error.response()
        code = _CODES.get(error.status_code, "refused")
        return ServiceError(error.status_code, code, str(error.detail), error.headers).response()


def _add_pages(app: FastAPI, models: Models, metrics: Metrics, middleware: Middleware, home: str) -> None:
    """Add the endpoints that need no model."""

    @app.get("/v1/models")
    async def list_models() -> Response:
        """List the models."""
        return JSONResponse({"models": [served.describe() for served in models.served.values()]})

    @app.get("/healthz", include_in_schema=False)
    async def healthy() -> Response:
        return JSONResponse({"status": "ok"})

    @app.get("/readyz", include_in_schema=False)
    async def ready() -> Response:
        ready = models.ready and not middleware.draining
        return JSONResponse({"status": "ready" if ready else "not ready"}, 200 if ready else 503)

    @app.get("/metrics", include_in_schema=False)
    async def count() -> Response:
        return Response(metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/docs", include_in_schema=False)
    async def document(request: Request) -> Response:
        return HTMLResponse(pages.reference(app.openapi(), str(request.base_url).rstrip("/")))

    @app.get("/", include_in_schema=False)
    async def show() -> Response:
        return HTMLResponse(home or pages.home([served.describe() for served in models.served.values()]))
