"""Makes pairs of answers of which it is known which is better: a good one, and one that is worse by a known defect."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from judges.orders import CHOICES, SWAPPED
from judges.pairwise import Pairwise
from scripts.judge_data import damage
from scripts.judge_data.examples import Choice, Example
from scripts.judge_data.sources import Split
from scripts.judge_data.tasks import Task, Tasks

VARIANTS = 3
"""Pairs of answers to one question."""

REASONED = 0.2
BOTH_ORDERS = 0.3
"""Share of pairs that are judged in both orders; the others are judged in the one that was drawn."""

RELATIONS = {"better": 66, "less bad": 14, "both": 12, "neither": 8}
"""How two answers compare, and how often: good and bad, a slight defect and a grave one, two good ones, two grave defects."""

OPENERS = ("Sure! ", "Certainly. ", "Of course! ", "Here is my answer: ", "Here you go:\n", "Sure, here it is:\n\n", "Answer: ")
CLOSINGS = (" I hope this helps.", " Let me know if you need anything else.", "\n\nIs there anything else?")
REFUSALS = (
    "I'm sorry, but I can't help with that.",
    "I am not able to answer this question.",
    "As an AI language model, I cannot do this.",
    "Unfortunately, I do not have enough information to do what you ask.",
    "Sorry, I don't understand. Could you say it in other words?",
)
EVASIONS = (
    "That depends on many things.",
    "There are many ways to look at this, and each has its merits. It is up to you to decide which of them suits you.",
    "This is a very good question that many people ask.",
    "You can find the answer to this on the internet or in a good book.",
    "It is important to think about this carefully. Everyone has a different opinion, and all of them deserve respect.",
    "Yes.",
    "No.",
)
OPEN_ENDED = ("quiz", "list", "reply")
MORE = ("### Instruction:", "Question:", "Input:", "Next task:", "User:")

Severity = Literal["slight", "grave"]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and what is wrong with it: a clause that follows its name, or ``""``."""

    text: str
    defect: str = ""


Maker = Callable[["Pairs", Task, str], str | None]


class Pairs:
    """Draws pairs of answers to tasks.

    Attributes:
        seen: Good answers to other tasks, by family: what an answer off the topic says.
    """

    def __init__(self, folder: Path, split: Split, rng: random.Random) -> None:
        self.rng = rng
        self.tasks = Tasks(folder, split, rng)
        self.seen: dict[str, deque[Task]] = defaultdict(lambda: deque(maxlen=40))
        for _ in range(200):
            self.task()

    def task(self) -> Task:
        task = self.tasks.draw()
        self.seen[task.family].append(task)
        return task

    def drawn(self, task: Task) -> tuple[Answer, Answer, str, str]:
        """Draw two answers, the better first: with the relation of the two, and the kind of the pair."""
        (relation,) = self.rng.choices(list(RELATIONS), list(RELATIONS.values()))
        while True:
            pair = self._pair(task, relation)
            if pair and pair[0].text.strip() != pair[1].text.strip():
                if relation != "both":
                    pair = (self._styled(pair[0]), self._styled(pair[1]))
                return *pair, relation, f"pairs: {task.family if relation == 'better' else relation}"

    def _pair(self, task: Task, relation: str) -> tuple[Answer, Answer] | None:
        good = Answer(self.rng.choice(task.good))
        if relation == "both":
            again = self.rng.choice(task.good)
            return good, Answer(again if again != good.text else self._phrased(again))
        if relation == "better":
            bad = (self._wrong(task) if self.rng.random() < 0.5 else self._defective(task, None, good.text) for _ in range(5))
            return self._unlike_in_length([(good, worse) for worse in bad if worse and worse.text.strip() not in task.good])
        first: Severity = "slight" if relation == "less bad" else "grave"
        drawn = [(self._defective(task, first), self._defective(task, "grave")) for _ in range(5)]
        return self._unlike_in_length([(one, two) for one, two in drawn if one and two and one.defect != two.defect])

    def _unlike_in_length(self, found: Sequence[tuple[Answer, Answer]]) -> tuple[Answer, Answer] | None:
        """A pair of which the better is as often the longer as the shorter, where there are both."""
        longer = self.rng.random() < 0.5
        fitting = [(better, worse) for better, worse in found if (len(better.text) > len(worse.text)) == longer]
        return next(iter(fitting or found), None)

    def _wrong(self, task: Task) -> Answer:
        return Answer(*self.rng.choice(task.wrong))

    def _defective(self, task: Task, severity: Severity | None, good: str | None = None) -> Answer | None:
        among = [defect for defect in DEFECTS if severity in (None, defect.severity)]
        defect = self.rng.choice(among)
        text = defect.make(self, task, good or self.rng.choice(task.good))
        return Answer(text, defect.clause) if text else None

    def _styled(self, answer: Answer) -> Answer:
        """The answer with a phrase that assistants add, whatever they say."""
        return replace(answer, text=self._phrased(answer.text)) if self.rng.random() < 0.2 else answer

    def _phrased(self, text: str) -> str:
        return self.rng.choice(OPENERS) + text if self.rng.random() < 0.75 else text + self.rng.choice(CLOSINGS)

    def other(self, task: Task) -> Task:
        """A task seen before; half of them of the same family, unless an answer to one of that may answer this one too."""
        open_ended = task.family in OPEN_ENDED
        families = [family for family in self.seen if not (open_ended and family == task.family)]
        family = task.family if self.rng.random() < 0.5 and not open_ended else self.rng.choice(families)
        others = [each for each in self.seen[family] if each.good != task.good]
        return self.rng.choice(others) if others else self.other(task)

    def off_topic(self, task: Task, good: str) -> str:
        return self.rng.choice(self.other(task).good)

    def echo(self, task: Task, good: str) -> str:
        return task.question.split("\n")[0]

    def refusal(self, task: Task, good: str) -> str:
        return self.rng.choice(REFUSALS)

    def evasion(self, task: Task, good: str) -> str | None:
        return self.rng.choice(EVASIONS) if task.family != "reply" else None

    def nonsense(self, task: Task, good: str) -> str | None:
        words = f"{good} {self.off_topic(task, good)}".split()[:25]
        return damage.break_grammar(" ".join(words), 0, self.rng) if len(set(words)) > 3 else None

    def beginning(self, task: Task, good: str) -> str | None:
        """The first quarter, or a bit more."""
        return self._cut(good, self.rng.uniform(0.15, 0.4))

    def cut_off(self, task: Task, good: str) -> str | None:
        return self._cut(good, self.rng.uniform(0.6, 0.85))

    def _cut(self, text: str, share: float) -> str | None:
        words = text.split(" ")
        return " ".join(words[: round(len(words) * share)]).rstrip(".,") if len(words) > 6 else None

    def repetition(self, task: Task, good: str) -> str:
        return self.rng.choice((" ", "\n")).join([good] * self.rng.randrange(2, 4))

    def rambling(self, task: Task, good: str) -> str:
        evasion = self.rng.choice(EVASIONS[:-2])
        return f"{good} {evasion} {self.off_topic(task, good)}"

    def run_on(self, task: Task, good: str) -> str:
        """A good answer, and after it another task, as a model writes that does not know where to end."""
        other = self.other(task)
        return f"{good}\n\n{self.rng.choice(MORE)} {other.question.split(chr(10))[0]}\n{self.rng.choice(other.good)}"

    def broken(self, task: Task, good: str) -> str | None:
        english = task.family in ("summary", "reading", "knowledge", "quiz", "reply", "grammar")
        return damage.break_grammar(good, self.rng.choice((1, 2)), self.rng) if english and len(good.split()) > 5 else None


