"""Table 1: for each set of domains rows at random against rows of these domains, by domain and overall, beside the paper's."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from evals.plain_text import plain
from evals.statistics.bootstrap import ROUNDS
from evals.statistics.crossed import crossed_difference
from evals.whole_files import write_whole
from finetune.experiment import Experiment, Values

PAPER = Path(__file__).parent / "table_1.toml"


def table(experiment: Experiment, values: Values, *, rounds: int = ROUNDS, seed: int = 0) -> dict[str, Any]:
    """The figures. Differences are paired, with intervals over instances and seeds.

    Returns:
        ``metric``, ``seeds``, ``instances``, ``before`` (the base's mean) and ``sets``: each with ``domains`` and ``overall``,
        which have ``name``, ``instances``, the means ``random`` and ``targeted``, their ``difference`` with ``low`` and
        ``high``, and the means ``by_seed``. ``None`` stands where there is no figure.
    """
    plan, member = experiment.plan, experiment.evaluation.chosen
    sets = []
    for number, domains in enumerate(experiment.sets):
        targeted = values.targeted[number]
        found = crossed_difference(targeted, values.random, member, len(experiment.domains), rounds=rounds, seed=seed)
        whole = np.ones(len(member), bool)
        parts = [(experiment.domains[domain], (member == domain).any(axis=1), _ends(found, domain)) for domain in domains]
        overall = found.overall
        parts.append(("overall", whole, (overall.mean, overall.low, overall.high)))
        rows = [
            {
                "name": name,
                "instances": int(inside.sum()),
                "random": _mean(values.random[:, inside]),
                "targeted": _mean(targeted[:, inside]),
                "difference": _figure(mean),
                "low": _figure(low),
                "high": _figure(high),
                "by_seed": [
                    {"random": _mean(one[inside]), "targeted": _mean(other[inside])}
                    for one, other in zip(values.random, targeted, strict=True)
                ],
            }
            for name, inside, (mean, low, high) in parts
        ]
        sets.append({"domains": rows[:-1], "overall": rows[-1]})
    return {
        "metric": plan.metric.title,
        "recipe": plan.recipe.name,
        "seeds": list(plan.seeds),
        "instances": len(member),
        "rows": {"base": plan.base, "added": plan.added, "validation": plan.validation},
        "before": _mean(values.before),
        "sets": sets,
    }


def markdown(found: dict[str, Any]) -> str:
    """The table as text, with the paper's below it."""
    return "\n".join(_lines(found)) + "\n"


def write_table(experiment: Experiment, values: Values, folder: Path) -> list[Path]:
    """Write the figures as ``table.json`` and ``table.md``, and return the files."""
    found = table(experiment, values)
    files = {"table.md": markdown(found), "table.json": json.dumps(found, ensure_ascii=False, indent=1) + "\n"}
    for name, text in files.items():
        write_whole(folder / name, text)
    return [folder / name for name in files]


def _lines(found: dict[str, Any]) -> Iterator[str]:
    rows = found["rows"]
    seeds = len(found["seeds"])
    yield "# Rows of chosen domains against rows at random"
    yield ""
    yield (
        f"{found['metric']} on {found['instances']:,} instances, {seeds} {'seed' if seeds == 1 else 'seeds'}, recipe "
        f"{found['recipe']}: {rows['base']} rows and {rows['added']} more. Before training: {_shown(found['before'])}."
    )
    yield ""
    yield "| set | domain | instances | at random | of the domains | difference | 95% interval |"
    yield "|---|---|---|---|---|---|---|"
    for number, one in enumerate(found["sets"], start=1):
        for row in [*one["domains"], one["overall"]]:
            ends = f"{_shown(row['low'])} to {_shown(row['high'])}" if row["low"] is not None else "–"
            yield (
                f"| {number} | {_cell(row['name'])} | {row['instances']} | {_shown(row['random'])} | {_shown(row['targeted'])} | "
                f"{_shown(row['difference'], sign=True)} | {ends} |"
            )
    yield ""
    yield "Intervals are over instances and seeds, both paired; of a few seeds they are too narrow."
    yield ""
    paper = tomllib.loads(PAPER.read_text(encoding="utf-8"))
    yield f"The paper's, in hundredths: {paper['source']}."
    yield ""
    yield "| domains | at random | of the domains | differences | overall |"
    yield "|---|---|---|---|---|"
    for one in paper["set"]:
        cells = [", ".join(map(str, one[part])) for part in ("domains", "random", "targeted", "differences")]
        yield f"| {' | '.join(cells)} | {one['overall']} |"


def _ends(found: Any, domain: int) -> tuple[float, float, float]:
    return float(found.mean[domain]), float(found.low[domain]), float(found.high[domain])


def _mean(values: Any) -> float | None:
    there = values[~np.isnan(values)]
    return _figure(there.mean()) if there.size else None


def _figure(value: Any) -> float | None:
    return None if np.isnan(value) else round(float(value), 6)


def _shown(value: float | None, *, sign: bool = False) -> str:
    return "–" if value is None else f"{value:+.3f}" if sign else f"{value:.3f}"


def _cell(name: str) -> str:
    return " ".join(str(plain(name)).replace("|", "\\|").split())
