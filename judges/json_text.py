"""JSON in which no object has a key twice: Python's own parser takes the last one, and says nothing."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any


class RepeatedKeyError(ValueError):
    """An object has a key twice.

    Args:
        key: Which one.
    """

    def __init__(self, key: str) -> None:
        super().__init__(f"has the key `{key}` twice; leave one of them")


def parse_json(text: str | bytes) -> Any:
    """What a text of JSON holds; bytes may be in any encoding that JSON may have.

    Raises:
        RepeatedKeyError: An object has a key twice.
        ValueError: It is no JSON, or nested too deeply.
    """
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode(json.detect_encoding(text)))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RepeatedKeyError(Counter(name for name, _ in pairs).most_common(1)[0][0])
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_object)
