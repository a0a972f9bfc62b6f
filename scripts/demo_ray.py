"""A Ray cluster of three nodes on this machine that judges a folder of files, one node killed on the way.

python scripts/demo_ray.py [--model magistrate-135m] [--rows 300]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ray.cluster_utils import Cluster

from judges.data.rows import read_rows
from magistrate.cli.main import SAMPLE

FILES = 12


def write_rows(folder: Path, count: int) -> None:
    rows = [dict(row.sample) for row in read_rows(SAMPLE) if row.sample and "response" in row.sample]
    folder.mkdir()
    for file in range(FILES):
        with (folder / f"{file:02}.jsonl").open("w") as lines:
            for number in range(file, count, FILES):
                sample = rows[number % len(rows)]
                lines.write(json.dumps(sample | {"id": str(number), "response": f"{sample['response']} {number}"}) + "\n")


def done(folder: Path) -> int:
    return len(list(folder.glob("*.parquet")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="magistrate-135m")
    parser.add_argument("--rows", type=int, default=300)
    options = parser.parse_args()
    os.environ["RAY_BACKEND_LOG_LEVEL"] = "fatal"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    print(f"a cluster of three nodes at {cluster.address}")
    try:
        with tempfile.TemporaryDirectory() as scratch:
            source, target = Path(scratch) / "rows", Path(scratch) / "verdicts"
            write_rows(source, options.rows)
            command = [sys.executable, "-m", "magistrate", "score", str(source), "--model", options.model]
            command += ["--ray", cluster.address, "--actors", "1", "-o", str(target)]
            process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
            while process.poll() is None and done(target) < FILES // 3:
                time.sleep(0.2)
            print(f"{done(target)} of {FILES} units are judged; a node is killed")
            cluster.remove_node(nodes[0], allow_graceful=False)
            if process.wait():
                raise SystemExit("the run failed")
            subprocess.run([sys.executable, "-m", "magistrate", "verdicts", "status", str(target)], check=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
