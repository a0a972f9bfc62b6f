"""What a report says first."""

from __future__ import annotations

from typing import Any

import pytest

from evals.dashboard.charts import row_sets
from evals.dashboard.findings import MOST_WEAK, faithfulness_rows, faults, lead, remarks, unsure, weak_attributes
from evals.dashboard.making import making
from evals.dashboard.page import page
from evals.dashboard.report import document
from evals.plain_text import plain
from evals.reports.markdown import markdown
from evals.reports.wording import counted, duration, interval, label, listed, number
from tests.evals.dashboard import strange
from tests.evals.dashboard.examples import WEAK, dialogsum


def with_proficiency(*values: tuple[float | None, int]) -> dict[str, Any]:
    """A report of one model, whose mean is 0.5, with domains of these values and instances."""
    report = strange.empty(instances=200)
    report["models"] = [{"name": "m", "overall": strange.interval(0.5, 200)}]
    report["kinds"] = {"domain": strange.kind_of("domain", [f"d{place}" for place in range(len(values))], ["m"], 200)}
    for attribute, (value, instances) in zip(report["kinds"]["domain"]["attributes"], values, strict=True):
        attribute["proficiency"]["m"] = strange.interval(value, instances)
    return report


def test_the_weak_attributes_of_a_study_are_found() -> None:
    found = weak_attributes(dialogsum())
    assert {(("davinci-3", "curie")[one.model], one.name) for one in found} == {
        (model, name) for model, names in WEAK.items() for name in names
    }
    assert [one.gap for one in found] == sorted((one.gap for one in found), reverse=True)


def test_a_weak_attribute_is_told_with_its_figures() -> None:
    report = with_proficiency((0.3, 40), (0.7, 40))
    (one,) = weak_attributes(report)
    prior = report["kinds"]["domain"]["attributes"][0]["prior"]
    assert one.words == (
        "m reaches 0.300, 0.200 below its mean of 0.500 (95% interval 0.250 to 0.350), over 40 instances. "
        f"Its prior is {prior:.1%}."
    )


def test_only_what_is_clearly_below_the_mean_is_weak() -> None:
    # The interval of 0.46 reaches to 0.51, nine instances are too few, and nothing is known of the others.
    report = with_proficiency((0.46, 40), (0.1, 9), (None, 0), (0.2, 1), (0.45, 40), (0.44, 40))
    assert [one.name for one in weak_attributes(report)] == ["d5"]
    assert unsure(report) == {"domain": ["d1 (m, 9 instances)", "d3 (m, 1 instance)"]}


def test_many_weak_attributes_are_cut_to_the_weakest() -> None:
    report = with_proficiency(*((0.4 - place / 100, 40) for place in range(20)))
    assert [one.name for one in weak_attributes(report)] == [f"d{place}" for place in range(19, 19 - MOST_WEAK, -1)]
    crowd = weak_attributes(strange.many())
    assert max(sum(one.model == model and one.kind == "domain" for one in crowd) for model in range(8)) == 2


def test_models_are_named_while_they_are_few() -> None:
    assert lead(dialogsum()) == "How well davinci-3 and curie do on 500 instances, by ROUGE-L, over 15 domains and 15 sub-tasks."
    assert lead(strange.many()).startswith("How well 8 models do on 4,000 instances, by Accuracy")
    assert lead(strange.many(models=1)).startswith("How well model-1-instruct does on")
    assert lead(strange.empty()) == "What 1 instance consists of: 1 domain and 1 sub-task. No model’s answers were studied."


def test_no_fault_is_passed_over() -> None:
    report = dialogsum()
    assert faults(report) == [
        "the data: has an empty input (2 rows: dev_31, dev_77)",
        "davinci-3: prediction missing (1 row: dev_7)",
        "curie: prediction missing (1 row: dev_7)",
        "davinci-3: not measured: no words (1 row: dev_9)",
        "curie: not measured: no words (1 row: dev_9)",
        "the ground truth: no affinities, because the prompt has 9,120 tokens (1 row)",
    ]
    report["counts"]["faults"] = [{"what": "cannot be read", "model": None, "count": 1200, "ids": ["3", "4"]}]
    assert faults(report)[0] == "the data: cannot be read (1,200 rows: 3, 4 and 1,198 more)"


