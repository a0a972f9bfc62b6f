"""Units in a bucket of a real S3 server: verdicts are those on a disk, and what was not finished does not count."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from judges.errors import EngineError, MagistrateError
from judges.llm_eval import LLMEval
from judges.units.stores import DONE, Store, inputs
from judges.units.units import SUFFIXES
from tests.judges.units.test_judging import Echo, all_verdicts, judged, source

__all__ = ["source"]

s3fs = pytest.importorskip("s3fs")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server in a process of its own: its modules have globals that vLLM, looking through all, cannot look at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 60
    while time.monotonic() < end and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            time.sleep(0.1)
    yield f"http://127.0.0.1:{port}"
    server.kill()
    server.wait()


@pytest.fixture
def bucket(address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    name = f"b{uuid4().hex}"
    s3fs.S3FileSystem(skip_instance_cache=True).mkdir(name)
    return f"s3://{name}"


def put(bucket: str, folder: Path) -> str:
    store = Store.of(f"{bucket}/rows")
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            store.system.put_file(str(path), f"{store.root}/{path.relative_to(folder).as_posix()}")
    return f"{bucket}/rows"


def test_a_bucket_has_the_verdicts_of_a_disk(bucket: str, source: Path, tmp_path: Path) -> None:
    judged(source, tmp_path / "disk")
    rows = put(bucket, source)
    found = judged(rows, f"{bucket}/verdicts")
    assert found.judged == 500
    assert all_verdicts(f"{bucket}/verdicts") == all_verdicts(tmp_path / "disk")
    again = Echo(LLMEval())
    judged(rows, f"{bucket}/verdicts", again)
    assert again.asked == []
    store, found_by_pattern = inputs(f"{rows}/**/*.gz", SUFFIXES)
    assert list(found_by_pattern) == ["b/b.jsonl.gz"]
    assert store.root == rows.removeprefix("s3://")


def test_an_object_without_its_mark_is_judged_again(bucket: str, source: Path) -> None:
    rows, target = put(bucket, source), f"{bucket}/verdicts"
    judged(rows, target)
    store = Store.of(target)
    lost = next(name for name in store.files() if name.endswith(".parquet"))
    store.system.rm_file(f"{store.root}/{lost}{DONE}")
    again = Echo(LLMEval())
    judged(rows, target, again)
    assert 0 < len(again.asked) < 500
    assert len(all_verdicts(target)) == 500


def test_an_engine_that_fails_leaves_what_is_whole(bucket: str, source: Path) -> None:
    rows, target = put(bucket, source), f"{bucket}/verdicts"
    with pytest.raises(EngineError, match="the engine is gone"):
        judged(rows, target, Echo(LLMEval(), fails_after=250))
    again = Echo(LLMEval())
    judged(rows, target, again)
    assert len(again.asked) < 500
    assert len(all_verdicts(target)) == 500


def test_a_bucket_that_is_not_there_is_named(bucket: str) -> None:
    with pytest.raises(MagistrateError, match="s3://nothing-here-at-all"):
        inputs("s3://nothing-here-at-all/rows/", SUFFIXES)
