"""Samples that people have rated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.tasks import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """A sample and what people say of it.

    Attributes:
        id: Distinct within the file.
        sample: As a judge takes it.
        ratings: Quality to each rater's number, always in the same order of raters; ``None`` where a rater gave none.
        set: The data set that it is of, where a file holds several.
        item: What it is about, a dialogue or a document: samples of one item are no news of other items.
    """

    id: str
    sample: Mapping[str, Any]
    ratings: Mapping[str, Sequence[float | None]]
    set: str
    item: str


@dataclass(frozen=True, slots=True)
class RatedSet:
    """A file of rated samples.

    Attributes:
        name: What it is called.
        samples: In the file's order.
        qualities: What people rate, in the file's order.
        faults: What could not be used.
    """

    name: str
    samples: Sequence[Rated]
    qualities: Sequence[str]
    faults: Sequence[Fault] = field(default_factory=tuple)
