"""What a report says first."""

from __future__ import annotations

from typing import Any

import pytest

from evals.qualeval.findings import (
    MOST_WEAK,
    faithfulness_rows,
    faults,
    label_rows,
    label_words,
    lead,
    remarks,
    unsure,
    weak_attributes,
)
from evals.qualeval.provenance import assignment, facts, provenance
from evals.qualeval.report import document, page
from evals.reports.document import Facts, Notes, Table, Text, blocks_of
from evals.reports.markdown import markdown
from evals.reports.wording import NONE, counted, duration, interval, label, listed, number, plain
from tests.evals.qualeval import strange
from tests.evals.qualeval.examples import WEAK, dialogsum


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
    assert told in page(report)
    assert told in markdown(document(report))


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


def test_labels_are_told_with_their_domains() -> None:
    report = dialogsum()
    found = report["label_priors"]
    rows = label_rows(report)
    pair = found["pairs"][0]
    assert rows[0][0] == pair["label"]
    assert rows[0][1].startswith(f"{pair['share']['value']:.1%} (")
    assert rows[0][2] == pair["domain"]
    assert len(rows) == len(found["pairs"]) + len(found["labels"]) + len(found["domains"]) + (found["rare"] > 0)
    told = label_words(report)
    assert f"{found['distance']['value']:.3f} (" in told
    assert f"labels in random order reach {found['chance']:.1%}" in told
    assert told in markdown(document(report))
    report["label_priors"] |= {"rare": 1, "other": 0.01, "unlabelled": 1}
    assert ("other: 1 rare label", "1.0%", "– (too rare)", NONE, NONE) in label_rows(report)
    assert "1 row without a label is left out." in label_words(report)
    assert label_rows(strange.empty()) == []


def test_how_it_was_made_is_told() -> None:
    report = dialogsum()
    blocks = list(blocks_of(provenance(report), "markdown"))
    told = {name: value for block in blocks if isinstance(block, Facts) for name, value in block.rows}
    assert told["Judge"] == "Qwen/Qwen3-8B"
    assert told["Tokens"] == "2,812,345 read, 74.8% of them from the cache; 412,090 written"
    assert told["Metric"] == "name: rouge-l; package: rouge-score 0.1.2; stemmer: true"
    assert told["slack"] == "auto"
    assert told["rate"] == "15 min 13 s"
    stages = next(block for block in blocks if isinstance(block, Table) and block.headings[0] == "Stage")
    assert stages.rows[0] == ("discover domain", report["made"]["fingerprints"]["discover domain"], "100", "0")
    rows = report["kinds"]["domain"]["assignment"]["rows"]
    assert told["Domains"].startswith(f"2 for each of {rows} instances, total affinity")
    assert "proven optimal, a slack of 10%" in told["Domains"]
    discovery = next(block for block in blocks if isinstance(block, Notes) and block.kind == "plain")
    assert discovery.lines == [
        "98 of 100 prompts: named something.",
        "2 of 100 prompts: the answer is no JSON: it ends in the middle.",
        "Turn 1: 61 candidates, of which 15 were kept.",
    ]
    assert any(isinstance(block, Text) and str(block.text).startswith("Not kept: Small talk (9)") for block in blocks)
    assert Text("The list of 1 domain was given.") in blocks_of(provenance(strange.empty()), "markdown")


def test_what_is_not_known_of_the_making_is_left_out() -> None:
    assert facts({}) == []


def test_an_assignment_that_is_not_proven_says_so() -> None:
    report = strange.empty()
    report["kinds"]["domain"]["assignment"] |= {"optimal": False, "bound": 12.5, "slack": None, "ties": 3}
    assert assignment(report["kinds"]["domain"]["assignment"]) == (
        "2 for each of 1 instance, total affinity 10.0, not proven optimal: at most 12.5 can be reached, bounds as given; "
        "3 instances could as well have others"
    )
    words = assignment(report["kinds"]["domain"]["assignment"] | {"slack": 0.1, "widened": 1, "ties": 0})
    assert words.endswith(", a slack of 10%, exceeded by less than one instance for 1 attribute, as the data are few")


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
