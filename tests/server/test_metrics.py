"""What is counted, and that there is an end of what it is counted by."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from judges.engines.engine import Usage
from server import metrics as module
from server.metrics import Metrics
from server.settings import Settings
from tests.server.live import client_of, small_app

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(metrics: Metrics) -> Samples:
    text, kind = metrics.exposition()
    assert kind.startswith("text/plain")
    families = text_string_to_metric_families(text.decode())
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for family in families for sample in family.samples}


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return read(metrics).get((f"magistrate_{name}", tuple(sorted(labels.items()))))


def test_every_name_begins_alike() -> None:
    text = Metrics().exposition()[0].decode()
    assert re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)
    assert all(name.startswith("magistrate_") for name in re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))


def test_two_servers_in_one_process_count_apart() -> None:
    one, two = Metrics(), Metrics()
    one.recorded(5, 0.1)
    assert value(one, "recorded_total") == 5
    assert value(two, "recorded_total") == 0


def test_verdicts_and_their_time() -> None:
    metrics = Metrics()
    metrics.judged("rubric", "scored", 0.2, "now")
    metrics.judged("rubric", "scored", 0.3, "batch")
    metrics.judged("rubric", "unscored", 0.3, "batch")
    assert value(metrics, "judgments_total", judge="rubric", status="scored") == 2
    assert value(metrics, "judgments_total", judge="rubric", status="unscored") == 1
    assert value(metrics, "judgment_seconds_count", judge="rubric", how="batch") == 2
    assert value(metrics, "judgment_seconds_sum", judge="rubric", how="now") == pytest.approx(0.2)


def test_tokens_by_kind() -> None:
    metrics = Metrics()
    for _ in range(2):
        metrics.tokens("tiny", Usage(prompt_tokens=100, cached_tokens=60, completion_tokens=7))
    counted = [value(metrics, "tokens_total", model="tiny", kind=kind) for kind in ("prompt", "cached", "completion")]
    assert counted == [200, 120, 14]


def test_a_model_is_in_one_state() -> None:
    metrics = Metrics()
    for state in ("loading", "ready", "failed", "ready"):
        metrics.model_is("tiny", state)
    metrics.engine_restarted("tiny")
    assert [value(metrics, "model_state", model="tiny", state=state) for state in ("loading", "ready", "failed")] == [0, 1, 0]
    assert value(metrics, "engine_restarts_total", model="tiny") == 1


def test_recording() -> None:
    metrics = Metrics()
    metrics.recorded(128, 0.004)
    metrics.recorded(0, 0.2)
    assert value(metrics, "recorded_total") == 128
    assert value(metrics, "record_seconds_count") == 2


def test_the_queue_is_counted_when_somebody_looks() -> None:
    metrics = Metrics()
    depth: dict[str, int] = {}
    asked: list[int] = []

    def lines() -> dict[str, int]:
        asked.append(1)
        return depth

    metrics.watch_queue(lines)
    assert not asked
    assert value(metrics, "queue_lines", model="tiny") is None
    depth |= {"tiny": 7, "": 3}
    assert value(metrics, "queue_lines", model="tiny") == 7
    assert value(metrics, "queue_lines", model="") == 3
    assert len(asked) == 3


def test_a_queue_that_cannot_be_counted_leaves_the_rest_to_be_seen(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()

    def broken() -> dict[str, int]:
        raise RuntimeError("the database is gone")

    metrics.watch_queue(broken)
    metrics.recorded(3, 0.1)
    assert value(metrics, "recorded_total") == 3
    assert "could not be counted" in caplog.text


def test_names_without_end_are_counted_as_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NAMES", 2)
    metrics = Metrics()
    for name in ("a", "b", "c", "d", "a"):
        metrics.judged(name, "scored", 0.1, "now")
    assert value(metrics, "judgments_total", judge="a", status="scored") == 2
    assert value(metrics, "judgments_total", judge="other", status="scored") == 2
    assert value(metrics, "judgments_total", judge="c", status="scored") is None


def test_labels_hold_any_text() -> None:
    metrics = Metrics()
    name = 'a"b\\c\nd{e="f"}'
    metrics.judged(name, "scored", 0.1, "now")
    assert value(metrics, "judgments_total", judge=name, status="scored") == 1


def test_answers_are_counted_by_route_and_never_by_address() -> None:
    app = small_app(Settings())

    @app.get("/v1/fails")
    async def fails() -> None:
        raise ValueError("on purpose")

    async def sending() -> list[httpx.Response]:
        async with client_of(app) as client:
            calls = [client.get(f"/v1/things/{number}") for number in range(20)]
            calls += [client.get(f"/nothing/{number}") for number in range(20)]
            calls += [client.request(f"ODD{number}", "/v1/who") for number in range(5)]
            calls += [client.get("/v1/fails"), client.get("/v1/who", headers={"Host": "evil.example"})]
            return [await call for call in calls]

    statuses = [answer.status_code for answer in asyncio.run(sending())]
    assert statuses[-2:] == [500, 421]
    metrics: Metrics = app.state.metrics
    found = {dict(labels)["route"] for (name, labels) in read(metrics) if name == "magistrate_http_requests_total"}
    assert found == {"/v1/things/{thing}", "/v1/who", "/v1/fails", "unknown"}
    assert value(metrics, "http_requests_total", route="/v1/things/{thing}", method="GET", status="200") == 20
    assert value(metrics, "http_requests_total", route="unknown", method="GET", status="404") == 20
    assert value(metrics, "http_requests_total", route="/v1/who", method="other", status="405") == 5
    assert value(metrics, "http_requests_total", route="/v1/fails", method="GET", status="500") == 1
    assert value(metrics, "http_request_seconds_count", route="/v1/things/{thing}") == 20
    assert value(metrics, "http_request_seconds_bucket", route="/v1/things/{thing}", le="+Inf") == 20
