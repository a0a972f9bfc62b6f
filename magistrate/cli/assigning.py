"""Attributes for the rows of a file: read affinities, assign, write, and print the outcome."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evals.data.score_columns import id_places, read_scores
from judges.data.files import check_file, parse_json, same_file
from judges.data.rows import local
from judges.errors import MagistrateError
from magistrate.cli.flags import AssignFlags
from solver import Assignment, SolverError, assign
from solver.assignment import DEFAULT_SLACK

BLOCK = 1 << 20
"""Rows written at once."""


def assign_file(source: Path, output: Path, how: AssignFlags, *, console: Console, overwrite: bool = False) -> None:
    """Assign attributes to the rows of a file, write them to another, and print the outcome.

    Args:
        source: A .parquet, .csv, .jsonl or .json file of one row an instance and one column of affinities an attribute.
        output: A .parquet, .csv or .jsonl file for the columns ``id`` and ``attribute_1`` to ``attribute_k``.
        how: Columns and settings. Without a column of ids rows are numbered from 0.
        console: Where the outcome is shown, and progress if it is a terminal.
        overwrite: Whether an existing output may be replaced.

    Raises:
        MagistrateError: A file cannot be read or written, a column holds no numbers, or no assignment keeps the slack.
    """
    begun = time.monotonic()
    source = local(source)
    _check_paths(source, output, overwrite=overwrite)
    margin: Any = how.slack if how.slack == "auto" else _number(how.slack)
    with console.status(escape(f"reading {source}")) if console.is_terminal else nullcontext() as status:

        def report(words: str) -> None:
            if status:
                status.update(escape(words))

        scores = read_scores(source, how.attribute or (), how.row_id)
        share = None if how.priors is None else _read_priors(how.priors, scores.names)
        places = None if scores.ids is None else id_places(scores.ids)
        try:
            result = assign(
                scores.matrix, share, how.k, margin, ids=places, labels=scores.names, method=how.method, progress=report
            )
        except SolverError as error:
            raise MagistrateError(str(error)) from error
        report(f"writing {output}")
        _write(output.resolve(), scores.names, result.chosen, scores.ids)
    _print_outcome(console, scores.names, result, automatic=how.slack == "auto")
    _say(console, f"Written to {output} after {time.monotonic() - begun:.1f} s.")


def _check_paths(source: Path, output: Path, *, overwrite: bool) -> None:
    check_file(source)
    if not source.exists():
        raise MagistrateError(f"{source}: there is no such file")
    if output.suffix.lower() not in WRITERS:
        raise MagistrateError(f"{output}: unknown kind of file; give `-o` a name that ends in {', '.join(WRITERS)}")
    if same_file(output, source):
        raise MagistrateError(f"{output} holds the scores; give `-o` another file")
    if not output.parent.is_dir():
        raise MagistrateError(f"{output} cannot be written: there is no folder {output.parent}")
    if output.is_dir():
        raise MagistrateError(f"{output} is a folder; give `-o` a file")
    if output.exists() and not overwrite:
        raise MagistrateError(f"{output} exists already; give `-o` another file, or `--overwrite` to replace it")


def _number(slack: str) -> float:
    try:
        return float(slack)
    except ValueError:
        raise MagistrateError(f"slack must be a number or `auto`, and is {slack!r}") from None


def _read_priors(path: Path, names: list[str]) -> list[float]:
    check_file(path)
    try:
        given = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise MagistrateError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(given, dict):
        raise MagistrateError(f"{path} must hold an object from each attribute to its share or count")
    for name in names:
        if name not in given:
            raise MagistrateError(f"{path} has no prior for {name!r}; give every attribute one")
    for name, value in given.items():
        if name not in names:
            raise MagistrateError(f"{path} has a prior for {name!r}, which is not an attribute; leave it out")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MagistrateError(f"{path} gives {name!r} the prior {value!r}; make it a number")
    return [float(given[name]) for name in names]


def _write(path: Path, names: list[str], chosen: NDArray[np.int16], ids: pa.ChunkedArray | None) -> None:
    """Write all or nothing."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        WRITERS[path.suffix.lower()](scratch, _blocks(names, chosen, ids))
        scratch.replace(path)
    except OSError as error:
        raise MagistrateError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        scratch.unlink(missing_ok=True)


def _blocks(names: list[str], chosen: NDArray[np.int16], ids: pa.ChunkedArray | None) -> Iterator[pa.Table]:
    labels = pa.array(names)
    for begin in range(0, len(chosen), BLOCK):
        block = chosen[begin : begin + BLOCK]
        columns = {"id": pa.array(np.arange(begin, begin + len(block))) if ids is None else ids.slice(begin, BLOCK)}
        for place in range(block.shape[1]):
            columns[f"attribute_{place + 1}"] = labels.take(pa.array(block[:, place]))
        yield pa.table(columns)


def _write_with(open_writer: Callable[[Path, pa.Schema], Any]) -> Callable[[Path, Iterator[pa.Table]], None]:
    def write(path: Path, blocks: Iterator[pa.Table]) -> None:
        first = next(blocks)
        with open_writer(path, first.schema) as writer:
            writer.write_table(first)
            for block in blocks:
                writer.write_table(block)

    return write


def _write_json_lines(path: Path, blocks: Iterator[pa.Table]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for block in blocks:
            file.writelines(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in block.to_pylist())


WRITERS: dict[str, Callable[[Path, Iterator[pa.Table]], None]] = {
    ".parquet": _write_with(pyarrow.parquet.ParquetWriter),
    ".csv": _write_with(pyarrow.csv.CSVWriter),
    ".jsonl": _write_json_lines,
}


def _print_outcome(console: Console, names: list[str], result: Assignment, *, automatic: bool) -> None:
    table = Table("attribute", header_style="bold")
    for heading in ("prior", "at least", "count", "at most", "price"):
        table.add_column(heading, justify="right")
    shares = [] if result.priors is None else result.priors.tolist()
    columns = (shares, result.lower.tolist(), result.counts.tolist(), result.upper.tolist(), result.prices.tolist())
    for name, share, least, count, most, price in zip(names, *columns, strict=True):
        table.add_row(escape(name), f"{share:.2%}", f"{least:,}", f"{count:,}", f"{most:,}", f"{price:,.6g}" if price else "")
    console.print(table)
    rows, k = result.chosen.shape
    proof = "proven optimal" if result.optimal else f"at most {result.gap:,.6g} below the best there is"
    total = f"{result.objective:,.10g}"
    _say(console, f"{_number_of(rows, 'row')} with {_number_of(k, 'attribute')} each; the affinities sum to {total}, {proof}.")
    tied = _number_of(result.ties, "row") if result.ties else "no row"
    _say(console, f"Another choice would have been as good for {tied}.")
    if wide := int(result.widened.sum()):
        which = _number_of(wide, "attribute")
        _say(console, f"The bounds of {which} are wider than the slack, by less than one row: no whole number lies within it.")
    if automatic and result.slack != DEFAULT_SLACK:
        _say(console, f"Slack {DEFAULT_SLACK:g} has no assignment; slack {result.slack:g}, the smallest that has one, was used.")


def _number_of(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
