"""FSDP, on two processes of gloo. accelerate shards on GPUs alone, so it is made to believe that these processes have some."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.finetune.training_runs import ENVIRONMENT, command, run, write_recipe

RATE = "rate-0.002"
ROOT = Path(__file__).parents[3]

SHARDED = """
from accelerate.state import AcceleratorState, DistributedType, PartialState
from torch.distributed.fsdp import FSDPModule
from finetune.training import trainer

made = AcceleratorState.__init__

def make(self, *arguments, **named):
    if PartialState().distributed_type == DistributedType.MULTI_CPU:
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    made(self, *arguments, **named)

class Guard(trainer._FiniteCheck):
    def on_pre_optimizer_step(self, *arguments, **named):
        assert any(isinstance(module, FSDPModule) for module in self.trainer.model.modules()), "nothing is shared out"
        super().on_pre_optimizer_step(*arguments, **named)

AcceleratorState.__init__ = make
trainer._FiniteCheck = Guard

from magistrate.cli.main import run
run()
"""


def history(output: Path, what: str) -> list[float]:
    return [one[what] for one in json.loads((output / RATE / "trained.json").read_text())["history"] if what in one]


def test_fsdp_gives_what_one_process_gives(tmp_path: Path) -> None:
    write_recipe(tmp_path, steps=2, checkpoints=2, dropout=0)
    assert run(tmp_path, tmp_path / "one").returncode == 0
    script = tmp_path / "sharded.py"
    script.write_text(SHARDED)
    _, _, _, *rest = command(tmp_path, tmp_path / "two", "--debug")
    config = ["--config_file", str(ROOT / "finetune" / "launch" / "fsdp.yaml"), "--num_processes", "2"]
    launcher = [sys.executable, "-m", "accelerate.commands.launch", *config, str(script), *rest]
    environment = ENVIRONMENT | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(launcher, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads((tmp_path / "two" / RATE / "making.json").read_text())["processes"] == 2
    for what in ("loss", "grad_norm", "eval_loss"):
        assert history(tmp_path / "two", what) == pytest.approx(history(tmp_path / "one", what), rel=1e-5)
