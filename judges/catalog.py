"""The judges and the models that go by a short name: which model, which judge, which decoding."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from judges.affinity import Affinity, Evidence, Output
from judges.discovery import Discovery, Shrink, Task
from judges.engines import weights
from judges.errors import MagistrateError
from judges.grouse import Grouse
from judges.insight import Insight
from judges.judge import Judge
from judges.jury import JURY
from judges.llm_eval import SCALES, LLMEval
from judges.located import SUFFIXES
from judges.pairwise import Disagreement, Language, Orders, Pairwise
from judges.qualeval import Kind
from judges.rubric import Rubric


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a judge.

    Attributes:
        read: Its value from text; a ValueError's words say what is wrong.
        says: What it may be, for a listing: its values, or a word in capitals.
    """

    read: Callable[[str], Any]
    says: str


def _one_of(*legal: str) -> Option:
    def read(text: str) -> str:
        if text not in legal:
            raise ValueError(f"must be one of {', '.join(legal)}")
        return text

    return Option(read, ", ".join(legal))


def _read_switch(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError("must be yes or no")
    return text == "yes"


def _read_whole(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or int(text) < 1:
        raise ValueError("must be a whole number from 1")
    return int(text)


NAMES = "a file of names, a JSON list or one a line"


def _read_names(text: str) -> list[str]:
    """Names from a file: a JSON list of strings, or one a line."""
    try:
        content = Path(text).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"must be {NAMES}; {text} cannot be read ({error})") from None
    if not content.lstrip().startswith("["):
        return [line.strip() for line in content.splitlines() if line.strip()]
    try:
        names = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not a JSON list: {error}") from None
    if not all(isinstance(name, str) for name in names):
        raise ValueError("must be a list of strings")
    return list(names)


def _read_factor(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("must be a number") from None


SWITCH = Option(_read_switch, "yes, no")
WHOLE = Option(_read_whole, "NUMBER")
KIND = _one_of(*get_args(Kind))


@dataclass(frozen=True, slots=True)
class JudgeEntry:
    """A judge that can be called by name.

    Attributes:
        make: Makes it; its keywords are the options.
        asks: What it judges, in a line.
        needs: The fields of a sample.
        source: Where the method comes from.
        options: Name to option.
        required: Options that must be given.
    """

    make: Callable[..., Judge]
    asks: str
    needs: str
    source: str
    options: Mapping[str, Option] = field(default_factory=dict)
    required: tuple[str, ...] = ()


QUALEVAL = "https://arxiv.org/abs/2311.02807"

JUDGES: Mapping[str, JudgeEntry] = {
    LLMEval.name: JudgeEntry(
        LLMEval,
        asks="a reply, or a whole dialogue: content, grammar, relevance, appropriateness, or metrics of your own",
        needs="context, response, and reference where there is one; or dialogue",
        source="https://arxiv.org/abs/2305.13711",
        options={"scale": _one_of(*SCALES), "use_reference": SWITCH},
    ),
    Grouse.name: JudgeEntry(
        Grouse,
        asks="an answer grounded in references: relevancy, completeness, usefulness, faithfulness",
        needs="input, actual_output, expected_output, references",
        source="https://arxiv.org/abs/2409.06595",
        options={"per_metric": SWITCH, "max_tokens": WHOLE},
    ),
    Pairwise.name: JudgeEntry(
        Pairwise,
        asks="which of two answers is better, in both orders",
        needs="question, answer_a, answer_b; reference_answer and evaluating_guidance where there are any",
        source="https://github.com/open-compass/opencompass",
        options={
            "orders": _one_of(*get_args(Orders)),
            "disagreement": _one_of(*get_args(Disagreement)),
            "language": _one_of(*get_args(Language)),
            "reasoning": SWITCH,
            "max_tokens": WHOLE,
        },
    ),
    Affinity.name: JudgeEntry(
        Affinity,
        asks="how much an instance has of each attribute, 1 to 5, with evidence",
        needs="input; ground_truth or generation where that is shown",
        source=QUALEVAL,
        options={
            "attributes": Option(_read_names, "FILE"),
            "kind": KIND,
            "output": _one_of(*get_args(Output)),
            "evidence": _one_of(*get_args(Evidence)),
        },
        required=("attributes",),
    ),
    Discovery.name: JudgeEntry(
        Discovery,
        asks="which domains or sub-tasks a few instances have",
        needs="examples: a list",
        source=QUALEVAL,
        options={"kind": KIND, "task": _one_of(*get_args(Task)), "most": WHOLE},
    ),
    Shrink.name: JudgeEntry(
        Shrink,
        asks="which of many attributes are the best",
        needs="attributes: a list",
        source=QUALEVAL,
        options={"kind": KIND, "factor": Option(_read_factor, "NUMBER"), "least": WHOLE},
    ),
    Insight.name: JudgeEntry(
        Insight,
        asks="what the figures of a breakdown say, in a few sentences",
        needs="task_instruction, priors, proficiency; distances where there are any",
        source=QUALEVAL,
        options={"most": WHOLE},
    ),
}

RUBRIC = JudgeEntry(Rubric.load, "metrics of your own", "the fields that the rubric names", "the file", {"reasoning": SWITCH})


def open_judge(name: str, options: Mapping[str, str] | None = None, **given: Any) -> Judge:
    """A judge by name, or from a rubric file.

    Args:
        name: A name in ``JUDGES``, or a ``.toml``, ``.yaml`` or ``.yml`` file.
        options: Options as text.
        given: Options as values; those that are ``None`` are left at their defaults.

    Raises:
        MagistrateError: There is no such judge or option, an option has a value it may not have, or the rubric is not in order.
    """
    file = Path(name) if Path(name).suffix.lower() in SUFFIXES else None
    if file is None and name not in JUDGES:
        listed = ", ".join(JUDGES)
        raise MagistrateError(f"there is no judge `{name}`; there are {listed}, and rubrics: files in .toml or .yaml")
    entry = RUBRIC if file else JUDGES[name]
    values = {key: value for key, value in given.items() if value is not None}
    for key, text in (options or {}).items():
        if key not in entry.options:
            known = ", ".join(entry.options) or "none"
            raise MagistrateError(f"judge `{name}` has no option `{key}`; it has: {known}")
        if key in values:
            raise MagistrateError(f"option `{key}` of judge `{name}` is given twice")
        try:
            values[key] = entry.options[key].read(text)
        except ValueError as error:
            raise MagistrateError(f"option `{key}` of judge `{name}` {error}") from None
    for key in entry.required:
        if key not in values:
            raise MagistrateError(f"judge `{name}` needs `-O {key}=FILE`: {NAMES}")
    judge = entry.make(file, **values) if file else entry.make(**values)
    if file and judge.name in (*JUDGES, JURY):
        raise MagistrateError(f"{file}: `{judge.name}` is the name of another judge; give the rubric one of its own")
    return judge


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model that can be called by name.

    Attributes:
        repository: Where it lives: an embedded model's name, or a repository on the Hugging Face hub.
        good_for: What to use it for.
        weights_gib: Memory of its weights in bfloat16.
        judge: The judge it is used with where none is named.
    """

    repository: str
    good_for: str
    weights_gib: float
    judge: str = LLMEval.name

    @property
    def embedded(self) -> bool:
        return (weights.EMBEDDED / self.repository).is_dir()

    @property
    def gpu_gib(self) -> float:
        """GPU memory to judge with it at a context of 8,192: the weights, 4 GiB of keys and values, and a tenth for the rest."""
        return (self.weights_gib + 4.0) * 1.1


MODELS: Mapping[str, ModelEntry] = {
    "magistrate-tiny": ModelEntry("magistrate-tiny", "trying the stack on a CPU; not for real judgements", 0.01),
    "llama-3.1-8b": ModelEntry("meta-llama/Llama-3.1-8B-Instruct", "LLM-Eval as its article runs it", 15.0),
    "llama-3-grouse": ModelEntry("illuin/llama-3-grouse", "grounded question answering", 15.0, judge=Grouse.name),
}
"""Presets: each name stands for a model, its judge and ``DECODING``."""

DECODING = "greedy (temperature 0), constrained to the judge's JSON"
"""How every model answers. LLM-Eval's article asks for top_k 1 and top_p 0, which means the same; vLLM refuses a top_p of 0."""


def repository(model: str) -> str:
    """The repository or folder that a model's short name stands for; any other name stands for itself."""
    return MODELS[model].repository if model in MODELS else model


def usual_judge(model: str | None) -> str:
    """The judge that a model's short name stands for; LLM-Eval for any other model."""
    return MODELS[model].judge if model is not None and model in MODELS else LLMEval.name
