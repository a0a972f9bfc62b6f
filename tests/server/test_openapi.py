"""Whatever a client sends that the API's own description allows, or does not: an answer that the description promises."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
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
SOME, MANY = 12, 100
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example]


@pytest.fixture(scope="session")
def described(magistrate_server: RunningServer) -> Any:
    return schemathesis.openapi.from_url(f"{magistrate_server.url}/openapi.json")


api = schemathesis.pytest.from_fixture("described")


@api.parametrize()
@settings(max_examples=SOME, deadline=None, suppress_health_check=QUIET)
def test_some_of_each(case: schemathesis.Case[Any]) -> None:
    case.call_and_validate(checks=CHECKS, timeout=60)


@pytest.mark.stress
@api.parametrize()
@settings(max_examples=MANY, deadline=None, suppress_health_check=QUIET)
def test_many_of_each(case: schemathesis.Case[Any]) -> None:
    case.call_and_validate(checks=CHECKS, timeout=60)
