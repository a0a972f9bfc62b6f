"""The questions of an arena, in the forms in which sets of open questions are published."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from evals.data.fields import SPOILT, TABLES, language_named, name_of, reason_of, rows_of, spoilt, turns_in
from evals.data.tasks import Fault, add_fault
from judges.data.rows import Row
from judges.errors import MagistrateError
from judges.judge import Sample
from judges.pairwise import CHINESE, LATIN

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "turns", "text", "prompt", "instruction", "Prompt"),
    "index": ("index", "question_id", "uid", "id"),
    "reference_answer": ("reference_answer", "reference", "参考回答"),
    "evaluating_guidance": ("evaluating_guidance",),
    "capability": ("capability", "category", "dataset", "任务类型"),
    "language": ("language",),
}
"""Field of a question to the columns that hold it in published sets, the first that a file has being meant."""

AND = "; "
"""Between several capabilities of one question, which counts under each."""

_QUOTED = re.compile("`([^`]*)`")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every model.

    Attributes:
        index: Its number or name, distinct.
        turns: What is asked, in one or several turns.
        reference: A reference answer.
        guidance: What to look for in an answer.
        capability: What it asks of a model; several things with ``AND`` between them.
        language: ``CN``, ``EN``, or what the file says.
    """

    index: str
    turns: tuple[str, ...]
    reference: str | None
    guidance: str | None
    capability: str | None
    language: str


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """The questions of a file.

    Attributes:
        questions: In the file's order.
        faults: Rows of which something could not be used.
        columns: Those of a table that are no field of a question: perhaps models, with their answers, as in Z-Bench.
        path: The file.
        cells: Index of a question to its row's cells in ``columns``; an empty cell may be missing.
        limited: Whether only the first rows were read, so that an answer to another question is no fault.
    """

    questions: list[Question]
    faults: list[Fault]
    columns: tuple[str, ...]
    path: Path
    cells: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    limited: bool = False


def read_questions(
    path: Path, *, fields: Mapping[str, str] | None = None, encoding: str | None = None, limit: int | None = None
) -> QuestionSet:
    """Read questions, a row each.

    Without ``fields``, columns are known by the names they have in:

    - OpenCompass, subjective evaluation (``subjective_demo.xlsx``): question, index, reference_answer, evaluating_guidance,
      capability, language.
    - Vicuna and MT-Bench (FastChat, ``question.jsonl``): question_id, category, turns, in older files text; reference is a list
      with a reference answer for each turn, which are joined with a blank line.
    - Arena-Hard-Auto v0.1: question_id, category, turns as objects with ``content``. v2.0: uid, category, language, prompt.
    - AlpacaEval: instruction, dataset. ``output`` is another model's answer, not a reference answer.
    - Z-Bench: Prompt, 任务类型, 参考回答. Kinds of tasks stand in backticks, which are taken off; a semicolon joins several.

    Where no column has an index, a question goes by its row's number, counted from 1. In a cell of a table, a list of texts as
    JSON is a question of several turns. Where the file names no language, it is ``CN`` if the question has more Chinese
    characters than Latin letters, else ``EN``.

    Args:
        path: ``.jsonl``, ``.json``, ``.csv``, ``.parquet`` or ``.xlsx``.
        fields: Field of a question, as in ``COLUMNS``, to the column that holds it.
        encoding: Of a CSV that is neither UTF-8 nor UTF-16 with a byte order mark.
        limit: Only the first rows, this many.

    Raises:
        MagistrateError: The file cannot be read, has no such column, two questions have one index, or none can be used.
    """
    rows = list(islice(rows_of(path, encoding), limit))
    names = list(dict.fromkeys(name for row in rows for name in row.sample or ()))
    if not names:
        raise MagistrateError(f"{path} holds no row that can be read" + (f": {reason_of(rows[0])}" if rows else ""))
    columns = _columns(path, names, fields or {})
    reader = _Reader(columns, table=path.suffix.lower() in TABLES)
    for number, row in enumerate(rows, start=1):
        reader.take(number, row)
    if not reader.questions:
        what = f": every row {next(iter(reader.faults))}" if len(reader.faults) == 1 else ""
        raise MagistrateError(f"{path} holds no question that can be used{what}")
    others = _others(names, columns) if reader.table else ()
    cells = {index: {name: sample[name] for name in others if name in sample} for index, sample in reader.samples.items()}
    found, faults = list(reader.questions.values()), list(reader.faults.values())
    return QuestionSet(found, faults, others, path, cells if others else {}, limit is not None)


