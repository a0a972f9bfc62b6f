"""Tells a published file by its shape, says why its labels mean what they do, and refuses a file where that is unclear.

A number means what its file's publisher says: Auto-J's 0 names the first answer, PandaLM's 0 a tie. So a file is read as the
benchmark that was named only if it has that benchmark's shape and no other's, and if its labels are those that the shape has.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any, get_args

from evals.data.choice_labels import FIRST, SECOND, ChoiceLabels
from evals.data.compared_answers import FORMS, Form
from evals.data.tables import header_of, named
from evals.meta.benchmarks.declared import Benchmark, Name, benchmark
from judges.data.rows import Row
from judges.data.samples import parsed, value_at
from judges.errors import MagistrateError

MANY, FAR_BETTER = 500, 20.0
"""Labels from which on their shares are looked at, and by how much the log-likelihood of another reading must be above."""

ENOUGH = 20
"""Labels from which on a set names either answer at least once, unless its numbers mean something else."""

FORM_NAMES: Mapping[Name, str] = {"judgebench": "JudgeBench", "llmbar": "LLMBar", "pandalm": "PandaLM", "autoj": "Auto-J"}
CHOSEN = ("prompt", "chosen", "rejected", "subset", "id")
BEST_OF = ("prompt", "chosen", "rejected", "num_correct", "subset", "id")


@dataclass(frozen=True, slots=True)
class Shape:
    """How a file of a benchmark looks.

    Attributes:
        name: Of the benchmark.
        columns: That it has.
        lists: Whether its chosen and rejected answers are lists; ``None`` where it has no such columns.
        form: Of its rows, for a file of labelled pairs.
    """

    name: Name
    columns: Sequence[str]
    lists: bool | None = None
    form: Form | None = None

    def fits(self, header: Iterable[str], rows: Sequence[Row]) -> bool:
        """Whether a file with these columns and rows has this shape."""
        if not set(self.columns) <= set(header):
            return False
        if self.lists is None:
            return True
        cells = (parsed(value_at(row.sample, "rejected")) for row in rows if row.sample is not None)
        return any(isinstance(cell, list | tuple) for cell in cells) == self.lists

    @property
    def told(self) -> str:
        """What a file of this shape is known by."""
        lists = {None: "", True: ", with lists of answers", False: ", with one chosen and one rejected answer"}[self.lists]
        return f"the columns {named(self.columns)}{lists}"


def _labelled(name: Name) -> Shape:
    form = next(one for one in FORMS if one.name == FORM_NAMES[name])
    return Shape(name, form.needed, form=form)


SHAPES: Mapping[Name, Shape] = {
    "rewardbench": Shape("rewardbench", CHOSEN, lists=False),
    "rewardbench2": Shape("rewardbench2", BEST_OF, lists=True),
    **{name: _labelled(name) for name in get_args(Name) if name in FORM_NAMES},
}


def shape_of(name: Name, path: Path, rows: Sequence[Row]) -> Shape:
    """The shape of a file, which must be that of the benchmark that was named and no other's.

    Raises:
        MagistrateError: It is another benchmark's, no benchmark's, or that of two.
    """
    header = header_of(path, rows)
    fitting = [shape for shape in SHAPES.values() if shape.fits(header, rows)]
    titles = {shape.name: benchmark(shape.name).title for shape in SHAPES.values()}
    if SHAPES[name] not in fitting:
        if fitting:
            others = " or ".join(f"{titles[one.name]}'s: `magistrate meta benchmark {one.name}`" for one in fitting)
            raise MagistrateError(f"{path} is not {titles[name]}'s file by its columns, but {others}")
        raise MagistrateError(
            f"{path} is not {titles[name]}'s file: that has {SHAPES[name].told}, and this {named(list(header))}; give the file "
            "as it is published"
        )
    if len(fitting) > 1:
        both = " and ".join(titles[one.name] for one in fitting)
        raise MagistrateError(f"{path} has the columns of {both}, so nothing says what its labels mean; leave out those of one")
    return SHAPES[name]


SAY = "; if they are right, say what each means: `--labels first=...,second=...,tie=...`"


def check_labels(path: Path, declared: Benchmark, labels: ChoiceLabels, counts: Mapping[str, int]) -> None:
    """Refuse labels that the shape does not have, or that name one answer alone.

    Args:
        path: The file.
        declared: The benchmark.
        labels: What its numbers mean.
        counts: Label to how often the file has it.

    Raises:
        MagistrateError: A label is not one of the shape's, or of many labels none names one of the answers.
    """
    means = ", ".join(f"{label} is {word_of(choice)}" for label, choice in labels.meanings.items()) or "A>B, B>A"
    strange = next((label for label in counts if labels.choice(label) is None), None)
    if strange is not None:
        raise MagistrateError(
            f"{path}: the label `{strange[:40]}` is not one of {declared.title}'s ({means}), "
            f"so what the others mean is unclear{SAY}"
        )
    found = {word_of(labels.choice(label)) for label in counts}
    absent = next((word for word in ("first", "second") if word not in found), None)
    if absent is not None and sum(counts.values()) >= ENOUGH:
        raise MagistrateError(
            f"{path}: none of {sum(counts.values()):,} labels names the {absent} answer by {declared.title}'s numbers ({means}), "
            f"so what they mean is unclear{SAY}"
        )


def check_shares(path: Path, declared: Benchmark, counts: Mapping[str, int]) -> None:
    """Refuse labels that are shared out otherwise than in the published set.

    As many labels as that has must be its own. Of many others, no other reading of the numbers may fit the published shares far
    better: over runs of 200 of PandaLM's rows, another reading than the right one is at most e^6 times as likely, and where the
    numbers are Auto-J's at least e^41 times. Auto-J's three labels are too evenly shared out for that.

    Raises:
        MagistrateError: The labels seem to mean something else.
    """
    total = sum(counts.values())
    if not declared.labels or dict(counts) == declared.labels:
        return
    whole = total == sum(declared.labels.values())
    if not whole and (total < MANY or _better_read(declared.labels, counts) < FAR_BETTER):
        return
    there = ", ".join(f"{label} {counts[label]:,} times" for label in sorted(counts))
    wanted = ", ".join(f"{label} {amount:,} times" for label, amount in declared.labels.items())
    alike = "as many labels as" if whole else "labels that are shared out otherwise than in"
    raise MagistrateError(
        f"{path} has {alike} {declared.title}'s published set: {there}, where that has {wanted}, "
        f"so what they mean is unclear{SAY}"
    )


def _better_read(published: Mapping[str, int], counts: Mapping[str, int]) -> float:
    """By how much the log-likelihood grows at the most, if the labels are those of the published set in another order."""
    total = sum(published.values())
    likely = {label: math.log(amount / total) for label, amount in published.items()}
    read = (
        math.fsum(counts.get(label, 0) * likely[as_one] for label, as_one in zip(likely, order, strict=True))
        for order in permutations(likely)
    )
    first = next(read)  # the labels as they are
    return max(first, *read) - first


def word_of(choice: int | None) -> str:
    """What a choice is called."""
    return {FIRST: "first", SECOND: "second"}.get(choice or 0, "tie")


def label_counts(rows: Sequence[Row], columns: Sequence[str], labels: ChoiceLabels) -> Counter[str]:
    """Label to how often the columns have it, as the labels are read. Cells that say nothing do not count."""
    cells: Iterable[Any] = (value_at(row.sample, column) for row in rows if row.sample is not None for column in columns)
    return Counter(label for cell in cells if (label := labels.read(cell)) is not None)
