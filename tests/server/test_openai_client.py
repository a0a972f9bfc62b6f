"""OpenAI's own client, unchanged, against a running server: what other tools build on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam
from pydantic import BaseModel, Field

from tests.server.running import MODELS, RunningServer

TINY = "magistrate-tiny"
ASKED: list[ChatCompletionMessageParam] = [
    {"role": "system", "content": "You grade answers."},
    {"role": "user", "content": "Grade from 1 to 5: Paris is the capital of France."},
]
GRADE = {
    "type": "object",
    "properties": {"grade": {"enum": [1, 2, 3, 4, 5]}, "why": {"type": "string", "maxLength": 40}},
    "required": ["grade", "why"],
    "additionalProperties": False,
}
MOST = 20
"""Tokens of an answer of the model `plain` for which a client gives no limit."""
LONG: dict[str, Any] = {"max_tokens": 7000, "extra_body": {"ignore_eos": True}}
"""An answer that takes the engine far longer than a test waits."""


class Grade(BaseModel):
    grade: Literal[1, 2, 3, 4, 5]
    verdict: Literal["right", "wrong", "vague"]
    sureness: int = Field(ge=0, le=100)


@pytest.fixture(scope="module", autouse=True)
def starting_with_schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server of two models, the answers of one of which have a schema by default, starting while the first tests run."""
    folder = tmp_path_factory.mktemp("schema")
    (folder / "grade.json").write_text(json.dumps(GRADE))
    plain = f"{MODELS.replace(TINY, 'plain', 1)}max_completion_tokens = {MOST}\n"
    server = RunningServer(folder, models=f'{MODELS}answer_schema = "grade.json"\n{plain}')
    yield server.start()
    server.stop()


@pytest.fixture
def client(magistrate_server: RunningServer) -> OpenAI:
    return magistrate_server.client


def test_the_models_are_listed(client: OpenAI) -> None:
    assert TINY in [model.id for model in client.models.list()]
    assert client.models.retrieve(TINY).id == TINY


def test_a_chat_is_answered_and_its_tokens_counted(client: OpenAI) -> None:
    answer = client.chat.completions.create(model=TINY, messages=ASKED, max_tokens=8, extra_body={"ignore_eos": True})
    assert answer.model == TINY
    assert (answer.choices[0].finish_reason, answer.choices[0].message.role) == ("length", "assistant")
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 8


def test_several_choices_of_one_prompt(client: OpenAI) -> None:
    answer = client.chat.completions.create(model=TINY, messages=ASKED, max_tokens=16, n=2, temperature=1, seed=7)
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.choices[0].message.content != answer.choices[1].message.content


def test_a_stream_holds_the_answer_that_is_given_without_one(client: OpenAI) -> None:
    whole = client.chat.completions.create(model=TINY, messages=ASKED, max_tokens=12, temperature=0)
    events = list(
        client.chat.completions.create(
            model=TINY, messages=ASKED, max_tokens=12, temperature=0, stream=True, stream_options={"include_usage": True}
        )
    )
    pieces = [event.choices[0].delta.content or "" for event in events if event.choices]
    assert len(pieces) > 1  # tokens that are there when the next is sent go together
    assert "".join(pieces) == whole.choices[0].message.content
    assert events[-1].usage is not None
    assert whole.usage is not None
    assert events[-1].usage.completion_tokens == whole.usage.completion_tokens > 5


