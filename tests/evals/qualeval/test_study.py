"""A study from end to end, on real data and a real engine."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from evals.data.tasks import Dataset, Task, read_dataset, read_predictions
from evals.metrics.catalog import open_metric
from evals.qualeval import Options, Study, run_study
from evals.qualeval.attributes import given
from judges.engines.engine import Engine
from judges.errors import MagistrateError

DATA = Path(__file__).parents[4] / "shared" / "data" / "dialogsum" / "dialogsum.dev.jsonl"
COUNT = 8
DOMAINS = ["Work", 'Say "hi" 👋 </script>', "x" * 500]
SUBTASKS = ["Name the speakers", "Find the topic"]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    if not DATA.exists():
        pytest.skip("the DialogSum data is not here")
    return read_dataset(Task.load("dialogsum"), DATA, COUNT)


def say(folder: Path, dataset: Dataset, name: str, leave_out: int = 0) -> Path:
    """Answers of a model that repeats how the conversation begins."""
    rows = [{"id": one.id, "prediction": one.input.splitlines()[0]} for one in dataset.instances[leave_out:]]
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def study_of(dataset: Dataset, folder: Path, **options: Any) -> Study:
    predictions = [
        read_predictions(name, say(folder, dataset, name, left), dataset) for name, left in (("first", 0), ("second", 2))
    ]
    lists = {"domain": given("domain", DOMAINS), "subtask": given("subtask", SUBTASKS)}
    task = Task.load("dialogsum")
    return Study(
        task=task,
        dataset=dataset,
        predictions=predictions,
        metric=open_metric(task.metric, {}),
        attributes=lists,  # type: ignore[arg-type]
        options=Options(rounds=200, **options),
    )


def test_a_study_leaves_what_it_says_and_asks_for_nothing_twice(
    loop: asyncio.Runner, vllm_engine: Engine, dataset: Dataset, tmp_path: Path
) -> None:
    folder = tmp_path / "report"
    study = study_of(dataset, tmp_path)
    report = loop.run(run_study(study, folder, vllm_engine))
    asked = report["made"]["asked"]
    assert asked == {
        "rate domain of input": {"now": COUNT, "before": 0},
        "rate subtask of truth": {"now": COUNT, "before": 0},
        "rate subtask of first": {"now": COUNT, "before": 0},
        "rate subtask of second": {"now": COUNT - 2, "before": 0},
        "insights": {"now": 6, "before": 0},
    }
    assert json.loads((folder / "report.json").read_text()) == report
    assert report["counts"]["faults"] == [
        {"what": "prediction missing", "count": 2, "ids": ["dev_0", "dev_1"], "model": "second"}
    ]

    # Figures in the report are those of the tables beside it.
    values = pyarrow.parquet.read_table(folder / "values.parquet").to_pydict()
    overall = {model["name"]: model["overall"] for model in report["models"]}
    assert overall["first"]["value"] == pytest.approx(np.mean(values["first"]), abs=1e-4)
    assert values["second"][:2] == [None, None]
    chosen = pyarrow.parquet.read_table(folder / "assignments.parquet").to_pydict()
    assert all(len(set(row)) == 2 and set(row) <= set(DOMAINS) for row in chosen["domain"])
    for attribute in report["kinds"]["domain"]["attributes"]:
        has = [number for number, row in enumerate(chosen["domain"]) if attribute["name"] in row]
        assert attribute["instances"] == len(has)
        if has:
            mean = np.mean([values["first"][number] for number in has])
            assert attribute["proficiency"]["first"]["value"] == pytest.approx(mean, abs=1e-4)
    assert report["kinds"]["domain"]["assignment"]["optimal"]
    affinities = pyarrow.parquet.read_table(folder / "affinities.parquet").to_pandas()
    assert len(affinities) == COUNT * len(DOMAINS) + (3 * COUNT - 2) * len(SUBTASKS)
    assert set(affinities["score"]) <= {1, 2, 3, 4, 5}
    assert affinities["expected"].between(1, 5).all()
    truth, first = (
        affinities[(affinities["of"] == of) & (affinities["attribute"] == SUBTASKS[0])].set_index("id")["score"]
        for of in ("truth", "first")
    )
    distance = float(((truth - first).abs() > 1).mean())
    found = report["kinds"]["subtask"]["attributes"][0]["calibration"]["first"]
    assert (found["distance"], found["instances"]) == (pytest.approx(distance, abs=1e-4), COUNT)

    assert [(insight["model"], insight["kind"]) for insight in report["insights"]] == [
        (model, kind) for model in ("first", "second") for kind in ("all", "domain", "subtask")
    ]
    ends = json.loads((folder / "extremes.json").read_text())
    for model, kind, attribute in {(end["model"], end["kind"], end["attribute"]) for end in ends}:
        has = [value for row, value in zip(chosen[kind], values[model], strict=True) if attribute in row and value is not None]
        highest, lowest = (
            [end["value"] for end in ends if (end["model"], end["attribute"], end["end"]) == (model, attribute, side)]
            for side in ("highest", "lowest")
        )
        assert highest == [round(value, 3) for value in sorted(has, reverse=True)[:3]]
        assert lowest == [round(value, 3) for value in sorted(has)[: max(0, min(3, len(has) - 3))]]

    # Only answers that reach the value count in calibration, and among the examples.
    least = sorted(values["first"])[COUNT // 2]
    options = replace(study.options, proficient=least)
    strict = loop.run(run_study(replace(study, options=options), shutil.copytree(folder, tmp_path / "strict"), vllm_engine))
    good = {row: value >= least for row, value in zip(values["id"], values["first"], strict=True)}
    apart = ((truth - first).abs() > 1)[[row for row, is_good in good.items() if is_good]]
    calibration = strict["kinds"]["subtask"]["attributes"][0]["calibration"]["first"]
    assert calibration["distance"] == pytest.approx(float(apart.mean()), abs=1e-4)
    assert calibration["instances"] == sum(good.values()) < COUNT
    assert all(good[sample["id"]] for sample in strict["samples"] if sample["model"] == "first")

    again = loop.run(run_study(study, folder, vllm_engine))
    assert all(counts["now"] == 0 for counts in again["made"]["asked"].values())
    assert {key: value for key, value in again.items() if key != "made"} == {
        key: value for key, value in report.items() if key != "made"
    }

    # Another list asks anew, and the first one's verdicts are still there for it.
    edited = study_of(dataset, tmp_path)
    edited.attributes["domain"].attributes.pop()
    other = loop.run(run_study(edited, folder, vllm_engine))
    assert other["made"]["asked"]["rate domain of input"] == {"now": COUNT, "before": 0}
    assert other["made"]["asked"]["rate subtask of truth"] == {"now": 0, "before": COUNT}
    back = loop.run(run_study(study, folder, vllm_engine))
    assert back["made"]["asked"]["rate domain of input"] == {"now": 0, "before": COUNT}


def test_attributes_are_discovered_merged_and_accounted_for(
    loop: asyncio.Runner, vllm_engine: Engine, dataset: Dataset, tmp_path: Path
) -> None:
    study = Study(
        task=Task.load("dialogsum"),
        dataset=Dataset(dataset.instances, []),
        predictions=[],
        metric=open_metric("exact", {}),
        options=Options(most=3, examples=2, rounds=50),
    )
    report = loop.run(run_study(study, tmp_path, vllm_engine))
    for kind in ("domain", "subtask"):
        found = report["kinds"][kind]
        prompts = found["discovery"]["prompts"]
        assert prompts.pop("named something") == COUNT // 2
        assert all(why.endswith(": too few") for why in prompts), "a list that is shorter than an instance needs is not taken"
        assert 2 <= len(found["attributes"]) <= 3
        assert found["discovery"]["turns"][-1]["left"] == len(found["attributes"]), "the last turn is always asked for"
        dropped = sum(one["mentions"] for one in found["discovery"]["dropped"])
        named = json.loads((tmp_path / "attributes.json").read_text())[kind]["attributes"]
        verdicts = [json.loads(line) for file in (tmp_path / "verdicts").glob(f"discover_{kind}*.jsonl") for line in file.open()]
        assert sum(len(one["detail"]["attributes"]) for one in verdicts) == dropped + sum(one["mentions"] for one in named)
    assert (report["models"], report["samples"], report["insights"]) == ([], [], [])

    # The task instruction is part of what every judge is asked; there is nothing to sum up.
    asked = {"discover domain", "discover subtask", "rate domain of input", "rate subtask of truth"}
    task = study.task.model_copy(update={"instruction": "Say who speaks."})
    other = loop.run(run_study(replace(study, task=task), tmp_path, vllm_engine))["made"]
    before = report["made"]["fingerprints"]
    assert {name for name, digest in other["fingerprints"].items() if digest == before.get(name)} == {"insights"}
    assert asked < set(other["fingerprints"])
    assert any(name.startswith("shrink domain") for name in other["fingerprints"])
    assert all(counts["before"] == 0 for counts in other["asked"].values())


def test_one_instance_is_a_data_set_too(loop: asyncio.Runner, vllm_engine: Engine, dataset: Dataset, tmp_path: Path) -> None:
    one = Dataset(dataset.instances[2:3], [])
    study = Study(
        task=Task.load("dialogsum"),
        dataset=one,
        predictions=[read_predictions("m", say(tmp_path, one, "m"), one)],
        metric=open_metric("rouge-l", {}),
        attributes={"domain": given("domain", DOMAINS), "subtask": given("subtask", SUBTASKS)},
        options=Options(rounds=50),
    )
    report = loop.run(run_study(study, tmp_path / "report", vllm_engine))
    assert report["models"][0]["overall"]["instances"] == 1
    assert report["models"][0]["overall"]["low"] is None


def test_fewer_attributes_than_an_instance_is_given_is_one_sentence(
    loop: asyncio.Runner, vllm_engine: Engine, dataset: Dataset, tmp_path: Path
) -> None:
    study = Study(
        task=Task.load("dialogsum"),
        dataset=dataset,
        predictions=[],
        metric=open_metric("exact", {}),
        attributes={"domain": given("domain", ["Work"]), "subtask": given("subtask", SUBTASKS)},
    )
    with pytest.raises(MagistrateError, match=r"1 domain.* 2"):
        loop.run(run_study(study, tmp_path, vllm_engine))


def test_models_need_names_of_their_own(dataset: Dataset, tmp_path: Path) -> None:
    one = read_predictions("m", say(tmp_path, dataset, "m"), dataset)

    def of(*names: str) -> Study:
        predictions = [replace(one, model=name) for name in names]
        return Study(task=Task.load("dialogsum"), dataset=dataset, predictions=predictions, metric=open_metric("exact", {}))

    assert of("m", "M", "n")
    for names, told in (
        (("m", "m"), "two models are called `m`"),
        (("a b", "a_b"), "the models `a b` and `a_b` would share a file of verdicts"),
        (("x" * 70 + "a", "x" * 70 + "b"), "would share a file of verdicts"),
        (("x" * 201,), "has a name of 201 characters; give one of at most 200"),
        (("truth",), "cannot be called `truth`"),
    ):
        with pytest.raises(MagistrateError, match=told):
            of(*names)


def test_a_number_out_of_range_is_one_sentence() -> None:
    for options, told in (
        ({"slack": float("inf")}, "`slack` is inf: give a number from 0, or `auto`"),
        ({"slack": -0.1}, "`slack` is -0.1"),
        ({"most": 121}, "`most` is 121: give a number up to 120"),
        ({"k": 11}, "an instance cannot be given 11 of 10 attributes"),
    ):
        with pytest.raises(MagistrateError, match=told):
            Options(**options)


@pytest.mark.parametrize(
    ("name", "file"), [("mbpp", "mbpp/sanitized-mbpp.json"), ("mmlu", "mmlu/test/clinical_knowledge_test.csv")]
)
def test_answers_that_are_the_truth_are_right_in_every_task(
    loop: asyncio.Runner, vllm_engine: Engine, tmp_path: Path, name: str, file: str
) -> None:
    path = DATA.parents[1] / file
    if not path.exists():
        pytest.skip(f"{file} is not here")
    task = Task.load(name)
    data = read_dataset(task, path, 4)
    said = tmp_path / "right.jsonl"
    said.write_text("".join(json.dumps({"id": one.id, "prediction": one.truth}) + "\n" for one in data.instances))
    study = Study(
        task=task,
        dataset=data,
        predictions=[read_predictions("right", said, data)],
        metric=open_metric(task.metric, task.metric_options),
        attributes={"domain": given("domain", DOMAINS[:2]), "subtask": given("subtask", SUBTASKS)},
        options=Options(rounds=50),
    )
    report = loop.run(run_study(study, tmp_path / "report", vllm_engine))
    assert report["models"] == [{"name": "right", "overall": {"value": 1.0, "low": 1.0, "high": 1.0, "instances": 4}}]
    calibrations = [attribute["calibration"] for attribute in report["kinds"]["subtask"]["attributes"]]
    if name == "mbpp":
        # Both sides are asked the same of the same program, so none is apart.
        assert [of_model["right"]["distance"] for of_model in calibrations] == [0.0] * len(SUBTASKS)
        return
    # A letter uses no sub-task: the input is rated, once, in the words that figure 9 has for MMLU.
    assert calibrations == [{}] * len(SUBTASKS)
    assert {"rate domain of input", "rate subtask of input", "insights"} == set(report["made"]["asked"])
    assert list(report["kinds"]["subtask"]["affinity_shares"]) == ["input"]
