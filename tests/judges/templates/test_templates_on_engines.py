"""Template judges on all three engines: constraint, recovery, expected scores and probabilities in a form of their own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from judges.data.rows import Row
from judges.decoding import GREEDY, Decoding
from judges.engines.engine import Engine, Request
from judges.runner import Runner, prepare
from judges.templates.judge import TemplateJudge
from judges.verdict import Verdict
from tests.judges.templates.own import CRITERIA, LABELS, PAIR, RATING, SCORES, SINGLE, opened

JUDGES = {
    "rating": (opened(RATING, criteria=CRITERIA), SINGLE),
    "labels": (opened(LABELS), PAIR),
    "scores": (opened(SCORES), PAIR),
}


def judged(loop: asyncio.Runner, engine: Engine, judge: TemplateJudge, sample: Any, decoding: Decoding = GREEDY) -> Verdict:
    async def run() -> list[Verdict]:
        row = prepare(Row("1", "row 1", sample), judge)
        return [verdict async for verdict in Runner(judge, engine, decoding).run([row])]

    (verdict,) = loop.run(run())
    return verdict


@pytest.mark.parametrize("name", JUDGES)
def test_a_weak_model_answers_in_the_form(loop: asyncio.Runner, engine: Engine, name: str) -> None:
    judge, sample = JUDGES[name]
    verdict = judged(loop, engine, judge, sample)
    assert verdict.scores is not None, verdict.reason
    assert list(verdict.scores) == list(judge.levels)
    assert all(verdict.scores[metric] in legal for metric, legal in judge.legal.items())


def test_free_text_that_is_cut_off_is_ended_and_scored(loop: asyncio.Runner, engine: Engine) -> None:
    """The tests' model writes text without end, so that each of its answers is."""
    judge, sample = JUDGES["rating"]
    verdict = judged(loop, engine, judge, sample)
    assert verdict.recovered
    assert verdict.justification


@pytest.mark.parametrize("name", JUDGES)
def test_expected_scores_are_those_of_the_forms_own_tokens(loop: asyncio.Runner, engine: Engine, name: str) -> None:
    judge, sample = JUDGES[name]
    verdict = judged(loop, engine, judge, sample, Decoding(expected=True))
    assert verdict.status == "scored", verdict.reason
    assert not [note for note in verdict.notes if note.startswith("no ")]
    for score in judge.numeric_scores:
        found = (verdict.expected or {})[score.metric]
        assert found is not None
        assert min(score.legal) <= found.expectation <= max(score.legal)
    if any(judge.labels):
        assert verdict.detail is not None
        for shares in verdict.detail["probabilities"]:
            assert shares.keys() == {"A", "B", "both"}
            assert sum(shares.values()) == pytest.approx(1.0, abs=1e-5)


def test_a_plain_prompt_is_shown_without_the_chat_template(vllm_engine: Any) -> None:
    judge, sample = JUDGES["scores"]
    prompt = judge.render(sample).prompts[0]
    chat = vllm_engine.chat
    ids = chat.asked(Request.of(prompt))
    start = [] if chat.tokenizer.bos_token_id is None else [chat.tokenizer.bos_token_id]
    text = prompt.messages[0].content + prompt.answer_start
    assert chat.tokenizer.decode(ids[len(start) :]) == text
    assert ids[: len(start)] == start
