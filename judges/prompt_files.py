"""Reads the judges' prompts from data files, and fills them in."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files


@cache
def prompt_file(name: str, package: str = "judges") -> Mapping[str, str]:
    """Read the texts of ``prompts/NAME.toml`` in a package."""
    text = files(package).joinpath(f"prompts/{name}.toml").read_text(encoding="utf-8")
    return {key: str(value) for key, value in tomllib.loads(text).items()}


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace every ``{name}`` in one pass, so that placeholders in a sample's text are kept. ``{{`` and ``}}`` are braces."""
    return re.sub(r"\{\{|\}\}|\{(\w+)\}", lambda match: values[match[1]] if match[1] else match[0][0], template)
