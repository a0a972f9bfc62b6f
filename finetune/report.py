"""Table 1 as people read it: a page, a text and a picture, beside the paper's figures."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from evals.reports.document import Block, Chart, Document, Heading, Table, Text
from evals.reports.files import as_json, write_files
from evals.reports.html import page
from evals.reports.markdown import markdown
from evals.reports.wording import NONE, counted, line, number
from evals.statistics.crossed import FEWEST
from finetune.experiment import Experiment, Values
from finetune.picture import differences
from finetune.table import rows_of, table

PAPER = Path(__file__).parent / "table_1.toml"

SOURCE = "QualEval (Murahari et al., arXiv 2311.02807)"

Figures = Mapping[str, Any]


def write_report(experiment: Experiment, values: Values, folder: Path) -> list[Path]:
    """Write ``table.html``, ``table.md``, ``table.png`` and ``table.json``, and return the files.

    Raises:
        MagistrateError: The folder cannot be written to.
    """
    found = table(experiment, values)
    said = document(found)
    files: dict[str, str | bytes] = {
        "table.html": page(said),
        "table.md": markdown(said),
        **said.pictures(),
        "table.json": as_json(found),
    }
    return write_files(folder, files, what="table")


def document(found: Figures) -> Document:
    """The table as a document.

    Args:
        found: As ``table`` gives it.
    """
    return Document(
        "Rows of chosen domains against rows at random",
        list(_blocks(found)),
        kicker="QualEval, table 1",
        foot=f"Made by Magistrate after {SOURCE}. The same figures are in table.json and table.md.",
    )


def lead(found: Figures) -> str:
    """What came out, in a sentence or two: differences whose interval leaves out zero are called differences, no others."""
    if len(found["seeds"]) < FEWEST:
        return "Rows of chosen domains, compared with as many at random, in one training each: a first look, and no more."
    overall = [one["overall"] for one in found["sets"]]
    inside = [row for one in found["sets"] for row in one["domains"]]
    told = [
        f"{_tally(rows)} {what}"
        for rows, what in ((overall, "over all instances"), (inside, "within the domains that rows were added of"))
    ]
    return f"Rows of chosen domains, compared with as many at random: {told[0]}, and {told[1]}."


def note(found: Figures) -> str:
    """What the intervals are of."""
    if len(found["seeds"]) < FEWEST:
        return "One training says nothing of another, so there are no intervals: train with several seeds."
    return "Intervals are over instances and seeds, both paired; of a few seeds they are too narrow."


def _tally(rows: list[Figures]) -> str:
    better = sum(row["low"] is not None and row["low"] > 0 for row in rows)
    worse = sum(row["high"] is not None and row["high"] < 0 for row in rows)
    if not better and not worse:
        return f"no difference that is told from chance in {counted(len(rows), 'comparison')}"
    return f"better in {better}, worse in {worse} and not told from chance in {len(rows) - better - worse} of {len(rows)}"


def _blocks(found: Figures) -> Iterator[Block]:
    rows = found["rows"]
    yield Text(lead(found), "lead")
    yield Text(
        f"{found['metric']} on {counted(found['instances'], 'instance')}, {counted(len(found['seeds']), 'seed')}, recipe "
        f"{found['recipe']}: {rows['base']} rows and {rows['added']} more. Before training: {number(found['before'])}.",
        "aside",
    )
    placed = [(place, row) for place, one in enumerate(found["sets"], start=1) for row in rows_of(one)]
    yield Heading("What rows of the domains change", key="differences")
    yield Chart(
        "table",
        "The differences with their intervals",
        differences(found),
        "The differences by set, domain and overall; the table below has the same figures.",
    )
    yield Table(
        ("Set", "Domain", "Instances", "At random", "Of the domains", "Difference", "95% interval"),
        [
            (
                str(place),
                line(row["name"]),
                str(row["instances"]),
                number(row["random"]),
                number(row["targeted"]),
                _signed(row["difference"]),
                _ends(row),
            )
            for place, row in placed
        ],
        texts=2,
        names=1,
        label="The differences",
    )
    yield Text(note(found), "aside")
    yield Heading("The differences seed by seed", key="seeds")
    yield Table(
        ("Set", "Domain", *(f"Seed {seed}" for seed in found["seeds"])),
        [(str(place), line(row["name"]), *(_signed(_between(means)) for means in row["by_seed"])) for place, row in placed],
        texts=2,
        names=1,
        label="The differences of each seed",
    )
    paper = _paper()
    yield Heading("The paper’s figures", key="paper")
    yield f"In hundredths: {paper['source']}."
    yield Table(
        ("Domains", "At random", "Of the domains", "Differences", "Overall"),
        [
            (*(", ".join(map(str, one[part])) for part in ("domains", "random", "targeted", "differences")), str(one["overall"]))
            for one in paper["set"]
        ],
    )


@cache
def _paper() -> Figures:
    return tomllib.loads(PAPER.read_text(encoding="utf-8"))


def _signed(value: float | None) -> str:
    if value is None:
        return number(value)
    return f"{round(value, 3) + 0.0:+.3f}".replace("-", "−")


def _between(means: Figures) -> float | None:
    random, targeted = means["random"], means["targeted"]
    return None if random is None or targeted is None else targeted - random


def _ends(row: Figures) -> str:
    return NONE if row["low"] is None else f"{_signed(row['low'])} to {_signed(row['high'])}"
