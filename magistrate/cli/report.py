"""The tables that end a run of ``score`` or ``jury``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from judges.backend import Tally
from judges.errors import counted
from judges.judge import Score
from judges.summary import Summary
from magistrate.cli.jury import Hearing
from magistrate.cli.output import STANDARD_OUTPUT
from magistrate.cli.scoring import Outcome, mixture

MOST_REASONS = 8


def print_outcome(console: Console, outcome: Outcome, output: Path) -> None:
    """Print a summary of the verdicts, then the speed and the use of the prefix cache."""
    print_summary(console, outcome.summary, outcome.legal)
    if outcome.averaged and (parsed := outcome.summary.parsing_success) is not None:
        mean = outcome.summary.mean_of(outcome.averaged)
        shown = f"{mean:.2f}" if mean is not None else "none, since some apply to no sample"
        console.print(f"mean of the {len(outcome.averaged)} metrics: {shown}; answers that could be read: {parsed:.1%}")
    if outcome.tally.judged:
        tally = outcome.tally
        console.print(f"{tally.judged:,} judged in {tally.judging:.1f} s, {speed(tally)}, after {tally.loading:.1f} s of loading")
    if outcome.tally.kept:
        console.print(f"{outcome.tally.kept:,} had been judged by an earlier run")
    if mixed := mixture(outcome.summary, output):
        console.print(mixed, markup=False, highlight=False)
    if outcome.repeats:
        rows = counted(outcome.repeats, "row has", "rows have")
        console.print(f"{rows} the id of an earlier row; `occurrence` tells their verdicts apart")
    usage = outcome.summary.usage
    if outcome.tally.judged and usage.prompt_tokens:
        share = usage.cached_tokens / usage.prompt_tokens
        tokens = f"{usage.cached_tokens:,} of {usage.prompt_tokens:,} prompt tokens"
        console.print(f"{tokens} came from the prefix cache ({share:.0%})")
    if outcome.leftover is not None:
        text = f"verdicts of samples that changed or left the input were moved to {outcome.leftover}"
        console.print(text, markup=False, highlight=False)
    _print_place(console, output)


def print_summary(console: Console, summary: Summary, legal: Mapping[str, Collection[Score]]) -> None:
    """Print each metric's mean with its 95% interval, its labels with their shares, and what was scored.

    Args:
        console: Where to print.
        summary: Of the verdicts.
        legal: Metric to every legal score.
    """
    table = Table(title=None, header_style="bold")
    for heading in ("metric", "mean", "95% interval", "n"):
        table.add_column(heading, justify="left" if heading == "metric" else "right")
    for metric, mean in summary.means.items():
        interval = mean.interval_in_words(legal.get(metric, ()))
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
    if any("is not UTF-8" in reason for reason in summary.unscored):
        console.print("  `--encoding` reads a CSV file that is not UTF-8: cp1252, for example, or gb18030")
    for metric, count in summary.absent.items():
        console.print(f"  {metric} did not apply to {count:,}", markup=False, highlight=False)


def outcome_fields(outcome: Outcome, output: Path) -> dict[str, Any]:
    """The outcome of a run as JSON, for ``--json``."""
    tally = outcome.tally
    return {
        **summary_fields(outcome.summary, outcome.legal),
        **({"mean_of_metrics": outcome.summary.mean_of(outcome.averaged)} if outcome.averaged else {}),
        "judged": tally.judged,
        "kept": tally.kept,
        "loading_seconds": round(tally.loading, 3),
        "judging_seconds": round(tally.judging, 3),
        "repeated_ids": outcome.repeats,
        "leftover": None if outcome.leftover is None else str(outcome.leftover),
        "verdicts": str(output),
    }


def hearing_fields(heard: Hearing, output: Path) -> dict[str, Any]:
    """The outcome of a jury as JSON, for ``--json``."""
    return {
        **summary_fields(heard.summary, heard.legal),
        "agreement": {metric: asdict(agreed) for metric, agreed in heard.agreement.items()},
        "failures": dict(heard.failures),
        "members": {name: str(file) for name, file in heard.files.items()},
        "verdicts": str(output),
    }


def summary_fields(summary: Summary, legal: Mapping[str, Collection[Score]]) -> dict[str, Any]:
    """What ``print_summary`` prints, as JSON. An interval is null where there is none."""
    return {
        "scored": summary.scored,
        "unscored": summary.unscored.total(),
        "recovered": summary.recovered,
        "reasons": dict(summary.unscored.most_common()),
        "metrics": {
            metric: {"mean": round(mean.mean, 12), "interval": mean.interval(legal.get(metric, ())), "n": mean.count}
            for metric, mean in summary.means.items()
        },
        "labels": {metric: dict(labels.most_common()) for metric, labels in summary.labels.items()},
        "absent": dict(summary.absent),
        "usage": asdict(summary.usage),
        "fingerprints": dict(summary.fingerprints),
    }


def print_jury(console: Console, heard: Hearing, output: Path) -> None:
    """Print a summary of a jury's verdicts, and how far its members agree."""
    print_summary(console, heard.summary, heard.legal)
    table = Table(header_style="bold")
    for heading in ("metric", "level", "Krippendorff's alpha", "samples", "alpha of whether it applies"):
        table.add_column(heading, justify="left" if heading in ("metric", "level") else "right")
    for metric, agreed in heard.agreement.items():
        table.add_row(escape(metric), agreed.level, _alpha(agreed.alpha), f"{agreed.units:,}", _alpha(agreed.applicability_alpha))
    console.print(table)
    for name, why in heard.failures.items():
        console.print(f"without member {name}, which failed: {why}", markup=False, highlight=False)
    for name, file in heard.files.items() if output != STANDARD_OUTPUT else ():
        console.print(f"{name}: {file}", markup=False, highlight=False)
    _print_place(console, output)


def _print_place(console: Console, output: Path) -> None:
    if output != STANDARD_OUTPUT:
        console.print(f"verdicts: {output}", markup=False, highlight=False)


def speed(tally: Tally) -> str:
    """The speed as a number of at least one: judgments a second, or seconds a judgment."""
    if 0 < tally.judged < tally.judging:
        return f"{tally.judging / tally.judged:.1f} s a judgment"
    return f"{tally.judged / max(tally.judging, 1e-9):.1f} judgments a second"


def _alpha(alpha: float | None) -> str:
    return "" if alpha is None else f"{alpha:.3f}"
