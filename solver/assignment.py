"""Assign attributes to instances: QualEval's flexible linear programme (section 2.2), solved to proven optimality."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solver import priors as prior
from solver.compiled import announced
from solver.errors import InfeasibleError, SolverError
from solver.feasibility import Conflict, Demand, conflict, demand, smallest_slack
from solver.fixed_point import FixedPoint, fixed_point
from solver.problem import Problem
from solver.rows import MOST_COLUMNS
from solver.solve import METHODS, solve
from solver.tables import Table, id_order, read_table

DEFAULT_SLACK = 0.1
"""The paper's epsilon."""

Bounds = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Assignment:
    """Which attributes each instance has, and the proof that no choice is better.

    Attributes:
        chosen: ``(N, k)`` attribute indices, in order; -1 after an instance's last where instances differ in k.
        objective: The sum of the chosen affinities, weighted.
        bound: What no assignment exceeds. Equal to the objective, but for the rounding of scores that 64 bits cannot hold
            exactly.
        optimal: Whether the certificate holds: no assignment within the bounds has a higher objective.
        counts: ``(M,)`` instances of each attribute.
        lower: ``(M,)`` the fewest each had to have.
        upper: ``(M,)`` the most.
        prices: ``(M,)`` shadow prices: each instance has its k attributes of highest ``affinity - price``. Above 0, so many want
            the attribute that its upper bound holds them off; below 0, its lower bound draws them in; 0, its bounds cost nothing.
        ties: Instances with more than one equally good choice at these prices, so that the assignment need not be unique.
        slack: The slack the bounds came from; None where they were given.
        priors: ``(M,)`` the shares they came from; None where they were given.
        labels: The attributes' names, where the scores had any.
    """

    chosen: NDArray[np.int16]
    objective: float
    bound: float
    optimal: bool
    counts: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    prices: NDArray[np.float64]
    ties: int
    slack: float | None
    priors: NDArray[np.float64] | None
    labels: tuple[Any, ...] | None

    @property
    def gap(self) -> float:
        """How far the objective may at most be from the best there is."""
        return self.bound - self.objective

    @property
    def named(self) -> NDArray[Any]:
        """``(N, k)`` the chosen attributes' names; None after an instance's last. Indices where the scores had no names."""
        names = np.empty(len(self.counts) + 1, object)
        names[: len(self.counts)] = range(len(self.counts)) if self.labels is None else self.labels
        return names[self.chosen]


