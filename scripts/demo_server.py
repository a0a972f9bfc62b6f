"""A batch that outlives its server: sent by OpenAI's client, killed half-way, finished after the restart.

python scripts/demo_server.py [--model magistrate-135m] [--lines 300]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from openai import OpenAI

from judges.data.rows import read_rows
from magistrate.cli.main import SAMPLE


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def start(folder: Path, model: str, port: int) -> subprocess.Popen[bytes]:
    (folder / "models.toml").write_text(f'[models.judge]\nmodel = "{model}"\ndtype = "float32"\n')
    command = [sys.executable, "-m", "magistrate", "serve", "--models", str(folder / "models.toml"), "--port", str(port)]
    command += ["--database", f"sqlite:///{folder / 'magistrate.db'}"]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"})
    began = time.monotonic()
    while True:
        if process.poll() is not None:
            raise SystemExit(f"the server stopped:\n{(folder / 'log').read_text()[-2000:]}")
        try:
            if httpx.get(f"http://127.0.0.1:{port}/ready").is_success:
                break
        except httpx.TransportError:
            pass
        time.sleep(0.25)
    print(f"server up after {time.monotonic() - began:.0f} s (process {process.pid})")
    return process


def write_batch(path: Path, lines: int) -> Path:
    rows = [dict(row.sample) for row in read_rows(SAMPLE) if row.sample and "response" in row.sample]
    with path.open("w") as file:
        for number in range(lines):
            sample = rows[number % len(rows)] | {
                "id": str(number),
                "response": f"{rows[number % len(rows)]['response']} {number}",
            }
            body = {"judge": "llm-eval", "samples": [sample]}
            file.write(json.dumps({"custom_id": f"row-{number}", "method": "POST", "url": "/v1/judgments", "body": body}) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="magistrate-135m")
    parser.add_argument("--lines", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port = free_port()
        client = OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
        process = start(folder, options.model, port)
        uploaded = client.files.create(file=write_batch(folder / "batch.jsonl", options.lines), purpose="batch")
        sent = client.batches.create(input_file_id=uploaded.id, endpoint="/v1/judgments", completion_window="24h")  # type: ignore[arg-type]
        print(f"sent {sent.id}: {options.lines} lines")
        done = 0
        while done < options.lines // 3:
            counts = client.batches.retrieve(sent.id).request_counts
            done = counts.completed if counts else 0
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        print(f"killed (kill -9) with {done} lines done")
        process = start(folder, options.model, port)
        kept = client.batches.retrieve(sent.id).request_counts
        print(f"after the restart {kept.completed if kept else 0} lines are done, and the batch resumes")
        while (batch := client.batches.retrieve(sent.id)).status == "in_progress":
            time.sleep(0.2)
        lines = client.files.content(str(batch.output_file_id)).text.splitlines()
        whole = [json.loads(line)["custom_id"] for line in lines] == [f"row-{number}" for number in range(options.lines)]
        print(f"{batch.status}: {len(lines)} verdicts, {'each line once, in order' if whole else 'NOT each line once'}")
        process.send_signal(signal.SIGTERM)
        process.wait()
        if not whole:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
