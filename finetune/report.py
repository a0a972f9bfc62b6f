"""Table 1 as people read it: a page, a text and a picture, beside the paper's figures."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from evals.plain_text import plain
from evals.reports.html import environment, policy
from evals.reports.wording import counted, number
from evals.statistics.crossed import FEWEST
from evals.whole_files import write_whole
from finetune.experiment import Experiment, Values
from finetune.picture import drawn, svg
from finetune.table import rows_of, table
from judges.errors import MagistrateError, reason_of

PAPER = Path(__file__).parent / "table_1.toml"

Figures = Mapping[str, Any]


def write_report(experiment: Experiment, values: Values, folder: Path) -> list[Path]:
    """Write ``table.html``, ``table.md``, ``table.png`` and ``table.json``, and return the files.

    Raises:
        MagistrateError: The folder cannot be written to.
    """
    found = table(experiment, values)
    files: dict[str, str | bytes] = {
        "table.html": page(found),
        "table.md": markdown(found),
        "table.png": drawn(found),
        "table.json": json.dumps(found, ensure_ascii=False, indent=1) + "\n",
    }
    try:
        return [write_whole(folder / name, data) for name, data in files.items()]
    except OSError as error:
        raise MagistrateError(f"the table cannot be written to {folder}: {reason_of(error)}") from error


def page(found: Figures) -> str:
    """The table as a page of its own, which asks for nothing else.

    Args:
        found: As ``table`` gives it.
    """
    template = environment("finetune").get_template("table.html")
    return template.render(
        found=found,
        lead=lead(found),
        made=_made(found),
        note=note(found),
        chart=Markup(svg(found)),
        paper=_paper(),
        signed=_signed,
        ends=_ends,
        rows_of=rows_of,
        between=_between,
        policy=policy(),
    )


def markdown(found: Figures) -> str:
    """The table as text."""
    return "\n".join(_lines(found)) + "\n"


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


def _made(found: Figures) -> str:
    rows = found["rows"]
    return (
        f"{found['metric']} on {counted(found['instances'], 'instance')}, {counted(len(found['seeds']), 'seed')}, recipe "
        f"{found['recipe']}: {rows['base']} rows and {rows['added']} more. Before training: {number(found['before'])}."
    )


def _lines(found: Figures) -> Iterator[str]:
    yield "# Rows of chosen domains against rows at random"
    yield ""
    yield lead(found)
    yield ""
    yield _made(found)
    yield ""
    yield "![The differences with their intervals](table.png)"
    yield ""
    yield "| set | domain | instances | at random | of the domains | difference | 95% interval |"
    yield "|---|---|---|---|---|---|---|"
    for place, one in enumerate(found["sets"], start=1):
        for row in rows_of(one):
            cells = (number(row["random"]), number(row["targeted"]), _signed(row["difference"]), _ends(row))
            yield f"| {place} | {_cell(row['name'])} | {row['instances']} | {' | '.join(cells)} |"
    yield ""
    yield note(found)
    yield ""
    paper = _paper()
    yield f"The paper's, in hundredths: {paper['source']}."
    yield ""
    yield "| domains | at random | of the domains | differences | overall |"
    yield "|---|---|---|---|---|"
    for one in paper["set"]:
        listed = (", ".join(map(str, one[part])) for part in ("domains", "random", "targeted", "differences"))
        yield f"| {' | '.join(listed)} | {one['overall']} |"


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
    return "–" if row["low"] is None else f"{_signed(row['low'])} to {_signed(row['high'])}"


def _cell(name: str) -> str:
    return " ".join(str(plain(name)).replace("|", "\\|").split())
