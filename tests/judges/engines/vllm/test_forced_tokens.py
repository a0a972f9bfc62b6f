"""Answers are the same whether forced tokens are computed in one step or one by one, only sooner."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from judges.catalog import open_judge
from judges.data.rows import Row
from judges.decoding import GREEDY, Decoding, SampledDecoding
from judges.engines.engine import CONSTRAINTS, Generation, Request
from judges.engines.settings import open_engine
from judges.engines.vllm.engine import VLLMEngine
from judges.engines.vllm.settings import HostedModel
from judges.errors import MagistrateError
from judges.form import AnswerSchema, answer_model
from judges.judge import Fields, Judge, JudgeExample, Message, NumericScore, ParsedAnswer, Prompt, RenderedPrompts, Sample
from judges.llm_eval import LLMEval
from judges.runner import Runner, prepare
from judges.verdict import Verdict
from tests.judges.engines.test_conformance import ask, fifty, question
from tests.judges.test_every_judge import CASES, RUBRIC
from tests.tiny import TINY

Engines = Callable[..., VLLMEngine]
Cases = Mapping[str, tuple[Judge, dict[str, Any]]]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Judge, dict[str, Any]]]:
    """Every judge with a sample."""
    file = tmp_path_factory.mktemp("rubric") / "kind.toml"
    file.write_text(RUBRIC)
    return {**CASES, "rubric": (open_judge(str(file)), {"reply": "No, thank you."})}


class Steps:
    """Counts the steps of an engine, and the drafts in them."""

    def __init__(self, engine: VLLMEngine) -> None:
        self.count = self.drafts = 0
        self._scheduler: Any = engine._engine.engine_core.engine_core.scheduler
        self._schedule = self._scheduler.schedule

    def __enter__(self) -> Steps:
        self._scheduler.schedule = self._counted
        return self

    def __exit__(self, *_: object) -> None:
        del self._scheduler.schedule

    def _counted(self, *args: Any, **options: Any) -> Any:
        output = self._schedule(*args, **options)
        self.count += output.total_num_scheduled_tokens > 0
        self.drafts += sum(map(len, output.scheduled_spec_decode_tokens.values()))
        return output


@pytest.fixture(scope="module")
def engines(loop: asyncio.Runner) -> Iterator[Engines]:
    """Opens engines by their settings, each once."""
    opened: dict[str, VLLMEngine] = {}

    def get(**settings: Any) -> VLLMEngine:
        key = json.dumps(settings, sort_keys=True)
        if key not in opened:
            opened[key] = VLLMEngine(TINY, dtype="float32", **({"max_num_seqs": 8} | settings))
            loop.run(opened[key].start())
        return opened[key]

    yield get
    for engine in opened.values():
        loop.run(engine.close())


def verdicts_of(
    loop: asyncio.Runner, engine: VLLMEngine, judge: Judge, samples: list[Any], decoding: Decoding = GREEDY
) -> list[dict[str, Any]]:
    """Verdicts as they are written, but for what the prefix cache served, which depends on what was asked before."""

    async def run() -> list[Verdict]:
        rows = (Row(str(number), "a row", sample) for number, sample in enumerate(samples))
        return [verdict async for verdict in Runner(judge, engine, decoding).run(prepare(row, judge) for row in rows)]

    written = [json.loads(verdict.to_json()) for verdict in sorted(loop.run(run()), key=lambda verdict: int(verdict.id))]
    for verdict in written:
        del verdict["usage"]["cached_tokens"], verdict["fingerprint"]
    return written


def alike(one: Any, other: Any) -> bool:
    """Whether two values are the same but for the last digits of probabilities and expectations."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, abs_tol=1e-4)
    return bool(one == other)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("name", [*CASES, "rubric"])
def test_every_judge_says_the_same_with_forced_tokens_in_one_step(
    loop: asyncio.Runner, engines: Engines, cases: Cases, name: str, constraint: str
) -> None:
    judge, sample = cases[name]
    forced, plain = (engines(constraint=constraint, forced_tokens=forced) for forced in (True, False))
    with Steps(forced) as steps:
        found = verdicts_of(loop, forced, judge, [sample] * 3, Decoding(expected=True))
    assert steps.drafts > 0
    with Steps(plain) as others:
        wanted = verdicts_of(loop, plain, judge, [sample] * 3, Decoding(expected=True))
    assert alike(found, wanted), (found, wanted)
    assert others.drafts == 0
    assert steps.count < others.count


