"""The one path: samples -> render -> generate -> read -> verdict.

The command line, the HTTP batches and the studies all judge through here; none has a loop of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel

from judges.answer_text import remainder, value_span
from judges.decoding import GREEDY, Decoding, SampledDecoding
from judges.engines.engine import Engine, Generation, Request, Token, Usage
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
from judges.expected import Expectation, alternatives_wanted, expected_scores, label_probabilities
from judges.form import Form
from judges.judge import Inquiry, Judge, Message, Prompt
from judges.sources import Row
from judges.verdict import ENGINE_FAULT, Fingerprint, Verdict
from judges.window import Work, as_reached

RECOVERIES = (False, True)
"""Recovery order for truncated answers: continue normally, then finish with the shortest valid JSON."""

LABEL_ALTERNATIVES = 20
"""Likeliest tokens that are looked at where a label begins: words begin in many ways, most of them not legal."""

LEAST_ROOM = 64
"""Tokens to go on with an answer freely, at least; a quarter of the answer's own room where that is more."""

PIECE = 1 << 16
"""Characters of a text that are put into a digest at a time."""

Detail = dict[str, Any] | None

THOUGHT_ENDS = "</think>"
"""How models that think before they answer end their thought. How one begins is between the model and its chat template."""

AFTER_THOUGHT = f"\n{THOUGHT_ENDS}\n\n"
"""What stands between a thought and the answer."""


@dataclass(frozen=True, slots=True)
class Question:
    """A row made ready for the judge: what is asked about it, or why nothing can be, and the key under which it is resumed."""

    row: Row
    inquiry: Inquiry | None
    problem: str | None
    key: str


def prepare(row: Row, judge: Judge) -> Question:
    """Render a row. Never raises for what a row holds: a bad row becomes an unscored verdict.

    The key covers exactly what the judge is shown, and the row's id. A column that the judge does not read may change freely.
    """
    problem = row.problem
    inquiry = None
    if row.sample is not None:
        try:
            inquiry = judge.render(row.sample)
        except SampleError as error:
            problem = f"{row.place}: {error}"
    return Question(row, inquiry, problem, _key(row.id, inquiry, problem))


def _key(row_id: str, inquiry: Inquiry | None, problem: str | None) -> str:
    """The digest of ``[row_id, [[role, content], ...]]`` as JSON. A long text goes in by pieces: other threads run in between."""
    if inquiry is None:
        return hashlib.sha256(json.dumps([row_id, [problem]]).encode()).hexdigest()[:32]
    digest = hashlib.sha256(f"[{json.dumps(row_id)}, [".encode())
    for number, message in enumerate(_messages(inquiry)):
        digest.update(f'{", " if number else ""}[{json.dumps(message.role)}, "'.encode())
        for start in range(0, len(message.content), PIECE):
            digest.update(json.dumps(message.content[start : start + PIECE])[1:-1].encode())
        digest.update(b'"]')
    digest.update(b"]]")
    return digest.hexdigest()[:32]


def unscored(question: Question, reason: str, judge: Judge, fingerprint: str) -> Verdict:
    """The verdict on a sample that could not be scored.

    Args:
        question: The sample.
        reason: Why not.
        judge: Who would have judged it.
        fingerprint: Digest of what verdicts of the run depend on.
    """
    return Verdict(
        id=question.row.id,
        judge=judge.name,
        status="unscored",
        reason=reason,
        notes=list(question.inquiry.notes) if question.inquiry else [],
        sample=question.key,
        fingerprint=fingerprint,
        occurrence=question.row.occurrence,
    )


def _messages(inquiry: Inquiry) -> Iterator[Message]:
    for prompt in inquiry.prompts:
        yield from prompt.messages


