"""The templates that come with Magistrate, and those of a user's own files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from judges.data.checked import Content, FileKind, check_file_of, load_checked, read_checked
from judges.data.located import Fault, Place, Problem, UnreadableError, locate, read_located
from judges.errors import MagistrateError
from judges.templates.cutting import Cut
from judges.templates.faults import find_faults
from judges.templates.file import AnswerSpec, CompareSpec, PromptSpec, TemplateFile
from judges.templates.judge import TemplateJudge, template_class
from judges.templates.sources import Source, keep_copies


def _rules(content: Content) -> Iterator[Fault]:
    try:
        file = TemplateFile.model_validate(content)
    except ValidationError:
        return  # conflicts between values show once the values are valid
    yield from find_faults(file)


def _spelt(place: Place, content: Content) -> str:
    return ".".join(str(part + 1) if isinstance(part, int) else part for part in place)


TEMPLATE_FILES = FileKind(
    TemplateFile,
    "a template file",
    {"source": Source, "texts": Cut, "ready": Cut, "prompt": PromptSpec, "answer": AnswerSpec, "compare": CompareSpec},
    _rules,
    _spelt,
)
"""What a template file may have."""


class Templates(Mapping[str, type[TemplateJudge]]):
    """The shipped templates' judges by name. Their authors' files need not be on this machine."""

    @cached_property
    def _names(self) -> Sequence[str]:
        found = (Path(file.name) for file in files("judges.templates").iterdir())
        return tuple(sorted(file.stem for file in found if file.suffix == ".toml"))

    def ready(self) -> Sequence[str]:
        """The names of the judges whose authors' files are on this machine."""
        return [name for name in self if all(source.kept.exists() for source in self[name].file.sources)]

    def __getitem__(self, name: str) -> type[TemplateJudge]:
        if name not in self._names:
            raise KeyError(name)
        return _shipped(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


TEMPLATES = Templates()


@cache
def _shipped(name: str) -> type[TemplateJudge]:
    text = files("judges.templates").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return template_class(TemplateFile.model_validate(read_checked(text, ".toml", TEMPLATE_FILES, f"template {name}")))


def is_template(path: Path) -> bool:
    """Whether a file is a template, not a rubric; false if it cannot be read."""
    try:
        return _has_prompts(read_located(path).content)
    except UnreadableError:
        return False


def is_template_text(text: str, suffix: str) -> bool:
    """Whether a text with one of the suffixes of rubric files is a template's."""
    try:
        return _has_prompts(locate(text, suffix).content)
    except UnreadableError:
        return False


def _has_prompts(content: Any) -> bool:
    return isinstance(content, Mapping) and ("prompt" in content or "answer" in content)


def load_template(path: Path) -> type[TemplateJudge]:
    """Make the judge's class of a template file.

    Raises:
        MagistrateError: The file cannot be read or is invalid; the message names the first problem.
    """
    return template_class(TemplateFile.model_validate(load_checked(path, TEMPLATE_FILES)))


def read_template(text: str, suffix: str) -> type[TemplateJudge]:
    """Make the judge's class of the text of a template, whose texts stand in it.

    Raises:
        MagistrateError: It is invalid, or is cut out of a file, which a caller of the server cannot have read.
    """
    file = TemplateFile.model_validate(read_checked(text, suffix, TEMPLATE_FILES, "the template"))
    if file.sources:
        raise MagistrateError("the template: source: a template that is sent has its texts in it; put them in `text`")
    return template_class(file)


def lacks_name(path: Path) -> bool:
    """Whether a file has metrics, but neither the name nor the fields of a rubric: criteria for a template's judge."""
    try:
        content = read_located(path).content
    except UnreadableError:
        return False
    return isinstance(content, Mapping) and "metric" in content and "name" not in content and "fields" not in content


def check_template(path: Path) -> list[Problem]:
    """List every problem of a template file by line; empty if it is valid."""
    return check_file_of(path, TEMPLATE_FILES)


def fetch_template(kind: type[TemplateJudge], copy: Path | None = None) -> Sequence[Source]:
    """Fetch the files that a template is cut out of, and keep them.

    Args:
        kind: The template's judge.
        copy: A copy of one of the files, or a folder with copies, in place of a download.

    Returns:
        The files that are still missing: some of those of which a copy of another was given.

    Raises:
        MagistrateError: A file cannot be fetched, or the copy is another file.
    """
    sources = kind.file.sources
    if copy is not None:
        keep_copies(sources, copy)
    else:
        for source in sources:
            source.fetch()
    return [source for source in sources if source.read() is None]
