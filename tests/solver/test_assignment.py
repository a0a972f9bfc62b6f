from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import solver.assignment
from solver import Assignment, InfeasibleError, SolverError, assign, compiled

NAMES = ["lists", "strings", "numbers", "files", "dates"]


def _affinities(rows: int = 400, columns: int = 5, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(1, 6, (rows, columns)).astype(np.int8)


def _same(one: Assignment, other: Assignment) -> None:
    assert (one.chosen == other.chosen).all()
    assert one.objective == other.objective
    assert (one.prices == other.prices).all()


def test_the_case_worked_by_hand() -> None:
    assert doctest.testmod(solver.assignment).attempted > 0
    assert doctest.testmod(solver.assignment).failed == 0


def test_every_table_gives_the_same_and_names_are_kept() -> None:
    scores = _affinities()
    plain = assign(scores)
    assert plain.labels is None
    assert plain.named[0].tolist() == plain.chosen[0].tolist()
    frame = assign(pd.DataFrame(scores, columns=NAMES))
    polar = assign(pl.DataFrame({name: scores[:, column] for column, name in enumerate(NAMES)}))
    for result in (frame, polar):
        _same(plain, result)
        assert result.labels == tuple(NAMES)
        assert result.named[7].tolist() == [NAMES[column] for column in plain.chosen[7]]
    for kind in (np.uint8, np.int16, np.int32, np.int64, np.float32, np.float64, np.float16):
        _same(plain, assign(scores.astype(kind)))
    _same(plain, assign(np.asfortranarray(scores)))
    _same(plain, assign(scores.tolist()))


def test_an_array_takes_names_and_errors_use_them() -> None:
    scores = _affinities()
    result = assign(scores, labels=NAMES)
    assert result.labels == tuple(NAMES)
    assert result.named[7].tolist() == [NAMES[column] for column in result.chosen[7]]
    _same(assign(scores, [1, 2, 1, 1, 1]), assign(scores, {**dict.fromkeys(NAMES, 1), "strings": 2}, labels=NAMES))
    with pytest.raises(SolverError, match="the score of row 1, 'files' is infinite"):
        assign(np.where(np.arange(5) == 3, np.inf, scores), labels=NAMES)
    for wrong in (NAMES[:4], ["same"] * 5):
        with pytest.raises(SolverError, match="labels must be 5 different names"):
            assign(scores, labels=wrong)


def test_compiling_is_announced(tmp_path: Path) -> None:
    program = "import solver; solver.assign([[5, 1], [1, 5]], k=1, progress=print)"
    said = []
    for _ in range(2):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
        said.append(done.stdout.count("compiling the solver, once on this machine"))
    assert said[0] > 0
    assert said[1] == 0


def test_a_missing_score_is_never_chosen_however_it_is_missing() -> None:
    scores = _affinities()
    allowed = np.random.default_rng(1).random(scores.shape) < 0.7
    allowed[np.flatnonzero(allowed.sum(axis=1) < 2)] = True
    expected = assign(scores, [1, 1, 1, 1, 1], allowed=allowed)
    assert np.take_along_axis(allowed, expected.chosen.astype(np.int64), 1).all()
    holes = np.where(allowed, scores, np.nan)
    frame = pd.DataFrame(scores, columns=NAMES).astype("Int64").mask(~allowed)
    cells = scipy.sparse.csr_array(np.where(allowed, scores, 0))
    for table in (holes, holes.astype(np.float32), frame, pl.DataFrame(holes).fill_nan(None), cells):
        _same(expected, assign(table, [1, 1, 1, 1, 1]))
    both = assign(holes, [1, 1, 1, 1, 1], allowed=allowed)
    _same(expected, both)


def test_a_stored_zero_of_a_sparse_matrix_is_a_score() -> None:
    cells = scipy.sparse.coo_array((np.array([0, 3, 0, 4]), (np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]))), shape=(2, 3))
    assert assign(cells, bounds=([0, 0, 0], [2, 2, 2])).chosen.tolist() == [[0, 1], [1, 2]]


