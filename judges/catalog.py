"""The judges and the models that go by a short name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from judges.engines import weights
from judges.errors import MagistrateError
from judges.llm_eval import LLMEval


@dataclass(frozen=True, slots=True)
class JudgeEntry:
    """A judge that can be called by name.

    Attributes:
        asks: What it judges, in a line.
        needs: The fields of a sample.
        source: Where the method comes from.
    """

    asks: str
    needs: str
    source: str


JUDGES: Mapping[str, JudgeEntry] = {
    LLMEval.name: JudgeEntry(
        asks="a reply, or a whole dialogue: content, grammar, relevance, appropriateness, or metrics of your own",
        needs="context, response, and reference where there is one; or dialogue",
        source="https://arxiv.org/abs/2305.13711",
    ),
}


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model that can be called by name.

    Attributes:
        repository: Where it lives: an embedded model's name, or a repository on the Hugging Face hub.
        good_for: What to use it for.
        weights_gib: Memory of its weights in bfloat16.
    """

    repository: str
    good_for: str
    weights_gib: float

    @property
    def embedded(self) -> bool:
        return (weights.EMBEDDED / self.repository).is_dir()

    @property
    def gpu_gib(self) -> float:
        """GPU memory to judge with it at a context of 8,192: the weights, 4 GiB of keys and values, and a tenth for the rest."""
        return (self.weights_gib + 4.0) * 1.1


MODELS: Mapping[str, ModelEntry] = {
    "magistrate-tiny": ModelEntry("magistrate-tiny", "trying the stack on a CPU; not for real judgements", 0.01),
    "llama-3.1-8b": ModelEntry("meta-llama/Llama-3.1-8B-Instruct", "LLM-Eval as its article runs it, greedy", 15.0),
    "llama-3-grouse": ModelEntry("illuin/llama-3-grouse", "grounded question answering, the GroUSE metrics", 15.0),
}


def check_judge(name: str) -> None:
    """Raises:
    MagistrateError: There is no judge of this name.
    """
    if name not in JUDGES:
        raise MagistrateError(f"there is no judge `{name}`; `magistrate judges` lists them: {', '.join(JUDGES)}")


def repository(model: str) -> str:
    """The repository or folder that a model's short name stands for; any other name stands for itself."""
    return MODELS[model].repository if model in MODELS else model
