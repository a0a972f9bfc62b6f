"""Reads pairs of answers of which people have said which is the better one.

PandaLM: Wang et al. (2023), https://arxiv.org/abs/2306.05087: 0 for a tie, 1 where the first is better, 2 where the second is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.arena.verdict_forms import WINNERS
from evals.meta.cells import is_empty, number_in
from evals.meta.columns import check_columns, check_distinct, header_of
from evals.meta.people.published import Faults
from evals.tasks import Fault, add_fault
from judges.errors import MagistrateError
from judges.sources import Row, read_rows, renamed

TIE, FIRST, SECOND = 0, 1, 2
"""Which answer is the better one."""

PANDALM = ("annotator1", "annotator2", "annotator3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two answers and what people say of them.

    Attributes:
        id: Distinct within the file.
        sample: As the pairwise judge takes it.
        choices: What each rater names, always in the same order of raters; ``None`` where one names nothing.
        item: The question: pairs of one question are no news of other questions.
    """

    id: str
    sample: Mapping[str, Any]
    choices: Sequence[int | None]
    item: str

    @property
    def majority(self) -> int | None:
        """What most people name; ``None`` where two choices have as many."""
        return majority(self.choices)

    @property
    def unanimous(self) -> bool:
        """Whether two people or more name the same, and nobody anything else."""
        given = [one for one in self.choices if one is not None]
        return len(given) > 1 and len(set(given)) == 1


@dataclass(frozen=True, slots=True)
class ComparedSet:
    """A file of compared pairs.

    Attributes:
        name: What it is called.
        pairs: In the file's order.
        raters: What the raters are called.
        faults: What could not be used.
    """

    name: str
    pairs: Sequence[Compared]
    raters: Sequence[str]
    faults: Sequence[Fault] = field(default_factory=tuple)


def majority(choices: Sequence[int | None]) -> int | None:
    """What most name; ``None`` where two choices have as many, or there is none."""
    counts = Counter(one for one in choices if one is not None).most_common(2)
    return None if not counts or (len(counts) > 1 and counts[0][1] == counts[1][1]) else counts[0][0]


def choice_of(value: Any) -> int | None:
    """What a cell or a judge's word says: 0, 1, 2, or A, B, tie, both, neither; ``None`` where it is none of these."""
    if isinstance(value, bool):
        return None
    number = number_in(value)
    if number is not None:
        return int(number) if number in (TIE, FIRST, SECOND) else None
    named = WINNERS.get(value.strip().lower()) if isinstance(value, str) else None
    return None if named is None else {"A": FIRST, "B": SECOND}.get(named, TIE)


def read_compared(
    path: Path,
    human: Sequence[str] = (),
    *,
    fields: Mapping[str, str] | None = None,
    encoding: str | None = None,
    limit: int | None = None,
) -> ComparedSet:
    """Read a file of compared pairs.

    Args:
        path: Any kind of file that ``read_rows`` reads.
        human: Columns of what people say, each a rater's. Without them the file must be PandaLM's.
        fields: Field of a sample, as the pairwise judge takes it, to the column that holds it.
        encoding: Of a CSV file.
        limit: Only the first pairs, this many.

    Raises:
        MagistrateError: The file cannot be read or is not known, a column is not there, two pairs have one id, or no pair has a
            choice.
    """
    rows = list(read_rows(path, encoding))[:limit]
    header = header_of(path, rows)
    known = {*PANDALM, "instruction", "response1", "response2"} <= header.keys()
    if not human and not known:
        raise MagistrateError(
            f"{path} is no file of compared pairs that is known (PandaLM's); say which columns hold people's choices, 0, 1 and 2 "
            "or A, B and tie: `--human COLUMN,COLUMN`"
        )
    check_columns(path, header, [*human, *(fields or {}).values()])
    check_distinct(human, "--human")
    raters = list(human) or list(PANDALM)
    faults: Faults = {}
    pairs: list[Compared] = []
    for row in rows:
        if row.sample is None:
            add_fault(faults, "cannot be read", row.place)
            continue
        one = _compared(row, row.sample, raters, fields or {}, faults, pandalm=not human)
        if all(choice is None for choice in one.choices):
            add_fault(faults, "has no choice of anyone", one.id)
        else:
            pairs.append(one)
    if not pairs:
        what = "; ".join(f"{fault.count:,} rows: {fault.what}" for fault in faults.values())
        raise MagistrateError(f"{path} holds no pair that people have compared{f' ({what})' if what else ''}")
    twice = [name for name, count in Counter(one.id for one in pairs).items() if count > 1]
    if twice:
        raise MagistrateError(f"{path}: two pairs have the id `{twice[0]}`; give each pair one row, and its raters a column each")
    return ComparedSet("PandaLM" if not human else path.stem, pairs, raters, list(faults.values()))


def _compared(
    row: Row, sample: Mapping[str, Any], raters: Sequence[str], fields: Mapping[str, str], faults: Faults, *, pandalm: bool
) -> Compared:
    name, shown = row.id, {key: value for key, value in sample.items() if key not in raters}
    if pandalm:
        name = f"pandalm-{sample.get('idx', row.id)}"
        asked = [str(sample[key]) for key in ("instruction", "input") if sample.get(key)]
        shown = {"question": "\n\n".join(asked), "answer_a": sample.get("response1"), "answer_b": sample.get("response2")}
    moved = renamed(Row(name, row.place, {**sample, **shown}), {key: one for key, one in fields.items() if one in sample})
    shown |= {key: value for key, value in (moved.sample or {}).items() if key in fields}
    choices = []
    for rater in raters:
        cell = sample.get(rater)
        choice = choice_of(cell)
        if choice is None:
            add_fault(
                faults, f"`{rater}` {'has an empty cell' if is_empty(cell) else 'names none of 0, 1, 2, A, B and tie'}", name
            )
        choices.append(choice)
    question = shown.get("question")
    return Compared(id=name, sample=shown, choices=choices, item=name if question in (None, "") else str(question))
