"""What the judges of QualEval share. Source: Murahari et al., "QualEval", https://arxiv.org/abs/2311.02807, appendix A.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

from judges.prompt_files import fill, prompt_file

QUALEVAL = "https://arxiv.org/abs/2311.02807"

Kind = Literal["domain", "subtask"]
"""The two kinds of attributes: what an instance is about, and what skills it takes."""

PLURAL: Mapping[str, str] = {"domain": "domains", "subtask": "subtasks"}


@cache
def words() -> Mapping[str, str]:
    """The paper's prompts, and what is added to them."""
    return {**prompt_file("qualeval"), **prompt_file("qualeval_answers")}


def numbered(texts: Sequence[str]) -> str:
    template = words()["numbered"]
    return "\n".join(fill(template, {"number": str(number), "text": text}) for number, text in enumerate(texts, start=1))
