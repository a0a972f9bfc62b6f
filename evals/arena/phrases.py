"""How a report words an arena's figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evals.arena.biases import MOST_CIRCLES
from evals.arena.standings import OVERALL
from evals.reports.wording import (
    ALIKE,
    NONE,
    absent,
    chance,
    counted,
    interval,
    label,
    line,
    listed,
    number,
    number_or,
    percent,
    percents,
    share_with_interval,
    with_interval,
)

Figures = Mapping[str, Any]

NAMELESS = "(no name)"


def called(name: str) -> str:
    """A name of anyone's on one line, or a word where nothing of it can be seen."""
    return line(name) or NAMELESS


def names_of(report: Figures) -> list[str]:
    """The models' names."""
    return [called(name) for name in report["models"]]


def pictured(report: Figures) -> tuple[str, ...]:
    """Which charts there is something to draw for."""
    found = []
    if any(one["rating"] is not None for one in report["ratings"]["models"]):
        found.append("ratings")
    for kind, name in (("CAPA", "capa"), ("LANG", "lang")):
        parts = [part["name"] for part in report["standings"] if part["kind"] == kind and any(part["models"])]
        if parts:
            found.append(f"by_{name}")
        # Of one language that nobody names there is nothing to compare, though the guide has its picture.
        if parts and parts != [OVERALL]:
            found.append(f"taken_by_{name}")
    return tuple(found)


def rate(part: int, whole: int) -> str:
    """A share in percent, as the guide has it."""
    return f"{part / whole:.2%}" if whole else NONE


def consistency(report: Figures) -> str | None:
    """How many comparisons the guide's tables leave out; ``None`` if they leave out none."""
    orders = report["counts"]["orders"]
    if orders is None or orders["kept"] == orders["compared"]:
        return None
    dropped = orders["compared"] - orders["kept"]
    return f"{dropped:,} of {orders['compared']:,} ({rate(dropped, orders['compared'])}) are left out: their two orders disagree"


def judge_of(report: Figures) -> str | None:
    """Who judged, where it is known."""
    name = report["made"].get("judge_model")
    return None if name is None else line(str(name))


def shares(cell: Figures | None) -> str:
    """Win, tie, lose and not bad in a cell of the guide's table."""
    if cell is None:
        return "N/A"
    return " / ".join(f"{cell[name]:.1%}" for name in ("win", "tie", "lose", "not_bad"))


def lead(report: Figures) -> str:
    """What came out, in a sentence or two. Models whose intervals overlap are not told apart."""
    names, rated = [label(called(name)) for name in report["models"]], report["ratings"]["models"]
    ranked = [model for model in report["order"] if rated[model]["rating"] is not None]
    if not ranked:
        return _unrated(report, names)
    rating = rated[ranked[0]]["rating"]
    best = [model for model in ranked if rated[model]["rating"] == rating]
    if len(best) == len(ranked) > 1:
        why = "All" if report["counts"]["decided"] else "No game has a winner, so all"
        return f"{why} models are rated alike, {number(rating, 0)}." + _more_unrated(len(rated) - len(ranked))
    behind = ranked[len(best) :]
    level = [names[model] for model in behind if model in report["ratings"]["level"]]
    text = f"{_some(names[model] for model in best)} {'come first together' if len(best) > 1 else 'comes first'}"
    low, high = (rated[best[0]][end] if len(best) == 1 else None for end in ("low", "high"))
    text += f", with a rating of {with_interval(rating, low, high, 0)}"
    them = "them" if len(best) > 1 else "it"
    if behind and not level:
        text += f", clearly ahead of {'all others' if len(behind) > 1 else names[behind[0]]}"
    elif len(level) == len(behind) > 1:
        text += f", but these battles tell {them} from none of the others"
    elif behind:
        text += f", but these battles do not tell {them} from {_some(level)}"
    return f"{text}.{_more_unrated(len(rated) - len(ranked))}"