@dataclass(frozen=True, slots=True)
class Defect:
    """A way in which an answer is worse than a good one."""

    severity: Severity
    clause: str
    make: Maker


DEFECTS = (
    Defect("grave", "is about something else", Pairs.off_topic),
    Defect("grave", "is about something else", Pairs.off_topic),
    Defect("grave", "only repeats the question", Pairs.echo),
    Defect("grave", "refuses", Pairs.refusal),
    Defect("grave", "avoids the question", Pairs.evasion),
    Defect("grave", "is nonsense", Pairs.nonsense),
    Defect("slight", "stops right after the beginning", Pairs.beginning),
    Defect("slight", "breaks off", Pairs.cut_off),
    Defect("slight", "repeats itself", Pairs.repetition),
    Defect("slight", "rambles on", Pairs.rambling),
    Defect("slight", "goes on to another task", Pairs.run_on),
    Defect("slight", "is in broken English", Pairs.broken),
)


def pairs(folder: Path, split: Split, rng: random.Random) -> Iterator[list[Example]]:
    """Draw groups of examples without end: one question and several pairs of answers to it."""
    maker = Pairs(folder, split, rng)
    judges = Pairwise(reasoning=False), Pairwise()
    while True:
        task = maker.task()
        judge = judges[rng.random() < REASONED]
        yield [_example(judge, task, *maker.drawn(task), rng) for _ in range(VARIANTS)]


def _example(judge: Pairwise, task: Task, first: Answer, second: Answer, relation: str, kind: str, rng: random.Random) -> Example:
    choice = relation if relation in CHOICES else "A"
    if rng.random() < 0.5:
        first, second, choice = second, first, SWAPPED.get(choice, choice)
    sample = {"question": task.question, "answer_a": first.text, "answer_b": second.text}
    if task.reference is not None:
        sample["reference_answer"] = task.reference
    given = _answer(judge, choice, first, second, rng)
    swapped = _answer(judge, SWAPPED.get(choice, choice), second, first, rng)
    return Example(judge, sample, (given, swapped if rng.random() < BOTH_ORDERS else None), kind)


def _answer(judge: Pairwise, choice: str, a: Answer, b: Answer, rng: random.Random) -> Mapping[str, Any]:
    said = {"choice": Choice(choice, CHOICES)}
    return {"reasoning": _reason(choice, a, b, rng), **said} if judge.options.reasoning else said


def _reason(choice: str, a: Answer, b: Answer, rng: random.Random) -> str:
    if choice == "both":
        return rng.choice(("Both do what was asked.", "Both say the same.", "Both are right."))
    worse, defect = ("B", b.defect) if choice == "A" else ("A", a.defect)
    if choice == "neither":
        return f"A {a.defect}, and B {b.defect}."
    better = a.defect if choice == "A" else b.defect
    rest = f"{choice} {better}, which is less bad" if better else f"{choice} does what was asked"
    return f"{worse} {defect}, {rest}." if better or rng.random() < 0.5 else f"{worse} {defect}."
