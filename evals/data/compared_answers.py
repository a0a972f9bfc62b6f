"""Reads pairs of answers of which people have said which is the better one: published files by what they hold, others by columns.

PandaLM: Wang et al. (2023), https://arxiv.org/abs/2306.05087: 0 for a tie, 1 where the first is better, 2 where the second is.
Auto-J: Li et al. (2023), https://arxiv.org/abs/2310.05470: 0 where the first is better, 1 where the second is, 2 for a tie.
JudgeBench: Tan et al. (2024), https://arxiv.org/abs/2410.12784: ``A>B``, ``B>A``.
LLMBar: Zeng et al. (2023), https://arxiv.org/abs/2310.07641: 1 where the first is better, 2 where the second is.
AlpacaEval: Li et al. (2023), https://github.com/tatsu-lab/alpaca_eval: from 1, the first is better, to 2; 0 and 1.5 are draws.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from evals.data.choice_labels import ALPACA_EVAL, AUTO_J, LLMBAR, PANDALM, ChoiceLabels, check_words
from evals.data.published_ratings import Faults
from evals.data.tables import check_columns, check_distinct, header_of, holds_any, is_empty
from evals.data.tasks import Fault, add_fault
from judges.data.rows import Row, read_rows, renamed
from judges.data.samples import ABSENT, parsed, value_at
from judges.errors import MagistrateError, counted


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a published file.

    Attributes:
        name: What the file is called.
        raters: Columns of what people say.
        question: Columns that together are the question.
        answers: Columns of the first and the second answer.
        id: The column of a pair's name, if there is one.
        labels: What people's labels mean.
        part: The column of the part of the set that a pair is of, if there is one.
    """

    name: str
    raters: tuple[str, ...]
    question: tuple[str, ...]
    answers: tuple[str, str]
    id: str | None
    labels: ChoiceLabels
    part: str | None = None

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that every file of this form has."""
        return (self.question[0], *self.answers, *self.raters)

    def fits(self, header: Collection[str]) -> bool:
        """Whether a file with these columns has this form. The later parts of a question may be missing."""
        return set(self.needed) <= set(header)

    def sample(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """What the pairwise judge takes of a row."""
        asked = [str(row[key]) for key in self.question if row.get(key)]
        first, second = (row.get(answer) for answer in self.answers)
        return {"question": "\n\n".join(asked), "answer_a": first, "answer_b": second}


LABELS_SHOWN = 5
"""Labels that an error names at the most."""

FORMS = (
    Form(
        "PandaLM",
        ("annotator1", "annotator2", "annotator3"),
        ("instruction", "input"),
        ("response1", "response2"),
        "idx",
        PANDALM,
    ),
    Form("Auto-J", ("label",), ("prompt",), ("response 1", "response 2"), None, AUTO_J, "scenario"),
    Form("JudgeBench", ("label",), ("question",), ("response_A", "response_B"), "pair_id", ChoiceLabels(), "source"),
    Form("LLMBar", ("label",), ("input",), ("output_1", "output_2"), None, LLMBAR),
    Form("AlpacaEval", ("preference",), ("instruction",), ("output_1", "output_2"), None, ALPACA_EVAL),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two answers and what people say of them.

    Attributes:
        id: Distinct within the file.
        sample: As the pairwise judge takes it.
        choices: What each rater names, always in the same order of raters; ``None`` where one names nothing.
        item: The question: pairs of one question are no news of other questions.
        part: The part of a published set that it is of, where the file says.
    """

    id: str
    sample: Mapping[str, Any]
    choices: Sequence[int | None]
    item: str
    part: str | None = None

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
        whose: Who says what numbers mean; ``None`` where there are only words.
        meanings: Label to the choice that it names: those that are declared, and the words that people used.
    """

    name: str
    pairs: Sequence[Compared]
    raters: Sequence[str]
    faults: Sequence[Fault] = field(default_factory=tuple)
    whose: str | None = None
    meanings: Mapping[str, int] = field(default_factory=dict)


def majority(choices: Sequence[int | None]) -> int | None:
    """What most name; ``None`` where two choices have as many, or there is none."""
    counts = Counter(one for one in choices if one is not None).most_common(2)
    return None if not counts or (len(counts) > 1 and counts[0][1] == counts[1][1]) else counts[0][0]


def read_compared(
    path: Path,
    human: Sequence[str] = (),
    *,
    labels: ChoiceLabels | None = None,
    fields: Mapping[str, str] | None = None,
    encoding: str | None = None,
    limit: int | None = None,
) -> ComparedSet:
    """Read a file of compared pairs.

    Args:
        path: Any kind of file that ``read_rows`` reads.
        human: Columns of what people say, each a rater's, or of lists, each place a rater's. Without them the file must be one of
            ``FORMS``.
        labels: What people's labels mean; by default what those of a known file mean, or else words alone.
        fields: Field of a sample, as the pairwise judge takes it, to the column that holds it.
        encoding: Of a CSV file.
        limit: Only the first pairs, this many.

    Raises:
        MagistrateError: The file cannot be read or is not known, a column is not there, nothing says what its numbers mean, two
            pairs have one id, or no pair has a choice.
    """
    rows = list(read_rows(path, encoding))[:limit]
    header = header_of(path, rows)
    form = next((one for one in FORMS if one.fits(header)), None)
    if not human and form is None:
        raise MagistrateError(
            f"{path} is no file of compared pairs that is known ({', '.join(one.name for one in FORMS)}); say which columns hold "
            "people's choices: `--human COLUMN,COLUMN`"
        )
    check_columns(path, rows, [*human, *(fields or {}).values()])
    check_distinct(human, "--human")
    raters = tuple(human) or (form.raters if form else ())
    named_in_form = form is not None and set(raters) <= set(form.raters)
    raters = tuple(one for rater in raters for one in _places(rater, rows))
    if labels is None:
        labels = form.labels if form and named_in_form else ChoiceLabels()
    if labels.whose is None:
        for rater in raters:
            cells = [value_at(row.sample or {}, rater) for row in rows]
            check_words(path, rater, cells, "say it with this file's own, e.g. `--labels first=1,second=2,tie=0`")
    reader = _Reader(raters, labels, fields or {}, None if human else form)
    pairs: list[Compared] = []
    for row in rows:
        if row.sample is None:
            add_fault(reader.faults, "cannot be read", row.place)
            continue
        one = reader.compared(row, row.sample)
        if all(choice is None for choice in one.choices):
            add_fault(reader.faults, "has no choice of anyone", one.id)
        else:
            pairs.append(one)
    faults = list(reader.faults.values())
    if not pairs:
        what = "; ".join(f"{counted(fault.count, 'row')}: {fault.what}" for fault in faults)
        known = f" ({what})" if what else ""
        raise MagistrateError(f"{path} holds no pair that people have compared{known}{_unexplained(reader.unread)}")
    twice = [name for name, count in Counter(one.id for one in pairs).items() if count > 1]
    if twice:
        raise MagistrateError(f"{path}: two pairs have the id `{twice[0]}`; give each pair one row, and its raters a column each")
    name = path.stem if human or form is None else form.name
    return ComparedSet(name, pairs, raters, faults, labels.whose, reader.meanings)


def _places(column: str, rows: Sequence[Row]) -> list[str]:
    """The column itself; of a column of nothing but lists, the path of each place in them."""
    cells = [parsed(value_at(row.sample, column)) for row in rows]
    lists = [cell for cell in cells if isinstance(cell, list | tuple)]
    widest = max(map(len, lists), default=0)
    if not widest or any(not isinstance(cell, list | tuple) and not is_empty(cell) for cell in cells):
        return [column]
    return [f"{column}.{place}" for place in range(widest)]


def _unexplained(labels: Collection[str]) -> str:
    """The end of a sentence that says which labels a file has, and how to say what they mean."""
    if not labels:
        return ""
    shown = ", ".join(f"`{label[:40]}`" for label in islice(labels, LABELS_SHOWN))
    more = f" and {len(labels) - LABELS_SHOWN:,} more" if len(labels) > LABELS_SHOWN else ""
    return f"; its labels are {shown}{more}: say what they mean, `--labels first=...,second=...,tie=...`"


@dataclass(slots=True)
class _Reader:
    """Reads the rows of a file.

    Attributes:
        raters: Columns of what people say.
        labels: What their labels mean.
        fields: Field of a sample to its column.
        form: Of the file, where its columns need not be named.
        meanings: Label to choice, with the words that were met.
        faults: What could not be used.
        unread: Labels that name no choice.
    """

    raters: Sequence[str]
    labels: ChoiceLabels
    fields: Mapping[str, str]
    form: Form | None
    meanings: dict[str, int] = field(default_factory=dict)
    faults: Faults = field(default_factory=dict)
    unread: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.meanings |= self.labels.meanings

    def compared(self, row: Row, sample: Mapping[str, Any]) -> Compared:
        """The pair of a row."""
        name, shown = row.id, {key: value for key, value in sample.items() if not holds_any(key, self.raters)}
        if self.form is not None:
            name = f"{self.form.name.lower()}-{sample.get(self.form.id or '', row.id)}"
            shown = self.form.sample(sample)
        columns = {key: one for key, one in self.fields.items() if value_at(sample, one, ABSENT) is not ABSENT}
        moved = renamed(Row(name, row.place, {**sample, **shown}), columns)
        shown |= {key: value for key, value in (moved.sample or {}).items() if key in self.fields}
        choices = [self._choice(rater, value_at(sample, rater), name) for rater in self.raters]
        question, part = shown.get("question"), self.form and self.form.part and sample.get(self.form.part)
        item = name if question in (None, "") else str(question)
        return Compared(id=name, sample=shown, choices=choices, item=item, part=None if part is None else str(part))

    def _choice(self, rater: str, cell: Any, name: str) -> int | None:
        label = self.labels.read(cell)
        choice = self.labels.choice(label)
        if label is not None and choice is not None:
            self.meanings.setdefault(label, choice)
        else:
            what = "has an empty cell" if is_empty(cell) else f"names none of {self.labels.told}"
            add_fault(self.faults, f"`{rater}` {what}", name)
            if label is not None:
                self.unread.setdefault(label)
        return choice
