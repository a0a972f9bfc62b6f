"""What is said of labels that could not be used, wherever they are read beside verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evals.reports.wording import counted, first_few


def of_metric(unscored: Mapping[str, int], unscored_labels: int, empty: int) -> Iterator[str]:
    """Of a metric.

    Args:
        unscored: Reason to how many samples have no number of the judge.
        unscored_labels: How many of those have a label.
        empty: Rows without a label, though their sample has a verdict.
    """
    yield from (f"{counted(amount, 'sample')} left out: {why}" for why, amount in unscored.items())
    if unscored_labels:
        yield f"{counted(unscored_labels, 'label')} not used, of samples that the judge gave no number"
    if empty:
        yield f"{counted(empty, 'row')} without a label"


def of_file(unmatched: Sequence[str], unmatched_count: int, faults: Sequence[str], fault_count: int) -> Iterator[str]:
    """Of the file.

    Args:
        unmatched: The first ids without a verdict.
        unmatched_count: How many there are.
        faults: The first rows and cells that could not be used.
        fault_count: How many there are.
    """
    if unmatched_count:
        yield f"{counted(unmatched_count, 'label id')} without a verdict: {first_few(unmatched, unmatched_count)}"
    if fault_count:
        yield f"{counted(fault_count, 'fault')} in the labels' file: {first_few(faults, fault_count, between='; ')}"
