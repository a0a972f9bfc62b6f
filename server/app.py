"""The server: its routes, what stands in front of them, and what runs behind."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import metadata

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from server.batches.desk import Desk
from server.court import Court
from server.hosting.models_file import ModelsFile
from server.metrics import Metrics
from server.pages.pages import add_pages
from server.pages.published import Published
from server.routes import assignments, batches, completions, files, judges, judgments, models, operations
from server.safety.callers import KeysFirst
from server.safety.protection import protect
from server.settings import Settings
from server.store import Store

DRAIN_SECONDS = 30.0
"""Seconds that a stopping server waits for lines in progress."""

ABOUT = """\
Judges of text, on your own hardware. Start with `GET /v1/judges`: each comes with a request that works as it stands.

Files and batches are OpenAI's: point its client here (`base_url="http://HOST:8700/v1"`).
"""


def create_app(settings: Settings, hosted: ModelsFile, store: Store) -> FastAPI:
    """A server that loads its models and takes up its batches once it runs.

    Args:
        settings: How it listens and what it refuses.
        hosted: The models.
        store: Opened; it is closed when the server stops.
    """
    metrics = Metrics()
    metrics.watch_queue(store.depth)

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncGenerator[None, None]:
        court = Court(hosted, settings, metrics, store.adapters())
        desk = Desk(store, court, metrics)
        app.state.court, app.state.desk = court, desk
        court.begin()
        await desk.open()
        try:
            yield
        finally:
            await desk.close(DRAIN_SECONDS)
            await court.close()
            store.close()

    app = FastAPIOffline(  # the page of the API, from files that come with it: a court may have no way out to the internet
        title="Magistrate",
        description=ABOUT,
        version=metadata.version("magistrate"),
        lifespan=running,
        docs_url=None,
        redoc_url=None,
    )
    app.state.store = store
    for routes in (judgments, judges, models, files, batches, completions, assignments, operations):
        app.include_router(routes.router)
    add_pages(app)
    published = Published(directory=settings.dashboards, html=True, check_dir=False)
    app.mount("/dashboards", KeysFirst(published, prefix="/dashboards"))
    protect(app, settings, metrics)
    return app
