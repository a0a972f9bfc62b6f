"""Each judge on each engine: real answers of the tests' model are read without a fault.

``engines/test_heads.py`` asks the judges that read a classification head.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from judges import catalog
from judges.affinity import Affinity
from judges.data.rows import Row
from judges.decoding import Decoding
from judges.engines.engine import Engine
from judges.grouse import Grouse
from judges.judge import Judge
from judges.pairwise import Pairwise
from judges.rubric import Rubric
from judges.runner import Runner, prepare
from judges.verdict import Verdict

SHORT: Mapping[str, dict[str, Any]] = {
    "grouse": {"max_tokens": 96},
    "pairwise": {"max_tokens": 32},
    "discovery": {"most": 2},
    "insight": {"most": 1},
}
"""Options with which answers are short."""


def case(name: str) -> tuple[Judge, dict[str, Any]]:
    """A judge as its example has it, with short answers, and the example's sample."""
    example = catalog.JUDGES[name].example
    return catalog.open_judge(name, **{**example.options, **SHORT.get(name, {})}), dict(example.sample)


CASES = {name: case(name) for name in catalog.JUDGES if not any(form.classifies for form in case(name)[0].forms)}

RUBRIC = """
name = "kind"
fields = ["reply"]
max_tokens = 64
[[metric]]
name = "kind"
description = "Is the reply kind?"
scale = ["no", "somewhat", "very"]
ordered = true
"""


def hear(loop: asyncio.Runner, engine: Engine, judge: Judge, *samples: dict[str, Any], **options: Any) -> list[Verdict]:
    async def run() -> list[Verdict]:
        rows = [Row(str(number), f"row {number}", sample) for number, sample in enumerate(samples)]
        runner = Runner(judge, engine, Decoding(**options))
        return [verdict async for verdict in runner.run(prepare(row, judge) for row in rows)]

    return sorted(loop.run(run()), key=lambda verdict: int(verdict.id))


def check(verdict: Verdict, judge: Judge) -> None:
    assert verdict.status == "scored", verdict.reason
    assert verdict.scores is not None
    assert list(verdict.scores) == list(judge.levels)
    assert verdict.scores or verdict.detail, "it scores, or it has something to say"


@pytest.mark.parametrize("name", CASES)
def test_every_judge_is_answered_on_every_engine(loop: asyncio.Runner, engine: Engine, name: str) -> None:
    judge, sample = CASES[name]
    (verdict,) = hear(loop, engine, judge, sample)
    check(verdict, judge)
    if name == "grouse":  # its reasons are cut off, and the scores are had all the same
        assert verdict.recovered
        assert verdict.detail is not None
        said = verdict.detail["completeness"]["answer_2"]
        assert said["completeness_justification"] == "", "the last go has no room for free text"
        assert said["completeness"] in (1, 2, 3, 4, 5, None)


def test_a_rubric_is_answered_on_every_engine(loop: asyncio.Runner, engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "kind.toml").write_text(RUBRIC)
    judge = Rubric.load(tmp_path / "kind.toml")
    (verdict,) = hear(loop, engine, judge, {"reply": "Thank you so much!"})
    check(verdict, judge)
    assert verdict.scores is not None
    assert verdict.scores["kind"] in ("no", "somewhat", "very")


def test_a_prompt_for_each_metric_shares_the_instructions(loop: asyncio.Runner, vllm_engine: Engine) -> None:
    judge, sample = Grouse(per_metric=True, prompts="card", max_tokens=48), CASES["grouse"][1]
    first, second = hear(loop, vllm_engine, judge, sample, sample | {"actual_output": "Paris [1]."})
    check(second, judge)
    assert first.usage.prompt_tokens > 4 * 700
    again = hear(loop, vllm_engine, judge, sample | {"actual_output": "Lyon."})[0]
    assert again.usage.cached_tokens > 0.8 * again.usage.prompt_tokens


def test_attributes_that_do_not_fit_are_asked_for_in_parts(loop: asyncio.Runner, vllm_engine: Engine) -> None:
    judge = Affinity([f"attribute {number}" for number in range(20)])
    (long,) = hear(loop, vllm_engine, judge, {"input": "beer " * 6_700})
    check(long, judge)
    assert long.usage.prompt_tokens > 2 * 6_700, "asked twice or more"
    assert long.usage.cached_tokens > 0.4 * long.usage.prompt_tokens, "and the second time from the cache"


def test_thoughts_come_before_the_answer_and_are_kept(loop: asyncio.Runner, engine: Engine) -> None:
    judge, sample = Pairwise(orders="given", reasoning=False), CASES["pairwise"][1]
    (plain,) = hear(loop, engine, judge, sample)
    (thinking,) = hear(loop, engine, judge, sample, think=12)
    check(thinking, judge)
    assert thinking.detail is not None
    (thought,) = thinking.detail["thoughts"]
    assert "</think>" not in thought
    assert thinking.usage.completion_tokens > plain.usage.completion_tokens
    assert thinking.fingerprint != plain.fingerprint


def test_expected_scores_of_every_part_of_an_answer(loop: asyncio.Runner, vllm_engine: Engine) -> None:
    judge = Affinity(["Food", "Travel", "Work"], evidence="none")
    (verdict,) = hear(loop, vllm_engine, judge, {"input": "Two beers, please."}, expected=True)
    assert verdict.expected is not None
    assert list(verdict.expected) == ["Food", "Travel", "Work"]
    for expectation in verdict.expected.values():
        assert expectation is not None
        assert 1 <= expectation.expectation <= 5
