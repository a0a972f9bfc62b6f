"""Conversations that teach a model to judge as GroUSE does, of grounded-QA samples and what a strong judge says of them.

Source: model card of illuin/llama-3-grouse, "Training Data": samples graded by a strong judge, one prompt for each metric; a
thousand to train on and 200 to validate on. What is learned is the card's one prompt, which asks for all metrics at once.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from evals.qualeval.study_folder import StudyFolder
from evals.whole_files import write_whole
from finetune.conversations import Conversation, Rejected
from judges.bench import Audience
from judges.engines.engine import Engine
from judges.errors import AnswerError, MagistrateError
from judges.grouse import Grouse
from judges.judge import Message
from judges.runner import prepare
from judges.sources import Row
from judges.verdict import Verdict
from judges.verdict_lines import numbered_verdicts

TRAINING = 1000
VALIDATION = 200
NAME = "grouse"


@dataclass(frozen=True, slots=True)
class Split:
    """Conversations to train on and to validate on. No question is in both.

    Attributes:
        training: Up to as many as wanted.
        validation: The same.
        rejected: Samples that cannot be learned from, and why.
        unused: How many more there were than wanted.
    """

    training: list[Conversation]
    validation: list[Conversation]
    rejected: list[Rejected]
    unused: int


async def label(
    samples: Sequence[Row],
    folder: Path,
    engine: Engine,
    audience: Callable[[str, int], Audience] = lambda stage, count: Audience(),
) -> list[Verdict]:
    """Have a strong judge grade samples, a prompt for each metric. The same call again asks only what was not asked.

    Args:
        samples: Grounded answers in GroUSE's format: see ``judges.grouse.Grouse``.
        folder: Keeps the verdicts.
        engine: Who judges; closing it is left to the caller.
        audience: Makes a listener from a stage's name and the number of its samples.

    Raises:
        MagistrateError: The judge cannot go on.
    """
    place = StudyFolder(folder, engine, audience)
    return list(await place.judged(NAME, Grouse(per_metric=True), samples, len(samples)))


def read_verdicts(path: Path) -> list[Verdict]:
    """Verdicts that ``magistrate score --judge grouse`` has written.

    Raises:
        MagistrateError: The file cannot be read, or holds something else.
    """
    found = []
    for number, verdict in numbered_verdicts(path, _WHOLE):
        if verdict.judge != Grouse.name:
            raise MagistrateError(f"{path} line {number} is a verdict of `{verdict.judge}`, not of `{Grouse.name}`")
        found.append(verdict)
    return found


def split(
    samples: Sequence[Row],
    verdicts: Iterable[Verdict],
    *,
    training: int = TRAINING,
    validation: int = VALIDATION,
    seed: int = 0,
) -> Split:
    """Make conversations of samples and verdicts, and share them out by question.

    A verdict counts for the sample that it was made of, word by word, and for no other that goes by the same id.

    Args:
        samples: As they were graded.
        verdicts: In any order.
        training: Conversations to train on.
        validation: Conversations to validate on.
        seed: Of the questions' order.

    Raises:
        MagistrateError: There are fewer than wanted, with how many there are.
    """
    of_sample = {verdict.sample: verdict for verdict in verdicts}
    made = [_conversation(sample, of_sample) for sample in samples]
    rejected = [one for one in made if isinstance(one, Rejected)]
    questions: defaultdict[str, list[Conversation]] = defaultdict(list)
    for sample, one in zip(samples, made, strict=True):
        if isinstance(one, Conversation):
            assert sample.sample is not None
            questions[str(sample.sample["input"]).strip()].append(one)
    there = sum(map(len, questions.values()))
    if there < training + validation:
        why = (
            f"; {len(rejected)} more cannot be learned from, the first, {rejected[0].id}: {rejected[0].reason}"
            if rejected
            else ""
        )
        raise MagistrateError(
            f"{training:,} samples to train on and {validation:,} to validate on are wanted, and there are {there:,}{why}"
        )
    order = list(questions.values())
    random.Random(seed).shuffle(order)
    parts: list[tuple[int, list[Conversation]]] = [(validation, []), (training, [])]
    for rows in order:
        for wanted, part in parts:
            if len(part) + len(rows) <= wanted:
                part.extend(rows)
                break
    (_, held_out), (_, learned) = parts
    if not learned or not held_out:
        raise MagistrateError(f"the {there:,} samples ask {len(questions)} questions, too few to train and to validate on others")
    return Split(learned, held_out, rejected, there - len(learned) - len(held_out))


def write_split(found: Split, folder: Path) -> None:
    """Write ``training.jsonl`` and ``validation.jsonl``, as ``magistrate finetune train`` reads them, and ``rejected.jsonl``."""
    for name, part in (("training", found.training), ("validation", found.validation)):
        rows = [
            {"id": one.id, "messages": [{"role": message.role, "content": message.content} for message in one.messages]}
            for one in part
        ]
        _write(folder / f"{name}.jsonl", rows)
    _write(folder / "rejected.jsonl", [asdict(one) for one in found.rejected])


def _write(file: Path, rows: Sequence[Mapping[str, object]]) -> None:
    write_whole(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _conversation(sample: Row, verdicts: Mapping[str, Verdict]) -> Conversation | Rejected:
    """The card's one prompt, and the verdict as the answer to it, spelt as answers are constrained to be."""
    keys = [prepare(sample, judge).key for judge in _JUDGES]
    verdict = next((verdicts[key] for key in keys if key in verdicts), None)
    if verdict is None:
        return Rejected(sample.id, "there is no verdict on it")
    if verdict.status == "unscored":
        return Rejected(sample.id, verdict.reason or "it is unscored")
    inquiry = prepare(sample, _WHOLE).inquiry
    answer = json.dumps(verdict.detail, ensure_ascii=False)
    try:
        _WHOLE.read(answer)
    except AnswerError as error:
        return Rejected(sample.id, f"its verdict is no answer to the prompt: {error}")
    assert inquiry is not None
    (asked,) = inquiry.prompts
    return Conversation(sample.id, (*asked.messages, Message("assistant", answer)))


_WHOLE = Grouse()
_JUDGES = (Grouse(per_metric=True), _WHOLE)
