"""HEAD of everything that there is a GET of: the same head, and no body, on a connection that goes on."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.app import create_app
from server.hosting.models_file import ModelsFile, ModelSpec
from server.settings import Settings
from server.store import FilePart, Store
from tests.server.live import Live, serving

NOBODY = ModelSpec(model="m", engine="endpoint", base_url="http://127.0.0.1:9/v1")
CHANGING = {"date", "x-request-id", "transfer-encoding"}
"""Headers that no two answers share, and the one of a body that comes in pieces."""

PATHS = ["/health", "/ready", "/", "/docs", "/openapi.json", "/dashboards/", "/dashboards/study/", "/static/pages.css"]
PATHS += ["/metrics", "/v1/models", "/v1/judges", "/v1/files", "/v1/batches", "/v1/files/FILE", "/v1/files/FILE/content"]
PATHS += ["/v1/batches/BATCH", "/v1/batches/BATCH/events", "/batches/BATCH", "/v1/files/file-none", "/nothing"]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[Live, Store]]:
    settings = Settings(port=0, dashboards=tmp_path / "dashboards")
    study = settings.dashboards / "study"
    study.mkdir(parents=True)
    (study / "index.html").write_text("<p>study</p>")
    store = Store.open(f"sqlite:///{tmp_path}/store.db")
    with serving(create_app(settings, ModelsFile(models={"m": NOBODY}), store), settings) as running:
        yield running, store


def asked(connection: http.client.HTTPConnection, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
    """A call's status, its headers, and its body, of which one that has no end is not read."""
    connection.request(method, path)
    answer = connection.getresponse()
    headers = {name.lower(): value for name, value in answer.getheaders() if name.lower() not in CHANGING}
    return answer.status, headers, b"" if path.endswith("/events") and method == "GET" else answer.read()


def test_a_head_is_answered_as_a_get_is_but_for_the_body(live: tuple[Live, Store]) -> None:
    running, store = live
    file = store.begin_file("local", "batch", "f")
    store.add_part(file.id, FilePart(0, 1, 1, b"{}\n" * 100, []))
    kept = store.finish_file(file.id, bytes=300, lines=1, model=None)
    batch = store.create_batch("local", kept, "/v1/judgments", "24h", None, model="gone")
    one = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
    for path in (path.replace("FILE", kept.id).replace("BATCH", batch.id) for path in PATHS):
        # All over one connection: a body that was sent in spite of it would be read as the next answer.
        status, head, nothing = asked(one, "HEAD", path)
        other = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
        expected, headers, _ = asked(other, "GET", path)
        other.close()
        if path in ("/metrics", "/ready"):
            del head["content-length"], headers["content-length"]
        assert (path, status, head, nothing) == (path, expected, headers, b"")
    one.close()


def test_a_head_of_what_takes_only_posts_is_refused(live: tuple[Live, Store]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", live[0].port, timeout=20)
    assert asked(connection, "HEAD", "/v1/judgments")[0] == 405
    connection.close()


def test_a_head_is_logged_as_one(live: tuple[Live, Store]) -> None:
    running, _ = live
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
    asked(connection, "HEAD", "/health")
    _, _, figures = asked(connection, "GET", "/metrics")
    connection.close()
    assert b'http_requests_total{method="HEAD",route="/health",status="200"} 1.0' in figures
