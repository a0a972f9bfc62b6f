"""Turns verdicts into other forms: JSON lines, Parquet and CSV. None holds them all in memory."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from judges.engines.engine import Usage
from judges.errors import MagistrateError, reason_of
from judges.units.folder import read_run
from judges.units.stores import Store
from judges.units.tables import ROWS, of_place, schema_of_verdicts, table_of
from judges.units.units import VERDICTS
from judges.verdict import Verdict
from judges.verdict_lines import MANIFEST, known_fingerprints, numbered_verdicts, write_fingerprints

PLAIN = ("id", "judge", "status", "reason", "justification", "recovered", "sample", "fingerprint", "occurrence")
"""Fields of a verdict that CSV has as they are."""


LATER = ("notes", "detail", *(one.name for one in fields(Usage)))
"""Columns of CSV that are made of other fields."""


class Source:
    """Verdicts that can be read several times: of a folder of units, a file of JSON lines, or one of Parquet.

    Args:
        place: Its path or address.
    """

    def __init__(self, place: str) -> None:
        self.place = place

    def __iter__(self) -> Iterator[Verdict]:
        """Read the verdicts.

        Raises:
            MagistrateError: A file cannot be read, or holds something else.
        """
        if self._is_remote:
            return of_place(self.place)
        return (verdict for _, verdict in numbered_verdicts(Path(self.place)))

    def fingerprints(self) -> dict[str, Any]:
        """Map the fingerprints of the verdicts to their fields, as far as they are described."""
        if not self._is_remote:
            return known_fingerprints(Path(self.place))
        store = Store.of(self.place)
        if not store.system.isdir(store.root):
            return {}
        fields = dict(read_run(store).fingerprint)
        return {str(fields.pop("digest")): fields}

    @property
    def _is_remote(self) -> bool:
        return "://" in self.place


def export(source: Source, output: Path) -> int:
    """Write verdicts to a file of the form that its suffix names, whole or not at all, and count them.

    A file beside it describes their fingerprints, but for CSV.

    Raises:
        MagistrateError: The suffix is unknown, the file is one of a unit, there are no verdicts, or it cannot be written.
    """
    write = WRITERS.get(output.suffix.lower())
    if write is None:
        raise MagistrateError(f"{output}: verdicts are written as {', '.join(WRITERS)}")
    if output.name.endswith(VERDICTS) and any((folder / MANIFEST).is_file() for folder in output.parents):
        raise MagistrateError(f"{output} is the file of a unit's verdicts; give `-o` another name")
    scratch = output.with_name(f".{output.name}.part")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        count = write(source, scratch)
        if not count:
            raise MagistrateError(f"{source.place} holds no verdicts")
        scratch.replace(output)
        if (known := source.fingerprints()) and output.suffix.lower() != ".csv":
            write_fingerprints(output, known)
    except (OSError, pyarrow.ArrowException) as error:
        raise MagistrateError(f"{output} cannot be written: {reason_of(error)}") from error
    finally:
        scratch.unlink(missing_ok=True)
    return count


def _write_lines(source: Source, path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for verdict in source:
            file.write(f"{verdict.to_json()}\n")
            count += 1
    return count


def _write_parquet(source: Source, path: Path) -> int:
    count = 0
    schema = schema_of_verdicts(source)
    verdicts = iter(source)
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while part := list(islice(verdicts, ROWS)):
            _check_metrics(part, schema, source.place)
            writer.write_table(table_of(part, schema))
            count += len(part)
    return count


def _check_metrics(verdicts: Iterable[Verdict], schema: pyarrow.Schema, place: str) -> None:
    """See that all verdicts have the same metrics: Parquet would give the others to each, as if they did not apply.

    Raises:
        MagistrateError: One has not.
    """
    known = set(_metrics(schema, "scores"))
    for verdict in verdicts:
        if verdict.scores is not None and set(verdict.scores) != known:
            lacking = ", ".join(sorted(known - set(verdict.scores)))
            raise MagistrateError(
                f"{place}: the verdict on `{verdict.id}` has no score of {lacking}, which other verdicts have; "
                "export each judge's verdicts alone, or to .jsonl"
            )


def _write_csv(source: Source, path: Path) -> int:
    count = 0
    columns = _columns(source)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for verdict in source:
            writer.writerow([column(verdict) for column in columns.values()])
            count += 1
    return count


def _columns(verdicts: Iterable[Verdict]) -> dict[str, Callable[[Verdict], Any]]:
    """Name of each column to what finds its value. A metric with the name of another column gets ``_`` behind its own."""
    schema = schema_of_verdicts(verdicts)
    columns: dict[str, Callable[[Verdict], Any]] = {name: _field(name) for name in PLAIN[:4]}

    def add(name: str, find: Callable[[Verdict], Any]) -> None:
        while name in columns or name in PLAIN or name in LATER:
            name += "_"
        columns[name] = find

    for metric in _metrics(schema, "scores"):
        add(metric, _score(metric))
    for metric in _metrics(schema, "expected"):
        for kind, name in (("expected", "expectation"), ("entropy", "entropy"), ("calibrated", "calibrated")):
            add(f"{kind}_{metric}", _expected(metric, name))
    columns |= {name: _field(name) for name in PLAIN[4:]}
    columns |= {
        "notes": lambda verdict: "; ".join(verdict.notes),
        "detail": lambda verdict: None if verdict.detail is None else json.dumps(verdict.detail, ensure_ascii=False),
    }
    return columns | {one.name: _tokens(one.name) for one in fields(Usage)}


def _metrics(schema: pyarrow.Schema, name: str) -> list[str]:
    return [one.name for one in schema.field(name).type] if name in schema.names else []


def _field(name: str) -> Callable[[Verdict], Any]:
    return lambda verdict: getattr(verdict, name)


def _score(metric: str) -> Callable[[Verdict], Any]:
    return lambda verdict: (verdict.scores or {}).get(metric)


def _expected(metric: str, name: str) -> Callable[[Verdict], Any]:
    return lambda verdict: getattr((verdict.expected or {}).get(metric), name, None)


def _tokens(name: str) -> Callable[[Verdict], Any]:
    return lambda verdict: getattr(verdict.usage, name)


WRITERS: Mapping[str, Callable[[Source, Path], int]] = {
    ".jsonl": _write_lines,
    ".parquet": _write_parquet,
    ".csv": _write_csv,
}
"""Suffix to what writes a file of this form."""
