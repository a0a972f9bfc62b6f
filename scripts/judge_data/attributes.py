"""Inputs and how much each has of attributes: MMLU's subjects, DialogSum's topics, sub-tasks of programs and summaries."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from judges.affinity import SCORES, Affinity, Evidence, Output
from judges.qualeval import Kind
from scripts.judge_data.damage import sentences
from scripts.judge_data.examples import Choice, Example
from scripts.judge_data.sources import (
    Dialogue,
    Neighbours,
    Program,
    Question,
    Split,
    content_words,
    draw_names,
    read_dialogues,
    read_programs,
    read_questions,
)
from scripts.judge_data.subtasks import CODE_NAMES, SUMMARY_NAMES, Found, halved, in_code, in_summary, in_task, stub

FAMILIES = {
    "medicine": "anatomy|clinical knowledge|college medicine|professional medicine|medical genetics|virology|nutrition",
    "biology": "college biology|high school biology|medical genetics|virology|anatomy|human sexuality",
    "physics": "college physics|conceptual physics|high school physics|astronomy|electrical engineering",
    "chemistry": "college chemistry|high school chemistry",
    "mathematics": "abstract algebra|college mathematics|elementary mathematics|high school mathematics|"
    "high school statistics|formal logic|econometrics",
    "computing": "college computer science|computer security|high school computer science|machine learning",
    "history": "high school european history|high school us history|high school world history|prehistory",
    "law": "international law|jurisprudence|professional law",
    "politics": "high school government and politics|us foreign policy|security studies|high school geography",
    "economics": "econometrics|high school macroeconomics|high school microeconomics|professional accounting|management|"
    "marketing|business ethics|public relations",
    "philosophy": "philosophy|moral disputes|world religions|formal logic|logical fallacies|business ethics|jurisprudence",
    "psychology": "high school psychology|professional psychology|human sexuality|sociology|human aging",
}
"""Families of MMLU's subjects. A subject may have two; ``global facts``, ``miscellaneous`` and ``moral scenarios`` have none."""

ADJACENT = {
    frozenset(pair.split("-"))
    for line in (
        "medicine-biology biology-chemistry physics-chemistry physics-mathematics mathematics-computing history-politics",
        "law-politics law-philosophy politics-economics psychology-medicine philosophy-psychology",
    )
    for pair in line.split()
}
FAMILY_NAMES = {
    "medicine": ("Medicine", "Medicine and health", "Clinical medicine"), "biology": ("Biology", "Life sciences"),
    "physics": ("Physics", "Physical sciences"), "chemistry": ("Chemistry",), "mathematics": ("Mathematics", "Math and logic"),
    "computing": ("Computer science", "Computing and software"), "history": ("History", "World history"),
    "law": ("Law", "Legal studies"), "politics": ("Politics and government", "International relations"),
    "economics": ("Economics and business", "Business and finance"), "philosophy": ("Philosophy and ethics", "Ethics"),
    "psychology": ("Psychology", "Psychology and sociology", "Human behaviour"),
}  # fmt: skip
THEMES = {
    "Food and drink": "food restaurant dinner lunch breakfast cook cooking meal menu coffee tea wine eat dish beer cake drink",
    "Travel": "travel trip flight hotel airport tour vacation passport luggage plane check-in visa",
    "Health": "doctor hospital sick illness medicine pain weight dentist health exercise fever headache diet smoking",
    "Work and jobs": "job interview work boss company position salary career office resume employee manager colleague",
    "Shopping": "shopping buy shop store price clothes shirt dress discount shoes purchase market size",
    "Money and banking": "bank account money loan deposit check credit insurance cash investment tax",
    "Education": "school class exam university student teacher study homework course college english library learn",
    "Sports": "sports football basketball tennis swimming game match gym team golf skiing",
    "Family and relationships": "marriage wedding family girlfriend boyfriend mother father wife husband baby divorce parents",
    "Weather": "weather rain snow sunny cold hot storm temperature winter summer",
    "Entertainment": "movie film music concert television tv theater show party dance book song",
    "Housing": "apartment house rent landlord room furniture kitchen neighborhood flat move",
    "Transport": "bus taxi train subway car driving traffic parking station road drive",
    "Technology": "computer internet phone email software online website camera laptop",
    "Business negotiation": "contract price order shipment agent product market sales negotiation delivery goods",
}
"""Domains of dialogues, and words of each."""

