"""A caller's pattern that never finishes compiling: it is refused, and nobody else's answer waits for it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.live import within
from tests.server.running import MODELS, RunningServer, dialogues, wait_for_batch

TEXT = {"type": "string", "minLength": 400, "maxLength": 400}
NEVER_DONE: dict[str, dict[str, Any]] = {
    "repeats": {"structured_outputs": {"regex": "(a+)+(b{1,1000}){1,1000}"}},
    "texts of a length": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "x", "schema": {"type": "array", "items": TEXT, "minItems": 400, "maxItems": 400}},
        }
    },
    "states without number": {"structured_outputs": {"regex": "(a|b)*a(a|b){24}"}},
}
RUBRIC = 'name = "r"\nfields = ["reply"]\n' + "".join(
    f'[[metric]]\nname = "m{n}"\ndescription = "d"\nscale = "0-100"\n' for n in range(25)
)


@pytest.fixture(
    scope="module",
    params=["outlines", *(pytest.param(name, marks=pytest.mark.stress) for name in ("xgrammar", "guidance"))],
)
def server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    models = f'{MODELS}constraint = "{request.param}"\n'
    server = RunningServer(tmp_path_factory.mktemp("patterns"), models=models).start()
    yield server.wait_until_ready()
    server.stop()


@pytest.fixture(scope="module")
def refuses(request: pytest.FixtureRequest, server: RunningServer) -> bool:
    """Whether the constraint backend compiles a pattern's repeats one by one, as Outlines does."""
    return "outlines" in models_of(server)


def models_of(server: RunningServer) -> str:
    return Path(server.log).parent.joinpath("models.toml").read_text()


def chat(server: RunningServer, **fields: Any) -> httpx.Response:
    message = {"role": "user", "content": "Say hello."}
    body = {"model": "magistrate-tiny", "messages": [message], "max_tokens": 16, **fields}
    return httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=300)


def judged(server: RunningServer, **fields: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/judgments", json={"samples": dialogues(1), **fields}, timeout=300)


def message_of(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["message"])


def test_the_guard_is_there_before_it_is_asked(server: RunningServer) -> None:
    assert within(60, lambda: bool(server.children("pattern_guard")))


def test_patterns_of_callers_constrain_answers(server: RunningServer) -> None:
    def written(**fields: Any) -> str:
        return str(chat(server, **fields).raise_for_status().json()["choices"][0]["message"]["content"])

    assert written(structured_outputs={"regex": "(kelp|moss)!"}) in ("kelp!", "moss!")
    assert written(structured_outputs={"choice": ["kelp", "moss"]}) in ("kelp", "moss")
    schema = {"type": "object", "properties": {"a": {"enum": ["kelp"]}}, "required": ["a"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert json.loads(written(response_format=form)) == {"a": "kelp"}


def test_a_pattern_that_is_not_in_order_is_refused(server: RunningServer) -> None:
    for stream in (False, True):
        answer = chat(server, structured_outputs={"regex": "(a|b"}, stream=stream)
        assert answer.status_code == 400, answer.text
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["error"]["type"] == "invalid_request_error"


def test_others_are_judged_while_a_pattern_is_compiled(server: RunningServer, refuses: bool) -> None:
    assert judged(server).status_code == 200
    with ThreadPoolExecutor(3) as pool:
        hostile = [pool.submit(chat, server, **fields) for fields in NEVER_DONE.values()]
        meanwhile = 0
        while not all(one.done() for one in hostile):
            assert judged(server).json()["data"][0]["status"] == "scored"
            meanwhile += 1
        answers = [one.result() for one in hostile]
    if refuses:
        assert [answer.status_code for answer in answers] == [400, 400, 400]
        assert all(message_of(answer).startswith("the pattern takes more than") for answer in answers)
        assert meanwhile > 10
    assert all(answer.status_code in (200, 400) for answer in answers)
    assert judged(server, judge="llm-eval", options={"scale": "0-100"}).status_code == 200, "new patterns are compiled"


def test_a_grammar_that_slows_down_ends_alone(server: RunningServer, refuses: bool) -> None:
    """Its first tokens are quick, and each takes longer than the one before."""
    if refuses:
        pytest.skip("Outlines takes no grammars")
    rules = {"root ::= ": "root ::= s\ns ::= {}", "start: ": "start: s\ns: {}"}
    syntax = "start: " if "guidance" in models_of(server) else "root ::= "
    for number, ambiguous in enumerate(['s s s | s s | "a" | ""', 's s s s s s | s s s | s s | "a" | ""']):
        grammar = rules[syntax].format(ambiguous)
        fields = {"structured_outputs": {"grammar": grammar}, "max_tokens": 1500, "min_tokens": 1500, "seed": number}
        with ThreadPoolExecutor(5) as pool:
            hostile = [pool.submit(chat, server, **fields) for _ in range(5)]
            while not all(one.done() for one in hostile):
                assert judged(server).json()["data"][0]["status"] == "scored"
        assert {one.result().status_code for one in hostile} == {400}
        assert "takes too long to compute" in message_of(hostile[0].result())


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 10**30},
        {"type": "array", "items": {"type": "integer"}, "minItems": 10**25},
        {"type": "string", "maxLength": 10**25},
        {"type": "integer", "multipleOf": 10**30},
        {"enum": [10**30, 1.5e300]},
        {"const": 10**400},
    ],
    ids=lambda schema: next(key for key in schema if key not in ("type", "items")),
)
def test_numbers_of_any_size_are_no_fault_of_the_server(server: RunningServer, schema: dict[str, Any]) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert chat(server, response_format=form).status_code in (200, 400)