@pytest.mark.parametrize("scores", [(3,), (7, 70), (1, 10, 100), (10, 11, 12), (0, 25, 50, 75, 100)])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_expected_scores_that_begin_alike_are_those_of_plain_steps(
    loop: asyncio.Runner, engines: Engines, scores: tuple[int, ...], constraint: str
) -> None:
    class Graded(Judge):
        name, summary, source = "graded", "a grade", "this test"
        fields = Fields(("reply",), answer="reply")
        example = JudgeExample({"reply": "No."})
        numeric_scores = (NumericScore("grade", ("grade",), scores),)
        form = AnswerSchema(answer_model("Grade", {"grade": Literal[scores]}), 24)

        def protocol(self) -> dict[str, Any]:
            return {"scores": scores}

        def render(self, sample: Sample) -> RenderedPrompts:
            return RenderedPrompts((Prompt((Message("user", f"Grade by {scores}: {sample['reply']}"),), self.form),))

        def read(self, *answers: str) -> ParsedAnswer:
            return ParsedAnswer(self.form.read(answers[0]).model_dump(by_alias=True))

    decoding = Decoding(expected=True)
    found, wanted = (
        verdicts_of(loop, engines(constraint=constraint, forced_tokens=forced), Graded(), [{"reply": "No."}] * 2, decoding)
        for forced in (True, False)
    )
    for here, there in zip(found, wanted, strict=True):
        assert here["expected"]["grade"] == pytest.approx(there["expected"]["grade"], abs=1e-4)
        assert here["usage"] == there["usage"]


def test_a_score_only_answer_takes_a_step_for_each_score(loop: asyncio.Runner, engines: Engines) -> None:
    engine = engines(forced_tokens=True)
    with Steps(engine) as steps:
        verdicts = verdicts_of(loop, engine, LLMEval(), fifty()[:1])
    assert verdicts[0]["status"] == "scored"
    assert steps.count == 4


def test_verdicts_do_not_depend_on_what_is_judged_beside_them(loop: asyncio.Runner, engines: Engines) -> None:
    forced, plain = engines(forced_tokens=True), engines(forced_tokens=False)
    samples = fifty()
    assert verdicts_of(loop, forced, LLMEval(), samples) == verdicts_of(loop, plain, LLMEval(), samples)


@pytest.mark.parametrize("room", range(1, 26))
def test_an_answer_is_cut_off_at_the_same_token(loop: asyncio.Runner, engines: Engines, room: int) -> None:
    asked = replace(question("hello"), max_tokens=room)
    (here,), (there,) = (ask(loop, engines(forced_tokens=forced), asked) for forced in (True, False))
    assert (here.text, here.complete, here.usage.completion_tokens) == (there.text, there.complete, there.usage.completion_tokens)
    assert here.complete == (room == 25)


@pytest.mark.parametrize("room", range(1, 26, 3))
def test_a_context_that_ends_in_an_answer_is_used_to_its_last_token(loop: asyncio.Runner, engines: Engines, room: int) -> None:
    forced, plain = (engines(forced_tokens=forced, max_model_len=512) for forced in (True, False))
    asked = question("hello" + " a" * 600)
    used = len(forced.chat.prompt(asked, 2048))
    asked = question("hello" + " a" * (600 - (used - 512) - room))
    used = len(forced.chat.prompt(asked, 2048))
    asked = replace(asked, max_tokens=512 - used)
    assert abs(asked.max_tokens - room) < 5
    (here,), (there,) = ask(loop, forced, asked), ask(loop, plain, asked)
    assert shown([here]) == shown([there])


