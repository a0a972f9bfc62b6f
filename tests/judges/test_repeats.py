import json
import tracemalloc
from collections import Counter
from pathlib import Path

from judges.data.rows import Row, read_rows
from judges.repeats import with_occurrences


def rows_of(*ids: str) -> list[Row]:
    return [Row(name, f"rows.jsonl row {number}", {"id": name}, number=number) for number, name in enumerate(ids, start=1)]


def test_ids_that_are_written_otherwise_are_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(['{"id": 5}', '{"id": 5.0}', '{"id": "5"}', "{no json", "{}", '{"id": 4}']))
    said: list[str] = []
    found = list(with_occurrences(read_rows(path), said.append))
    assert [(row.id, row.occurrence) for row in found] == [("5", 1), ("5", 2), ("5", 3), ("4", 1), ("5", 4), ("4", 2)]
    assert said == [
        "rows.jsonl row 2 has the id `5`, like rows.jsonl row 1",
        "rows.jsonl row 3 has the id `5`, like rows.jsonl row 1",
        "rows.jsonl row 5 has no id and is identified by its number 5, like rows.jsonl row 1",
        "rows.jsonl row 6 has the id `4`, like rows.jsonl row 4",
    ]


def test_it_is_told_when_the_second_is_drawn() -> None:
    said: list[str] = []
    drawn = with_occurrences(iter(rows_of("a", "b", "a", "c")), said.append)
    assert [next(drawn).id, next(drawn).id, len(said)] == ["a", "b", 0]
    assert [next(drawn).occurrence, len(said)] == [2, 1]


def test_many_ids_are_told_apart_as_a_dictionary_does() -> None:
    ids = [str(number * number % 7_919) for number in range(20_000)]
    counts: Counter[str] = Counter()
    wanted = []
    for name in ids:
        counts[name] += 1
        wanted.append(counts[name])
    assert [row.occurrence for row in with_occurrences(rows_of(*ids), lambda said: None)] == wanted


def test_an_id_takes_a_few_bytes() -> None:
    count = 200_000
    rows = (Row(str(number), "r", None, number=number) for number in range(count))
    drawn = with_occurrences(rows, lambda said: None)
    next(drawn)
    tracemalloc.start()
    last = next(row for row in drawn if row.number == count - 1)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert last.occurrence == 1
    assert held < 40 * count, json.dumps({"bytes an id": held / count})
