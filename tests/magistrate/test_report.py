"""The table that ends a run."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from judges.bench import Tally
from judges.engines.engine import Usage
from judges.summary import Summary
from magistrate.report import print_outcome
from magistrate.scoring import Outcome


@pytest.mark.parametrize("judged", [0, 2])
def test_the_prefix_cache_is_of_a_run_that_judged(judged: int) -> None:
    out = io.StringIO()
    summary = Summary(scored=4, usage=Usage(prompt_tokens=100, cached_tokens=40, completion_tokens=8))
    print_outcome(Console(file=out), Outcome(summary, Tally(judged=judged, kept=4 - judged)), Path("v.jsonl"))
    assert ("prefix cache" in out.getvalue()) == bool(judged)