VAGUE = re.compile("talk|chat|conversation|dialog|discuss|social|daily|life|call|ask|help|plan")
"""Topics that may be any dialogue's."""

GROUP = 4
"""Inputs that share a list of attributes."""


@dataclass(frozen=True, slots=True)
class Rated:
    """An input, perhaps an output for it, and its attributes: key to rating and evidence."""

    given: str
    found: Mapping[str, Found]
    output: str = ""
    kind: str = ""


def attributes(folder: Path, split: Split, rng: random.Random) -> Iterator[list[Example]]:
    """A stream without end: a list of attributes, and four inputs to rate on it."""
    maker = Maker(read_dialogues(folder, split, longest=100), read_questions(folder, split), read_programs(folder, split), rng)
    makers = {maker.subjects: 26, maker.topics: 12, maker.themes: 14, maker.programs: 26, maker.summaries: 26}
    while True:
        yield rng.choices(list(makers), list(makers.values()))[0]()


def closeness(subject: str, family: str) -> int:
    """How far a subject of MMLU belongs to a family: 5 if it is of it, 2 if it is of an adjacent one, else 1."""
    own = families(subject)
    return 5 if family in own else 2 if any(frozenset((family, mine)) in ADJACENT for mine in own) else 1


def kinship(one: str, other: str) -> int:
    """How far a question of one subject of MMLU belongs to another, from 1 to 5."""
    mine, theirs = families(one), families(other)
    if one == other or one.split()[-2:] == other.split()[-2:]:
        return 5
    if mine & theirs:  # High-school and college biology are nearly one subject.
        return 4 if one.split()[-1] == other.split()[-1] else 3
    return 2 if any(frozenset((a, b)) in ADJACENT for a in mine for b in theirs) else 1


def families(subject: str) -> set[str]:
    return {family for family, subjects in FAMILIES.items() if subject in subjects.split("|")}