def test_log_probabilities_of_a_greedy_answer(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model=TINY, messages=ASKED, max_tokens=4, temperature=0, logprobs=True, top_logprobs=3
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content
    for token in logprobs.content:
        assert len(token.top_logprobs) == 3
        assert token.logprob == max(other.logprob for other in token.top_logprobs) <= 0


def test_an_answer_follows_a_json_schema(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model=TINY,
        messages=ASKED,
        max_tokens=100,
        response_format={"type": "json_schema", "json_schema": {"name": "grade", "schema": GRADE, "strict": True}},
    )
    assert_grade(answer.choices[0].message.content)


def assert_grade(content: str | None) -> None:
    grade = json.loads(content or "")
    assert set(grade) == {"grade", "why"}
    assert grade["grade"] in (1, 2, 3, 4, 5)
    assert len(grade["why"]) <= 40


def test_an_answer_is_parsed_into_a_class(client: OpenAI) -> None:
    for completions in (client.chat.completions, client.beta.chat.completions):
        parsed = completions.parse(model=TINY, messages=ASKED, max_tokens=60, response_format=Grade).choices[0].message.parsed
        assert isinstance(parsed, Grade)


def test_a_stream_is_parsed_into_a_class(client: OpenAI) -> None:
    with client.chat.completions.stream(model=TINY, messages=ASKED, max_tokens=60, response_format=Grade) as stream:
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Grade)


def test_an_answer_is_any_json_object(client: OpenAI) -> None:
    answers = client.chat.completions.create(
        model=TINY, messages=ASKED, response_format={"type": "json_object"}, temperature=1, seed=3, n=20, max_tokens=300
    )
    ended = [choice.message.content or "" for choice in answers.choices if choice.finish_reason == "stop"]
    assert len(ended) > 5
    assert all(isinstance(json.loads(answer), dict) for answer in ended)
    assert {choice.finish_reason for choice in answers.choices} <= {"stop", "length"}


def test_text_may_be_any_json_object_too(client: OpenAI) -> None:
    form = {"response_format": {"type": "json_object"}}
    answer = client.completions.create(model=TINY, prompt="Grade: ", max_tokens=100, n=10, temperature=1, seed=3, extra_body=form)
    assert all(choice.text.startswith(('{"', "{}")) for choice in answer.choices)
    assert all(json.loads(choice.text) is not None for choice in answer.choices if choice.finish_reason == "stop")


def test_text_is_completed_and_scored(client: OpenAI) -> None:
    answer = client.completions.create(model=TINY, prompt=["Once upon", "The end"], max_tokens=1, echo=True, logprobs=1)
    for choice, prompt in zip(answer.choices, ["Once upon", "The end"], strict=True):
        assert choice.text.startswith(prompt)
        assert choice.logprobs is not None
        assert choice.logprobs.token_logprobs is not None
        assert all(logprob <= 0 for logprob in choice.logprobs.token_logprobs[1:] if logprob is not None)


def test_an_unknown_model_is_told_with_those_that_are_here(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="there is no model `gpt-4` here; there are magistrate-tiny") as told:
        client.chat.completions.create(model="gpt-4", messages=ASKED)
    assert (told.value.code, told.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"messages": "hello"}, "messages"),
        ({"messages": []}, "at least one message"),
        ({"messages": [{"role": "user", "content": "word " * 20_000}]}, "maximum context length is 8192"),
        ({"max_tokens": 100_000}, "max_tokens"),
        ({"n": 1000}, "`n` must be a whole number of at most 128"),
        ({"temperature": -1}, "temperature"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}}, "nonsense"),
    ],
    ids=["no list", "no messages", "too long", "too many tokens", "too many choices", "temperature", "schema"],
)
def test_what_is_wrong_with_a_request_is_told(client: OpenAI, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(openai.BadRequestError) as told:
        client.chat.completions.create(**{"model": TINY, "messages": ASKED, **wrong})
    assert told.value.type == "invalid_request_error"
    assert said in told.value.message


def test_a_refusal_does_not_tell_where_the_model_lies(client: OpenAI) -> None:
    picture: Any = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]
    with pytest.raises(openai.BadRequestError) as told:
        client.chat.completions.create(model=TINY, messages=picture)
    assert f"{TINY} is not a multimodal model" in told.value.message
    assert "/" not in told.value.message


def test_an_endpoint_that_is_not_here_is_told(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="nothing at this address"):
        client.embeddings.create(model=TINY, input="hello")


