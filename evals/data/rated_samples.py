"""Reads samples that people have rated: published files by what they hold, any other by the columns that a user names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evals.data.published_ratings import Faults, Rated, RatedSet, rating_columns, recognised, with_references
from evals.data.tables import check_columns, check_distinct, header_of, holds_any
from evals.data.tasks import add_fault
from judges.data.rows import Row, read_rows, renamed
from judges.data.samples import ABSENT, value_at
from judges.errors import MagistrateError, counted


def read_rated(
    path: Path,
    human: Mapping[str, Sequence[str]] | None = None,
    *,
    fields: Mapping[str, str] | None = None,
    item: str | None = None,
    system: str | None = None,
    encoding: str | None = None,
    limit: int | None = None,
) -> RatedSet:
    """Read a file of rated samples.

    Args:
        path: Any kind of file that ``read_rows`` reads.
        human: Quality to its columns, each a rater's; a cell may be a list of ratings. Without it the file must be one of the
            published ones that are known.
        fields: Field of a sample, as a judge takes it, to the column that holds it.
        item: The column that says what a sample is about. By default each sample is an item, or as a published file has it.
        system: The column that says who wrote what is rated, likewise.
        encoding: Of a CSV file.
        limit: Only the first samples, this many.

    Raises:
        MagistrateError: The file cannot be read or is not known, a column is not there, two samples have one id, or none is
            rated.
    """
    rows = list(read_rows(path, encoding))
    faults: Faults = {}
    if human:
        name, samples = path.stem, _of_columns(path, rows[:limit], human, fields or {}, item, system, faults)
    else:
        name, samples = _published(path, rows, fields or {}, {"--item": item, "--system": system}, faults, limit)
    _check_ids(path, samples)
    qualities = list(dict.fromkeys(quality for one in samples for quality in one.ratings))
    raters = {quality: max(len(one.ratings.get(quality, ())) for one in samples) for quality in qualities}
    rated = []
    for one in samples:
        filled = {
            quality: [*given, *[None] * (raters[quality] - len(given))]
            for quality in qualities
            for given in [one.ratings.get(quality, ())]
        }
        if any(rating is not None for ratings in filled.values() for rating in ratings):
            rated.append(replace(one, ratings=filled))
        else:
            add_fault(faults, "has no rating", one.id)
    if not rated:
        what = "; ".join(f"{counted(fault.count, 'row')}: {fault.what}" for fault in faults.values())
        raise MagistrateError(f"{path} holds no sample with a rating{f' ({what})' if what else ''}")
    return RatedSet(name, rated, qualities, list(faults.values()))


def _published(
    path: Path,
    rows: Sequence[Row],
    fields: Mapping[str, str],
    flags: Mapping[str, str | None],
    faults: Faults,
    limit: int | None,
) -> tuple[str, list[Rated]]:
    first = next((row.sample for row in rows if row.sample is not None), {})
    found = recognised(first)
    if found is None:
        raise MagistrateError(
            f"{path} is no file of ratings that is known (USR's TopicalChat and PersonaChat, GRADE, DialSummEval); say which "
            "columns hold what people gave: `--human QUALITY=COLUMN`"
        )
    for flag, column in flags.items():
        if column is not None:
            raise MagistrateError(f"`{flag} {column}` goes with `--human`; the items and systems of {found[0]} are known")
    name, reader = found
    samples: list[Rated] = []
    for number, row in enumerate(rows):
        if limit is not None and len(samples) >= limit:
            break
        if row.sample is None:
            add_fault(faults, "cannot be read", row.place)
            continue
        try:
            samples += list(reader(row.sample, number, faults))
        except KeyError as error:
            add_fault(faults, f"has no field `{error.args[0]}`", row.place)
    samples = with_references(samples)
    known = dict.fromkeys(field for one in samples for field in one.sample)
    for column in fields.values():
        if column not in known:
            raise MagistrateError(f"the samples of {name} have no field `{column}`; they have {', '.join(known)}")
    return name, [_with_fields(one, fields) for one in samples[:limit]]


def _with_fields(one: Rated, fields: Mapping[str, str]) -> Rated:
    return replace(one, sample=_renamed(Row(one.id, one.id, one.sample), fields).sample or {})


def _of_columns(
    path: Path,
    rows: Sequence[Row],
    human: Mapping[str, Sequence[str]],
    fields: Mapping[str, str],
    item: str | None,
    system: str | None,
    faults: Faults,
) -> list[Rated]:
    header_of(path, rows)
    for quality, several in human.items():
        check_distinct(several, f"--human {quality}")
    columns = list(dict.fromkeys(column for several in human.values() for column in several))
    check_columns(path, rows, [*columns, *(name for name in (item, system) if name), *fields.values()])
    for row in rows:
        if row.sample is None:
            add_fault(faults, "cannot be read", row.place)
    samples = []
    there = [(row, row.sample) for row in rows if row.sample is not None]
    cells = [rating_columns({column: value_at(sample, column) for column in columns}, row.id, faults) for row, sample in there]
    widths = {column: max((len(one[column]) for one in cells), default=0) for column in columns}
    for (row, found), given in zip(there, cells, strict=True):
        moved = _renamed(row, fields)
        sample = moved.sample or {}
        # A judge is not to see what people said.
        shown = {name: value for name, value in sample.items() if name in fields or not holds_any(name, columns)}
        padded = {column: [*ratings, *[None] * (widths[column] - len(ratings))] for column, ratings in given.items()}
        ratings = {quality: [one for column in several for one in padded[column]] for quality, several in human.items()}
        about = value_at(found, item) if item else moved.id
        if about in (None, ""):
            add_fault(faults, f"`{item}` says nothing, so the sample is an item of its own", moved.id)
            about = f"\0{moved.id}"
        writer = value_at(found, system) if system else None
        by = None if writer is None else str(writer).strip() or None
        if system and by is None:
            add_fault(faults, f"`{system}` says nothing, so the sample is of no system", moved.id)
        samples.append(Rated(id=moved.id, sample=shown, ratings=ratings, set=path.stem, item=str(about), system=by))
    return samples


def _renamed(row: Row, fields: Mapping[str, str]) -> Row:
    """The row with a judge's fields, of those columns that it has."""
    return renamed(row, {name: column for name, column in fields.items() if value_at(row.sample, column, ABSENT) is not ABSENT})


def _check_ids(path: Path, samples: Sequence[Rated]) -> None:
    seen: set[str] = set()
    for one in samples:
        if one.id in seen:
            raise MagistrateError(
                f"{path}: two samples have the id `{one.id}`; give each sample one row, and its raters a column each"
            )
        seen.add(one.id)