def test_memory_that_runs_out_changes_no_verdict(loop: asyncio.Runner, engines: Engines, cases: Cases) -> None:
    """vLLM takes the memory of an answer back, and computes it again later."""
    config = json.loads((Path(TINY) / "config.json").read_text())
    token = 2 * 4 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"]
    engine = engines(max_num_seqs=12, max_model_len=2304, options={"kv_cache_memory_bytes": 2560 * token})
    judge = open_judge("pairwise", None, max_tokens=512)
    sample = cases["pairwise"][1]
    samples = [{**sample, "question": f"{sample['question']} {number}"} for number in range(12)]
    scheduler = engine._engine.engine_core.engine_core.scheduler
    take_back = scheduler._preempt_request
    preempted = []

    def counted(request: Any, *args: Any, **options: Any) -> None:
        preempted.append(request)
        take_back(request, *args, **options)

    scheduler._preempt_request = counted
    found = verdicts_of(loop, engine, judge, samples)
    assert preempted, "memory must run out for this test to show anything"
    assert found == verdicts_of(loop, engines(forced_tokens=False), judge, samples)


def test_prompts_without_a_cache_are_judged_the_same(loop: asyncio.Runner, engines: Engines) -> None:
    uncached = engines(forced_tokens=True, options={"enable_prefix_caching": False})
    assert verdicts_of(loop, uncached, LLMEval(), fifty()[:9]) == verdicts_of(loop, engines(), LLMEval(), fifty()[:9])


def test_prompts_that_a_step_has_no_room_for_are_judged_the_same(loop: asyncio.Runner, engines: Engines) -> None:
    narrow = engines(forced_tokens=True, options={"max_num_batched_tokens": 128})
    assert verdicts_of(loop, narrow, LLMEval(), fifty()[:9]) == verdicts_of(loop, engines(), LLMEval(), fifty()[:9])


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_requests_of_every_kind_run_beside_each_other(loop: asyncio.Runner, engines: Engines, constraint: str) -> None:
    messages = (Message("user", "Hello!"),)
    kinds = [
        question("hello"),
        question("hello", alternatives=20),
        Request(messages, 12),
        Request(messages, 12, alternatives=3),
        Request(messages, 12, temperature=2.0, seed=7),
        replace(question("hello"), temperature=2.0, seed=7),
        Request(messages, 20, r'\{"a": (1|2|3), "bcdefgh": "(yes|no)"\}'),
        Request(messages, 20, r"ab(cd)*"),
        Request(messages, 20, r"(one|one hundred)"),
        Request(messages, 1, "(x|y) always the very same text"),
        Request(messages, 20, "always the very same text"),
        Request(messages, 40, "(é|è|👋|👍) カタカナ 👩‍👩‍👧 (a|b)"),
        replace(question("hello"), answer_start='{"content": 3', pattern=r', "grammar": [0-5]\}'),
    ]
    forced, plain = (engines(constraint=constraint, forced_tokens=forced) for forced in (True, False))
    alone = [ask(loop, plain, kind)[0] for kind in kinds]
    assert shown(ask(loop, forced, *kinds)) == shown(alone)
    assert shown([ask(loop, forced, kind)[0] for kind in kinds]) == shown(alone)


def shown(answers: list[Generation]) -> list[tuple[str, bool, int]]:
    return [(answer.text, answer.complete, answer.usage.completion_tokens) for answer in answers]


def test_drawn_answers_follow_their_seed(loop: asyncio.Runner, engines: Engines) -> None:
    """Drafts would take other random numbers, and files of drawn verdicts made before are resumed."""
    decoding = SampledDecoding(temperature=2.0, seed=3)
    forced, plain = engines(forced_tokens=True), engines(forced_tokens=False)
    with Steps(forced) as steps:
        found = verdicts_of(loop, forced, LLMEval(), fifty()[:9], decoding)
    assert steps.drafts == 0
    assert found == verdicts_of(loop, plain, LLMEval(), fifty()[:9], decoding)


