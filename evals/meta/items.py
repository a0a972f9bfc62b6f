"""Of which item each row is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def numbered(items: Sequence[str]) -> NDArray[np.int64]:
    """A number for each item, equal where the items are; texts of any length take no room then."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(one, len(known)) for one in items], np.int64)
