"""Conversations of GroUSE: what is asked, what is learned, and who is kept apart."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from finetune.data.conversations import Rejected, read_conversations
from finetune.data.grouse import read_verdicts, split, write_split
from judges.data.rows import Row
from judges.errors import MagistrateError
from judges.grouse import Grouse
from judges.runner import prepare
from judges.verdict import Verdict
from tests.finetune.training_runs import ENVIRONMENT, write_recipe


def graded(score: int | None) -> dict[str, Any]:
    """An answer of the judge, with the same grades for both answers."""
    relevancy = {"answer_affirms_no_document_answers": False, "answer_relevancy_justification": "Yes.", "answer_relevancy": score}
    usefulness = {
        "answer_affirms_no_document_answers": False,
        "answer_contains_related_information": False,
        "usefulness_justification": "It is “so”.",
        "usefulness": None,
    }
    sentence = {"sentence": "S [1].", "criterion_1": "a", "criterion_2": "b", "criterion_3": "c"}
    faithfulness = {
        "answer_only_asserts_no_document_answers": False,
        "content_analysis_sentence_by_sentence": [sentence],
        "faithfulness_justification": "Sourced.",
        "faithfulness": 1,
    }
    parts = {
        "answer_relevancy": relevancy,
        "completeness": {"completeness_justification": "All.", "completeness": score},
        "usefulness": usefulness,
        "faithfulness": faithfulness,
    }
    return {metric: {"answer_1": part, "answer_2": part} for metric, part in parts.items()}


def sample(number: int, question: str) -> Row:
    fields = {
        "id": f"s{number}",
        "input": question,
        "references": [f"Paris is the capital of France, {number}."],
        "expected_output": "Paris [1].",
        "actual_output": f"It is Marseille {number}.",
    }
    return Row(f"s{number}", f"row {number}", fields)


def verdict(row: Row, score: int = 5, *, per_metric: bool = True, **changed: Any) -> Verdict:
    judge = Grouse(per_metric=True, prompts="card") if per_metric else Grouse()
    reading = Grouse().read(json.dumps(graded(score)))
    fields = {"scores": reading.scores, "detail": reading.detail, "status": "scored"} | changed
    return Verdict(id=row.id, judge="grouse", sample=prepare(row, judge).key, fingerprint="f", **fields)


SAMPLES = [sample(number, f"Question {number // 3}?") for number in range(30)]


def test_what_is_learned_is_the_cards_one_prompt_and_an_answer_as_it_is_constrained() -> None:
    found = split(SAMPLES, map(verdict, SAMPLES), training=20, validation=6)
    assert (len(found.training), len(found.validation), found.unused) == (18, 6, 6)
    one = found.training[0]
    row = next(row for row in SAMPLES if row.id == one.id)
    (asked,) = Grouse().render(row.sample or {}).prompts
    assert one.messages[:-1] == asked.messages
    answer = one.messages[-1].content
    assert asked.form.read(answer)
    assert json.loads(answer) == graded(5)
    assert "“so”" in answer, "what people write is not spelt in escapes"
    assert answer.startswith('{"answer_relevancy": {"answer_1": {"answer_affirms_no_document_answers": false, ')


def test_answers_are_learned_as_they_are_constrained_when_indented() -> None:
    (pattern,) = [form.pattern for form in Grouse(indented=True).forms]
    indented = split(SAMPLES, map(verdict, SAMPLES), training=20, validation=6, indented=True)
    on_one_line = split(SAMPLES, map(verdict, SAMPLES), training=20, validation=6)
    for one, other in zip(indented.training, on_one_line.training, strict=True):
        answer = one.messages[-1].content
        assert re.fullmatch(pattern, answer)
        assert json.loads(answer) == json.loads(other.messages[-1].content)
        assert one.messages[:-1] == other.messages[:-1]


def test_no_question_is_in_both() -> None:
    found = split(SAMPLES, map(verdict, SAMPLES), training=15, validation=9, seed=3)
    questions = [{row.sample["input"] for row in SAMPLES if row.sample and row.id in {one.id for one in part}} for part in (
        found.training, found.validation)]  # fmt: skip
    assert not questions[0] & questions[1]
    assert split(SAMPLES, map(verdict, SAMPLES), training=15, validation=9, seed=3) == found
    assert split(SAMPLES, map(verdict, SAMPLES), training=15, validation=9, seed=4) != found


def test_verdicts_of_one_prompt_count_as_well() -> None:
    made = [verdict(row, per_metric=False) for row in reversed(SAMPLES)]
    assert len(split(SAMPLES, made, training=20, validation=6).training) == 18


def test_a_sample_without_a_score_of_its_own_is_rejected_with_the_reason() -> None:
    changed = Row("s2", "row 2", dict(SAMPLES[2].sample or {}) | {"actual_output": "Another answer."})
    broken = Row("s3", "row 3", {"id": "s3", "input": "?"})
    samples = [*SAMPLES[:2], changed, broken, *SAMPLES[4:]]
    verdicts = [verdict(row) for row in SAMPLES[1:]]
    verdicts.append(verdict(SAMPLES[0], status="unscored", reason="no JSON", scores=None, detail=None))
    verdicts[4] = verdict(SAMPLES[5], detail={"answer_relevancy": {}})
    found = split(samples, verdicts, training=12, validation=3)
    reasons = {one.id: one.reason for one in found.rejected}
    assert reasons["s0"] == "no JSON"
    assert reasons["s2"] == reasons["s3"] == "it has no verdict"
    assert reasons["s5"].startswith("its verdict is not an answer to the prompt: answer_relevancy")
    assert len(reasons) == 4


def test_too_few_samples_are_told() -> None:
    with pytest.raises(MagistrateError, match="1,000 samples to train on and 200 to validate on are needed, but there are 29; 1"):
        split(SAMPLES, [verdict(row) for row in SAMPLES[1:]])
    same = [sample(number, "The one question?") for number in range(8)]
    with pytest.raises(MagistrateError, match="the 8 samples have 1 question, too few"):
        split(same, map(verdict, same), training=4, validation=4)


def test_a_file_of_other_verdicts_is_told(tmp_path: Path) -> None:
    file = tmp_path / "v.jsonl"
    file.write_text('{"id": "a"}\n')
    with pytest.raises(MagistrateError, match="line 1 is not a Magistrate verdict: field `judge` is missing"):
        read_verdicts(file)
    file.write_text(verdict(SAMPLES[0]).to_json().replace('"judge": "grouse"', '"judge": "llm-eval"') + "\n")
    with pytest.raises(MagistrateError, match=r"line 1 is a verdict of `llm-eval`"):
        read_verdicts(file)
    with pytest.raises(MagistrateError, match=r"none.jsonl cannot be read: No such file"):
        read_verdicts(tmp_path / "none.jsonl")


def test_rows_on_disk_are_what_the_training_command_reads(tmp_path: Path) -> None:
    found = split(SAMPLES, [verdict(row) for row in SAMPLES[1:]], training=18, validation=6)
    write_split(found, tmp_path)
    assert list(read_conversations(tmp_path / "training.jsonl")) == found.training
    assert list(read_conversations(tmp_path / "validation.jsonl")) == found.validation
    assert [Rejected(**json.loads(line)) for line in (tmp_path / "rejected.jsonl").read_text().splitlines()] == found.rejected


def test_a_model_is_taught_by_one_command(tmp_path: Path) -> None:
    rows = [dict(row.sample or {}) for row in SAMPLES]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "verdicts.jsonl").write_text("".join(verdict(row).to_json() + "\n" for row in SAMPLES))
    recipe = write_recipe(tmp_path, steps=1, checkpoints=1)
    recipe.write_text(recipe.read_text().replace("length = 256", "length = 8192"))
    options = ["--data", tmp_path / "samples.jsonl", "--verdicts", tmp_path / "verdicts.jsonl", "-o", tmp_path / "out"]
    options += ["--training", "3", "--held-out", "3", "--recipe", recipe, "--report-to", "none"]
    command = [sys.executable, "-m", "magistrate", "finetune", "grouse", *map(str, options)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "3 samples to train on, 3 to validate on, 24 more; 0 cannot be learned from" in done.stderr
    assert (tmp_path / "out" / "adapter" / "adapter_model.safetensors").is_file()
    both = subprocess.run([*command, "--model", "x"], env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    assert both.stderr == "magistrate: give either --verdicts, or --model to grade the samples now\n"
