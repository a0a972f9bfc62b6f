"""Makes grounded answers for GroUSE, whose grades follow from how they were made.

The references hold facts that answer the question, facts near to it and facts of something else. An answer is a plan: which facts
it gives, what is wrong with one of them, and whether it says that no document answers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from judges.grouse import Grouse
from scripts.judge_data.examples import Choice, Example
from scripts.judge_data.sources import Split
from scripts.judge_data.topics import Fact, Topic, Topics

VARIANTS = 3
"""Answers to evaluate, of one question, its references and its ground truth."""

USELESS_KEPT = 0.4
"""Share kept of the prompts on usefulness that ask of two answers that do not decline: null is right for most of them."""

MORE_FAULTS = 0.25
"""Share of answers with a fault of their own, such as one that leaves a fact out, in which a source is wrong too."""

ONE_PROMPT = 0.1
JUSTIFIED = 0.4
GRADES = (1, 2, 3, 4, 5, None)
YES = (0, 1, None)
DECLINED = "No document seems to precisely answer your question"
DECLINES = (
    *[f"{DECLINED}."] * 6,
    f"{DECLINED}",
    "No document precisely answers your question.",
    "None of the documents answers this question.",
    "The references do not answer the question.",
    "No document responds to your request.",
)
LEADS = ("However, ", "But ", "Nevertheless, ", "That said, ", "In the documents one finds only this: ")
OPENINGS = ("According to the references, ", "As the documents say, ", "To answer your question: ", "In short, ")

Kind = Literal["needed", "related", "foreign"]
Fault = Literal["changed", "uncited", "miscited", "invented"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What an answer holds: which share of the needed facts, how much else, one fault or none, and whether it declines."""

    kind: str
    needed: Literal["all", "some", "none"] = "all"
    related: bool = False
    foreign: bool = False
    fault: Fault | None = None
    declines: bool = False


ANSWERABLE = {
    Plan("right"): 10,
    Plan("left out", "some"): 13,
    Plan("left out, related added", "some", related=True): 13,
    Plan("left out, foreign added", "some", foreign=True): 11,
    Plan("related added", related=True): 11,
    Plan("foreign added", foreign=True): 11,
    Plan("foreign", "none", foreign=True): 6,
    Plan("related", "none", related=True): 10,
    Plan("changed", fault="changed"): 9,
    Plan("miscited", fault="miscited"): 9,
    Plan("uncited", fault="uncited"): 6,
    Plan("invented", related=True, fault="invented"): 6,
    Plan("wrongly declined", "none", declines=True): 4,
    Plan("wrongly declined, related added", "none", related=True, declines=True): 5,
    Plan("wrongly declined, foreign added", "none", foreign=True, declines=True): 4,
}
"""Plans of answers to a question that the references answer, and how often each is drawn."""

UNANSWERABLE = {
    Plan("declined", "none", declines=True): 16,
    Plan("declined, related added", "none", related=True, declines=True): 22,
    Plan("declined, foreign added", "none", foreign=True, declines=True): 16,
    Plan("declined, related changed", "none", related=True, fault="changed", declines=True): 7,
    Plan("declined, related miscited", "none", related=True, fault="miscited", declines=True): 5,
    Plan("answered out of nothing", fault="invented"): 14,
    Plan("answered with the related", "none", related=True): 14,
    Plan("answered with the foreign", "none", foreign=True): 6,
}
"""Plans of answers to a question that no reference answers."""


@dataclass(frozen=True, slots=True)
class Setting:
    """References of a topic, the number of the one that holds each fact, and whether they answer the question."""

    topic: Topic
    references: tuple[str, ...]
    places: Mapping[Fact, int]
    answerable: bool

    def facts(self, kind: Kind, placed: bool = True) -> list[Fact]:
        facts: Sequence[Fact] = getattr(self.topic, kind)
        return [fact for fact in facts if (fact in self.places) == placed]


