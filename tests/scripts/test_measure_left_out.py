"""Answers that leave out one sub-task: the phrases that show it go, and nothing else changes."""

from __future__ import annotations

import pytest

from scripts.measure_left_out import left_out, shown


@pytest.mark.parametrize(
    ("summary", "subtask", "answer"),
    [
        (
            "Gina's car doesn't always start in the morning. Tom suggests Gina take her car to a garage.",
            "times",
            "Gina's car doesn't always start. Tom suggests Gina take her car to a garage.",
        ),
        ("Susan becomes a successful dancer and plans to open a school.", "decisions", "Susan becomes a successful dancer."),
        ("They stay because it rains.", "reasons", None),
        ("Ann wants to leave on Monday because she is sad. Ben reads the paper.", "requests", None),
    ],
)
def test_one_sub_task_is_left_out_and_no_other(summary: str, subtask: str, answer: str | None) -> None:
    assert left_out(summary, subtask) == answer
    if answer is not None:
        assert shown(summary) - shown(answer) == {subtask}
