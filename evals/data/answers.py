"""What models answered to an arena's questions, in the forms in which answers are published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.data.fields import SPOILT, TABLES, first_of, name_of, reason_of, rows_of, spoilt, turns_in
from evals.data.questions import Question, QuestionSet
from evals.data.tasks import Fault, add_fault
from judges.data.rows import Row
from judges.errors import MagistrateError
from judges.judge import Sample

INDEX = ("index", "question_id", "uid", "id")
MODEL = ("model", "model_id", "generator")
TEXT = ("answer", "text", "output")
FIELDS = (*TEXT, "choices", "messages")


@dataclass(frozen=True, slots=True)
class Answers:
    """What a model answered.

    Attributes:
        model: The contestant's name.
        texts: A question's index to the answer: a text for each turn, or one text.
        faults: Questions without an answer, and answers of which something could not be used.
        ids: The answers' own ids, where the file has some: published verdicts tell by them who was compared.
    """

    model: str
    texts: Mapping[str, tuple[str, ...]]
    faults: list[Fault]
    ids: tuple[str, ...] = ()


def read_answers(path: Path, questions: QuestionSet, *, name: str | None = None, encoding: str | None = None) -> list[Answers]:
    """Read a file of answers, a row each, of one model or of several.

    A row names its question (``index``, ``question_id``, ``uid``, ``id``), perhaps its model (``model``, ``model_id``,
    ``generator``), and has the answer in one of these forms:

    - ``answer``: a text, or a list with a text for each turn.
    - Vicuna (FastChat, ``answer_*.jsonl``): ``text``.
    - MT-Bench and Arena-Hard-Auto v0.1: ``choices``, each with ``turns``, texts or objects with ``content``; the first counts.
    - Arena-Hard-Auto v2.0: ``messages`` with ``role`` and ``content``, which may be ``{"answer": ...}``; the assistant's count.
    - AlpacaEval: ``output``. The question is the one with the text of ``instruction``; of several with one text, the next.

    A contestant is called what ``name`` says, else what the row says, else as the file, without ``answer_`` before it.

    Args:
        path: ``.jsonl``, ``.json``, ``.csv``, ``.parquet`` or ``.xlsx``.
        questions: What was asked.
        name: Of the contestant.
        encoding: Of a CSV that is neither UTF-8 nor UTF-16 with a byte order mark.

    Raises:
        MagistrateError: The file cannot be read, a model answers a question twice, a model answers none of the questions, or
            there are several models and one ``name``.
    """
    table = path.suffix.lower() in TABLES
    unread: dict[str, Fault] = {}
    contestants: dict[str, _Contestant] = {}
    called = path.stem.removeprefix("answer_")
    for row in rows_of(path, encoding):
        if row.sample is None:
            add_fault(unread, "answer cannot be read", reason_of(row))
            continue
        model = name_of(first_of(row.sample, MODEL)) or called
        if model not in contestants:
            contestants[model] = _Contestant(name or model, questions, table=table)
        contestants[model].take(row)
    if name is not None and len(contestants) > 1:
        raise MagistrateError(f"{path} holds answers of {len(contestants)} models ({', '.join(contestants)}): give it no name")
    if not contestants:
        why = next((f": {fault.ids[0]}" for fault in unread.values()), "")
        raise MagistrateError(f"{path} holds no answer{why}")
    read = [one.done(path) for one in contestants.values()]
    for fault in unread.values():
        fault.model = read[0].model if len(read) == 1 else None  # nobody knows whose they are
        read[0].faults.append(fault)
    return read


def answers_in(questions: QuestionSet, columns: Sequence[str]) -> list[Answers]:
    """Answers that stand in the questions' own table, in a column for each model, as in Z-Bench.

    Args:
        questions: As read.
        columns: Names of columns, which are the models' names too; ``["*"]`` means all that are no field of a question.

    Raises:
        MagistrateError: There is no such column, or one holds no answer.
    """
    wanted = questions.columns if list(columns) == ["*"] else tuple(columns)
    if not wanted:
        raise MagistrateError(f"{questions.path} has no columns but those of the questions")
    for column in wanted:
        if column not in questions.columns:
            there = ", ".join(f"`{name}`" for name in questions.columns) or "none"
            raise MagistrateError(f"{questions.path} has no column `{column}` with answers; such columns are {there}")
    return [_column(questions, column) for column in dict.fromkeys(wanted)]


def _column(questions: QuestionSet, column: str) -> Answers:
    contestant = _Contestant(column, questions, table=True)
    for question in questions.questions:
        value = questions.cells.get(question.index, {}).get(column)
        if value not in (None, ""):
            contestant.answer(question, value)
    return contestant.done(questions.path)


class _Contestant:
    """Gathers the answers of one model.

    Args:
        model: Its name.
        questions: What was asked.
        table: Whether answers stand in cells of a table.
    """

    def __init__(self, model: str, questions: QuestionSet, *, table: bool) -> None:
        self.model = model
        self.table = table
        self.questions = {question.index: question for question in questions.questions}
        self.limited = questions.limited
        self.faults: dict[str, Fault] = {}
        self.texts: dict[str, tuple[str, ...]] = {}
        self.ids: list[str] = []
        self._places: dict[str, str] = {}
        self._by_text: dict[str, list[str]] = {}
        self._asked: Counter[str] = Counter()
        for question in questions.questions:
            self._by_text.setdefault("\n\n".join(question.turns), []).append(question.index)

    def take(self, row: Row) -> None:
        """One row of a file."""
        sample = row.sample or {}
        index = self._index(sample)
        if index is None:
            self._fault("answer names no question", f"row {row.id}")
            return
        if index in self._places:
            words = f"`{self.model}` answers question `{index}` at {self._places[index]} too; give each question one answer"
            raise MagistrateError(f"{row.place}: {words}")
        self._places[index] = row.place
        answer_id = name_of(sample.get("answer_id"))
        self.ids.extend([answer_id] if answer_id else [])
        question = self.questions.get(index)
        if question is None:
            if not self.limited:
                self._fault("answers a question that is not there", index)
        elif not any(name in sample for name in FIELDS):
            self._fault("has no field with an answer", index)
        else:
            self.answer(question, self._given(index, sample))

    def answer(self, question: Question, given: Any) -> None:
        """The answer to one question."""
        index = question.index
        self._places.setdefault(index, "")
        try:
            turns = turns_in(given, listed=self.table and len(question.turns) > 1)
        except ValueError as error:
            self._fault(f"has an answer that {error}", index)
            return
        if not any(turn.strip() for turn in turns):
            self._fault("has an empty answer", index)
        elif len(turns) not in (1, len(question.turns)):
            self._fault("answers in another number of turns than it was asked", index)
        else:
            self.texts[index] = turns
            if any(spoilt(turn) for turn in turns):
                self._fault(f"answer {SPOILT}", index)

    def done(self, path: Path) -> Answers:
        """All of them, with the questions that have none."""
        for index in self.questions:
            if index not in self._places:
                self._fault("has no answer", index)
        if not self.texts:
            matched = self.questions.keys() & self._places.keys()
            why = "all are empty or of another form" if matched else "do the ids agree?"
            words = f"holds no answer of `{self.model}` to any of the {len(self.questions):,} questions; {why}"
            raise MagistrateError(f"{path} {words}")
        return Answers(self.model, self.texts, list(self.faults.values()), tuple(self.ids))

    def _fault(self, what: str, row_id: str) -> None:
        add_fault(self.faults, what, row_id, self.model)

    def _index(self, sample: Sample) -> str | None:
        index = name_of(first_of(sample, INDEX))
        instruction = sample.get("instruction")
        if index is not None or not isinstance(instruction, str):
            return index
        same = self._by_text.get(instruction, [])
        self._asked[instruction] += 1
        # One answer too many goes to the last, whose second answer it is then.
        return same[min(self._asked[instruction], len(same)) - 1] if same else instruction

    def _given(self, index: str, sample: Sample) -> Any:
        choices, messages = sample.get("choices"), sample.get("messages")
        if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
            if len(choices) > 1:
                self._fault("has more than one choice; the first is used", index)
            return choices[0].get("turns")
        if isinstance(messages, list):
            return [one.get("content") for one in messages if isinstance(one, Mapping) and one.get("role") == "assistant"]
        return first_of(sample, TEXT)
