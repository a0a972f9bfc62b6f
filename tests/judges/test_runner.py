"""The runner's promises, shown on an engine that misbehaves on purpose."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import pytest
from pydantic import BaseModel

from judges.calibration import Calibration, Curve
from judges.data.rows import Row
from judges.decoding import Decoding, SampledDecoding
from judges.engines.engine import Engine, EngineIdentity, Generation, Request, Token, Usage
from judges.errors import ContextOverflowError, EngineError, MagistrateError, RequestError
from judges.expected import Expectation
from judges.form import AnswerSchema
from judges.judge import Judge, Message, NumericScore, ParsedAnswer, Prompt, RenderedPrompts, Sample
from judges.llm_eval import LLMEval
from judges.runner import PreparedSample, Runner, prepare
from judges.verdict import Verdict


class Reasoned(BaseModel):
    why: str
    score: Literal[0, 1, 2]


class ReasonedJudge(Judge):
    """Writes reasons before its score, so that it can be cut off."""

    name = "reasoned"
    form: AnswerSchema[Any] = AnswerSchema(Reasoned, 8)
    levels: ClassVar = {"score": "ordinal"}

    def render(self, sample: Sample) -> RenderedPrompts:
        return RenderedPrompts((Prompt((Message("user", sample["text"]),), self.form),))

    def read(self, *answers: str) -> ParsedAnswer:
        found = self.form.read(answers[0])
        return ParsedAnswer({"score": found.score}, found.why)

    @property
    def numeric_scores(self) -> Sequence[NumericScore]:
        return [NumericScore("score", ("score",), (0, 1, 2))]

    def protocol(self) -> Mapping[str, Any]:
        return {}


class ScriptedEngine(Engine):
    """Answers as told: a fault for a sample whose text names one."""

    concurrency = 4
    max_alternatives = 20

    def __init__(self, *replies: Generation) -> None:
        self.replies = iter(replies)
        self.requests: list[Request] = []
        self.in_flight = self.most_in_flight = 0

    @property
    def identity(self) -> EngineIdentity:
        return EngineIdentity("scripted", "1", "none", None, "none")

    async def identify(self) -> None: ...

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def generate(self, request: Request) -> Generation:
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.in_flight, self.most_in_flight)
        try:
            await asyncio.sleep(0.001 * (len(self.requests) % 3))
        finally:
            self.in_flight -= 1
        text = request.messages[0].content
        if "overflow" in text:
            raise ContextOverflowError(9_000, 90, 8_192)
        if "refused" in text:
            raise RequestError("HTTP 500: no")
        if "dead" in text:
            raise EngineError("the server is gone")
        return next(self.replies, Generation('{"why": "so", "score": 1}', True, Usage(10, 5, 3)))


def decoding(**settings: Any) -> Decoding:
    return SampledDecoding(**settings) if "temperature" in settings else Decoding(**settings)


def run(engine: Engine, texts: list[str], judge: Judge | None = None, **options: Any) -> list[Verdict]:
    asked = judge or ReasonedJudge()

    async def collect() -> list[Verdict]:
        return [verdict async for verdict in Runner(asked, engine, decoding(**options)).run(questions(texts, asked))]

    return sorted(asyncio.run(collect()), key=lambda verdict: int(verdict.id))


def questions(texts: list[str], judge: Judge) -> Iterator[PreparedSample]:
    for number, text in enumerate(texts):
        yield prepare(Row(str(number), f"row {number}", {"text": text}), judge)


def test_every_sample_gets_one_verdict_and_faults_have_reasons() -> None:
    verdicts = run(ScriptedEngine(), ["fine", "overflow", "fine", "refused", "fine"])
    assert [verdict.status for verdict in verdicts] == ["scored", "unscored", "scored", "unscored", "scored"]
    assert verdicts[1].reason == (
        "context overflow: the prompt has 9,000 tokens and the answer needs room for 90, but the model's context holds 8,192"
    )
    assert verdicts[3].reason == "engine error: HTTP 500: no"
    assert [verdict.final for verdict in verdicts] == [True, True, True, False, True]
    assert all(verdict.scores is None for verdict in verdicts if verdict.status == "unscored")


def test_concurrency_is_bounded_and_samples_are_drawn_as_needed() -> None:
    engine = ScriptedEngine()
    drawn = 0

    def many() -> Iterator[PreparedSample]:
        nonlocal drawn
        for question in questions(["fine"] * 200, ReasonedJudge()):
            drawn += 1
            yield question

    async def some() -> None:
        seen = 0
        stream = Runner(ReasonedJudge(), engine).run(many())
        async for _ in stream:
            seen += 1
            assert drawn - seen <= engine.concurrency
            if seen == 50:
                break
        await stream.aclose()

    asyncio.run(some())
    assert engine.most_in_flight == engine.concurrency
    assert drawn < 60


def test_a_dead_engine_stops_the_run_and_loses_no_verdict() -> None:
    engine = ScriptedEngine()
    got: list[Verdict] = []

    async def collect() -> None:
        texts = ["fine"] * 10 + ["dead"] + ["fine"] * 50
        async for verdict in Runner(ReasonedJudge(), engine).run(questions(texts, ReasonedJudge())):
            got.append(verdict)  # noqa: PERF401 - what was got before the error counts

    with pytest.raises(EngineError, match="the server is gone"):
        asyncio.run(collect())
    assert len(got) == len(engine.requests) - 1, "what was in flight was waited for"
    assert 10 <= len(got) < 20


def test_a_cut_off_answer_is_finished_and_says_so() -> None:
    whole = '{"why": "because it \\"rains\\"", "score": 2}'
    for cut in range(len('{"why": "'), len(whole) - 1):
        missing = "}" if cut >= whole.index("2") + 2 else ', "score": 2}'
        engine = ScriptedEngine(Generation(whole[:cut], False, Usage(10, 0, 8)), Generation(missing, True, Usage(11, 10, 2)))
        (verdict,) = run(engine, ["x"])
        assert verdict.status == "scored", (cut, verdict.reason)
        assert verdict.recovered
        assert verdict.scores == {"score": 2}
        assert verdict.usage == Usage(21, 10, 10)
        assert json.loads(engine.requests[1].answer_start + missing)["score"] == 2


class Verbose(BaseModel):
    why: str
    score: Literal[0, 1, 2]
    more: str
    last: Literal["yes", "no"]


class VerboseJudge(ReasonedJudge):
    form = AnswerSchema(Verbose, 8)

    def read(self, *answers: str) -> ParsedAnswer:
        return ParsedAnswer({"score": self.form.read(answers[0]).score})


def test_an_answer_cut_off_twice_is_finished_without_free_text() -> None:
    engine = ScriptedEngine(
        Generation('{"why": "so', False, Usage(10, 0, 8)),
        Generation(', "score": 2, "more": "and so', False, Usage(11, 10, 8)),
        Generation(', "last": "no"}', True, Usage(12, 11, 4)),
    )
    (verdict,) = run(engine, ["x"], VerboseJudge())
    assert verdict.scores == {"score": 2}
    first, freely, tersely = engine.requests
    assert freely.answer_start == '{"why": "so"'
    assert tersely.answer_start == '{"why": "so", "score": 2, "more": "and so"'
    assert re.fullmatch(freely.pattern or "", ', "score": 0, "more": "any text", "last": "yes"}')
    assert re.fullmatch(tersely.pattern or "", ', "last": "yes"}')
    assert (first.max_tokens, freely.max_tokens, tersely.max_tokens) == (8, 64, VerboseJudge.form.terse_room)


def test_the_last_go_takes_what_room_there_is() -> None:
    class Narrow(ScriptedEngine):
        async def generate(self, request: Request) -> Generation:
            if len(self.requests) == 1 and request.max_tokens > 20:
                raise ContextOverflowError(100, request.max_tokens, 120)
            return await super().generate(request)

    engine = Narrow(Generation('{"why": "so', False, Usage(10, 0, 8)), Generation(', "score": 2}', True, Usage(11, 10, 8)))
    (verdict,) = run(engine, ["x"])
    assert verdict.scores == {"score": 2}
    assert engine.requests[1].max_tokens == 20


def test_going_on_freely_leaves_room_for_the_end() -> None:
    engine = ScriptedEngine(
        Generation('{"why": "so', False, Usage(10, 0, 8)),
        Generation(', "score": 2, "more": "and so', False, Usage(11, 10, 8)),
        Generation(', "last": "no"}', True, Usage(12, 11, 4)),
    )
    terse = VerboseJudge.form.terse_room
    engine.context = 10 + 8 + terse + 5
    (verdict,) = run(engine, ["x"], VerboseJudge())
    assert verdict.scores == {"score": 2}
    assert [request.max_tokens for request in engine.requests] == [8, 5, terse]
    full = ScriptedEngine(
        Generation('{"why": "so', False, Usage(10, 0, 8)),
        Generation(', "score": 1, "more": "", "last": "no"}', True, Usage(12, 11, 4)),
    )
    full.context = 10 + 8 + terse
    (verdict,) = run(full, ["x"], VerboseJudge())
    assert verdict.scores == {"score": 1}
    assert len(full.requests) == 2, "there was no room to go on freely"


def test_tokens_of_a_thought_count_though_nothing_came_of_it() -> None:
    class Narrow(ScriptedEngine):
        async def generate(self, request: Request) -> Generation:
            if request.thought is not None:
                raise ContextOverflowError(100, 8, 64)
            return await super().generate(request)

    (verdict,) = run(Narrow(Generation("<think>so", True, Usage(10, 0, 7))), ["x"], think=50)
    assert (verdict.reason or "").startswith("context overflow")
    assert verdict.usage == Usage(10, 0, 7)


def test_a_model_that_thinks_answers_behind_its_thought() -> None:
    thought = Generation("<think>It rains.\n", True, Usage(10, 0, 5))
    engine = ScriptedEngine(thought, Generation('{"why": "wet", "score": 2}', True, Usage(20, 10, 7)))
    (verdict,) = run(engine, ["x"], think=100)
    thinking, answering = engine.requests
    assert (thinking.pattern, thinking.thinks, thinking.max_tokens) == (None, True, 100)
    assert (answering.thinks, answering.thought, answering.answer_start) == (False, "<think>It rains.", "")
    assert answering.pattern == ReasonedJudge.form.pattern
    assert verdict.detail == {"thoughts": ["<think>It rains."]}
    assert verdict.notes == []
    assert verdict.usage == Usage(30, 10, 12)


class ThinkingJudge(ReasonedJudge):
    """A judge whose models were trained to think first, on plain prompts whose answers they continue."""

    thinks = 50

    def render(self, sample: Sample) -> RenderedPrompts:
        return RenderedPrompts((Prompt((Message("user", sample["text"]),), self.form, plain=True, answer_start="So: "),))


def test_a_judge_that_thinks_does_so_unless_the_decoding_says_how_long() -> None:
    for given, tokens in (({}, 50), ({"think": 7}, 7)):
        engine = ScriptedEngine(Generation("Hm.", True, Usage(10, 0, 5)))
        (verdict,) = run(engine, ["x"], ThinkingJudge(), **given)
        thinking, answering = engine.requests
        assert (thinking.thinks, thinking.max_tokens, thinking.plain) == (True, tokens, True)
        assert (answering.thought, answering.plain, answering.answer_start) == ("Hm.", True, "So: ")
        assert verdict.detail == {"thoughts": ["Hm."]}


def test_a_given_beginning_stands_before_what_is_kept_of_a_cut_off_answer() -> None:
    thought = Generation("Hm.", True, Usage(10, 0, 5))
    engine = ScriptedEngine(thought, Generation('{"why": "w', False, Usage()), Generation(', "score": 1}', True, Usage()))
    (verdict,) = run(engine, ["x"], ThinkingJudge())
    assert verdict.scores == {"score": 1}
    assert engine.requests[2].answer_start == 'So: {"why": "w"'


def test_a_cut_off_answer_behind_a_thought_is_gone_on_with_behind_it() -> None:
    engine = ScriptedEngine(
        Generation("<think>It", False, Usage(10, 0, 2)),
        Generation('{"why": "w', False, Usage(20, 10, 7)),
        Generation(', "score": 1}', True, Usage(30, 20, 3)),
    )
    (verdict,) = run(engine, ["x"], think=2)
    assert verdict.scores == {"score": 1}
    assert (engine.requests[2].thought, engine.requests[2].answer_start) == ("<think>It", '{"why": "w"')
    assert verdict.notes == ["a thought was cut off after 2 tokens"]


def test_a_server_that_cannot_go_on_is_not_asked_to_think() -> None:
    engine = ScriptedEngine()
    engine.supports_prefill = False
    with pytest.raises(EngineError, match="no answer can be constrained behind a thought"):
        run(engine, ["x"], think=5)
    assert engine.requests == []


def test_an_answer_cut_off_before_its_first_value_is_written_again() -> None:
    engine = ScriptedEngine(
        Generation('{"wh', False, Usage(10, 0, 8)), Generation('"why": "so", "score": 2}', True, Usage(11, 10, 9))
    )
    (verdict,) = run(engine, ["x"])
    assert verdict.scores == {"score": 2}
    assert engine.requests[1].answer_start == "{"
    assert verdict.usage.completion_tokens == 17, "tokens that were spent are counted"


def test_an_answer_that_is_no_object_is_unscored_and_not_asked_again() -> None:
    engine = ScriptedEngine(Generation("why", False, Usage(10, 0, 8)))
    (verdict,) = run(engine, ["x"])
    assert verdict.status == "unscored"
    assert verdict.reason == "bad answer: the answer was cut off by the token limit and could not be finished"
    assert len(engine.requests) == 1


def test_a_fault_while_an_answer_is_finished_is_asked_again() -> None:
    class FaultyOnce(ScriptedEngine):
        async def generate(self, request: Request) -> Generation:
            if request.answer_start:
                raise RequestError("HTTP 503: busy")
            return await super().generate(request)

    (verdict,) = run(FaultyOnce(Generation('{"why": "wor', False, Usage())), ["x"])
    assert verdict.reason == "engine error: HTTP 503: busy"
    assert not verdict.final


def test_an_answer_out_of_range_is_never_a_score() -> None:
    (verdict,) = run(ScriptedEngine(Generation('{"why": "", "score": 7}', True, Usage())), ["x"])
    assert verdict.status == "unscored"
    assert (verdict.reason or "").startswith("bad answer: ")


def test_expected_scores_survive_a_recovery() -> None:
    first = Generation('{"why": "wor', False, Usage(), [Token('{"why": "', {}), Token("wor", {})])
    rest = Generation(', "score": 1}', True, Usage(), [Token(', "score": ', {}), Token("1", {"1": 0.0}), Token("}", {})])
    (verdict,) = run(ScriptedEngine(first, rest), ["x"], expected=True)
    assert verdict.expected
    assert verdict.expected["score"]
    assert verdict.expected["score"].expectation == 1.0


def test_a_calibrated_model_says_what_people_give() -> None:
    def answered(name: str, legal: tuple[int, int]) -> Verdict:
        tokens = [Token('{"why": "", "score": ', {}), Token("1", {"1": 0.0}), Token("}", {})]
        engine = ScriptedEngine(Generation('{"why": "", "score": 1}', True, Usage(), tokens))
        curve = Curve(expected=(0.5, 1.5), people=(0.25, 0.75), legal=legal, samples=40, source="ours")
        engine.calibration = Calibration(judge=name, metrics={"score": curve})
        (verdict,) = run(engine, ["x"], expected=True)
        return verdict

    calibrated = answered("reasoned", (0, 2))
    assert calibrated.expected == {"score": Expectation(1.0, 0.0, 0.5)}
    assert Verdict.from_json(calibrated.to_json()) == calibrated
    assert calibrated.as_fields()["expected"] == {"score": {"expectation": 1.0, "entropy": 0.0, "calibrated": 0.5}}
    for other in (answered("llm-eval", (0, 2)), answered("reasoned", (0, 5))):
        assert other.as_fields()["expected"] == {"score": {"expectation": 1.0, "entropy": 0.0}}


def test_a_bad_row_becomes_an_unscored_verdict_without_a_request() -> None:
    engine = ScriptedEngine()
    judge = LLMEval()
    rows = [Row("a", "f.jsonl row 1", {"context": "hi"}), Row("b", "f.jsonl row 2", None, "f.jsonl row 2: is not JSON")]

    async def collect() -> list[Verdict]:
        return [verdict async for verdict in Runner(judge, engine).run(prepare(row, judge) for row in rows)]

    verdicts = asyncio.run(collect())
    assert {verdict.reason for verdict in verdicts} == {
        "f.jsonl row 1: field `response` is missing",
        "f.jsonl row 2: is not JSON",
    }
    assert engine.requests == []


def test_the_key_covers_what_the_judge_is_shown_and_nothing_else() -> None:
    judge = LLMEval()

    def key(name: str = "1", **sample: Any) -> str:
        return prepare(Row(name, "row", {"context": "a", "response": "b"} | sample), judge).key

    assert key() == key(human_score=3), "a column that the judge does not read may change"
    assert len({key(), key(context="c"), key(response="c"), key(reference="c"), key("2")}) == 5


def test_each_request_is_sampled_with_a_seed_of_its_own_that_comes_again() -> None:
    engines = [ScriptedEngine(Generation('{"why": "cut', False, Usage(1, 0, 1))) for _ in range(3)]
    for engine, seed in zip(engines, (1, 1, 2), strict=True):
        run(engine, ["a", "b"], temperature=0.7, seed=seed)
    asked = [{(one.messages[0].content, one.answer_start, one.seed) for one in engine.requests} for engine in engines]
    assert all(request.temperature == 0.7 for engine in engines for request in engine.requests)
    assert [len(one) for one in asked] == [3, 3, 3], "two samples, and one answer that was gone on with"
    assert len({seed for _, _, seed in asked[0]}) == 3
    assert asked[0] == asked[1]
    assert not {seed for _, _, seed in asked[0]} & {seed for _, _, seed in asked[2]}


def test_greedy_requests_have_no_seed_and_expected_scores_are_not_sampled() -> None:
    engine = ScriptedEngine()
    run(engine, ["a"])
    assert [(one.temperature, one.seed) for one in engine.requests] == [(0.0, None)]
    with pytest.raises(MagistrateError, match="expected scores need greedy answers"):
        run(engine, ["a"], temperature=0.7, seed=7, expected=True)
