"""How the pages word things: states, numbers, times, and texts of anyone's that may hold anything."""

from __future__ import annotations

from datetime import UTC, datetime

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
