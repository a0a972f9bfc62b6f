"""How reports word things: numbers, intervals, lists, and names of anyone's that may hold anything."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Protocol

from markupsafe import Markup

from evals.data.tasks import Fault
from judges.errors import counted as counted

NONE = "–"
"""Where there is no figure."""

ALIKE = "all are the same"
"""Why an interval that goes by how far values are apart does not exist."""

BELOW = "see below"
"""Why there is no figure, where sentences below the table say why."""

LONGEST_LABEL = 80

OPENING, OPENING_OF_REPEATED = 400, 100
"""Characters of a passage that stand where it is, unless someone asks for the rest; fewer of one that repeats itself."""

REPEATED, LEAST_REPEATED = 0.15, 200
"""A text of so many bytes or more that packs into such a share of them says the same again and again; prose packs into 0.4."""

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


def repeats_itself(text: str) -> bool:
    """Whether a text says the same again and again, as weak models do."""
    said = text.encode(errors="replace")
    return len(said) >= LEAST_REPEATED and len(zlib.compress(said)) < REPEATED * len(said)


def opening(text: str) -> str:
    """The beginning of a long passage, or all of a short one."""
    most = OPENING_OF_REPEATED if repeats_itself(text) else OPENING
    return text if len(text) <= 1.5 * most else beginning(text, most)


def beginning(text: str, most: int) -> str:
    """A text's first characters, as many or fewer, cut between words."""
    cut = text[:most]
    cut = cut[: cut.rfind(" ", most // 2)] if " " in cut[most // 2 :] else cut
    return f"{cut.rstrip()} …"


def digits(scale: Sequence[float]) -> int:
    """Decimals that a metric of this scale is shown with."""
    span = scale[1] - scale[0]
    return 3 if span <= 1 else 2 if span <= 10 else 1


def number(value: float | None, decimals: int = 3) -> str:
    """A figure, or the sign that there is none. A negative one has a minus, not a hyphen; what rounds to nothing has no sign."""
    return NONE if value is None else f"{round(value, decimals) + 0.0:,.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def number_or(why: str, value: float | None, decimals: int = 3) -> str:
    """A figure, or the sign that there is none with the reason."""
    return absent(why) if value is None else number(value, decimals)


def count(value: float | None) -> str:
    """A whole number with separators between its thousands."""
    return number(value, 0)


def percent(share: float | None) -> str:
    """A share of one, in percent. A negative one has a minus, not a hyphen."""
    return NONE if share is None else f"{share:.1%}".replace("-", "\N{MINUS SIGN}")


def absent(why: str = "") -> str:
    """The sign that there is no figure, with the reason."""
    return f"{NONE} ({why})" if why else NONE


def is_absent(figure: str) -> bool:
    """Whether a text only says that there is no figure."""
    return figure.startswith(NONE)


def percents(low: float | None, high: float | None, why: str = "") -> str:
    """An interval of a share of one, in percent; see ``interval``."""
    return absent(why) if low is None or high is None else _ends(low, high, (percent(low), percent(high)), "0.1 points")


def interval(low: float | None, high: float | None, decimals: int = 3, why: str = "") -> str:
    """An interval, from its lower to its upper end. One of no width says only that values were alike, so it is not shown.

    Args:
        low: Lower end; ``None`` where there is no interval.
        high: Upper end, likewise.
        decimals: Of the ends.
        why: Why there is no interval, where there is none.
    """
    if low is None or high is None:
        return absent(why)
    return _ends(low, high, (number(low, decimals), number(high, decimals)), f"{10.0**-decimals:g}")


def _ends(low: float, high: float, ends: tuple[str, str], step: str) -> str:
    """The ends of an interval as they are shown; not where they would look alike."""
    if ends[0] != ends[1]:
        return f"{ends[0]} to {ends[1]}"
    return absent(ALIKE if low == high else f"less than {step} wide")


def with_interval(value: float | None, low: float | None, high: float | None, decimals: int = 3) -> str:
    """A figure, with its interval where there is one."""
    ends = interval(low, high, decimals)
    return number(value, decimals) if value is None or is_absent(ends) else f"{number(value, decimals)} ({ends})"


def share_with_interval(value: float | None, low: float | None, high: float | None) -> str:
    """A share of one in percent, with its interval where there is one."""
    ends = percents(low, high)
    return percent(value) if value is None or is_absent(ends) else f"{percent(value)} ({ends})"


class Estimate(Protocol):
    """A figure with the ends of its interval, as far as there are any."""

    @property
    def value(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


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
