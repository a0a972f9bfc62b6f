"""Ids that sort by the time they were made, so that a listing can go on behind one even when what it named is gone."""

from __future__ import annotations

import secrets
import threading
import time

_lock = threading.Lock()
_last = 0


def new_id(prefix: str) -> str:
    """A prefix and 24 hexadecimal digits: milliseconds since 1970, ever rising within a process, and 48 random bits."""
    global _last
    with _lock:
        _last = max(_last + 1, time.time_ns() // 1_000_000)
        moment = _last
    return f"{prefix}{moment:012x}{secrets.token_hex(6)}"
