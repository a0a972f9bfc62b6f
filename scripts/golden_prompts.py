"""Writes the golden prompts of templates by running their authors' own code.

    python scripts/golden_prompts.py CHECKOUTS

``CHECKOUTS`` holds a checkout of each repository that a template names, at the commit that it names, in a folder
``owner+name``. What the authors' code imports has to be installed beside Magistrate, best in an environment of its own:

    pip install datasets openai anthropic google-generativeai together fschat jinja2 pandas
    pip install --no-deps verl

The authors' words are not written: of each message the file keeps the SHA-256 and the number of characters.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from judges.templates.shipped import TEMPLATES

GOLDEN = Path(__file__).parents[1] / "tests" / "judges" / "templates" / "golden.json"

Sample = Mapping[str, str]
Messages = list[tuple[str, str]]

QUESTION = "Write {n} lines on {{tea}}: no jargon.\n\nKeep it short."
ANSWERS = ("Tea is a leaf.\nIt wants {hot} water.", "“Thé” — 茶 — is 3 g per cup, {{n}} times a day.\n\n```\nboil()\n```")
REFERENCE = "Tea: leaves, hot water, three minutes."
CONTEXT = "A tea bag holds 2 g."
PAIR = {"question": QUESTION, "answer_a": ANSWERS[0], "answer_b": ANSWERS[1]}
SINGLE = {"question": QUESTION, "answer": ANSWERS[1]}

LEVELS = ("nothing fits", "little fits", "half fits", "most fits", "all fits")
CRITERION = "Does the answer say how to make tea?"
FIVE = f'[[metric]]\nname = "tea"\ndescription = "{CRITERION}"\nscale = "1-5"\n[metric.levels]\n' + "".join(
    f'{number} = "{meaning}"\n' for number, meaning in enumerate(LEVELS, start=1)
)
YES_NO = f'[[metric]]\nname = "tea"\ndescription = "{CRITERION}"\nscale = ["No", "Yes"]\nlevels = {{ No = "no", Yes = "yes" }}\n'


class Authors:
    """The authors' checkouts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def folder(self, repository: str) -> Path:
        return self._folder / repository.replace("/", "+")

    def module(self, repository: str, path: str) -> ModuleType:
        """A module of a checkout by itself, with the checkout's own modules importable."""
        file = self.folder(repository) / path
        with _importable(file.parent, self.folder(repository)):
            spec = importlib.util.spec_from_file_location(f"authors_{file.stem}", file)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        return module

    def package(self, repository: str, name: str, root: str = "") -> ModuleType:
        with _importable(self.folder(repository) / root):
            return importlib.import_module(name)


@contextmanager
def _importable(*folders: Path) -> Any:
    before = list(sys.path)
    sys.path[:0] = map(str, folders)
    try:
        yield
    finally:
        sys.path[:] = before


def prometheus_absolute(authors: Authors, sample: Sample, criterion: str | None) -> Messages:
    module = authors.module("prometheus-eval/prometheus-eval", "libs/prometheus-eval/prometheus_eval/prompts.py")
    levels = {f"score{number}_description": meaning for number, meaning in enumerate(LEVELS, start=1)}
    rubric = module.SCORE_RUBRIC_TEMPLATE.format(criteria=CRITERION, **levels)
    if criterion is None:
        rubric = module.load_rubric("helpfulness", "absolute")
    template = module.get_prompt_template("absolute", "reference_answer" in sample)
    if "context" in sample:
        template = module.ABSOLUTE_PROMPT_WO_REF_RAG
    content = template.format(
        instruction=sample["question"],
        response=sample["answer"],
        rubric=rubric,
        reference_answer=sample.get("reference_answer"),
        relevant_context=sample.get("context"),
    )
    return [("user", _mistral(module.ABS_SYSTEM_PROMPT, content))]


