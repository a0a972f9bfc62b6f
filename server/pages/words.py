"""How the pages word things: states, numbers, times, and texts of anyone's that may hold anything."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from markupsafe import Markup

BATCH_WORDS = {
    "in_progress": "In progress",
    "cancelling": "Being cancelled",
    "completed": "Completed",
    "cancelled": "Cancelled",
    "failed": "Given up",
}

MODEL_WORDS = {
    "waiting": "Waiting for its turn",
    "loading": "Loading",
    "ready": "Ready",
    "asleep": "Asleep until it is asked",
    "restarting": "Restarting",
    "failed": "Failed",
}

# What does not show, or makes other text show in another order than it stands in. Right-to-left text needs none of it here,
# since each text is in an element of its own direction.
_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LINE_END = re.compile("\r\n?|[\u2028\u2029]")


def plain(value: object) -> object:
    """A text with a sign for each character that would hide or reorder something; anything else, and markup, as it is."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", _LINE_END.sub("\n", value))


def number(value: int) -> str:
    """A number with separators between its thousands."""
    return f"{value:,}"


def machine_time(seconds: int) -> str:
    """A time as programs read it, in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def human_time(seconds: int) -> str:
    """A time as people read it, in UTC."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.day} {moment:%b %Y, %H:%M:%S} UTC"