@dataclass(frozen=True, slots=True)
class Part:
    """A sentence of an answer."""

    text: str
    kind: Kind
    cited: int | None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    parts: tuple[Part, ...]
    declines: bool
    kind: str

    def count(self, kind: Kind) -> int:
        return sum(part.kind == kind for part in self.parts)


def grounded(folder: Path, split: Split, rng: random.Random) -> Iterator[list[Example]]:
    """Draw groups of examples without end: one question, its references and its ground truth, and several answers to evaluate."""
    topics = Topics(folder, split, rng)
    judges = Grouse(per_metric=True, prompts="card"), Grouse()
    while True:
        topic = topics.draw()
        setting = _setting(topic, rng)
        judge = judges[rng.random() < ONE_PROMPT]
        first = _drawn(setting, rng, 0.45)
        seconds = {answer.text: answer for answer in (_drawn(setting, rng, 0) for _ in range(VARIANTS))}
        examples = [_example(judge, setting, (first, second), rng) for second in seconds.values()]
        yield [example for example in examples if any(example.answers)]


def _setting(topic: Topic, rng: random.Random) -> Setting:
    answerable = rng.random() < 0.73
    related = list(topic.related[: rng.choice((0, 1, 1, 2, 3))])
    foreign = list(topic.foreign[: rng.choice((0, 1, 1, 2))])
    if not answerable and not related + foreign:
        related, foreign = list(topic.related[:2]), list(topic.foreign[:1])
    own = [*(topic.needed if answerable else ()), *related]
    rng.shuffle(own)
    passages = [*_passages(own, rng), *_passages(foreign, rng)]
    rng.shuffle(passages)
    places = {fact: number for number, passage in enumerate(passages, start=1) for fact in passage}
    return Setting(topic, tuple(" ".join(fact.reference for fact in passage) for passage in passages), places, answerable)


def _passages(facts: Sequence[Fact], rng: random.Random) -> Iterator[Sequence[Fact]]:
    """Facts in references of one to three sentences."""
    start = 0
    while start < len(facts):
        end = start + rng.choice((1, 1, 1, 2, 2, 3))
        yield facts[start:end]
        start = end


def _drawn(setting: Setting, rng: random.Random, right: float) -> Answer:
    """Draw an answer: with a chance of ``right`` the one that ought to be given."""
    plans = ANSWERABLE if setting.answerable else UNANSWERABLE
    if rng.random() < right:
        plans = {next(iter(plans)): 1}
    while True:
        (plan,) = rng.choices(list(plans), list(plans.values()))
        if plan.fault is None and not plan.declines and plan.kind != "right" and rng.random() < MORE_FAULTS:
            plan = replace(plan, fault=rng.choice(("uncited", "miscited", "changed")))
        parts = _parts(plan, setting, rng)
        if parts is not None:
            return Answer(_told(parts, plan.declines, rng), tuple(parts), plan.declines, plan.kind)


def _parts(plan: Plan, setting: Setting, rng: random.Random) -> list[Part] | None:
    """The sentences of a plan; ``None`` where the references do not allow it."""
    needed = setting.facts("needed", placed=setting.answerable)
    if plan.needed == "some":
        needed = rng.sample(needed, rng.randrange(1, len(needed))) if len(needed) > 1 else []
    elif plan.needed == "none":
        needed = []
    if plan.needed != "none" and not needed:
        return None
    facts: list[tuple[Kind, Fact]] = [("needed", fact) for fact in needed]
    invented = plan.fault == "invented"
    for kind in ("related", "foreign"):
        if getattr(plan, kind):
            others = setting.facts(kind, placed=not invented)
            if not others:
                return None
            count = rng.choice((1, 2, 3) if plan.needed == "none" else (1, 1, 2, 3))
            facts += [(kind, fact) for fact in rng.sample(others, min(len(others), count))]
    if not plan.declines and rng.random() < 0.4:
        rng.shuffle(facts)
    parts = [_part(kind, fact, setting, rng) for kind, fact in facts]
    return _spoilt(parts, [fact for _, fact in facts], plan.fault, setting, rng) if plan.fault and not invented else parts


