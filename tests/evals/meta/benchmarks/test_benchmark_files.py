"""Published files are recognised by their shape, and refused where it is unclear what their labels mean."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evals.data.choice_labels import FIRST, SECOND, TIE, labels_given
from evals.data.compared_answers import read_compared
from evals.meta.benchmarks.declared import NAMES, Name, benchmark, known_name
from evals.meta.benchmarks.files import BenchmarkSet, read_benchmark
from judges.errors import MagistrateError


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def autoj_rows(count: int = 30, labels: tuple[int, ...] = (0, 1, 2)) -> list[dict[str, Any]]:
    scenarios = [(part.values or [""])[0] for part in benchmark("autoj").part]
    return [
        {
            "scenario": scenarios[n % len(scenarios)],
            "label": labels[n % len(labels)],
            "prompt": f"q{n}",
            "response 1": "one",
            "response 2": "two",
        }
        for n in range(count)
    ]


def pandalm_rows(count: int = 30, labels: tuple[int, ...] = (0, 1, 2)) -> list[dict[str, Any]]:
    return [
        {"idx": n, "instruction": f"q{n}", "input": "", "response1": "one", "response2": "two"}
        | {f"annotator{rater}": labels[n % len(labels)] for rater in (1, 2, 3)}
        for n in range(count)
    ]


def llmbar_rows(count: int = 24, labels: tuple[int, ...] = (1, 2)) -> list[dict[str, Any]]:
    return [{"input": f"q{n}", "output_1": "one", "output_2": "two", "label": labels[n % len(labels)]} for n in range(count)]


def judgebench_rows(count: int = 24, labels: tuple[str, ...] = ("A>B", "B>A")) -> list[dict[str, Any]]:
    sources = ("mmlu-pro-law", "livebench-reasoning", "livebench-math", "livecodebench")
    return [
        {
            "pair_id": f"p{n}",
            "original_id": str(n),
            "source": sources[n % 4],
            "question": f"q{n}",
            "response_model": "gpt-4o-2024-05-13",
            "response_A": "one",
            "response_B": "two",
            "label": labels[n % len(labels)],
        }
        for n in range(count)
    ]


def rewardbench_rows(count: int = 46) -> list[dict[str, Any]]:
    parts = benchmark("rewardbench").part
    return [
        {
            "prompt": f"q{n}",
            "chosen": "good",
            "chosen_model": "m",
            "rejected": "bad",
            "rejected_model": "n",
            "subset": parts[n % len(parts)].name,
            "id": n,
        }
        for n in range(count)
    ]


def rewardbench2_rows(count: int = 20) -> list[dict[str, Any]]:
    domains = ("Factuality", "Precise IF", "Math", "Safety", "Focus")
    rows = [
        {
            "id": str(n),
            "prompt": f"q{n}",
            "chosen": ["good"],
            "rejected": ["bad", "worse", "worst"],
            "num_correct": 1,
            "num_incorrect": 3,
            "total_completions": 4,
            "models": ["a", "b", "c", "d"],
            "subset": domains[n % 5],
        }
        for n in range(count)
    ]
    for n in range(6):
        for kind, right in (("ref", 1), ("tied", 3)):
            answers = {"chosen": [f"good {place}" for place in range(right)], "rejected": ["bad", "worse"]}
            counts = {"num_correct": right, "num_incorrect": 2, "total_completions": right + 2}
            rows.append({"id": f"{kind}:{n}", "prompt": f"t{n}", **answers, **counts, "models": [], "subset": "Ties"})
    return rows


ROWS = {
    "rewardbench": rewardbench_rows,
    "rewardbench2": rewardbench2_rows,
    "judgebench": judgebench_rows,
    "llmbar": llmbar_rows,
    "pandalm": pandalm_rows,
    "autoj": autoj_rows,
}


def published(folder: Path, name: Name) -> Path:
    """A file of a benchmark as it is published, of a few rows."""
    return lines(folder / ("LLMBar_Natural.jsonl" if name == "llmbar" else f"{name}.jsonl"), ROWS[name]())


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_read_as_its_own_benchmark_and_as_no_other(name: Name, tmp_path: Path) -> None:
    path = published(tmp_path, name)
    found = read_benchmark(name, path)
    assert len(found.items) == len(ROWS[name]())
    assert found.faults == []
    assert all(f"`{column}`" in found.told for column in ("prompt", "chosen") if name.startswith("reward"))
    for other in set(NAMES) - {name}:
        with pytest.raises(MagistrateError, match=rf"is not {benchmark(other).title}'s file by its columns, but .*{name}`"):
            read_benchmark(other, path)


def meanings(found: BenchmarkSet) -> dict[str, int]:
    return {one.label: one.choice for one in found.labels}


def test_the_same_number_means_what_its_publisher_says(tmp_path: Path) -> None:
    autoj = read_benchmark("autoj", published(tmp_path, "autoj"))
    pandalm = read_benchmark("pandalm", published(tmp_path, "pandalm"))
    llmbar = read_benchmark("llmbar", published(tmp_path, "llmbar"))
    assert meanings(autoj) == {"0": FIRST, "1": SECOND, "2": TIE}
    assert meanings(pandalm) == {"0": TIE, "1": FIRST, "2": SECOND}
    assert meanings(llmbar) == {"1": FIRST, "2": SECOND}
    assert [one.right for one in autoj.items[:3]] == [FIRST, SECOND, TIE]
    assert [one.right for one in pandalm.items[:3]] == [TIE, FIRST, SECOND]
    assert [one.right for one in llmbar.items[:2]] == [FIRST, SECOND]
    assert (autoj.whose, pandalm.whose) == ("Auto-J", "PandaLM")


@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("autoj", autoj_rows(labels=(1, 2)), "none of 30 labels names the first answer by Auto-J's numbers"),
        ("autoj", autoj_rows(labels=(0, 2)), "names the second answer"),
        ("autoj", autoj_rows(labels=(0, 1, 3)), "the label `3` is not one of Auto-J's (0 is first, 1 is second, 2 is tie)"),
        ("pandalm", pandalm_rows(labels=(0, 1)), "none of 90 labels names the second answer by PandaLM's numbers"),
        ("llmbar", llmbar_rows(labels=(0, 1)), "the label `0` is not one of LLMBar's (1 is first, 2 is second)"),
        ("judgebench", judgebench_rows(labels=("0", "1")), "the label `0` is not one of JudgeBench's (A>B, B>A)"),
        ("judgebench", judgebench_rows(labels=("A>B",)), "names the second answer"),
    ],
)
def test_unclear_labels_are_refused(name: Name, rows: list[dict[str, Any]], words: str, tmp_path: Path) -> None:
    path = lines(tmp_path / "Natural" / "dataset.jsonl", rows)
    with pytest.raises(MagistrateError) as raised:
        read_benchmark(name, path)
    assert words in str(raised.value)
    assert "unclear; if they are right, say what each means: `--labels" in str(raised.value)


def test_what_the_user_says_of_labels_holds(tmp_path: Path) -> None:
    path = lines(tmp_path / "autoj.jsonl", autoj_rows(labels=(1, 2)))
    found = read_benchmark("autoj", path, labels=labels_given("first=1,second=2,tie=0"))
    assert meanings(found) == {"1": FIRST, "2": SECOND}
    assert [one.right for one in found.items[:2]] == [FIRST, SECOND]
    assert found.whose == "`--labels`"


def test_the_published_set_with_other_labels_is_refused(data: Path, tmp_path: Path) -> None:
    """PandaLM's own rows, with labels by Auto-J's convention: each number is one of PandaLM's, and means something else."""
    rows = json.loads((data / "pandalm" / "testset-v1.json").read_text())
    turned = [{**row, **{f"annotator{n}": {1: 0, 2: 1, 0: 2}[row[f"annotator{n}"]] for n in (1, 2, 3)}} for row in rows]
    with pytest.raises(MagistrateError, match=r"as many labels as PandaLM's published set: 0 1,255 times.*unclear"):
        read_benchmark("pandalm", lines(tmp_path / "turned.jsonl", turned))
    for begin in range(0, 800, 100):
        part = slice(begin, begin + 200)
        assert len(read_benchmark("pandalm", lines(tmp_path / "part.jsonl", rows[part])).items) == 200
        with pytest.raises(MagistrateError, match=r"shared out otherwise than in PandaLM's published set.*unclear"):
            read_benchmark("pandalm", lines(tmp_path / "part.jsonl", turned[part]))