def test_priors_as_shares_counts_names_and_from_the_affinities() -> None:
    scores = _affinities()
    shares = [0.1, 0.15, 0.2, 0.25, 0.3]
    expected = assign(scores, shares)
    counts = [2, 3, 4, 5, 6]
    _same(expected, assign(scores, counts))
    frame = pd.DataFrame(scores, columns=NAMES)
    named = dict(zip(reversed(NAMES), reversed(counts), strict=True))
    _same(expected, assign(frame, named))
    _same(expected, assign(frame, pd.Series(named)))
    assert expected.priors is not None
    assert expected.priors.tolist() == pytest.approx(shares)
    means = scores.mean(axis=0, dtype=np.float64)
    found = assign(scores).priors
    assert found is not None
    assert found.tolist() == pytest.approx((means / means.sum()).tolist(), rel=1e-14)


def test_bounds_weights_and_k_of_each_row() -> None:
    scores = np.array([[5, 2, 1], [5, 3, 1], [5, 4, 1]])
    one = assign(scores, k=1, bounds=([0, 0, 0], [1, 3, 3]))
    assert one.chosen.ravel().tolist() == [0, 1, 1]
    assert one.slack is None
    assert one.priors is None
    heavy = assign(scores, k=1, bounds=([0, 0, 0], [1, 3, 3]), weights=[1, 1, 9])
    assert heavy.chosen.ravel().tolist() == [1, 1, 0]
    assert heavy.objective == 2 + 3 + 45
    priors = assign(scores, k=1, weights=[1, 1, 9]).priors
    assert priors is not None
    assert priors.tolist() == pytest.approx([15 / 27, 9 / 27, 3 / 27])
    mixed = assign(scores, k=[0, 1, 3], bounds=([0, 0, 0], [3, 3, 3]))
    assert mixed.chosen.tolist() == [[-1, -1, -1], [0, -1, -1], [0, 1, 2]]
    assert assign(pd.DataFrame(scores, columns=["a", "b", "c"]), k=[0, 1, 3], bounds=([0] * 3, [3] * 3)).named[1].tolist() == [
        "a",
        None,
        None,
    ]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_changes_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(2)
    ties, reals = _affinities(6_000), chance.random((6_000, 5)).astype(np.float32)
    ids = chance.permutation(6_000)
    expected = [assign(ties), assign(reals), assign(ties, ids=ids)]
    monkeypatch.setattr(compiled, "ROWS_A_THREAD", 1_000)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(threads)))
    for before, after in zip(expected, [assign(ties), assign(reals), assign(ties, ids=ids)], strict=True):
        _same(before, after)


def test_rows_with_ids_may_come_in_any_order() -> None:
    scores = _affinities(900)
    ids = np.array([f"row-{number:05d}" for number in range(900)])
    expected = assign(scores, ids=ids)
    _same(expected, assign(scores))
    assert expected.ties > 300
    turn = np.random.default_rng(4).permutation(900)
    again = assign(scores[turn], ids=ids[turn])
    assert (again.chosen == expected.chosen[turn]).all()
    frame = pd.DataFrame(scores, columns=NAMES, index=ids)
    assert (assign(frame.iloc[turn]).chosen == expected.chosen[turn]).all()


@pytest.mark.parametrize("index", [[7, 7, 8, 9], [1, "a", 2, "b"], pd.RangeIndex(4), pd.RangeIndex(100, 104)])
def test_a_frame_whose_index_is_no_order_goes_by_its_rows(index: Any) -> None:
    scores = np.array([[2, 2], [2, 2], [2, 2], [2, 2]])
    _same(assign(scores, [1, 1], k=1), assign(pd.DataFrame(scores, index=index), [1, 1], k=1))


def test_more_attributes_than_a_machine_word_has_bits() -> None:
    chance = np.random.default_rng(6)
    scores = chance.integers(1, 4, (700, 100))
    result = assign(scores, k=3)
    assert result.optimal
    assert (result.chosen == assign(scores, k=3, method="highs").chosen).all()
    assert result.chosen.max() > 63
    with pytest.raises(SolverError, match=r"there are 121 attributes, and there may be 120"):
        assign(np.ones((3, 121)))


@pytest.mark.parametrize("kind", [np.int8, np.float32, np.float64])
def test_many_rows_pass_every_level_of_the_search(kind: type) -> None:
    chance = np.random.default_rng(7)
    raw = 3 + chance.normal(0, 0.8, 12) + chance.normal(0, 1.2, (150_000, 12))
    scores: Any = (np.clip(np.rint(raw), 1, 5) if kind is np.int8 else np.clip(raw, 1, 5)).astype(kind)
    said: list[str] = []
    result = assign(scores, np.full(12, 1 / 12), progress=said.append)
    assert result.optimal
    assert result.gap == 0 or kind is np.float64
    assert (result.prices != 0).sum() >= 3
    assert sum("finding prices on" in words for words in said) >= 2
    assert "proving optimality" in said