def _part(kind: Kind, fact: Fact, setting: Setting, rng: random.Random) -> Part:
    """A sentence that gives a fact; one that no reference holds cites any, or none."""
    text = rng.choice(fact.answers)
    if place := setting.places.get(fact):
        return Part(text, kind, place)
    return Part(text, kind, rng.choice((None, *range(1, len(setting.references) + 1))), "invented")


def _spoilt(parts: list[Part], facts: Sequence[Fact], fault: Fault, setting: Setting, rng: random.Random) -> list[Part] | None:
    """The sentences with a fault in one of them; the lack of a citation may be in all."""
    at = rng.randrange(len(parts))
    if fault == "uncited":
        every = rng.random() < 0.5
        return [replace(part, cited=None, fault=fault) if every or at == n else part for n, part in enumerate(parts)]
    if fault == "changed":
        if not facts[at].wrong:
            return None
        parts[at] = replace(parts[at], text=rng.choice(facts[at].wrong), fault=fault)
        return parts
    others = [number for number in range(1, len(setting.references) + 1) if number != parts[at].cited]
    if not others:
        return None
    parts[at] = replace(parts[at], cited=rng.choice(others), fault=fault)
    return parts


def _told(parts: Sequence[Part], declines: bool, rng: random.Random) -> str:
    """An answer in words."""
    inside = rng.random() < 0.8
    said = [_with_citation(part, inside) for part in parts]
    if declines:
        decline = rng.choice(DECLINES)
        if said:
            decline = decline.rstrip(".") + "."
            said[0] = _led(rng.choice(LEADS), said[0]) if rng.random() < 0.6 else said[0]
        return " ".join((decline, *said))
    if said and rng.random() < 0.15:
        said[0] = _led(rng.choice(OPENINGS), said[0])
    return " ".join(said)


def _with_citation(part: Part, inside: bool) -> str:
    if part.cited is None:
        return part.text
    return f"{part.text.rstrip('.')} [{part.cited}]." if inside else f"{part.text} [{part.cited}]"


def _led(lead: str, sentence: str) -> str:
    first = sentence.split()[0]
    small = first in ("The", "A", "An", "In", "At", "It", "Each", "On", "From", "About", "There", "After", "Last", "Today")
    return lead + (sentence[0].lower() + sentence[1:] if small else sentence)


def _example(judge: Grouse, setting: Setting, answers: tuple[Answer, Answer], rng: random.Random) -> Example:
    sample = {
        "input": setting.topic.question,
        "references": list(setting.references),
        "expected_output": answers[0].text,
        "actual_output": answers[1].text,
    }
    justified = rng.random() < JUSTIFIED
    said = [_Said(setting, answer, justified, judge.options.per_metric) for answer in answers]
    whole = {metric: {f"answer_{n}": part for n, part in enumerate(parts, start=1)} for metric, parts in _by_metric(said).items()}
    if any(part.fault == "changed" and part.kind == "needed" for answer in answers for part in answer.parts):
        del whole["completeness"]  # Whether a changed fact is there or left out, people say differently.
    kind = f"grounded: {answers[1].kind}"
    if not judge.options.per_metric:
        return Example(judge, sample, (whole if len(whole) == 4 else None,), kind)
    if not any(answer.declines for answer in answers) and rng.random() > USELESS_KEPT:
        del whole["usefulness"]
    metrics = ("answer_relevancy", "completeness", "usefulness", "faithfulness")
    return Example(judge, sample, tuple({metric: whole[metric]} if metric in whole else None for metric in metrics), kind)


def _by_metric(said: Sequence[_Said]) -> dict[str, list[Mapping[str, Any]]]:
    return {
        "answer_relevancy": [each.relevancy() for each in said],
        "completeness": [each.completeness() for each in said],
        "usefulness": [each.usefulness() for each in said],
        "faithfulness": [each.faithfulness() for each in said],
    }


