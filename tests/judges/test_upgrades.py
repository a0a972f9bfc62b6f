"""A file of an earlier version that cannot be resumed says which version changed what, as the changelog does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from judges.engines.engine import EngineIdentity
from judges.errors import MagistrateError
from judges.grouse import Grouse
from judges.judge import Judge
from judges.llm_eval import LLMEval
from judges.upgrades import UPGRADES
from judges.verdict import Fingerprint, Verdict
from judges.verdict_file import VerdictFile

CHANGELOG = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
IDENTITY = EngineIdentity("vllm", "0.32.0", "some/model", "0" * 16, "outlines", {"dtype": "auto"})


@pytest.mark.parametrize("upgrade", UPGRADES, ids=lambda upgrade: upgrade.field)
def test_the_changelog_has_every_change(upgrade: object) -> None:
    version, field, why = (getattr(upgrade, name) for name in ("version", "field", "why"))
    section = CHANGELOG.split(f"## {version}", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("|") and f"`{field.rpartition('.')[2]}`" in line]
    assert any(why in row for row in rows)


def refusal(tmp_path: Path, judge: Judge, theirs: Fingerprint, ours: Fingerprint) -> str:
    path = tmp_path / "v.jsonl"
    with VerdictFile(path, theirs) as file:
        file.append(Verdict(id="1", judge=judge.name, status="unscored", reason="no", sample="0" * 32, fingerprint=theirs.digest))
    with pytest.raises(MagistrateError) as refused, VerdictFile(path, ours, judge):
        pass
    return str(refused.value)


def test_a_file_without_a_new_field_is_told_its_version(tmp_path: Path) -> None:
    earlier = Fingerprint.of(LLMEval(), IDENTITY)
    options = json.loads(json.dumps(IDENTITY.options)) | {"spelling": 1}
    now = Fingerprint.of(LLMEval(), replace(IDENTITY, options=options))
    said = refusal(tmp_path, LLMEval(), earlier, now)
    assert "spelling none there, 1 here; since version 0.1.0 answers are constrained by the bytes" in said
    other = refusal(tmp_path / "other", LLMEval(), now, Fingerprint.of(LLMEval(), replace(IDENTITY, options={"spelling": 2})))
    assert "since version" not in other  # that is not the change of a version
    elsewhere = Fingerprint.of(LLMEval(), replace(IDENTITY, model="another/model", options=options))
    assert "since version" not in refusal(tmp_path / "model", LLMEval(), earlier, elsewhere)  # the model differs too


def test_a_judge_whose_words_changed_says_so_of_files_with_the_words_before(tmp_path: Path) -> None:
    now, before = Grouse(per_metric=True), Grouse(per_metric=True, prompts="card")
    said = refusal(tmp_path, now, Fingerprint.of(before, IDENTITY), Fingerprint.of(now, IDENTITY))
    assert "prompts or options of the judge; since version 0.1.0 with `per_metric`" in said
    longer = Grouse(per_metric=True, max_tokens=999)
    said = refusal(tmp_path / "longer", longer, Fingerprint.of(now, IDENTITY), Fingerprint.of(longer, IDENTITY))
    assert "since version" not in said