def test_what_the_metric_remarks_is_on_the_page_and_in_the_text() -> None:
    report = dialogsum()
    assert remarks(report) == []
    report["counts"]["notes"] = [{"model": "curie", "note": "the answer names no choice", "count": 1200}]
    told = "curie: the answer names no choice (1,200 answers)"
    assert remarks(report) == [told]
    assert told in page(report, row_sets(report))
    assert told in markdown(document(report, row_sets(report), {}))


def test_faithfulness_is_told_where_there_is_any() -> None:
    report = dialogsum()
    found = report["faithfulness"]["assigned"]
    rows = faithfulness_rows(report)
    assert [row[0] for row in rows] == [
        "As this study assigns them",
        "By highest affinity alone",
        "By judges that score at random",
    ]
    assert rows[0][1:] == (f"{found['total_variation']:.3f}", f"{found['accuracy']:.1%}")
    assert faithfulness_rows(strange.empty()) == []


def test_how_it_was_made_is_told() -> None:
    report = dialogsum()
    made = making(report)
    facts = dict(made.facts)
    assert facts["Judge"] == "Qwen/Qwen3-8B"
    assert facts["Tokens"] == "2,812,345 read, 74.8% of them from the cache; 412,090 written"
    assert facts["Metric"] == "name: rouge-l; package: rouge-score 0.1.2; stemmer: true"
    assert dict(made.options)["slack"] == "auto"
    assert dict(made.seconds)["rate"] == "15 min 13 s"
    assert made.stages[0] == ("discover domain", "100", "0", report["made"]["fingerprints"]["discover domain"])
    rows = report["kinds"]["domain"]["assignment"]["rows"]
    assert made.assignments[0][1].startswith(f"2 for each of {rows} instances, total affinity")
    assert "proven optimal, a slack of 10%" in made.assignments[0][1]
    discovery = made.discoveries[0]
    assert discovery.summary[:2] == [
        "98 of 100 prompts: named something.",
        "2 of 100 prompts: the answer is no JSON: it ends in the middle.",
    ]
    assert discovery.summary[2] == "Turn 1: 61 candidates, of which 15 were kept."
    assert discovery.dropped[0] == ("Small talk", 9)
    assert making(strange.empty()).discoveries[0].summary == ["The list of 1 domain was given."]


def test_an_assignment_that_is_not_proven_says_so() -> None:
    report = strange.empty()
    report["kinds"]["domain"]["assignment"] |= {"optimal": False, "bound": 12.5, "slack": None, "ties": 3}
    assert making(report).assignments[0][1] == (
        "2 for each of 1 instance, total affinity 10.0, not proven optimal: at most 12.5 can be reached, bounds as given; "
        "3 instances could as well have others"
    )


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (number(None), "–"),
        (number(-0.25, 2), "−0.25"),
        (number(1234.5, 1), "1,234.5"),
        (interval(0.1, None), "–"),
        (interval(-0.1, 0.1, 1), "−0.1 to 0.1"),
        (counted(1, "domain"), "1 domain"),
        (counted(0, "domain"), "0 domains"),
        (listed([]), ""),
        (listed(["a"]), "a"),
        (listed(["a", "b", "c"]), "a, b and c"),
        (duration(59.94), "59.9 s"),
        (duration(61), "1 min 1 s"),
        (duration(3_660), "1 h 1 min"),
        (label("a\nb\tc"), "a b c"),
        (plain("a\u202eb\0\ud800"), "a���".replace("a�", "a�b", 1)),
    ],
)
def test_words_and_figures(told: str, words: str) -> None:
    assert told == words


def test_a_long_name_is_cut_where_there_is_little_room() -> None:
    assert len(label("x" * 500)) == 80
    assert label("x" * 80) == "x" * 80