@dataclass(frozen=True, slots=True)
class _Said:
    """What the judge says of an answer.

    Each sentence stands in the analysis with its first words and three criteria: copying them leads the model to the
    sentence, and one look at one reference decides a criterion, where the grade alone would need all of them at once. In one
    prompt for all metrics the list is empty, since the answer is long as it is.
    """

    setting: Setting
    answer: Answer
    justified: bool
    listed: bool

    def _why(self, reason: str) -> str:
        return reason if self.justified else ""

    def relevancy(self) -> Mapping[str, Any]:
        grade, reason = self._relevancy()
        return {
            "answer_affirms_no_document_answers": _boolean(self.answer.declines),
            "answer_relevancy_justification": self._why(reason),
            "answer_relevancy": Choice(grade, GRADES),
        }

    def _relevancy(self) -> tuple[int | None, str]:
        needed, related, foreign = (self.answer.count(kind) for kind in ("needed", "related", "foreign"))
        if self.answer.declines:
            return None, "The answer says that no document answers."
        if not needed:
            return (2, "It is near to the question and does not answer it.") if related > foreign else (1, "It is off topic.")
        if foreign:
            return (2, "Most of it is off topic.") if foreign > needed else (3, "It answers, and adds what is off topic.")
        if related:
            return (3, "Much of it was not asked.") if related > needed else (4, "It answers, and adds what was not asked.")
        return 5, "All of it answers the question."

    def completeness(self) -> Mapping[str, Any]:
        grade, reason = self._completeness()
        return {"completeness_justification": self._why(reason), "completeness": Choice(grade, GRADES)}

    def _completeness(self) -> tuple[int | None, str]:
        if not self.setting.answerable:
            return None, "No reference answers the question."
        given, wanted = self.answer.count("needed"), len(self.setting.facts("needed"))
        if given == wanted:
            return 5, "It gives all that was asked."
        if not given:
            return 1, "It gives nothing that was asked."
        return 4 if given / wanted > 0.6 else 3 if given / wanted >= 0.5 else 2, f"It gives {given} of {wanted} facts."

    def usefulness(self) -> Mapping[str, Any]:
        related = self.answer.count("related") > 0
        added = bool(self.answer.parts) and self.answer.declines
        reason = "What it adds is related." if related else "What it adds is off topic."
        if not added:
            reason = "It adds nothing." if self.answer.declines else "It answers the question."
        return {
            "answer_affirms_no_document_answers": _boolean(self.answer.declines),
            "answer_contains_related_information": _boolean(added),
            "usefulness_justification": self._why(reason),
            "usefulness": Choice(int(related) if added else None, YES),
        }

    def faithfulness(self) -> Mapping[str, Any]:
        alone = self.answer.declines and not self.answer.parts
        faults = [part.fault for part in self.answer.parts if part.fault]
        reason = FAULTS[faults[0]] if faults else "It adds nothing." if alone else "Each sentence agrees with its source."
        return {
            "answer_only_asserts_no_document_answers": _boolean(alone),
            "content_analysis_sentence_by_sentence": [_analysed(part) for part in self.answer.parts] if self.listed else [],
            "faithfulness_justification": self._why(reason),
            "faithfulness": Choice(None if alone else int(not faults), YES),
        }


FAULTS = {
    "changed": "One sentence differs from its source.",
    "uncited": "A sentence cites no source.",
    "miscited": "A sentence cites the wrong source.",
    "invented": "A statement is in no reference.",
}


def _boolean(value: bool) -> Choice:
    return Choice(value, (False, True))


def _analysed(part: Part) -> Mapping[str, Any]:
    """A sentence by its first words: whether it cites a source, the right one, and agrees with it."""
    cited = part.cited is not None
    placed = cited and part.fault not in ("miscited", "invented")
    agrees = part.fault not in ("changed", "invented")
    criteria = {
        f"criterion_{n}": Choice("yes" if met else "no", ("yes", "no")) for n, met in enumerate((cited, placed, agrees), 1)
    }
    return {"sentence": " ".join(part.text.split()[:3]), **criteria}