def processor_seconds(process: int) -> float:
    """That a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def becomes_idle(process: int, seconds: float = 8) -> bool:
    """Whether a process comes to use next to no processor within a time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = processor_seconds(process)
        time.sleep(1)
        if processor_seconds(process) - before < 0.1:
            return True
    return False


def test_a_client_that_goes_away_frees_the_engine(magistrate_server: RunningServer) -> None:
    engine = magistrate_server.engine_pid
    assert engine is not None
    before = processor_seconds(engine)
    with pytest.raises(openai.APITimeoutError):
        magistrate_server.client.with_options(timeout=2).chat.completions.create(model=TINY, messages=ASKED, **LONG)
    assert processor_seconds(engine) - before > 0.1
    assert becomes_idle(engine)


def test_a_client_that_leaves_a_stream_frees_the_engine(magistrate_server: RunningServer) -> None:
    engine = magistrate_server.engine_pid
    assert engine is not None
    stream = magistrate_server.client.chat.completions.create(model=TINY, messages=ASKED, stream=True, **LONG)
    for _ in range(20):
        next(stream)
    stream.close()
    assert becomes_idle(engine)


def test_a_client_that_leaves_the_stream_of_a_response_frees_the_engine(magistrate_server: RunningServer) -> None:
    engine = magistrate_server.engine_pid
    assert engine is not None
    endless: dict[str, Any] = {"max_output_tokens": 7000, "extra_body": {"ignore_eos": True}}
    stream = magistrate_server.client.responses.create(model=TINY, input="Hi!", stream=True, **endless)
    for _ in range(20):
        next(stream)
    stream.close()
    assert becomes_idle(engine)


def test_a_default_schema_holds_where_the_client_asks_for_no_other(starting_with_schema: RunningServer) -> None:
    client = starting_with_schema.wait_until_ready().client
    formats: list[dict[str, Any]] = [{}, {"response_format": {"type": "json_object"}}]
    for asked in formats:
        answer = client.chat.completions.create(**{"model": TINY, "messages": ASKED, "max_tokens": 100, **asked})
        assert_grade(answer.choices[0].message.content)
    parsed = client.chat.completions.parse(model=TINY, messages=ASKED, max_tokens=60, response_format=Grade)
    assert isinstance(parsed.choices[0].message.parsed, Grade)
    answer = client.responses.create(model=TINY, input="Grade: Paris.", max_output_tokens=100)
    assert_grade(answer.output_text)
    plain = client.chat.completions.create(model="plain", messages=ASKED, max_tokens=100)
    with pytest.raises((AssertionError, ValueError, KeyError)):  # the other model on the same server has no schema
        assert_grade(plain.choices[0].message.content)


def test_an_answer_without_a_limit_of_its_own_ends_at_that_of_the_model(starting_with_schema: RunningServer) -> None:
    client = starting_with_schema.wait_until_ready().client
    endless: dict[str, Any] = {"extra_body": {"ignore_eos": True}}
    answer = client.chat.completions.create(model="plain", messages=ASKED, **endless)
    assert (answer.choices[0].finish_reason, answer.usage and answer.usage.completion_tokens) == ("length", MOST)
    longer = client.chat.completions.create(model="plain", messages=ASKED, max_tokens=2 * MOST, **endless)
    assert longer.usage is not None
    assert longer.usage.completion_tokens == 2 * MOST
    response = client.responses.create(model="plain", input="Hi!", **endless)
    assert (response.status, response.usage and response.usage.output_tokens) == ("incomplete", MOST)


def test_a_prompt_that_leaves_less_room_than_the_limit_is_answered(client: OpenAI) -> None:
    prompt: list[ChatCompletionMessageParam] = [{"role": "user", "content": " a" * 8150}]
    answer = client.chat.completions.create(model=TINY, messages=prompt, extra_body={"ignore_eos": True})
    assert answer.usage is not None
    assert (answer.choices[0].finish_reason, answer.usage.total_tokens) == ("length", 8192)
