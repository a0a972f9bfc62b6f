"""The report of an arena as a document: a page, the guide's ``report.md`` with what it lacks, and what the terminal shows.

Source: OpenCompass, "Subjective Evaluation Guidance", "Evaluation Report".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.arena.charts import charts
from evals.arena.page_blocks import battles, elo_scores, games, provenance, readable
from evals.arena.phrases import (
    bias_rows,
    called,
    fault_words,
    how_rated,
    judge_of,
    lead,
    names_of,
    rank,
    rate,
    rating_ends,
    shares,
    style_words,
    win_rate_cells,
    win_rate_headings,
)
from evals.reports import html
from evals.reports.charts.drawing import Drawing
from evals.reports.document import (
    Block,
    Cell,
    Chart,
    Document,
    Heading,
    Name,
    Notes,
    Only,
    Table,
    Text,
    Verbatim,
)
from evals.reports.files import as_json, earlier, write_files
from evals.reports.markdown import markdown
from evals.reports.wording import BELOW, NONE, count, counted, interval, is_absent, label, line, listed, number, number_or
from judges.errors import MagistrateError

TEMPLATES = Path(__file__).parent / "templates"

PICTURES = ("by_capa.png", "by_lang.png", "taken_by_capa.png", "taken_by_lang.png", "ratings.png")

MOST_FAULTS = 5
"""Kinds of what could not be used that the terminal shows."""

WIN_RATES = (
    "Ties count one half. Intervals and tests take questions as what was drawn, however often each was asked; the tests turn "
    "the signs of whole questions, and p is adjusted for the number of models (Holm). “Ahead of the next” compares two models on "
    "the questions that both met the baseline on, in percentage points. A number of questions shows a difference of that size "
    "four times of five."
)

Figures = Mapping[str, Any]


def document(report: Figures, examples: Figures | None = None) -> Document:
    """The report as a document.

    Args:
        report: As ``study.report`` gives it.
        examples: Questions, answers and verdicts to read, as ``keeping.examples`` gives them.
    """
    drawn = charts(report)
    read = [*_ratings(report, drawn), *games(report, drawn), *_win_rates(report), *_biases(report)]
    blocks = [
        Only("html", list(_head(report))),
        Only("markdown", list(_guide(report, drawn))),
        Only(("html", "markdown"), read),
        Only("html", [*(() if examples is None else battles(report, examples)), *elo_scores(report)]),
        Only(("html", "markdown"), list(_faults(report))),
        Only("html", list(provenance(report))),
        Only("terminal", list(_short(report))),
    ]
    return Document(
        _title(report),
        blocks,
        kicker="arena",
        foot="Made by Magistrate after OpenCompass’s subjective evaluation. All figures are in report.json.",
        text_title="Subjective Analysis",
    )


def page(report: Figures, examples: Figures | None = None) -> str:
    """The report as a page."""
    scripts = [(TEMPLATES / "arena.js").read_text(encoding="utf-8")]
    return html.page(document(report, examples), scripts, None if examples is None else readable(examples))


def check_folder(report: Figures, folder: Path) -> None:
    """See that a folder has no report on something else.

    Raises:
        MagistrateError: It has one: on verdicts of other files, or on none of these models.
    """
    there = earlier(folder)
    if there is None:
        return
    made, models = there.get("made"), there.get("models")
    source = made.get("source") if isinstance(made, dict) else None
    known = {model for model in models if isinstance(model, str)} if isinstance(models, list) else set()
    if source not in (None, report["made"].get("source")) or known.isdisjoint(report["models"]):
        of = f"on {source}" if source else "on something else"
        raise MagistrateError(f"{folder} holds a report {of}; give `-o` another folder, or `--overwrite`")


def write(report: Figures, folder: Path, examples: Figures | None = None) -> list[Path]:
    """Write ``index.html``, ``report.md``, ``report.json`` and the pictures, each whole or not at all, and return the files.

    Args:
        report: As ``study.report`` gives it.
        folder: Where to; it is made if need be. Pictures that an earlier report left there, and this one has not, are removed.
        examples: Battles to read on the page.

    Raises:
        MagistrateError: The folder cannot be written to.
    """
    said = document(report, examples)
    texts = {"index.html": page(report, examples), "report.md": markdown(said), "report.json": as_json(report)}
    return write_files(folder, {**texts, **said.pictures()}, PICTURES)


def _title(report: Figures) -> str:
    names = [label(called(name)) for name in report["models"]]
    return f"{listed(names)} compared" if len(names) <= 3 else f"{len(names)} models compared"


def _unscored(report: Figures) -> Iterator[Block]:
    if unscored := report["counts"]["unscored"]:
        yield Notes([f"{amount:,} not scored: {line(why)}" for why, amount in unscored.items()])


def _head(report: Figures) -> Iterator[Block]:
    counts, judge = report["counts"], judge_of(report)
    meaningful, scored = counts["meaningful"], counts["scored"]
    share = f" ({rate(scored, meaningful)})" if meaningful else ""
    yield Text(lead(report), "lead")
    yield Text(
        (
            f"{counted(counts['comparisons'], 'comparison')} on {counted(counts['questions'], 'question')}. "
            f"{counted(meaningful, 'comparison')} {_is(meaningful)} meaningful: the answers differ. "
            f"{scored:,} of these {_is(scored)} scored{share}",
            *(() if judge is None else (", judged by ", Name(judge))),
            ".",
        ),
        "aside",
    )
    yield from _unscored(report)


def _is(amount: int) -> str:
    return "is" if amount == 1 else "are"


def _guide(report: Figures, drawn: Mapping[str, Drawing]) -> Iterator[Block]:
    counts, names, parts = report["counts"], names_of(report), report["standings"]
    orders = counts["orders"] or {**counts, "compared": counts["scored"], "kept": counts["scored"]}
    judged, compared, kept = orders["meaningful"], orders["compared"], orders["kept"]
    judge = judge_of(report)
    notes = [
        f"A total of {orders['comparisons']} comparisons, of which {judged} comparisons are meaningful "
        "(A / B answers inconsistent)",
        f"A total of {judged} answer comparisons, successfully extracted {compared} answers from "
        f"{'the judge' if judge is None else called(judge)} replies, with an extraction success rate of {rate(compared, judged)}",
    ]
    if kept != compared:
        notes.append(
            f"A total of {compared} answer comparisons, {kept} pairs (A vs. B <-> B vs. A) are consistent, "
            f"consistent rate is {rate(kept, compared)}"
        )
    yield Notes(notes, "plain")
    yield from _unscored(report)
    yield Heading("Basic statistics (4 stats: win / tie / lose / not bad)", 3)
    yield _guide_table("Dimension \\ Stat [W / T / L / NB]", names, parts, shares)
    for name, words in (("by_capa", "Capabilities Dimension"), ("by_lang", "Language")):
        if name in drawn:
            yield Chart(name, f"{words} Classification Result", drawn[name])
    yield Heading("Model scores (base score is 0, win +3, both +1, neither -1, lose -3)", 3)
    yield _guide_table("Dimension \\ Score", names, parts, lambda cell: "N/A" if cell is None else str(cell["score"]))
    elo = report["elo"]
    yield Heading(f"Bootstrap ELO, Median of n={elo['rounds']} times", 3)
    yield Text(f"Mean and standard deviation of {elo['times']} such medians; a game moves at most {elo['k']:g} points.", "aside")
    ordered = sorted(range(len(names)), key=lambda model: str(report["models"][model]))
    yield Table(
        ("", *(names[model] for model in ordered)),
        [
            (Verbatim(f"elo_score [{name.capitalize()}]"), *(_general(elo[name][model]) for model in ordered))
            for name in ("mean", "std")
        ],
    )


def _guide_table(title: str, names: Sequence[str], parts: Sequence[Figures], shown: Callable[[Figures | None], str]) -> Table:
    return Table(
        (Verbatim(title), *names), [(f"{one['kind']}: {called(one['name'])}", *map(shown, one["models"])) for one in parts]
    )


def _general(value: float | None) -> str:
    return NONE if value is None else f"{value:g}"


def _ratings(report: Figures, drawn: Mapping[str, Drawing]) -> Iterator[Block]:
    names, rated, style = names_of(report), report["ratings"]["models"], report["style"]
    yield Heading("Ratings")
    yield Only("markdown", [lead(report)])
    if "ratings" in drawn:
        words = "Ratings with their intervals"
        yield Chart("ratings", words, drawn["ratings"], f"{words}; the table below has the figures.")
    yield Only("html", [_ratings_table(report, _taken(report))])
    yield Only("markdown", [_ratings_table(report)])
    yield Text(how_rated(report), "aside")
    if unrated := [model for model in report["order"] if rated[model]["reason"]]:
        yield Notes([(Name(names[model]), f" has no rating: {line(rated[model]['reason'])}.") for model in unrated])
    yield Text(style_words(report), "aside")
    if style and not style["reason"]:
        rows = [(one["name"], number(one["coefficient"], 2), interval(one["low"], one["high"], 2)) for one in style["covariates"]]
        yield Table(("Style", "Log odds", "Interval"), rows, label="What style adds")


def _ratings_table(report: Figures, taken: Sequence[str] | None = None) -> Table:
    """The table of ratings, on a page with what each model takes of its games."""
    names, style, soft = names_of(report), report["style"], report["soft"]
    beside = {"At equal style": style if style and not style["reason"] else None, "By probabilities": soft}
    known = {heading: one["models"] for heading, one in beside.items() if one}
    rows = []
    for model in report["order"]:
        one = report["ratings"]["models"][model]
        rows.append(
            (
                number(rank(report, model), 0),
                names[model],
                number_or(BELOW, one["rating"], 1),
                rating_ends(report, model),
                rating_ends(report, model, "sandwich_"),
                *([] if taken is None else [taken[model]]),
                count(one["games"]),
                *(_rated(models[model]) for models in known.values()),
            )
        )
    games = [] if taken is None else ["Takes of its games"]
    headings = ("Rank", "Model", "Rating", "Bootstrap interval", "Sandwich interval", *games, "Games", *known)
    sorts = ("rank", "text", "number", "", "", *("number" for _ in headings[5:]))
    return Table(headings, rows, [1], "Table of ratings", names=1, kind="models", sorts=sorts)


def _rated(one: Figures) -> Cell:
    ends = interval(one["low"], one["high"], 1)
    value = "" if one["rating"] is None else str(one["rating"])
    return Cell(text=number(one["rating"], 1), ends="" if is_absent(ends) else ends, value=value)


def _taken(report: Figures) -> list[str]:
    found = []
    for row in report["meetings"]:
        games = sum(met[1] for met in row)
        found.append(f"{sum(met[0] for met in row) / games:.1%}" if games else NONE)
    return found


def _win_rates(report: Figures) -> Iterator[Block]:
    found = report["win_rates"]
    if found is None:
        return
    yield Heading(("Win rates against ", Name(called(found["baseline"]))), key="baseline")
    rows = [(called(report["models"][one["model"]]), *win_rate_cells(found, one)) for one in found["models"]]
    yield Table(("Model", *win_rate_headings(found)), rows, label="Table of win rates", kind="models")
    yield Text(WIN_RATES, "aside")


def _biases(report: Figures) -> Iterator[Block]:
    yield Heading("What the judge goes by besides the answers", key="biases")
    yield Table(("What", "Share", "How to read it"), bias_rows(report), 3, "Biases of the judge")


def _faults(report: Figures) -> Iterator[Block]:
    if report["faults"]:
        yield Heading("What could not be used", key="faults")
        yield Notes([fault_words(one) for one in report["faults"]])


def _short(report: Figures) -> Iterator[Block]:
    """What the terminal shows."""
    names, overall, counts = names_of(report), report["standings"][0]["models"], report["counts"]
    rows = []
    for model in report["order"]:
        one, cell = report["ratings"]["models"][model], overall[model]
        outcomes = "– (no game is scored)" if cell is None else " / ".join(f"{cell[part]:.0%}" for part in ("win", "tie", "lose"))
        rated = (number(one["rating"], 0), rating_ends(report, model, decimals=0))
        rows.append((number(rank(report, model), 0), names[model], *rated, outcomes, count(one["games"])))
    yield Table(("rank", "model", "rating", "95% interval", "win / tie / lose", "games"), rows, [1])
    unscored, identical = counts["meaningful"] - counts["scored"], counts["comparisons"] - counts["meaningful"]
    yield f"{counts['scored']:,} scored, {unscored:,} unscored, {identical:,} identical"
    notes = [f"{amount:,} unscored: {why}" for why, amount in counts["unscored"].items()]
    notes += [f"not used: {fault_words(fault)}" for fault in report["faults"][:MOST_FAULTS]]
    if len(report["faults"]) > MOST_FAULTS:
        notes.append(f"and {len(report['faults']) - MOST_FAULTS} kinds more, at the end of report.md")
    yield Notes(notes)
    yield lead(report)
