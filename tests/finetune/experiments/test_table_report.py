"""Table 1 as people read it."""

from __future__ import annotations

from typing import Any

from evals.reports.html import page
from evals.reports.markdown import markdown
from finetune.experiments.report import differences, document, lead


def row(name: str, difference: float, half: float) -> dict[str, Any]:
    return {
        "name": name,
        "instances": 20,
        "random": 0.2,
        "targeted": 0.2 + difference,
        "difference": difference,
        "low": difference - half,
        "high": difference + half,
        "by_seed": [{"random": 0.2, "targeted": 0.2 + difference}, {"random": None, "targeted": 0.1}],
    }


def figures(*sets: dict[str, Any]) -> dict[str, Any]:
    rows = {"base": 250, "added": 250, "validation": 250}
    return {
        "metric": "ROUGE-L",
        "recipe": "x",
        "seeds": [0, 1],
        "instances": 50,
        "rows": rows,
        "before": 0.05,
        "sets": list(sets),
    }


FOUND = figures(
    {"domains": [row("Food", 0.03, 0.01)], "overall": row("overall", 0.001, 0.01)},
    {
        "domains": [row("<script>alert(1)</script>", -0.0004, 0.01), row("Work | play", -0.03, 0.01)],
        "overall": row("overall", 0, 1),
    },
)


def test_only_what_is_told_from_chance_is_called_a_difference() -> None:
    assert "no difference beyond chance in 2 comparisons over all instances" in lead(FOUND)
    assert "better in 1, worse in 1 and not told from chance in 1 of 3 within the domains" in lead(FOUND)


def test_one_seed_is_called_a_first_look() -> None:
    one = FOUND | {"seeds": [0]}
    assert lead(one).endswith("in one training each: a first look, and no more.")
    assert "train with several seeds" in page(document(one))
    assert "train with several seeds" in markdown(document(one))
    assert "both paired" in markdown(document(FOUND))


def test_the_page_asks_for_nothing_and_runs_nothing() -> None:
    text = page(document(FOUND))
    assert "default-src 'none'; script-src 'none'" in text.replace("&#39;", "'")
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert text.count("<svg") == 2, "one for a telephone"
    assert "+0.030" in text
    assert "−0.000" not in text, "zero has no sign of its own"


def test_the_text_has_the_same_figures_and_the_paper_beside_them() -> None:
    text = markdown(document(FOUND))
    assert "| 1 | Food | 20 | 0.200 | 0.230 | +0.030 | +0.020 to +0.040 |" in text
    assert "| 2 | Work \\| play | 20 |" in text
    assert "| Leisure, Food ordering, Hospitality | 26.6, 27.8, 28.3 | 32.0, 32.0, 31.2 | 5.4, 4.2, 2.9 | 4.1 |" in text


def test_the_picture_is_a_picture_even_without_intervals() -> None:
    nothing = row("Food", 0.0, 0.0) | {"low": None, "high": None, "difference": None, "random": None}
    assert differences(figures({"domains": [nothing], "overall": nothing})).png().startswith(b"\x89PNG")
    assert "–" in markdown(document(figures({"domains": [nothing], "overall": nothing})))
