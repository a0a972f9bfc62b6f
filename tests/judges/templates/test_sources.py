"""Authors' files are fetched from a server or copied, and held against their digests."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from judges.errors import MagistrateError
from judges.templates import sources
from judges.templates.sources import Source, keep_copies

CONTENT = b"PROMPT = 'Rate {answer}'\n"
COMMIT = "0" * 40
SOURCE = Source(
    repository="kind/people", commit=COMMIT, path="src/prompts.py", sha256=hashlib.sha256(CONTENT).hexdigest(), licence="MIT"
)


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        return


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file as a server publishes it."""
    file = tmp_path / "web" / "kind" / "people" / COMMIT / "src" / "prompts.py"
    file.parent.mkdir(parents=True)
    file.write_bytes(CONTENT)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(tmp_path / "web"))) as server:
        monkeypatch.setattr(sources, "HOST", f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield file
        server.shutdown()
        thread.join()


def test_a_file_is_fetched_once(published: Path) -> None:
    assert SOURCE.read() is None
    SOURCE.fetch()
    published.unlink()
    SOURCE.fetch()
    assert SOURCE.read() == CONTENT.decode()


def test_another_file_is_not_kept(published: Path) -> None:
    published.write_bytes(CONTENT + b"#")
    with pytest.raises(MagistrateError, match=r"is not src/prompts.py of kind/people at 000000000000"):
        SOURCE.fetch()
    assert SOURCE.read() is None


def test_a_missing_file_says_what_to_do(published: Path) -> None:
    published.unlink()
    with pytest.raises(MagistrateError, match=r"cannot be fetched from .*404.*give a copy with `--template FILE`"):
        SOURCE.fetch()


OTHER = SOURCE.model_copy(update={"sha256": "1" * 64, "path": "b.py"})


def test_a_copy_is_recognised_by_its_digest(tmp_path: Path) -> None:
    copy = tmp_path / "copy.txt"
    copy.write_bytes(CONTENT)
    assert keep_copies([OTHER, SOURCE], copy) == [SOURCE]
    assert SOURCE.read() == CONTENT.decode()


def test_copies_are_found_in_a_checkout(tmp_path: Path) -> None:
    copy = tmp_path / "checkout" / "src" / "prompts.py"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(CONTENT)
    assert keep_copies([OTHER, SOURCE], tmp_path / "checkout") == [SOURCE]
    assert SOURCE.read() == CONTENT.decode()


def test_another_copy_is_not_kept(tmp_path: Path) -> None:
    copy = tmp_path / "copy.txt"
    copy.write_bytes(b"x")
    with pytest.raises(MagistrateError, match=r"copy.txt is not b.py of .* or src/prompts.py of .*; nothing is kept"):
        keep_copies([OTHER, SOURCE], copy)
    with pytest.raises(MagistrateError, match="holds no"):
        keep_copies([SOURCE], tmp_path)
    with pytest.raises(MagistrateError, match="cannot be read"):
        keep_copies([SOURCE], tmp_path / "none")
    assert SOURCE.read() is None


def test_a_damaged_file_is_noticed(published: Path) -> None:
    SOURCE.fetch()
    SOURCE.kept.write_bytes(b"PROMPT = 'Give 5'")
    with pytest.raises(MagistrateError, match="is damaged"):
        SOURCE.read()