class Maker:
    """Makes groups of inputs with ratings.

    Args:
        dialogues: DialogSum's.
        questions: MMLU's, of which those of a subject in a family are used.
        programs: MBPP's.
        rng: Draws everything.
    """

    def __init__(
        self, dialogues: Sequence[Dialogue], questions: Sequence[Question], programs: Sequence[Program], rng: random.Random
    ) -> None:
        self.rng = rng
        self.dialogues, self.programs_read = dialogues, [program for program in programs if in_code(program.code)]
        self.rich = [dialogue for dialogue in dialogues if len(_shown(in_summary(dialogue.summary))) > 1]
        self.telling = [dialogue for dialogue in dialogues if dialogue.topic and not VAGUE.search(dialogue.topic)]
        self.neighbours = Neighbours(self.telling, rng)
        self.by_subject: dict[str, list[Question]] = {}
        for question in questions:
            if families(question.subject):
                self.by_subject.setdefault(question.subject, []).append(question)

    def subjects(self) -> list[Example]:
        """Questions of four subjects, rated on subjects, or on families of them."""
        rng = self.rng
        subjects = self._subjects()
        asked = [rng.choice(self.by_subject[subject]) for subject in subjects]
        if rng.random() < 0.5:
            needed = {min(families(subject)) for subject in subjects}
            keys = self._drawn(needed, sorted(FAMILIES))
            names = {key: rng.choice(FAMILY_NAMES[key]) for key in keys}
            found = [
                {key: _rated(closeness(subject, key), question.stem) for key in keys}
                for subject, question in _zip(subjects, asked)
            ]
        else:
            keys = self._drawn(set(subjects), sorted(self.by_subject))
            names = {key: self._styled(key) for key in keys}
            found = [
                {key: _rated(kinship(subject, key), question.stem) for key in keys} for subject, question in _zip(subjects, asked)
            ]
        inputs = [self._put(question) for question in asked]
        return self._examples("domain", names, [Rated(*pair, kind="subjects") for pair in _zip(inputs, found)])

    def _subjects(self) -> list[str]:
        """Four subjects, of which some are kindred: those are hard to tell apart."""
        rng, known = self.rng, sorted(self.by_subject)
        drawn = rng.sample(known, 2)
        kin = [other for one in drawn for other in known if other not in drawn and kinship(one, other) > 1]
        drawn += rng.sample(kin, min(len(kin), 1))
        return drawn + rng.sample([other for other in known if other not in drawn], GROUP - len(drawn))

    def topics(self) -> list[Example]:
        """Dialogues rated on their topics, and on those of near dialogues."""
        rng, near = self.rng, self.neighbours.near
        dialogues = rng.sample(self.telling, GROUP)
        labels = dict.fromkeys(dialogue.topic for dialogue in dialogues)
        kin = {other.topic: dialogue.topic for dialogue in dialogues if _alike(other := near(dialogue), dialogue)}
        labels |= dict.fromkeys(label for label in kin if not VAGUE.search(label))
        names = {label: self._styled(label) for label in rng.sample(list(labels), len(labels))}
        rated = []
        for dialogue in dialogues:
            text = "\n".join(self._named(dialogue).turns)
            found = {
                label: _rated(5 if label == dialogue.topic else self._nearness(label, kin, dialogue), text) for label in names
            }
            rated.append(Rated(text, found, kind="topics"))
        return self._examples("domain", names, rated)

    def _nearness(self, label: str, kin: Mapping[str, str], dialogue: Dialogue) -> int:
        shared = content_words(label) & content_words(f"{dialogue.topic} {dialogue.summary}")
        return 4 if shared and kin.get(label) == dialogue.topic else 3 if shared or kin.get(label) == dialogue.topic else 1

    def themes(self) -> list[Example]:
        """Dialogues rated on broad domains by the words that they use."""
        rng = self.rng
        rated = []
        for dialogue in [self._named(dialogue) for dialogue in rng.sample(self.dialogues, GROUP)]:
            text = "\n".join(dialogue.turns)
            found = {name: _theme(words.split(), dialogue, text) for name, words in THEMES.items()}
            rated.append(Rated(text, found, kind="themes"))
        keys = self._drawn({_foremost(one.found) for one in rated}, list(THEMES))
        return self._examples("domain", dict(zip(keys, keys, strict=True)), rated)

    def programs(self) -> list[Example]:
        """Tasks of MBPP rated on what their programs do, alone or with an output that does it or not."""
        rng = self.rng
        programs = rng.sample(self.programs_read, GROUP)
        if rng.random() < 0.4:
            rated = [Rated(program.task, in_task(program.task, program.code), kind="programs") for program in programs]
        else:
            rated = [self._output(programs[0], code, kind) for code, kind in self._codes(programs[0], programs[1])]
            rated += [self._output(program, program.code, "true") for program in programs[2:]]
        keys = self._drawn(self._telling_apart(rated), list(CODE_NAMES))
        return self._examples("subtask", {key: rng.choice(CODE_NAMES[key]) for key in keys}, rated)

    def _codes(self, program: Program, other: Program) -> list[tuple[str, str]]:
        worse = [(stub(program.code), "stub"), (halved(program.code, self.rng), "halved"), (other.code, "other")]
        return [(program.code, "true"), self.rng.choice(worse)]

    def _output(self, program: Program, code: str, kind: str) -> Rated:
        return Rated(program.task, in_code(code), code, f"programs-{kind}")

    def summaries(self) -> list[Example]:
        """Dialogues rated on what their summaries say, alone or with a summary that says it or not."""
        rng = self.rng
        dialogues = [self._named(dialogue) for dialogue in rng.sample(self.rich, 2)]
        rated = []
        alone = rng.random() < 0.35
        for dialogue in dialogues:
            text = "\n".join(dialogue.turns)
            if alone:
                rated.append(Rated(text, in_summary(dialogue.summary, text), kind="summaries"))
                continue
            for summary, kind in self._summaries(dialogue):
                rated.append(Rated(text, in_summary(summary), summary, f"summaries-{kind}"))
        keys = self._drawn(self._telling_apart(rated), list(SUMMARY_NAMES))
        return self._examples("subtask", {key: rng.choice(SUMMARY_NAMES[key]) for key in keys}, rated)

    def _telling_apart(self, rated: Sequence[Rated]) -> set[str]:
        """Up to four sub-tasks that some inputs or outputs have and others have not."""
        shown = [_shown(one.found) for one in rated]
        some = sorted({name for names in shown for name in names if not all(name in others for others in shown)})
        return set(self.rng.sample(some, min(4, len(some))))

    def _summaries(self, dialogue: Dialogue) -> Iterator[tuple[str, str]]:
        """The human summary, and one that leaves something out."""
        parts = sentences(dialogue.summary)
        clauses = re.split(r",? (?:because|and|but|so|while|since|after|when) ", dialogue.summary)
        yield dialogue.summary, "true"
        if self.rng.random() < 0.4 or max(len(parts), len(clauses)) == 1:
            speakers = " and ".join(dict.fromkeys(turn.partition(":")[0] for turn in dialogue.turns[:2]))
            yield f"{speakers} are talking about something.", "vague"
        else:
            yield self.rng.choice(parts if len(parts) > 1 else clauses).rstrip(".,") + ".", "part"

    def _examples(self, kind: Kind, names: Mapping[str, str], rated: Sequence[Rated]) -> list[Example]:
        """The examples of inputs that are rated on one list of attributes."""
        rng = self.rng
        evidence: Evidence = rng.choices(("none", "last", "first"), [74, 13, 13])[0]
        if evidence != "none":  # Evidence is dear.
            names = dict(list(names.items())[:5])
        output = self._where(rated)
        judge = Affinity(list(names.values()), kind=kind, output=output, evidence=evidence)
        examples = []
        for one in rated:
            sample: dict[str, str] = {"input": one.given, **({output: one.output} if output != "none" else {})}
            parts = [_part(one.found[key], evidence) for key in names]
            answer = {str(number): part for number, part in enumerate(parts, start=1)}
            examples.append(Example(judge, sample, (answer,), f"attributes.{one.kind}"))
        return examples

    def _where(self, rated: Sequence[Rated]) -> Output:
        """Under which name the judge reads the outputs."""
        return self.rng.choice(("ground_truth", "generation")) if rated[0].output else "none"

    def _drawn(self, needed: set[str], known: Sequence[str]) -> list[str]:
        """Four to twelve keys in random order, with all that are needed."""
        others = [key for key in known if key not in needed]
        more = min(len(others), max(1, self.rng.choice([4, 5, 6, 6, 8, 10, 12]) - len(needed)))
        keys = [*sorted(needed), *self.rng.sample(others, more)]
        return self.rng.sample(keys, len(keys))

    def _styled(self, name: str) -> str:
        return self.rng.choice((name, name.capitalize(), name.title()))

    def _named(self, dialogue: Dialogue) -> Dialogue:
        return dialogue.named(draw_names(dialogue, self.rng)) if self.rng.random() < 0.5 else dialogue

    def _put(self, question: Question) -> str:
        """A question of MMLU with its options or without."""
        if self.rng.random() < 0.4:
            return question.stem
        options = [f"{letter}. {option}" for letter, option in zip("ABCD", question.options, strict=True)]
        return "\n".join([question.stem, *options])


