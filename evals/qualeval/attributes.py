"""Discovery: which domains and sub-tasks a data set has. Source: QualEval, section 2.2.

Every instance is shown once, a few in a prompt. What the judge names is merged where it is the same, or nearly, and the list is
shrunk turn by turn: the judge chooses, from a part of the list at a time, one candidate in p. In the last turn it drops
duplicates and explains what is left in a line each, as the authors' code has it.
"""

from __future__ import annotations

import math
import random
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from evals.data.tasks import Instance, Task
from evals.qualeval.options import Options
from evals.qualeval.study_folder import StudyFolder
from judges.data.files import check_file, parse_json
from judges.data.rows import Row
from judges.data.samples import well_formed_content
from judges.errors import MagistrateError, counted, reason_of
from judges.qualeval import Discovery, Kind, Shrink
from solver.rows import MOST_COLUMNS

TOGETHER = 60
"""Candidates that the judge chooses from at a time."""

LONGEST, LONGEST_FOUND, LONGEST_LINE = 500, 80, 200
"""Characters of a text that a user gives, and of a name and a line that a judge does, cut there: a weak judge never ends."""

_LITTLE_WORDS = {"a", "an", "and", "as", "at", "by", "for", "from", "in", "into", "of", "on", "or", "the", "to", "with"}


@dataclass(slots=True)
class Attribute:
    """A domain or a sub-task, and how it came about.

    Attributes:
        name: The spelling that was given most often, the first of those given equally often.
        mentions: How often it was named, in any spelling; 0 where a user gave it.
        spellings: Each spelling that was merged into it, to how often it was named.
        turns: The turns of shrinking that it came through.
        explanation: What it is, in a line; empty where nobody said.
    """

    name: str
    mentions: int = 0
    spellings: dict[str, int] = field(default_factory=dict)
    turns: int = 0
    explanation: str = ""


