"""A hosted model on a real engine: adapters, an engine that dies, a model that does not load, models that take turns."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from finetune.training.recipe import Recipe
from judges.catalog import open_judge
from judges.data.rows import Row
from judges.engines.chat import ChatTokenizer
from judges.engines.engine import Request
from judges.errors import MagistrateError
from judges.judge import Message
from judges.runner import Runner, prepare
from server.errors import ApiError
from server.hosting.adapters import Adapters
from server.hosting.hosted_model import HostedModel
from server.hosting.models_file import ModelSpec
from server.hosting.swapper import ModelSwapper
from tests.server.random_adapter import write_adapter
from tests.tiny import TINY

Result = TypeVar("Result")


class Running:
    """An event loop of its own, on which models live."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    def __call__(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(work)


@pytest.fixture(scope="module")
def run() -> Iterator[Running]:
    running = Running()
    yield running
    running.runner.close()


@pytest.fixture(scope="module")
def allowed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("adapters")


@pytest.fixture(scope="module")
def hosted(run: Running, allowed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedModel]:
    spec = ModelSpec(model=TINY, dtype="float32", max_num_seqs=8, adapters=2, max_lora_rank=8)
    made = HostedModel("tiny", spec, adapters=Adapters((allowed,), tmp_path_factory.mktemp("copies"), 8))

    async def begin() -> None:
        made.begin()
        async with made.answering(urgent=False):
            return

    run(begin())
    yield made
    run(made.close())


async def say(hosted: HostedModel, model: str) -> str:
    assert hosted.openai is not None
    body = {"messages": [{"role": "user", "content": "Tell me a long story."}], "max_tokens": 12, "temperature": 0}
    reply = await hosted.openai.answer("/v1/chat/completions", body, model=model, urgent=True)
    assert reply.status == 200, reply.body
    assert reply.body is not None
    return str(reply.body["choices"][0]["message"]["content"])


def test_a_judge_asks_an_adapter_in_the_form_that_it_was_trained_in(run: Running, hosted: HostedModel, allowed: Path) -> None:
    folder = write_adapter(allowed / "formed", seed=3)
    plain = run(hosted.load_adapter("formed", str(folder)))
    (folder / "chat_template.jinja").write_text(Recipe.load("grouse").template() or "", encoding="utf-8")
    formed = run(hosted.load_adapter("formed", str(folder)))
    assert formed.name != plain.name, "the form is a part of the version"
    asked = Request((Message("user", "Hi."),), 4)
    used = {}
    for adapter in (plain, formed):
        answer = run(hosted.view(urgent=True, adapter=adapter.name).generate(asked))
        used[adapter.name] = answer.usage.prompt_tokens
    own = ChatTokenizer.load(Path(TINY))
    assert used[plain.name] == len(own.encode(asked.messages))
    assert used[formed.name] == len(own.with_template(formed.template).encode(asked.messages)) != used[plain.name]
    for adapter in (plain, formed):
        run(hosted.unload_adapter(adapter.name))


def test_an_adapter_is_loaded_versioned_restored_and_unloaded(run: Running, hosted: HostedModel, allowed: Path) -> None:
    plain = run(say(hosted, "tiny"))
    folder = write_adapter(allowed / "spots", seed=1)
    first = run(hosted.load_adapter("spots", str(folder)))
    told = run(say(hosted, first.name))
    assert told != plain
    assert run(hosted.load_adapter("spots", str(folder))) is hosted.adapters.find("spots"), (
        "the same weights are the same version"
    )

    # Other weights from the same folder, under the same name: neither files nor prefixes of the first may serve them.
    second = run(hosted.load_adapter("spots", str(write_adapter(folder, seed=2))))
    assert (second.name.split("@")[0], second.name != first.name) == ("spots", True)
    assert run(say(hosted, second.name)) not in (plain, told)
    assert run(say(hosted, first.name)) == told, "the first version is as it was"
    assert run(say(hosted, "tiny")) == plain
    assert hosted.adapters.find("spots") is second

    # A judge on an adapter has a fingerprint of its own.
    judge = open_judge("llm-eval")
    prints = {Runner(judge, hosted.view(urgent=True, adapter=adapter)).fingerprint for adapter in (None, first.name, second.name)}
    assert len(prints) == 3

    engine = int(
        subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", "EngineCore"], capture_output=True, text=True).stdout.split()[-1]
    )
    os.kill(engine, signal.SIGKILL)
    run(wait_until_back(hosted))
    assert hosted.restarts == 1
    assert run(say(hosted, first.name)) == told, "a new engine has the adapters of the old one"

    unloaded = run(hosted.unload_adapter("spots"))
    assert unloaded is not None
    assert unloaded.name == second.name
    assert hosted.adapters.find("spots") is None
    assert hosted.adapters.find(first.name) is not None
    assert run(hosted.unload_adapter("spots")) is None


