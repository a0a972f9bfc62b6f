"""A file that names an arena's questions, contestants, judge and report, so that one command takes every step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from judges.catalog import PAIRWISE
from judges.data.described import described, read_toml
from judges.decoding import Decoding
from judges.engines import EngineSettings


def _as_flag(value: object) -> str:
    """A value as ``-O`` spells it."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


Name = Annotated[str, Field(min_length=1)]
OptionText = Annotated[str, BeforeValidator(_as_flag)]


class ContestantEntry(EngineSettings):
    """A contestant: a file of answers, a column of the questions' file, or a model that answers the questions."""

    name: Name | None = None
    answers: Path | None = None
    column: Name | None = None
    temperature: float = Field(0.0, ge=0, le=2)
    max_tokens: int = Field(1024, ge=1)

    @model_validator(mode="after")
    def _has_one_source(self) -> ContestantEntry:
        if sum(source is not None for source in (self.answers, self.column, self.model or self.base_url)) != 1:
            raise ValueError("give one of `answers`, `column` and `model`")
        if self.column is not None and self.name is not None:
            raise ValueError("a contestant of a column has the column's name; leave out `name`")
        return self

    @property
    def called(self) -> str | None:
        """The contestant's name; ``None`` where only its server knows."""
        return self.name or (None if self.model is None else Path(self.model).name)

    @property
    def settings(self) -> EngineSettings:
        """The settings of the engine that answers."""
        return EngineSettings(**self.model_dump(include=set(EngineSettings.model_fields)))


class JudgeEntry(EngineSettings, Decoding):
    """The judge of two answers: its name, what runs its model, how it decodes, and its options."""

    name: Name = PAIRWISE
    options: dict[str, OptionText] = Field(default_factory=dict)

    @property
    def settings(self) -> EngineSettings:
        """The settings of the judge's engine."""
        return EngineSettings(**self.model_dump(include=set(EngineSettings.model_fields)))

    @property
    def decoding(self) -> Decoding:
        """The settings of decoding."""
        return Decoding(**self.model_dump(include=set(Decoding.model_fields)))


class ReportEntry(BaseModel):
    """How models are rated."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    baseline: Name | None = None
    anchor: Name | None = None
    k: float = Field(32.0, gt=0, le=10_000)
    count: Literal["orders", "pairs"] = "orders"
    ties: Literal["half", "davidson"] = "half"
    bootstrap: int = Field(1000, ge=2)


class ArenaFile(BaseModel):
    """An arena as a TOML file has it. Paths are relative to the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    questions: Path
    field: dict[str, str] = Field(default_factory=dict)
    encoding: Name | None = None
    limit: int | None = Field(None, ge=1)
    seed: int = Field(0, ge=0)
    pairs: Literal["all", "baseline", "swiss"] = "all"
    rounds: int = Field(4, ge=1)
    contestant: list[ContestantEntry] = Field(min_length=1)
    judge: JudgeEntry = JudgeEntry()
    report: ReportEntry = ReportEntry()

    @classmethod
    def load(cls, path: Path) -> ArenaFile:
        """Read an arena from a TOML file.

        Raises:
            MagistrateError: There is no such file, or it has a fault; the first one is named.
        """
        arena = described(cls, read_toml(path, "an arena"), path)
        here = path.parent
        entries = [
            entry.relative_to(here).model_copy(update={"answers": entry.answers and here / entry.answers})
            for entry in arena.contestant
        ]
        return arena.model_copy(
            update={"questions": here / arena.questions, "contestant": entries, "judge": arena.judge.relative_to(here)}
        )
