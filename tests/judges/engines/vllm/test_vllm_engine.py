from __future__ import annotations

import asyncio

from judges.engines.engine import Engine, Generation, Request, and_close
from judges.engines.vllm.engine import VLLMEngine
from judges.engines.vllm.plugin import make_searchable
from judges.judge import Message
from tests.conftest import TINY
from tests.judges.engines.test_conformance import ask


def test_numba_may_be_loaded_before_vllm() -> None:
    import llvmlite.binding
    from llvmlite.binding import ffi

    make_searchable()
    make_searchable()
    assert not hasattr(ffi.lib, "__dict__")
    assert llvmlite.binding.get_process_triple()


def test_an_engine_that_is_closed_leaves_another_at_work(loop: asyncio.Runner, vllm_engine: Engine) -> None:
    request = Request((Message("user", "Why?"),), 4)
    (before,) = ask(loop, vllm_engine, request)
    other = VLLMEngine(TINY, dtype="float32", max_num_seqs=2)

    async def asked() -> Generation:
        await other.identify()
        await other.start()
        return await other.generate(request)

    assert loop.run(and_close(asked(), other)).text == before.text
    assert ask(loop, vllm_engine, request)[0].text == before.text


def test_prompts_that_no_step_has_room_for_are_sampled_with_their_seed(loop: asyncio.Runner, vllm_engine: Engine) -> None:
    """vLLM takes such a prompt in parts, and takes back what it draws meanwhile; a CPU's generator has no way back of its own."""
    texts = [f"{number} " + " ".join(str(number * other) for other in range(300)) for number in range(1, 13)]
    requests = [Request((Message("user", text),), 12, r"[a-z]{8}", temperature=2.0, seed=seed) for seed, text in enumerate(texts)]
    together = [answer.text for answer in ask(loop, vllm_engine, *requests)]
    alone = [ask(loop, vllm_engine, request)[0].text for request in requests]
    assert len(set(together)) > 1
    assert together == alone
