"""The report: everything that battles say, as figures that JSON can hold. The page and the text are made of it alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from evals.arena.battles import A, B, Battles
from evals.arena.biases import biases
from evals.arena.orders import Orders, in_orders
from evals.arena.rating import Options, Rating
from evals.arena.standings import Standing, counted_meetings, standings
from evals.arena.win_rates import DIFFERENCES, win_rates
from evals.data.tasks import Fault
from judges.errors import MagistrateError

Figures = dict[str, Any]

MOST_MET = 20
"""Models, the best first, whose wins over each other every part of the standings has."""

PLACES = 4
"""Decimals that figures are kept with."""


def report(
    battles: Battles, options: Options | None = None, *, faults: Sequence[Fault] = (), made: Mapping[str, Any] | None = None
) -> Figures:
    """Work out all figures.

    Args:
        battles: All comparisons, those that are not judged or not scored among them.
        options: How.
        faults: What could not be used of the questions and answers.
        made: How the verdicts came about.

    Returns:
        ``report.json``; ``docs/arena.md`` describes it.

    Raises:
        MagistrateError: There are fewer than two models, or a model that an option names is not among them.
    """
    options = options or Options()
    names = battles.models
    if len(names) < 2:
        raise MagistrateError(f"an arena compares two models or more, and these battles are of {len(names)}")
    options.check(names)
    games = Rating(battles, options)
    orders = in_orders(battles)
    guide = orders.battles if options.count == "orders" else battles
    try:
        rated = games.rated(battles.share)
    except MagistrateError as error:
        raise MagistrateError(
            str(error).replace(f"model {games.anchor and games.anchor.model},", f"`{options.anchor}`,")
        ) from None
    order = _order(rated, battles)
    found: Figures = {
        "models": list(names),
        "counts": _counts(battles) | {"orders": _orders(orders) if options.count == "orders" else None},
        "standings": [_standing(one, order[:MOST_MET]) for one in standings(guide)],
        "elo": Rating(guide, options).elo(),
        "ratings": rated,
        "order": order,
        "soft": games.soft(),
        "style": games.style(),
        "meetings": counted_meetings(battles).tolist(),
        "win_rates": _win_rates(battles, options),
        "biases": asdict(biases(battles, options.seed)),
        "faults": [asdict(one) for one in faults],
        "options": asdict(options),
        "made": dict(made or {}),
    }
    cleaned: Figures = _plain(found)
    return cleaned


def _counts(battles: Battles) -> Figures:
    identical = int(battles.identical.sum())
    return {
        "comparisons": len(battles),
        "meaningful": len(battles) - identical,
        "scored": int(battles.scored.sum()),
        "decided": int(np.isin(battles.preference, (A, B)).sum()),
        "questions": len(battles.question.names),
        "unscored": dict(battles.reasons.most_common()),
    }


def _orders(orders: Orders) -> Figures:
    return {name: getattr(orders, name) for name in ("comparisons", "meaningful", "compared", "kept")}


def _standing(one: Standing, shown: Sequence[int]) -> Figures:
    rows = zip(one.games.tolist(), one.shares.tolist(), one.scores.tolist(), strict=True)
    names = ("win", "tie", "lose", "not_bad")
    return {
        "kind": one.kind,
        "name": one.name,
        "models": [
            {"games": games, **dict(zip(names, shares, strict=True)), "score": score} if games else None
            for games, shares, score in rows
        ],
        "won": one.won(shown),
    }


def _order(rated: Figures, battles: Battles) -> list[int]:
    """The models by rating, the best first; those without one behind, by what they took of their games."""
    taken, games = np.moveaxis(counted_meetings(battles).sum(axis=1), -1, 0)
    rates = np.divide(taken, games, out=np.full(len(games), -1.0), where=games > 0)
    ratings = [one["rating"] for one in rated["models"]]
    return sorted(
        range(len(ratings)), key=lambda model: (np.isnan(ratings[model]), -np.nan_to_num(ratings[model]), -rates[model])
    )


def _win_rates(battles: Battles, options: Options) -> Figures | None:
    if options.baseline is None:
        return None
    rows = [asdict(one) for one in win_rates(battles, options.baseline, options.seed)]
    return {"baseline": options.baseline, "differences": list(DIFFERENCES), "models": rows}


def _plain(value: Any) -> Any:
    """A value as JSON has it: what is not a number is null, and figures have so many decimals as mean something."""
    simple: Mapping[type, Callable[[Any], Any]] = {
        dict: lambda found: {name: _plain(one) for name, one in found.items()},
        list: lambda found: [_plain(one) for one in found],
        tuple: lambda found: [_plain(one) for one in found],
        np.ndarray: lambda found: _plain(found.tolist()),
        np.float64: lambda found: _plain(float(found)),
        float: lambda found: round(found, PLACES) + 0.0 if np.isfinite(found) else None,
    }
    made = simple.get(type(value))
    return value if made is None else made(value)
