"""Files through OpenAI's own client, on a real server with a real store."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from fastapi import FastAPI
from openai import OpenAI

from server.app import protect
from server.batches.lines import error_line, output_line, read_lines
from server.batches.service import BatchService
from server.hosting.models_file import ModelsFile, ModelSpec
from server.metrics import Metrics
from server.model_pool import ModelPool
from server.routes import batches, files
from server.safety.callers import make_key
from server.settings import Settings
from server.store import LeasedPart, Result, Store, StoreUnavailableError
from tests.server.live import Live, serving
from tests.tiny import TINY


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    """The store's own tests run on PostgreSQL too; what routes make of it is the same."""
    return f"sqlite:///{tmp_path}/store.db"


MODEL = "m"
HOSTILE_IDS = [
    "nonsense",
    "file-",
    "file-%00",
    "file-" + "a" * 24 + "%00",
    "file-" + "a" * 5000,
    "file-' OR 1=1 --",
    "%ED%A0%80",
    "file-" + "A" * 24,
    "file-output-" + "a" * 24,
    "file-error-" + "a" * 24,
    "file-output-' OR 1=1 --",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "batch_" + "a" * 24,
]


def application(store: Store, settings: Settings) -> FastAPI:
    """Files and batches with a court whose models are never started, so that tests take the place of its workers."""
    app = FastAPI()
    metrics = Metrics()
    pool = ModelPool(ModelsFile(models={"m": ModelSpec(model=TINY)}), settings, metrics)
    app.state.store, app.state.pool, app.state.batches = store, pool, BatchService(store, pool, metrics)
    protect(app, settings, metrics)
    app.include_router(files.router)
    app.include_router(batches.router)
    return app


def client_for(live: Live, key: str = "none") -> OpenAI:
    return OpenAI(base_url=f"http://127.0.0.1:{live.port}/v1", api_key=key, max_retries=0, timeout=60)


@pytest.fixture
def live(store: Store) -> Iterator[Live]:
    settings = Settings(port=0, max_queued=100_000)
    with serving(application(store, settings), settings) as running:
        yield running


@pytest.fixture
def client(live: Live) -> Iterator[OpenAI]:
    with client_for(live) as made:
        yield made


def some_lines(count: int, model: str | None = MODEL) -> bytes:
    body = {"samples": []} if model is None else {"model": model, "samples": []}
    lines = [{"custom_id": f"request-{n}", "method": "POST", "url": "/v1/judgments", "body": body} for n in range(1, count + 1)]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def upload(client: OpenAI, content: bytes) -> str:
    return client.files.create(file=("samples.jsonl", content), purpose="batch").id


def judge(store: Store, parts: list[LeasedPart]) -> int:
    """Do what a worker does: every line whose custom_id ends in 5 is refused."""
    results = []
    for part in parts:
        for line in read_lines(part):
            status = 400 if (line.custom_id or "").endswith("5") else 200
            if line.fault:
                status, record = 400, error_line(line, line.fault.code, line.fault.message)
            else:
                record = output_line(line, status, {"data": ["é"]})
            results.append(Result(part.batch_id, part.number, line.number, line.custom_id, status >= 400, record))
    return store.record(results)


def work(store: Store, parts: int = 1000) -> int:
    return judge(store, store.lease("test", [MODEL, None], parts=parts, seconds=60))


def test_a_file_is_uploaded_looked_at_read_and_deleted(client: OpenAI) -> None:
    content = some_lines(1000)
    made = client.files.create(file=("samples.jsonl", content), purpose="batch")
    assert (made.object, made.bytes, made.filename, made.purpose, made.status) == (
        "file",
        len(content),
        "samples.jsonl",
        "batch",
        "processed",
    )
    assert client.files.retrieve(made.id) == made
    assert client.files.content(made.id).content == content
    with client.files.with_streaming_response.content(made.id) as streamed:
        assert b"".join(streamed.iter_bytes()) == content
        assert streamed.headers["content-length"] == str(len(content))
        assert streamed.headers["x-content-type-options"] == "nosniff"
        assert streamed.headers["content-disposition"].startswith("attachment")
    deleted = client.files.delete(made.id)
    assert (deleted.id, deleted.object, deleted.deleted) == (made.id, "file", True)
    for again in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(openai.NotFoundError) as refused:
            again(made.id)
        assert refused.value.code == "file_not_found"


