"""Puts everything that guards an application around it, in the order in which it must stand."""

from __future__ import annotations

from fastapi import FastAPI

from server.errors import install_error_handlers
from server.metrics import Metrics
from server.safety.answers import Answers
from server.safety.callers import KeysFirst
from server.safety.head import HeadAsGet
from server.safety.limits import BodyLimit, HostCheck, PageHeaders, RequestId
from server.safety.stopped import StoppedCalls
from server.settings import Settings


def protect(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    """Guard an application that does not run yet. Its ``state`` must have a store by the time of the first request.

    From the outside in: the request's id, which all that follows may name; the log and the figures, which see every answer;
    what a stopping server says to those it cannot wait for; headers for browsers; the limits of the body, which also close a
    connection on which any of the following answers before the body has come; the host; the key; and what makes a ``HEAD`` of
    a ``GET``.
    """
    app.state.settings = settings
    app.state.metrics = metrics
    install_error_handlers(app)
    # Starlette puts what is added last outermost.
    app.add_middleware(HeadAsGet)
    app.add_middleware(KeysFirst)
    app.add_middleware(HostCheck, settings=settings)
    app.add_middleware(BodyLimit, settings=settings)
    app.add_middleware(PageHeaders)
    app.add_middleware(StoppedCalls)
    app.add_middleware(Answers, metrics=metrics)
    app.add_middleware(RequestId)