def prometheus_relative(authors: Authors, sample: Sample, criterion: str | None) -> Messages:
    module = authors.module("prometheus-eval/prometheus-eval", "libs/prometheus-eval/prometheus_eval/prompts.py")
    content = module.get_prompt_template("relative", "reference_answer" in sample).format(
        instruction=sample["question"],
        response_A=sample["answer_a"],
        response_B=sample["answer_b"],
        rubric=module.load_rubric("helpfulness", "relative"),
        reference_answer=sample.get("reference_answer"),
    )
    return [("user", _mistral(module.REL_SYSTEM_PROMPT, content))]


def _mistral(system: str, user: str) -> str:
    """What stands between Mistral's marks of a turn, as ``prometheus_eval.judge`` has FastChat write it."""
    from fastchat.conversation import get_conv_template  # type: ignore[import-not-found]  # in the authors' environment only

    turn = get_conv_template("mistral")
    turn.set_system_message(system)
    turn.append_message(turn.roles[0], user)
    turn.append_message(turn.roles[1], None)
    return str(turn.get_prompt()).removeprefix("[INST] ").removesuffix(" [/INST]")


def selene(name: str) -> Callable[[Authors, Sample, str | None], Messages]:
    """The prompts of Selene stand in YAML files, whose README has them filled in by ``format``."""

    def prompt(authors: Authors, sample: Sample, criterion: str | None) -> Messages:
        ending = "-with-reference" if "reference_answer" in sample else ""
        file = authors.folder("atla-ai/selene-mini") / f"prompt-templates/{name}{ending}.yaml"
        template = yaml.safe_load(file.read_text(encoding="utf-8"))["user_template"]
        levels = {f"rubric_score_{number}_description": meaning for number, meaning in enumerate(LEVELS, start=1)}
        content = template.format(
            user_input=sample["question"],
            assistant_response=sample.get("answer"),
            assistant_response_a=sample.get("answer_a"),
            assistant_response_b=sample.get("answer_b"),
            reference_response=sample.get("reference_answer"),
            rubric_objective=CRITERION,
            rubric_yes_description="yes",
            rubric_no_description="no",
            **levels,
        )
        return [("user", content)]

    return prompt


def compass_judger(authors: Authors, sample: Sample, criterion: str | None) -> Messages:
    """Run the statement of the README that makes the prompt; its braces are JSON's, so names are replaced one by one."""
    readme = (authors.folder("open-compass/CompassJudger") / "README.md").read_text(encoding="utf-8")
    statement = re.search(r'^prompt = """\n.*?"""$', readme, re.DOTALL | re.MULTILINE)
    assert statement is not None
    scope: dict[str, str] = {}
    exec(statement[0], {}, scope)  # the README's own code
    named = {"{question}": sample["question"], "{answerA}": sample["answer_a"], "{answerB}": sample["answer_b"]}
    return [("user", re.sub("|".join(map(re.escape, named)), lambda match: named[match[0]], scope["prompt"]))]


def flow_judge(authors: Authors, sample: Sample, criterion: str | None) -> Messages:
    package = authors.package("flowaicom/flow-judge", "flow_judge")
    inputs = [{"query": sample["question"]}]
    inputs += [{name: sample[name]} for name in ("context", "reference_answer") if name in sample]
    items = [package.RubricItem(score=number, description=meaning) for number, meaning in enumerate(LEVELS, start=1)]
    variables = {
        "INPUTS": package.format_vars(inputs),
        "OUTPUT": package.format_vars([{"response": sample["answer"]}]),
        "EVALUATION_CRITERIA": CRITERION,
        "RUBRIC": package.format_rubric(items),
    }
    return [("user", package.format_user_prompt(variables))]


def skywork_critic(authors: Authors, sample: Sample, criterion: str | None) -> Messages:
    module = authors.module("ScalerLab/JudgeBench", "utils/prompts.py")
    given = {"input": sample["question"], "response_a": sample["answer_a"], "response_b": sample["answer_b"]}
    return [("user", module.render_template("skywork_critic_prompt", **given))]