def test_a_constraint_that_nothing_follows_is_refused(server: RunningServer) -> None:
    for regex in (r"[^\s\S]", "a{1000000000000000000000000}"):
        assert chat(server, structured_outputs={"regex": regex}).status_code == 400
    for grammar in ('root ::= "a"{1000000}', "root ::= root"):
        assert chat(server, structured_outputs={"grammar": grammar}).status_code in (200, 400)


def test_a_refusal_is_remembered(server: RunningServer, refuses: bool) -> None:
    if not refuses:
        pytest.skip("this backend compiles it")
    fields = NEVER_DONE["repeats"]
    chat(server, **fields)
    with ThreadPoolExecutor(20) as pool:
        assert {one.status_code for one in pool.map(lambda _: chat(server, **fields), range(20))} == {400}


def test_rubrics_and_options_are_patterns_too(server: RunningServer) -> None:
    """Whatever it takes to compile them, they have an answer, and others theirs meanwhile."""
    many = {"attributes": [f"attribute {n} of many" for n in range(15)]}
    asked: list[dict[str, Any]] = [
        {"rubric": RUBRIC, "samples": [{"id": "1", "reply": "Yes."}]},
        {"judge": "affinity", "options": many, "samples": [{"id": "1", "input": "Add two numbers."}]},
        {"judge": "shrink", "samples": [{"id": "1", "attributes": [f"attribute {n}" for n in range(400)]}]},
    ]
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(judged, server, **fields) for fields in asked]
        while not all(one.done() for one in answers):
            assert judged(server).json()["data"][0]["status"] == "scored"
    for answer in (one.result() for one in answers):
        assert answer.status_code == 200 or message_of(answer).startswith("the pattern takes more than"), answer.text


def test_a_line_of_a_batch_is_refused_alone(server: RunningServer, refuses: bool, tmp_path: Path) -> None:
    lines = [NEVER_DONE["repeats"], {}, {"structured_outputs": {"regex": "(yes|no)"}}]
    path = tmp_path / "chat.jsonl"
    with path.open("w") as file:
        for number, fields in enumerate(lines):
            body = {"model": "magistrate-tiny", "messages": [{"role": "user", "content": "Well?"}], "max_tokens": 8, **fields}
            line = {"custom_id": str(number), "method": "POST", "url": "/v1/chat/completions", "body": body}
            file.write(json.dumps(line) + "\n")
    uploaded = server.client.files.create(file=path, purpose="batch")
    made = server.client.batches.create(input_file_id=uploaded.id, endpoint="/v1/chat/completions", completion_window="24h")
    batch = wait_for_batch(server.client, made.id)
    assert batch.request_counts.failed == int(refuses)
    if refuses:
        fault = json.loads(server.client.files.content(batch.error_file_id).text)
        assert (fault["custom_id"], fault["response"]["status_code"]) == ("0", 400)


def test_the_guard_comes_back_when_it_was_killed(server: RunningServer) -> None:
    chat(server, structured_outputs={"regex": "one"})
    (guard,) = server.children("pattern_guard")
    os.kill(guard, signal.SIGKILL)
    answer = chat(server, structured_outputs={"regex": "two"})
    if answer.status_code == 503:
        answer = chat(server, structured_outputs={"regex": "two"})
    assert answer.raise_for_status().json()["choices"][0]["message"]["content"] == "two"


def test_a_sample_that_is_many_times_too_long_is_refused(server: RunningServer) -> None:
    long = {"id": "1", "context": ["Hello."], "response": "word " * 1_000_000}
    (verdict,) = judged(server, samples=[long]).json()["data"]
    assert verdict["status"] == "unscored"
    assert verdict["reason"].startswith("context overflow: the prompt has at least ")
    spaces = judged(server, samples=[{**long, "response": " " * 5_000_000 + "Yes."}]).json()["data"][0]
    assert spaces["status"] == "unscored"
