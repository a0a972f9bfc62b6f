"""Battles as ratings: the guide's bootstrap Elo, Bradley-Terry, by probabilities, and at equal style."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evals.arena.battles import Battles
from evals.arena.pairing import check_contestant
from evals.data.comparisons import STYLE
from evals.stats.ratings.bradley_terry import Anchor, Ratings, bradley_terry
from evals.stats.ratings.elo import bootstrap_elo
from evals.stats.ratings.games import Games, checked_games
from evals.stats.ratings.style import StyleRatings, style_controlled, style_difference
from judges.errors import MagistrateError

Ties = Literal["half", "davidson"]
Unit = Literal["orders", "pairs"]
Figures = dict[str, Any]

GUIDE_K = 32.0
"""OpenCompass's step."""

TIMES = 10
"""How often the guide takes the median over orders; its mean and standard deviation are of these medians."""

TINY = 1e-6
"""Points below which ratings differ by rounding alone."""

MOST_LEFT_OUT = 0.05
"""Rounds, of one, that may be left out: where some model wins or loses all in more of them, the others say too little of it."""

HIGHEST_K = 10_000
"""Points of a game beyond which ratings lose all digits of a difference of one win."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How battles are reported on.

    Attributes:
        baseline: The contestant that win rates are against; none by default.
        anchor: The contestant whose rating is given; by default the mean of all is 1000.
        anchor_rating: Its rating.
        k: The most points that a game moves in bootstrap Elo: 32 in the guide, 4 on Chatbot Arena's first leaderboard.
        count: What the guide's tables count: each order of a pair, without pairs whose orders disagree, as the guide does; or
            each pair once, with those as ties.
        ties: What a tie is in ratings: half a win to each, or an outcome of its own (Davidson, 1970).
        rounds: Of the bootstraps.
        level: Of intervals.
        seed: Of every draw.

    Raises:
        MagistrateError: A number is out of range.
    """

    baseline: str | None = None
    anchor: str | None = None
    anchor_rating: float = 1000.0
    k: float = GUIDE_K
    count: Unit = "orders"
    ties: Ties = "half"
    rounds: int = 1000
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rounds < 2:
            raise MagistrateError(f"a bootstrap of {self.rounds} rounds says nothing: give 2 or more")
        if not 0 < self.level < 1:
            raise MagistrateError(f"intervals have a level between 0 and 1, not {self.level:g}")
        if not 0 < self.k <= HIGHEST_K:
            raise MagistrateError(f"Elo moves ratings by a number of points above 0 and up to {HIGHEST_K:,}, not {self.k:g}")
        if self.count not in get_args(Unit):
            raise MagistrateError(f"comparisons are counted by `orders` or by `pairs`, not `{self.count}`")
        if self.ties not in ("half", "davidson"):
            raise MagistrateError(f"ties are counted as `half` or by `davidson`, not `{self.ties}`")

    def check(self, models: Sequence[str]) -> None:
        """Refuse models that are no contestants.

        Raises:
            MagistrateError: The baseline or the anchor is not among them.
        """
        check_contestant("baseline", self.baseline, models)
        check_contestant("anchor", self.anchor, models)


