"""A judge that stays: one engine in a process, asked from any loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from judges.errors import MagistrateError
from judges.verdict import Verdict
from magistrate import judge as judge_once
from magistrate.harnesses import kept
from magistrate.harnesses.kept import KeptJudge
from tests.tiny import TINY

HOW: dict[str, Any] = {"engine": "transformers", "model": TINY, "dtype": "float32"}
SAMPLES = [{"id": f"s{n}", "context": f"Is {n} odd?", "response": f"{n} is odd."} for n in range(6)]

KIND = """
name = "kind"
fields = ["topic", "reply"]
reasoning = false
[[metric]]
name = "kind"
description = "How kind."
scale = "1-3"
[[metric]]
name = "tone"
description = "The tone."
scale = ["warm", "cold"]
[[example]]
sample = { reply = "~", topic = "~" }
scores = { kind = 1, tone = "cold" }
"""


def said(verdicts: list[Verdict]) -> list[tuple[object, ...]]:
    return [(verdict.id, verdict.scores, verdict.sample, verdict.fingerprint) for verdict in verdicts]


@pytest.fixture(scope="module")
def once() -> list[Verdict]:
    return [*judge_once(SAMPLES, "llm-eval", **HOW)]


def test_one_by_one_and_all_at_once_give_the_verdicts_of_a_file(once: list[Verdict]) -> None:
    asked = KeptJudge("llm-eval", **HOW)

    async def one_by_one() -> list[Verdict]:
        return list(await asyncio.gather(*map(asked.verdict, SAMPLES)))

    assert said(asked.verdicts(SAMPLES)) == said(once)
    for _ in range(2):  # each run has a loop of its own
        assert said(asyncio.run(one_by_one())) == said(once)


def test_judges_of_the_same_settings_share_an_engine() -> None:
    before = len(kept._engines)
    for options in ({"metrics": ("content",)}, {"metrics": ("grammar",)}):
        assert KeptJudge("llm-eval", options=options, **HOW).verdicts(SAMPLES[:1])[0].status == "scored"
    asked = KeptJudge("llm-eval", options={"metrics": ("content",)}, **HOW, expected=True)
    assert asked.verdicts(SAMPLES[:1])[0].expected, "how answers are written is no matter of the engine"
    assert len(kept._engines) == max(before, 1)


def test_a_sample_that_cannot_be_judged_is_unscored_and_the_others_are_judged() -> None:
    asked = KeptJudge("llm-eval", **HOW, fields={"context": "asked.first"})
    good, bad = {"asked": {"first": "Is 1 odd?"}, "response": "Yes."}, {"asked": {}, "response": "Yes."}

    async def both() -> list[Verdict]:
        return list(await asyncio.gather(asked.verdict(bad), asked.verdict(good)))

    unscored, scored = asyncio.run(both())
    assert (unscored.status, unscored.reason) == ("unscored", "sample 1: column `asked.first` is missing or empty")
    assert unscored.fingerprint == scored.fingerprint
    assert scored.status == "scored"


def test_an_engine_that_cannot_start_is_an_error_for_every_sample() -> None:
    asked = KeptJudge("llm-eval", engine="endpoint", base_url="http://127.0.0.1:9/v1", model="none")
    for _ in range(2):
        with pytest.raises(MagistrateError, match=r"127\.0\.0\.1:9"):
            asyncio.run(asked.verdict(SAMPLES[0]))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"judge": "none"}, "there is no judge `none`"),
        ({"judge": "llm-eval", "modle": TINY}, "did you mean `model`"),
        ({"judge": "insight"}, "judge `insight` does not score an answer, which is what a harness has of a sample"),
        ({"judge": "llm-eval", "fields": {"replie": "x"}}, r"`fields=\{'replie': 'x'\}`: judge `llm-eval` has no field"),
    ],
)
def test_what_is_wrong_is_said_before_a_model_loads(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(MagistrateError, match=words):
        KeptJudge(**arguments)


def test_metrics_are_those_whose_scores_are_numbers(tmp_path: Path) -> None:
    rubric = tmp_path / "kind.toml"
    rubric.write_text(KIND)
    asked = KeptJudge(rubric, **HOW)
    assert asked.numeric == ["kind"]
    with pytest.raises(MagistrateError, match="judge `kind` has no metric `tone` whose scores are numbers; it has kind"):
        asked.metric("tone")


def test_a_server_judges_alike(magistrate_server: Any) -> None:
    asked = KeptJudge("llm-eval", server=str(magistrate_server.url))
    bulk = asked.verdicts(SAMPLES[:2])
    single = asyncio.run(asked.verdict(SAMPLES[0]))
    assert said([single]) == said(bulk[:1])
    assert single.status == "scored"


PROGRAM = """
import asyncio, sys
from magistrate.harnesses.kept import KeptJudge
asked = KeptJudge("llm-eval", engine=sys.argv[1], model=sys.argv[2], dtype="float32")
print(asyncio.run(asked.verdict({"context": "Tea?", "response": "Yes."})).status)
"""


@pytest.mark.parametrize("engine", ["vllm", "transformers"])
def test_the_engine_is_closed_as_the_process_ends(tmp_path: Path, engine: str) -> None:
    command = [sys.executable, "-c", PROGRAM, engine, TINY]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["scored"]), done.stderr[-2000:]
    assert "atexit" not in done.stderr
    assert "terminate called" not in done.stderr
