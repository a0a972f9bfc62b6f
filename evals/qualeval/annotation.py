"""The check of assignments by people: a sample of instances on a sheet for each annotator, and what the filled sheets say.

Source: QualEval, section 2.2: three practitioners looked at 100 samples and found the assigned domains right 84% of the time on
average, and the assigned sub-tasks 90% of the time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow.parquet

from evals.data.tasks import Instance
from evals.reports.document import Block, Document, Heading, Notes, Table
from evals.reports.wording import counted, line, percent, share_with_interval, with_interval
from evals.stats.bootstrap import LEVEL, percentile_ends
from evals.stats.shares import Figure, share_of_items
from judges.agreement import Agreement
from judges.data.files import atomic_write
from judges.data.rows import read_rows
from judges.errors import MagistrateError, reason_of
from judges.qualeval import Kind

KINDS: tuple[Kind, ...] = get_args(Kind)
QUESTIONS: Mapping[Kind, str] = {"domain": "domains right?", "subtask": "sub-tasks right?"}
TITLES: Mapping[Kind, str] = {"domain": "Domains", "subtask": "Sub-tasks"}

PUBLISHED: Mapping[Kind, float] = {"domain": 0.84, "subtask": 0.90}
"""How often the paper's annotators found both attributes of a sample right, on average."""

SAMPLES, ANNOTATORS = 100, 3
"""The paper's."""

ROUNDS = 1_000
"""Resamples of alpha's interval."""

MOST_CHARACTERS = 32_767
"""What a cell of a workbook holds."""

WIDTHS = (12, 70, 50, 40, 16, 40, 16)

_YES, _NO = {"yes", "y", "true", "1", "right", "correct"}, {"no", "n", "false", "0", "wrong", "incorrect"}


@dataclass(frozen=True, slots=True)
class KindChecked:
    """What annotators say of one kind of attribute.

    Attributes:
        right: The share of all answers that find an instance's attributes right; its interval takes answers on one instance as
            belonging together.
        each: The same of each annotator, by the name of the sheet.
        majority: The share of the instances that more than half of their annotators find right.
        alpha: Krippendorff's alpha, nominal, with its interval by resampled instances.
        published: The paper's share.
    """

    right: Figure
    each: dict[str, Figure]
    majority: Figure
    alpha: Figure
    published: float


@dataclass(frozen=True, slots=True)
class Checked:
    """What the sheets say.

    Attributes:
        instances: How many have an answer.
        kinds: By kind of attribute.
        empty: Cells without an answer, by sheet.
    """

    instances: int
    kinds: dict[Kind, KindChecked]
    empty: dict[str, int]


def write_sheets(
    study: Path, instances: Sequence[Instance], *, count: int = SAMPLES, annotators: int = ANNOTATORS, seed: int = 0
) -> list[Path]:
    """Draw instances of a study, and write a sheet with them for each annotator into its folder ``annotation``.

    Args:
        study: The study's folder.
        instances: Of its data set.
        count: How many are drawn; all if there are fewer.
        annotators: How many sheets are written, all alike.
        seed: Of the draw.

    Raises:
        MagistrateError: The folder holds no study, the study is of other data, or a sheet exists already or cannot be written.
    """
    assigned = _assignments(study)
    texts = {instance.id: instance for instance in instances}
    if missing := next((name for name in assigned if name not in texts), None):
        raise MagistrateError(f"the data has no row with the id `{missing}`, which {study} has assigned; is it the study's data?")
    names = [name for name, kinds in assigned.items() if all(kinds.values())]
    if not names:
        raise MagistrateError(f"{study} has assigned no instance")
    drawn = random.Random(seed).sample(names, min(count, len(names)))
    heads = ("id", "input", "ground truth", *(head for kind in KINDS for head in (_heading(kind), QUESTIONS[kind])))
    lines = _explanations(study)
    rows = [
        (
            name,
            texts[name].input,
            texts[name].truth,
            *(cell for kind in KINDS for cell in (_shown(assigned[name][kind], lines), "")),
        )
        for name in drawn
    ]
    book = _workbook([heads, *rows])
    paths = [study / "annotation" / f"annotator-{number}.xlsx" for number in range(1, annotators + 1)]
    for path in paths:
        if path.exists():
            raise MagistrateError(f"{path} exists already, and may hold answers; move it away first")
    try:
        paths[0].parent.mkdir(exist_ok=True)
        return [atomic_write(path, book) for path in paths]
    except OSError as error:
        raise MagistrateError(f"{paths[0].parent} cannot be written to: {reason_of(error)}") from error


