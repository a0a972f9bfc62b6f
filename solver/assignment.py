"""Assigns attributes to instances: QualEval's flexible linear programme (section 2.2), solved to proven optimality."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solver import priors as prior
from solver.compiled import announced
from solver.feasibility import Conflict, Demand, conflict, demand, smallest_slack
from solver.fixed_point import FixedPoint, fixed_point
from solver.problem import InfeasibleError, Problem, SolverError
from solver.rows import MOST_COLUMNS
from solver.solve import METHODS, solve
from solver.tables import Table, id_order, read_table

DEFAULT_SLACK = 0.1
"""The paper's epsilon."""

Bounds = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Assignment:
    """The attributes of each instance, and the proof that no choice is better.

    Attributes:
        chosen: ``(N, k)`` attribute indices, in order; -1 after an instance's last if instances differ in k.
        objective: The weighted sum of the chosen affinities.
        bound: Upper bound of the objective. Equal to it, except for the rounding of scores that 64 bits cannot represent.
        optimal: Whether the certificate holds: no assignment within the bounds has a higher objective.
        counts: ``(M,)`` number of instances of each attribute.
        lower: ``(M,)`` minimum number of instances.
        upper: ``(M,)`` maximum number of instances.
        prices: ``(M,)`` shadow prices: each instance has its k attributes of highest ``affinity - price``. A positive price holds
            instances off at the upper bound, a negative one draws them in at the lower bound, and 0 means that bounds cost
            nothing.
        ties: Number of instances with several equally good choices at these prices, so the assignment may not be unique.
        slack: The slack of the bounds; None if bounds were given.
        widened: ``(M,)`` whether an attribute's bounds are wider than the slack, by less than 1: small data may have no whole
            number within it. False if bounds were given.
        priors: ``(M,)`` the shares of the bounds; None if bounds were given.
        labels: The attributes' names, if the scores have any.
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
    widened: NDArray[np.bool_]
    priors: NDArray[np.float64] | None
    labels: tuple[Any, ...] | None

    @property
    def gap(self) -> float:
        """Upper bound on the distance from the best objective."""
        return self.bound - self.objective

    @property
    def named(self) -> NDArray[Any]:
        """``(N, k)`` the chosen attributes' names, or indices if the scores have no names; None after an instance's last."""
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
    """Assign exactly k attributes to every instance and a share of the instances to every attribute, at the highest affinity.

    Maximises the sum of ``l[i, j] * scores[i, j]`` over ``l[i, j]`` in {0, 1} with row sums k and column sums within
    ``k * N * priors[j] * (1 -+ slack)`` (QualEval, section 2.2). The result is optimal, with a certificate, and depends on the
    problem alone: ties are settled by the rule in ``docs/assignment.md``, whatever the method, the number of threads or, given
    ids, the order of rows.

    In the example, all instances but the second prefer the first attribute, but without slack each attribute has two instances.
    The first and the fourth prefer it most, by 4 and 3, so the third, which loses 2, moves. Any price from 2 to 3 supports this
    assignment; the lowest is returned.

    >>> result = assign([[5, 1], [1, 5], [4, 2], [5, 2]], priors=[0.5, 0.5], k=1, slack=0)
    >>> result.chosen.ravel().tolist()
    [0, 1, 1, 0]
    >>> result.objective, result.bound, result.optimal
    (17.0, 17.0, True)
    >>> result.prices.tolist()
    [2.0, 0.0]

    Args:
        scores: ``(N, M)`` affinities: an array, a pandas or polars frame with a column for each attribute (names are kept), or a
            SciPy sparse matrix. A missing score (NaN, null, a cell not stored) may not be chosen. At most 120 attributes.
        priors: ``(M,)`` shares that sum to 1, or whole counts; or a mapping from the names. By default each attribute's mean
            affinity over the sum of all means.
        k: Number of attributes per instance; or ``(N,)`` of each instance.
        slack: Relative tolerance of the counts; or ``"auto"``: 0.1, or the smallest that has an assignment if 0.1 has none.
        bounds: ``(M,)`` minimum and ``(M,)`` maximum number of instances of each attribute, in place of priors and slack.
        allowed: ``(N, M)`` False for attributes that may not be chosen.
        weights: ``(N,)`` positive weights of the instances' affinities in the objective. For the bounds, instances count equally.
        ids: ``(N,)`` distinct and of one type; ties are settled in their order. By default a pandas index, else the rows' order.
        labels: The attributes' names, if the scores have none.
        method: ``"search"``, or ``"highs"`` for the whole programme on HiGHS: the same result, up to about 100,000 instances.
        progress: Called with a short text at every step of a long solve.

    Raises:
        InfeasibleError: No assignment satisfies the bounds; the message names them and the smallest slack that would work.
        SolverError: The input is not such a problem; the message says what to correct.
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
            if (clash := conflict(demand(problem), lower, upper)) is not None:
                raise InfeasibleError(f"no assignment keeps every bound: {_explain(clash, table)}")
        else:
            share = (
                prior.from_affinities(affinities) if priors is None else prior.shares(_ordered(priors, table), problem.columns)
            )
            goal = prior.whole_counts(share, problem.choices)
            used, (lower, upper) = _slackened(problem, share, slack, table)
        none = np.zeros(problem.columns, bool)
        widened = none if share is None or used is None else prior.widened(share, problem.choices, used)
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
        widened=widened,
        priors=share,
        labels=table.labels,
    )


