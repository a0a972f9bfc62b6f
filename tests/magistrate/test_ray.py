"""Judging on a real Ray cluster of three nodes: the verdicts of one file, whatever is killed meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray")
from ray.cluster_utils import Cluster  # noqa: E402

from judges.decoding import GREEDY  # noqa: E402
from judges.engines.cluster import ClusterEngine, connect  # noqa: E402
from judges.engines.engine import Engine, EngineIdentity, Generation, Request, Usage  # noqa: E402
from judges.engines.settings import EngineSettings  # noqa: E402
from judges.errors import EngineError, MagistrateError  # noqa: E402
from judges.judge import Message  # noqa: E402
from judges.llm_eval import LLMEval  # noqa: E402
from judges.units.folder import state_of  # noqa: E402
from judges.units.stores import Store  # noqa: E402
from judges.units.stores import inputs as units_of  # noqa: E402
from judges.units.units import SIZE, SUFFIXES, VERDICTS, find_units  # noqa: E402
from magistrate.ray import Asked, _own, judge, judge_units, verdicts_of  # noqa: E402
from tests.magistrate.units import (  # noqa: E402
    ENGINE,
    magistrate,
    sample_rows,
    verdicts,
    verdicts_of_one_file,
    write_units,
)
from tests.tiny import TINY  # noqa: E402


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    yield made
    ray.shutdown()
    made.shutdown()


def merged(out: Path, tmp_path: Path) -> list[str]:
    done = magistrate("verdicts", "merge", out, "-o", tmp_path / "all.jsonl")
    assert done.returncode == 0, done.stderr
    return verdicts(tmp_path / "all.jsonl")


def command(source: Path, out: Path, cluster: Any) -> list[str]:
    options = ["--ray", cluster.address, "--actors", "2", "-o", str(out)]
    return [sys.executable, "-m", "magistrate", "score", str(source), *ENGINE, *options]


def test_units_have_the_verdicts_of_one_file(inputs: Path, plain: list[str], cluster: Any, tmp_path: Path) -> None:
    done = subprocess.run(command(inputs, tmp_path / "out", cluster), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "6 units judged, 0 done before" in done.stdout
    assert merged(tmp_path / "out", tmp_path) == plain
    again = subprocess.run(command(inputs, tmp_path / "out", cluster), capture_output=True, text=True, timeout=300, check=False)
    assert "0 units judged, 6 done before" in again.stdout
    other = [*command(inputs, tmp_path / "out", cluster), "--metric", "grammar"]
    refused = subprocess.run(other, capture_output=True, text=True, timeout=300, check=False)
    assert refused.returncode == 1
    assert "holds verdicts of another run (fingerprint.digest" in refused.stderr
    changed = tmp_path / "changed"
    shutil.copytree(inputs, changed)
    (changed / "03.jsonl").write_text((changed / "03.jsonl").read_text().replace('"r3', '"R3'))
    refused = subprocess.run(
        command(changed, tmp_path / "out", cluster), capture_output=True, text=True, timeout=300, check=False
    )
    assert refused.returncode == 1
    assert "03.jsonl has changed since it was judged to" in refused.stderr


def started(source: Path, out: Path, cluster: Any) -> tuple[subprocess.Popen[Any], int | None]:
    """A run in a session of its own, and the process of its first actor."""
    process = subprocess.Popen(
        command(source, out, cluster), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    return process, waited_for("ray::MapWorker", process)


def files(out: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of each complete file."""
    found = {path.name: path.stat() for path in out.glob(f"*{VERDICTS}")}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in found.items()}


@pytest.mark.stress
def test_2000_rows_in_40_units_have_the_same_verdicts_however_they_are_judged(cluster: Any, tmp_path: Path) -> None:
    source, shares = tmp_path / "rows", tmp_path / "shares"
    source.mkdir()
    write_units(sample_rows(2000), source, files=40)
    plain = verdicts_of_one_file(source, tmp_path)
    assert subprocess.run(command(source, tmp_path / "ray", cluster), timeout=900, check=False).returncode == 0
    assert merged(tmp_path / "ray", tmp_path) == plain
    share = [sys.executable, "-m", "magistrate", "score", str(source), *ENGINE, "-o", str(shares), "--shard"]
    processes = [subprocess.Popen([*share, f"{number}/3"]) for number in (1, 2, 3)]
    assert [process.wait(900) for process in processes] == [0, 0, 0]
    assert merged(shares, tmp_path) == plain


