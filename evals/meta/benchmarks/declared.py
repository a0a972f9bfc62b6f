"""What a benchmark declares: its parts, how they are put together, and what others have reached on it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

from judges.data.described import described, read_toml
from judges.errors import MagistrateError, did_you_mean

FOLDER = Path(__file__).parent

Name = Literal["rewardbench", "rewardbench2", "judgebench", "llmbar", "pandalm", "autoj"]
NAMES: tuple[Name, ...] = get_args(Name)
Combined = Literal["rows", "mean", "weight"]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Part(Strict):
    """A part of a benchmark's set.

    Attributes:
        name: What it is called.
        rows: Its published rows, or those by version of the set.
        weight: In groups that weigh their parts.
        values: What the file says of its rows; by default the part's name. An empty list takes every row.
        begins: What the file's word begins with, in place of ``values``.
    """

    name: str
    rows: int | dict[str, int]
    weight: float = 1.0
    values: list[str] | None = None
    begins: str | None = None

    def takes(self, word: str) -> bool:
        """Whether a row of which the file says this is of the part."""
        if self.begins is not None:
            return word.startswith(self.begins)
        return word == self.name if self.values is None else not self.values or word in self.values

    def published(self, version: str) -> int:
        """Rows that the published set has, of one version of it."""
        return self.rows if isinstance(self.rows, int) else self.rows.get(version, 0)


class Group(Strict):
    """Parts, or groups before it, that have a figure together.

    Attributes:
        name: What it is called.
        of: What it is of.
        by: ``rows``, as if they were one part; ``mean``, whatever their sizes; ``weight``, the mean by the parts' weights.
    """

    name: str
    of: list[str]
    by: Combined


class PublishedJudge(Strict):
    """What a judge reaches, as others printed it.

    Attributes:
        judge: Which.
        source: Where it stands.
        version: The version of the set that it is of.
        figures: Part or group to its figures in percent, in the order of the benchmark's measures; later ones may be missing.
    """

    judge: str
    source: str
    version: str = ""
    figures: dict[str, list[float]]


class Benchmark(Strict):
    """A benchmark of judges.

    Attributes:
        title: Its name.
        paper: Who published it.
        code: Whose rule it is, at which commit.
        unit: What a row is.
        measures: What is measured of every part.
        rule: The rule, in words.
        unchosen: What the rule makes of an answer without a choice.
        version_column: The column that names the version of the set.
        labels: How often the published set has each number as a label, where it has any.
        part: Its parts.
        group: Its groups, the last one the whole.
        published: Known judges.
    """

    title: str
    paper: str
    code: str
    unit: Literal["pair", "prompt"]
    measures: list[str]
    rule: str
    unchosen: str
    version_column: str | None = None
    labels: dict[str, int] = {}
    part: list[Part]
    group: list[Group] = []
    published: list[PublishedJudge] = []

    def part_of(self, word: str) -> Part | None:
        """The part that a row is of, by what the file says of it; ``None`` where it is of none."""
        return next((part for part in self.part if part.takes(word)), None)

    @property
    def whole(self) -> str:
        """The part or group that all rows are of."""
        return self.group[-1].name if self.group else self.part[-1].name

    def expected_rows(self, versions: list[str]) -> Mapping[str, int]:
        """Part to the rows that the published set has of it."""
        return {part.name: sum(part.published(one) for one in versions) for part in self.part}

    def with_groups(self, figures: Mapping[str, list[float]]) -> dict[str, list[float]]:
        """Printed figures, with those of groups that are means of printed ones."""
        found = dict(figures)
        weights = {part.name: part.weight for part in self.part}
        for group in self.group:
            if group.name in found or group.by == "rows" or any(name not in found for name in group.of):
                continue
            sizes = [weights.get(name, 1.0) if group.by == "weight" else 1.0 for name in group.of]
            columns = zip(*(found[name] for name in group.of), strict=True)
            found[group.name] = [
                math.fsum(w * one for w, one in zip(sizes, column, strict=True)) / math.fsum(sizes) for column in columns
            ]
        return found


def known_name(text: str) -> Name:
    """The name of a benchmark.

    Raises:
        MagistrateError: There is not one of that name.
    """
    found = next((name for name in NAMES if name == text), None)
    if found is None:
        raise MagistrateError(f"there is no benchmark `{text}`; there are {', '.join(NAMES)}{did_you_mean(text, NAMES)}")
    return found


@cache
def benchmark(name: Name) -> Benchmark:
    """What the benchmark of a name declares."""
    path = FOLDER / f"{name}.toml"
    return described(Benchmark, read_toml(path, "a benchmark"), path)