class Runner:
    """Judges any number of samples on one engine, a bounded number at a time.

    Args:
        judge: What to ask.
        engine: A started engine to ask it of.
        decoding: How answers are written.

    Raises:
        EngineError: The engine cannot go on behind a thought.
        MagistrateError: Expected scores of sampled answers are asked for.
    """

    def __init__(self, judge: Judge, engine: Engine, decoding: Decoding = GREEDY) -> None:
        if decoding.think and not engine.goes_on:
            raise EngineError("this server takes no regular expression, so no answer can be constrained behind a thought")
        if decoding.expected and isinstance(decoding, SampledDecoding):
            raise MagistrateError("expected scores go with greedy answers; leave out the temperature, or the expected scores")
        self.judge = judge
        self.engine = engine
        self.decoding = decoding
        self.basis = Fingerprint.of(judge, engine.identity, decoding)
        self.fingerprint = self.basis.digest
        self._scores = judge.numeric_scores
        self._label = judge.label if decoding.expected else None
        wanted = alternatives_wanted(self._scores) if decoding.expected else 0
        wanted = max(wanted, LABEL_ALTERNATIVES if self._label else 0)
        self._alternatives = min(wanted, engine.max_alternatives)

    async def run(self, questions: Iterable[Question]) -> AsyncGenerator[Verdict, None]:
        """Yield a verdict for every question, as they are reached. Questions are drawn as there is room for them.

        Raises:
            EngineError: The engine can answer nothing more. Every verdict reached before has been yielded.
        """
        async with aclosing(as_reached(self._work(questions), self.engine.window)) as verdicts:
            async for verdict in verdicts:
                yield verdict

    async def _work(self, questions: Iterable[Question]) -> AsyncGenerator[Work[Verdict], None]:
        for question in questions:
            yield self.judge_one(question)

    async def judge_one(self, question: Question) -> Verdict:
        """Judge one sample.

        Raises:
            EngineError: The engine can answer nothing more.
        """
        if question.inquiry is None:
            return self.unscored(question, question.problem or "the row holds no sample")
        asked = _Asked(question.key)
        try:
            answers = [answer for prompt in question.inquiry.prompts for answer in await self._ask_in_parts(prompt, asked)]
        except ContextOverflowError as error:
            return self.unscored(question, str(error), asked)
        except RequestError as error:
            return self.unscored(question, f"{ENGINE_FAULT}{error}", asked)
        try:
            reading = self.judge.read(*(answer.text for answer in answers))
        except AnswerError as error:
            whole = all(answer.complete for answer in answers)
            why = str(error) if whole else "the answer was cut off by the token limit and could not be finished"
            return self.unscored(question, f"bad answer: {why}", asked)
        expected, missing = self._expected(answers)
        detail, unknown = self._weighed(reading.detail, answers)
        missing = [*missing, *unknown]
        thoughts = [answer.thought.text.removesuffix(AFTER_THOUGHT) for answer in answers if answer.thought.text]
        if any(answer.thought.cut for answer in answers):
            missing = [*missing, f"a thought was cut off after {self.decoding.think} tokens"]
        return Verdict(
            id=question.row.id,
            judge=self.judge.name,
            status="scored",
            scores=reading.scores,
            expected=expected,
            justification=reading.justification,
            detail={**(detail or {}), "thoughts": thoughts} if thoughts else detail,
            recovered=asked.recovered,
            notes=[*question.inquiry.notes, *reading.notes, *missing],
            sample=question.key,
            fingerprint=self.fingerprint,
            usage=asked.usage,
            occurrence=question.row.occurrence,
        )

    def _expected(self, answers: Sequence[_Answer]) -> tuple[dict[str, Expectation | None] | None, list[str]]:
        if not self._alternatives or not self._scores:
            return None, []
        found: dict[str, Expectation | None] = {}
        notes: list[str] = []
        for answer in answers:
            here = [score for score in self._scores if len(answers) == 1 or value_span(answer.text, score.path)]
            expected, missing = expected_scores(answer.text, answer.tokens, here)
            found |= expected
            notes += missing
        return found, notes

    def _weighed(self, detail: Detail, answers: Sequence[_Answer]) -> tuple[Detail, list[str]]:
        """The detail with the probabilities of a judge's label, and notes that say why there are none."""
        if self._label is None:
            return detail, []
        found = [label_probabilities(answer.text, answer.tokens, self._label) for answer in answers]
        known = [None if isinstance(one, str) else one for one in found]
        notes = [f"no probabilities of the label: {one}" for one in found if isinstance(one, str)]
        return {**(detail or {}), **self.judge.weighed(known)}, notes

    async def _ask_in_parts(self, prompt: Prompt, asked: _Asked) -> list[_Answer]:
        """Put a prompt, or smaller ones in its place where it does not fit the context and the judge can divide it."""
        try:
            return [await self._ask(prompt, asked)]
        except ContextOverflowError:
            parts = self.judge.divide(prompt)
            if not parts:
                raise
        return [answer for part in parts for answer in await self._ask_in_parts(part, asked)]

    async def _ask(self, prompt: Prompt, asked: _Asked) -> _Answer:
        """Put a prompt; where the token limit cuts the answer off, have the model go on with what is missing."""
        form = prompt.form
        thought = await self._thought(prompt, asked) if self.decoding.think else _Thought()
        request = Request(
            prompt.messages,
            form.max_tokens,
            form.pattern,
            None if thought.text else form.schema,
            answer_start=thought.text,
            alternatives=self._alternatives,
        )
        generation = await self._generate(request, asked)
        answer = _Answer(generation.text, generation.complete, generation.tokens, thought)
        for terse in RECOVERIES:
            rest = None if answer.complete else remainder(answer.text, form.schema, terse=terse)
            if rest is None:
                break
            room = form.terse_room if terse else self._free_room(form, generation.usage)
            if room < 1:
                continue
            go_on = replace(request, max_tokens=room, pattern=rest.pattern, schema=None, answer_start=thought.text + rest.kept)
            try:
                generation = await self._in_what_room_there_is(go_on, asked)
            except ContextOverflowError:
                continue
            except CannotContinueError:
                break
            asked.recovered = True
            answer = answer.followed_by(rest.kept, generation)
        return answer

    def _free_room(self, form: Form[BaseModel], used: Usage) -> int:
        """Tokens to go on freely with, which leave those for the terse end; less than 1 where there are none."""
        wanted = max(LEAST_ROOM, form.max_tokens // 4)
        if self.engine.context is None:
            return wanted
        left = self.engine.context - used.prompt_tokens - used.completion_tokens - form.terse_room
        return min(wanted, left)

    async def _thought(self, prompt: Prompt, asked: _Asked) -> _Thought:
        """What the model thinks before it answers. A thought that the limit cuts off is ended there."""
        generation = await self._generate(Request(prompt.messages, self.decoding.think, stop=THOUGHT_ENDS), asked)
        return _Thought(generation.text.rstrip() + AFTER_THOUGHT, not generation.complete)

    async def _in_what_room_there_is(self, request: Request, asked: _Asked) -> Generation:
        try:
            return await self._generate(request, asked)
        except ServerOverflowError:
            raise
        except ContextOverflowError as error:
            room = error.limit - error.prompt_tokens
            if room < 1:
                raise
            return await self._generate(replace(request, max_tokens=room), asked)

    async def _generate(self, request: Request, asked: _Asked) -> Generation:
        if isinstance(self.decoding, SampledDecoding):
            seed = _seed_of(self.decoding, asked)
            request = replace(request, temperature=self.decoding.temperature, seed=seed)
        asked.requests += 1
        generation = await self.engine.generate(request)
        asked.usage += generation.usage
        return generation

    def unscored(self, question: Question, reason: str, asked: _Asked | None = None) -> Verdict:
        """The verdict on a sample that could not be scored."""
        verdict = unscored(question, reason, self.judge, self.fingerprint)
        return verdict if asked is None else replace(verdict, recovered=asked.recovered, usage=asked.usage)


@dataclass(slots=True)
class _Asked:
    """What one question took, whatever came of it."""

    key: str
    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    recovered: bool = False


def _seed_of(decoding: SampledDecoding, asked: _Asked) -> int:
    """A seed for each request, so that no sample's luck is another's."""
    ground = json.dumps([decoding.seed, asked.key, asked.requests])
    return int.from_bytes(hashlib.sha256(ground.encode()).digest()[:4]) >> 1


@dataclass(frozen=True, slots=True)
class _Thought:
    """What a model wrote before its answer, up to and with the end of the thought; ``cut`` where that was the limit's doing."""

    text: str = ""
    cut: bool = False


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer, perhaps written in several goes."""

    text: str
    complete: bool
    tokens: list[Token] | None
    thought: _Thought

    def followed_by(self, kept: str, more: Generation) -> _Answer:
        tokens = None
        if self.tokens is not None and more.tokens is not None:
            tokens = [*_tokens_of(kept, self.tokens), *more.tokens]
        return _Answer(kept + more.text, more.complete, tokens, self.thought)


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
