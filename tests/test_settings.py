"""A setting is declared once: a field of ``Decoding`` or ``EngineSettings`` is everywhere at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import typer

from judges.catalog import EMBEDDED
from magistrate.cli.arena_file import ArenaFile
from magistrate.cli.jury import JuryFile, MemberEntry
from magistrate.cli.main import app
from server.hosting.models_file import ModelSpec, read_models
from tests.tiny import TINY

PACKAGES = ("judges", "server", "magistrate", "evals", "solver", "finetune")
ROOT = Path(__file__).parent.parent

LAST = "    think: StrictInt"
ADDED = '    patience: StrictInt = Field(3, ge=1, le=9, description="How patient the model is.")\n'

SEEN = """
import json
import sys
from types import SimpleNamespace
import typer
from judges.decoding import Decoding
from judges.engines.engine import EngineIdentity
from judges.engines.transformers import TransformersEngine
from judges.llm_eval import LLMEval
from judges.verdict import Fingerprint
from magistrate.cli.main import app
from magistrate.cli.arena_file import ArenaFile
from magistrate.cli.jury import JuryFile, MemberEntry
from magistrate.remote import request_settings
from server.app import create_app
from server.judge_spec import JudgeSpec
from server.model_pool import ModelPool
from server.hosting.models_file import read_models
from server.metrics import Metrics
from server.settings import Settings
from server.store import Store

judge = LLMEval()
engine = TransformersEngine(sys.argv[1])
commands = typer.main.get_command(app).commands
flags = {
    "score": commands["score"],
    "arena run": commands["arena"].commands["run"],
    "meta people": commands["meta"].commands["people"],
    "judges card": commands["judges"].commands["card"],
}
api = create_app(Settings(), read_models("cpu"), Store.open("sqlite:///magistrate.db"))
fields = api.openapi()["components"]["schemas"]["JudgmentsRequest"]["properties"]
hosted = SimpleNamespace(engine=engine, view=lambda **_: engine)
pool = ModelPool(read_models("cpu"), Settings(), Metrics())
runners = [pool._runner(hosted, None, judge, JudgeSpec(patience=number), urgent=True) for number in (3, 4, 4)]
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
    "sent": request_settings(None, Decoding(patience=6))["patience"],
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
    run = [sys.executable, "-c", SEEN, TINY]
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


GPU = {"tensor_parallel": 2, "gpu_memory": 0.5, "deterministic": True}


def test_what_engines_are_told_of_a_gpu_is_a_flag_of_every_command_and_an_entry_of_every_file() -> None:
    root: Any = typer.main.get_command(app)
    commands = root.commands
    taking = [
        *(commands[name] for name in ("score", "generate", "improve")),
        *(commands["meta"].commands[name] for name in ("people", "preferences", "grouse")),
        commands["arena"].commands["run"],
        commands["judges"].commands["card"],
        commands["qualeval"].commands["run"],
    ]
    for command in taking:
        assert {parameter.name for parameter in command.params} >= GPU.keys(), command.name
    options = {"tensor_parallel_size": 2, "gpu_memory_utilization": 0.5}
    member = MemberEntry.model_validate({"name": "a", "model": TINY, **GPU}).settings.engine_options()
    assert (member["options"], member["deterministic"]) == (options, True)
    entry = {"model": TINY, "memory": 0.5, "tensor_parallel": 2, "deterministic": True, "data_parallel": 2}
    hosted = ModelSpec.model_validate(entry).engine_options()
    assert (hosted["options"], hosted["deterministic"]) == ({**options, "data_parallel_size": 2}, True)


def test_a_models_path_is_relative_to_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / EMBEDDED).mkdir()
    here = str(tmp_path / "mine")
    entries = "".join(f'[[member]]\nname = "m{n}"\nmodel = "{name}"\n' for n, name in enumerate(("mine", EMBEDDED)))
    (tmp_path / "jury.toml").write_text(entries)
    assert [entry.model for entry in JuryFile.load(tmp_path / "jury.toml").member] == [here, EMBEDDED]
    (tmp_path / "models.toml").write_text('[models.a]\nmodel = "mine"\n[models.b]\nmodel = "owner/name"\n')
    models = read_models(str(tmp_path / "models.toml")).models
    assert [models[name].model for name in "ab"] == [here, "owner/name"]
    (tmp_path / "arena.toml").write_text('questions = "q.csv"\n[[contestant]]\nmodel = "mine"\n[judge]\nmodel = "mine"\n')
    arena = ArenaFile.load(tmp_path / "arena.toml")
    assert (arena.contestant[0].model, arena.judge.model) == (here, here)