@pytest.mark.parametrize("kind", [np.int8, np.float32])
def test_what_no_sample_shows_is_found(kind: type) -> None:
    chance = np.random.default_rng(12)
    rows = 70_000
    scores: Any = chance.integers(1, 6, (rows, 8)) if kind is np.int8 else chance.random((rows, 8))
    scores = scores.astype(kind)
    allowed = np.ones(scores.shape, bool)
    allowed[:, 7] = False
    few = chance.permutation(rows)[:40]
    allowed[few, 7] = True
    lower = np.array([0, 0, 40_000, 0, 0, 0, 0, 40])
    result = assign(scores, bounds=(lower, [20_000] + [rows] * 7), allowed=allowed)
    assert result.optimal
    assert result.gap == 0
    assert set(np.flatnonzero((result.chosen == 7).any(axis=1))) == set(few)
    assert result.counts[0] <= 20_000
    assert result.counts[2] >= 40_000
    assert result.prices[7] < 0


EDGES: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "one row": (np.array([[3, 1, 2]]), {"k": 1}, [[0]]),
    "k is all": (np.array([[3, 1], [1, 1]]), {"k": 2, "priors": [1, 1]}, [[0, 1], [0, 1]]),
    "k is none": (np.array([[3, 1], [1, 1]]), {"k": 0, "priors": [1, 1]}, [[], []]),
    "a prior of zero": (np.array([[1, 9, 2], [1, 9, 3]]), {"k": 1, "priors": [1, 0, 1]}, [[0], [2]]),
    "negative": (np.array([[-5, -1], [-1, -5]]), {"k": 1, "priors": [1, 1]}, [[1], [0]]),
    "tiny": (np.array([[5e-310, 1e-310], [1e-310, 5e-310]]), {"k": 1}, [[0], [1]]),
    "huge": (np.array([[5e300, 1e300], [1e300, 5e300]]), {"k": 1}, [[0], [1]]),
    "constant": (np.full((4, 2), 7), {"k": 1}, None),
    "true and false": (np.array([[True, False], [False, True]]), {"k": 1}, [[0], [1]]),
}


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("method", ["search", "highs"])
def test_edges(edge: str, method: str) -> None:
    scores, options, chosen = EDGES[edge]
    result = assign(scores, method=method, **options)
    assert result.optimal
    if chosen is None:
        assert result.counts.tolist() == [2, 2]
    else:
        assert result.chosen.tolist() == chosen


WRONG = [
    (np.ones(3), {}, "must have rows and columns"),
    (np.ones((0, 3)), {}, "must have rows and columns"),
    ([["a", "b"]], {}, "scores must be numbers"),
    (np.array([[1.0, np.inf], [1, 2]]), {}, "row 1, attribute 2 is infinite"),
    (np.array([[2**62, 1]]), {}, "too large"),
    (np.ones((2, 2)), {"k": -1}, "k must be a whole number"),
    (np.ones((2, 2)), {"k": 1.5}, "k must be a whole number"),
    (np.ones((2, 2)), {"k": [1]}, "one for each row"),
    (np.ones((2, 2)), {"slack": -0.1}, "slack must be a number, zero or more"),
    (np.ones((2, 2)), {"slack": "some"}, "slack must be a number"),
    (np.ones((2, 2)), {"priors": [1, 2, 3]}, "give one prior an attribute"),
    (np.ones((2, 2)), {"priors": [0.5, 0.2]}, "the priors sum to 0.7"),
    (np.ones((2, 2)), {"priors": [-1, 2]}, "zero or more"),
    (np.ones((2, 2)), {"priors": [0, 0]}, "all zero"),
    (np.ones((2, 2)), {"priors": ["a", "b"]}, "priors must be numbers"),
    (-np.ones((2, 2)), {}, "negative affinities"),
    (np.zeros((2, 2)), {}, "all zero"),
    (np.ones((2, 2)), {"allowed": np.ones((2, 2))}, "allowed must be booleans"),
    (np.ones((2, 2)), {"weights": [1, 0]}, "weights must be numbers above 0"),
    (np.array([[2**40, 1]]), {"weights": [2**23], "k": 1}, "too large; give smaller weights"),
    (np.ones((2, 2)), {"ids": [1, 1]}, "row id 1 occurs twice"),
    (np.ones((2, 2)), {"ids": [1]}, "one id a row"),
    (np.ones((2, 2)), {"ids": np.array(["a", 1], object)}, "all be of one kind"),
    (np.ones((2, 2)), {"method": "magic"}, "no method 'magic'"),
    (np.ones((2, 2)), {"bounds": ([0], [1])}, "bounds must be two sequences of 2"),
    (np.ones((2, 2)), {"bounds": ([0, 0], [2, 2]), "priors": [1, 1]}, "priors or bounds"),
    (pd.DataFrame({"a": [1], "b": ["x"]}), {}, "column 'b' holds no numbers"),
    (pl.DataFrame({"a": [1], "b": ["x"]}), {}, "column 'b' holds no numbers"),
    (pd.DataFrame({"a": [1], "b": [2]}), {"priors": {"a": 1}}, "no prior for 'b'"),
    (pd.DataFrame({"a": [1], "b": [2]}), {"priors": {"a": 1, "b": 1, "c": 1}}, "priors name 'c'"),
]


