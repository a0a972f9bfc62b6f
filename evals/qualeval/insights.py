"""Insights: what a judge says of the tables, each sentence held against them. Source: QualEval, section 2.2 and figure 10."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from evals.qualeval.options import ALL, Options
from evals.qualeval.study_folder import StudyFolder
from evals.reports.wording import first_few
from judges.data.rows import Row
from judges.qualeval import PLURAL, Insight, Kind

Scope = Kind | Literal["all"]

_PERCENT = r"%|per ?cent\b|percentage points?\b"
_NUMBER = re.compile(rf"(?<!\w)(?<!\d\.)(?:\d+(?:,\d{{3}})*(?:\.\d+)?|\.\d+)(?:\s?(?:{_PERCENT}))?", re.IGNORECASE)
_LISTED = re.compile(r"^\s*\d{1,2}[.)](?=\s)")
"""The number of an entry in a list, which is no figure."""

_HIGHEST = re.compile(r"\b(?:highest|best|strongest|most proficient)\b", re.IGNORECASE)
_LOWEST = re.compile(r"\b(?:lowest|worst|weakest|least proficient)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Tables:
    """What a model's insights are drawn from: attribute to figure.

    Attributes:
        model: The model that the figures are of.
        kind: Of which attributes.
        priors: Shares, which sum to 1 for each kind.
        proficiency: Means of the task's metric.
        distances: Of the use of skills; empty where they were not measured.
        counts: Instances of each attribute.
        kinds: Attribute to its kind, where there are several.
    """

    model: str
    kind: Scope
    priors: Mapping[str, float]
    proficiency: Mapping[str, float]
    distances: Mapping[str, float]
    counts: Mapping[str, int]
    kinds: Mapping[str, Kind] = field(default_factory=dict)

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
    kind: Scope
    sentences: list[Sentence]
    reason: str | None = None


async def sum_up(folder: StudyFolder, instruction: str, models: Sequence[Sequence[Tables]], options: Options) -> list[Insights]:
    """Have the tables of every model summed up, all kinds together and each by itself, and every sentence checked.

    Raises:
        MagistrateError: The judge cannot go on.
    """
    tables = [table for of_model in models for table in (overall(of_model), *of_model)]
    rows = []
    for number, table in enumerate(tables, start=1):
        figures = {"priors": _rounded(table.priors), "proficiency": _rounded(table.proficiency)}
        if table.distances:
            figures["distances"] = _rounded(table.distances)
        what = PLURAL.get(table.kind, "attributes")
        rows.append(Row(str(number), f"the {what} of {table.model}", {"task_instruction": instruction, **figures}))
    made = []
    for table, verdict in zip(
        tables, await folder.judged("insights", Insight(most=options.insights), rows, len(rows)), strict=True
    ):
        said = (verdict.detail or {}).get("insights", [])
        made.append(Insights(table.model, table.kind, [check(text, table) for text in said], None if said else verdict.reason))
    return made


def overall(tables: Sequence[Tables]) -> Tables:
    """The tables of all kinds of a model as one, as figure 10 lists them. A name that two kinds have says of which it is."""
    mentions = Counter(name for table in tables for name in table.priors)

    def name_of(name: str, table: Tables) -> str:
        return f"{name} ({table.kind})" if mentions[name] > 1 else name

    def joined(part: str) -> dict[str, float]:
        return {name_of(name, table): value for table in tables for name, value in getattr(table, part).items()}

    return Tables(
        tables[0].model,
        ALL,
        priors=joined("priors"),
        proficiency=joined("proficiency"),
        distances=joined("distances"),
        counts={name: int(count) for name, count in joined("counts").items()},
        kinds={name_of(name, table): table.kind for table in tables for name in table.priors if table.kind != ALL},
    )


def check(text: str, tables: Tables) -> Sentence:
    """Hold a sentence against the tables.

    A number is right where a figure of an attribute that the sentence names, or of any where it names none, rounds to it at the
    number's own digits, in percent where the sentence says so. "Highest" and "lowest" are right where the one attribute that the
    sentence names has the highest or lowest proficiency of its kind.
    """
    named, rest = _named(text, [*tables.priors])
    figures = [figure for attribute in named or tables.priors for figure in tables.values(attribute)]
    figures.append(("number of attributes", len(tables.priors)))
    figures += [(f"number of {PLURAL[kind]}", count) for kind, count in Counter(tables.kinds.values()).items()]
    figures.append(("attributes named", len(named)))
    checked = [Checked(found[0], _where(found[0], figures)) for found in _NUMBER.finditer(_LISTED.sub("", rest))]
    wrong = list(dict.fromkeys(one.number for one in checked if one.where is None))
    flags = []
    if wrong:
        flags.append(f"says {first_few(wrong)}, which the tables do not have{_instead(named, tables)}")
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
    digits = re.match(r"[\d.,]+", number)[0].replace(",", "")  # type: ignore[index]  # a number begins with them
    percent = not number[-1].isdigit()
    said, decimals = float(digits), len(digits.partition(".")[2])
    half = 0.5 * 10**-decimals + 1e-9
    for what, figure in figures:
        whole = what.startswith(("number", "attributes", "instances"))
        if not (percent and whole) and abs((figure * 100 if percent else figure) - said) <= half:
            return what
    return None


def _instead(named: Sequence[str], tables: Tables) -> str:
    if not named:
        return ""
    return ": " + ", ".join(f"{what} {figure:.3g}" for what, figure in tables.values(named[0]))


def _superlatives(text: str, named: Sequence[str], tables: Tables) -> Iterator[str]:
    if len(named) != 1 or ("proficien" not in text.lower() and "perform" not in text.lower()):
        return
    rivals = [name for name in tables.priors if tables.kinds.get(name) == tables.kinds.get(named[0])]
    known = {name: value for name, value in tables.proficiency.items() if value == value and name in rivals}
    if named[0] not in known:
        return
    for pattern, best, word in ((_HIGHEST, max(known.values()), "highest"), (_LOWEST, min(known.values()), "lowest")):
        if pattern.search(text) and known[named[0]] != best:
            others = ", ".join(name for name, value in known.items() if value == best)
            yield f"calls {named[0]} the {word}, which is {others} ({best:.3g}, not {known[named[0]]:.3g})"


def _rounded(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: round(float(figure), 3) for name, figure in figures.items() if figure == figure}
