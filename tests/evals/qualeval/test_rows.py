"""The figures of a report as rows and as tables."""

from __future__ import annotations

from typing import Any

import pytest

from evals.qualeval.charts import row_sets
from evals.qualeval.rows import (
    ENOUGH,
    calibration_rows,
    cell_rows,
    extent,
    first,
    named,
    pair_rows,
    prior_rows,
    proficiency_rows,
)
from evals.qualeval.tables import MOST_PAIRS, note, table
from evals.reports.wording import percent
from tests.evals.qualeval import strange
from tests.evals.qualeval.examples import dialogsum


@pytest.mark.parametrize("make", [dialogsum, strange.hostile, strange.empty, strange.many])
def test_every_figure_of_a_report_is_in_a_row(make: Any) -> None:
    report = make()
    sets = row_sets(report)
    for kind, one in report["kinds"].items():
        attributes = one["attributes"]
        for row in sets["priors"]:
            if row["kind"] == kind:
                assert (row["prior"], row["instances"]) == (
                    attributes[row["attribute"]]["prior"],
                    attributes[row["attribute"]]["instances"],
                )
        for part, figure, name in (("proficiency", "value", "proficiency"), ("calibration", "distance", "calibration")):
            found = [row for row in sets[name] if row["kind"] == kind]
            assert len(found) == sum(len(attribute.get(part, {})) for attribute in attributes)
            for row in found:
                held = attributes[row["attribute"]][part][report["models"][row["model"]]["name"]]
                assert (row[figure], row["low"], row["high"]) == (held[figure], held["low"], held["high"])
                assert row["few"] == (held["instances"] < ENOUGH)
        shares = {(row["attribute"], row["of"], row["score"]): row["share"] for row in sets["shares"] if row["kind"] == kind}
        assert len(shares) == 5 * len(attributes) * len(one["affinity_shares"])
        for place, of in enumerate(one["affinity_shares"].values()):
            for number, scores in enumerate(of):
                mine = {key: share for key, share in shares.items() if key[0] == number and key[1].startswith(f"{place}|")}
                assert [mine[key] for key in sorted(mine, key=lambda key: key[2])] == scores


def test_what_comes_first_is_the_most_common_the_weakest_and_the_furthest_apart() -> None:
    report = dialogsum()
    priors = [row["prior"] for row in prior_rows(report) if row["kind"] == "domain"]
    assert priors == sorted(priors, reverse=True)

    def means(rows: list[dict[str, Any]], figure: str) -> list[float]:
        found: dict[int, list[float]] = {}
        for row in rows:
            if row["kind"] == "subtask":
                found.setdefault(row["attribute"], []).append(row[figure])
        return [sum(values) / len(values) for values in found.values()]

    weakest = means(proficiency_rows(report), "value")
    assert weakest == sorted(weakest)
    furthest = means(calibration_rows(report), "distance")
    assert furthest == sorted(furthest, reverse=True)


def test_attributes_without_a_figure_come_last() -> None:
    rows = [row for row in proficiency_rows(strange.hostile()) if row["kind"] == "domain"]
    assert [row["attribute"] for row in rows[-2:]] == [4, 4]
    assert all(row["value"] is None for row in rows[-2:])


def test_attributes_that_go_together_are_counted_once_in_a_row_and_twice_in_a_table() -> None:
    report = dialogsum()
    rows = pair_rows(report)
    for row in rows:
        one = report["kinds"][row["kind"]]
        assert row["instances"] == one["together"][row["attribute"]][row["other"]]
        rarer = min(one["attributes"][row[side]]["instances"] for side in ("attribute", "other"))
        assert row["share"] == round(row["instances"] / rarer, 4)
        assert row["place"] < row["other_place"]
    assert len({(row["kind"], frozenset((row["attribute"], row["other"]))) for row in rows}) == len(rows)
    assert len(cell_rows(report)) == 2 * len(rows)


def test_names_are_never_taken_for_one_another() -> None:
    report = strange.hostile()
    both = named(report, prior_rows(report))
    assert len({(row["kind"], row["attribute_key"]) for row in both}) == 2 * len(strange.NAMES)
    assert max(len(row["attribute_key"]) for row in both) < 90
    assert max(len(row["attribute"]) for row in both) == 500


@pytest.mark.parametrize(
    ("values", "found"),
    [([0.2, None, 0.6], (0.2, 0.6)), ([None], None), ([], None), ([0.5, 0.5], (0.475, 0.525)), ([0, 0], (-0.05, 0.05))],
)
def test_an_extent_is_never_a_point(values: list[float | None], found: tuple[float, float] | None) -> None:
    assert extent([{"value": value} for value in values], "value") == (found and pytest.approx(found))


def test_the_first_rows_are_those_of_the_first_attributes() -> None:
    rows = [{"attribute": number // 2, "kind": "domain"} for number in range(10)]
    assert [row["attribute"] for row in first(rows, 2)] == [0, 0, 1, 1]


def of_kind(rows: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["kind"] == kind]


def test_a_table_that_leaves_pairs_out_says_how_many() -> None:
    report = strange.many()
    rows = row_sets(report)["pairs"]
    for kind in ("domain", "subtask"):
        assert len(table(report, "pairs", of_kind(rows, kind)).rows) == MOST_PAIRS
    assert f"{len(rows) - 2 * MOST_PAIRS:,} more" in (note("pairs", rows) or "")
    assert note("pairs", row_sets(dialogsum())["pairs"]) is None


def test_figures_of_few_instances_are_marked() -> None:
    report = dialogsum()
    report["kinds"]["domain"]["attributes"][0]["proficiency"]["curie"]["instances"] = ENOUGH - 1
    rows = row_sets(report)["proficiency"]
    marked = [cells for cells in table(report, "proficiency", rows).rows if str(cells[-1]).endswith("*")]
    assert [cells[:2] for cells in marked] == [(report["kinds"]["domain"]["attributes"][0]["name"], "curie")]
    assert (note("proficiency", rows) or "").startswith("* Fewer than 10 instances")


def test_shares_are_told_in_percent() -> None:
    report = dialogsum()
    one = report["kinds"]["subtask"]
    shares = table(report, "shares", of_kind(row_sets(report)["shares"], "subtask"))
    of_curie = {cells[0]: cells[2:] for cells in shares.rows if cells[1] == "curie"}
    for attribute, scores in zip(one["attributes"], one["affinity_shares"]["curie"], strict=True):
        assert of_curie[attribute["name"]] == tuple(percent(share) for share in scores)
