"""How a study was made, for whoever wants to make it again: facts as words, and what discovery went through."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evals.dashboard.rows import PLURAL, SINGULAR, Report, kinds
from evals.reports.wording import count, counted, duration, line, number, percent
from judges.qualeval import Kind

MOST_DROPPED = 60
"""Dropped candidates that are named, of each kind."""

Facts = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Discovery:
    """How the attributes of a kind came about.

    Attributes:
        kind: Which.
        summary: In a sentence or two.
        attributes: Each with its spellings and how often it was named.
        dropped: Candidates that were not kept, with how often they were named.
        left_out: How many more of those there are.
    """

    kind: Kind
    summary: list[str]
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    dropped: list[tuple[str, int]] = field(default_factory=list)
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Making:
    """How a study was made."""

    facts: Facts
    options: Facts
    stages: list[tuple[str, str, str, str]]
    seconds: Facts
    assignments: Facts
    discoveries: list[Discovery]


def making(report: Report) -> Making:
    """Put it in words."""
    made = report["made"]
    return Making(
        facts=_facts(made),
        options=[(line(name), _value(value)) for name, value in made.get("options", {}).items()],
        stages=_stages(made),
        seconds=[(line(name), duration(value)) for name, value in made.get("seconds", {}).items()],
        assignments=[(PLURAL[kind].capitalize(), _assignment(report["kinds"][kind]["assignment"])) for kind in kinds(report)],
        discoveries=[_discovery(kind, report["kinds"][kind]) for kind in kinds(report)],
    )


def _facts(made: Mapping[str, Any]) -> Facts:
    facts = [("Judge", line(made["judge_model"]))] if made.get("judge_model") else []
    plain = (("engine", "Engine"), ("date", "Date"), ("seed", "Seed"))
    facts += [(title, _value(made[name])) for name, title in plain if name in made]
    if tokens := made.get("tokens"):
        prompt, cached = tokens.get("prompt", 0), tokens.get("cached", 0)
        share = f", {percent(cached / prompt)} of them from the cache" if prompt else ""
        facts.append(("Tokens", f"{count(prompt)} read{share}; {count(tokens.get('completion', 0))} written"))
    if measured := made.get("metric"):
        facts.append(("Metric", "; ".join(f"{line(name)}: {_value(value)}" for name, value in measured.items())))
    if versions := made.get("versions"):
        facts.append(("Versions", ", ".join(f"{line(name)} {line(str(version))}" for name, version in versions.items())))
    return facts


def _stages(made: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """What each stage asked the judge: answers now, answers from an earlier run, and the fingerprint of the settings."""
    asked, fingerprints = made.get("asked", {}), made.get("fingerprints", {})
    return [
        (
            line(name),
            count(asked.get(name, {}).get("now")),
            count(asked.get(name, {}).get("before")),
            line(str(fingerprints.get(name, ""))),
        )
        for name in dict.fromkeys([*asked, *fingerprints])
    ]


def _assignment(made: Mapping[str, Any]) -> str:
    proof = "proven optimal" if made["optimal"] else f"not proven optimal: at most {number(made['bound'], 1)} can be reached"
    slack = "bounds as given" if made["slack"] is None else f"a slack of {100 * made['slack']:.3g}%"
    ties = f"; {counted(made['ties'], 'instance')} could as well have others" if made["ties"] else ""
    what = f"{made['k']} for each of {counted(made['rows'], 'instance')}, total affinity {number(made['objective'], 1)}"
    return f"{what}, {proof}, {slack}{ties}"


def _discovery(kind: Kind, one: Mapping[str, Any]) -> Discovery:
    found = one.get("discovery") or {}
    if found.get("frozen"):
        return Discovery(kind, [f"The list of {counted(len(one['attributes']), SINGULAR[kind])} was given."])
    told = [
        f"{count(amount)} of {count(sum(found['prompts'].values()))} prompts: {line(what)}."
        for what, amount in found.get("prompts", {}).items()
    ]
    told += [
        f"Turn {place}: {counted(turn['candidates'], 'candidate')}, of which {count(turn['left'])} were kept."
        for place, turn in enumerate(found.get("turns", []), start=1)
    ]
    attributes = [
        (
            line(attribute["name"]),
            count(attribute.get("mentions", 0)),
            "; ".join(line(name) for name in attribute.get("spellings", [])),
        )
        for attribute in one["attributes"]
    ]
    dropped = [(line(each["name"]), each["mentions"]) for each in found.get("dropped", [])]
    return Discovery(kind, told, attributes, dropped[:MOST_DROPPED], max(0, len(dropped) - MOST_DROPPED))


def _value(value: Any) -> str:
    return line(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
