"""What a study of a benchmark says, in tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evals.meta.benchmarks.declared import Benchmark, PublishedJudge, benchmark
from evals.meta.benchmarks.shapes import word_of
from evals.meta.benchmarks.study import PartFigures, Reached
from evals.reports.document import Block, Cell, Document, Heading, Notes, Table, to_know
from evals.reports.wording import NONE, absent, count, counted, fault_lines, is_absent, percent, percents
from evals.stats.nominal import Share


def document(found: Reached) -> Document:
    """The study as a document."""
    declared = benchmark(found.name)
    who = declared.title if found.judge is None else f"{found.judge} on {declared.title}"
    return Document(f"{who}: {found.file}", list(_blocks(found, declared)))


def _blocks(found: Reached, declared: Benchmark) -> Iterator[Block]:
    yield (
        f"{counted(found.rows, declared.unit)} of {declared.title} ({declared.paper}). The rule is the authors': "
        f"{declared.code}. Intervals hold the true value {found.level:.4g} of the time; {found.rounds:,} resamples of questions."
    )
    yield from _reading(found, declared)
    if found.parts:
        yield from _judge(found, declared)
    yield from _published(found, declared)
    yield from to_know(_remarks(found, declared))


def _reading(found: Reached, declared: Benchmark) -> Iterator[Block]:
    yield Heading("How the file is read")
    if not found.labels:
        yield f"It is {declared.title}'s by {found.told}. It has no labels: the chosen answers are the better ones."
        return
    total = sum(one.count for one in found.labels)
    yield Table(
        ("label", "means", "labels", "share"),
        [
            (one.label, MEANINGS[word_of(one.choice)], count(one.count), percent(one.count / max(total, 1)))
            for one in found.labels
        ],
        texts=2,
    )
    yield f"It is {declared.title}'s by {found.told}, and labels mean what {found.whose} says."


MEANINGS = {"first": "first better", "second": "second better", "tie": "tie"}


def _judge(found: Reached, declared: Benchmark) -> Iterator[Block]:
    yield Heading("The judge by the rule")
    yield declared.rule
    lacking = any(one.unchosen for one in found.parts)
    more = ("no choice", *(f"{measure}, chosen" for measure in declared.measures)) if lacking else ()
    yield Table(
        ("part", f"{declared.unit}s", "published", *declared.measures, *more),
        [
            (
                one.name,
                count(one.judged),
                count(one.published),
                *(_cell(figure) for figure in one.figures),
                *((count(one.unchosen), *_chosen(one)) if lacking else ()),
            )
            for one in found.parts
        ],
    )
    yield declared.unchosen + (
        ' The columns "chosen" are the same figures of the rows that have a choice, or every rating.' if lacking else ""
    )


def _chosen(one: PartFigures) -> Sequence[str]:
    return [percent(value) for value in one.chosen or ()]


def _cell(one: Share) -> Cell:
    ends = percents(one.low, one.high)
    text = absent("see below") if one.value is None else percent(one.value)
    return Cell(text=text, ends="" if one.value is None or is_absent(ends) else ends)


def _published(found: Reached, declared: Benchmark) -> Iterator[Block]:
    rows = [one for one in declared.published if not one.version or one.version in found.versions]
    if not rows:
        return
    printed = [(one, declared.with_groups(one.figures)) for one in rows]
    columns = _columns(declared, [figures for _, figures in printed])
    yield Heading("Beside published figures")
    yield Table(
        ("judge", *(_title(name, place, declared) for name, place in columns)),
        [
            *([_own(found, columns)] if found.parts else []),
            *((_who(one, found), *(_printed(figures.get(name), place) for name, place in columns)) for one, figures in printed),
        ],
    )
    yield Notes(list(_sources(rows)), kind="plain")


def _who(one: PublishedJudge, found: Reached) -> str:
    """The judge, and the version of the set that it was asked about where the file has several."""
    return f"{one.judge} (on {one.version})" if one.version and len(found.versions) > 1 else one.judge


MOST_COLUMNS = 10
"""Of a table of published figures."""


def _columns(declared: Benchmark, printed: Sequence[Mapping[str, Sequence[float]]]) -> list[tuple[str, int]]:
    """Parts and measures that are shown: those that half of the judges have, and of many parts their groups alone."""
    groups = [group.name for group in declared.group]
    names = [part.name for part in declared.part] + groups
    shown = [name for name in names if 2 * sum(name in figures for figures in printed) >= len(printed)]
    if len(shown) > MOST_COLUMNS:
        shown = [name for name in shown if name in groups]
    measures = range(len(declared.measures))
    columns = [(name, place) for name in shown for place in measures]
    if len(columns) > MOST_COLUMNS:
        columns = [(name, 0) for name in shown] + [(declared.whole, place) for place in measures if place]
    return columns


def _title(name: str, place: int, declared: Benchmark) -> str:
    return name if len(declared.measures) == 1 else f"{name}, {declared.measures[place]}"


def _own(found: Reached, columns: Sequence[tuple[str, int]]) -> tuple[str | Cell, ...]:
    parts = {one.name: one for one in found.parts}
    cells = (parts[name].figures[place].value for name, place in columns)
    return (found.judge or "", *(percent(value) for value in cells))


def _printed(figures: Sequence[float] | None, place: int) -> str:
    return NONE if figures is None or place >= len(figures) else f"{round(figures[place], 2):g}%"


def _sources(rows: Sequence[PublishedJudge]) -> Iterator[str]:
    sources: dict[str, list[str]] = {}
    for one in rows:
        sources.setdefault(one.source, []).append(one.judge)
    yield from (f"{'; '.join(judges)}: {source}" for source, judges in sources.items())


def _remarks(found: Reached, declared: Benchmark) -> Iterator[str]:
    whole = next((one for one in found.parts if one.name == declared.whole), None)
    if whole is not None:
        if whole.judged < whole.published:
            lacking = [one.name for one in found.parts if not one.group and not one.judged]
            without = f"; nothing is of {', '.join(lacking)}" if lacking else ""
            yield (
                f"the rule is applied to {whole.judged:,} of the {whole.published:,} {declared.unit}s of the published set"
                f"{without}, so the figures are not those of the benchmark and must not be set beside published ones"
            )
        elif whole.judged > whole.published:
            yield f"the file has {whole.judged:,} {declared.unit}s, and the published set {whole.published:,}: it is not that set"
        else:
            yield f"the rule is applied to all {whole.published:,} {declared.unit}s of the published set"
    if found.parts:
        yield _how(found)
    yield from (f"{counted(amount, declared.unit)} without a choice: {why}" for why, amount in found.unscored.items())
    causes: dict[str, list[str]] = {}
    for part in found.parts:
        reasons = [figure.reason for figure in part.figures]
        if len(set(reasons)) == 1 and reasons[0] is not None:
            causes.setdefault(reasons[0], []).append(part.name)
            continue
        for measure, why in zip(declared.measures, reasons, strict=True):
            if why is not None:
                causes.setdefault(why, []).append(f"{part.name}, {measure}")
    yield from (f"{'; '.join(names)}: {why}" for why, names in causes.items())
    yield from fault_lines(found.faults)


def _how(found: Reached) -> str:
    if found.metric is not None:
        return (
            f"the judge rates each answer by itself; its {'expected ' if found.expected else ''}`{found.metric}` is what counts"
        )
    if found.expected:
        return "the judge's choice is the answer that is likelier over both orders"
    return "the judge is asked in both orders" if found.orders > 1 else "the judge is asked in one order"
