"""Magistrate hosts open judge models on your own hardware and turns their opinions into numbers you can trust.

Everything here is imported at its first use. ``docs/python.md`` shows it.
"""

from importlib import import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from judges.affinity import Affinity as Affinity
    from judges.catalog import open_judge as open_judge
    from judges.decoding import Decoding as Decoding
    from judges.engines.settings import EngineSettings as EngineSettings
    from judges.engines.settings import open_engine as open_engine
    from judges.errors import MagistrateError as MagistrateError
    from judges.grouse import Grouse as Grouse
    from judges.judge import Judge as Judge
    from judges.jury import Jury as Jury
    from judges.jury import Member as Member
    from judges.llm_eval import LLMEval as LLMEval
    from judges.pairwise import Pairwise as Pairwise
    from judges.qualeval import Discovery as Discovery
    from judges.qualeval import Insight as Insight
    from judges.qualeval import Shrink as Shrink
    from judges.rubric import Rubric as Rubric
    from judges.summary import Summary as Summary
    from judges.verdict import Verdict as Verdict
    from judges.verdicts import Verdicts as Verdicts
    from magistrate import arena as arena
    from magistrate import finetune as finetune
    from magistrate import meta as meta
    from magistrate import qualeval as qualeval
    from magistrate.client import AsyncClient as AsyncClient
    from magistrate.client import Client as Client
    from magistrate.judging import judge as judge
    from magistrate.judging import judge_async as judge_async
    from solver import assign as assign

__version__ = "0.1.0"

_HOMES = {
    "Affinity": "judges.affinity",
    "AsyncClient": "magistrate.client",
    "Client": "magistrate.client",
    "Decoding": "judges.decoding",
    "Discovery": "judges.qualeval",
    "EngineSettings": "judges.engines.settings",
    "Grouse": "judges.grouse",
    "Insight": "judges.qualeval",
    "Judge": "judges.judge",
    "Jury": "judges.jury",
    "LLMEval": "judges.llm_eval",
    "MagistrateError": "judges.errors",
    "Member": "judges.jury",
    "Pairwise": "judges.pairwise",
    "Rubric": "judges.rubric",
    "Shrink": "judges.qualeval",
    "Summary": "judges.summary",
    "Verdict": "judges.verdict",
    "Verdicts": "judges.verdicts",
    "arena": "magistrate.arena",
    "assign": "solver",
    "finetune": "magistrate.finetune",
    "judge": "magistrate.judging",
    "judge_async": "magistrate.judging",
    "meta": "magistrate.meta",
    "open_engine": "judges.engines.settings",
    "open_judge": "judges.catalog",
    "qualeval": "magistrate.qualeval",
}
"""Public name to the module that has it, or that it is. Type checkers read the same above."""

_NEED_EXTRAS = {"arena", "assign", "finetune", "meta", "qualeval"}
"""Names that the base dependencies are not enough for, so that ``import *`` leaves them out."""

__all__ = sorted(_HOMES.keys() - _NEED_EXTRAS)


def __getattr__(name: str) -> _Any:
    """Import a public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    from judges.extras import naming_extras

    with naming_extras():
        module = import_module(_HOMES[name])
    found = module if _HOMES[name] == f"{__name__}.{name}" else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(_HOMES)
