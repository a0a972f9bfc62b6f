"""Makes questions whose answers are known fact by fact: of made-up things, of MMLU's questions, of DialogSum's summaries."""

from __future__ import annotations

import random
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.judge_data import damage
from scripts.judge_data.sources import NAMES, Question, Split, draw_names, read_dialogues
from scripts.judge_data.statements import asked, read_clear_questions, statement

STARTS = "Hal Bren Tor Mar Vel Ost Kir Lan Dor Sel Quin Fal Ar Nor Tal Wes Bel Cor Ild Pen Ras Gor Ul Mon".split()  # noqa: SIM905
ENDS = "den wick ova mark holm ley ris ton berg ano stad mere vik ford ling sand ure aka".split()  # noqa: SIM905
SUMMARIES_ASK = (
    "What is said about the talk '{topic}'?",
    "What happens in the talk '{topic}'?",
    "Sum up the talk '{topic}'.",
    "What do the notes say on '{topic}'?",
)
NAME = re.compile(r"\b[A-Z][a-z]{2,}")
NO_NAMES = frozenset(("They", "Both", "The", "Then", "But", "And", "She", "Finally", "After", "When", "Person"))
OVERVIEWS = ("What is known about {it}?", "Tell me about {it}.", "What do the documents say about {it}?", "Describe {it}.")
JOINTS = (", and {rest}?", "? And {rest}?", "? Also, {rest}?")


@dataclass(frozen=True, slots=True)
class Fact:
    """What a reference says, what answers say for it, and what is like it but false."""

    reference: str
    answers: tuple[str, ...]
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """A question, the facts that answer it, facts near to it, facts of something else, and the name of the source."""

    question: str
    needed: tuple[Fact, ...]
    related: tuple[Fact, ...]
    foreign: tuple[Fact, ...]
    source: str


