from __future__ import annotations

import asyncio

import pytest

from judges.engines.engine import Engine, Generation, Request, and_close
from judges.engines.vllm.engine import VLLMEngine
from judges.engines.vllm.intake import KEPT
from judges.engines.vllm.plugin import make_searchable
from judges.engines.vllm.settings import refusals
from judges.errors import RequestError
from judges.judge import Message
from tests.judges.engines.test_conformance import ask
from tests.tiny import TINY


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


def test_a_pattern_is_checked_once_and_a_wrong_one_always_refused(
    loop: asyncio.Runner, vllm_engine: VLLMEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.v1.structured_output import backend_outlines

    checked: list[str] = []
    check = backend_outlines.validate_regex_is_buildable

    def counted(pattern: str) -> None:
        checked.append(pattern)
        check(pattern)

    monkeypatch.setattr(backend_outlines, "validate_regex_is_buildable", counted)
    asked = [Request((Message("user", text),), 8, r"(yes|no|maybe)") for text in ("Why?", "When?", "Who?")]
    wrong = Request((Message("user", "Why?"),), 8, r"(?=a)yes")
    for _ in range(2):
        assert all(answer.text in ("yes", "no", "maybe") for answer in ask(loop, vllm_engine, *asked))
        with pytest.raises(RequestError, match="Look-Around"):
            ask(loop, vllm_engine, wrong)
    assert checked == [r"(yes|no|maybe)", r"(?=a)yes", r"(?=a)yes"]


def test_texts_are_those_that_vllm_writes(loop: asyncio.Runner, vllm_engine: VLLMEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whole answers and of those cut off, one of them inside a character."""
    patterns = [r'\{"a": "[^"]*"\}', "(\U0001f642|\U0001f600){4}", "[a-z]{3}"]
    asked = [Request((Message("user", "Why?"),), room, pattern) for pattern in patterns for room in (1, 2, 3, 5, 9, 24)]
    ours = ask(loop, vllm_engine, *asked)
    monkeypatch.setattr(vllm_engine._intake, "_spells", False)
    monkeypatch.setattr(vllm_engine._intake, "_params", {})
    assert [answer.text for answer in ours] == [answer.text for answer in ask(loop, vllm_engine, *asked)]
    assert len({answer.text for answer in ours}) > len(patterns)
    assert {answer.complete for answer in ours} == {True, False}


def test_as_many_kinds_of_requests_are_kept_as_stated(loop: asyncio.Runner, vllm_engine: VLLMEngine) -> None:
    asked = [Request((Message("user", "Why?"),), 1, "a", temperature=1.0, seed=seed) for seed in range(KEPT + 9)]
    assert {answer.text for answer in ask(loop, vllm_engine, *asked)} == {"a"}
    assert len(vllm_engine._intake._params) == KEPT


def test_an_older_vllm_refuses_by_value_errors_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm import exceptions

    newer = refusals()
    monkeypatch.delattr(exceptions, newer[1].__name__)
    assert set(refusals()) == {ValueError} < set(newer)
