"""Battles on disk, a line each, and those that the page shows to be read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from evals.arena.battles import PREFERENCES, Battles, Labels
from evals.arena.pairing import Game
from evals.arena.tournament import game_id
from evals.data.comparisons import STYLE
from evals.data.questions import Question
from judges.data.files import atomic_write
from judges.data.samples import well_formed
from judges.orders import CHOICES
from judges.verdict import Verdict

BATTLES = "battles.jsonl"

WORKBOOKS = {"consistent": "consistent_cmp.xlsx", "inconsistent": "inconsistent_cmp.xlsx"}
"""OpenCompass's names for the comparisons that its tables count and those that they leave out."""

LETTERS = {"A": "A", "B": "B", "both": "C", "neither": "D"}
"""The guide's letters of the four choices."""

MOST_SHEET_ROWS = 1_048_575
"""Rows of a sheet, besides the heading."""

MOST_QUESTIONS = 100
"""Questions whose battles the page holds: with every answer to them, that is a megabyte or two."""


def write_battles(battles: Battles, folder: Path) -> Path:
    """Write ``battles.jsonl``, which ``magistrate arena report`` reads, and other tools can: plain rows, as of Chatbot Arena.

    Raises:
        OSError: The folder cannot be written to.
    """
    lines = (well_formed(json.dumps(row, ensure_ascii=False)) for row in _rows(battles))
    return atomic_write(folder / BATTLES, "".join(f"{line}\n" for line in lines))


def write_workbooks(battles: Battles, folder: Path) -> list[Path]:
    """Write a workbook of the comparisons whose two orders agree, or that have one, and one of the others: a row an order.

    Args:
        battles: With the choices in each order. A sheet has no room for more than ``MOST_SHEET_ROWS``; the rest is left out.
        folder: Where to write; an earlier workbook that has no rows now is removed.

    Raises:
        OSError: The folder cannot be written to.
    """
    kinds = {name: [row for kind, row in _comparisons(battles) if kind == name] for name in WORKBOOKS}
    files = []
    for name, rows in kinds.items():
        path = folder / WORKBOOKS[name]
        if rows:
            files.append(atomic_write(path, _workbook(rows[:MOST_SHEET_ROWS])))
        else:
            path.unlink(missing_ok=True)
    return files


def _comparisons(battles: Battles) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each known choice, with A as the answer shown first, and whether the tables count it."""
    for number in range(len(battles)):
        choices = [CHOICES[choice] for choice in battles.orders[number] if choice >= 0]
        kind = "consistent" if len(set(choices)) == 1 else "inconsistent"
        question = battles.question.names[battles.question.codes[number]]
        models = battles.models[battles.first[number]], battles.models[battles.second[number]]
        beside = tuple(_label(getattr(battles, name), number) for name in ("capability", "language", "judge"))
        for turned, choice in enumerate(choices):
            first, second = reversed(models) if turned else models
            shown = {"A": "B", "B": "A"}.get(choice, choice) if turned else choice
            yield kind, (f"{question};{first};{second}", first, second, LETTERS[shown], *beside)


def _label(labels: Labels, number: int) -> str:
    return labels.names[labels.codes[number]] if labels.codes[number] >= 0 else ""


def _workbook(rows: Sequence[Sequence[str]]) -> bytes:
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    book = Workbook(write_only=True)
    sheet = book.create_sheet("comparisons")
    for row in (("cmp_index", "A", "B", "extracted", "capability", "lang", "judge"), *rows):
        cells = [WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("", text)) for text in row]
        for cell in cells:
            cell.data_type = "s"  # a text that begins with `=` is no formula
        sheet.append(cells)
    file = BytesIO()
    book.save(file)
    return file.getvalue()


def examples(
    battles: Battles,
    asked: Sequence[Question],
    answers: Mapping[str, Mapping[str, Sequence[str]]],
    verdicts: Mapping[str, Verdict] | None = None,
) -> dict[str, Any]:
    """Questions, answers and verdicts for the page.

    Args:
        battles: What came of it.
        asked: The questions.
        answers: Of each model, by question.
        verdicts: With the judge's reasons, by ``game_id``.
    """
    questions = list(asked[:MOST_QUESTIONS])
    places = {one.index: place for place, one in enumerate(questions)}
    shown = []
    for number in range(len(battles)):
        question = battles.question.names[battles.question.codes[number]]
        if question not in places or battles.preference[number] < 0:
            continue
        first, second = int(battles.first[number]), int(battles.second[number])
        verdict = (verdicts or {}).get(game_id(Game(question, battles.models[first], battles.models[second])))
        choices = [CHOICES[choice] for choice in battles.orders[number] if choice >= 0]
        reasons = verdict.justification if verdict else None
        shown.append([places[question], first, second, PREFERENCES[battles.preference[number]], choices, reasons])
    return {
        "models": list(battles.models),
        "questions": [
            {
                "index": one.index,
                "text": "\n\n".join(one.turns),
                "capability": one.capability,
                "language": one.language,
                "answers": [_joined(answers.get(model, {}).get(one.index)) for model in battles.models],
            }
            for one in questions
        ],
        "battles": shown,
        "left_out": len(asked) - len(questions),
    }


def _joined(turns: Sequence[str] | None) -> str | None:
    return None if turns is None else "\n\n".join(turns)


def _rows(battles: Battles) -> Iterator[dict[str, Any]]:
    labels: dict[str, Labels] = {
        name: getattr(battles, name) for name in ("question", "capability", "language", "judge", "reason")
    }
    for number in range(len(battles)):
        preference = int(battles.preference[number])
        probability = float(battles.probability[number])
        named = {name: one.names[one.codes[number]] if one.codes[number] >= 0 else None for name, one in labels.items()}
        yield {
            "question_id": named.pop("question"),
            "model_a": battles.models[battles.first[number]],
            "model_b": battles.models[battles.second[number]],
            "preference": PREFERENCES[preference] if preference >= 0 else None,
            "orders": [CHOICES[choice] for choice in battles.orders[number] if choice >= 0],
            "probability": None if probability != probability else probability,
            "identical": bool(battles.identical[number]),
            "style_a": _style(battles, number, 0),
            "style_b": _style(battles, number, 1),
            **named,
        }


def _style(battles: Battles, number: int, side: int) -> dict[str, float] | None:
    """What ``STYLE`` lists of an answer; ``None`` where the answer is not known."""
    found = battles.style[number, side].tolist()
    return None if any(one != one for one in found) else dict(zip(STYLE, found, strict=True))