@pytest.mark.parametrize("kind", ["bytes", "open file", "path-like name"])
def test_the_client_may_hand_a_file_over_in_any_way(client: OpenAI, kind: str) -> None:
    content = some_lines(2)
    named = io.BytesIO(content)
    named.name = "../../x.jsonl"
    given: Any = {"bytes": content, "open file": named, "path-like name": ("../../ä\u202e x.jsonl", content)}[kind]
    made = client.files.create(file=given, purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600})
    assert client.files.content(made.id).content == content
    assert "/" not in made.filename
    assert "\u202e" not in made.filename


def test_files_are_listed_in_pages_by_the_client_itself(client: OpenAI) -> None:
    ids = [upload(client, some_lines(1)) for _ in range(7)]
    assert [file.id for file in client.files.list()] == ids[::-1]
    assert [file.id for file in client.files.list(limit=2)] == ids[::-1]
    assert [file.id for file in client.files.list(limit=3, order="asc")] == ids
    assert [file.id for file in client.files.list(after=ids[4], order="asc")] == ids[5:]
    assert list(client.files.list(purpose="fine-tune")) == []
    page = client.files.list(limit=7)
    assert (page.object, page.has_more) == ("list", False)  # type: ignore[attr-defined]
    assert client.files.list(limit=6).has_more


def test_other_purposes_and_faults_are_refused_as_the_client_expects(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.files.create(file=b"{}", purpose="fine-tune")
    assert (refused.value.param, refused.value.type) == ("purpose", "invalid_request_error")
    with pytest.raises(openai.BadRequestError):
        client.files.create(file=b"", purpose="batch")
    assert list(client.files.list()) == []


def test_outputs_are_read_while_their_batch_runs(client: OpenAI, store: Store) -> None:
    content = some_lines(299) + b"broken\n"
    batch = client.batches.create(input_file_id=upload(client, content), endpoint="/v1/judgments", completion_window="24h")  # type: ignore[arg-type]
    assert batch.output_file_id is not None
    assert client.files.content(batch.output_file_id).content == b""
    work(store, 1)
    early = client.files.content(batch.output_file_id).text.splitlines()
    named = [f"request-{number}" for number in range(1, 300)]
    good = [name for name in named if not name.endswith("5")]
    assert [json.loads(line)["custom_id"] for line in early] == [name for name in good if int(name[8:]) <= 128]
    growing = client.files.retrieve(batch.output_file_id)
    assert (growing.bytes, growing.purpose, growing.status) == (0, "batch_output", "uploaded")
    work(store)
    batch = client.batches.retrieve(batch.id)
    assert batch.output_file_id is not None
    assert batch.error_file_id is not None
    output, errors = client.files.content(batch.output_file_id), client.files.content(batch.error_file_id)
    assert [json.loads(line)["custom_id"] for line in output.text.splitlines()] == good
    refused = [json.loads(line) for line in errors.text.splitlines()]
    assert [line["custom_id"] for line in refused] == [name for name in named if name.endswith("5")] + [None]
    assert refused[0]["response"]["status_code"] == 400
    assert (refused[-1]["error"]["code"], refused[-1]["error"]["line"]) == ("invalid_json_line", 300)
    for file_id, read in ((batch.output_file_id, output), (batch.error_file_id, errors)):
        whole = client.files.retrieve(file_id)
        assert (whole.bytes, whole.status) == (len(read.content), "processed")
        assert client.files.retrieve(file_id) == whole
        with pytest.raises(openai.ConflictError):
            client.files.delete(file_id)
    assert [file.purpose for file in client.files.list()] == ["batch"]


def test_the_same_file_judged_twice_gives_the_same_output(client: OpenAI, store: Store) -> None:
    file_id = upload(client, some_lines(300))
    outputs = []
    for _ in range(2):
        batch = client.batches.create(input_file_id=file_id, endpoint="/v1/judgments", completion_window="24h")  # type: ignore[arg-type]
        work(store)
        assert batch.output_file_id is not None
        outputs.append(client.files.content(batch.output_file_id).content)
    assert outputs[0] == outputs[1]
    assert outputs[0].count(b"\n") == 270


def test_a_file_that_a_batch_reads_cannot_be_deleted(client: OpenAI, store: Store) -> None:
    file_id = upload(client, some_lines(3))
    client.batches.create(input_file_id=file_id, endpoint="/v1/judgments", completion_window="24h")  # type: ignore[arg-type]
    with pytest.raises(openai.ConflictError):
        client.files.delete(file_id)
    work(store)
    assert client.files.delete(file_id).deleted


def test_what_still_arrives_is_shown_as_such_and_not_read(client: OpenAI, store: Store) -> None:
    file_id = store.begin_file("local", "batch", "x").id
    assert client.files.retrieve(file_id).status == "uploaded"
    with pytest.raises(openai.ConflictError):
        client.files.content(file_id)
    with pytest.raises(openai.ConflictError):
        client.batches.create(input_file_id=file_id, endpoint="/v1/judgments", completion_window="24h")  # type: ignore[arg-type]


def test_what_is_another_callers_is_not_there(store: Store) -> None:
    settings = Settings(port=0, require_keys=True)
    keys = {}
    for name in ("ada", "bob"):
        key_id, keys[name], digest = make_key()
        store.add_key(key_id, name, digest)
    with serving(application(store, settings), settings) as live:
        ada, bob = client_for(live, keys["ada"]), client_for(live, keys["bob"])
        file_id = upload(ada, some_lines(10))
        batch = ada.batches.create(input_file_id=file_id, endpoint="/v1/judgments", completion_window="24h")  # type: ignore[arg-type]
        work(store)
        batch = ada.batches.retrieve(batch.id)
        assert batch.output_file_id is not None
        assert batch.error_file_id is not None
        for theirs in (file_id, batch.output_file_id, batch.error_file_id):
            for ask in (bob.files.retrieve, bob.files.content, bob.files.delete):
                with pytest.raises(openai.NotFoundError):
                    ask(theirs)
            assert ada.files.content(theirs).content
        for look in (bob.batches.retrieve, bob.batches.cancel):
            with pytest.raises(openai.NotFoundError):
                look(batch.id)
        with pytest.raises(openai.NotFoundError) as refused:
            bob.batches.create(input_file_id=file_id, endpoint="/v1/judgments", completion_window="24h")  # type: ignore[arg-type]
        assert refused.value.param == "input_file_id"
        assert list(bob.files.list()) == []
        assert list(bob.batches.list()) == []
        assert len(list(ada.files.list())) == len(list(ada.batches.list())) == 1
        with pytest.raises(openai.AuthenticationError):
            client_for(live).files.list()


@pytest.mark.parametrize("hostile", HOSTILE_IDS)
def test_hostile_ids_name_nothing(live: Live, hostile: str) -> None:
    url = f"http://127.0.0.1:{live.port}/v1/files/{hostile}"
    for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
        answer = httpx.request(method, url + path)
        assert answer.status_code == 404
        assert answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=0", 400),
        ("limit=10001", 400),
        ("limit=99999999999999999999999", 400),
        ("limit=-1", 400),
        ("limit=1e3", 400),
        ("order=up", 400),
        ("after=" + "a" * 65, 400),
        ("after=%00", 200),
        ("after=%ED%A0%80", 200),
        ("after=' OR 1=1 --", 200),
        ("purpose=%00", 200),
        ("purpose=" + "a" * 65, 400),
        ("limit=10000", 200),
    ],
)
def test_hostile_queries(live: Live, query: str, status: int) -> None:
    answer = httpx.get(f"http://127.0.0.1:{live.port}/v1/files?{query}")
    assert answer.status_code == status
    assert ("error" in answer.json()) == (status != 200)