class Topics:
    """Draws topics without end from the data in ``folder``."""

    def __init__(self, folder: Path, split: Split, rng: random.Random) -> None:
        self.rng = rng
        made_up = tomllib.loads(Path(__file__).with_name("facts.toml").read_text(encoding="utf-8"))["kinds"]
        self.kinds = [kind for kind in made_up if kind.get("held_out", False) == (split == "held-out")]
        self.subjects = _by_subject(read_clear_questions(folder, split))
        self.dialogues = read_dialogues(folder, split)
        self.makers: dict[str, Callable[[], Topic | None]] = {
            "things": self.of_things,
            "mmlu": self.of_questions,
            "dialogsum": self.of_dialogues,
        }

    def draw(self) -> Topic:
        """Draw a topic: half of made-up things, since a model cannot know these by heart."""
        while True:
            (source,) = self.rng.choices(list(self.makers), (55, 25, 20))
            if topic := self.makers[source]():
                return topic

    def of_things(self) -> Topic:
        kind = self.rng.choice(self.kinds)
        it, pronoun = self._name(self.rng.choice(kind["things"])), kind.get("pronoun", "it")
        entries = self.rng.sample(kind["facts"], len(kind["facts"]))
        count = min(self.rng.choice((1, 1, 2, 2, 3, 3, 4, 4)), len(entries) - 1)
        facts = [self._fact(entry, it, pronoun) for entry in entries]
        question = self._joined([entry["ask"] for entry in entries[:count]], it, pronoun)
        if count > 2 and self.rng.random() < 0.5:
            question, count = self.rng.choice(OVERVIEWS).format(it=it), min(count, 4)
            return Topic(question, tuple(facts[:count]), (), tuple(self._others(it)), "things")
        return Topic(question, tuple(facts[:count]), tuple(facts[count:]), tuple(self._others(it)), "things")

    def of_questions(self) -> Topic | None:
        subject = self.rng.choice(list(self.subjects))
        count = self.rng.choice((1, 1, 2, 2, 3, 3))
        if len(self.subjects[subject]) < count + 2:
            return None
        drawn = self.rng.sample(self.subjects[subject], count + 2)
        facts = [_fact_of(question) for question in drawn]
        question = " ".join(asked(each) for each in drawn[:count])
        return Topic(question, tuple(facts[:count]), tuple(facts[count:]), tuple(self._of_other_subjects(subject)), "mmlu")

    def of_dialogues(self) -> Topic | None:
        dialogue = self.rng.choice(self.dialogues)
        dialogue = dialogue.named(draw_names(dialogue, self.rng))
        said = damage.sentences(dialogue.summary)
        facts = [self._fact_said(sentence) for sentence in said]
        if "#" in dialogue.summary or not all(fact.wrong for fact in facts):
            return None
        foreign = tuple(self._of_other_dialogues(dialogue.topic))
        firsts = [sentence.split()[0].removesuffix("'s") for sentence in said]
        if len(set(firsts)) > 1 and self.rng.random() < 0.6:
            person = self.rng.choice([first for first in firsts if first not in ("They", "Both")] or firsts)
            needed = [fact for fact, first in zip(facts, firsts, strict=True) if first == person]
            related = [fact for fact, first in zip(facts, firsts, strict=True) if first != person]
            question = f"What does {person} do or say in the talk '{dialogue.topic}'?"
            return Topic(question, tuple(needed), tuple(related), foreign, "dialogsum")
        question = self.rng.choice(SUMMARIES_ASK).format(topic=dialogue.topic)
        return Topic(question, tuple(facts), (), foreign, "dialogsum")

    def _fact(self, entry: Mapping[str, Any], it: str, pronoun: str | None) -> Fact:
        """A fact; ``pronoun`` stands for ``it`` in some of the answers."""
        value = other = self._value(entry["values"])
        while other == value:
            other = self._value(entry["values"])
        states = self.rng.sample(entry["states"], len(entry["states"]))
        short = [state.replace("{it}", pronoun) for state in states] if pronoun and self.rng.random() < 0.3 else []
        right, wrong = (tuple(_filled(state, each, it) for state in (*states, *short)) for each in (value, other))
        return Fact(right[0], right, wrong)

    def _others(self, it: str) -> Iterator[Fact]:
        """Facts of things of any kind, the same kind too, whose names are others."""
        for kind in self.rng.choices(self.kinds, k=3):
            other = it
            while other == it:
                other = self._name(self.rng.choice(kind["things"]))
            yield self._fact(self.rng.choice(kind["facts"]), other, None)

    def _of_other_subjects(self, subject: str) -> Iterator[Fact]:
        others = [name for name in self.subjects if name.split()[-1] != subject.split()[-1]]
        for name in self.rng.sample(others, 3):
            yield _fact_of(self.rng.choice(self.subjects[name]))

    def _of_other_dialogues(self, topic: str) -> Iterator[Fact]:
        for dialogue in self.rng.sample(self.dialogues, 12):
            named = dialogue.named(draw_names(dialogue, self.rng))
            if "#" not in named.summary and not set(named.topic.split()) & set(topic.split()):
                yield self._fact_said(self.rng.choice(damage.sentences(named.summary)))

    def _fact_said(self, sentence: str) -> Fact:
        people = [name for name in dict.fromkeys(NAME.findall(sentence)) if name not in NO_NAMES]
        edits = damage.fact_edits(sentence, people, self.rng)
        wrong = tuple(damage.apply(sentence, [edit]) for edit in edits)
        return Fact(sentence, (sentence,), tuple(each for each in wrong if each != sentence))

    def _joined(self, asks: Sequence[str], it: str, pronoun: str) -> str:
        question = _filled(asks[0], "", it)
        for ask in asks[1:]:
            rest = ask.replace("{it}", it if self.rng.random() < 0.3 else pronoun).rstrip("?")
            question = question.rstrip("?") + self.rng.choice(JOINTS).format(rest=rest[0].lower() + rest[1:])
        return question

    def _name(self, template: str) -> str:
        return template.format(name=self._made_up(), person=self._person())

    def _made_up(self) -> str:
        return self.rng.choice(STARTS) + self.rng.choice(ENDS)

    def _person(self) -> str:
        return f"{self.rng.choice(NAMES)} {self._made_up()}"

    def _value(self, values: str | Sequence[str]) -> str:
        if not isinstance(values, str):
            return self.rng.choice(values)
        if values in ("name", "person"):
            return self._made_up() if values == "name" else self._person()
        low, high = map(int, values.split("-"))
        number = self.rng.randint(low, high)
        return str(number if low > 999 or number < 100 or self.rng.random() < 0.5 else round(number, -1))


def _by_subject(questions: Sequence[Question]) -> dict[str, list[Question]]:
    """The questions that can be told as statements, by subject; a subject of its own has facts that are near."""
    found: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        told = statement(question, question.right) if question.subject != "miscellaneous" else None
        if told and len(told.split()) < 32 and len(question.stem.split()) < 28:
            found[question.subject].append(question)
    return {subject: asked for subject, asked in found.items() if len(asked) > 2}


def _fact_of(question: Question) -> Fact:
    told = [statement(question, option) or "" for option in range(len(question.options))]
    right, wrong = told[question.right], [each for at, each in enumerate(told) if at != question.right]
    return Fact(right, (right,), tuple(wrong))


def _filled(template: str, value: str, it: str) -> str:
    text = template.replace("{it}", it).replace("{v}", value)
    return text[0].upper() + text[1:]
