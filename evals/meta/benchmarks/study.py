"""What a judge reaches on a benchmark by the benchmark's own rule, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from evals.data.tables import numbered
from evals.data.tasks import Fault
from evals.meta.benchmarks.decisions import Asked, Decision
from evals.meta.benchmarks.declared import Benchmark, Combined, Name
from evals.meta.benchmarks.files import BenchmarkSet, Item, LabelRead
from evals.meta.benchmarks.rules import Floats, Scored, Sums, sums_of
from evals.meta.people.judge_scores import judge_names, unmatched
from evals.stats.bootstrap import LEVEL, ROUNDS, percentile_ends
from evals.stats.nominal import Share
from evals.stats.ratings.rounds import check_rounds
from judges.errors import MagistrateError
from judges.intervals import jeffreys
from judges.verdict import Verdict

BLOCK = 64
"""Rounds whose resamples are drawn at a time."""

ALIKE = "all values are the same, so resamples say nothing of how sure the figure is"
EMPTY = "no row is of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to study.

    Attributes:
        asked: How the judge is asked.
        expected: Whether expected scores, or the likelier answer over the orders, are taken.
        rounds: Of the bootstrap.
        level: How often an interval is to hold the true value.
        seed: Of the resamples.
        called: What the report calls the judge; by default as its verdicts do.
    """

    asked: Asked = field(default_factory=lambda: Asked(None))
    expected: bool = False
    rounds: int = ROUNDS
    level: float = LEVEL
    seed: int = 0
    called: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFigures:
    """A part of the set, or a group of parts.

    Attributes:
        name: Which.
        group: Whether it is a group.
        judged: Its rows with a verdict.
        published: Those of the published set.
        unchosen: Judged rows without a choice, or that lack a rating.
        figures: Its figures by the rule, in the order of the benchmark's measures.
        chosen: The same of the rows that lack nothing; ``None`` where none does.
    """

    name: str
    group: bool
    judged: int
    published: int
    unchosen: int
    figures: Sequence[Share]
    chosen: Sequence[float | None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The study.

    Attributes:
        name: Of the benchmark.
        file: Of the file.
        versions: Of the set.
        rows: Of the file.
        told: What the file is known by.
        whose: Who says what its labels mean.
        labels: Its labels.
        judge: Who judged; ``None`` without a judge.
        metric: The metric of its ratings; ``None`` where it compares.
        orders: In how many orders it was asked of a row at the most; 0 for one that rates.
        expected: Whether expected scores, or the likelier answer, were taken.
        parts: The parts, then the groups.
        unscored: Reason to how many rows lack a choice or a rating.
        faults: What could not be used.
        level: Of the intervals.
        rounds: Of the bootstrap.
    """

    name: Name
    file: str
    versions: Sequence[str]
    rows: int
    told: str
    whose: str | None
    labels: Sequence[LabelRead]
    judge: str | None
    metric: str | None
    orders: int
    expected: bool
    parts: Sequence[PartFigures]
    unscored: Mapping[str, int]
    faults: Sequence[Fault]
    level: float
    rounds: int


def study(found: BenchmarkSet, verdicts: Mapping[str, Verdict] | None = None, options: Options | None = None) -> Reached:
    """Score a judge's verdicts by the rule of a benchmark.

    Args:
        found: The rows.
        verdicts: By id; without them only the file is described. Rows without one are left out.
        options: How.

    Raises:
        MagistrateError: No verdict is of a row, none has a choice or a rating, or the rule needs ratings.
    """
    options = options or Options()
    check_rounds(options.rounds, options.level)
    check_asked(found.name, options.asked if verdicts is not None else None)
    faults = list(found.faults)
    scored: list[Scored] = []
    if verdicts is not None:
        faults += unmatched([row.id for row in options.asked.rows(found.items)], verdicts)
        scored = _scored(found.items, verdicts, options)
        _check_any(scored)
    reasons = Counter(one.decision.reason for one in scored if one.decision.reason is not None)
    return Reached(
        name=found.name,
        file=found.file,
        versions=found.versions,
        rows=len(found.items),
        told=found.told,
        whose=found.whose,
        labels=found.labels,
        judge=None if verdicts is None else options.called or judge_names(verdicts),
        metric=options.asked.metric,
        orders=0 if options.asked.metric is not None else max((len(one.decision.orders) for one in scored), default=0),
        expected=options.expected,
        parts=part_figures(found, scored, options) if scored else (),
        unscored=dict(reasons.most_common()),
        faults=faults,
        level=options.level,
        rounds=options.rounds,
    )


def check_asked(name: Name, how: Asked | None) -> None:
    """See that the rule of a benchmark can score what a judge is asked for.

    Raises:
        MagistrateError: The rule is about ratings, and the judge compares.
    """
    if name == "rewardbench2" and how is not None and how.metric is None:
        raise MagistrateError(
            "RewardBench 2's rule is about ratings, and this judge compares; take one that rates: "
            "`--judge llm-eval --metric content`"
        )


def _scored(items: Sequence[Item], verdicts: Mapping[str, Verdict], options: Options) -> list[Scored]:
    asked, rated = options.asked, options.asked.metric is not None
    decided: list[tuple[Item, Decision | None]] = [
        (item, asked.decision(item, verdicts, expected=options.expected)) for item in items
    ]
    return [Scored(item, one, rated, options.expected) for item, one in decided if one is not None]


def _check_any(scored: Sequence[Scored]) -> None:
    if all(one.decision.reason is not None for one in scored):
        why = Counter(one.decision.reason for one in scored).most_common(1)
        told = f" ({why[0][1]:,} times: {why[0][0]})" if why else ""
        raise MagistrateError(f"no verdict has a choice or a rating{told}, so the rule has nothing to score")


def part_figures(found: BenchmarkSet, scored: Sequence[Scored], options: Options) -> list[PartFigures]:
    """The figures of each part and group by the benchmark's rule.

    Args:
        found: The set.
        scored: Its rows, and what was decided of them.
        options: Of the bootstrap.
    """
    declared = found.declared
    table = _Table(found, scored)
    lacking = [one for one in scored if one.decision.reason is not None]
    chosen = _Table(found, [one for one in scored if one.decision.reason is None]).whole() if lacking else None
    whole, drawn = table.whole(), table.drawn(options)
    published = declared.expected_rows(list(found.versions))
    members = _members(declared)
    return [
        PartFigures(
            name=name,
            group=name not in published,
            judged=sum(one.item.part in leaves for one in scored),
            published=sum(published[leaf] for leaf in leaves),
            unchosen=sum(one.item.part in leaves for one in lacking),
            figures=[
                _share(whole[name][place], drawn[name][:, place], table.items(leaves), table.alike(leaves), options.level)
                for place in range(len(declared.measures))
            ],
            chosen=None if chosen is None else [_known(one) for one in chosen[name]],
        )
        for name, leaves in members.items()
    ]


def _members(declared: Benchmark) -> dict[str, list[str]]:
    """Part or group to the parts that it is of."""
    found = {part.name: [part.name] for part in declared.part}
    for group in declared.group:
        found[group.name] = [leaf for name in group.of for leaf in found[name]]
    return found


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _share(value: float, drawn: Floats, items: int, alike: bool, level: float) -> Share:
    """A figure with its percentile interval; Jeffreys' where all rows are right or all wrong."""
    if np.isnan(value):
        return Share(None, None, None, 0, "it is undefined" if items else EMPTY)
    low, high, left_out, reason = percentile_ends(drawn, items, level)
    if low is not None and low == high:
        if alike and value in (0.0, 1.0):
            return Share(float(value), *jeffreys(float(value), items, level), left_out)
        return Share(float(value), None, None, left_out, ALIKE)
    return Share(float(value), low, high, left_out, reason)


class _Table:
    """The sums of each part's rows by question, and what becomes of them in resamples of questions."""

    def __init__(self, found: BenchmarkSet, scored: Sequence[Scored]) -> None:
        self._declared = found.declared
        self._scored = scored
        self._numbers = numbered([one.item.item for one in scored])
        self._clusters = int(self._numbers.max(initial=-1)) + 1
        self._sums: dict[str, Sums] = {}
        self._totals: dict[str, Floats] = {}
        for part in self._declared.part:
            places = [place for place, one in enumerate(scored) if one.item.part == part.name]
            if places:
                sums = sums_of(found.name, part.name, [scored[place] for place in places])
                total = np.zeros((self._clusters, sums.rows.shape[1]))
                np.add.at(total, self._numbers[places], sums.rows)
                self._sums[part.name], self._totals[part.name] = sums, total

    def items(self, leaves: Sequence[str]) -> int:
        """Distinct questions of some parts."""
        return len({one.item.item for one in self._scored if one.item.part in leaves})

    def alike(self, leaves: Sequence[str]) -> bool:
        """Whether figures of these parts are shares of rows that are right or wrong."""
        return len(leaves) == 1 and leaves[0] in self._sums and self._sums[leaves[0]].shares

    def whole(self) -> dict[str, Floats]:
        """Part or group to its figures: ``(M,)``."""
        return {name: one[0] for name, one in self._figures(np.ones((1, self._clusters))).items()}

    def drawn(self, options: Options) -> dict[str, Floats]:
        """The same in each resample of questions: ``(R, M)``."""
        blocks = [self._figures(weights) for weights in self._resamples(options)]
        return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}

    def _resamples(self, options: Options) -> Iterator[Floats]:
        chance = np.random.default_rng(options.seed)
        even = np.full(self._clusters, 1 / self._clusters)
        for begin in range(0, options.rounds, BLOCK):
            size = min(BLOCK, options.rounds - begin)
            yield chance.multinomial(self._clusters, even, size).astype(np.float64)

    def _figures(self, weights: Floats) -> dict[str, Floats]:
        """Part or group to its figures where each question counts so often: ``(R, M)`` of ``(R, C)``."""
        missing = np.full((len(weights), len(self._declared.measures)), np.nan)
        sums = {name: weights @ total for name, total in self._totals.items()}
        found = {
            part.name: self._sums[part.name].figures(sums[part.name]) if part.name in sums else missing
            for part in self._declared.part
        }
        weight = {part.name: part.weight for part in self._declared.part}
        members = _members(self._declared)
        for group in self._declared.group:
            there = [name for name in group.of if any(leaf in sums for leaf in members[name])]
            if not there:
                found[group.name] = missing
            elif group.by == "rows":
                figures = self._sums[there[0]].figures
                found[group.name] = figures(np.sum([sums[name] for name in there], axis=0))
            else:
                weights_there = [weight.get(name, 1.0) for name in there]
                found[group.name] = _combined([found[name] for name in there], weights_there, group.by)
        return found


def _combined(parts: Sequence[Floats], weights: Sequence[float], by: Combined) -> Floats:
    sizes = np.array(weights if by == "weight" else [1.0] * len(parts))
    return np.asarray(np.tensordot(sizes / sizes.sum(), np.stack(parts), axes=1), np.float64)
