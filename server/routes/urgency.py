"""Whether somebody waits for an answer, as a client says it by the ``Priority`` header (RFC 9218)."""

from __future__ import annotations

import re

from fastapi import Request

BACKGROUND = re.compile(r"(?:^|,)\s*u=7\s*(?:$|[,;])")
"""Urgency 7, which the RFC keeps for what is done in the background."""


def somebody_waits(request: Request) -> bool:
    """False for ``Priority: u=7``: such a call comes after those of people, like the lines of a batch."""
    return BACKGROUND.search(request.headers.get("priority", "")) is None
