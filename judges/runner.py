"""Judges samples on an engine: render, generate, read, verdict.

The command line, the HTTP batches and the studies all judge through this module; none has a loop of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from judges.concurrency import Work, as_reached
from judges.data.rows import Row
from judges.decoding import GREEDY, Decoding, SampledDecoding
from judges.engines.engine import Engine, Generation, Request, Token, Usage
from judges.engines.heads import check_head
from judges.errors import (
    AnswerError,
    CannotContinueError,
    ContextOverflowError,
    EngineError,
    MagistrateError,
    RequestError,
    SampleError,
    ServerOverflowError,
)
from judges.expected import AnswerTokens, Expectation, Spread, alternatives_wanted
from judges.form import AnswerForm
from judges.judge import Judge, Label, NumericScore, Prompt, RenderedPrompts
from judges.texts import TextWriter
from judges.verdict import ENGINE_FAULT, Fingerprint, Verdict

RECOVERIES = (False, True)
"""Recovery order for truncated answers: continue normally, then finish with the shortest valid JSON."""

LABEL_ALTERNATIVES = 20
"""Likeliest tokens to examine at the start of a label: words begin in many ways, most of them not legal."""

LEAST_ROOM = 64
"""Minimum number of tokens for continuing an answer normally; a quarter of the answer's own room if that is more."""

PIECE = 1 << 16
"""Characters of a text hashed at a time."""

Detail = dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class PreparedSample:
    """A row with the prompts rendered from it, or the problem that prevents that, and the key used to resume a run."""

    row: Row
    rendered: RenderedPrompts | None
    problem: str | None
    key: str


def prepare(row: Row, judge: Judge) -> PreparedSample:
    """Render a row. Never raises because of the row's content: a bad row becomes an unscored verdict.

    The key covers the row's id and exactly the text that the judge is shown; columns that the judge does not read may change.
    """
    problem = row.problem
    rendered = None
    if row.sample is not None:
        try:
            rendered = judge.render(row.sample)
        except SampleError as error:
            problem = f"{row.place}: {error}"
    return PreparedSample(row, rendered, problem, _key(row.id, rendered, problem))


def _key(row_id: str, rendered: RenderedPrompts | None, problem: str | None) -> str:
    """Hash ``[row_id, [[role, content], ...]]`` as JSON. Long texts are hashed in pieces, so that other threads can run."""
    if rendered is None:
        return hashlib.sha256(json.dumps([row_id, [problem]]).encode()).hexdigest()[:32]
    digest = hashlib.sha256(f"[{json.dumps(row_id)}, [".encode())
    for number, message in enumerate(message for prompt in rendered.prompts for message in prompt.messages):
        digest.update(f'{", " if number else ""}[{json.dumps(message.role)}, "'.encode())
        for start in range(0, len(message.content), PIECE):
            digest.update(json.dumps(message.content[start : start + PIECE])[1:-1].encode())
        digest.update(b'"]')
    digest.update(b"]]")
    return digest.hexdigest()[:32]


def unscored(sample: PreparedSample, reason: str, judge: Judge, fingerprint: str) -> Verdict:
    """Make the verdict on a sample that could not be scored; ``fingerprint`` is the run's digest."""
    return Verdict(
        id=sample.row.id,
        judge=judge.name,
        status="unscored",
        reason=reason,
        notes=list(sample.rendered.notes) if sample.rendered else [],
        sample=sample.key,
        fingerprint=fingerprint,
        occurrence=sample.row.occurrence,
    )