@pytest.mark.parametrize(
    ("killed", "moments"),
    [("node", 1), *(pytest.param(killed, 5, marks=pytest.mark.stress) for killed in ("actor", "node", "driver"))],
)
def test_a_kill_costs_the_units_in_progress_alone(
    inputs: Path, plain: list[str], cluster: Any, tmp_path: Path, killed: str, moments: int
) -> None:
    seconds = random.Random(f"{killed}{moments}")
    for moment in range(moments):
        out = tmp_path / str(moment)
        process, actor = started(inputs, out, cluster)
        assert actor is not None
        time.sleep(seconds.uniform(0, 15))
        before = files(out)
        if killed == "node":
            cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
            cluster.add_node(num_cpus=1)
        elif killed == "driver":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            with suppress(ProcessLookupError):  # it may have done its work
                os.kill(actor, signal.SIGKILL)
        assert process.wait(300) == (-signal.SIGKILL if killed == "driver" else 0)
        done = subprocess.run(command(inputs, out, cluster), capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        assert before.items() <= files(out).items()
        assert merged(out, tmp_path) == plain


def waited_for(name: str, process: subprocess.Popen[Any]) -> int | None:
    """The id of the first process with a title, once there is one."""
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if (folder / "cmdline").read_bytes().startswith(name.encode()):
                    return int(folder.name)
            except OSError:
                continue
        time.sleep(0.2)
    return None


def test_a_file_is_judged_on_a_cluster(inputs: Path, plain: list[str], cluster: Any, tmp_path: Path) -> None:
    source, out = tmp_path / "all.jsonl", tmp_path / "v.jsonl"
    source.write_bytes(b"".join(path.read_bytes() for path in sorted(inputs.iterdir())))
    asked = ["score", source, *ENGINE, "--ray", cluster.address, "--actors", "2", "-o", out]
    done = magistrate(*asked)
    assert done.returncode == 0, done.stderr
    assert verdicts(out) == plain
    here = magistrate("score", source, *ENGINE, "-o", out)
    assert "60 had been judged by an earlier run" in here.stdout


class Failing(Engine):
    """Answers as a model that always gives the best score, after a number of failures that a file counts."""

    concurrency = 4
    max_alternatives = 0

    def __init__(self, left: Path) -> None:
        self._left = left

    async def identify(self) -> None: ...

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    @property
    def identity(self) -> EngineIdentity:
        return EngineIdentity("failing", "1", "none", None, "none")

    async def generate(self, request: Request) -> Generation:
        if left := len(list(self._left.iterdir())):
            with suppress(FileNotFoundError):
                (self._left / str(left - 1)).unlink()
                raise EngineError("the GPU is gone")
        return Generation('{"content": 5, "grammar": 5, "relevance": 5, "appropriateness": 5}', complete=True, usage=Usage())


class FailingSettings(EngineSettings):
    def open(self) -> Engine:
        return Failing(Path(self.model or ""))


@pytest.fixture
def failing(cluster: Any, tmp_path: Path) -> Callable[[int], FailingSettings]:
    """Settings of engines that fail a number of times together."""
    ray.init(cluster.address, log_to_driver=False, ignore_reinit_error=True)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

    def of(failures: int) -> FailingSettings:
        folder = tmp_path / f"failures{failures}"
        folder.mkdir()
        for number in range(failures):
            (folder / str(number)).touch()
        return FailingSettings(model=str(folder))

    return of


def test_a_request_is_asked_of_another_engine_where_one_fails(failing: Callable[[int], FailingSettings], cluster: Any) -> None:
    async def answers(failures: int) -> set[str]:
        async with ClusterEngine(failing(failures), cluster.address, actors=2) as engine:
            assert engine.concurrency == 8
            asked = [engine.generate(Request((Message("user", str(number)),), max_tokens=9)) for number in range(8)]
            return {generation.text for generation in await asyncio.gather(*asked)}

    assert len(asyncio.run(answers(2))) == 1
    with pytest.raises(EngineError, match="the GPU is gone"):
        asyncio.run(answers(1000))


def test_actors_beyond_a_cluster_s_room_are_not_waited_for(failing: Callable[[int], FailingSettings], cluster: Any) -> None:
    async def answers() -> list[Generation]:
        async with ClusterEngine(failing(0), cluster.address, actors=20) as engine:
            asked = [engine.generate(Request((Message("user", str(number)),), max_tokens=9)) for number in range(40)]
            return await asyncio.wait_for(asyncio.gather(*asked), 60)

    assert len(asyncio.run(answers())) == 40


def test_a_unit_is_judged_by_another_engine_where_one_fails(
    failing: Callable[[int], FailingSettings], inputs: Path, tmp_path: Path
) -> None:
    source, files_of_input = units_of(str(inputs), SUFFIXES)
    units = list(find_units(source, files_of_input, SIZE))
    facts = {"size": SIZE, "columns": {}, "units": len(units)}
    out = Store.of(str(tmp_path / "out"))
    asked = Asked("llm-eval", failing(2), GREEDY)
    tallies = list(judge_units(source, out, units, asked, facts, actors=1))
    assert sum(tally["judged"] for tally in tallies) == 60
    assert state_of(out).summary.scored == 60
    asked = Asked("llm-eval", failing(1000), GREEDY)
    with pytest.raises(MagistrateError, match=r"3 engines have failed at 0.*the last one so: the GPU is gone"):
        list(judge_units(source, Store.of(str(tmp_path / "never")), units, asked, facts, actors=1))


def test_a_dataset_of_ray_data_is_judged(rows: list[dict[str, Any]], plain: list[str], cluster: Any) -> None:
    ray.init(cluster.address, log_to_driver=False, ignore_reinit_error=True)
    dataset = ray.data.from_items(rows, override_num_blocks=4)
    found = judge(dataset, "llm-eval", TINY, engine="transformers", dtype="float32", actors=1).materialize()
    given = []
    for verdict in verdicts_of(found):
        fields = verdict.as_fields()
        fields["usage"]["cached_tokens"] = 0
        given.append(json.dumps(fields))
    assert sorted(given) == plain
    assert found.schema().names[:6] == ["id", "judge", "status", "reason", "scores", "expected"]
    assert set(LLMEval().legal) == set(found.take(1)[0]["scores"])


def test_a_model_that_no_node_has_is_said_once(inputs: Path, cluster: Any, tmp_path: Path) -> None:
    asked = command(inputs, tmp_path / "out", cluster)
    asked[asked.index(TINY)] = str(tmp_path / "nothing")
    done = subprocess.run(asked, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"magistrate: node {socket.gethostname()}: there is no model at {tmp_path / 'nothing'}; "), done.stderr
    assert done.stderr.count("there is no model") == 1


def test_an_actor_that_is_lost_for_good_is_one_sentence() -> None:
    said = str(_own(ray.exceptions.ActorDiedError()))
    assert said.startswith("an actor on the Ray cluster has ended and none takes its place: ")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("address", ["", "ray://"])
def test_an_address_that_names_nothing_is_not_waited_for(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda *_, **__: pytest.fail("Ray tries for minutes"))
    with pytest.raises(MagistrateError, match=f"`--ray {address}` names no cluster"):
        connect(address)


def test_an_address_without_a_cluster_is_said(inputs: Path, tmp_path: Path) -> None:
    done = magistrate("score", inputs, *ENGINE, "--ray", "127.0.0.1:1", "-o", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.startswith("magistrate: no Ray cluster answers at 127.0.0.1:1"), done.stderr
