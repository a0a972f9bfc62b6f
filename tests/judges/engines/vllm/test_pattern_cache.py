import os
from pathlib import Path

import pytest
from outlines_core import Index, Vocabulary

from judges.engines.vllm import pattern_cache
from judges.engines.vllm.pattern_cache import PatternCache

VOCABULARY = Vocabulary(0, {"a": [1], "b": [2], "{": [3], '"': [4]})


def compiled(pattern: str) -> Index:
    return Index(pattern, VOCABULARY)


def test_another_process_finds_what_one_compiled(tmp_path: Path) -> None:
    PatternCache("model", tmp_path)["123_a_b+"] = compiled("ab+")
    other = PatternCache("model", tmp_path)
    assert "456_a_b+" in other, "whatever name the process has for the vocabulary"
    assert other["456_a_b+"] == compiled("ab+")
    assert "456_a_b" not in other
    assert "456_a_b+" not in PatternCache("another model", tmp_path)
    with pytest.raises(KeyError):
        other["456_b"]


def test_a_file_that_was_cut_short_is_compiled_again(tmp_path: Path) -> None:
    PatternCache("model", tmp_path)["1_a"] = compiled("a")
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    assert "1_a" not in PatternCache("model", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    cache = PatternCache("model", tmp_path / "file" / "patterns")
    cache["1_a"] = compiled("a")
    assert cache["1_a"] == compiled("a")


def test_the_oldest_go_where_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = PatternCache("model", tmp_path)
    for number, pattern in enumerate(["a", "b", "ab"]):
        cache[f"1_{pattern}"] = compiled(pattern)
        (new,) = [file for file in tmp_path.iterdir() if file.stat().st_mtime > 10_000]
        os.utime(new, (number, number))
    largest = max(file.stat().st_size for file in tmp_path.iterdir())
    monkeypatch.setattr(pattern_cache, "MOST_BYTES", 2 * largest)
    fresh = PatternCache("model", tmp_path)
    assert [f"1_{pattern}" in fresh for pattern in ("a", "b", "ab")] == [False, True, True]


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_cache, "MOST_IN_MEMORY", 2)
    cache = PatternCache("model", tmp_path)
    for pattern in ("a", "b", "ab"):
        cache[f"1_{pattern}"] = compiled(pattern)
    assert len(cache._memory) == 2
    assert cache["1_a"] == compiled("a"), "the others are on disk"