def assign(
    scores: Any,
    priors: ArrayLike | Mapping[Any, float] | None = None,
    k: int | ArrayLike = 2,
    slack: float | Literal["auto"] = DEFAULT_SLACK,
    *,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    allowed: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    ids: Any = None,
    labels: Sequence[Any] | None = None,
    method: str = METHODS[0],
    progress: Callable[[str], None] | None = None,
) -> Assignment:
    """Give every instance exactly k attributes, and every attribute its part of the instances, at the highest affinity.

    Maximises the sum of ``l[i, j] * scores[i, j]`` over ``l[i, j]`` in {0, 1} with row sums k and column sums within
    ``k * N * priors[j] * (1 -+ slack)`` (QualEval, section 2.2). The result is optimal, says so with a certificate, and is a
    function of the problem: equal choices are settled by the rule in ``docs/assignment.md``, whatever the method, the number
    of threads or, given ids, the order of rows.

    Four instances and two attributes, one attribute each. All but the second prefer the first attribute, but without slack each
    attribute has two instances. The first and the fourth prefer it most, by 4 and 3, so the third, which loses 2, moves.
    Any price from 2 to 3 makes all four content with that; the lowest is given.

    >>> result = assign([[5, 1], [1, 5], [4, 2], [5, 2]], priors=[0.5, 0.5], k=1, slack=0)
    >>> result.chosen.ravel().tolist()
    [0, 1, 1, 0]
    >>> result.objective, result.bound, result.optimal
    (17.0, 17.0, True)
    >>> result.prices.tolist()
    [2.0, 0.0]

    Args:
        scores: ``(N, M)`` affinities: an array, a pandas or polars frame of a column an attribute (their names are kept), or a
            SciPy sparse matrix. A missing score (NaN, null, a cell not stored) may not be chosen. At most 120 attributes.
        priors: ``(M,)`` shares that sum to 1, or whole counts; or a mapping from the names. By default from the affinities:
            their mean over the sum of all means.
        k: Attributes an instance; or ``(N,)`` of each instance.
        slack: By which part the counts may differ from the priors'; or ``"auto"``: 0.1, or the smallest that has an assignment if
            that has none.
        bounds: ``(M,)`` the fewest and ``(M,)`` the most instances of each attribute, in place of priors and slack.
        allowed: ``(N, M)`` False where an attribute may not be given.
        weights: ``(N,)`` above 0: how much an instance's affinities count in the objective. An instance counts once towards the
            bounds whatever its weight.
        ids: ``(N,)`` distinct and of one kind; ties are settled in their order. By default a pandas index, else the rows' order.
        labels: The attributes' names, where the scores come without.
        method: ``"search"``, or ``"highs"`` for the whole programme on HiGHS: the same result, up to about 100,000 instances.
        progress: Called with a few words at every step of a long solve.

    Raises:
        InfeasibleError: No assignment keeps the bounds; names them and the smallest slack that would work.
        SolverError: The input is not such a problem; says what to mend.
    """
    if method not in METHODS:
        raise SolverError(f"there is no method {method!r}; choose from {', '.join(METHODS)}")
    report = progress or (lambda _: None)
    report("reading scores")
    with announced(report):
        table = read_table(scores, labels)
        problem, numbers, affinities = _problem(table, k, allowed, weights, ids)
        if bounds is not None:
            if priors is not None:
                raise SolverError("give priors or bounds, not both")
            share, used = None, None
            lower, upper = _given_bounds(bounds, table)
            goal = (lower + upper) // 2
            if (found := conflict(demand(problem), lower, upper)) is not None:
                raise InfeasibleError(f"no assignment keeps every bound: {_explain(found, table)}")
        else:
            share = (
                prior.from_affinities(affinities) if priors is None else prior.shares(_ordered(priors, table), problem.columns)
            )
            goal = prior.whole_counts(share, problem.choices)
            used, (lower, upper) = _slackened(problem, share, slack, table)
        upper = np.minimum(upper, problem.rows)
        problem = replace(problem, lower=lower, upper=upper, goal=goal)
        solution = solve(problem, method, report)
    proof = solution.certificate
    rounding = 0.0 if numbers.exact else problem.choices * numbers.unit
    return Assignment(
        chosen=solution.chosen,
        objective=proof.objective * numbers.unit,
        bound=solution.bound * numbers.unit + rounding,
        optimal=proof.optimal,
        counts=proof.counts,
        lower=lower,
        upper=upper,
        prices=np.asarray(proof.prices * numbers.unit, np.float64),
        ties=solution.ties,
        slack=used,
        priors=share,
        labels=table.labels,
    )


def _problem(
    table: Table, k: int | ArrayLike, allowed: ArrayLike | None, weights: ArrayLike | None, ids: Any
) -> tuple[Problem, FixedPoint, FixedPoint]:
    """The problem without its column bounds, the numbers it is made of, and these before they are weighted."""
    values, present = table.values, table.present
    rows, columns = values.shape
    if columns > MOST_COLUMNS:
        raise SolverError(f"there are {columns} attributes, and there may be {MOST_COLUMNS}")
    choices = np.asarray(k)
    if choices.dtype.kind not in "iu" or choices.shape not in ((), (rows,)) or (choices < 0).any():
        raise SolverError("k must be a whole number, zero or more, or one for each row")
    if allowed is not None:
        mask = np.asarray(allowed)
        if mask.dtype != bool or mask.shape != values.shape:
            raise SolverError(f"allowed must be booleans of the scores' shape {values.shape}")
        present = mask if present is None else present & mask
    affinities = fixed_point(values, present, table.labels)
    numbers = affinities if weights is None else fixed_point(_weighted(values, weights), present)
    none = np.empty(0, np.int64)
    order = id_order(table.ids if ids is None else ids, rows)
    problem = Problem(numbers.units, numbers.missing, choices.astype(np.int64).reshape(-1), none, none, none, order)
    return problem, numbers, affinities