def _columns(path: Path, names: list[str], fields: Mapping[str, str]) -> dict[str, str]:
    """Field of a question to the column of this file that holds it."""
    for name, column in fields.items():
        if name not in COLUMNS:
            raise MagistrateError(f"`{name}` is no field of a question; its fields are {', '.join(COLUMNS)}")
        if column not in names:
            raise MagistrateError(f"{path} has no column `{column}` for the {name}; it has {_listed(names)}")
    taken = set(fields.values())
    columns = {}
    for name, published in COLUMNS.items():
        found = [fields[name]] if name in fields else [one for one in published if one in names and one not in taken]
        columns.update({name: found[0]} if found else {})
    if "question" not in columns:
        known = ", ".join(COLUMNS["question"])
        raise MagistrateError(
            f"{path} has no column with the question ({known}): give `--field question=COLUMN`, one of {_listed(names)}"
        )
    return columns


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _others(names: list[str], columns: Mapping[str, str]) -> tuple[str, ...]:
    known = {*columns.values(), *(name for published in COLUMNS.values() for name in published)}
    return tuple(name for name in names if name not in known and name.strip())


class _Reader:
    """Takes the rows of a file one after another.

    Args:
        columns: Field of a question to its column.
        table: Whether the rows are those of a table.
    """

    def __init__(self, columns: Mapping[str, str], *, table: bool) -> None:
        self.columns = columns
        self.table = table
        self.questions: dict[str, Question] = {}
        self.samples: dict[str, Sample] = {}
        self.faults: dict[str, Fault] = {}
        self._places: dict[str, str] = {}

    def take(self, number: int, row: Row) -> None:
        if row.sample is None:
            add_fault(self.faults, "cannot be read", reason_of(row))
            return
        index = name_of(row.sample.get(self.columns["index"])) if "index" in self.columns else str(number)
        if index is None:
            add_fault(self.faults, "has no index", f"row {number}")
            return
        if index in self._places:
            words = f"the index `{index}` stands at {self._places[index]} too; each question needs one of its own"
            raise MagistrateError(f"{row.place}: {words}")
        self._places[index] = row.place
        question = self._question(index, row.sample)
        if question is not None:
            self.questions[index], self.samples[index] = question, row.sample

    def _question(self, index: str, sample: Sample) -> Question | None:
        turns = self._turns(index, sample, "question", listed=self.table)
        if turns is None:
            return None
        if not turns or not all(turn.strip() for turn in turns):
            add_fault(self.faults, "has an empty question", index)
            return None
        reference, guidance = self._text(index, sample, "reference_answer"), self._text(index, sample, "evaluating_guidance")
        if any(spoilt(text) for text in (*turns, reference or "", guidance or "")):
            add_fault(self.faults, SPOILT, index)
        capability = name_of(sample.get(self.columns.get("capability", "")))
        language = language_named(sample.get(self.columns.get("language", ""))) or _language_of("".join(turns))
        return Question(index, turns, reference, guidance, _unquoted(capability), language)

    def _text(self, index: str, sample: Sample, name: str) -> str | None:
        """A text that may be missing; of several turns, with a blank line between them."""
        return "\n\n".join(turn for turn in self._turns(index, sample, name) or () if turn.strip()) or None

    def _turns(self, index: str, sample: Sample, name: str, *, listed: bool = False) -> tuple[str, ...] | None:
        try:
            return turns_in(sample.get(self.columns.get(name, "")), listed=listed)
        except ValueError as error:
            add_fault(self.faults, f"has a {name} that {error}", index)
            return None


def _unquoted(capability: str | None) -> str | None:
    if capability is None or "`" not in capability:
        return capability
    return AND.join(one.strip() for one in _QUOTED.findall(capability)) or capability.replace("`", "").strip() or None


def _language_of(question: str) -> str:
    return "CN" if len(CHINESE.findall(question)) > len(LATIN.findall(question)) else "EN"