async def wait_until_back(hosted: HostedModel) -> None:
    while hosted.restarts == 0:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    async with hosted.answering(urgent=False):
        return


def test_adapters_that_cannot_be_used_are_refused_before_the_engine_sees_them(
    run: Running, hosted: HostedModel, allowed: Path
) -> None:
    outside = write_adapter(allowed.parent / "elsewhere", seed=3)
    (allowed / "link").symlink_to(outside)
    torn = write_adapter(allowed / "torn", seed=4)
    (torn / "adapter_model.safetensors").write_bytes((torn / "adapter_model.safetensors").read_bytes()[:100])
    (allowed / "empty").mkdir()
    wide = write_adapter(allowed / "wide", seed=5, rank=16)
    cases = {
        str(outside): "must lie in a folder",
        str(allowed / "link"): "must lie in a folder",
        f"{allowed}/../elsewhere": "must lie in a folder",
        "/etc\0": "NUL",
        str(allowed / "empty"): "adapter_config.json",
        str(torn): "cannot be read",
        str(wide): "rank is 16",
    }
    for path, said in cases.items():
        with pytest.raises(MagistrateError, match=said):
            run(hosted.load_adapter("bad", path))
    with pytest.raises(MagistrateError, match="letters, digits"):
        run(hosted.load_adapter("../bad", str(outside)))
    assert hosted.state == "ready"


def test_bulk_and_urgent_answers_are_the_same(run: Running, hosted: HostedModel) -> None:
    judge = open_judge("llm-eval")
    questions = [prepare(Row(str(n), "here", {"context": ["Hi"], "response": f"Hello {n}"}), judge) for n in range(24)]

    async def both() -> tuple[list[Any], list[Any]]:
        bulk, urgent = (Runner(judge, hosted.view(urgent=waits)) for waits in (False, True))

        async def calls() -> list[Any]:
            return [(await urgent.judge_one(question)).scores for question in questions[:6]]

        async def batch() -> list[Any]:
            return [verdict.scores for verdict in await asyncio.gather(*(bulk.judge_one(question) for question in questions))]

        scores, called = await asyncio.gather(batch(), calls())
        return scores, called

    scores, called = run(both())
    assert scores[:6] == called


def test_a_model_that_does_not_load_says_why(run: Running, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(Path(TINY), broken)
    (broken / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}")
    hosted = HostedModel("broken", ModelSpec(model=str(broken), dtype="float32"), adapters=Adapters((), tmp_path, 8))

    async def wait() -> None:
        hosted.begin()
        while hosted.state != "failed":  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    run(wait())
    assert "vLLM cannot start" in str(hosted.reason)
    assert "root cause above" not in str(hosted.reason), "the cause itself, not that there is one"

    async def ask() -> None:
        async with hosted.answering(urgent=True):
            raise AssertionError("it cannot answer")

    with pytest.raises(ApiError) as refused:
        run(ask())
    assert refused.value.status == 503
    run(hosted.close())


def test_models_that_take_turns_on_transformers(run: Running, tmp_path: Path) -> None:
    judge = open_judge("llm-eval")
    question = prepare(Row("1", "here", {"context": ["Hi"], "response": "Hello"}), judge)

    async def play() -> tuple[set[Any], int, list[Any]]:
        swapper = ModelSwapper(turn=60, short_turn=0.1)
        spec = ModelSpec(model=TINY, engine="transformers", dtype="float32")
        models = [HostedModel(name, spec, adapters=Adapters((), tmp_path, 8), swapper=swapper) for name in ("one", "two")]
        found = set()
        for hosted in (*models, *models):
            async with hosted.answering(urgent=True):
                found.add(str((await Runner(judge, hosted.view(urgent=True)).judge_one(question)).scores))
        states = [hosted.state for hosted in models]
        await swapper.close()
        for hosted in models:
            await hosted.close()
        return found, swapper.swaps, states

    found, swaps, states = run(play())
    assert len(found) == 1
    assert swaps == 3
    assert states == ["waiting", "ready"]
