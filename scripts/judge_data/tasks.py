"""Makes short instructions, as people give them to assistants, with answers that are right and answers that are wrong."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from scripts.judge_data import damage
from scripts.judge_data.sources import NAMES, Dialogue, Split, draw_names, read_dialogues, read_programs
from scripts.judge_data.statements import asked, read_clear_questions, statement
from scripts.judge_data.topics import Topics

LONGEST_DIALOGUE = 95
SHARES = {
    "words": 26, "summary": 14, "reply": 14, "reading": 12, "code": 8, "knowledge": 8, "dialogue": 6, "title": 6, "grammar": 5,
    "quiz": 4, "subject": 4, "names": 4,
}  # fmt: skip
"""Kind of task, a method of ``Tasks``, to its share."""

T = TypeVar("T")
OPERATORS = {"+": "-", "-": "+", "*": "+", "<": ">", ">": "<", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}
COUNTS = {2: "two", 3: "three", 4: "four", 5: "five"}


@dataclass(frozen=True, slots=True)
class Task:
    """A question or an instruction.

    Attributes:
        question: With its input, if it has one.
        good: Answers that are right and equally good.
        wrong: Answers that are not, and why: a clause that follows the name of an answer.
        family: What it is an example of; answers of one family look alike.
        reference: A reference answer to show, or ``None``.
    """

    question: str
    good: tuple[str, ...]
    wrong: tuple[tuple[str, str], ...]
    family: str
    reference: str | None = None


class Tasks:
    """Draws tasks without end from the data in ``folder``."""

    def __init__(self, folder: Path, split: Split, rng: random.Random) -> None:
        self.rng = rng
        words = tomllib.loads(Path(__file__).with_name("tasks.toml").read_text(encoding="utf-8"))
        self.wordings: dict[str, list[str]] = words["wordings"]
        self.categories: dict[str, list[str]] = words["categories" if split == "train" else "held_out"]
        self.opposites = [pair.split() for pair in words["opposites"]["train" if split == "train" else "held_out"]]
        self.dialogues = read_dialogues(folder, split, longest=LONGEST_DIALOGUE)
        self.questions = read_clear_questions(folder, split)
        self.told = [question for question in self.questions if statement(question, question.right)]
        held_out = {program.task for program in read_programs(folder, "held-out")} if split == "train" else ()
        self.programs = [each for each in read_programs(folder, split, longest=400) if each.task not in held_out]
        self.topics = Topics(folder, split, rng)
        self.of_words: list[Callable[[], Task]] = [
            self._list, self._list, self._upper, self._reverse, self._sort, self._numbers, self._count, self._sum, self._odd,
            self._classify, self._opposite, self._sentence,
        ]  # fmt: skip

    def draw(self) -> Task:
        while True:
            (kind,) = self.rng.choices(list(SHARES), list(SHARES.values()))
            task: Task | None = getattr(self, kind)()
            if task is None:
                continue
            wrong = tuple((text, why) for text, why in task.wrong if text.strip() and text.strip() not in task.good)
            if wrong and all(answer.strip() for answer in task.good):
                return replace(task, wrong=wrong)

    def words(self) -> Task:
        return self.rng.choice(self.of_words)()

    def summary(self) -> Task:
        dialogue, other = self._dialogue(), self._dialogue()
        good, said = dialogue.summary, damage.sentences(dialogue.summary)
        speakers = [turn.partition(":")[0] for turn in dialogue.turns[:2]]
        wrong = [(other.summary, "is about another dialogue")]
        if edits := damage.fact_edits(good, sorted(set(speakers)), self.rng):
            wrong.append((damage.apply(good, edits[: max(1, len(said))]), "gets a fact wrong"))
        if len(said) > 1:
            wrong.append((said[0], "leaves out a main point"))
        wrong.append((f"{good} {self.rng.choice(damage.sentences(other.summary))}", "adds what nobody said"))
        wrong.append((" ".join(dialogue.turns[:3]), "copies turns and sums nothing up"))
        return self._with_input("summary", "\n".join(dialogue.turns), (good,), wrong)

    def reply(self) -> Task:
        dialogue, other = self._dialogue(), self._dialogue()
        at = self.rng.randrange(2, len(dialogue.turns))
        good = dialogue.turns[at].partition(": ")[2]
        strange = max(self.rng.sample(other.turns, 2), key=len)  # A turn of a word or two may fit anywhere.
        wrong = [
            (strange.partition(": ")[2], "does not fit the conversation"),
            (dialogue.turns[at - 1].partition(": ")[2], "only repeats the last turn"),
            (damage.break_grammar(good, self.rng.choice((1, 2)), self.rng), "is in broken English"),
            (self.rng.choice(("I don't know.", "OK.", "That is interesting.", "I see.")), "says next to nothing"),
        ]
        if len(good.split()) < 4:
            wrong.pop()
        return self._with_input("reply", "\n".join(dialogue.turns[max(0, at - 4) : at]), (good,), wrong)

    def reading(self) -> Task:
        topic = self.topics.of_things()
        passage = [fact.reference for fact in (*topic.needed, *topic.related[:2])]
        self.rng.shuffle(passage)
        good = [" ".join(self._any(fact.answers) for fact in topic.needed) for _ in range(2)]
        wrong = [(" ".join(self._any(fact.wrong) for fact in topic.needed), "contradicts the text")]
        wrong += [(self._any(fact.answers), "answers something else") for fact in (*topic.related[2:3], *topic.foreign[:1])]
        if len(topic.needed) > 1:
            wrong.append((self._any(topic.needed[0].answers), "leaves out a part of the answer"))
        wrong.append(("The text does not say it.", "misses what the text says"))
        wording = self._any(self.wordings["read"]).format(question=topic.question)
        return Task(f"{wording}\n\n{' '.join(passage)}", tuple(dict.fromkeys(good)), tuple(wrong), "reading")

    def code(self) -> Task:
        program, other = self.rng.sample(self.programs, 2)
        wrong = [(other.code, "solves another task"), *self._bugs(program.code)]
        return Task(program.task, (program.code, f"```python\n{program.code}\n```"), tuple(wrong), "code")

    def knowledge(self) -> Task | None:
        question = self._any(self.told)
        told = [statement(question, option) or "" for option in range(len(question.options))]
        good = told[question.right]
        wrong = [(each, "is wrong") for each in told if each != good]
        style = self.rng.random()
        if style < 0.6:  # The reference tells what a small model cannot know.
            return Task(asked(question), (good, question.options[question.right]), tuple(wrong), "knowledge", good)
        if style < 0.75:
            wording = self._any(self.wordings["capital"]).format(question=asked(question))
            return Task(
                wording, (good.upper(),), ((good, "is not in upper case"), (good.lower(), "is in lower case")), "knowledge"
            )
        if style < 0.9:
            more = [statement(each, each.right) or "" for each in self.rng.sample(self.told, 2)]
            wording = self._any(self.wordings["briefly"]).format(question=asked(question))
            return Task(wording, (good,), ((" ".join((good, *more)), "is longer than was asked"),), "knowledge")
        return Task(asked(question), (good, question.options[question.right]), tuple(wrong), "knowledge")

    def dialogue(self) -> Task:
        dialogue, other = self._dialogue(), self._dialogue()
        wording = self._any(self.wordings["dialogue"]).format(topic=dialogue.topic)
        wrong = [
            ("\n".join(other.turns[:6]), "is on another topic"),
            (dialogue.summary, "is no dialogue"),
            (dialogue.turns[0], "is one line"),
        ]
        return Task(wording, ("\n".join(dialogue.turns[:6]),), tuple(wrong), "dialogue")

    def title(self) -> Task:
        dialogue, other = self._dialogue(), self._dialogue()
        good = dialogue.topic.capitalize()
        wrong = [(other.topic.capitalize(), "does not fit the text"), (dialogue.summary, "is no title, it copies the text")]
        return self._with_input("title", dialogue.summary, (good, f'"{good}"'), wrong)

    def grammar(self) -> Task:
        sentence = self._any(damage.sentences(self._dialogue().summary))
        broken = damage.break_grammar(sentence, self.rng.choice((1, 2, 3)), self.rng)
        worse = damage.break_grammar(broken, 2, self.rng)
        other = self._any(damage.sentences(self._dialogue().summary))
        wrong = [(broken, "leaves the errors"), (worse, "makes new errors"), (other, "is another sentence")]
        return self._with_input("grammar", broken, (sentence,), wrong)

    def quiz(self) -> Task:
        question, other = self.rng.sample(self.questions, 2)
        good = asked(question)
        wrong = [(asked(other), f"is not about {question.subject}")] if other.subject != question.subject else []
        wrong.append((f"{question.subject.capitalize()} is a subject that many students like.", "asks nothing"))
        return Task(self._any(self.wordings["quiz"]).format(subject=question.subject), (good,), tuple(wrong), "quiz")

    def subject(self) -> Task | None:
        question, other = self.rng.sample(self.questions, 2)
        if question.subject == other.subject or "miscellaneous" in (question.subject, other.subject):
            return None
        good = question.subject.capitalize()
        wrong = (
            (other.subject.capitalize(), "names the wrong field"),
            (question.options[question.right], "answers the question instead"),
        )
        return self._with_input("subject", asked(question), (good, f"It belongs to {question.subject}."), wrong)

    def names(self) -> Task | None:
        text = self._dialogue().summary
        found = [name for name in dict.fromkeys(re.findall(r"\w+", text)) if name in NAMES]
        if not found or "#" in text:
            return None
        others = self.rng.sample([name for name in NAMES if name not in found], len(found))
        wrong = [(", ".join(others), "gives names that are not there"), (text, "copies the text")]
        if len(found) > 1:
            wrong.append((found[0], "leaves out a name"))
        return self._with_input("extract", text, (", ".join(found), "\n".join(f"- {name}" for name in found)), wrong)

    def _list(self) -> Task:
        things, words = self._category()
        other = self._any([others for name, others in self.categories.items() if name != things])
        count = self.rng.randrange(2, 6)
        chosen = self.rng.sample(words, count)
        wording = self._any(self.wordings["list"]).format(n=COUNTS[count], things=things)
        form, again = self.rng.sample((_comma, _numbered, _dashes), 2)
        fewer = chosen[: self.rng.randrange(1, count)]
        more = [word for word in words if word not in chosen][:4]
        wrong = [
            (form(self.rng.sample(other, count)), f"does not list {things}"),
            (form(fewer), f"lists {len(fewer)} of {count}"),
            (form([chosen[0]] * count), "gives one item again and again"),
            (form([*chosen[:-1], self._any([word for word in other if word not in words])]), "has an item of another kind"),
        ]
        if more:
            wrong.append((form([*chosen, *more]), f"lists more than {COUNTS[count]}"))
        return Task(wording, (form(chosen), again(self.rng.sample(chosen, count))), tuple(wrong), "list")

    def _upper(self) -> Task:
        text = self._any(damage.sentences(self._dialogue().summary))
        other = self._any(damage.sentences(self._dialogue().summary))
        wrong = ((text, "is not in upper case"), (other.upper(), "is another sentence"), (text.lower(), "is in lower case"))
        return self._with_input("upper", text, (text.upper(),), wrong)

    def _reverse(self) -> Task:
        words = self._words(4)
        return self._arranged("reverse", words, words[::-1])

    def _sort(self) -> Task:
        words = self._words(5)
        return self._arranged("sort", words, sorted(words, key=str.lower))

    def _numbers(self) -> Task:
        numbers = self.rng.sample(range(2, 99), 5)
        return self._arranged("numbers", list(map(str, numbers)), list(map(str, sorted(numbers))))

    def _count(self) -> Task:
        words = self._words(self.rng.randrange(3, 8))
        return self._figure("count", words, len(words), self.rng.choice((-1, 1, 2)))

    def _sum(self) -> Task:
        numbers = [self.rng.randrange(1, 30) for _ in range(self.rng.choice((2, 2, 3)))]
        return self._figure("sum", list(map(str, numbers)), sum(numbers), self.rng.choice((-10, -3, -1, 2, 5, 10)))

    def _odd(self) -> Task:
        (_, words), (_, others) = self.rng.sample(list(self.categories.items()), 2)
        fitting = self.rng.sample([word for word in words if word not in others], 3)
        odd = self._any([word for word in others if word not in words])
        shown = self.rng.sample([*fitting, odd], 4)
        good = (odd, f"The word that does not fit is '{odd}'.")
        wrong = (
            (fitting[0], "names a word that fits"),
            (f"The word that does not fit is '{fitting[1]}'.", "names a word that fits"),
        )
        return self._with_input("odd", ", ".join(shown), good, (*wrong, ("They all fit.", "overlooks the one that does not fit")))

    def _classify(self) -> Task:
        (things, words), (other, _) = self.rng.sample(list(self.categories.items()), 2)
        wrong = (
            (f"They are {other}.", "names the wrong category"),
            (other, "names the wrong category"),
            (words[-1], "names no category"),
        )
        return self._with_input("classify", ", ".join(self.rng.sample(words, 4)), (f"They are {things}.", things), wrong)

    def _opposite(self) -> Task:
        pair, other = self.rng.sample(self.opposites, 2)
        word, good = self.rng.sample(pair, 2)
        wrong = [(f"very {word}", "means the same"), (self._any(other), "is no opposite")]
        wrong += [(f"The opposite of {word} is {self._any(other)}.", "is no opposite")]
        return Task(
            self._any(self.wordings["opposite"]).format(word=word),
            (good, f"The opposite of {word} is {good}."),
            tuple(wrong),
            "words",
        )

    def _sentence(self) -> Task:
        name, (first, second, third) = self._any(NAMES), self._words(3)
        frames = (
            "{n} saw the {a} and the {b}.",
            "The {a} is not far from the {b}.",
            "{n} talked about the {a} and then about the {b}.",
        )
        good, again = (frame.format(n=name, a=first, b=second) for frame in self.rng.sample(frames, 2))
        wrong = [(frame.format(n=name, a=first, b=third), f"does not have '{second}'") for frame in self.rng.sample(frames, 2)]
        wrong += [
            (f"{first}, {second}", "is no sentence"),
            (f"{first.capitalize()} the and {second} {name} of.", "is no English"),
        ]
        return Task(self._any(self.wordings["sentence"]).format(a=first, b=second), (good, again), tuple(wrong), "words")

    def _arranged(self, wording: str, given: Sequence[str], right: Sequence[str]) -> Task:
        mixed = list(right)
        while mixed == list(right):
            self.rng.shuffle(mixed)
        form = self.rng.choice((_comma, _comma, _numbered))
        wrong = [(form(mixed), "has them in the wrong order"), (form(right[:-2]), "leaves some out")]
        if list(given) != list(right):
            wrong.append((form(given), "changes nothing"))
        return self._with_input(wording, ", ".join(given), (form(right), _dashes(right)), wrong)

    def _figure(self, wording: str, given: Sequence[str], right: int, off: int) -> Task:
        good = (str(right), f"The answer is {right}.", f"{right} in all.")
        wrong = [(text.replace(str(right), str(right + off)), "gives the wrong number") for text in good[:2]]
        return self._with_input(wording, ", ".join(given), good, (*wrong, (", ".join(given), "gives no number of its own")))

    def _bugs(self, code: str) -> list[tuple[str, str]]:
        """The code with an operator turned round, and without its end."""
        bugs = []
        operators = list(re.finditer(r"(?<= )(?:[<>=!]=|[-+*<>])(?= )", code))
        if operators:
            found = self._any(operators)
            bugs.append((f"{code[: found.start()]}{OPERATORS[found[0]]}{code[found.end() :]}", "has a bug"))
        lines = code.split("\n")
        if len(lines) > 3:
            bugs.append(("\n".join(lines[: len(lines) // 2]), "is half a function"))
        bugs.append((re.sub(r"\n[ \t]*return[^\n]*", "\n    pass", code), "returns nothing"))
        return [bug for bug in bugs if bug[0] != code]

    def _with_input(self, wording: str, text: str, good: tuple[str, ...], wrong: Sequence[tuple[str, str]]) -> Task:
        between = self.rng.choice(("\n\n", "\n\n", "\n", "\n\nInput: "))
        return Task(f"{self._any(self.wordings[wording])}{between}{text}", good, tuple(wrong), wording)

    def _dialogue(self) -> Dialogue:
        dialogue = self._any(self.dialogues)
        return dialogue.named(draw_names(dialogue, self.rng)) if self.rng.random() < 0.7 else dialogue

    def _category(self) -> tuple[str, list[str]]:
        return self._any(list(self.categories.items()))

    def _words(self, count: int) -> list[str]:
        words = sorted({word for each in self.categories.values() for word in each})
        return self.rng.sample(words, count)

    def _any(self, among: Sequence[T]) -> T:
        return self.rng.choice(among)


def _comma(words: Sequence[str]) -> str:
    return ", ".join(words)


def _numbered(words: Sequence[str]) -> str:
    return "\n".join(f"{n}. {word}" for n, word in enumerate(words, start=1))


def _dashes(words: Sequence[str]) -> str:
    return "\n".join(f"- {word}" for word in words)
