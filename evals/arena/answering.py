"""What a model answers to an arena's questions, turn by turn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from evals.data.answer_file import Asked, answer_all, digest
from evals.data.questions import Question
from evals.generation import Sampling
from judges.backend import ProgressListener
from judges.engines.engine import Engine, Request
from judges.errors import ContextOverflowError, RequestError
from judges.judge import Message


async def answer_questions(
    questions: Sequence[Question],
    model: str,
    engine: Engine,
    output: Path,
    sampling: Sampling,
    progress: ProgressListener | None = None,
) -> int:
    """Have a model answer every question that the output does not hold yet.

    Each line holds the question's ``id``, the ``model``, the ``answer``, a text or a list of one for each turn, or ``null`` and a
    ``reason``, and whether it is ``complete`` or was cut off at its room.

    Args:
        questions: What is asked, without examples.
        model: The contestant's name.
        engine: Who answers; closing it is left to the caller.
        output: A JSON Lines file.
        sampling: How.
        progress: Follows the progress.

    Returns:
        How many were answered now.

    Raises:
        MagistrateError: The output was made in another way, or the engine cannot go on. What is answered is kept.
    """
    await engine.identify()
    made_by = digest({"model": model, "sampling": sampling.hashed(), "engine": asdict(engine.identity)})
    asked = [
        Asked(one.index, digest(one.turns), partial(_answer, one, model, engine, sampling))  # the answer depends on nothing else
        for one in questions
    ]
    return await answer_all(asked, made_by, engine, output, progress)


async def _answer(question: Question, model: str, engine: Engine, sampling: Sampling) -> dict[str, Any]:
    seed = int(digest([sampling.seed, question.index]), 16) % 2**31
    temperature, top_k = sampling.draw(random.Random(seed))
    messages: list[Message] = []
    answers: list[str] = []
    complete = True
    for turn in question.turns:
        messages.append(Message("user", turn))
        request = Request(tuple(messages), sampling.max_tokens, temperature=temperature, top_k=top_k, seed=seed)
        try:
            answer = await engine.generate(request)
        except (ContextOverflowError, RequestError) as error:
            return {"model": model, "answer": None, "reason": str(error)}
        complete &= answer.complete
        answers.append(answer.text.strip())
        messages.append(Message("assistant", answer.text))
    return {"model": model, "answer": answers[0] if len(answers) == 1 else answers, "complete": complete}