def test_pandalms_own_file(data: Path) -> None:
    found = read_benchmark("pandalm", data / "pandalm" / "testset-v1.json")
    assert Counter(one.right for one in found.items) == {TIE: 105, FIRST: 422, SECOND: 472}, "as its README has them"
    assert {one.label: one.count for one in found.labels} == benchmark("pandalm").labels
    compared = read_compared(data / "pandalm" / "testset-v1.json")
    assert [one.id for one in found.items] == [one.id for one in compared.pairs]
    assert [one.right for one in found.items] == [one.majority for one in compared.pairs]


def test_columns_of_two_benchmarks_are_refused(tmp_path: Path) -> None:
    rows = [{**one, **other} for one, other in zip(autoj_rows(), llmbar_rows(30), strict=True)]
    with pytest.raises(MagistrateError, match=r"has the columns of (LLMBar and Auto-J|Auto-J and LLMBar), so nothing says"):
        read_benchmark("autoj", lines(tmp_path / "both.jsonl", rows))


def test_columns_of_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(MagistrateError, match=r"that has the columns `instruction`.* and this `a`, `b`"):
        read_benchmark("pandalm", lines(tmp_path / "x.jsonl", [{"a": 1, "b": 2}]))


def test_llmbar_is_read_from_its_folder(tmp_path: Path) -> None:
    for part, place in (("Natural", "Natural"), ("GPTOut", "Adversarial/GPTOut"), ("Manual", "Adversarial/Manual")):
        path = tmp_path / "LLMBar" / place / "dataset.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(llmbar_rows(24 if part == "Natural" else 2)))
    answers = tmp_path / "LLMBar" / "Natural" / "evaluators" / "GPT-4" / "Vanilla" / "result.json"
    answers.parent.mkdir(parents=True)
    answers.write_text("[]")
    found = read_benchmark("llmbar", tmp_path / "LLMBar")
    assert Counter(one.part for one in found.items) == {"Natural": 24, "GPTOut": 2, "Manual": 2}
    assert len({one.id for one in found.items}) == 28
    assert found.items[0].id == "llmbar-Natural-1"
    one = read_benchmark("llmbar", tmp_path / "LLMBar" / "Natural" / "dataset.json")
    assert [item.id for item in one.items] == [item.id for item in found.items[:24]]
    with pytest.raises(MagistrateError, match="nothing says which sub-set of LLMBar it is"):
        read_benchmark("llmbar", lines(tmp_path / "mine.jsonl", llmbar_rows()))
    with pytest.raises(MagistrateError, match="holds no file of LLMBar"):
        read_benchmark("llmbar", answers.parent)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("name", ["rewardbench", "rewardbench2"])
