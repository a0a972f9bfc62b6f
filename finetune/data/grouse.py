"""Training data for a GroUSE judge, made of grounded-QA samples and a strong judge's verdicts on them.

Source: model card of illuin/llama-3-grouse, "Training Data": samples graded by a strong judge, one prompt for each metric; 1,000
to train on and 200 to validate on. The model learns the card's single prompt, which asks for all metrics at once.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from evals.qualeval.study_folder import StudyFolder
from finetune.data.conversations import Conversation, Rejected
from judges.backend import ProgressListener
from judges.constraint import ON_ONE_LINE, Layout
from judges.data.files import atomic_write
from judges.data.rows import Row
from judges.engines.engine import Engine
from judges.errors import AnswerError, MagistrateError, counted
from judges.grouse import PRINTED, Grouse
from judges.judge import Message
from judges.runner import prepare
from judges.verdict import Verdict
from judges.verdict_lines import numbered_verdicts

TRAINING = 1000
VALIDATION = 200
NAME = "grouse"


@dataclass(frozen=True, slots=True)
class Split:
    """Conversations to train on and to validate on, with no question in both.

    Attributes:
        training: At most as many as requested.
        validation: At most as many as requested.
        rejected: Samples that cannot be learned from, and why.
        unused: How many more there were than requested.
    """

    training: list[Conversation]
    validation: list[Conversation]
    rejected: list[Rejected]
    unused: int


async def label(
    samples: Sequence[Row],
    folder: Path,
    engine: Engine,
    progress: Callable[[str, int], ProgressListener] = lambda stage, count: ProgressListener(),
) -> list[Verdict]:
    """Have a strong judge grade samples, with the authors' prompt for each metric. A repeated call judges only what is missing.

    Where the authors' code does not ask a metric, its part of the answer holds null for both answers and an empty justification.

    Args:
        samples: Grounded answers in GroUSE's format: see ``judges.grouse.Grouse``.
        folder: Keeps the verdicts.
        engine: The judge's engine, which stays open.
        progress: Makes a listener from a stage's name and the number of its samples.

    Raises:
        MagistrateError: The engine fails, or the package ``grouse``, which holds the authors' prompts, is not installed.
    """
    study = StudyFolder(folder, engine, progress)
    return list(await study.judged(NAME, Grouse(per_metric=True), samples, len(samples)))


def read_verdicts(path: Path) -> list[Verdict]:
    """Read verdicts written by ``magistrate score --judge grouse``.

    Raises:
        MagistrateError: The file cannot be read, or holds another judge's verdicts.
    """
    verdicts = []
    for number, verdict in numbered_verdicts(path, _WHOLE):
        if verdict.judge != Grouse.name:
            raise MagistrateError(f"{path} line {number} is a verdict of `{verdict.judge}`, not of `{Grouse.name}`")
        verdicts.append(verdict)
    return verdicts


def split(
    samples: Sequence[Row],
    verdicts: Iterable[Verdict],
    *,
    training: int = TRAINING,
    validation: int = VALIDATION,
    indented: bool = False,
    seed: int = 0,
) -> Split:
    """Make conversations of samples and verdicts, and split them by question.

    A verdict belongs to the sample with the same content, not to another one with the same id.

    Args:
        samples: Grounded answers in GroUSE's format.
        verdicts: Verdicts on them.
        training: Number of samples to train on.
        validation: Number of samples to validate on.
        indented: Whether answers are indented as the prompt shows them; see the judge's option of this name.
        seed: Seed of the order.

    Raises:
        MagistrateError: There are too few samples or questions; the message says how many.
    """
    of_sample = {verdict.sample: verdict for verdict in verdicts}
    rejected: list[Rejected] = []
    questions: defaultdict[str, list[Conversation]] = defaultdict(list)
    for sample in samples:
        conversation = _conversation(sample, of_sample, PRINTED if indented else ON_ONE_LINE)
        if isinstance(conversation, Rejected):
            rejected.append(conversation)
        else:
            assert sample.sample is not None
            questions[str(sample.sample["input"]).strip()].append(conversation)
    usable = sum(map(len, questions.values()))
    if usable < training + validation:
        message = f"{training:,} samples to train on and {validation:,} to validate on are needed, but there are {usable:,}"
        if rejected:
            message += f"; {len(rejected)} more cannot be learned from, the first, {rejected[0].id}: {rejected[0].reason}"
        raise MagistrateError(message)
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
        asked = counted(len(questions), "question")
        raise MagistrateError(f"the {usable:,} samples have {asked}, too few to split into two sets")
    return Split(learned, held_out, rejected, usable - len(learned) - len(held_out))


def write_split(parts: Split, folder: Path) -> None:
    """Write ``training.jsonl`` and ``validation.jsonl``, as ``magistrate finetune train`` reads them, and ``rejected.jsonl``."""
    for name in ("training", "validation", "rejected"):
        rows = (json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in getattr(parts, name))
        atomic_write(folder / f"{name}.jsonl", "".join(rows))


def _conversation(sample: Row, verdicts: Mapping[str, Verdict], layout: Layout) -> Conversation | Rejected:
    """Make a conversation of the card's single prompt and the verdict, written as constrained answers are."""
    keys = [prepare(sample, judge).key for judge in _judges()]
    verdict = next((verdicts[key] for key in keys if key in verdicts), None)
    if verdict is None:
        return Rejected(sample.id, "it has no verdict")
    if verdict.status == "unscored":
        return Rejected(sample.id, verdict.reason or "it is unscored")
    rendered = prepare(sample, _WHOLE).rendered
    answer = json.dumps(verdict.detail, ensure_ascii=False, indent=layout.indent)
    try:
        _WHOLE.read(answer)
    except AnswerError as error:
        return Rejected(sample.id, f"its verdict is not an answer to the prompt: {error}")
    assert rendered is not None
    (prompt,) = rendered.prompts
    return Conversation(sample.id, (*prompt.messages, Message("assistant", answer)))


_WHOLE = Grouse()


@cache
def _judges() -> tuple[Grouse, ...]:
    """The judges whose verdicts can be learned from: those with the authors' prompts too, where these are installed."""
    ours = (Grouse(per_metric=True, prompts="card"), _WHOLE)
    try:
        return (Grouse(per_metric=True), *ours)
    except MagistrateError:
        return ours
