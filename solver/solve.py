"""Solves a problem: prices, the ties at these prices, and a proof of optimality."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver import highs
from solver.certificate import Certificate, certify
from solver.problem import Problem
from solver.search import refine, search, widened
from solver.ties import Ties, find_ties, settle, share_ties

METHODS = ("search", "highs")
"""Sources of the first prices: the search over samples, or HiGHS on the whole linear programme."""


@dataclass(frozen=True)
class Solution:
    """An assignment with its proof.

    Attributes:
        chosen: ``(N, max k)`` column numbers in order, -1 after a row's last.
        certificate: The proof, with the prices.
        bound: Upper bound of the objective, in units: the dual's value at these prices.
        ties: Number of rows with a choice at these prices.
    """

    chosen: NDArray[np.int16]
    certificate: Certificate
    bound: int
    ties: int


def solve(problem: Problem, method: str, progress: Callable[[str], None]) -> Solution:
    """Solve a feasible problem.

    Either method finds optimal prices and some optimal assignment. Its certificate contains the unique prices that all optimal
    assignments share; the ties at these are settled by rule, so the result depends on the problem only.
    """
    price, spread = highs.prices(problem, progress) if method == "highs" else search(problem, progress)
    chosen, price, ties = _settle_optimal(problem, price, spread, progress)
    progress("proving optimality")
    certificate = certify(problem, chosen)
    if certificate.optimal and (certificate.prices != price).any():
        chosen, price, ties = _settle_optimal(problem, certificate.prices, spread, progress)
        certificate = certify(problem, chosen)
    sold = np.where(price > 0, problem.upper, problem.lower)
    bound = ties.value + sum(int(cost) * int(count) for cost, count in zip(price, sold, strict=True))
    return Solution(chosen, certificate, bound, ties.rows)


def _settle_optimal(
    problem: Problem, price: NDArray[np.int64], spread: int, progress: Callable[[str], None]
) -> tuple[NDArray[np.int16], NDArray[np.int64], Ties]:
    """Settle ties at given prices, or at better ones if these are not optimal; returns the assignment, prices and ties."""
    steps = 0
    while True:
        progress("settling ties")
        ties = find_ties(problem, price)
        sharing = share_ties(problem, price, ties, approach=True)
        if sharing.better is None:
            return settle(problem, ties, sharing), price, ties
        price = sharing.better
        steps += 1
        if steps > problem.columns:
            spread = widened(spread)
            price = refine(problem, price, spread)
