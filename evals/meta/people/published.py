"""What published metrics reach on known data sets, to stand beside a judge."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("published.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Published correlations with people's mean rating of one quality.

    Attributes:
        set: The data set, by the name that its reader gives it.
        quality: What people rated.
        referenced: Whether they are of the samples with a reference only.
        samples: How many samples they are of.
        metrics: Metric to Pearson's r and Spearman's rho.
        source: Who printed them.
    """

    set: str
    quality: str
    referenced: bool
    samples: int
    metrics: Mapping[str, tuple[float, float]]
    source: str


@cache
def published() -> tuple[Published, ...]:
    """All of them, in the file's order."""
    read = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return tuple(
        Published(
            **{**table, "metrics": {name: (one, other) for name, (one, other) in table["metrics"].items()}}, source=read["source"]
        )
        for table in read["table"]
    )


def published_on(name: str, *, referenced: bool) -> Published | None:
    """Those on a data set, or on its samples with a reference; ``None`` where there are no such figures."""
    return next((one for one in published() if (one.set, one.referenced) == (name, referenced)), None)
