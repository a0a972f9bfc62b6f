"""The server: its routes, the middleware in front of them, and the models and batches behind them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import metadata

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from server.batches.service import BatchService
from server.errors import install_error_handlers
from server.hosting.models_file import ModelsFile
from server.metrics import Metrics
from server.model_pool import ModelPool
from server.pages.pages import add_pages
from server.pages.published import Published
from server.routes import assignments, batches, files, inference, judges, models, operations
from server.routes.tags import DESCRIPTIONS
from server.safety.callers import KeysFirst
from server.safety.limits import BodyLimit, HostCheck
from server.safety.middleware import HeadAsGet, PageHeaders, RequestId, RequestLog, StoppedCalls
from server.settings import Settings
from server.store import Store

DRAIN_SECONDS = 30.0
"""Seconds that a stopping server waits for lines in progress."""

ABOUT = """\
Judges of text, on your own hardware. Start with `GET /v1/judges`: each comes with a request that works as it stands.

Files and batches are OpenAI's: point its client here (`base_url="http://HOST:8700/v1"`).
"""


def create_app(settings: Settings, hosted: ModelsFile, store: Store) -> FastAPI:
    """Make a server that loads its models and resumes its batches once it runs.

    Args:
        settings: How it listens and what it refuses.
        hosted: The models.
        store: An open store, which is closed when the server stops.
    """
    metrics = Metrics()
    metrics.watch_queue(store.depth)

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncGenerator[None, None]:
        pool = ModelPool(hosted, settings, metrics, store.adapters())
        batches = BatchService(store, pool, metrics)
        app.state.pool, app.state.batches = pool, batches
        pool.begin()
        await batches.open()
        try:
            yield
        finally:
            await batches.close(DRAIN_SECONDS)
            await pool.close()
            store.close()

    app = FastAPIOffline(  # serves the API page from its own files: a server may have no way out to the internet
        title="Magistrate",
        description=ABOUT,
        openapi_tags=[{"name": tag, "description": description} for tag, description in DESCRIPTIONS.items()],
        version=metadata.version("magistrate"),
        lifespan=running,
        docs_url=None,
        redoc_url=None,
    )
    app.state.store = store
    for routes in (inference, judges, models, files, batches, assignments, operations):
        app.include_router(routes.router)
    add_pages(app)
    published = Published(directory=settings.dashboards, html=True, check_dir=False)
    app.mount("/dashboards", KeysFirst(published, prefix="/dashboards"))
    protect(app, settings, metrics)
    return app


def protect(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    """Put all middleware around an application that does not run yet. Its ``state`` must have a store by the first request.

    From the outside in: the request's id, which all that follows may name; the log and metrics, which see every answer; the
    answer of a stopping server; headers for browsers; limits of the body, which also close a connection on which an inner
    layer answers before the body was read; the host; the key; and ``HEAD`` as ``GET``.
    """
    app.state.settings = settings
    app.state.metrics = metrics
    install_error_handlers(app)
    # Starlette puts the last one added outermost.
    app.add_middleware(HeadAsGet)
    app.add_middleware(KeysFirst)
    app.add_middleware(HostCheck, settings=settings)
    app.add_middleware(BodyLimit, settings=settings)
    app.add_middleware(PageHeaders)
    app.add_middleware(StoppedCalls)
    app.add_middleware(RequestLog, metrics=metrics)
    app.add_middleware(RequestId)
