"""Writes small logs of other harnesses, by the harnesses themselves, with our own texts: the tests read them.

    python -m scripts.make_harness_logs inspect lm-eval promptfoo deepeval -o tests/data/harnesses

Run it where the named tool is installed; promptfoo as ``npx promptfoo``. Nothing is asked over the network: answers are fixed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

SHOP = (
    ("q1", "When does the shop open?", "At nine.", "It opens at nine in the morning."),
    ("q2", "Do you sell tea?", "Yes.", "No idea."),
    ("q3", "Where are you?", "Mill Lane 4", "At Mill Lane 4, behind the church."),
    ("q4", "May I bring my dog?", "Yes, on a lead.", None),
)
"""Id, question, right answer, and the answer of the model under test, which fails at the last."""

FAULT = "the shop is closed"


def make_inspect(folder: Path) -> None:
    """A run of two epochs with a scorer of grades, and one of two numbers that leaves a sample unscored; as .eval and .json."""
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessageSystem, ChatMessageUser, ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import Score, Scorer, Target, includes, mean, scorer
    from inspect_ai.solver import TaskState

    replies = {question: reply for _, question, _, reply in SHOP}

    def answer(messages: Sequence[Any], *_: Any) -> ModelOutput:
        reply = replies[messages[-1].text]
        if reply is None:
            raise ValueError(FAULT)
        output = ModelOutput.from_content("mockllm/model", reply)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # it would fetch a tokenizer to count them
        return output

    @scorer(metrics={"*": [mean()]})
    def lengths() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            said = state.output.completion
            return Score.unscored() if said == "No idea." else Score(value={"words": len(said.split()), "letters": len(said)})

        return score

    asked: dict[str, Any] = {name: question for name, question, _, _ in SHOP}
    asked["q2"] = [ChatMessageSystem(content="Be short."), ChatMessageUser(content=asked["q2"])]
    samples = [Sample(id=name, input=asked[name], target=right, metadata={"topic": "shop"}) for name, _, right, _ in SHOP]
    samples[1].target = ["Yes.", "Yes, we do."]
    for form in ("eval", "json"):
        with tempfile.TemporaryDirectory() as scratch:
            task = Task(name="shop", dataset=MemoryDataset(samples), scorer=[includes(), lengths()], epochs=2)
            model = get_model("mockllm/model", custom_outputs=answer)
            options: dict[str, Any] = {"log_dir": scratch, "log_format": form, "display": "none", "fail_on_error": False}
            (log,) = evaluate(task, model=model, max_samples=1, **options)
            assert log.status == "success", log.error
            _write_without_events(log, folder / f"inspect.{form}")


def _write_without_events(log: Any, path: Path) -> None:
    """Write a log without its transcripts, which are most of it and name paths of the machine."""
    from inspect_ai.log import write_eval_log

    for sample in log.samples:
        sample.events = []
        sample.events_data = None
        sample.error_retries = None
        if sample.error is not None:
            sample.error.traceback = sample.error.traceback_ansi = ""
    log.eval.revision = log.eval.task_file = None
    write_eval_log(log, str(path))


def make_lm_eval(folder: Path) -> None:
    """A task with two filters, whose lines stand behind one another, and a task of choices, which has no answers."""
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    class Shop(LM):
        """Gives the fixed answers, and finds the first choice as likely as any."""

        def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
            return [next(reply or "" for _, asked, _, reply in SHOP if asked in one.args[0]) for one in requests]

        def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
            return [(-1.0, False) for _ in requests]

        def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
            return [-1.0 for _ in requests]

    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        rows = [{"question": asked, "answer": right} for _, asked, right, _ in SHOP]
        (place / "shop.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        for name, more in LM_EVAL_TASKS.items():
            shared = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(place / "shop.jsonl")}}}
            task = {"task": name, **shared, "test_split": "test", "doc_to_text": "Question: {{question}}\nAnswer:", **more}
            (place / f"{name}.yaml").write_text(json.dumps(task))
        manager = TaskManager(include_path=scratch, include_defaults=False)
        found = simple_evaluate(Shop(), tasks=[*LM_EVAL_TASKS], task_manager=manager, bootstrap_iters=0)
        tracker = EvaluationTracker(output_path=str(place / "out"))
        samples = found.pop("samples")
        tracker.save_results_aggregated(results=found, samples=samples)
        for name in LM_EVAL_TASKS:
            tracker.save_results_samples(task_name=name, samples=samples[name])
        for name in LM_EVAL_TASKS:
            (made,) = (place / "out").rglob(f"samples_{name}_*.jsonl")
            shutil.copy(made, folder / f"lm_eval_{name}.jsonl")
        (made,) = (place / "out").rglob("results_*.json")
        results = json.loads(made.read_text())
        kept = {name: results[name] for name in ("results", "configs", "versions", "n-shot", "lm_eval_version")}
        (folder / "lm_eval_results.json").write_text(json.dumps(kept, indent=2).replace(scratch, "/shop"))


EXACT = {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}
FILTERS = (
    {"name": "whole", "filter": [{"function": "take_first"}]},
    {"name": "first-word", "filter": [{"function": "regex", "regex_pattern": r"(\w+)"}, {"function": "take_first"}]},
)
LM_EVAL_TASKS: Mapping[str, Mapping[str, Any]] = {
    "shop": {
        "output_type": "generate_until",
        "doc_to_target": "{{answer}}",
        "filter_list": FILTERS,
        "metric_list": [EXACT],
        "generation_kwargs": {"until": ["\n"]},
    },
    "choice": {
        "output_type": "multiple_choice",
        "doc_to_choice": ["Yes.", "No."],
        "doc_to_target": 0,
        "metric_list": [{**EXACT, "metric": "acc"}],
    },
}

PROVIDER = """\
module.exports = class {
  id() { return 'shop'; }
  async callApi(prompt, context) {
    return context.vars.reply ? { output: context.vars.reply } : { error: '%s' };
  }
};
"""


def make_promptfoo(folder: Path) -> None:
    """Two prompts for each question, with assertions of a weight and of a name; as .json and .jsonl."""
    tests = [
        {
            "vars": {"question": asked, "reference": right, **({"reply": reply} if reply else {})},
            "assert": [{"type": "contains", "value": right}, {"type": "icontains", "value": "at", "metric": "place"}],
        }
        for _, asked, right, reply in SHOP
    ]
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        (place / "shop.js").write_text(PROVIDER % FAULT)
        prompts = ["{{question}}", '[{"role": "system", "content": "Be short."}, {"role": "user", "content": "{{question}}"}]']
        config = {"description": "shop", "prompts": prompts, "providers": ["file://shop.js"], "tests": tests}
        (place / "promptfooconfig.json").write_text(json.dumps(config))
        names = ("promptfoo.json", "promptfoo.jsonl")
        quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "PROMPTFOO_CONFIG_DIR": f"{scratch}/own"}
        command = ["npx", "promptfoo", "eval", "-c", str(place / "promptfooconfig.json"), "--no-cache", "--no-share"]
        outputs = [part for name in names for part in ("-o", str(place / name))]
        done = subprocess.run([*command, *outputs], env=os.environ | quiet, check=False)
        assert done.returncode in (0, 100), "100: assertions failed, as they should"
        for name in names:
            text = (place / name).read_text()
            (folder / name).write_text(text.replace(scratch, "/shop"))


def make_deepeval(folder: Path) -> None:
    """Test cases and a conversation, with metrics that ask no model."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {"DEEPEVAL_RESULTS_FOLDER": f"{scratch}/out", "DEEPEVAL_TELEMETRY_OPT_OUT": "YES"}
        os.chdir(scratch)
        from deepeval import evaluate
        from deepeval.metrics import BaseConversationalMetric, ExactMatchMetric
        from deepeval.test_case import ConversationalTestCase, LLMTestCase, Turn

        class Turns(BaseConversationalMetric):
            """Scores that somebody speaks twice."""

            threshold = 1.0

            def measure(self, test_case: Any, *_: Any, **__: Any) -> float:
                self.score = float(len(test_case.turns) > 1)
                self.success = self.score >= self.threshold
                self.reason = None
                return self.score

            async def a_measure(self, test_case: Any, *_: Any, **__: Any) -> float:
                return self.measure(test_case)

            def is_successful(self) -> bool:
                return bool(self.success)

            @property
            def __name__(self) -> str:
                return "Turns"

        cases = [
            LLMTestCase(
                name=name, input=asked, actual_output=reply, expected_output=right, retrieval_context=[f"{asked} {right}"]
            )
            for name, asked, right, reply in SHOP
            if reply
        ]
        talk = [Turn(role="user", content=SHOP[0][1]), Turn(role="assistant", content=SHOP[0][3] or "")]
        evaluate(cases, metrics=[ExactMatchMetric()])
        evaluate([ConversationalTestCase(name="talk", turns=talk)], metrics=[Turns()])
        made = sorted(Path(scratch, "out").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path, name in zip(made, ("deepeval.json", "deepeval_talk.json"), strict=True):
            shutil.copy(path, folder / name)
        shutil.copy(Path(scratch, ".deepeval", ".deepeval-cache.json"), folder / "deepeval_cache.json")


MAKERS: Mapping[str, Callable[[Path], None]] = {
    "inspect": make_inspect,
    "lm-eval": make_lm_eval,
    "promptfoo": make_promptfoo,
    "deepeval": make_deepeval,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", nargs="+", choices=[*MAKERS])
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    folder = given.output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for tool in given.tools:
        MAKERS[tool](folder)


if __name__ == "__main__":
    main()