def read_sheets(study: Path, paths: Sequence[Path], *, seed: int = 0) -> Checked:
    """Read filled sheets back.

    Args:
        study: The study's folder.
        paths: A sheet of each annotator: any format that samples have.
        seed: Of the resamples.

    Raises:
        MagistrateError: A sheet cannot be read, has another form, names an instance twice or one that the study does not have, or
            holds another word than yes or no; or a sheet has no answer.
    """
    if len(set(paths)) < len(paths):
        raise MagistrateError("a sheet is given twice")
    known = _assignments(study)
    answers: dict[Kind, dict[str, dict[str, bool]]] = {kind: {} for kind in KINDS}
    empty: dict[str, int] = {}
    for path, name in zip(paths, _names(paths), strict=True):
        cells = list(_answers(path, known))
        if all(right is None for _, _, right in cells):
            asked = " or ".join(f"`{question}`" for question in QUESTIONS.values())
            raise MagistrateError(f"{path} holds no answer in {asked}: write yes or no")
        for row_id, kind, right in cells:
            if right is None:
                empty[name] = empty.get(name, 0) + 1
            else:
                answers[kind].setdefault(row_id, {})[name] = right
    checked = {kind: _checked(kind, answers[kind], _names(paths), seed) for kind in KINDS if answers[kind]}
    return Checked(len(set().union(*answers.values())), checked, empty)


def document(checked: Checked) -> Document:
    """What the sheets say, as a document."""
    rows = [
        (
            TITLES[kind],
            _told(found.right),
            _told(found.majority),
            with_interval(found.alpha.value, found.alpha.low, found.alpha.high, 2),
            str(found.right.count),
            percent(found.published),
        )
        for kind, found in checked.kinds.items()
    ]
    each = [(line(name), *(_told(found.each[name]) for found in checked.kinds.values())) for name in _sheets(checked)]
    blocks: list[Block] = [
        Table(
            ("Assigned", "Right", "Right by most annotators", "Alpha", "Answers", "In the paper"), rows, label="Checked by people"
        ),
        Heading("Each annotator"),
        Table(("Sheet", *(TITLES[kind] for kind in checked.kinds)), each, label="Each annotator"),
        Notes(list(_notes(checked))),
    ]
    return Document(f"{counted(checked.instances, 'instance')} checked by people", blocks)


def write(checked: Checked, study: Path) -> Path:
    """Write the figures to ``annotation.json`` in the study's folder."""
    figures = {
        "instances": checked.instances,
        "kinds": {kind: asdict(found) for kind, found in checked.kinds.items()},
        "empty": checked.empty,
    }
    return atomic_write(study / "annotation.json", json.dumps(figures, indent=2, ensure_ascii=False) + "\n")


def _notes(checked: Checked) -> Iterator[str]:
    for name, count in checked.empty.items():
        yield f"{counted(count, 'cell')} of {line(name)} {'is' if count == 1 else 'are'} empty and count for nothing"
    for kind, found in checked.kinds.items():
        if found.alpha.reason:
            yield f"{TITLES[kind]}: {found.alpha.reason}"


def _sheets(checked: Checked) -> list[str]:
    return list(next(iter(checked.kinds.values())).each)


def _told(figure: Figure) -> str:
    return share_with_interval(figure.value, figure.low, figure.high)


def _heading(kind: Kind) -> str:
    return TITLES[kind].lower()


def _assignments(study: Path) -> dict[str, dict[Kind, list[str]]]:
    path = study / "assignments.parquet"
    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
        return {str(row["id"]): {kind: list(row[kind]) for kind in KINDS} for row in rows}
    except FileNotFoundError:
        raise MagistrateError(f"{study} holds no study: there is no assignments.parquet in it") from None
    except (OSError, KeyError, TypeError, pyarrow.ArrowException) as error:
        raise MagistrateError(f"{path} cannot be read: {reason_of(error)}") from error


