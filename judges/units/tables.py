"""Verdicts as Parquet: the fields of a verdict's line as typed columns, with what the file is of in its metadata."""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from judges.engines.engine import Usage
from judges.errors import MagistrateError
from judges.expected import Expectation
from judges.judge import Judge, Score
from judges.summary import Summary
from judges.units.stores import Store
from judges.units.units import VERDICTS
from judges.verdict import Verdict

KEY = b"magistrate"
"""The metadata's key, whose value is JSON."""

ROWS = 8192
"""Rows read at a time."""

_WHOLE = pyarrow.int32()


@dataclass(frozen=True, slots=True)
class Facts:
    """What a file of verdicts says of itself.

    Attributes:
        unit: The unit's digest.
        fingerprint: Digest of what its verdicts depend on besides their samples.
        repeated: Verdicts that say nothing of their sample, which is judged again.
        summary: A tally of its verdicts.
    """

    unit: str
    fingerprint: str
    repeated: int
    summary: Summary

    @classmethod
    def of(cls, unit: str, fingerprint: str, verdicts: Collection[Verdict]) -> Facts:
        return cls(unit, fingerprint, sum(not verdict.final for verdict in verdicts), Summary.of(verdicts))

    def to_json(self) -> str:
        return json.dumps(
            {"unit": self.unit, "fingerprint": self.fingerprint, "repeated": self.repeated, "summary": self.summary.as_fields()}
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Facts:
        content = json.loads(text)
        return cls(content["unit"], content["fingerprint"], content["repeated"], Summary.from_fields(content["summary"]))


def schema_of(judge: Judge) -> pyarrow.Schema:
    """The columns of a judge's verdicts."""
    numeric = [score.metric for score in judge.numeric_scores]
    return _schema({metric: _type_of(legal) for metric, legal in judge.legal.items()}, numeric)


def schema_of_verdicts(verdicts: Iterable[Verdict]) -> pyarrow.Schema:
    """The columns of verdicts whose judge is not known. All of them are read."""
    found: dict[str, set[type]] = {}
    expected: dict[str, None] = {}
    for verdict in verdicts:
        for metric, score in (verdict.scores or {}).items():
            found.setdefault(metric, set()).add(type(score))
        expected |= dict.fromkeys(verdict.expected or ())
    examples: Mapping[type, Score] = {int: 0, float: 0.5, str: ""}
    types = {metric: _type_of([examples[kind] for kind in kinds if kind in examples]) for metric, kinds in found.items()}
    return _schema(types, list(expected))


def _schema(scores: Mapping[str, pyarrow.DataType], expected: Sequence[str]) -> pyarrow.Schema:
    """Columns named as the fields of a verdict's line.

    ``scores`` and ``expected`` are structures with a field for each metric; ``detail`` is JSON.
    """
    expectation = pyarrow.struct([(one.name, pyarrow.float64()) for one in fields(Expectation)])
    text = pyarrow.string()
    named = pyarrow.dictionary(_WHOLE, text)
    columns = [
        ("id", text),
        ("judge", named),
        ("status", named),
        ("reason", text),
        ("scores", pyarrow.struct(list(scores.items()))),
        ("expected", pyarrow.struct([(metric, expectation) for metric in expected])),
        ("justification", text),
        ("detail", text),
        ("recovered", pyarrow.bool_()),
        ("notes", pyarrow.list_(text)),
        ("sample", text),
        ("fingerprint", named),
        ("usage", pyarrow.struct([(one.name, _WHOLE) for one in fields(Usage)])),
        ("occurrence", _WHOLE),
    ]
    # Parquet has no structure without fields.
    return pyarrow.schema([(name, kind) for name, kind in columns if kind != pyarrow.struct([])])


def _type_of(legal: Collection[Score]) -> pyarrow.DataType:
    values = [value for value in legal if value is not None]
    if all(isinstance(value, str) for value in values):
        return pyarrow.string()
    return _WHOLE if all(isinstance(value, int) for value in values) else pyarrow.float64()


def table_of(verdicts: Sequence[Verdict], schema: pyarrow.Schema) -> pyarrow.Table:
    """Verdicts as a table."""
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for verdict in verdicts:
        content = verdict.as_fields() | {"occurrence": verdict.occurrence}
        content["detail"] = None if verdict.detail is None else json.dumps(verdict.detail, ensure_ascii=False)
        for name, column in columns.items():
            column.append(content[name])
    return pyarrow.table(columns, schema=schema)


def parquet(verdicts: Sequence[Verdict], schema: pyarrow.Schema, facts: Facts) -> bytes:
    """The content of a file of a unit's verdicts."""
    sink = io.BytesIO()
    table = table_of(verdicts, schema).replace_schema_metadata({KEY: facts.to_json()})
    pyarrow.parquet.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def read_facts(store: Store, name: str) -> Facts:
    """Read what a file of verdicts says of itself.

    Raises:
        MagistrateError: It is no such file.
    """
    with store.open(name) as file:
        try:
            return Facts.from_json(pyarrow.parquet.read_schema(file).metadata[KEY])
        except (pyarrow.ArrowException, KeyError, TypeError, ValueError, OSError):
            raise MagistrateError(f"{store.place(name)} is not a file of verdicts; remove it, or give another folder") from None


def has_columns(path: Path, names: Iterable[str]) -> bool:
    """Whether a path is a Parquet file with these columns."""
    try:
        return set(names) <= set(pyarrow.parquet.read_schema(path).names)
    except (pyarrow.ArrowException, OSError):
        return False


def read_verdicts(store: Store, name: str) -> Iterator[Verdict]:
    """Read the verdicts of a file.

    Raises:
        MagistrateError: It is no file of verdicts.
    """
    with store.open(name) as file:
        try:
            for batch in pyarrow.parquet.ParquetFile(file).iter_batches(batch_size=ROWS):
                yield from map(verdict_of, batch.to_pylist())
        except (pyarrow.ArrowException, KeyError, TypeError, ValueError, OSError) as error:
            raise MagistrateError(f"{store.place(name)} is not a readable file of verdicts: {error}") from error


def verdict_of(content: dict[str, Any]) -> Verdict:
    """The verdict of a row, which it takes apart."""
    scores, expected, detail, usage = (content.pop(name, None) for name in ("scores", "expected", "detail", "usage"))
    return Verdict(
        scores={} if scores is None and content["status"] == "scored" else scores,  # a judge may score nothing
        expected=expected and {metric: one and Expectation(**one) for metric, one in expected.items()},
        detail=detail and json.loads(detail),
        usage=Usage(**usage),
        **content,
    )


def of_place(place: str) -> Iterator[Verdict]:
    """Read the verdicts of a folder of units, in the order of its files, or of one Parquet file.

    Args:
        place: Its path or address.

    Raises:
        MagistrateError: There are no verdicts, or a file holds something else.
    """
    store = Store.of(place)
    if store.system.isdir(store.root):
        names = store.whole(VERDICTS)
        if not names:
            raise MagistrateError(f"{place} holds no verdicts of units; give the folder that `magistrate score` wrote")
    else:
        folder, _, name = store.root.rpartition("/")
        store, names = Store(folder, store.system), [name]
    for name in names:
        yield from read_verdicts(store, name)