@dataclass(frozen=True, slots=True)
class AttributeList:
    """The attributes of a kind.

    Attributes:
        kind: Domains or sub-tasks.
        attributes: In the order in which the judge is asked about them.
        frozen: Whether a user gave them.
        prompts: Prompts of discovery that named something, and of those that did not, why.
        turns: What each turn of shrinking began with and what it left.
        dropped: The candidates that were not chosen, with how often they were named, the most first.
        cut: The attributes that were rated and then left out, with their mean affinities, the highest first.
    """

    kind: Kind
    attributes: list[Attribute]
    frozen: bool = False
    prompts: Counter[str] = field(default_factory=Counter)
    turns: list[tuple[int, int]] = field(default_factory=list)
    dropped: list[tuple[str, int]] = field(default_factory=list)
    cut: list[tuple[str, float]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [attribute.name for attribute in self.attributes]

    @property
    def explanations(self) -> list[str]:
        """A line on each attribute; empty where there is none on any."""
        lines = [attribute.explanation for attribute in self.attributes]
        return lines if any(lines) else []

    def as_fields(self) -> dict[str, object]:
        """As the file ``attributes.json`` has it."""
        return {
            "frozen": self.frozen,
            "attributes": [asdict(attribute) for attribute in self.attributes],
            "prompts": dict(self.prompts),
            "turns": [{"candidates": before, "left": after} for before, after in self.turns],
            "dropped": [{"name": name, "mentions": mentions} for name, mentions in self.dropped],
            "cut": [{"name": name, "mean_affinity": round(mean, 4)} for name, mean in self.cut],
        }


def given(kind: Kind, names: Sequence[str], explanations: Sequence[str] = ()) -> AttributeList:
    """Attributes that a user gives, with a line on each, or none.

    Raises:
        MagistrateError: There are none, two are the same, or a name or a line will not do.
    """
    if len(names) > MOST_COLUMNS:
        raise MagistrateError(f"there are {len(names):,} {kind}s, and there may be {MOST_COLUMNS}")
    lines = explanations or [""] * len(names)
    seen: dict[str, str] = {}
    for number, (name, line) in enumerate(zip(names, lines, strict=True)):
        if not name.strip() or len(name) > LONGEST or len(name.splitlines()) > 1:
            raise MagistrateError(f"{kind} {number + 1} must be one line of 1 to {LONGEST} characters")
        if len(line) > LONGEST or len(line.splitlines()) > 1:
            raise MagistrateError(f"the explanation of {kind} {number + 1} must be one line of at most {LONGEST} characters")
        key = " ".join(name.casefold().split())
        if key in seen:
            raise MagistrateError(f"the {kind} `{name}` is given twice, first as `{seen[key]}`; leave one of them")
        seen[key] = name
    if not names:
        raise MagistrateError(f"the list of {kind}s is empty")
    attributes = [Attribute(name, explanation=line) for name, line in zip(names, lines, strict=True)]
    return AttributeList(kind, attributes, frozen=True)


def read_given(path: Path) -> dict[Kind, AttributeList]:
    """Read attributes that a user has written, or edited: ``{"domain": [...], "subtask": [...]}``, or an ``attributes.json``.

    Raises:
        MagistrateError: The file cannot be read, or holds something else.
    """
    kinds: tuple[Kind, ...] = ("domain", "subtask")
    check_file(path)
    try:
        found = well_formed_content(parse_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise MagistrateError(f"{path} cannot be read: {reason_of(error)}") from None
    if not isinstance(found, dict) or not found or found.keys() - set(kinds):
        raise MagistrateError(f"{path} must be an object of lists, `domain` and `subtask`")
    lists: dict[Kind, AttributeList] = {}
    for kind in kinds:
        listed = found.get(kind)
        lines: list[Any] = []
        if isinstance(listed, dict):
            entries = [entry for entry in listed.get("attributes", []) if isinstance(entry, dict)]
            listed, lines = [entry.get("name") for entry in entries], [entry.get("explanation", "") for entry in entries]
        if listed is None:
            continue
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise MagistrateError(f"{path}: `{kind}` must be a list of names")
        if not all(isinstance(line, str) for line in lines):
            raise MagistrateError(f"{path}: each `explanation` of a {kind} must be a text")
        lists[kind] = given(kind, listed, lines)
    return lists


async def discover(folder: StudyFolder, task: Task, instances: Sequence[Instance], kind: Kind, options: Options) -> AttributeList:
    """Find the attributes of a kind.

    Raises:
        MagistrateError: The judge cannot go on, or has named fewer attributes than an instance is to be given.
    """
    prompts: Counter[str] = Counter()
    named: list[str] = []
    judge = Discovery(kind=kind, task=task.words, most=options.most, instruction=task.instruction)
    count = math.ceil(len(instances) / options.examples)
    for verdict in await folder.judged(f"discover {kind}", judge, _shown(instances, options), count):
        attributes = (verdict.detail or {}).get("attributes", [])
        named += [shortened(name) for name in attributes]
        prompts["named something" if attributes else verdict.reason or "named nothing"] += 1
    candidates = merged(named)
    found = AttributeList(kind, candidates, prompts=prompts)
    while len(candidates) > max(options.most, min(TOGETHER, options.factor * options.most)):
        candidates = await _shrunk(folder, task, candidates, options, found)
    if candidates:
        candidates = await _shrunk(folder, task, candidates, options, found, last=True)
    found.attributes[:] = candidates
    if len(candidates) < options.k:
        why = ", ".join(f"{count} of {prompts.total()} prompts: {reason}" for reason, count in prompts.most_common(3))
        raise MagistrateError(
            f"the judge found {counted(len(candidates), kind)}, fewer than the {options.k} that an instance is given ({why}); "
            "give a list of your own with `--attributes`, or a stronger judge with `--model`"
        )
    return found


def shortened(text: str, most: int = LONGEST_FOUND) -> str:
    """A text on one line, cut behind a word where it is too long."""
    shown = " ".join(text.split())
    if len(shown) <= most:
        return shown
    return f"{shown[: most - 1].rpartition(' ')[0] or shown[: most - 1]}…"


def merged(names: Iterable[str]) -> list[Attribute]:
    """Names without those that are the same, the most named first, then the first named.

    Two are the same where they have the same words, whatever the words' order: letter case, accents' encoding, punctuation, the
    plural's ``s`` and little words (and, of, the ...) aside.
    """
    spellings: dict[tuple[str, ...], Counter[str]] = {}
    for name in names:
        shown = " ".join(name.split())
        if words := words_of(shown):
            spellings.setdefault(words, Counter())[shown] += 1
    found = [Attribute(counts.most_common(1)[0][0], counts.total(), dict(counts.most_common())) for counts in spellings.values()]
    return sorted(found, key=lambda attribute: -attribute.mentions)


def words_of(name: str) -> tuple[str, ...]:
    """What is left of a name where spelling is passed over."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    words = "".join(one if one.isalnum() else " " for one in plain).split()
    kept = {_singular(word) for word in words if word not in _LITTLE_WORDS} or set(words) or set(plain.split())
    return tuple(sorted(kept))


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] not in "siu" else word


def _shown(instances: Sequence[Instance], options: Options) -> Iterable[Row]:
    order = list(instances)
    random.Random(options.seed).shuffle(order)
    for number, start in enumerate(range(0, len(order), options.examples), start=1):
        examples = [{"input": one.input, "output": one.truth} for one in order[start : start + options.examples]]
        yield Row(str(number), f"prompt {number}", {"examples": examples})


async def _shrunk(
    folder: StudyFolder, task: Task, candidates: list[Attribute], options: Options, found: AttributeList, *, last: bool = False
) -> list[Attribute]:
    """One turn. Candidates that are named often are spread over the parts, so that they do not push each other out."""
    kind = found.kind
    count = 1 if last else math.ceil(len(candidates) / TOGETHER)
    parts = [candidates[start::count] for start in range(count)]
    least = math.ceil(options.most / count)
    judge = Shrink(kind=kind, factor=options.factor, least=least, last=last, instruction=task.instruction)
    rows = [
        Row(str(number), f"part {number}", {"attributes": [one.name for one in part]})
        for number, part in enumerate(parts, start=1)
    ]
    turn = len(found.turns) + 1
    kept: list[Attribute] = []
    verdicts = await folder.judged(f"shrink {kind} {turn}", judge, rows, count)
    for part, verdict in zip(parts, verdicts, strict=True):
        detail = verdict.detail or {}
        chosen = detail.get("chosen", [])
        for number, line in zip(chosen, detail.get("explanations", []), strict=False):
            part[number - 1].explanation = shortened(line, LONGEST_LINE)
        if len(chosen) < (options.k if last else 1):
            # Left to chance this would lose a whole part, or a study; the names that came up most often stand in for a choice.
            found.prompts[f"chose {len(chosen) or 'nothing'} in turn {turn}: {verdict.reason or 'too few'}"] += 1
            chosen = range(1, max(least, math.ceil(len(part) / options.factor)) + 1)
        kept += [part[number - 1] for number in chosen if number <= len(part)]
    for attribute in kept:
        attribute.turns = turn
    stays = {id(attribute) for attribute in kept}
    found.dropped.extend((one.name, one.mentions) for one in candidates if id(one) not in stays)
    found.dropped.sort(key=lambda one: -one[1])
    found.turns.append((len(candidates), len(kept)))
    return sorted(kept, key=lambda attribute: -attribute.mentions)