def _explanations(study: Path) -> dict[str, str]:
    """A line on each attribute that has one."""
    try:
        lists = json.loads((study / "attributes.json").read_text(encoding="utf-8"))
        attributes = [attribute for kind in KINDS for attribute in lists[kind]["attributes"]]
        return {attribute["name"]: attribute["explanation"] for attribute in attributes if attribute.get("explanation")}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _shown(names: Sequence[str], lines: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {lines[name]}" if name in lines else name for name in names)


def _workbook(rows: Sequence[Sequence[str]]) -> bytes:
    from openpyxl import Workbook
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    from openpyxl.styles import Alignment, Font
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.datavalidation import DataValidation

    book = Workbook()
    sheet = book.active
    assert sheet is not None
    for number, row in enumerate(rows, start=1):
        for column, text in enumerate(row, start=1):
            cell = sheet.cell(number, column, ILLEGAL_CHARACTERS_RE.sub("", text)[:MOST_CHARACTERS] or None)
            cell.alignment = Alignment(wrap_text=True, vertical="top")
            cell.font = Font(bold=number == 1)
            if cell.value is not None:
                cell.data_type = "s"  # a text that begins with `=` is no formula
    choice = DataValidation(type="list", formula1='"yes,no"', allow_blank=True)
    sheet.add_data_validation(choice)
    for column, (head, width) in enumerate(zip(rows[0], WIDTHS, strict=True), start=1):
        letter = get_column_letter(column)
        sheet.column_dimensions[letter].width = width
        if head in QUESTIONS.values():
            choice.add(f"{letter}2:{letter}{len(rows)}")
    sheet.freeze_panes = "A2"
    file = BytesIO()
    book.save(file)
    return file.getvalue()


def _names(paths: Sequence[Path]) -> list[str]:
    """A name for each sheet: its file's, or its path where two files have one name."""
    short = [path.stem for path in paths]
    return short if len(set(short)) == len(short) else [str(path) for path in paths]


def _answers(path: Path, known: Mapping[str, object]) -> Iterator[tuple[str, Kind, bool | None]]:
    seen: set[str] = set()
    for row in read_rows(path):
        if row.sample is None:
            raise MagistrateError(f"{row.place}: {row.problem or 'the row cannot be read'}")
        if "id" not in row.sample:
            raise MagistrateError(f"{row.place} has no `id`; give a sheet that `qualeval annotate` wrote")
        row_id = str(row.sample["id"])
        if row_id not in known:
            raise MagistrateError(f"{row.place}: the study has no instance `{row_id}`")
        if row_id in seen:
            raise MagistrateError(f"{row.place}: the instance `{row_id}` stands on the sheet twice")
        seen.add(row_id)
        for kind, question in QUESTIONS.items():
            yield row_id, kind, _answer(row.sample.get(question), f"{row.place}, `{question}`")


def _answer(cell: object, place: str) -> bool | None:
    text = "" if cell is None else str(cell).strip().casefold()
    if text in _YES | _NO:
        return text in _YES
    if text:
        raise MagistrateError(f"{place} is {str(cell)!r}: write yes or no, or leave it empty")
    return None


def _checked(kind: Kind, answers: Mapping[str, Mapping[str, bool]], sheets: Sequence[str], seed: int) -> KindChecked:
    numbers = {row_id: number for number, row_id in enumerate(answers)}
    each = {name: [(numbers[row], given[name]) for row, given in answers.items() if name in given] for name in sheets}
    together = [(numbers[row], right) for row, given in answers.items() for right in given.values()]
    shares = {row: float(np.mean(list(given.values()))) for row, given in answers.items()}
    decided = [(numbers[row], share > 0.5) for row, share in shares.items() if share != 0.5]
    return KindChecked(
        _share(together),
        {name: _share(given) for name, given in each.items()},
        _share(decided),
        _alpha([list(given.values()) for given in answers.values()], seed),
        PUBLISHED[kind],
    )


def _share(answers: Sequence[tuple[int, bool]]) -> Figure:
    if not answers:
        return Figure.none("the sheet has no answer")
    items, values = zip(*answers, strict=True)
    return share_of_items(np.array(values, float), np.array(items))


def _alpha(units: Sequence[Sequence[bool]], seed: int) -> Figure:
    several = [[str(right) for right in unit] for unit in units if len(unit) > 1]
    value = _alpha_of(several)
    if value is None:
        why = "all answers are the same, so agreement cannot be told from chance" if several else "no instance has two answers"
        return Figure.none(f"alpha is undefined: {why}")
    chance = np.random.default_rng(seed)
    draws = chance.integers(0, len(several), (ROUNDS, len(several)))
    drawn = np.array([_alpha_of([several[number] for number in draw]) for draw in draws], np.float64)
    low, high, _, reason = percentile_ends(drawn, len(several), LEVEL)
    return Figure(value, low, high, len(several), reason)


def _alpha_of(units: Sequence[Sequence[str]]) -> float | None:
    agreement = Agreement("nominal")
    for unit in units:
        agreement.add(unit)
    return agreement.alpha
