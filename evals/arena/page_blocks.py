"""What an arena's page alone has: wins, ties and losses by part, who met whom, battles to read, Elo, and how it was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from markupsafe import Markup

from evals.arena.charts import STRONGEST
from evals.arena.counting import OVERALL
from evals.arena.phrases import called, names_of, shares
from evals.reports import html
from evals.reports.charts.drawing import Drawing
from evals.reports.document import Block, Cell, Chart, Choice, Examples, Facts, Heading, Legend, Name, Table, Text
from evals.reports.wording import NONE, count, counted, interval, line, number

MOST = 30
"""Models that the table of meetings shows."""

KINDS = {"LANG": "Language", "CAPA": "Capability"}

OUTCOMES = {"win": "win", "both": "both good", "even": "neither good, or the order decides", "lose": "lose"}
"""What the parts of a bar are."""

Figures = Mapping[str, Any]


def games(report: Figures, drawn: Mapping[str, Drawing]) -> Iterator[Block]:
    """Wins, ties and losses by part, and who met whom."""
    yield from _parts(report)
    yield from _part_charts(report, drawn)
    yield from _meetings(report)


def battles(report: Figures, examples: Figures) -> Iterator[Block]:
    """Battles to read."""
    data = {**examples, "models": [called(name) for name in examples["models"]], "questions": _readable(examples)}
    models = [(model, name) for model, name in enumerate(names_of(report))]
    template = html.environment("evals.arena").get_template("battles.html")
    yield Heading("Read the battles", key="battles")
    yield Examples(Markup(template.render(models=[models[model] for model in report["order"]], examples=data)), data)


def _readable(examples: Figures) -> list[Figures]:
    """Questions with names that stand on one line and turn nothing round. The texts stay as they are."""
    return [
        {
            **one,
            "index": called(one["index"]),
            "capability": line(one["capability"] or ""),
            "language": line(one["language"] or ""),
        }
        for one in examples["questions"]
    ]


def elo_scores(report: Figures) -> Iterator[Block]:
    """The Elo scores of the guide."""
    elo, names = report["elo"], names_of(report)
    yield Heading("Bootstrap Elo", key="elo")
    yield (
        f"The games in {elo['rounds']:,} random orders, from 1,000 each, with steps of 4. It depends on how many games there "
        "are; ratings do not."
    )
    rows = [
        (
            names[model],
            *(number(elo[name][model], 2) for name in ("median", "mean", "std")),
            interval(elo["low"][model], elo["high"][model], 2),
        )
        for model in report["order"]
    ]
    headings = ("Model", "Median", "Mean", "Standard deviation", "Interval")
    sorts = ("text", "number", "number", "number", "")
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
    if isinstance(value, Mapping):
        return ", ".join(f"{line(name)} {_told(one)}" for name, one in value.items())
    return line(str(value))


def _parts(report: Figures) -> Iterator[Block]:
    yield Heading("Win, tie, lose, not bad", key="statistics")
    yield (
        "A tie is both good, neither good, or a judge whose choice depends on the order. Not bad is a win or both good. Score: "
        "win +3, both +1, neither −1, lose −3."
    )
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
        return [Cell(bars=[]), *[NONE] * 5, "0"]
    both = cell["not_bad"] - cell["win"]
    bars = [("win", cell["win"]), ("both", both), ("even", cell["tie"] - both), ("lose", cell["lose"])]
    widths = [(name, f"{100 * share:.2f}") for name, share in bars if share > 0]
    return [Cell(bars=widths), *shares(cell).split(" / "), number(cell["score"], 0), count(cell["games"])]


def _part_charts(report: Figures, drawn: Mapping[str, Drawing]) -> Iterator[Block]:
    # Of one language that nobody names there is nothing to compare, though the guide has its picture.
    languages = [one for one in report["standings"] if one["kind"] == "LANG" and one["name"] != OVERALL and any(one["models"])]
    titles = {"by_capa": "capability", "by_lang": "language"}
    shown = {name: title for name, title in titles.items() if name in drawn and (name != "by_lang" or languages)}
    if not shown:
        return
    yield Heading(f"By {' and by '.join(shown.values())}", key="parts")
    yield (
        "What each model takes of its games, a tie being one half. The stronger a cell’s colour, the further it is from one half."
    )
    for name, title in shown.items():
        if len(shown) > 1:
            yield Heading(f"By {title}", 3)
        words = f"By {title}: what each model takes of its games."
        yield Chart(name, words, drawn[name], f"{words} The section above has the figures.")


def _meetings(report: Figures) -> Iterator[Block]:
    names, order = names_of(report), report["order"]
    shown = order[:MOST]
    cut = f" The first {MOST} models; report.json has all." if len(order) > MOST else ""
    yield Heading("Head to head", key="meetings")
    yield (
        "What the model of the row takes of its games with the model of the column, a tie being one half, and of how many." + cut
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