class Rating:
    """The scored battles, as ratings take them."""

    def __init__(self, battles: Battles, options: Options) -> None:
        self.battles = battles
        self.options = options
        self.anchor = None if options.anchor is None else Anchor(battles.models.index(options.anchor), options.anchor_rating)

    def elo(self) -> Figures:
        """The guide's bootstrap Elo: the mean and standard deviation of ten medians, each over random orders of the games."""
        games, how = self._games(self.battles.scored, self.battles.share), self.options
        seeds = np.random.SeedSequence(how.seed).generate_state(TIMES, np.uint64).tolist()
        spreads = [bootstrap_elo(games, rounds=how.rounds, seed=seed, k=how.k, level=how.level) for seed in seeds]
        medians = np.array([spread.median for spread in spreads])
        over_orders = {name: np.mean([getattr(spread, name) for spread in spreads], axis=0) for name in ("low", "high")}
        return {
            "k": how.k,
            "rounds": how.rounds,
            "times": TIMES,
            "mean": medians.mean(axis=0),
            "std": medians.std(axis=0),
            "std_over_orders": np.mean([spread.std for spread in spreads], axis=0),
            **over_orders,
        }

    def rated(self, share: NDArray[np.float64], ties: Ties | None = None) -> Figures:
        """Bradley-Terry ratings of the battles that have a share."""
        ties = ties or self.options.ties
        mask = ~np.isnan(share)
        found = bradley_terry(
            self._games(mask, share),
            ties=ties,
            clusters=self._clusters(mask),
            anchor=self.anchor,
            rounds=self.options.rounds,
            seed=self.options.seed,
            level=self.options.level,
        )
        models = _rated_models(found, shown=found.left_out <= MOST_LEFT_OUT * self.options.rounds)
        return {"ties": ties, "tie": found.tie, "left_out": found.left_out, "models": models, "level": _level(found)}

    def soft(self) -> Figures | None:
        """Ratings by the judge's probabilities in place of its choices, where it gave any."""
        mask = self.battles.scored & ~np.isnan(self.battles.probability)
        return self.rated(np.where(mask, self.battles.probability, np.nan), "half") if mask.any() else None

    def style(self) -> Figures | None:
        """Ratings at equal style; ``None`` where the answers are not known."""
        mask = self.battles.scored & ~np.isnan(self.battles.style).any(axis=(1, 2))
        if not mask.any():
            return None
        gaps = style_difference(self.battles.style[mask, 0], self.battles.style[mask, 1])
        there = [place for place in range(len(STYLE)) if np.ptp(gaps[:, place]) > 0]
        if not there:
            return {"reason": "all answers have the same style"}
        used = list(there)
        try:
            found = self._at_equal_style(mask, gaps[:, used])
        except MagistrateError as error:
            fewer = self._with_fewer(mask, gaps, there)
            if fewer is None:
                return {"reason": str(error)}
            used, found = fewer
        coefficients = zip(found.coefficient, found.coefficient_low, found.coefficient_high, strict=True)
        return {
            "reason": None,
            "models": [
                {"rating": rating, "low": low, "high": high}
                for rating, low, high in zip(found.rating, found.low, found.high, strict=True)
            ],
            "left_out": [STYLE[place] for place in there if place not in used],
            "covariates": [
                {"name": STYLE[place], "coefficient": value, "low": low, "high": high}
                for place, (value, low, high) in zip(used, coefficients, strict=True)
            ],
        }

    def _with_fewer(
        self, mask: NDArray[np.bool_], gaps: NDArray[np.float64], there: Sequence[int]
    ) -> tuple[list[int], StyleRatings] | None:
        """Without those measures whose worth cannot be told from the strengths of the models that have them."""
        used: list[int] = []
        found = None
        for place in there:
            with suppress(MagistrateError):
                found = self._at_equal_style(mask, gaps[:, [*used, place]])
                used.append(place)
        return None if found is None else (used, found)

    def _at_equal_style(self, mask: NDArray[np.bool_], gaps: NDArray[np.float64]) -> StyleRatings:
        return style_controlled(
            self._games(mask, self.battles.share),
            gaps,
            clusters=self._clusters(mask),
            anchor=self.anchor,
            level=self.options.level,
        )

    def _games(self, mask: NDArray[np.bool_], share: NDArray[np.float64]) -> Games:
        return checked_games(self.battles.first[mask], self.battles.second[mask], share[mask], len(self.battles.models))

    def _clusters(self, mask: NDArray[np.bool_]) -> NDArray[np.int32] | None:
        """The questions, where any is asked twice."""
        asked = self.battles.question.codes[mask]
        return asked if len(np.unique(asked)) < len(asked) else None


def _rated_models(found: Ratings, *, shown: bool) -> list[Figures]:
    clear = _clear(found)
    return [
        {
            "rating": found.rating[model],
            "low": found.low[model] if shown else None,
            "high": found.high[model] if shown else None,
            "sandwich_low": found.sandwich_low[model],
            "sandwich_high": found.sandwich_high[model],
            "rank": None if reason else 1 + int(clear[:, model].sum()),
            "games": int(found.games[model]),
            "reason": reason,
        }
        for model, reason in enumerate(found.reasons)
    ]


def _clear(found: Ratings) -> NDArray[np.bool_]:
    """``(M, M)`` whether a model's rating is above another's for sure: the interval of the difference leaves out 0."""
    variance = np.diag(found.covariance)
    error = np.sqrt(np.maximum(variance[:, None] + variance - 2 * found.covariance, 0.0))
    gap = found.rating[:, None] - found.rating
    with np.errstate(invalid="ignore"):
        return np.asarray((gap > found.reach * error) & (gap > TINY))


def _level(found: Ratings) -> list[int]:
    """The models that are not told from the best, the best among them."""
    if np.isnan(found.rating).all():
        return []
    below = _clear(found)[np.nanargmax(found.rating)]
    return [model for model, reason in enumerate(found.reasons) if reason is None and not below[model]]
