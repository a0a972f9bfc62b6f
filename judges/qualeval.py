"""What the judges of QualEval share. Source: Murahari et al., "QualEval", https://arxiv.org/abs/2311.02807, appendix A.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from judges.errors import MagistrateError, SampleError
from judges.judge import Sample
from judges.prompt_files import prompt_file
from judges.samples import kind_of, well_formed

Kind = Literal["domain", "subtask"]
"""The two kinds of attributes: what an instance is about, and what skills it takes."""

PLURAL: Mapping[str, str] = {"domain": "domains", "subtask": "subtasks"}


def check_kind(kind: str) -> None:
    """Raises:
    MagistrateError: It is no kind of attribute.
    """
    if kind not in get_args(Kind):
        raise MagistrateError(f"unknown kind `{kind}`: attributes are of kind {' or '.join(get_args(Kind))}")


def words() -> Mapping[str, str]:
    """The paper's prompts, and what is added to them."""
    return {**prompt_file("qualeval"), **prompt_file("qualeval_answers")}


def numbered(texts: Sequence[str]) -> str:
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, start=1))


def strings_field(sample: Sample, name: str) -> list[str]:
    """A field that must be a list of at least one string.

    Raises:
        SampleError: It is missing, empty, or something else.
    """
    value = sample.get(name)
    if name not in sample:
        raise SampleError(name, "is missing")
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise SampleError(name, f"must be a list of strings, not {kind_of(value)}")
    if not value:
        raise SampleError(name, "is an empty list")
    for number, text in enumerate(value, start=1):
        if not isinstance(text, str):
            raise SampleError(name, f"must hold strings; number {number} is {kind_of(text)}")
    return [well_formed(text) for text in value]
