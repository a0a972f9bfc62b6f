"""What the judges of QualEval share. Source: Murahari et al., "QualEval", https://arxiv.org/abs/2311.02807, appendix A.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal, get_args

from judges.errors import MagistrateError
from judges.prompt_files import fill, prompt_file

Kind = Literal["domain", "subtask"]
"""The two kinds of attributes: what an instance is about, and what skills it takes."""

PLURAL: Mapping[str, str] = {"domain": "domains", "subtask": "subtasks"}


def check_kind(kind: str) -> None:
    """Raises:
    MagistrateError: It is no kind of attribute.
    """
    if kind not in get_args(Kind):
        raise MagistrateError(f"unknown kind `{kind}`: attributes are of kind {' or '.join(get_args(Kind))}")


@cache
def words() -> Mapping[str, str]:
    """The paper's prompts, and what is added to them."""
    return {**prompt_file("qualeval"), **prompt_file("qualeval_answers")}


def numbered(texts: Sequence[str]) -> str:
    template = words()["numbered"]
    return "\n".join(fill(template, {"number": str(number), "text": text}) for number, text in enumerate(texts, start=1))