class Runner:
    """Judges any number of samples on one started engine, with bounded concurrency.

    ``texts`` keeps what the judge is shown and what it answers.

    Raises:
        EngineError: The judge is to think first or begins answers, but the engine cannot continue an answer; or only one of judge
            and model is for a classification head.
        MagistrateError: Expected scores are requested for sampled answers, or anything but numbers of a classification head.
    """

    def __init__(self, judge: Judge, engine: Engine, decoding: Decoding = GREEDY, texts: TextWriter | None = None) -> None:
        check_head(judge, engine, decoding)
        self._think = decoding.think or judge.thinks
        if self._think and not engine.supports_prefill:
            raise EngineError("this server takes no regular expression, so no answer can be constrained behind a thought")
        if judge.begins_answers and not engine.supports_prefill:
            raise EngineError(f"this server continues no answer, and judge `{judge.name}` gives the beginning of each")
        if decoding.expected and isinstance(decoding, SampledDecoding):
            raise MagistrateError("expected scores need greedy answers; leave out the temperature, or the expected scores")
        self.judge = judge
        self.engine = engine
        self.decoding = decoding
        self._texts = texts
        self.basis = Fingerprint.of(judge, engine.identity, decoding)
        self.fingerprint = self.basis.digest
        self._scores = judge.numeric_scores
        self._labels = judge.labels if decoding.expected else ()
        wanted = alternatives_wanted(self._scores) if decoding.expected else 0
        wanted = max(wanted, LABEL_ALTERNATIVES if self._labels else 0)
        self._alternatives = min(wanted, engine.max_alternatives)

    async def run(self, samples: Iterable[PreparedSample]) -> AsyncGenerator[Verdict, None]:
        """Yield a verdict for every sample, in the order of completion. Samples are drawn as capacity becomes free.

        Raises:
            EngineError: The engine has failed. Every verdict reached before has been yielded.
        """
        async with aclosing(as_reached(self._work(samples), self.engine.concurrency)) as verdicts:
            async for verdict in verdicts:
                yield verdict

    async def _work(self, samples: Iterable[PreparedSample]) -> AsyncGenerator[Work[Verdict], None]:
        for sample in samples:
            yield self.judge_one(sample)

    async def judge_one(self, sample: PreparedSample) -> Verdict:
        """Judge one sample.

        Raises:
            EngineError: The engine has failed.
        """
        if sample.rendered is None:
            return self.unscored(sample, sample.problem or "the row holds no sample")
        session = _Session(sample.key)
        try:
            answers = await self._answers(sample.rendered, session)
            if self._texts is not None:
                self._texts.add(sample, [answer.text for answer in answers], self.fingerprint)
            expected, notes = await self._expected(answers, session)
            probabilities, label_notes = await self._label_probabilities(answers, session)
        except ContextOverflowError as error:
            return self.unscored(sample, str(error), session)
        except RequestError as error:
            return self.unscored(sample, f"{ENGINE_FAULT}{error}", session)
        try:
            parsed = self.judge.read(*(answer.text for answer in answers))
        except AnswerError as error:
            complete = all(answer.complete for answer in answers)
            why = str(error) if complete else "the answer was cut off by the token limit and could not be finished"
            return self.unscored(sample, f"bad answer: {why}", session)
        detail = parsed.detail if probabilities is None else {**(parsed.detail or {}), **self.judge.weighed(probabilities)}
        notes += label_notes
        if session.thought_cut:
            notes.append(f"a thought was cut off after {self._think} tokens")
        return Verdict(
            id=sample.row.id,
            judge=self.judge.name,
            status="scored",
            scores=parsed.scores,
            expected=expected,
            justification=parsed.justification,
            detail={**(detail or {}), "thoughts": session.thoughts} if session.thoughts else detail,
            recovered=session.recovered,
            notes=[*sample.rendered.notes, *parsed.notes, *notes],
            sample=sample.key,
            fingerprint=self.fingerprint,
            usage=session.usage,
            occurrence=sample.row.occurrence,
        )

    async def _answers(self, rendered: RenderedPrompts, session: _Session) -> list[_Answer]:
        """Ask every prompt whose answer the earlier ones do not imply."""
        answers: list[_Answer] = []
        for prompt in rendered.prompts:
            implied = self.judge.implied([answer.text for answer in answers])
            if implied is None:
                answers += await self._ask_in_parts(prompt, session)
            else:
                answers.append(_Answer(implied, complete=True, usage=Usage(), tokens=[], form=prompt.form))
        return answers

    async def _expected(
        self, answers: Sequence[_Answer], session: _Session
    ) -> tuple[dict[str, Expectation | None] | None, list[str]]:
        if not self._alternatives or not self._scores:
            return None, []
        expected: dict[str, Expectation | None] = {}
        notes: list[str] = []
        for answer in answers:
            own = [score for score in self._scores if len(answers) == 1 or answer.form.place(answer.text, score.path)]
            if answer.tokens == []:  # implied, not asked
                expected |= dict.fromkeys((score.metric for score in own), None)
                continue
            found = await self._spreads(answer, own, session)
            outcomes = {score.metric: self._calibrated(score.metric, spread) for score, spread in zip(own, found, strict=True)}
            expected |= {metric: None if isinstance(outcome, str) else outcome for metric, outcome in outcomes.items()}
            notes += [f"no expected {metric}: {outcome}" for metric, outcome in outcomes.items() if isinstance(outcome, str)]
        return expected, notes

    async def _spreads(
        self, answer: _Answer, parts: Sequence[NumericScore] | Sequence[Label], session: _Session
    ) -> list[Spread | str]:
        """The probabilities of parts of an answer, or the reason why they are unknown."""
        spelt = AnswerTokens(answer.text, answer.tokens, answer.form)
        spreads = [spelt.spread(part) for part in parts]
        await asyncio.gather(*(self._finish(spread, answer, session) for spread in spreads if isinstance(spread, Spread)))
        return spreads

    def _calibrated(self, metric: str, spread: Spread | str) -> Expectation | str:
        """The mean and the entropy of a score with what people give there, or the reason why they are unknown."""
        if isinstance(spread, str):
            return spread
        found = spread.expectation()
        calibration = self.engine.calibration
        if calibration is None or not self.judge.calibrated(metric):
            return found
        curve = calibration.curve(self.judge.name, metric, [int(score) for score in spread.legal])
        return found if isinstance(found, str) or curve is None else replace(found, calibrated=curve.at(found.expectation))

    async def _finish(self, spread: Spread, answer: _Answer, session: _Session) -> None:
        """Ask what follows the beginnings that several legal values share."""
        while (request := answer.request) and self.engine.supports_prefill and (unfinished := spread.unfinished):
            start = request.answer_start + spread.start
            asked = [
                replace(request, max_tokens=1, pattern=spread.pattern(begun), schema=None, answer_start=start + begun)
                for begun in unfinished
            ]
            for begun, following in zip(
                unfinished, await asyncio.gather(*(self._generate(r, session) for r in asked)), strict=True
            ):
                spread.add(following.tokens[0].alternatives if following.tokens else {}, begun)

    async def _label_probabilities(
        self, answers: Sequence[_Answer], session: _Session
    ) -> tuple[list[dict[str, float] | None] | None, list[str]]:
        """The probabilities of the label in each answer, if the judge has any, and a note for each that is not known."""
        if not any(self._labels):
            return None, []
        known: list[dict[str, float] | None] = []
        notes: list[str] = []
        for answer, label in zip(answers, self._labels, strict=True):
            (spread,) = await self._spreads(answer, [label], session) if label else (None,)
            outcome = spread.probabilities() if isinstance(spread, Spread) else spread
            known.append(None if isinstance(outcome, str) else outcome)
            notes += [f"no probabilities of the label: {outcome}"] if isinstance(outcome, str) else []
        return known, notes

    async def _ask_in_parts(self, prompt: Prompt, session: _Session) -> list[_Answer]:
        """Ask a prompt, or the smaller prompts that the judge splits it into if it or its answer exceeds the context."""
        try:
            answer = await self._ask(prompt, session)
        except ContextOverflowError:
            parts = self.judge.split(prompt)
            if not parts:
                raise
        else:
            parts = () if answer.complete else self.judge.split(prompt)
            if not parts:
                return [answer]
        return [answer for part in parts for answer in await self._ask_in_parts(part, session)]

    async def _ask(self, prompt: Prompt, session: _Session) -> _Answer:
        """Ask a prompt; if the token limit cuts the answer off, have the model write what is missing."""
        form = prompt.form
        thought, cut = await self._thought(prompt, session) if self._think else (None, False)
        request = replace(Request.of(prompt), thought=thought, alternatives=self._alternatives)
        if thought is not None:
            request = replace(request, schema=None)
        answer = latest = await self._generate(request, session)
        if thought is not None:
            session.thoughts.append(thought)
        session.thought_cut |= cut
        for terse in RECOVERIES:
            rest = None if answer.complete else form.remainder(answer.text, terse=terse)
            if rest is None:
                break
            room = form.terse_room if terse else self._free_room(form, latest.usage)
            if room < 1:
                continue
            start = prompt.answer_start + rest.kept
            following = replace(request, max_tokens=room, pattern=rest.pattern, schema=None, answer_start=start)
            try:
                latest = await self._generate_in_available_room(following, session)
            except ContextOverflowError:
                continue
            except CannotContinueError:
                break
            session.recovered = True
            answer = _continued(answer, rest.kept, latest)
        return _Answer(answer.text, answer.complete, answer.usage, answer.tokens, form=form, request=request)

    def _free_room(self, form: AnswerForm, used: Usage) -> int:
        """Tokens for continuing normally that leave enough for the shortest end; less than 1 if none remain."""
        wanted = max(LEAST_ROOM, form.max_tokens // 4)
        if self.engine.context is None:
            return wanted
        return min(wanted, self.engine.context - used.prompt_tokens - used.completion_tokens - form.terse_room)

    async def _thought(self, prompt: Prompt, session: _Session) -> tuple[str, bool]:
        """The model's thought before its answer, and whether the limit cut it off."""
        thought = await self._generate(Request(prompt.messages, self._think, plain=prompt.plain, thinks=True), session)
        return thought.text.rstrip(), not thought.complete

    async def _generate_in_available_room(self, request: Request, session: _Session) -> Generation:
        try:
            return await self._generate(request, session)
        except ServerOverflowError:
            raise
        except ContextOverflowError as error:
            room = error.limit - error.prompt_tokens
            if room < 1:
                raise
            return await self._generate(replace(request, max_tokens=room), session)

    async def _generate(self, request: Request, session: _Session) -> Generation:
        if isinstance(self.decoding, SampledDecoding):
            seed = _seed_of(self.decoding, session)
            request = replace(request, temperature=self.decoding.temperature, seed=seed)
        session.requests += 1
        generation = await self.engine.generate(request)
        session.usage += generation.usage
        return generation

    def unscored(self, sample: PreparedSample, reason: str, session: _Session | None = None) -> Verdict:
        """Make the verdict on a sample that could not be scored."""
        verdict = unscored(sample, reason, self.judge, self.fingerprint)
        return verdict if session is None else replace(verdict, recovered=session.recovered, usage=session.usage)


@dataclass(frozen=True, slots=True)
class _Answer(Generation):
    """An answer with its form and its request; ``None`` if the judge implies it."""

    form: AnswerForm = field(kw_only=True)
    request: Request | None = None


@dataclass(slots=True)
class _Session:
    """The requests made for one sample: their number, their cost, and the thoughts that preceded the answers."""

    key: str
    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    recovered: bool = False
    thoughts: list[str] = field(default_factory=list)
    thought_cut: bool = False


def _seed_of(decoding: SampledDecoding, session: _Session) -> int:
    """A seed for each request, so that the draws of one sample do not depend on another's."""
    ground = json.dumps([decoding.seed, session.key, session.requests])
    return int.from_bytes(hashlib.sha256(ground.encode()).digest()[:4]) >> 1


def _continued(answer: Generation, kept: str, rest: Generation) -> Generation:
    """The answer whose text is ``kept`` followed by the rest."""
    tokens = None
    if answer.tokens is not None and rest.tokens is not None:
        tokens = [*_tokens_of(kept, answer.tokens), *rest.tokens]
    return Generation(kept + rest.text, rest.complete, rest.usage, tokens)


def _tokens_of(kept: str, tokens: list[Token]) -> list[Token]:
    """The tokens that spell ``kept``, and one without alternatives for what was written in place of the others."""
    spelt: list[Token] = []
    length = 0
    for token in tokens:
        if not kept.startswith(token.text, length):
            break
        spelt.append(token)
        length += len(token.text)
    return [*spelt, Token(kept[length:], {})] if length < len(kept) else spelt
