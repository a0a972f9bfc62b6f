"""A list of verdicts for Python programs: as a table, summed up, and as a notebook shows it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, overload

from judges.data.files import atomic_write
from judges.extras import naming_extras
from judges.judge import Score
from judges.summary import Summary
from judges.verdict import Verdict

if TYPE_CHECKING:
    import pandas

MOST_SHOWN = 10
"""Verdicts that a notebook shows."""


class Verdicts(list[Verdict]):
    """Verdicts in their samples' order.

    Args:
        verdicts: The verdicts.
        legal: Metric to every legal score, for intervals that stay within the scale.
    """

    def __init__(self, verdicts: Iterable[Verdict] = (), legal: Mapping[str, Collection[Score]] | None = None) -> None:
        super().__init__(verdicts)
        self.legal = dict(legal or {})

    @overload
    def __getitem__(self, place: SupportsIndex) -> Verdict: ...

    @overload
    def __getitem__(self, place: slice) -> Self: ...

    def __getitem__(self, place: SupportsIndex | slice) -> Verdict | Self:
        """A verdict by its place, or the verdicts of a slice."""
        found = super().__getitem__(place)
        return type(self)(found, self.legal) if isinstance(found, list) else found

    @property
    def metrics(self) -> list[str]:
        """The metrics that any verdict scores, in the judge's order."""
        return list(dict.fromkeys(metric for verdict in self for metric in verdict.scores or ()))

    def summary(self) -> Summary:
        """Each metric's mean, labels and counts, and the reasons of unscored verdicts."""
        return Summary.of(self)

    def to_pandas(self) -> pandas.DataFrame:
        """A table of a row a sample: ``id``, a column for each metric, ``status`` and ``reason``.

        If expected scores were asked for, the columns ``expected_METRIC`` and ``entropy_METRIC`` (nats) follow, and
        ``calibrated_METRIC`` if the model has a calibration of it. A metric with the name of another column gets ``_`` behind its
        own.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        with naming_extras():
            import pandas

        return pandas.DataFrame(dict(self._columns()))

    def write(self, path: str | Path) -> Path:
        """Write a file of verdicts, as ``magistrate score`` does, for commands and studies. It replaces what was there.

        Raises:
            OSError: It cannot be written.
        """
        return atomic_write(Path(path), "".join(f"{verdict.to_json()}\n" for verdict in self))

    def _columns(self) -> Iterator[tuple[str, list[Any]]]:
        taken = {"id", "status", "reason"}

        def free(name: str) -> str:
            while name in taken:
                name += "_"
            taken.add(name)
            return name

        yield "id", [verdict.id for verdict in self]
        for metric in self.metrics:
            yield free(metric), [(verdict.scores or {}).get(metric) for verdict in self]
        yield "status", [verdict.status for verdict in self]
        yield "reason", [verdict.reason for verdict in self]
        for metric in dict.fromkeys(metric for verdict in self for metric in verdict.expected or ()):
            found = [(verdict.expected or {}).get(metric) for verdict in self]
            yield free(f"expected_{metric}"), [one and one.expectation for one in found]
            yield free(f"entropy_{metric}"), [one and one.entropy for one in found]
            calibrated = [one and one.calibrated for one in found]
            if any(one is not None for one in calibrated):
                yield free(f"calibrated_{metric}"), calibrated

    def _repr_html_(self) -> str:
        """The summary and the first verdicts, as a notebook shows them."""
        return "".join(self._html())

    def _html(self) -> Iterator[str]:
        summary = self.summary()
        unscored = summary.unscored.total()
        yield f"<p>{summary.scored:,} scored, {unscored:,} unscored</p>"
        if summary.means:
            means = summary.means.items()
            rows = [(name, f"{m.mean:.2f}", m.interval_in_words(self.legal.get(name, ())), f"{m.count:,}") for name, m in means]
            yield _table(("metric", "mean", "95% interval", "n"), rows)
        for metric, labels in summary.labels.items():
            shares = ", ".join(f"{label} {count:,} ({count / labels.total():.0%})" for label, count in labels.most_common())
            yield f"<p>{escape(f'{metric}: {shares}')}</p>"
        if self:
            metrics = self.metrics
            yield _table(("id", *metrics, "reason"), (_cells(verdict, metrics) for verdict in self[:MOST_SHOWN]))
        if len(self) > MOST_SHOWN:
            yield f"<p>and {len(self) - MOST_SHOWN:,} more</p>"


def _cells(verdict: Verdict, metrics: Sequence[str]) -> list[str]:
    scores = verdict.scores or {}
    return [verdict.id, *("" if scores.get(metric) is None else str(scores[metric]) for metric in metrics), verdict.reason or ""]


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