def auto_j(authors: Authors, sample: Sample, criterion: str | None) -> Messages:
    module = authors.module("GAIR-NLP/auto-j", "codes/usage/constants_prompt.py")
    if "answer" in sample:
        return [("user", module.build_autoj_input(sample["question"], sample["answer"], protocol="single"))]
    text = module.build_autoj_input(sample["question"], sample["answer_a"], sample["answer_b"], protocol="pairwise_tie")
    return [("user", text)]


def pandalm(authors: Authors, sample: Sample, criterion: str | None) -> Messages:
    module = authors.module("WeOpenML/PandaLM", "pandalm/utils/pandalm_inference.py")
    provider = object.__new__(module.PandaLMBatchInferenceProvider)  # its maker loads the model
    provider.pattern = re.compile(r"(?!)")
    answers = sample["answer_a"], sample["answer_b"]
    return [("user", provider.build_pandalm_prompt(sample["question"], sample.get("input"), *answers))]


def judgelm(authors: Authors, sample: Sample, criterion: str | None) -> Messages:
    module = authors.module("baaivision/JudgeLM", "judgelm/llm_judge/common.py")
    turn = module.conv_judge_pair_w_reference if "reference_answer" in sample else module.conv_judge_pair
    filled = turn.prompt_template.format(
        question=sample["question"],
        reference=sample.get("reference_answer"),
        answer_1=sample["answer_a"],
        answer_2=sample["answer_b"],
        prompt=turn.prompt,
    )
    return [("user", turn.system + "\n" + filled + turn.appendix)]


def reward_bench(modifier: str) -> Callable[[Authors, Sample, str | None], Messages]:
    """The prompts of judges that RewardBench asks in their own words."""

    def prompt(authors: Authors, sample: Sample, criterion: str | None) -> Messages:
        module = authors.module("allenai/reward-bench", "rewardbench/generative.py")
        turns = ([{}, {"content": sample[name]}] for name in ("answer_a", "answer_b"))
        _, user = module.format_judge_answers(sample["question"], *turns, model_modifier=modifier)
        return [("user", user)]

    return prompt


def judgelrm(authors: Authors, sample: Sample, criterion: str | None) -> Messages:
    module = authors.module("NuoJohnChen/JudgeLRM", "src/examples/data_preprocess/judgelrm.py")
    row = {"question_body": sample["question"], "answer1_body": sample["answer_a"], "answer2_body": sample["answer_b"]}
    text = module.make_prefix(row, template_type="qwen-instruct")
    turns = re.findall(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>\n|$)", text, re.DOTALL)
    return [(role, content) for role, content in turns if role != "assistant"]


def j1(authors: Authors, sample: Sample, criterion: str | None) -> Messages:
    module = authors.module("haizelabs/j1-micro", "utils.py")
    user = module.judge_prompt_format(sample["question"], sample["answer_a"], sample["answer_b"])
    return [("system", module.judge_system_prompt()), ("user", user)]


def mr3(authors: Authors, sample: Sample, criterion: str | None) -> Messages:
    """The conversation that the authors' class builds, with the first rubric in the order of their file."""
    package = authors.package("rubricreward/mr3", "src.evaluation.dataset_gen")
    folder = authors.folder("rubricreward/mr3") / "data" / "mr3_rubrics"
    built = object.__new__(package.ArenaHumanPreferenceDataset)  # its maker loads a tokenizer
    for name, file in (
        ("translated_template_dictionary", "lmarena_translated_templates"),
        ("instruction_templated_dict", "instruction_msg_translated"),
        ("system_msg_templated_dict", "system_msg_translated_qwen3"),
    ):
        setattr(built, name, json.loads((folder / f"{file}.json").read_text(encoding="utf-8")))
    conversation: Messages = []

    def keep(developer: str, user: str, language: str, think: bool) -> str:
        conversation[:] = [("system", f"{built.system_msg_templated_dict['en']}\n\n{developer}"), ("user", user)]
        return ""

    built.get_final_prompt = keep
    first = lambda rubrics, name: "".join(f"{key}: {text}\n" for key, text in rubrics[0].items())  # noqa: E731
    setattr(package, "get_reproducible_rubric_str", first)  # noqa: B010
    asked: dict[str, Any] = {"role": "user", "content": [{"text": sample["question"]}]}
    row: dict[str, Any] = {"id": "1", "language": "en", "conv_metadata": {"turns": 1}}
    for letter in "ab":
        answer = {"role": "assistant", "content": [{"text": sample[f"answer_{letter}"]}]}
        row[f"conversation_{letter}"] = [asked, answer]
    built.build_conversation(row)
    return conversation


