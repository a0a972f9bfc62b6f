from __future__ import annotations

import pytest
from fastapi import Request

from server.routes.shared import somebody_waits


@pytest.mark.parametrize(
    ("header", "waits"),
    [
        (None, True),
        ("", True),
        ("u=3", True),
        ("u=0, i", True),
        ("u=7", False),
        ("i, u=7", False),
        ("u=7;x", False),
        ("u=77", True),
    ],
)
def test_only_the_lowest_urgency_means_that_nobody_waits(header: str | None, waits: bool) -> None:
    headers = [] if header is None else [(b"priority", header.encode())]
    assert somebody_waits(Request({"type": "http", "headers": headers})) is waits
