"""The table that ends a run."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from magistrate.scoring import Outcome

MOST_REASONS = 8


def print_outcome(console: Console, outcome: Outcome, output: Path) -> None:
    """Print each metric's mean with its 95% interval, then what was scored, how fast, and from which cache."""
    summary = outcome.summary
    table = Table(title=None, header_style="bold")
    for heading, justify in (("metric", "left"), ("mean", "right"), ("95% interval", "right"), ("n", "right")):
        table.add_column(heading, justify="left" if justify == "left" else "right")
    for metric, mean in summary.means.items():
        half = mean.half_width
        interval = "" if half is None else f"{mean.mean - half:.2f} to {mean.mean + half:.2f}"
        table.add_row(metric, f"{mean.mean:.2f}", interval, f"{mean.count:,}")
    if summary.means:
        console.print(table)
    unscored = summary.unscored.total()
    recovered = f", {summary.recovered:,} finished after a cut-off" if summary.recovered else ""
    console.print(f"{summary.scored:,} scored, {unscored:,} unscored{recovered}")
    for reason, count in summary.unscored.most_common(MOST_REASONS):
        console.print(f"  {count:,} unscored: {reason}", markup=False, highlight=False)
    for metric, count in summary.absent.items():
        console.print(f"  {metric} did not apply to {count:,}")
    if outcome.judged:
        speed = outcome.judged / outcome.judging if outcome.judging else 0.0
        console.print(
            f"{outcome.judged:,} judged in {outcome.judging:.1f} s, {speed:.1f} judgments a second, "
            f"after {outcome.loading:.1f} s of loading"
        )
    if outcome.kept:
        console.print(f"{outcome.kept:,} had been judged by an earlier run")
    usage = summary.usage
    if usage.prompt_tokens:
        share = usage.cached_tokens / usage.prompt_tokens
        tokens = f"{usage.cached_tokens:,} of {usage.prompt_tokens:,} prompt tokens"
        console.print(f"{tokens} came from the prefix cache ({share:.0%})")
    if outcome.leftover is not None:
        text = f"verdicts of samples that the input no longer has were moved to {outcome.leftover}"
        console.print(text, markup=False, highlight=False)
    console.print(f"verdicts: {output}", markup=False, highlight=False)
