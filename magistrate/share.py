"""Whether enough of what was asked came out: a run of which nothing is scored has failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated

import typer

from judges.errors import MagistrateError, counted
from judges.summary import Summary
from judges.verdict import Verdict

MOST_REASONS = 3

FailUnder = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help="Exit with 1 where a smaller share of the samples is scored, e.g. 0.95.", min=0, max=1),
]


def check_share(summary: Summary, least: float | None = None) -> None:
    """See that samples were scored.

    Args:
        summary: Of the verdicts on all that was asked.
        least: The share of them that is to be scored at least; without it, any.

    Raises:
        MagistrateError: None is scored, or fewer than wanted.
    """
    scored, unscored = summary.scored, summary.unscored
    asked = scored + unscored.total()
    if asked and not scored:
        raise MagistrateError(f"none of {counted(asked, 'sample')} is scored ({_reasons(unscored)})")
    if least is not None and scored < least * asked:
        raise MagistrateError(
            f"{scored:,} of {asked:,} samples are scored, {scored / asked:.1%}, which is less than `--fail-under {least:g}` "
            f"({_reasons(unscored)})"
        )


def check_any(verdicts: Iterable[Verdict]) -> None:
    """See that any of the verdicts has scores.

    Raises:
        MagistrateError: None has.
    """
    check_share(Summary.of(verdicts))


def _reasons(unscored: Counter[str]) -> str:
    return "; ".join(f"{count:,} unscored: {reason}" for reason, count in unscored.most_common(MOST_REASONS))
