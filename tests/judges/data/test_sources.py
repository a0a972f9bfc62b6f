"""Rows of standard input and of data sets in the form of the hub."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from judges.data import sources
from judges.data.rows import read_rows
from judges.errors import MagistrateError

ROWS = [{"id": "a", "response": "größe"}, {"id": "b", "response": "2"}]
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)


@pytest.fixture(autouse=True)
def _no_copy_is_left() -> Iterator[None]:
    sources.standard_input.cache_clear()
    yield
    sources.forget_standard_input()
    sources.standard_input.cache_clear()
    assert not any(folder.exists() for folder in sources._SPOOL)


def pipe(monkeypatch: pytest.MonkeyPatch, text: str, *, terminal: bool = False) -> None:
    stream = SimpleNamespace(buffer=io.BytesIO(text.encode()), isatty=lambda: terminal)
    monkeypatch.setattr("sys.stdin", stream)


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        (LINES, ".jsonl"),
        ("\ufeff" + LINES, ".jsonl"),
        (json.dumps(ROWS), ".json"),
        ("id,response\na,größe\nb,2\n", ".csv"),
    ],
)
def test_standard_input_is_read_by_its_first_bytes_and_more_than_once(
    monkeypatch: pytest.MonkeyPatch, text: str, suffix: str
) -> None:
    pipe(monkeypatch, text)
    for _ in range(2):
        assert [row.sample for row in read_rows(Path("-"))] == ROWS
    assert sources.standard_input().suffix == suffix


def test_a_terminal_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, "", terminal=True)
    with pytest.raises(MagistrateError, match="nothing is piped into it"):
        list(read_rows(Path("-")))


def test_a_data_set_is_read_by_its_name_and_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    folder = Path("set")
    folder.mkdir()
    (folder / "test.jsonl").write_text(LINES)
    (folder / "train.jsonl").write_text(LINES.splitlines()[0] + "\n")
    assert [row.sample for row in read_rows(Path(f"hf://{folder}:test"))] == ROWS
    with pytest.raises(MagistrateError, match="has the splits train, test; say which"):
        list(read_rows(Path(f"hf://{folder}")))
