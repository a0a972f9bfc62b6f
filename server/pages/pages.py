"""The pages for a browser: the models, a caller's batches and their results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from fastapi.templating import Jinja2Templates
from jinja2 import Environment, PackageLoader, StrictUndefined

from evals.reports.html import coded
from evals.reports.verdict_page import page_policy
from evals.reports.wording import plain
from judges.errors import MagistrateError
from server.errors import LONGEST_MESSAGE, ApiError, fault_of, printable
from server.pages.viewing import LINES_VIEWED, viewed
from server.pages.wording import BATCH_WORDS, MODEL_WORDS, human_time, machine_time, number, read_result
from server.routes.batches import BATCH_ID
from server.routes.files import error_file_id, output_file_id
from server.routes.shared import ENDED, LONGEST_ID, PoolNow, StoreNow
from server.safety.callers import Caller, CallerNow
from server.safety.middleware import PAGE_POLICY
from server.store import BatchRecord, Store

BATCHES_SHOWN = 20
RESULTS_SHOWN = 20
LINES_SHOWN = 50
LAST_LINE = 2**63 - 1

DOCS_POLICY = f"{PAGE_POLICY}; img-src 'self' data:"
"""Swagger's style sheet embeds its pictures."""

FAULTS = {401: "This server requires a key", 404: "There is no such page", 429: "Too many calls", 503: "Not available now"}


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("server.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=plain,  # applied to everything that a template shows, so that no text of a caller's is missed
    )
    environment.filters |= {"number": number, "human_time": human_time, "machine_time": machine_time, "coded": coded}
    environment.globals |= {"batch_words": BATCH_WORDS, "model_words": MODEL_WORDS, "ended": ENDED}
    return environment


_templates = Jinja2Templates(env=_environment())


class PageRoute(APIRoute):
    """A route whose faults are pages too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler so that a fault becomes a page."""
        answer = super().get_route_handler()

        async def answer_in_html(request: Request) -> Response:
            try:
                return await answer(request)
            except (MagistrateError, RequestValidationError) as error:
                fault = fault_of(error)
                if fault is None:
                    raise
                return await asyncio.to_thread(_fault_page, request, fault)

        return answer_in_html


router = APIRouter(include_in_schema=False, route_class=PageRoute)


def add_pages(app: FastAPI) -> None:
    """Add the pages to an application. Its ``state`` must have a store, settings, a pool and batches by the first request.

    Args:
        app: With the files of FastAPIOffline, but without its page, whose inline script the page policy forbids.
    """
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")


@router.get("/dashboards/")
def dashboards(request: Request, caller: CallerNow) -> Response:
    """List what studies have published."""
    folder: Path = request.app.state.settings.dashboards
    names = sorted(page.parent.name for page in folder.glob("*/index.html")) if folder.is_dir() else []
    return _page(request, "dashboards.html", {"caller": caller.name, "names": names, "folder": folder.name})


@router.get("/")
def front(
    request: Request,
    caller: CallerNow,
    store: StoreNow,
    pool: PoolNow,
    after: Annotated[str | None, Query(max_length=LONGEST_ID)] = None,
) -> Response:
    """Show the models, the caller's batches and the latest results."""
    batches = store.batches(caller.name, after=after, limit=BATCHES_SHOWN + 1)
    context = {
        "models": list(pool.models.values()),
        "paused": request.app.state.batches.paused,
        "batches": batches[:BATCHES_SHOWN],
        "older": batches[BATCHES_SHOWN - 1].id if len(batches) > BATCHES_SHOWN else None,
        "after": after,
        "lines": [read_result(result) for result in store.recent_results(caller.name, RESULTS_SHOWN)],
        "address": str(request.base_url),
        "with_key": not request.app.state.settings.open,
    }
    return _page(request, "front.html", {"caller": caller.name, **context})


@router.get("/batches/{batch_id}")
def batch(
    request: Request,
    caller: CallerNow,
    store: StoreNow,
    batch_id: str,
    after: Annotated[int, Query(ge=0, le=LAST_LINE)] = 0,
    failed: bool = False,
) -> Response:
    """Show a batch, and its results in the order of its lines.

    Args:
        after: Number of the line to start after.
        failed: Whether only lines that failed are shown.
    """
    record = _own_batch(store, caller, batch_id)
    results = list(islice(store.results(record.id, failed=failed or None, after_line=after), LINES_SHOWN + 1))
    lines = [read_result(result) for result in results[:LINES_SHOWN]]
    context = {
        "paused": request.app.state.batches.waits_because(record),
        "batch": record,
        "file": store.file(record.input_file_id, caller.name),
        "output_file": output_file_id(record),
        "error_file": error_file_id(record) if record.failed else None,
        "lines": lines,
        "after": after,
        "failed": failed,
        "viewed": LINES_VIEWED,
        # At most this many lines lie in between, so none is skipped.
        "before": max(0, lines[0].number - 1 - LINES_SHOWN) if after and lines and not failed else None,
        "next": lines[-1].number if len(results) > LINES_SHOWN else None,
    }
    return _page(request, "batch.html", {"caller": caller.name, **context})


@router.get("/batches/{batch_id}/verdicts")
def verdicts(
    caller: CallerNow, store: StoreNow, batch_id: str, after: Annotated[int, Query(ge=0, le=LAST_LINE)] = 0
) -> StreamingResponse:
    """Show a batch's verdicts with their prompts, to be filtered by status and score: at most ``LINES_VIEWED`` lines."""
    record = _own_batch(store, caller, batch_id)
    headers = {"content-security-policy": f"{page_policy()}; frame-ancestors 'none'", "cache-control": "no-store"}
    return StreamingResponse(viewed(store, record, after), media_type="text/html; charset=utf-8", headers=headers)


@router.get("/docs")
def docs(request: Request) -> Response:
    """Show the reference of the API, in which calls can be tried."""
    return _templates.TemplateResponse(request, "docs.html", headers={"content-security-policy": DOCS_POLICY})


def _own_batch(store: Store, caller: Caller, batch_id: str) -> BatchRecord:
    record = store.batch(batch_id, caller.name) if BATCH_ID.fullmatch(batch_id) else None
    if record is None:
        raise ApiError(404, "You have no batch with this id.")
    return record


def _fault_page(request: Request, fault: ApiError) -> Response:
    title = FAULTS.get(fault.status, "This page cannot be shown")
    message = printable(fault.message, LONGEST_MESSAGE)
    context = {"title": title, "message": message, "unknown": fault.status == 401, "caller": None}
    response = _page(request, "fault.html", context, fault.status)
    for name, value in fault.headers:
        response.headers.append(name, value)
    return response


def _page(request: Request, template: str, context: dict[str, Any], status: int = 200) -> Response:
    headers = {"cache-control": "no-store"}
    return _templates.TemplateResponse(request, template, {"now": int(time.time()), **context}, status, headers)
