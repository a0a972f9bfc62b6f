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


@pytest.fixture
def _data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for folder in (Path("set"), Path("owner/set")):
        folder.mkdir(parents=True)
        (folder / "test.jsonl").write_text(LINES)
        (folder / "train.jsonl").write_text(LINES.splitlines()[0] + "\n")


@pytest.mark.usefixtures("_data_set")
@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("set:test", ROWS),
        ("owner/set:test", ROWS),
        ("set:test[:1]", ROWS[:1]),
        ("owner/set:test[1:]", ROWS[1:]),
        ("set:train+test[-1:]", ROWS),
    ],
)
def test_a_data_set_is_read_by_its_name_and_split(name: str, rows: list[dict[str, str]]) -> None:
    assert [row.sample for row in read_rows(Path(f"hf://{name}"))] == rows


@pytest.mark.usefixtures("_data_set")
@pytest.mark.parametrize("name", ["set", "set:", "owner/set"])
def test_a_split_is_advised_as_it_is_written(name: str) -> None:
    with pytest.raises(MagistrateError, match="has the splits train, test; say which") as raised:
        list(read_rows(Path(f"hf://{name}")))
    advised = str(raised.value).split("`")[1]
    assert advised == f"hf://{name.rstrip(':')}:train"
    assert [row.sample for row in read_rows(Path(advised))] == ROWS[:1]


@pytest.mark.parametrize("name", ["hf://", "hf:///", "hf://:", "hf://:train"])
def test_a_data_set_needs_a_name(name: str) -> None:
    with pytest.raises(MagistrateError, match=r"^`hf://[^/`]*` names no data set; write `hf://owner/name:split`$"):
        list(read_rows(Path(name)))