def _weighted(values: NDArray[Any], weights: ArrayLike) -> NDArray[Any]:
    """Scores times their row's weight."""
    weight = np.asarray(weights)
    if weight.dtype.kind not in "iuf" or weight.shape != values.shape[:1] or not (np.isfinite(weight) & (weight > 0)).all():
        raise SolverError("weights must be numbers above 0, one for each row")
    wide = np.int64 if values.dtype.kind in "iub" and weight.dtype.kind in "iu" else np.float64
    if wide is np.int64 and int(weight.max()) * max(abs(int(values.max())), abs(int(values.min()))) >= 2**62:
        raise SolverError("whole weights times whole scores are too large; give smaller weights, or floats")
    return values.astype(wide) * weight.astype(wide)[:, None]


def _ordered(priors: ArrayLike | Mapping[Any, float], table: Table) -> NDArray[Any]:
    """Priors in the attributes' order, where they come with names."""
    if hasattr(priors, "to_dict"):
        priors = priors.to_dict()
    if not isinstance(priors, Mapping):
        return np.asarray(priors)
    labels: Sequence[Any] = range(table.values.shape[1]) if table.labels is None else table.labels
    if set(priors) != set(labels):
        missing = [label for label in labels if label not in priors]
        raise SolverError(
            f"there is no prior for {missing[0]!r}"
            if missing
            else f"priors name {next(iter(set(priors) - set(labels)))!r}, no attribute"
        )
    return np.array([priors[label] for label in labels])


def _given_bounds(bounds: tuple[ArrayLike, ArrayLike], table: Table) -> Bounds:
    sides = [np.asarray(side) for side in bounds]
    columns = table.values.shape[1]
    if len(sides) != 2 or any(side.shape != (columns,) or side.dtype.kind not in "iu" for side in sides):
        raise SolverError(f"bounds must be two sequences of {columns} whole numbers, the fewest and the most")
    return np.maximum(sides[0].astype(np.int64), 0), sides[1].astype(np.int64)


def _slackened(
    problem: Problem, share: NDArray[np.float64], slack: float | Literal["auto"], table: Table
) -> tuple[float, Bounds]:
    """The slack to use and its bounds."""
    if slack != "auto" and not (isinstance(slack, int | float) and 0 <= slack < np.inf):
        raise SolverError(f"slack must be a number, zero or more, or 'auto', and is {slack!r}")
    used = DEFAULT_SLACK if slack == "auto" else float(slack)

    def bounds(slack: float) -> Bounds:
        return prior.column_bounds(share, problem.choices, slack)

    rows: Demand = demand(problem)
    found = conflict(rows, *bounds(used))
    if found is None:
        return used, bounds(used)
    wanted = share[share > 0] * max(problem.choices, 1)
    enough = smallest_slack(rows, bounds, max(1.0, float(problem.rows / wanted.min())))
    if enough is not None and slack == "auto":
        return enough, bounds(enough)
    remedy = "no slack would help" if enough is None else f"the smallest slack that works is {enough:g}"
    raise InfeasibleError(f"no assignment keeps slack {used:g}: {_explain(found, table)}; {remedy}", enough)


def _explain(found: Conflict, table: Table) -> str:
    labels = [repr(str(table.labels[column])) if table.labels else f"attribute {column + 1}" for column in found.columns]
    if len(labels) == table.values.shape[1]:
        names = "all attributes together"
    elif len(labels) > 4:
        names = f"{', '.join(labels[:3])} and {len(labels) - 3} more together"
    else:
        names = " and ".join(labels) + (" together" if len(labels) > 1 else "")
    if found.too_many:
        return f"{names} must have at least {found.reachable:,} instances and may have {found.bound:,}"
    return f"{names} can have at most {found.reachable:,} instances and must have {found.bound:,}"
