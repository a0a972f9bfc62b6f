"""A setting is declared once: a field that is added to ``Decoding`` is everywhere at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = ("judges", "server", "magistrate", "evals", "solver", "finetune")
ROOT = Path(__file__).parent.parent

LAST = "    think: StrictInt"
ADDED = '    patience: StrictInt = Field(3, ge=1, le=9, description="How patient the model is.")\n'

SEEN = """
import json
from types import SimpleNamespace
import typer
from judges.decoding import Decoding
from judges.engines.engine import EngineIdentity
from judges.engines.transformers import TransformersEngine
from judges.llm_eval import LLMEval
from judges.verdict import Fingerprint
from magistrate.cli import app
from magistrate.jury import MemberEntry
from magistrate.remote import asking
from server.app import create_app
from server.asking import JudgeRequest
from server.court import Court
from server.hosting.models_file import read_models
from server.metrics import Metrics
from server.settings import Settings
from server.store import Store

judge = LLMEval()
engine = TransformersEngine("magistrate-tiny")
commands = typer.main.get_command(app).commands
flags = {
    "score": commands["score"],
    "arena run": commands["arena"].commands["run"],
    "meta people": commands["meta"].commands["people"],
    "judges card": commands["judges"].commands["card"],
}
api = create_app(Settings(), read_models("cpu"), Store.open("sqlite:///court.db"))
fields = api.openapi()["components"]["schemas"]["JudgmentsRequest"]["properties"]
host = SimpleNamespace(engine=engine, lane=lambda **_: engine)
court = Court(read_models("cpu"), Settings(), Metrics())
runners = [court._runner(host, None, judge, JudgeRequest(patience=number), urgent=True) for number in (3, 4, 4)]
digests = [Fingerprint.of(judge, engine.identity, Decoding(patience=number)).digest for number in (3, 4)]
print(json.dumps({
    "flags": {name: [p.opts for p in command.params if p.name == "patience"] for name, command in flags.items()},
    "bounds": [[p.min, p.max, p.default] for p in flags["score"].params if p.name == "patience"],
    "field": fields["patience"]["maximum"],
    "default": digests[0] == Fingerprint.of(judge, engine.identity).digest,
    "as before": Fingerprint.of(LLMEval(), EngineIdentity("vllm", "0.32.0", "tiny", "abc", "outlines")).digest,
    "fingerprints": len(set(digests)),
    "runners": [runners[0] is runners[1], runners[1] is runners[2], runners[1].decoding.patience],
    "member": MemberEntry(name="a", patience=5).decoding.patience,
    "sent": asking(None, Decoding(patience=6))["patience"],
}))
"""


def test_a_new_field_of_decoding_is_a_flag_a_field_and_part_of_what_tells_verdicts_apart(tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    declared = tmp_path / "judges" / "decoding.py"
    text = declared.read_text()
    assert text.count(LAST) == 1
    declared.write_text(text.replace(LAST, ADDED + LAST))
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    run = [sys.executable, "-c", SEEN]
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == {
        "flags": {name: [["--patience"]] for name in ("score", "arena run", "meta people", "judges card")},
        "bounds": [[1, 9, 3]],
        "field": 9,
        "default": True,
        "as before": "b9ae2e56f6efeec0",
        "fingerprints": 2,
        "runners": [False, True, 4],
        "member": 5,
        "sent": 6,
    }