Peer = Callable[[Authors, Sample, str | None], Messages]

CASES: Mapping[str, tuple[Peer, list[tuple[dict[str, str], dict[str, str]]]]] = {
    "prometheus-absolute": (
        prometheus_absolute,
        [
            (SINGLE, {"criteria": FIVE}),
            (SINGLE, {}),
            ({**SINGLE, "reference_answer": REFERENCE}, {"criteria": FIVE}),
            ({**SINGLE, "context": CONTEXT}, {}),
        ],
    ),
    "prometheus-relative": (prometheus_relative, [(PAIR, {}), ({**PAIR, "reference_answer": REFERENCE}, {})]),
    "selene-absolute": (
        selene("absolute-scoring"),
        [(SINGLE, {"criteria": FIVE}), ({**SINGLE, "reference_answer": REFERENCE}, {"criteria": FIVE})],
    ),
    "selene-classification": (
        selene("classification"),
        [(SINGLE, {"criteria": YES_NO}), ({**SINGLE, "reference_answer": REFERENCE}, {"criteria": YES_NO})],
    ),
    "selene-pairwise": (selene("pairwise"), [(PAIR, {"criteria": FIVE})]),
    "compass-judger": (compass_judger, [(PAIR, {})]),
    "flow-judge": (
        flow_judge,
        [({**SINGLE, **more}, {"criteria": FIVE}) for more in ({}, {"context": CONTEXT}, {"reference_answer": REFERENCE})],
    ),
    "skywork-critic": (skywork_critic, [(PAIR, {})]),
    "auto-j": (auto_j, [(SINGLE, {})]),
    "auto-j-pairwise": (auto_j, [(PAIR, {})]),
    "pandalm": (pandalm, [(PAIR, {}), ({**PAIR, "input": CONTEXT}, {})]),
    "judgelm": (judgelm, [(PAIR, {}), ({**PAIR, "reference_answer": REFERENCE}, {})]),
    "rise": (reward_bench("RISE-Judge"), [(PAIR, {})]),
    "con-j": (reward_bench("Con-J"), [(PAIR, {})]),
    "judgelrm": (judgelrm, [(PAIR, {})]),
    "j1": (j1, [(PAIR, {})]),
    "mr3": (mr3, [(PAIR, {})]),
}
"""Judge to its authors' code, and the samples and options that are asked about."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path)
    authors = Authors(parser.parse_args().checkouts)
    golden = []
    for name, (peer, cases) in CASES.items():
        for source in TEMPLATES[name].file.sources:
            content = (authors.folder(source.repository) / source.path).read_bytes()
            assert hashlib.sha256(content).hexdigest() == source.sha256, f"{source} is another file"
        for sample, options in cases:
            messages = peer(authors, sample, options.get("criteria"))
            digests = [[role, hashlib.sha256(text.encode()).hexdigest(), len(text)] for role, text in messages]
            golden.append({"judge": name, "options": options, "sample": sample, "messages": digests})
    GOLDEN.write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{len(golden)} prompts of {len(CASES)} judges: {GOLDEN}")


if __name__ == "__main__":
    main()