@pytest.mark.parametrize(("scores", "options", "message"), WRONG)
def test_what_is_wrong_is_said(scores: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SolverError, match=message):
        assign(scores, **options)


def test_what_is_infeasible_names_the_bounds_and_the_smallest_slack() -> None:
    scores = _affinities(100)
    with pytest.raises(InfeasibleError, match=r"a row is to have 6 attributes, and there are 5") as none:
        assign(scores, k=6)
    assert none.value.slack is None
    # 0.6 of 200 assignments are 120 for one attribute, and there are 100 rows: slack 1/6 lets it have them, but then the other
    # four, 20 each, must take 100 between them, so 25 each: slack 1/4.
    priors = [0.6, 0.1, 0.1, 0.1, 0.1]
    with pytest.raises(InfeasibleError, match=r"the smallest slack that works is 0\.25") as tight:
        assign(scores, priors)
    assert tight.value.slack == 0.25
    assert assign(scores, priors, slack=0.25).counts.tolist() == [100, 25, 25, 25, 25]
    auto = assign(scores, priors, slack="auto")
    assert auto.slack == 0.25
    assert auto.optimal
    assert assign(scores, slack="auto").slack == 0.1
    with pytest.raises(InfeasibleError):
        assign(scores, priors, slack=0.249)
    with pytest.raises(InfeasibleError, match=r"all attributes together can have at most 200 instances and must have 250"):
        assign(scores, bounds=([50] * 5, [60] * 5))
    with pytest.raises(InfeasibleError, match=r"attribute 2 must have at least 9 instances and may have 3"):
        assign(scores, bounds=([0, 9, 0, 0, 0], [100, 3, 100, 100, 100]))


def test_bounds_that_are_wider_than_the_slack_say_so() -> None:
    result = assign(_affinities(28, 10), [1] * 10)
    # Each should have 5.6 of 56. Within 10% of that lies 6 alone, which ten cannot all have.
    outside = np.abs(result.counts - 5.6) > 0.56
    assert (result.slack, int(outside.sum())) == (0.1, 4)
    assert (result.widened == outside).all()
    assert not assign(_affinities(400)).widened.any()
    assert not assign(_affinities(28, 10), bounds=([5] * 10, [6] * 10)).widened.any()


def test_rows_that_can_only_take_a_few_are_found_by_flow() -> None:
    scores = pd.DataFrame(np.ones((100, 4)), columns=["a", "b", "c", "d"])
    scores.loc[:69, ["c", "d"]] = np.nan
    # 70 rows choose between a and b alone, which may have 27 each.
    with pytest.raises(InfeasibleError, match=r"'a' and 'b' together must have at least 70 instances and may have 54") as tight:
        assign(scores, [1, 1, 1, 1], k=1)
    assert tight.value.slack == 0.4
    assert assign(scores, [1, 1, 1, 1], k=1, slack="auto").counts.tolist() == [35, 35, 15, 15]
    scores.loc[3, ["b"]] = np.nan
    with pytest.raises(InfeasibleError, match=r"row 4 is to have 2 attributes and has scores for 1"):
        assign(scores, [1, 1, 1, 1])
    with pytest.raises(InfeasibleError, match=r"no slack would help"):
        assign(np.ones((5, 3)), [1, 1, 0], k=2, allowed=np.tile([False, True, True], (5, 1)))