def _alike(one: Dialogue, other: Dialogue) -> bool:
    """Whether two dialogues are about much the same."""
    return one.topic != other.topic and len(content_words(one.summary) & content_words(other.summary)) > 2


def _zip(first: Sequence[Any], second: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(first, second, strict=True)


def _rated(rating: int, text: str) -> Found:
    """A rating whose evidence are the longest words of the text, where it is high."""
    longest = sorted(content_words(text), key=lambda word: (-len(word), word))[:2]
    return Found(rating, ", ".join(longest) if rating > 2 else "")


def _theme(words: Sequence[str], dialogue: Dialogue, text: str) -> Found:
    """How much a dialogue is about a domain: 5 if its topic is, 3 or 4 if it has some words of it, 1 if it has none."""
    said = re.findall(r"[a-z-]+", text.lower())
    hits = [word for word in said if word in words or word.removesuffix("s") in words]
    own = [word for word in re.findall(r"[a-z-]+", dialogue.topic) if word in words]
    kinds = len(set(hits))
    rating = 5 if own else 4 if kinds > 2 else 3 if kinds == 2 else 2 if kinds else 1
    return Found(rating, ", ".join(dict.fromkeys([*own, *hits][:3])))


def _shown(found: Mapping[str, Found]) -> set[str]:
    return {name for name, one in found.items() if one.rating > 3}


def _foremost(found: Mapping[str, Found]) -> str:
    return max(found, key=lambda name: found[name].rating)


def _part(found: Found, evidence: Literal["first", "last", "none"]) -> dict[str, Any]:
    score = {"score": Choice(found.rating, SCORES)}
    if evidence == "none":
        return score
    words = {"evidence": found.evidence or ("nothing" if found.rating == 1 else "little")}
    return {**words, **score} if evidence == "first" else {**score, **words}
