"""How reports word things: numbers, intervals, lists, and names of anyone's that may hold anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from markupsafe import Markup

from evals.data.tasks import Fault
from judges.errors import counted as counted

NONE = "–"
"""Where there is no figure."""

LONGEST_LABEL = 80

# What does not show, or makes other text show in another order than it stands in. Right-to-left text needs none of it on a page
# that has each text in an element of its own direction.
_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LINE_END = re.compile("\r\n?|[\u2028\u2029]")


def plain(value: object) -> object:
    """A text with a sign for each character that would hide or reorder something; anything else, and markup, as it is."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", _LINE_END.sub("\n", value))


def line(text: str) -> str:
    """A text on one line."""
    return " ".join(str(plain(text)).split())


def label(text: str) -> str:
    """A name as charts have room for it."""
    name = line(text)
    return name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 2].rstrip()} …"


def digits(scale: Sequence[float]) -> int:
    """Decimals that a metric of this scale is shown with."""
    span = scale[1] - scale[0]
    return 3 if span <= 1 else 2 if span <= 10 else 1


def number(value: float | None, decimals: int = 3) -> str:
    """A figure, or the sign that there is none. A negative one has a minus, not a hyphen; what rounds to nothing has no sign."""
    return NONE if value is None else f"{round(value, decimals) + 0.0:,.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def count(value: float | None) -> str:
    """A whole number with separators between its thousands."""
    return number(value, 0)


def percent(share: float | None) -> str:
    """A share of one, in percent. A negative one has a minus, not a hyphen."""
    return NONE if share is None else f"{share:.1%}".replace("-", "\N{MINUS SIGN}")


def percents(low: float | None, high: float | None) -> str:
    """An interval of a share of one, in percent; see ``interval``."""
    return NONE if low is None or high is None or low == high else f"{percent(low)} to {percent(high)}"


def interval(low: float | None, high: float | None, decimals: int = 3) -> str:
    """An interval, from its lower to its upper end. One of no width says only that resamples were alike, so it is not shown."""
    return NONE if low is None or high is None or low == high else f"{number(low, decimals)} to {number(high, decimals)}"


def with_interval(value: float | None, low: float | None, high: float | None, decimals: int = 3) -> str:
    """A figure, with its interval where there is one."""
    ends = interval(low, high, decimals)
    return number(value, decimals) if value is None or ends == NONE else f"{number(value, decimals)} ({ends})"


def share_with_interval(value: float | None, low: float | None, high: float | None) -> str:
    """A share of one in percent, with its interval where there is one."""
    ends = percents(low, high)
    return percent(value) if value is None or ends == NONE else f"{percent(value)} ({ends})"


class Estimate(Protocol):
    """A figure with the ends of its interval, as far as there are any."""

    @property
    def value(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def estimated(one: Estimate, decimals: int = 2) -> str:
    """An estimate, with its interval where there is one."""
    return with_interval(one.value, one.low, one.high, decimals)


def chance(p: float | None, decimals: int = 4) -> str:
    """A test's p, which is never shown as none."""
    least = 10.0**-decimals
    return f"< {least:.{decimals}f}" if p is not None and p < least else number(p, decimals)


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def first_few(names: Sequence[str], amount: int | None = None, most: int = 10, between: str = ", ") -> str:
    """The first of many names: a, b and 5 more.

    Args:
        names: All of them, or the first.
        amount: How many there are in all; by default as many as names.
        most: How many are named.
        between: What stands between them.
    """
    more = max(len(names) if amount is None else amount, len(names)) - min(len(names), most)
    return f"{between.join(names[:most])}{f' and {more:,} more' if more else ''}"


def fault_lines(faults: Sequence[Fault]) -> list[str]:
    """What could not be used, a line a kind, with the first few ids."""
    return [f"{counted(one.count, 'row')}: {one.what}: {first_few(one.ids, one.count)}" for one in faults]


def duration(seconds: float) -> str:
    """How long something took."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