def _some(names: Iterable[str]) -> str:
    found = list(names)
    more = len(found) - 3
    return listed(found) if more <= 1 else f"{', '.join(found[:3])} and {more} more"


def _unrated(report: Figures, names: Sequence[str]) -> str:
    if not report["counts"]["scored"]:
        return "No battle is scored, so there is no rating."
    first = report["order"][0]
    reason = report["ratings"]["models"][first]["reason"]
    return "These battles give no model a finite rating" + (f" ({names[first]}: {reason})." if reason else ".")


def _more_unrated(count: int) -> str:
    return f" {counted(count, 'model')} {'has' if count == 1 else 'have'} no rating." if count else ""


def rank(report: Figures, model: int) -> int | None:
    """A model's rank: one more than there are models whose rating is above its own for sure."""
    found: int | None = report["ratings"]["models"][model]["rank"]
    return found


def rating_ends(report: Figures, model: int, prefix: str = "", decimals: int = 1) -> str:
    """The interval of a model's rating, by resamples or with the prefix ``sandwich_``, or why it has none."""
    one = report["ratings"]["models"][model]
    why = "no rating" if one["rating"] is None else "too few games"
    low, high = one[f"{prefix}low"], one[f"{prefix}high"]
    if low is not None and low == high and report["models"][model] == report["options"]["anchor"]:
        return absent("the anchor")
    if low is not None and low == high and not report["counts"]["decided"]:
        return absent("no game has a winner")
    return interval(low, high, decimals, why)


def how_rated(report: Figures) -> str:
    """What the ratings are."""
    ratings, options = report["ratings"], report["options"]
    ties = {
        "half": "a tie is half a win to each",
        "davidson": f"ties are an outcome of their own (Davidson, ν = {number(ratings['tie'], 2)})",
    }[ratings["ties"]]
    anchor = f"{called(options['anchor'])} is {number(options['anchor_rating'], 0)}" if options["anchor"] else "the mean is 1,000"
    left = ratings["left_out"]
    out = f" {counted(left, 'resample')} in which some model won or lost everything are left out." if left else ""
    if left and all(one["low"] is None for one in ratings["models"]):
        out += " That is too many for an interval by resamples: there are too few games."
    return (
        f"Bradley-Terry by maximum likelihood, in Elo points: {anchor}; {ties}. Intervals at {options['level']:.0%} by "
        f"{options['rounds']:,} resamples of the questions, and by the robust (sandwich) covariance. "
        f"By the latter a rank is one more than there are models that are better for sure.{out}"
    )


def bias_rows(report: Figures) -> list[tuple[str, str, str]]:
    """What the judge goes by besides the answers: what is measured, the figure, and how to read it."""
    found, names = report["biases"], report["models"]
    place = found["position"]
    if place["flips"]["count"]:
        gains = f"{counted(place['first_gains'], 'time')} in favour of the answer shown first"
        gains += f", {place['second_gains']:,} of the one shown second"
        fair = "one half is fair"
    else:
        gains = "no pair is known to have been judged in both orders"
        fair = "one half is fair only where it was drawn who is shown first"
    rows = [
        ("Choices that change with the order", _share(place["flips"], "pair"), gains),
        ("Of choices for one answer, those for the one shown first", _share(place["first"], "choice"), fair),
        (
            "Of games with one winner, those that the longer answer wins",
            _share(found["longer"], "game"),
            _by_length(found["longer"]),
        ),
    ]
    for own in found["own"]:
        others = f"; by other judges {_share(own['others'], 'game')}" if own["others"]["count"] else ""
        note = "compare with other judges" if others else "one judge alone cannot tell preference from merit"
        rows.append((f"What {called(names[own['model']])} takes as its own judge", _share(own["own"], "game") + others, note))
    if not found["own"]:
        rows.append(("Preference for its own answers", NONE, _no_own(report)))
    triples = found["triples"]
    rows.append(
        (
            "Triples of answers to a question whose verdicts go round in a circle",
            f"{percent(triples['on_question'])} of {triples['triples']:,}" if triples["triples"] else NONE,
            "0 is consistent, a quarter is what chance gives"
            if triples["triples"]
            else "no question has clear verdicts on three models",
        )
    )
    circles = [" > ".join(label(called(names[model])) for model in [*circle, circle[0]]) for circle in triples["among_models"]]
    more = " or more" if len(circles) >= MOST_CIRCLES else ""
    rows.append(("Models that beat each other in a circle", f"{len(circles)}{more}", "; ".join(circles) or "none"))
    return rows


