"""Solves the linear programme with HiGHS: prices for up to about 100,000 rows, and a check of the search's.

With integral column bounds the constraint matrix (rows against columns) is totally unimodular, so the vertices that HiGHS finds
are integral, and no integer programming is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.problem import Problem, SolverError

SIMPLEX_ROWS = 30_000
"""Number of rows up to which HiGHS's dual simplex is faster than its interior point method with crossover."""

TOLERANCE = 1e-9
"""HiGHS's feasibility tolerance, for scores scaled to 1."""


@dataclass(frozen=True)
class LinearSolution:
    """A vertex that HiGHS calls optimal.

    Attributes:
        share: ``(N, M)`` the chosen share of each cell: 0 or 1, within rounding.
        price: ``(M,)`` the dual values of the column bounds, in units.
        objective: In units.
    """

    share: NDArray[np.float64]
    price: NDArray[np.float64]
    objective: float


def prices(problem: Problem, progress: Callable[[str], None]) -> tuple[NDArray[np.int64], int]:
    """Prices in whole units, and the distance that they may still have to move apart, in units."""
    progress(f"solving the linear programme of {problem.rows:,} rows with HiGHS")
    solution = solve_linear(problem)
    return np.rint(solution.price).astype(np.int64), 0


def solve_linear(problem: Problem) -> LinearSolution:
    """Solve the whole linear programme.

    Raises:
        SolverError: HiGHS did not reach an optimum.
    """
    import highspy

    present = problem.scores != problem.missing
    row, column = np.nonzero(present)
    scores = problem.scores[row, column].astype(np.float64)
    scale = 2.0 ** -max(0, math.frexp(float(np.abs(scores).max(initial=1)))[1])
    cells, rows, columns = len(scores), problem.rows, problem.columns
    k = np.broadcast_to(problem.k, rows).astype(np.float64)

    programme = highspy.HighsLp()
    programme.num_col_ = cells
    programme.num_row_ = rows + columns
    programme.sense_ = highspy.ObjSense.kMaximize
    programme.col_cost_ = scores * scale
    programme.col_lower_ = np.zeros(cells)
    programme.col_upper_ = np.ones(cells)
    programme.row_lower_ = np.concatenate((k, problem.lower))
    programme.row_upper_ = np.concatenate((k, problem.upper))
    programme.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    programme.a_matrix_.start_ = np.arange(0, 2 * cells + 1, 2, dtype=np.int32)
    programme.a_matrix_.index_ = np.stack((row, rows + column), axis=1).astype(np.int32).ravel()
    programme.a_matrix_.value_ = np.ones(2 * cells)

    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("presolve", "off")
    solver.setOptionValue("solver", "simplex" if rows <= SIMPLEX_ROWS else "ipm")
    solver.setOptionValue("primal_feasibility_tolerance", TOLERANCE)
    solver.setOptionValue("dual_feasibility_tolerance", TOLERANCE)
    solver.passModel(programme)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise SolverError(f"HiGHS ended with: {solver.modelStatusToString(solver.getModelStatus())}")
    solution = solver.getSolution()
    share = np.zeros((rows, columns))
    share[row, column] = solution.col_value
    price = np.asarray(solution.row_dual)[rows:] / scale
    return LinearSolution(share, price, solver.getInfo().objective_function_value / scale)
