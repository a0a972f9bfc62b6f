"""What a report of a judge's test cases holds, and the same as JSON."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from evals.meta.grounded.cases import PUBLISHED
from evals.meta.grounded.reference import Likeness
from evals.meta.grounded.study import LEVEL, Study
from evals.tasks import Fault

SIZE = 144
"""Cases of GroUSE's own set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is found of a judge, and of what.

    Attributes:
        judge: Who judged: the model, or the file of verdicts.
        options: Of the judge, as they were given.
        cases: Name of the test cases; ``None`` for the project's own.
        study: The rates.
        reference: Name of the reference evaluator's file, where there is one.
        likeness: Metric to how far the judge goes together with it; empty likewise.
        faults: What could not be used of cases, verdicts and reference.
    """

    judge: str
    options: Mapping[str, str]
    cases: str | None
    study: Study
    reference: str | None = None
    likeness: Mapping[str, Likeness] = field(default_factory=dict)
    faults: Sequence[Fault] = ()

    @property
    def title(self) -> str:
        """What the cases are called in a sentence."""
        return "the project's own" if self.cases is None else self.cases

    @property
    def comparison(self) -> str:
        """What the published rates are on, in a sentence."""
        if self.cases is None:
            return f"The published rates are on GroUSE's own {SIZE} cases, not on these; they show what is usual there."
        if self.cases != PUBLISHED:
            return f"The published rates are on GroUSE's own {SIZE} cases, and are of use only if these are the same."
        return f"The published rates are on {'the same' if len(self.study.results) == SIZE else f'all {SIZE}'} cases."


def figures(report: Report) -> dict[str, Any]:
    """The report as JSON can hold it."""
    found = report.study
    return {
        "judge": report.judge,
        "options": dict(report.options),
        "cases": report.cases,
        "count": len(found.results),
        "level": LEVEL,
        "total": found.total,
        "rates": {metric: asdict(rate) for metric, rate in found.rates.items()},
        "constants": {metric: asdict(one) for metric, one in found.constants.items()},
        "kinds": {kind: {metric: asdict(rate) for metric, rate in rates.items()} for kind, rates in found.kinds.items()},
        "unscored": dict(found.unscored),
        "reference": report.reference,
        "likeness": {metric: asdict(one) for metric, one in report.likeness.items()},
        "faults": [asdict(fault) for fault in report.faults],
        "published": published(),
        "results": [asdict(one) for one in found.results],
    }


@cache
def published() -> Mapping[str, Any]:
    """The tables of GroUSE's authors: ``agreement`` and ``correlation``, a row an evaluator, and their ``source``."""
    return tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