def _by_length(longer: Figures) -> str:
    if not longer["count"]:
        return "no such game of which both lengths are known"
    if longer["low"] <= 0.5 <= longer["high"]:
        return "one half lies within the interval, so no leaning to length is shown"
    return "away from one half, length decides, or goes with what does"


def _no_own(report: Figures) -> str:
    judge = judge_of(report)
    if judge is None:
        return "who judged is not known"
    if judge.casefold() in (line(name).casefold() for name in report["models"]):
        return "the judge is a contestant, but its battles do not name it"
    return "the judge is no contestant"


def fault_words(one: Figures) -> str:
    """What could not be used, how often, and where."""
    of = f"{called(one['model'])}: " if one["model"] is not None else ""
    more = ", …" if one["count"] > len(one["ids"]) else ""
    return f"{of}{called(one['what'])}, {counted(one['count'], 'time')}: {', '.join(called(name) for name in one['ids'])}{more}"


def _share(found: Figures, what: str) -> str:
    if not found["count"]:
        return NONE
    return f"{_with_ends(found)} of {counted(found['count'], what)}"


def style_words(report: Figures) -> str:
    """What ratings at equal style are, or why there are none."""
    style = report["style"]
    if style is None:
        return "The answers are not known here, so nothing is said of their style."
    if style["reason"]:
        return f"There are no ratings at equal style: {style['reason']}."
    left = style["left_out"]
    out = f" Left out: {listed(left)}, whose worth cannot be told from the strengths of the models that have it." if left else ""
    return (
        "Ratings as if both answers of a game had the same style: length in characters, and Markdown’s headers, bold parts and "
        f"items of lists, each as the difference over the sum, enter the model beside the strengths.{out}"
    )


def win_rate_headings(found: Figures) -> list[str]:
    """The headings above ``win_rate_cells``."""
    needed = [f"Questions to see {100 * difference:.0f} points" for difference in found["differences"]]
    soft = ["By probabilities"] if _has_soft(found) else []
    return ["Win rate", "Interval", "p, adjusted", "Questions", "Ahead of the next", *needed, *soft]


def win_rate_cells(found: Figures, one: Figures) -> list[str]:
    """A model's win rate against the baseline: the rate, its interval, p, questions, the lead, and questions needed."""
    rate, ahead = one["rate"], one["ahead"]
    gap = absent("none is behind" if ahead is None else "no question in common")
    if ahead is not None and ahead["mean"] is not None:
        given = [ahead[part] for part in ("mean", "low", "high")]
        mean, low, high = (None if part is None else 100 * min(1, max(-1, part)) for part in given)
        gap = with_interval(mean, low, high, 1)
    alike = ALIKE if rate["items"] > 1 else "one question only"
    needed = [number_or(alike, count, 0) for count in one["needed"]]
    soft = [_with_ends(one["soft"])] if _has_soft(found) else []
    return [
        percent(rate["mean"]),
        percents(rate["low"], rate["high"]),
        absent(alike) if one["adjusted"] is None else chance(one["adjusted"], 3),
        f"{rate['items']:,}",
        gap,
        *needed,
        *soft,
    ]


def _has_soft(found: Figures) -> bool:
    return any(one["soft"] is not None for one in found["models"])


def _with_ends(soft: Figures | None) -> str:
    if soft is None:
        return NONE
    return share_with_interval(soft["mean"], soft["low"], soft["high"])
