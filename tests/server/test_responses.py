"""OpenAI's responses, asked by its own client, and what they become as chats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import httpx
import openai
import pytest
from openai import OpenAI
from openai.types.responses import Response
from pydantic import BaseModel

from server.errors import ApiError
from server.hosting.responses import as_chat
from tests.server.running import RunningServer, wait_for_batch

TINY = "magistrate-tiny"
ASKED = "Grade from 1 to 5: Paris is the capital of France."
GREEDY: dict[str, Any] = {"model": TINY, "input": ASKED, "temperature": 0, "extra_body": {"ignore_eos": True}}


class Grade(BaseModel):
    grade: Literal[1, 2, 3, 4, 5]
    verdict: Literal["right", "wrong", "vague"]


@pytest.fixture
def client(magistrate_server: RunningServer) -> OpenAI:
    return magistrate_server.client


def test_a_response_is_the_answer_of_the_chat_that_asks_the_same(client: OpenAI) -> None:
    answer = client.responses.create(**GREEDY, instructions="You grade answers.", max_output_tokens=8, metadata={"study": "1"})
    chat = client.chat.completions.create(
        model=TINY,
        messages=[{"role": "system", "content": "You grade answers."}, {"role": "user", "content": ASKED}],
        temperature=0,
        max_tokens=8,
        extra_body={"ignore_eos": True},
    )
    assert answer.output_text == chat.choices[0].message.content
    assert (answer.usage and answer.usage.output_tokens) == 8
    assert (answer.usage and answer.usage.input_tokens) == (chat.usage and chat.usage.prompt_tokens)
    assert (answer.status, answer.incomplete_details and answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert answer.metadata == {"study": "1"}


def test_a_response_has_the_fields_of_openai(magistrate_server: RunningServer) -> None:
    body = {"model": TINY, "input": ASKED, "max_output_tokens": 8}
    reply = httpx.post(f"{magistrate_server.url}/v1/responses", json=body, timeout=60)
    Response.model_validate(reply.json(), strict=True)


def test_an_answer_follows_a_class(client: OpenAI) -> None:
    answer = client.responses.parse(model=TINY, input=ASKED, text_format=Grade, max_output_tokens=60)
    assert isinstance(answer.output_parsed, Grade)
    assert answer.status == "completed"


def test_a_stream_follows_a_class(client: OpenAI) -> None:
    with client.responses.stream(model=TINY, input=ASKED, text_format=Grade, max_output_tokens=60) as stream:
        assert isinstance(stream.get_final_response().output_parsed, Grade)


def test_an_answer_is_any_object(client: OpenAI) -> None:
    form: Any = {"format": {"type": "json_object"}}
    answer = client.responses.create(model=TINY, input=ASKED, text=form, temperature=0)
    assert isinstance(json.loads(answer.output_text), dict)


def test_a_stream_holds_the_response_that_is_given_without_one(client: OpenAI) -> None:
    whole = client.responses.create(**GREEDY, max_output_tokens=60)
    events = list(client.responses.create(**GREEDY, max_output_tokens=60, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    last = events[-1]
    assert last.type == "response.incomplete"
    assert last.response.output_text == whole.output_text
    assert (last.response.usage and last.response.usage.output_tokens) == 60
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert len(pieces) > 1
    assert "".join(pieces) == whole.output_text


def test_log_probabilities(client: OpenAI) -> None:
    answer = client.responses.create(**GREEDY, max_output_tokens=3, include=["message.output_text.logprobs"], top_logprobs=2)
    item: Any = answer.output[0]
    assert [len(token.top_logprobs) for token in item.content[0].logprobs] == [2, 2, 2]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"previous_response_id": "resp_1"}, "nothing is kept; send the earlier turns in `input`"),
        ({"background": True}, "send a batch instead"),
        ({"tools": [{"type": "web_search"}]}, "the models call no tools"),
        ({"input": []}, "`input` must be a text, or a list of messages"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, r"input\[0\]` must be a message"),
        ({"input": [{"role": "tool", "content": "x"}]}, r"input\[0\].role` must be one of user, assistant"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "nothing but text is read here"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "`text.format.schema` must be a JSON schema"),
        ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "nonsense"}}}}, "nonsense"),
        ({"input": "word " * 20_000}, "maximum context length is 8192"),
        ({"extra_body": {"n": 2}}, "a response has one answer"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_not_offered_is_refused_at_once(client: OpenAI, wrong: dict[str, Any], said: str, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError, match=said):
        client.responses.create(**{"model": TINY, "input": ASKED, "stream": stream, **wrong})


@pytest.mark.parametrize(
    ("most", "said"),
    [
        (0, "`max_output_tokens` must be a whole number of at least 1"),
        (True, "`max_output_tokens` must be a whole number"),
        ("5", "`max_output_tokens` must be a whole number"),
        (100_000_000, "max_output_tokens=100000000 cannot be greater"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_wrong_limit_is_named_as_the_caller_named_it(client: OpenAI, most: Any, said: str, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError, match=said) as caught:
        client.responses.create(model=TINY, input=ASKED, max_output_tokens=most, stream=stream)
    assert caught.value.param == "max_output_tokens"
    assert "max_completion_tokens" not in str(caught.value)


def test_half_a_character_is_refused_where_it_would_come_back(magistrate_server: RunningServer) -> None:
    body = b'{"model": "magistrate-tiny", "input": "Hi!", "metadata": {"study": "\\ud800"}}'
    reply = httpx.post(f"{magistrate_server.url}/v1/responses", content=body, headers={"content-type": "application/json"})
    assert (reply.status_code, "half of a surrogate pair" in reply.text) == (400, True)


def test_a_response_is_not_kept(client: OpenAI) -> None:
    answer = client.responses.create(model=TINY, input=ASKED, max_output_tokens=2)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(answer.id)


def test_a_batch_of_responses(client: OpenAI, tmp_path: Path) -> None:
    bodies = [{"model": TINY, "input": ASKED, "max_output_tokens": 4}, {"model": TINY, "input": ASKED, "tools": [{}]}]
    lines = [
        {"custom_id": str(number), "method": "POST", "url": "/v1/responses", "body": body} for number, body in enumerate(bodies)
    ]
    (tmp_path / "batch.jsonl").write_text("\n".join(map(json.dumps, lines)))
    file = client.files.create(file=tmp_path / "batch.jsonl", purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/responses", completion_window="24h")
    done = wait_for_batch(client, batch.id)
    assert (done.request_counts.completed, done.request_counts.failed) == (1, 1)
    (line,) = client.files.content(done.output_file_id).text.splitlines()
    assert Response.model_validate(json.loads(line)["response"]["body"]).output_text
    assert "the models call no tools" in client.files.content(done.error_file_id).text


def test_a_request_becomes_a_chat() -> None:
    turns = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "Hi!"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]},
    ]
    schema = {"type": "object"}
    chat = as_chat(
        {
            "model": "m",
            "input": turns,
            "instructions": "Grade.",
            "max_output_tokens": 9,
            "stream": True,
            "store": True,
            "temperature": 0.5,
            "reasoning": {"effort": "low"},
            "text": {"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}},
            "seed": 7,
        }
    )
    assert chat == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Grade."},
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Hi!"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]},
        ],
        "max_completion_tokens": 9,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}},
        "seed": 7,
    }


@pytest.mark.parametrize(
    "body", [{"input": 5}, {"input": "x", "text": []}, {"input": "x", "text": {"format": 1}}, {"input": "x", "include": 5}]
)
def test_a_field_of_a_wrong_type_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as caught:
        as_chat(body)
    assert caught.value.status == 400
