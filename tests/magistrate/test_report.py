"""The table that ends a run."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from judges.backend import Tally
from judges.engines.engine import Usage
from judges.summary import Summary
from magistrate.cli.report import print_outcome
from magistrate.cli.scoring import Outcome


@pytest.mark.parametrize("judged", [0, 2])
def test_the_prefix_cache_is_of_a_run_that_judged(judged: int) -> None:
    out = io.StringIO()
    summary = Summary(scored=4, usage=Usage(prompt_tokens=100, cached_tokens=40, completion_tokens=8))
    print_outcome(Console(file=out), Outcome(summary, Tally(judged=judged, kept=4 - judged)), Path("v.jsonl"))
    assert ("prefix cache" in out.getvalue()) == bool(judged)


@pytest.mark.parametrize(("judging", "said"), [(4.0, "2.0 s a judgment"), (0.5, "4.0 judgments a second")])
def test_a_speed_below_one_a_second_is_said_in_seconds(judging: float, said: str) -> None:
    out = io.StringIO()
    print_outcome(Console(file=out), Outcome(Summary(), Tally(judged=2, judging=judging)), Path("v.jsonl"))
    assert said in out.getvalue()