class GoneStore:
    """A store whose database is gone as soon as content is read."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def file_content(self, file_id: str) -> Iterator[bytes]:
        raise StoreUnavailableError("PostgreSQL cannot be reached")
        yield b""


def test_content_that_cannot_be_read_is_a_fault_and_no_empty_file(store: Store) -> None:
    settings = Settings(port=0)
    gone: Any = GoneStore(store)
    with serving(application(gone, settings), settings) as live, client_for(live) as client:
        file_id = upload(client, some_lines(3))
        with pytest.raises(openai.InternalServerError) as refused:
            client.files.content(file_id)
        assert refused.value.status_code == 503


def test_the_description_names_the_form(live: Live) -> None:
    described = httpx.get(f"http://127.0.0.1:{live.port}/openapi.json").json()
    post = described["paths"]["/v1/files"]["post"]
    assert set(post["requestBody"]["content"]["multipart/form-data"]["schema"]["required"]) == {"file", "purpose"}
    assert "422" not in post["responses"]
    for name in ("FileObject", "FileList", "FileDeleted", "Batch", "BatchList", "BatchRequest"):
        assert described["components"]["schemas"][name]["examples"]
    read = described["paths"]["/v1/files/{file_id}/content"]["get"]["responses"]["200"]["content"]
    assert set(read) == {"application/x-ndjson"}