def test_rewardbench_is_read_from_any_kind_of_file(name: Name, kind: str, tmp_path: Path) -> None:
    rows = ROWS[name]()
    path = tmp_path / f"filtered.{kind}"
    if kind == "jsonl":
        lines(path, rows)
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows({key: json.dumps(one) if isinstance(one, list) else one for key, one in row.items()} for row in rows)
    found = read_benchmark(name, path)
    assert found.items == read_benchmark(name, lines(tmp_path / "other.jsonl", rows)).items
    assert [one.key for one in found.items] == [str(row["id"]) for row in rows]


def test_the_chosen_answer_stands_first_in_half_of_the_pairs(tmp_path: Path) -> None:
    found = read_benchmark("rewardbench", lines(tmp_path / "r.jsonl", rewardbench_rows(1000)))
    assert all(one.answers[0 if one.right == FIRST else 1] == "good" for one in found.items)
    assert 440 < sum(one.right == FIRST for one in found.items) < 560
    again = read_benchmark("rewardbench", lines(tmp_path / "s.jsonl", rewardbench_rows(1000)[::-1]))
    assert {one.id: one.right for one in again.items} == {one.id: one.right for one in found.items}, "by the id alone"


def test_rewardbench_2_puts_right_answers_first_and_ties_by_pairs(tmp_path: Path) -> None:
    found = read_benchmark("rewardbench2", published(tmp_path, "rewardbench2"))
    first, tied = found.items[0], found.items[-1]
    assert (first.answers, first.right, first.part) == (("good", "bad", "worse", "worst"), 1, "Factuality")
    assert (tied.right, len(tied.answers), tied.key, tied.item) == (3, 5, "tied:5", "5")


def test_rows_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    rows = rewardbench2_rows()
    rows[0]["num_correct"], rows[1]["rejected"], rows[2]["subset"], rows[-1]["id"] = 2, [], "Poetry", "7"
    found = read_benchmark("rewardbench2", lines(tmp_path / "r.jsonl", rows))
    assert {fault.what: fault.count for fault in found.faults} == {
        "has another number of chosen answers than `num_correct` says": 1,
        "has no right or no wrong answer": 1,
        "is of the sub-set `Poetry`, of which the rule says nothing": 1,
        "is of Ties, and its id is not of the form `ref:1` or `tied:1`": 1,
    }
    assert len(found.items) == len(rows) - 4
    strange = [{**row, "scenario": "poetry"} for row in autoj_rows()]
    with pytest.raises(MagistrateError, match=r"holds no row that can be used: is of `poetry`, of which the rule says nothing"):
        read_benchmark("autoj", lines(tmp_path / "a.jsonl", strange))


def test_a_row_stands_in_a_set_once(tmp_path: Path) -> None:
    with pytest.raises(MagistrateError, match="two rows have the id `rewardbench-0`"):
        read_benchmark("rewardbench", lines(tmp_path / "r.jsonl", rewardbench_rows() * 2))
    with pytest.raises(MagistrateError, match="two pairs have the id `judgebench-p0`"):
        read_benchmark("judgebench", lines(tmp_path / "j.jsonl", judgebench_rows() * 2))


def test_the_first_rows_alone(tmp_path: Path) -> None:
    assert len(read_benchmark("autoj", published(tmp_path, "autoj"), limit=5).items) == 5
    assert len(read_benchmark("rewardbench", published(tmp_path, "rewardbench"), limit=5).items) == 5


def test_versions_of_judgebench_are_those_of_its_file(tmp_path: Path) -> None:
    found = read_benchmark("judgebench", published(tmp_path, "judgebench"))
    assert found.versions == ["gpt-4o-2024-05-13"]
    assert Counter(one.part for one in found.items) == dict.fromkeys(("Knowledge", "Reasoning", "Math", "Coding"), 6)


def test_a_name_that_is_none() -> None:
    with pytest.raises(MagistrateError, match=r"no benchmark `llmbra`; there are rewardbench, .*; did you mean `llmbar`\?"):
        known_name("llmbra")