def test_an_abandoned_answer_leaves_the_others_alone(loop: asyncio.Runner, engines: Engines) -> None:
    engine = engines(forced_tokens=True)
    wanted = shown(ask(loop, engine, question("hello"), question("there")))

    async def abandon() -> list[Generation]:
        lost = [asyncio.ensure_future(engine.generate(question(f"lost {number}", alternatives=9))) for number in range(5)]
        kept = [asyncio.ensure_future(engine.generate(question(text))) for text in ("hello", "there")]
        await asyncio.sleep(0.01)
        for task in lost:
            task.cancel()
        return await asyncio.gather(*kept)

    assert shown(loop.run(abandon())) == wanted
    scheduler = engine._engine.engine_core.engine_core.scheduler
    assert not scheduler._reported


def test_alternatives_are_those_of_plain_steps(loop: asyncio.Runner, engines: Engines) -> None:
    asked = question("hello", alternatives=20)
    (here,), (there,) = (ask(loop, engines(forced_tokens=forced), asked) for forced in (True, False))
    assert here.tokens
    assert there.tokens
    choices = [place for place, token in enumerate(here.tokens) if len(token.alternatives) > 1]
    assert len(choices) == 4
    for place in choices:
        assert here.tokens[place].alternatives == pytest.approx(there.tokens[place].alternatives, abs=1e-4)


def test_of_a_step_of_scores_only_logits_of_legal_tokens_are_computed(loop: asyncio.Runner, engines: Engines) -> None:
    engine = engines(forced_tokens=True)
    runner = engine._engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner
    ask(loop, engine, question("hello"), question("there"))
    assert 1 < len(runner.columns) < 100
    ask(loop, engine, Request((Message("user", "Hello!"),), 4))
    assert runner.columns is None


def test_the_fingerprint_does_not_hold_the_setting(engines: Engines) -> None:
    assert engines(forced_tokens=True).identity == engines(forced_tokens=False).identity


def test_nothing_is_drafted_on_a_gpu() -> None:
    """vLLM runs other code there, which knows no proposer of ours."""
    hosted = HostedModel(TINY)
    assert "speculative_config" in hosted.arguments(on_cpu=True)
    assert "speculative_config" not in hosted.arguments(on_cpu=False)
    assert "speculative_config" not in HostedModel(TINY, forced_tokens=False).arguments(on_cpu=True)


@pytest.mark.parametrize("engine", ["transformers", "endpoint"])
def test_an_engine_that_has_no_such_steps_refuses_the_setting(engine: str) -> None:
    with pytest.raises(MagistrateError, match="`--no-forced-tokens` has no meaning for engine"):
        open_engine(engine, TINY, forced_tokens=False)


def test_a_server_takes_parameters_that_shape_tokens_beside_forced_ones(loop: asyncio.Runner) -> None:
    from judges.engines.vllm.async_engine import AsyncVLLMEngine

    async def answers() -> list[str]:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        async def answer(number: int, **shape: Any) -> str:
            constraint = StructuredOutputsParams(regex="(a|b) long forced (c|d) tail")
            constraint._backend = "outlines"
            params = SamplingParams(max_tokens=20, temperature=0, structured_outputs=constraint, **shape)
            async for output in engine.client.generate({"prompt_token_ids": [5, 6, 7]}, params, str(number)):
                text = str(output.outputs[0].text)
            return text

        async with AsyncVLLMEngine(TINY, dtype="float32", max_num_seqs=8) as engine:
            ids = [engine.chat.encode([Message("user", "")], "x" + letter)[-1] for letter in "ac"]
            return list(await asyncio.gather(answer(1), answer(2, logit_bias=dict.fromkeys(ids, 50.0)), answer(3, min_p=0.9)))

    assert loop.run(answers()) == ["b long forced d tail", "a long forced c tail", "b long forced d tail"]


@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPendingDeprecationWarning")  # of vLLM's proposer
def test_a_proposer_of_the_users_own_keeps_its_drafts(loop: asyncio.Runner, engines: Engines) -> None:
    own = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1, "prompt_lookup_max": 3}
    engine = engines(forced_tokens=True, options={"speculative_config": own})
    samples = fifty()[:9]
    with Steps(engine) as steps:
        found = verdicts_of(loop, engine, LLMEval(), samples)
    assert steps.drafts > 0
    assert found == verdicts_of(loop, engines(forced_tokens=False), LLMEval(), samples)
