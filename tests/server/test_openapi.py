"""Whatever a client sends that the API's own description allows, or does not: an answer that the description promises."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.server.running import RunningServer

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SOME, MANY = 12, 120
SECONDS = 300
"""The first assignment on a machine compiles the solver, which takes a minute where the machine is busy."""
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example]


def ask_everything(server: RunningServer, each: int) -> int:
    """Send so many requests to every operation of the API, made up from its description. Returns how many were sent."""
    described = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    sent = 0
    for found in described.get_all_operations():
        operation: Any = found.ok()

        @settings(max_examples=each, deadline=None, suppress_health_check=QUIET, database=None)
        @seed(each)
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            nonlocal sent
            sent += 1
            case.call_and_validate(checks=CHECKS, timeout=SECONDS)

        ask()
    return sent


def test_every_call_stands_in_one_described_group(magistrate_server: RunningServer) -> None:
    described = httpx.get(f"{magistrate_server.url}/openapi.json").json()
    groups = [group["name"] for group in described["tags"] if group["description"]]
    used = [call["tags"] for calls in described["paths"].values() for call in calls.values()]
    assert {len(tags) for tags in used} == {1}
    assert {tags[0] for tags in used} == set(groups)


def test_some_requests_to_everything(magistrate_server: RunningServer) -> None:
    assert ask_everything(magistrate_server, SOME) > 100


@pytest.mark.stress
def test_many_requests_to_everything(magistrate_server: RunningServer) -> None:
    assert ask_everything(magistrate_server, MANY) >= 2000
