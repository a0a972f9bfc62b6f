"""The one path: samples -> render -> generate -> read -> verdict.

The command line, the HTTP batches and the studies all judge through here; none has a loop of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass

from judges.answer_text import remainder
from judges.constraint import answer_pattern
from judges.engines.engine import Engine, Generation, Request, Token, Usage
from judges.errors import AnswerError, CannotContinueError, ContextOverflowError, RequestError, SampleError
from judges.expected import Expectation, alternatives_wanted, expected_scores
from judges.judge import Judge, Message
from judges.sources import Row
from judges.verdict import ENGINE_FAULT, Fingerprint, Verdict

MOST_RECOVERIES = 3
"""How often a cut-off answer is gone on with. Each time at least one more field of it is finished."""


@dataclass(frozen=True, slots=True)
class Question:
    """A row made ready for the judge: its messages, or why there are none, and the key under which it is resumed."""

    row: Row
    messages: tuple[Message, ...] | None
    problem: str | None
    key: str


def prepare(row: Row, judge: Judge) -> Question:
    """Render a row. Never raises for what a row holds: a bad row becomes an unscored verdict.

    The key covers exactly what the judge is shown, and the row's id. A column that the judge does not read may change freely.
    """
    problem = row.problem
    messages = None
    if row.sample is not None:
        try:
            messages = judge.render(row.sample)
        except SampleError as error:
            problem = f"{row.place}: {error}"
    shown = [[message.role, message.content] for message in messages] if messages else [problem]
    key = hashlib.sha256(json.dumps([row.id, shown]).encode()).hexdigest()[:32]
    return Question(row, messages, problem, key)


class Runner:
    """Judges any number of samples on one engine, a bounded number at a time.

    Args:
        judge: What to ask.
        engine: A started engine to ask it of.
        expected: Whether to work out expected scores beside the greedy ones.
    """

    def __init__(self, judge: Judge, engine: Engine, *, expected: bool = False) -> None:
        self.judge = judge
        self.engine = engine
        self.fingerprint = Fingerprint.of(judge, engine.identity, expected=expected).digest
        self._pattern = answer_pattern(judge.answer_schema)
        self._scores = judge.numeric_scores
        wanted = alternatives_wanted(self._scores) if expected else 0
        self._alternatives = min(wanted, engine.max_alternatives)

    async def run(self, questions: Iterable[Question]) -> AsyncGenerator[Verdict, None]:
        """Yield a verdict for every question, as they are reached. Questions are drawn as there is room for them.

        Raises:
            EngineError: The engine can answer nothing more. Every verdict reached before has been yielded.
        """
        source = iter(questions)
        reached: asyncio.Queue[asyncio.Task[Verdict]] = asyncio.Queue()
        running: set[asyncio.Task[Verdict]] = set()
        failure: Exception | None = None
        try:
            while True:
                while failure is None and len(running) < self.engine.window and (question := next(source, None)):
                    task = asyncio.create_task(self.judge_one(question))
                    task.add_done_callback(reached.put_nowait)
                    running.add(task)
                if not running:
                    break
                task = await reached.get()
                running.discard(task)
                error = task.exception()
                if error is None:
                    yield task.result()
                elif failure is None:
                    failure = error if isinstance(error, Exception) else RuntimeError(str(error))
            if failure is not None:
                raise failure
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def judge_one(self, question: Question) -> Verdict:
        """Judge one sample.

        Raises:
            EngineError: The engine can answer nothing more.
        """
        if question.messages is None:
            return self._unscored(question, question.problem or "the row holds no sample")
        try:
            answer = await self._ask(question.messages)
        except ContextOverflowError as error:
            return self._unscored(question, str(error))
        except RequestError as error:
            return self._unscored(question, f"{ENGINE_FAULT}{error}")
        try:
            reading = self.judge.read(answer.text)
        except AnswerError as error:
            cut = "the answer was cut off by the token limit and could not be finished" if not answer.complete else str(error)
            return self._unscored(question, f"bad answer: {cut}", answer.usage, answer.recovered)
        expected: dict[str, Expectation | None] | None = None
        notes = reading.notes
        if self._alternatives:
            expected, missing = expected_scores(answer.text, answer.tokens, self._scores)
            notes = [*notes, *missing]
        return Verdict(
            id=question.row.id,
            judge=self.judge.name,
            status="scored",
            reason=None,
            scores=reading.scores,
            expected=expected,
            justification=reading.justification,
            recovered=answer.recovered,
            notes=notes,
            sample=question.key,
            fingerprint=self.fingerprint,
            usage=answer.usage,
        )

    async def _ask(self, messages: tuple[Message, ...]) -> _Answer:
        """Put the question; where the token limit cuts the answer off, have the model go on with what is missing."""
        request = Request(
            messages, self.judge.max_tokens, self._pattern, self.judge.answer_schema, alternatives=self._alternatives
        )
        generation = await self.engine.generate(request)
        answer = _Answer(generation.text, generation.complete, generation.usage, generation.tokens)
        for _ in range(MOST_RECOVERIES):
            rest = None if answer.complete else remainder(answer.text, self.judge.answer_schema)
            if rest is None:
                break
            follow_up = Request(
                messages, self.judge.max_tokens, rest.pattern, None, answer_start=rest.kept, alternatives=self._alternatives
            )
            try:
                answer = answer.followed_by(rest.kept, await self.engine.generate(follow_up))
            except (ContextOverflowError, CannotContinueError):
                break
        return answer

    def _unscored(self, question: Question, reason: str, usage: Usage | None = None, recovered: bool = False) -> Verdict:
        return Verdict(
            id=question.row.id,
            judge=self.judge.name,
            status="unscored",
            reason=reason,
            scores=None,
            expected=None,
            justification=None,
            recovered=recovered,
            notes=[],
            sample=question.key,
            fingerprint=self.fingerprint,
            usage=usage or Usage(),
        )


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer, perhaps written in several goes."""

    text: str
    complete: bool
    usage: Usage
    tokens: list[Token] | None
    recovered: bool = False

    def followed_by(self, kept: str, more: Generation) -> _Answer:
        tokens = None
        if self.tokens is not None and more.tokens is not None:
            tokens = [*_tokens_of(kept, self.tokens), *more.tokens]
        return _Answer(kept + more.text, more.complete, self.usage + more.usage, tokens, recovered=True)


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
