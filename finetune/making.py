"""How something is made, kept beside it, so that a folder is never continued with other settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evals.whole_files import write_whole
from judges.errors import MagistrateError


def keep_making(file: Path, making: Mapping[str, Any], what: str) -> None:
    """Write down how it is made; where that is written already, make sure that it is made in the same way.

    Args:
        file: Where, in its folder.
        making: All that the outcome depends on, as JSON has it.
        what: What is made, for messages: "a training".

    Raises:
        MagistrateError: It is made otherwise now, with the names that differ, or the file cannot be read.
    """
    text = json.dumps(making, indent=1)
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text)
        return
    try:
        there = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise MagistrateError(f"{file} cannot be read: {error}; give another folder") from None
    now = json.loads(text)
    differing = [name for name in now if there.get(name) != now[name]]
    if differing:
        raise MagistrateError(
            f"{file.parent} holds {what} that differs in {', '.join(differing)}; give another folder, or remove it"
        )
