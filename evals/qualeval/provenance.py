"""How a study was made, for whoever wants to make it again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evals.qualeval import findings
from evals.qualeval.rows import PLURAL, SINGULAR, Report, kinds, models
from evals.reports.document import Block, Facts, Filtered, Folded, Heading, Notes, Only, Table
from evals.reports.wording import count, counted, duration, line, number, percent
from judges.qualeval import Kind

MOST_DROPPED = 60
"""Dropped candidates that are named, of each kind."""


def provenance(report: Report) -> Iterator[Block]:
    """What is missing from the figures, and who judged with which settings."""
    made = report["made"]
    yield Heading("How this was made", key="making")
    if faults := findings.faults(report):
        yield Heading("Missing from the figures", 3)
        yield Notes(faults)
    else:
        yield f"Nothing is missing: every instance was rated{', answered and measured' if models(report) else ''}."
    if remarks := findings.remarks(report):
        yield Heading("What the metric remarks on answers that it measured", 3)
        yield Notes(remarks)
    yield Facts(facts(made))
    assignments = [(PLURAL[kind].capitalize(), assignment(report["kinds"][kind]["assignment"])) for kind in kinds(report)]
    yield _folded("Assignment", [Facts(assignments)])
    if options := made.get("options"):
        yield _folded("Options", [Facts([(name, _value(value)) for name, value in options.items()])])
    if stages := list(_stages(made)):
        yield _folded("Stages, with their times and fingerprints", stages)
    discoveries = [
        ({"kind": kind}, [_folded(f"Discovery of the {PLURAL[kind]}", _discovery(report, kind))]) for kind in kinds(report)
    ]
    yield Filtered(discoveries)


def facts(made: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Who judged, when, and what it took."""
    found = [("Judge", made["judge_model"])] if made.get("judge_model") else []
    plain = (("engine", "Engine"), ("date", "Date"), ("seed", "Seed"))
    found += [(title, _value(made[name])) for name, title in plain if name in made]
    if tokens := made.get("tokens"):
        prompt, cached = tokens.get("prompt", 0), tokens.get("cached", 0)
        share = f", {percent(cached / prompt)} of them from the cache" if prompt else ""
        found.append(("Tokens", f"{count(prompt)} read{share}; {count(tokens.get('completion', 0))} written"))
    if measured := made.get("metric"):
        parts = [_value(value) if name == "metric" else f"{name}: {_value(value)}" for name, value in measured.items()]
        found.append(("Metric", "; ".join(parts)))
    if versions := made.get("versions"):
        found.append(("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())))
    return found


def assignment(made: Mapping[str, Any]) -> str:
    """What the solver made of the affinities to a kind of attribute."""
    proof = "proven optimal" if made["optimal"] else f"not proven optimal: at most {number(made['bound'], 1)} can be reached"
    slack = "bounds as given" if made["slack"] is None else f"a slack of {100 * made['slack']:.3g}%"
    if widened := made.get("widened"):
        slack += f", exceeded by less than one instance for {counted(widened, 'attribute')}, as the data are few"
    ties = f"; {counted(made['ties'], 'instance')} could as well have others" if made["ties"] else ""
    what = f"{made['k']} for each of {counted(made['rows'], 'instance')}, total affinity {number(made['objective'], 1)}"
    return f"{what}, {proof}, {slack}{ties}"


def _folded(title: str, blocks: Sequence[Block]) -> Folded:
    return Folded(title, [Only("markdown", [Heading(title, 3)]), *blocks])


def _stages(made: Mapping[str, Any]) -> Iterator[Block]:
    """What each stage took, and how many answers it asked for now or kept from an earlier run."""
    if seconds := made.get("seconds"):
        yield Facts([(name, duration(value)) for name, value in seconds.items()])
    asked, fingerprints = made.get("asked", {}), made.get("fingerprints", {})
    if names := dict.fromkeys([*asked, *fingerprints]):
        rows = [
            (name, str(fingerprints.get(name, "")), *(count(asked.get(name, {}).get(when)) for when in ("now", "before")))
            for name in names
        ]
        yield Table(("Stage", "Fingerprint", "Asked this time", "Kept from before"), rows, 2, "What each stage asked the judge")


def _discovery(report: Report, kind: Kind) -> list[Block]:
    attributes = report["kinds"][kind]["attributes"]
    found = report["kinds"][kind].get("discovery") or {}
    if found.get("frozen"):
        return [f"The list of {counted(len(attributes), SINGULAR[kind])} was given."]
    prompts = found.get("prompts", {})
    told = [f"{count(amount)} of {count(sum(prompts.values()))} prompts: {line(what)}." for what, amount in prompts.items()]
    told += [
        f"Turn {place}: {counted(turn['candidates'], 'candidate')}, of which {count(turn['left'])} were kept."
        for place, turn in enumerate(found.get("turns", []), start=1)
    ]
    rows = [
        (
            attribute["name"],
            line(attribute.get("explanation", "")),
            "; ".join(map(line, attribute.get("spellings", []))),
            count(attribute.get("mentions", 0)),
        )
        for attribute in attributes
    ]
    headings = ("Attribute", "Explanation", "Spellings", "Mentions")
    spellings = Table(headings, rows, 3, "What each is, and how often it was named, in all its spellings")
    return [Notes(told, "plain"), spellings, *_cut(found.get("cut", []), len(attributes)), *_dropped(found.get("dropped", []))]


def _cut(cut: Sequence[Mapping[str, Any]], kept: int) -> Iterator[Block]:
    if cut:
        names = ", ".join(f"{line(one['name'])} ({number(one['mean_affinity'], 2)})" for one in cut)
        yield f"Rated, but not among the {kept} of highest mean affinity: {names}."


def _dropped(dropped: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    if dropped:
        names = ", ".join(f"{line(one['name'])} ({one['mentions']})" for one in dropped[:MOST_DROPPED])
        more = len(dropped) - MOST_DROPPED
        yield f"Not kept: {names}{f', and {more} more' if more > 0 else ''}."


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
