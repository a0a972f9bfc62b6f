"""A digest of what something was made of, so that another is not taken for it."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest(value: Any) -> str:
    """Sixteen hexadecimal digits of something that JSON can say."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]
