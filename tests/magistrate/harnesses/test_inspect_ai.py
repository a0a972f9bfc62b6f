"""The scorer inside inspect_ai: in an evaluation, on a log by its name, and where the judge cannot score."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from judges.data.rows import read_rows
from judges.errors import MagistrateError
from magistrate import judge as judge_once
from tests.magistrate.harnesses.test_kept import KIND
from tests.tiny import TINY

inspect_ai = pytest.importorskip(
    "inspect_ai", reason="inspect_ai is not installed; `python -m scripts.test_harnesses` installs it"
)

from inspect_ai import Task  # noqa: E402 -- behind the check that it is there
from inspect_ai.dataset import MemoryDataset, Sample  # noqa: E402
from inspect_ai.log import EvalLog, read_eval_log  # noqa: E402
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, ModelOutput, ModelUsage, get_model  # noqa: E402
from inspect_ai.solver import Generate, TaskState, solver  # noqa: E402

from magistrate.harnesses.inspect_ai import magistrate_judge  # noqa: E402

HOW: dict[str, Any] = {"engine": "transformers", "model": TINY, "dtype": "float32"}
LOG = Path(__file__).parents[2] / "data" / "harnesses" / "inspect.eval"
METRICS = ["content", "grammar", "relevance", "appropriateness"]


def evaluated(folder: Path, replies: dict[str, str | None], scorer: Any, **options: Any) -> EvalLog:
    """A run of a model that gives these replies; for ``None`` it is not asked."""

    def answer(messages: list[Any], *_: Any) -> ModelOutput:
        output = ModelOutput.from_content("mockllm/model", replies[messages[-1].text] or "")
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    @solver
    def perhaps() -> Any:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            return state if replies[state.messages[-1].text] is None else await generate(state)

        return solve

    samples = [
        Sample(id=f"q{n}", input=asked, target="Yes.", metadata={"topic": "numbers"}) for n, asked in enumerate(replies, start=1)
    ]
    samples[0].input = [ChatMessageSystem(content="Be short."), ChatMessageUser(content=str(samples[0].input))]
    task = Task(name="talk", dataset=MemoryDataset(samples), solver=perhaps(), scorer=scorer)
    model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
    (log,) = inspect_ai.eval(task, model=model, log_dir=str(folder), display="none", **options)
    assert log.status == "success", log.error
    return log


def test_a_run_has_the_scores_that_its_log_gets_here(tmp_path: Path) -> None:
    replies = {"Is 1 odd?": "Yes.", "Is 2 odd?": "No.", "Is 3 odd?": "Blue!"}
    log = evaluated(tmp_path, dict(replies), magistrate_judge("llm-eval", **HOW, expected=True))
    (written,) = tmp_path.glob("*.eval")
    verdicts = {verdict.id: verdict for verdict in judge_once(written, "llm-eval", **HOW, expected=True)}
    assert log.samples is not None
    for sample in log.samples:
        score, verdict = sample.scores["judge"], verdicts[str(sample.id)]
        assert score.value == verdict.scores
        assert score.answer == sample.output.completion
        assert score.metadata["fingerprint"] == verdict.fingerprint
        assert score.metadata["expected"]["content"]["expectation"] == pytest.approx(
            verdict.as_fields()["expected"]["content"]["expectation"]
        )
    means = {score.name: score.metrics["mean"].value for score in log.results.scores}
    assert means == pytest.approx({name: sum(one.scores[name] for one in verdicts.values()) / 3 for name in METRICS})  # type: ignore[index,misc]
    assert all("stderr" in score.metrics for score in log.results.scores)


def test_what_cannot_be_scored_is_unscored_with_its_reason_and_counts_in_no_mean(tmp_path: Path) -> None:
    replies = {"Is 1 odd?": "Yes.", "Is 2 odd?": "word " * 20_000, "Is 3 odd?": None}
    log = evaluated(tmp_path, replies, magistrate_judge("llm-eval", **HOW))
    assert log.samples is not None
    first, second, third = (sample.scores["judge"] for sample in log.samples)
    assert math.isnan(second.value)
    assert (second.reason, second.explanation[:16]) == ("scoring_failed", "context overflow")
    assert math.isnan(third.value)
    assert (third.reason, third.explanation) == ("no_response", "the sample has no answer")
    for score in log.results.scores:
        assert (score.scored_samples, score.unscored_samples) == (1, 2)
        assert score.metrics["mean"].value == first.value[score.name]
    assert [row.sample["scores"]["judge"] for row in read_rows(Path(log.location)) if row.sample] == [first.value, None]


def test_a_rubric_reads_its_own_fields_and_labels_are_metadata(tmp_path: Path) -> None:
    rubric = tmp_path / "kind.toml"
    rubric.write_text(KIND)
    scorer = magistrate_judge(str(rubric), **HOW, fields={"topic": "metadata.topic"})
    log = evaluated(tmp_path, {"Is 1 odd?": "Yes."}, scorer)
    assert log.samples is not None
    score = log.samples[0].scores["judge"]
    assert score.value["kind"] in (1, 2, 3)
    assert [*score.value] == ["kind"]
    assert score.metadata["labels"]["tone"] in ("warm", "cold")


def test_a_judge_of_labels_alone_is_refused(tmp_path: Path) -> None:
    rubric = tmp_path / "tone.toml"
    labels = KIND.replace('scale = "1-3"', 'scale = ["kind", "not"]').replace("kind = 1", 'kind = "kind"')
    rubric.write_text(labels)
    with pytest.raises(MagistrateError, match="judge `kind` gives labels and no numbers"):
        magistrate_judge(str(rubric), **HOW)


def test_a_log_is_scored_by_name_and_again_from_what_the_log_says(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("inspect")), "score", str(LOG), "--scorer", "magistrate/judge"]
    given = {"judge": "llm-eval", **HOW, "options": json.dumps({"metrics": ["content"]})}
    arguments = [part for name, value in given.items() for part in ("-S", f"{name}={value}")]
    output = tmp_path / "scored.eval"
    done = subprocess.run(
        [*command, *arguments, "--action", "append", "--output-file", str(output), "--display", "plain"],
        capture_output=True,
        text=True,
        check=False,
        # It is found as it is installed, which a checkout on the path would hide.
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    log = read_eval_log(str(output))
    verdicts = {verdict.id: verdict for verdict in judge_once(LOG, "llm-eval", options={"metrics": ["content"]}, **HOW)}
    for sample in log.samples:
        name = sample.id if sample.epoch == 1 else f"{sample.id}_epoch_{sample.epoch}"
        value = sample.scores["judge"].value
        assert (value if isinstance(value, dict) else None) == verdicts[name].scores
    (spec,) = [one for one in log.eval.scorers if one.name in ("judge", "magistrate/judge")]
    assert spec.options["model"] == TINY
    assert {row.id: row.sample["scores"]["judge"] for row in read_rows(output) if row.sample} == {
        name: verdict.scores for name, verdict in verdicts.items() if verdict.scores
    }
