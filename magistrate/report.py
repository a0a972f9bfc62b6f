"""The table that ends a run."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from judges.errors import counted
from judges.summary import Summary
from magistrate.jury import Hearing
from magistrate.scoring import Outcome

MOST_REASONS = 8


def print_outcome(console: Console, outcome: Outcome, output: Path) -> None:
    """Print what the verdicts say, then how fast they were reached, and from which cache."""
    print_summary(console, outcome.summary)
    if outcome.tally.judged:
        speed = outcome.tally.judged / outcome.tally.judging if outcome.tally.judging else 0.0
        console.print(
            f"{outcome.tally.judged:,} judged in {outcome.tally.judging:.1f} s, {speed:.1f} judgments a second, "
            f"after {outcome.tally.loading:.1f} s of loading"
        )
    if outcome.tally.kept:
        console.print(f"{outcome.tally.kept:,} had been judged by an earlier run")
    if outcome.repeats:
        rows = counted(outcome.repeats, "row has", "rows have")
        console.print(f"{rows} the id of an earlier row; `occurrence` tells their verdicts apart")
    usage = outcome.summary.usage
    if outcome.tally.judged and usage.prompt_tokens:
        share = usage.cached_tokens / usage.prompt_tokens
        tokens = f"{usage.cached_tokens:,} of {usage.prompt_tokens:,} prompt tokens"
        console.print(f"{tokens} came from the prefix cache ({share:.0%})")
    if outcome.leftover is not None:
        text = f"verdicts of samples that the input no longer has, or has otherwise, were moved to {outcome.leftover}"
        console.print(text, markup=False, highlight=False)
    console.print(f"verdicts: {output}", markup=False, highlight=False)


def print_summary(console: Console, summary: Summary) -> None:
    """Print each metric's mean with its 95% interval, its labels with their shares, and what was scored."""
    table = Table(title=None, header_style="bold")
    for heading in ("metric", "mean", "95% interval", "n"):
        table.add_column(heading, justify="left" if heading == "metric" else "right")
    for metric, mean in summary.means.items():
        half = mean.half_width
        interval = "" if half is None else f"{mean.mean - half:.2f} to {mean.mean + half:.2f}"
        table.add_row(escape(metric), f"{mean.mean:.2f}", interval, f"{mean.count:,}")
    if summary.means:
        console.print(table)
    for metric, labels in summary.labels.items():
        shares = ", ".join(f"{label} {count:,} ({count / labels.total():.0%})" for label, count in labels.most_common())
        console.print(f"{metric}: {shares}", markup=False, highlight=False)
    unscored = summary.unscored.total()
    recovered = f", {summary.recovered:,} finished after a cut-off" if summary.recovered else ""
    console.print(f"{summary.scored:,} scored, {unscored:,} unscored{recovered}")
    for reason, count in summary.unscored.most_common(MOST_REASONS):
        console.print(f"  {count:,} unscored: {reason}", markup=False, highlight=False)
    for metric, count in summary.absent.items():
        console.print(f"  {metric} did not apply to {count:,}", markup=False, highlight=False)


def print_jury(console: Console, heard: Hearing, output: Path) -> None:
    """Print what a jury's verdicts say, and how far its members agree."""
    print_summary(console, heard.summary)
    table = Table(header_style="bold")
    for heading in ("metric", "level", "Krippendorff's alpha", "samples", "alpha of whether it applies"):
        table.add_column(heading, justify="left" if heading in ("metric", "level") else "right")
    for metric, found in heard.agreement.items():
        table.add_row(escape(metric), found.level, _alpha(found.alpha), f"{found.units:,}", _alpha(found.applicability_alpha))
    console.print(table)
    for name, why in heard.failures.items():
        console.print(f"without member {name}, which failed: {why}", markup=False, highlight=False)
    for name, file in heard.files.items():
        console.print(f"{name}: {file}", markup=False, highlight=False)
    console.print(f"verdicts: {output}", markup=False, highlight=False)


def _alpha(alpha: float | None) -> str:
    return "" if alpha is None else f"{alpha:.3f}"
