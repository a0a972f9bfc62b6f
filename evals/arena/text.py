"""The report as text: the guide's ``report.md``, line by line, and then what it lacks.

Source: OpenCompass, "Subjective Evaluation Guidance", "Evaluation Report".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from evals.arena.words import (
    bias_rows,
    called,
    fault_words,
    how_rated,
    judge_of,
    lead,
    pictured,
    rank,
    shares,
    style_words,
    success,
    win_rate_cells,
    win_rate_headings,
)
from evals.reports.markdown import escaped
from evals.reports.wording import NONE, interval, number

Figures = Mapping[str, Any]


def markdown(report: Figures) -> str:
    """The whole text.

    Args:
        report: As ``report.report`` gives it.
    """
    return "\n".join([*_guide(report), *_ratings(report), *_win_rates(report), *_biases(report), *_faults(report)]) + "\n"


def _guide(report: Figures) -> Iterator[str]:
    counts, parts = report["counts"], report["standings"]
    models = [_name(name) for name in report["models"]]
    judged, scored = counts["meaningful"], counts["scored"]
    judge = judge_of(report)
    yield "# Subjective Analysis"
    yield ""
    yield (
        f"A total of {counts['comparisons']} comparisons, of which {judged} comparisons are meaningful "
        "(A / B answers inconsistent)"
    )
    yield (
        f"A total of {judged} answer comparisons, successfully extracted {scored} answers from "
        f"{'the judge' if judge is None else _name(judge)} replies, with an extraction success rate of {success(counts)}"
    )
    yield from (f"- {amount} not scored: {_name(why)}" for why, amount in counts["unscored"].items())
    yield ""
    yield "### Basic statistics (4 stats: win / tie / lose / not bad)"
    yield ""
    titles = [f"{one['kind']}: {_name(one['name'])}" for one in parts]
    rows = [(title, *map(shares, one["models"])) for title, one in zip(titles, parts, strict=True)]
    yield from _table(("Dimension \\ Stat [W / T / L / NB]", *models), rows)
    yield ""
    drawn = pictured(report)
    if "by_capa" in drawn:
        yield "![Capabilities Dimension Classification Result](by_capa.png)"
        yield ""
    if "by_lang" in drawn:
        yield "![Language Classification Result](by_lang.png)"
        yield ""
    yield "### Model scores (base score is 0, win +3, both +1, neither -1, lose -3)"
    yield ""
    rows = [(title, *map(_score, one["models"])) for title, one in zip(titles, parts, strict=True)]
    yield from _table(("Dimension \\ Score", *models), rows)
    yield ""
    elo = report["elo"]
    yield f"### Bootstrap ELO, Median of n={elo['rounds']} times"
    yield ""
    ordered = sorted(range(len(models)), key=lambda model: report["models"][model])
    rows = [
        (f"elo_score [{name.capitalize()}]", *(_general(elo[name][model]) for model in ordered))
        for name in ("median", "mean", "std")
    ]
    yield from _table(("", *(models[model] for model in ordered)), rows)


def _score(cell: Figures | None) -> str:
    return "N/A" if cell is None else str(cell["score"])


def _general(value: float | None) -> str:
    return NONE if value is None else f"{value:g}"


def _ratings(report: Figures) -> Iterator[str]:
    names, rated, style, soft = (
        [_name(name) for name in report["models"]],
        report["ratings"]["models"],
        report["style"],
        report["soft"],
    )
    yield ""
    yield "### Ratings"
    yield ""
    yield escaped(lead(report))
    yield ""
    if "ratings" in pictured(report):
        yield "![Ratings with their intervals](ratings.png)"
        yield ""
    headings = ["Rank", "Model", "Rating", "Bootstrap interval", "Sandwich interval", "Games"]
    with_style = bool(style and not style["reason"])
    headings += ["At equal style"] if with_style else []
    headings += ["By probabilities"] if soft else []
    rows = []
    for model in report["order"]:
        one = rated[model]
        cells = [
            number(rank(report, model), 0),
            names[model],
            number(one["rating"], 1),
            interval(one["low"], one["high"], 1),
            interval(one["sandwich_low"], one["sandwich_high"], 1),
            str(one["games"]),
        ]
        cells += [_with_interval(style["models"][model])] if with_style else []
        cells += [_with_interval(soft["models"][model])] if soft else []
        rows.append(cells)
    yield from _table(headings, rows)
    yield ""
    yield escaped(how_rated(report))
    unrated = [f"- {names[model]} has no rating: {escaped(one['reason'])}" for model, one in enumerate(rated) if one["reason"]]
    yield from ("", *unrated) if unrated else ()
    yield ""
    yield escaped(style_words(report))
    if with_style:
        yield ""
        styles = [
            (one["name"], number(one["coefficient"], 2), interval(one["low"], one["high"], 2)) for one in style["covariates"]
        ]
        yield from _table(("Style", "Log odds", "Interval"), styles)


def _win_rates(report: Figures) -> Iterator[str]:
    found = report["win_rates"]
    if found is None:
        return
    yield ""
    yield f"### Win rates against {_name(found['baseline'])}"
    yield ""
    rows = [(_name(report["models"][one["model"]]), *map(escaped, win_rate_cells(found, one))) for one in found["models"]]
    yield from _table(("Model", *win_rate_headings(found)), rows)
    yield ""
    yield WIN_RATES


WIN_RATES = (
    "Ties count one half. Intervals and tests take questions as what was drawn, however often each was asked; the tests turn "
    "the signs of whole questions, and p is adjusted for the number of models (Holm). “Ahead of the next” compares two models on "
    "the questions that both met the baseline on, in percentage points. A number of questions shows a difference of that size "
    "four times of five."
)


def _biases(report: Figures) -> Iterator[str]:
    yield ""
    yield "### What the judge goes by besides the answers"
    yield ""
    yield from _table(("What", "Share", "How to read it"), [list(map(escaped, row)) for row in bias_rows(report)])


def _faults(report: Figures) -> Iterator[str]:
    if not report["faults"]:
        return
    yield ""
    yield "### What could not be used"
    yield ""
    yield from (f"- {escaped(fault_words(one))}" for one in report["faults"])


def _with_interval(one: Figures) -> str:
    ends = interval(one["low"], one["high"], 1)
    return number(one["rating"], 1) + (f" ({ends})" if ends != NONE else "")


def _name(name: str) -> str:
    """A name of anyone's, so that nothing of it is markup."""
    return escaped(called(name))


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table of cells in which nothing is markup that is not to be."""
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
