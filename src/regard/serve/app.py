"""The service as an ASGI application: models, endpoints, pages and metrics."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Route

from regard.serve import pages
from regard.serve.bodies import Bodies, build_bodies, refusal
from regard.serve.endpoints import add_endpoints
from regard.serve.errors import ServiceError, error_body
from regard.serve.guard import Guard
from regard.serve.limits import DEFAULT_LIMITS, Limits
from regard.serve.living import LivingPages, Write, write_page
from regard.serve.metrics import Metrics
from regard.serve.models import Models
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
    write: Write = write_page,
) -> Guard:
    """Load models and build the service.

    Args:
        folders: Folders of the models by name.
        load: Function that loads a folder.
        limits: Limits of requests, queues and batches.
        token: Secret that requests must contain; empty to accept requests without one.
        hosts: Accepted host names of requests, in lower case, besides IP addresses; None for any.
        reload_seconds: Seconds between two checks for newer models; 0 for no checks.
        home: HTML document to show at `/`; empty for the living page of a model or, if there are several, the list of models.
        write: Function that writes living pages.

    Returns:
        An ASGI application.

    Raises:
        BundleError: If a folder is not a trained model.
    """
    metrics = Metrics()
    models = Models(folders, load, limits, metrics)
    living = LivingPages(write)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        models.start(reload_seconds)
        yield
        await living.stop()
        await models.stop()

    app = FastAPI(
        title="regard",
        version=__version__,
        description="Translate, classify and generate text with trained models, and see their attention.",
        docs_url=None,  # FastAPI's page loads scripts from the network
        redoc_url=None,
        lifespan=lifespan,
    )
    bodies = build_bodies(limits)
    _add_errors(app, bodies)
    add_endpoints(app, models, limits, bodies)
    guard = Guard(cast(Any, app), limits=limits, metrics=metrics, token=token, hosts=hosts)
    _add_pages(app, models, metrics, guard)
    _add_home(app, models, living, home)
    guard.paths = {route.path: route.methods or () for route in app.routes if isinstance(route, Route)}
    return guard


def _add_errors(app: FastAPI, bodies: Bodies) -> None:
    """Add handlers that turn every error into a JSON answer."""
    expected = {f"/v1/{name}": body for name, body in vars(bodies).items()}

    @app.exception_handler(ServiceError)
    async def refuse(_: Request, error: ServiceError) -> Response:
        return JSONResponse(error.to_dict(), error.status, dict(error.headers))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return await refuse(request, refusal(error, expected.get(request.url.path)))

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> Response:
        code = _CODES.get(error.status_code, "refused")
        return JSONResponse(
            error_body(error.status_code, code, str(error.detail)), error.status_code, dict(error.headers or {})
        )


def _add_pages(app: FastAPI, models: Models, metrics: Metrics, guard: Guard) -> None:
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
        ready = models.ready and not guard.draining
        return JSONResponse({"status": "ready" if ready else "not ready"}, 200 if ready else 503)

    @app.get("/metrics", include_in_schema=False)
    async def count() -> Response:
        return Response(metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/docs", include_in_schema=False)
    async def document() -> Response:
        return HTMLResponse(pages.reference(app.openapi()))


def _add_home(app: FastAPI, models: Models, living: LivingPages, home: str) -> None:
    """Add the page at `/`: a given one, the living page of a model, or the list of the models."""

    @app.get("/", include_in_schema=False)
    async def show(model: str = "") -> Response:
        if home:
            return HTMLResponse(home)
        served = models.served
        name = model or (next(iter(served)) if len(served) == 1 else "")
        page = living.find(served[name]) if name in served else ""
        if isinstance(page, Path):
            return FileResponse(page, media_type="text/html", headers={"Cache-Control": "no-cache"})
        waits = page is None
        note = "The page of this model is being written, which takes some seconds." if waits else page and f"No page: {page}"
        return HTMLResponse(pages.home([one.describe() for one in served.values()], note or "", waits=waits))
