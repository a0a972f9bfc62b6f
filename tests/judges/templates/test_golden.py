"""Prompts of templates against those that the authors' own code writes: ``scripts/golden_prompts.py``."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from judges.catalog import open_judge
from judges.templates.shipped import TEMPLATES
from tests import authors_files

GOLDEN: list[dict[str, Any]] = json.loads(Path(__file__).with_name("golden.json").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_every_template_has_a_golden_prompt() -> None:
    assert {case["judge"] for case in GOLDEN} == set(TEMPLATES)


@pytest.mark.parametrize("case", GOLDEN, ids=[f"{case['judge']}-{number}" for number, case in enumerate(GOLDEN)])
def test_prompts_are_those_of_the_authors(case: dict[str, Any]) -> None:
    authors_files.keep(case["judge"])
    prompt = open_judge(case["judge"], **case["options"]).render(case["sample"]).prompts[0]
    texts = [(message.role, message.content) for message in prompt.messages]
    written = [[role, hashlib.sha256(text.encode()).hexdigest(), len(text)] for role, text in texts]
    assert written == case["messages"]