def _problem(
    table: Table, k: int | ArrayLike, allowed: ArrayLike | None, weights: ArrayLike | None, ids: Any
) -> tuple[Problem, FixedPoint, FixedPoint]:
    """The problem without its column bounds, its scores in fixed point, and these before weighting."""
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
    """Multiply scores by their row's weight."""
    weight = np.asarray(weights)
    if weight.dtype.kind not in "iuf" or weight.shape != values.shape[:1] or not (np.isfinite(weight) & (weight > 0)).all():
        raise SolverError("weights must be numbers above 0, one for each row")
    wide = np.int64 if values.dtype.kind in "iub" and weight.dtype.kind in "iu" else np.float64
    if wide is np.int64 and int(weight.max()) * max(abs(int(values.max())), abs(int(values.min()))) >= 2**62:
        raise SolverError("whole weights times whole scores are too large; give smaller weights, or floats")
    return values.astype(wide) * weight.astype(wide)[:, None]


def _ordered(priors: ArrayLike | Mapping[Any, float], table: Table) -> NDArray[Any]:
    """Put priors with names in the attributes' order."""
    if hasattr(priors, "to_dict"):
        priors = priors.to_dict()
    if not isinstance(priors, Mapping):
        return np.asarray(priors)
    labels: Sequence[Any] = range(table.values.shape[1]) if table.labels is None else table.labels
    if set(priors) != set(labels):
        missing = [label for label in labels if label not in priors]
        if missing:
            raise SolverError(f"there is no prior for {missing[0]!r}")
        raise SolverError(f"priors name {next(iter(set(priors) - set(labels)))!r}, no attribute")
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
    """The slack in effect, and its bounds."""
    if slack != "auto" and not (isinstance(slack, int | float) and 0 <= slack < np.inf):
        raise SolverError(f"slack must be a number, zero or more, or 'auto', and is {slack!r}")
    used = DEFAULT_SLACK if slack == "auto" else float(slack)

    def bounds(slack: float) -> Bounds:
        return prior.column_bounds(share, problem.choices, slack)

    rows: Demand = demand(problem)
    clash = conflict(rows, *bounds(used))
    if clash is None:
        return used, bounds(used)
    wanted = share[share > 0] * max(problem.choices, 1)
    enough = smallest_slack(rows, bounds, max(1.0, float(problem.rows / wanted.min())))
    if enough is not None and slack == "auto":
        return enough, bounds(enough)
    remedy = "no slack would help" if enough is None else f"the smallest slack that works is {enough:g}"
    raise InfeasibleError(f"no assignment keeps slack {used:g}: {_explain(clash, table)}; {remedy}", enough)


def _explain(clash: Conflict, table: Table) -> str:
    labels = [repr(str(table.labels[column])) if table.labels else f"attribute {column + 1}" for column in clash.columns]
    if len(labels) == table.values.shape[1]:
        names = "all attributes together"
    elif len(labels) > 4:
        names = f"{', '.join(labels[:3])} and {len(labels) - 3} more together"
    else:
        names = " and ".join(labels) + (" together" if len(labels) > 1 else "")
    if clash.too_many:
        return f"{names} must have at least {clash.reachable:,} instances and may have {clash.bound:,}"
    return f"{names} can have at most {clash.reachable:,} instances and must have {clash.bound:,}"
