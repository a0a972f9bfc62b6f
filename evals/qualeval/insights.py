"""Insights: what a judge says of the tables, each sentence held against them. Source: QualEval, section 2.2 and figure 10."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from evals.qualeval.options import Options
from evals.qualeval.study_folder import StudyFolder
from judges.insight import Insight
from judges.qualeval import Kind
from judges.sources import Row

_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:\s?%)?")
_HIGHEST = re.compile(r"\b(?:highest|best|strongest|most proficient)\b", re.IGNORECASE)
_LOWEST = re.compile(r"\b(?:lowest|worst|weakest|least proficient)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Tables:
    """What a model's insights are drawn from: attribute to figure.

    Attributes:
        model: Whose.
        kind: Of which attributes.
        priors: Shares.
        proficiency: Means of the task's metric.
        distances: Of the use of skills; empty where they were not measured.
        counts: Instances of each attribute.
    """

    model: str
    kind: Kind
    priors: Mapping[str, float]
    proficiency: Mapping[str, float]
    distances: Mapping[str, float]
    counts: Mapping[str, int]

    def values(self, attribute: str) -> Iterator[tuple[str, float]]:
        """The figures of an attribute, by what they are."""
        for what, table in (("prior", self.priors), ("proficiency", self.proficiency), ("distance", self.distances)):
            if attribute in table:
                yield f"{what} of {attribute}", table[attribute]
        if attribute in self.counts:
            yield f"instances of {attribute}", self.counts[attribute]


@dataclass(frozen=True, slots=True)
class Checked:
    """A number of a sentence, and the figure that it is, where it is one."""

    number: str
    where: str | None


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of an insight.

    Attributes:
        text: As the judge wrote it.
        checked: Every number in it.
        flag: What in it the tables contradict; ``None`` where they do not.
    """

    text: str
    checked: list[Checked] = field(default_factory=list)
    flag: str | None = None


@dataclass(frozen=True, slots=True)
class Insights:
    """What a judge says of a model's figures, or why it says nothing."""

    model: str
    kind: Kind
    sentences: list[Sentence]
    reason: str | None = None


async def sum_up(folder: StudyFolder, instruction: str, tables: Sequence[Tables], options: Options) -> list[Insights]:
    """Have every table summed up, and every sentence checked.

    Raises:
        MagistrateError: The judge cannot go on.
    """
    rows = []
    for number, table in enumerate(tables, start=1):
        figures = {"priors": _rounded(table.priors), "proficiency": _rounded(table.proficiency)}
        if table.distances:
            figures["distances"] = _rounded(table.distances)
        rows.append(Row(str(number), f"the {table.kind}s of {table.model}", {"task_instruction": instruction, **figures}))
    made = []
    for table, verdict in zip(
        tables, await folder.judged("insights", Insight(most=options.insights), rows, len(rows)), strict=True
    ):
        said = (verdict.detail or {}).get("insights", [])
        made.append(Insights(table.model, table.kind, [check(text, table) for text in said], None if said else verdict.reason))
    return made


def check(text: str, tables: Tables) -> Sentence:
    """Hold a sentence against the tables.

    A number is right where a figure of an attribute that the sentence names, or of any where it names none, rounds to it at the
    number's own digits, as a share or in percent. "Highest" and "lowest" are right where the one attribute that the sentence
    names has the highest or lowest proficiency.
    """
    named, rest = _named(text, [*tables.priors])
    figures = [figure for attribute in named or tables.priors for figure in tables.values(attribute)]
    figures.append(("number of attributes", len(tables.priors)))
    figures.append(("attributes named", len(named)))
    checked = [Checked(found[0], _where(found[0], figures)) for found in _NUMBER.finditer(rest)]
    wrong = [one.number for one in checked if one.where is None]
    flags = []
    if wrong:
        flags.append(f"says {', '.join(wrong)}, which the tables do not have{_instead(named, tables)}")
    flags += _superlatives(text, named, tables)
    return Sentence(text, checked, "; ".join(flags) or None)


def _named(text: str, attributes: Sequence[str]) -> tuple[list[str], str]:
    """The attributes that a sentence names, and the sentence without them, since a name may hold a number."""
    named = []
    for attribute in sorted(attributes, key=len, reverse=True):
        pattern = re.compile(rf"(?<!\w){re.escape(attribute)}(?!\w)", re.IGNORECASE)
        if pattern.search(text):
            named.append(attribute)
            text = pattern.sub(" ", text)
    return named, text


def _where(number: str, figures: Sequence[tuple[str, float]]) -> str | None:
    percent = number.endswith("%")
    digits = number.rstrip("% ").replace(",", "")
    said, decimals = float(digits), len(digits.partition(".")[2])
    half = 0.5 * 10**-decimals + 1e-9
    for what, figure in figures:
        whole = what.startswith(("number", "attributes", "instances"))
        ways = (figure,) if whole else (figure * 100,) if percent else (figure, figure * 100)
        if not (percent and whole) and any(abs(way - said) <= half for way in ways):
            return what
    return None


def _instead(named: Sequence[str], tables: Tables) -> str:
    if not named:
        return ""
    return ": " + ", ".join(f"{what} {figure:.3g}" for what, figure in tables.values(named[0]))


def _superlatives(text: str, named: Sequence[str], tables: Tables) -> Iterator[str]:
    known = {name: value for name, value in tables.proficiency.items() if value == value}
    if len(named) != 1 or named[0] not in known or ("proficien" not in text.lower() and "perform" not in text.lower()):
        return
    for pattern, best, word in ((_HIGHEST, max(known.values()), "highest"), (_LOWEST, min(known.values()), "lowest")):
        if pattern.search(text) and known[named[0]] != best:
            others = ", ".join(name for name, value in known.items() if value == best)
            yield f"calls {named[0]} the {word}, which is {others} ({best:.3g}, not {known[named[0]]:.3g})"


def _rounded(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: round(float(figure), 3) for name, figure in figures.items() if figure == figure}
