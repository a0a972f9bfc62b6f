"""Units: each row in one, judged once, to files that are whole or absent, whatever is killed or fails between."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pytest

from judges.data.rows import read_rows
from judges.errors import EngineError, MagistrateError
from judges.judge import Judge
from judges.llm_eval import LLMEval
from judges.runner import PreparedSample, prepare
from judges.units.folder import Run, begin, read_run, share, state_of
from judges.units.judging import UnitJudging, UnitTally
from judges.units.rows import rows_of
from judges.units.stores import Store, inputs
from judges.units.tables import read_verdicts
from judges.units.units import SUFFIXES, Unit, find_units
from judges.verdict import ENGINE_FAULT, Fingerprint, Verdict
from judges.verdicts import Verdicts
from tests.judges.test_runner import ScriptedEngine

ROWS = 500


class Echo:
    """A judge that gives each sample a score by its key, many at a time and in any order; it can fail on demand."""

    def __init__(self, judge: Judge, *, fails_after: int | None = None, faults: int = 0) -> None:
        self.judge = judge
        self.asked: list[str] = []
        self.started = 0
        self._fails_after = fails_after
        self._faults = faults

    async def fingerprint(self) -> Fingerprint:
        return Fingerprint.of(self.judge, ScriptedEngine().identity)

    async def start(self) -> None:
        self.started += 1

    async def close(self) -> None: ...

    async def run(self, samples: Iterable[PreparedSample]) -> AsyncGenerator[Verdict, None]:
        chance = random.Random(0)
        digest = (await self.fingerprint()).digest
        window: list[PreparedSample] = []
        drawn = iter(samples)
        while True:
            while len(window) < 40 and (sample := next(drawn, None)) is not None:
                window.append(sample)
            if not window:
                return
            sample = window.pop(chance.randrange(len(window)))
            if self._fails_after is not None and len(self.asked) >= self._fails_after:
                raise EngineError("the engine is gone")
            self.asked.append(sample.row.id)
            fields: dict[str, Any] = {"id": sample.row.id, "judge": self.judge.name, "sample": sample.key, "fingerprint": digest}
            fields["occurrence"] = sample.row.occurrence
            if self._faults and len(self.asked) % 50 == 0:
                self._faults -= 1
                yield Verdict(status="unscored", reason=f"{ENGINE_FAULT}HTTP 503", **fields)
            else:
                score = int(sample.key[:4], 16) % 6
                yield Verdict(status="scored", scores=dict.fromkeys(self.judge.legal, score), **fields)


def samples(count: int = ROWS, *, ids: bool = True) -> list[dict[str, Any]]:
    return [
        ({"id": f"row {n}"} if ids else {}) | {"context": ["hi"] * (1 + n % 7), "response": f"reply {n}", "note": "x" * (n % 300)}
        for n in range(count)
    ]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """500 rows as JSON lines, packed ones, and Parquet of several row groups."""
    rows, folder = samples(), tmp_path / "input"
    write_lines(folder / "a.jsonl", rows[:200])
    write_lines(folder / "b" / "b.jsonl.gz", rows[200:300])
    table = pyarrow.Table.from_pylist(rows[300:])
    pyarrow.parquet.write_table(table, folder / "c.parquet", row_group_size=30)
    (folder / "notes.txt").write_text("not rows")
    return folder


def units_of(source: Path | str, size: int) -> tuple[Store, list[Unit]]:
    store, files = inputs(str(source), SUFFIXES)
    return store, list(find_units(store, files, size))


def judged(
    source: Path | str,
    target: Path | str,
    backend: Echo | None = None,
    *,
    size: int = 8_000,
    part: tuple[int, int] = (1, 1),
    **more: Any,
) -> UnitTally:
    store, units = units_of(source, size)
    folder = Store.of(str(target))
    judging = UnitJudging(store, folder, backend or Echo(LLMEval()), state_of(folder).done, **more)
    return asyncio.run(judging.run(share(units, *part)))


def all_verdicts(target: Path | str) -> list[Verdict]:
    folder = Store.of(str(target))
    return [verdict for name in state_of(folder).done for verdict in read_verdicts(folder, name)]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.parquet")}


def by_id(verdicts: Iterable[Verdict]) -> list[str]:
    return sorted(verdict.to_json() for verdict in verdicts)


@pytest.mark.parametrize("size", [1, 50, 333, 8_000, 1 << 20])
def test_every_row_is_in_one_unit_however_an_input_is_divided(source: Path, size: int) -> None:
    store, units = units_of(source, size)
    assert [row.id for unit in units for row in rows_of(store, unit)] == [row["id"] for row in samples()]
    assert len({unit.name for unit in units}) == len(units)
    assert units == units_of(f"{source}/**/*", size)[1], "a pattern finds the same"


def test_lines_of_a_divided_file_are_known_by_their_bytes_and_others_by_their_number(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", samples(40, ids=False))
    store, units = units_of(path, 700)
    found = [row for unit in units for row in rows_of(store, unit)]
    assert len(units) > 3
    for row in found:
        place = int(row.id.removeprefix("a.jsonl:@"))
        assert json.loads(path.read_bytes()[place:].splitlines()[0]) == row.sample
    store, (unit,) = units_of(path, 1 << 20)
    named = [(row.id, row.place.split()[-1]) for row in rows_of(store, unit)]
    assert named == [(f"a.jsonl:{row.id}", row.id) for row in read_rows(path)]


def test_verdicts_are_those_of_one_file_in_the_order_of_the_input(source: Path, tmp_path: Path) -> None:
    tally = judged(source, tmp_path / "out")
    assert (tally.judged, tally.faults, tally.summary.scored) == (ROWS, {}, ROWS)
    found = all_verdicts(tmp_path / "out")
    assert [verdict.id for verdict in found] == [row["id"] for row in samples()]
    judge = LLMEval()
    rows = [row for name in ("a.jsonl", "c.parquet") for row in read_rows(source / name)]
    plain = {row.id: prepare(row, judge).key for row in rows}
    assert {verdict.id: verdict.sample for verdict in found if verdict.id in plain} == plain
    total = state_of(Store.of(str(tmp_path / "out"))).summary
    assert total.scored == ROWS
    mean = Verdicts(found).summary().means["relevance"]
    assert total.means["relevance"].interval() == pytest.approx(mean.interval())


def test_shares_make_the_whole_and_done_units_are_not_judged_again(source: Path, tmp_path: Path) -> None:
    judged(source, tmp_path / "whole")
    asked = []
    for part in (3, 1, 2, 2):
        backend = Echo(LLMEval())
        judged(source, tmp_path / "shares", backend, part=(part, 3))
        asked += backend.asked
    assert sorted(asked) == sorted(row["id"] for row in samples())
    assert not backend.started, "nothing to judge, so no model is loaded"
    assert contents(tmp_path / "shares") == contents(tmp_path / "whole")


def test_a_run_that_fails_leaves_whole_units_and_resumes(source: Path, tmp_path: Path) -> None:
    judged(source, tmp_path / "whole")
    asked, moments = 0, random.Random(1)
    for _ in range(40):
        backend = Echo(LLMEval(), fails_after=moments.randrange(60, 400))
        try:
            judged(source, tmp_path / "out", backend)
        except EngineError:
            asked += len(backend.asked)
            assert not list((tmp_path / "out").rglob(".*"))
            continue
        break
    assert asked
    assert by_id(all_verdicts(tmp_path / "out")) == by_id(all_verdicts(tmp_path / "whole"))


def test_faults_of_the_engine_alone_are_judged_again(source: Path, tmp_path: Path) -> None:
    judged(source, tmp_path / "out", Echo(LLMEval(), faults=5))
    assert state_of(Store.of(str(tmp_path / "out"))).again == 5
    backend = Echo(LLMEval())
    judged(source, tmp_path / "out", backend)
    assert len(backend.asked) == 5
    judged(source, tmp_path / "whole")
    assert by_id(all_verdicts(tmp_path / "out")) == by_id(all_verdicts(tmp_path / "whole"))


def test_rows_that_cannot_be_judged_are_unscored_and_repeats_are_told_apart(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [*samples(3), {"id": "row 1", "context": ["hi"], "response": "again"}])
    path.write_text(f'{path.read_text()}{{"id": "bad"}}\nno JSON\n')
    said: list[str] = []
    judged(path, tmp_path / "out", report=said.append)
    found = all_verdicts(tmp_path / "out")
    assert [(one.id, one.status, one.occurrence) for one in found] == [
        *((f"row {n}", "scored", 1) for n in range(3)), ("row 1", "scored", 2), ("bad", "unscored", 1),
        ("a.jsonl:6", "unscored", 1),
    ]  # fmt: skip
    assert said == ["a.jsonl row 4 has the id `row 1`, like a.jsonl row 2"]


def test_a_unit_that_cannot_be_read_is_named_and_the_rest_is_judged(source: Path, tmp_path: Path) -> None:
    packed = source / "b" / "b.jsonl.gz"
    packed.write_bytes(packed.read_bytes()[:-200])
    said: list[str] = []
    tally = judged(source, tmp_path / "out", report=said.append)
    assert list(tally.faults) == ["b/b.jsonl.gz"]
    assert said[0].startswith(f"b/b.jsonl.gz is not judged: {packed} cannot be read: ")
    assert len(all_verdicts(tmp_path / "out")) == ROWS - 100
    assert not list((tmp_path / "out" / "b").glob("*"))


def test_a_unit_that_has_changed_is_not_mixed_in(source: Path, tmp_path: Path) -> None:
    judged(source, tmp_path / "out")
    with (source / "a.jsonl").open("a") as file:
        file.write(json.dumps(samples(1)[0]) + "\n")
    with pytest.raises(MagistrateError, match=r"a\.jsonl.* has changed since it was judged to "):
        judged(source, tmp_path / "out")


def test_rows_of_divided_lines_are_told_apart_and_their_faults_are_one_kind(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", samples(40))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], lines[1], "no JSON\n", *lines[3:], "neither\n"]))
    said: list[str] = []
    tally = judged(path, tmp_path / "out", size=2_000, report=said.append)
    assert tally.units == 3
    assert said == ["a.jsonl bytes 0 to 2,000 row 4 has the id `row 1`, like a.jsonl bytes 0 to 2,000 row 2"]
    assert state_of(Store.of(str(tmp_path / "out"))).summary.unscored == {"bad row: is not JSON: Expecting value": 2}


def test_rows_of_divided_lines_without_an_id_in_their_column_are_known_by_their_bytes(tmp_path: Path) -> None:
    rows = [{**row, "key": None} for row in samples(40, ids=False)]
    path = write_lines(tmp_path / "a.jsonl", rows)
    judged(path, tmp_path / "out", size=700, columns={"id": "key"})
    found = {verdict.id for verdict in all_verdicts(tmp_path / "out")}
    assert len(found) == 40
    assert all(name.startswith("a.jsonl:@") for name in found)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        (pyarrow.array([10**7] * 3, pyarrow.date32()), "date value out of range"),
        (pyarrow.Array.from_buffers(pyarrow.string(), 3, pyarrow.array([b"\xff"] * 3).buffers()), "can't decode byte 0xff"),
    ],
)
def test_a_value_that_python_does_not_have_costs_its_unit_alone(
    source: Path, tmp_path: Path, values: pyarrow.Array, fault: str
) -> None:
    table = pyarrow.table({"context": [["hi"]] * 3, "response": ["so"] * 3, "more": values})
    pyarrow.parquet.write_table(table, source / "d.parquet")
    tally = judged(source, tmp_path / "out")
    assert list(tally.faults) == ["d.parquet"]
    assert fault in tally.faults["d.parquet"]
    assert tally.judged == ROWS
    with pytest.raises(MagistrateError, match=rf"d\.parquet is not a readable Parquet file: .*{fault}"):
        list(read_rows(source / "d.parquet"))


def test_a_file_whose_name_is_not_utf_8_is_judged(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    write_lines(tmp_path / "rows" / os.fsdecode(b"\xff.jsonl"), [*samples(3), {"id": "bad"}])
    assert judged(tmp_path / "rows", tmp_path / "out").judged == 4
    assert all_verdicts(tmp_path / "out")[3].reason == "\ufffd.jsonl row 4: field `context` is missing"


def test_a_parquet_file_without_a_footer_costs_itself_alone(source: Path, tmp_path: Path) -> None:
    torn = source / "torn.parquet"
    torn.write_bytes((source / "c.parquet").read_bytes()[:-20])
    (source / "empty.parquet").touch()
    said: list[str] = []
    tally = judged(source, tmp_path / "out", report=said.append)
    assert list(tally.faults) == ["empty.parquet", "torn.parquet"]
    assert said[1].startswith(f"torn.parquet is not judged: {torn} is not a readable Parquet file: ")
    assert len(all_verdicts(tmp_path / "out")) == ROWS


def test_a_unit_that_is_mended_and_a_file_that_is_added_are_judged_to_the_same_folder(source: Path, tmp_path: Path) -> None:
    out = Store.of(str(tmp_path / "out"))

    def run() -> UnitTally:
        units = units_of(source, 8_000)[1]
        begin(out, Run(8_000, {}, {"digest": "ours"}, len(units)))
        return judged(source, tmp_path / "out")

    (source / "torn.jsonl.gz").write_bytes(b"torn")
    assert list(run().faults) == ["torn.jsonl.gz"]
    units = read_run(out).units
    (source / "torn.jsonl.gz").unlink()
    write_lines(source / "torn.jsonl.gz", [row | {"id": f"mended {n}"} for n, row in enumerate(samples(7))])
    write_lines(source / "added.jsonl", [row | {"id": f"added {n}"} for n, row in enumerate(samples(3))])
    tally = run()
    assert (tally.judged, tally.units, tally.faults) == (10, 2, {})
    assert read_run(out).units == units + 1


def test_a_unit_that_changes_while_it_is_read_has_no_file(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rows" / "a.jsonl", samples(5))

    class Changing(Echo):
        async def run(self, samples: Iterable[PreparedSample]) -> AsyncGenerator[Verdict, None]:
            async for verdict in super().run(samples):
                path.write_text(path.read_text().replace("row 0", "row X"))
                yield verdict

    tally = judged(path.parent, tmp_path / "out", Changing(LLMEval()))
    assert tally.faults == {"a.jsonl": f"{path} has changed while it was read"}
    assert not list((tmp_path / "out").glob("*.parquet"))


def test_links_are_followed_but_not_in_a_circle_and_a_pipe_is_not_waited_for(source: Path, tmp_path: Path) -> None:
    elsewhere = write_lines(tmp_path / "elsewhere" / "d.jsonl", [row | {"id": f"d{n}"} for n, row in enumerate(samples(5))])
    (source / "linked").symlink_to(elsewhere.parent)
    (source / "b" / "circle").symlink_to(source)
    (source / "gone.jsonl").symlink_to("nowhere")
    os.mkfifo(source / "pipe.jsonl")
    for number, place in enumerate([str(source), f"{source}/**"]):
        tally = judged(place, tmp_path / str(number))
        assert tally.judged == ROWS + 5
        assert list(tally.faults) == ["gone.jsonl", "pipe.jsonl"]
        assert "pipe.jsonl is a pipe" in tally.faults["pipe.jsonl"]


def test_a_folder_that_cannot_be_listed_is_not_left_out(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = os.scandir

    def scandir(folder: str) -> Any:
        if folder.endswith("/b"):
            raise PermissionError(13, "Permission denied", folder)
        return listed(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(MagistrateError, match=r"input/b cannot be read: Permission denied"):
        inputs(str(source), SUFFIXES)
    assert list(inputs(f"{source}/*.jsonl", SUFFIXES)[1]) == ["a.jsonl"]


@pytest.mark.parametrize("name", ["a[1].jsonl", "what?.jsonl", "a*.jsonl"])
def test_a_file_with_the_signs_of_a_pattern_in_its_name_is_a_file(tmp_path: Path, name: str) -> None:
    write_lines(tmp_path / name, samples(1))
    write_lines(tmp_path / "a1.jsonl", samples(1))
    assert list(inputs(str(tmp_path / name), SUFFIXES)[1]) == [name]


def test_of_two_runs_that_begin_at_one_moment_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = (Run(8_000, {}, {"digest": digest}, 1) for digest in ("ours", "theirs"))
    target = Store.of(str(tmp_path / "out"))
    read = Store.read

    def late(store: Store, name: str) -> bytes | None:
        """See no file, and have the other run write one at once."""
        monkeypatch.setattr(Store, "read", read)
        begin(target, theirs)
        return None

    monkeypatch.setattr(Store, "read", late)
    with pytest.raises(MagistrateError, match=r"another run \(fingerprint\.digest theirs there, ours here\)"):
        begin(target, ours)
    assert read_run(target) == theirs
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["run.json"]


def test_a_unit_of_another_judge_is_not_taken_for_done(source: Path, tmp_path: Path) -> None:
    judged(source, tmp_path / "out")
    with pytest.raises(MagistrateError, match=r"is of another judge, model or setting \(fingerprint "):
        judged(source, tmp_path / "out", Echo(LLMEval(metrics=("grammar",))))


def test_verdicts_in_a_folder_of_the_input_are_no_input(source: Path) -> None:
    target = Store.of(str(source / "out"))
    before = inputs(str(source), SUFFIXES, target)
    judged(source, source / "out")
    assert inputs(str(source), SUFFIXES, target) == before
    assert inputs(f"{source}/**", SUFFIXES, target) == before
    assert list(inputs(str(source / "a.jsonl"), SUFFIXES, Store.of(str(source.parent)))[1]) == ["a.jsonl"]


@pytest.mark.parametrize("place", ["nothing.jsonl", "nothing/", "*.csv"])
def test_an_input_without_rows_is_refused(tmp_path: Path, place: str) -> None:
    with pytest.raises(MagistrateError, match=r"\.jsonl, \.ndjson"):
        inputs(str(tmp_path / place), SUFFIXES)


def test_parquet_can_be_asked_without_us(source: Path, tmp_path: Path) -> None:
    judged(source, tmp_path / "out")
    table = pyarrow.parquet.read_table(next((tmp_path / "out").glob("a.jsonl*")))
    scores = table["scores"].combine_chunks().field("relevance")
    assert scores.type == pyarrow.int32()
    assert 0 <= pyarrow.compute.mean(scores).as_py() <= 5
