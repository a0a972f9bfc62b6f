"""Whether a run has failed: nothing is scored, or less than a wanted share."""

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
    typer.Option(metavar="SHARE", help="Exit with 1 if a smaller share of the samples is scored, e.g. 0.95.", min=0, max=1),
]


def check_share(summary: Summary, least: float | None = None) -> None:
    """Check that enough samples are scored.

    Args:
        summary: The tally of all verdicts.
        least: The least share to be scored; if ``None``, one sample is enough.

    Raises:
        MagistrateError: No sample is scored, or fewer than wanted.
    """
    scored, unscored = summary.scored, summary.unscored
    total = scored + unscored.total()
    if total and not scored:
        raise MagistrateError(f"none of {counted(total, 'sample')} is scored ({_reasons(unscored)})")
    if least is not None and scored < least * total:
        raise MagistrateError(
            f"{scored:,} of {total:,} samples are scored, {scored / total:.1%}, which is less than `--fail-under {least:g}` "
            f"({_reasons(unscored)})"
        )


def check_any(verdicts: Iterable[Verdict]) -> None:
    """Check that any of the verdicts has scores.

    Raises:
        MagistrateError: No verdict has scores.
    """
    check_share(Summary.of(verdicts))


def _reasons(unscored: Counter[str]) -> str:
    return "; ".join(f"{count:,} unscored: {reason}" for reason, count in unscored.most_common(MOST_REASONS))
