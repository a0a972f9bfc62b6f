"""The judges and the models that go by a short name: which model, which judge, which decoding."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from judges.engines import weights
from judges.errors import MagistrateError, reason_of
from judges.judge import Judge
from judges.jury import JURY
from judges.located import SUFFIXES
from judges.rubric import Rubric

GROUP = "magistrate.judges"
"""The entry points by which another package adds judges: each is called as its judge is and says ``module:Class``."""

BUILT_IN = {
    "llm-eval": "judges.llm_eval:LLMEval",
    "grouse": "judges.grouse:Grouse",
    "pairwise": "judges.pairwise:Pairwise",
    "affinity": "judges.affinity:Affinity",
    "discovery": "judges.discovery:Discovery",
    "shrink": "judges.discovery:Shrink",
    "insight": "judges.insight:Insight",
}

_BUILT_IN_POINTS = {name: EntryPoint(name, value, GROUP) for name, value in BUILT_IN.items()}

USUAL = "llm-eval"
"""The judge of every model that is not meant for another."""


class Registry(Mapping[str, type[Judge]]):
    """The judges by name: the built-in ones, then those of other packages. A class is imported when it is asked for.

    ``registry[name]`` raises MagistrateError where another package adds the judge and what it adds is broken.
    """

    @cached_property
    def _points(self) -> Mapping[str, EntryPoint]:
        added = {point.name: point for point in entry_points(group=GROUP) if point.name not in BUILT_IN}
        return _BUILT_IN_POINTS | added

    def __getitem__(self, name: str) -> type[Judge]:
        return _load(_BUILT_IN_POINTS.get(name) or self._points[name])  # the packages are looked through for others only

    def __contains__(self, name: object) -> bool:
        return name in BUILT_IN or name in self._points

    def __iter__(self) -> Iterator[str]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)

    @cached_property
    def working(self) -> Mapping[str, type[Judge]]:
        """Those that are in order."""
        return {name: self[name] for name in self if name in BUILT_IN or name not in self.faults}

    @cached_property
    def faults(self) -> Mapping[str, str]:
        """Names that other packages add and that name no judge, and why."""
        found = {}
        for point in entry_points(group=GROUP):
            try:
                _load(point)
            except MagistrateError as error:
                found[point.name] = str(error)
        return found


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
    """The class of a judge by name, or of rubrics where the name is that of a file.

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
    """A judge by name, or from a rubric file.

    Args:
        name: A name in ``JUDGES``, or a ``.toml``, ``.yaml`` or ``.yml`` file.
        texts: Options as text.
        given: Options as values; those that are ``None`` are left at their defaults.

    Raises:
        MagistrateError: There is no such judge or option, an option has a value it may not have, or the rubric is not in order.
    """
    kind = judge_class(name)
    values = {key: value for key, value in given.items() if value is not None}
    for key, value in kind.Options.spelt(name, texts or {}).items():
        if key in values:
            raise MagistrateError(f"option `{key}` of judge `{name}` is given twice")
        values[key] = value
    for option in kind.Options.listed().values():
        if option.required and option.name not in values:
            said = f": {option.spelling.help}" if option.spelling.help else ""
            raise MagistrateError(f"judge `{name}` needs `-O {option.name}={option.spelling.says}`{said}")
    if kind is not Rubric:
        return kind(**values)
    judge = Rubric.load(Path(name), **values)
    check_own_name(judge, name)
    return judge


def check_own_name(rubric: Judge, place: str) -> None:
    """See that a rubric is not called what another judge is called.

    Args:
        rubric: The rubric's judge.
        place: Where the rubric stands, for the error message.

    Raises:
        MagistrateError: It is.
    """
    if rubric.name in (*JUDGES, JURY):
        raise MagistrateError(f"{place}: `{rubric.name}` is the name of another judge; give the rubric one of its own")


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
    judge: str = USUAL

    @property
    def embedded(self) -> bool:
        return (weights.EMBEDDED / self.repository).is_dir()

    @property
    def gpu_gib(self) -> float:
        """GPU memory to judge with it at a context of 8,192: the weights, 4 GiB of keys and values, and a tenth for the rest."""
        return (self.weights_gib + 4.0) * 1.1


EMBEDDED = "magistrate-tiny"
"""The model that comes with Magistrate, which judges where none is named."""

MODELS: Mapping[str, ModelEntry] = {
    EMBEDDED: ModelEntry(EMBEDDED, "trying the stack on a CPU; not for real judgements", 0.01),
    "llama-3.1-8b": ModelEntry("meta-llama/Llama-3.1-8B-Instruct", "LLM-Eval as its article runs it", 15.0),
    "llama-3-grouse": ModelEntry("illuin/llama-3-grouse", "grounded question answering", 15.0, judge="grouse"),
}
"""Presets: each name stands for a model, its judge and ``DECODING``."""

DECODING = "greedy (temperature 0), constrained to the judge's JSON"
"""How every model answers. LLM-Eval's article asks for top_k 1 and top_p 0, which means the same; vLLM refuses a top_p of 0."""


def repository(model: str) -> str:
    """The repository or folder that a model's short name stands for; any other name stands for itself."""
    return MODELS[model].repository if model in MODELS else model


def usual_judge(model: str | None) -> str:
    """The judge that a model's short name stands for; LLM-Eval for any other model."""
    return MODELS[model].judge if model is not None and model in MODELS else USUAL
