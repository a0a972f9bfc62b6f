"""What an arena's page alone has: wins, ties and losses by part, who met whom, battles to read, Elo, and how it was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from markupsafe import Markup

from evals.arena.charts import PARTS, STRONGEST
from evals.arena.phrases import called, consistency, names_of, shares
from evals.arena.standings import OVERALL
from evals.reports import html
from evals.reports.charts.drawing import Drawing
from evals.reports.document import Block, Cell, Chart, Choice, Examples, Facts, Heading, Legend, Name, Only, Table, Text
from evals.reports.wording import NONE, absent, count, counted, interval, line, number

MOST = 30
"""Models that the table of meetings shows."""

KINDS = {"LANG": "Language", "CAPA": "Capability"}

OUTCOMES = {"win": "win", "both": "both good", "even": "neither good, or the order decides", "lose": "lose"}
"""What the parts of a bar are."""

Figures = Mapping[str, Any]


def games(report: Figures, drawn: Mapping[str, Drawing]) -> Iterator[Block]:
    """Wins, ties and losses by part, and who met whom. A text has their charts alone."""
    yield Only("html", list(_parts(report)))
    yield from _part_charts(report, drawn)
    yield Only("html", list(_meetings(report)))
    yield Only("html", list(_win_charts(report, drawn)))


def battles(report: Figures, examples: Figures) -> Iterator[Block]:
    """Battles to read."""
    models = [(model, name) for model, name in enumerate(names_of(report))]
    template = html.environment("evals.arena").get_template("battles.html")
    yield Heading("Read the battles", key="battles")
    yield Examples(Markup(template.render(models=[models[model] for model in report["order"]], examples=examples)))


def readable(examples: Figures) -> Figures:
    """The examples with names that stand on one line and turn nothing round. The texts stay as they are."""
    questions = [
        {
            **question,
            "index": called(question["index"]),
            "capability": line(question["capability"] or ""),
            "language": line(question["language"] or ""),
        }
        for question in examples["questions"]
    ]
    return {**examples, "models": [called(name) for name in examples["models"]], "questions": questions}


def elo_scores(report: Figures) -> Iterator[Block]:
    """The Elo scores of the guide."""
    elo, names = report["elo"], names_of(report)
    yield Heading("Bootstrap Elo", key="elo")
    yield (
        f"Medians over {elo['rounds']:,} random orders of the games, from 1,000 points each; a game moves at most {elo['k']:g}. "
        f"Mean and standard deviation are of {elo['times']} medians, the interval of single orders. They depend on the number of "
        "games; ratings do not."
    )
    rows = [
        (
            names[model],
            *(number(elo[name][model], 2) for name in ("mean", "std")),
            interval(elo["low"][model], elo["high"][model], 2),
        )
        for model in report["order"]
    ]
    headings = ("Model", "Mean", "Standard deviation", "Interval")
    sorts = ("text", "number", "number", "")
    yield Table(headings, rows, label="Table of Elo ratings", kind="models", sorts=sorts)


def provenance(report: Figures) -> Iterator[Block]:
    """How the verdicts came about."""
    titles = {
        "judge": "Judge",
        "judge_model": "Model",
        "engine": "Engine",
        "fingerprint": "Fingerprint",
        "pairs": "Pairs",
        "rounds": "Swiss rounds",
        "judge_options": "Options of the judge",
        "source": "Verdicts",
        "date": "Date",
    }
    made = report["made"]
    facts = [(title, _told(made[name])) for name, title in titles.items() if made.get(name) is not None]
    yield Heading("How this was made", key="making")
    yield Facts([*facts, ("Seed", str(report["options"]["seed"]))])


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{line(name)} {_told(one)}" for name, one in value.items())
    return line(str(value))


def _parts(report: Figures) -> Iterator[Block]:
    yield Heading("Win, tie, lose, not bad", key="statistics")
    by_order = report["counts"]["orders"] is not None
    ties = "both good or neither good" if by_order else "both good, neither good, or a choice that depends on the order"
    counted_by = " Each order of a pair counts." if by_order else ""
    dropped = f" {dropped[0].upper()}{dropped[1:]}." if (dropped := consistency(report)) else ""
    yield f"A tie is {ties}. Not bad is a win or both good. Score: win +3, both +1, neither −1, lose −3.{counted_by}{dropped}"
    parts = [one for one in report["standings"] if any(one["models"])]
    if not parts:
        yield Text("No battle is scored.", "notice")
        return
    yield Legend(list(OUTCOMES.items()))
    yield Choice([(title := _part_title(one), [_part_table(report, one, title)]) for one in parts])


def _part_title(one: Figures) -> str:
    whole = (one["kind"], one["name"]) == ("LANG", OVERALL)
    return "Everything" if whole else f"{KINDS[one['kind']]} {called(one['name'])}"


def _part_table(report: Figures, one: Figures, title: str) -> Table:
    names = names_of(report)
    rows = [(names[model], *_stacked(one["models"][model])) for model in report["order"]]
    headings = ("Model", "Of its games", "Win", "Tie", "Lose", "Not bad", "Score", "Games")
    sorts = ("text", "", *("number" for _ in headings[2:]))
    return Table(headings, rows, 2, f"Wins, ties and losses: {title}", kind="models", sorts=sorts)


def _stacked(cell: Figures | None) -> list[str | Cell]:
    """A bar as long as the shares of its parts, and the figures."""
    if cell is None:
        return [Cell(bars=[]), absent("no game"), *[NONE] * 4, "0"]
    both = cell["not_bad"] - cell["win"]
    bars = [("win", cell["win"]), ("both", both), ("even", cell["tie"] - both), ("lose", cell["lose"])]
    widths = [(name, f"{100 * share:.2f}") for name, share in bars if share > 0]
    return [Cell(bars=widths), *shares(cell).split(" / "), number(cell["score"], 0), count(cell["games"])]


def _part_charts(report: Figures, drawn: Mapping[str, Drawing]) -> Iterator[Block]:
    shown = {name: word for end, (_, word) in PARTS.items() if (name := f"taken_by_{end}") in drawn}
    if not shown:
        return
    yield Heading(f"By {' and by '.join(shown.values())}", key="parts")
    yield (
        "What each model takes of its games, a tie being one half. The stronger a cell’s colour, the further it is from one half."
    )
    for name, word in shown.items():
        if len(shown) > 1:
            yield Heading(f"By {word}", 3)
        words = f"By {word}: what each model takes of its games."
        yield Chart(name, words, drawn[name], f"{words} The section above has the figures.")


def _win_charts(report: Figures, drawn: Mapping[str, Drawing]) -> Iterator[Block]:
    for end, (_, word) in PARTS.items():
        if f"taken_by_{end}" in drawn:
            yield Heading(f"Wins head to head, by {word}", 3)
            words = f"By {word}: games that the row’s model wins against the column’s."
            yield Chart(f"by_{end}", words, drawn[f"by_{end}"], f"{words} The figures are in report.json.")


def _meetings(report: Figures) -> Iterator[Block]:
    names, order = names_of(report), report["order"]
    shown = order[:MOST]
    cut = f" The first {MOST} models; report.json has all." if len(order) > MOST else ""
    yield Heading("Head to head", key="meetings")
    yield (
        "What the model of the row takes of its games with the model of the column, a tie being one half, and of how many; a "
        "dash where they did not meet." + cut
    )
    rows = [(names[one], *(_meeting(report, one, other) for other in shown)) for one in shown]
    yield Table(("Model", *(Name(names[one]) for one in shown)), rows, label="Table of meetings", kind="meetings")


def _meeting(report: Figures, one: int, other: int) -> Cell:
    taken, games = report["meetings"][one][other]
    if one == other or not games:
        return Cell(text=NONE if one != other else "", side="self")
    share = taken / games
    names = [called(report["models"][model]) for model in (one, other)]
    return Cell(
        text=f"{share:.0%}",
        ends=f"of {int(games):,}",
        side="above" if share >= 0.5 else "below",
        strength=round(200 * STRONGEST * abs(share - 0.5)),
        title=f"{names[0]} takes {taken:g} of {counted(int(games), 'game')} with {names[1]}",
    )
