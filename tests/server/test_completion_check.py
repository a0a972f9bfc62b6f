"""What a completion may ask for, looked at before anything reads it."""

from __future__ import annotations

from typing import Any

import pytest

from server.errors import ApiError
from server.hosting.completion_check import MOST_PARTS, check_completion
from server.settings import Settings

SETTINGS = Settings(max_samples=64)
HI = {"role": "user", "content": "Hi!"}


def calling(arguments: str, times: int = 1) -> dict[str, Any]:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"messages": [{"role": "assistant", "tool_calls": [call] * times}]}


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": "Hi!"},
        {"prompt": [1] * 5000},
        {"prompt": ["Hi!"] * 64},
        {"prompt": [[1, 2]] * 32, "n": 2},
        {"prompt": [], "n": None},
        {"messages": [HI] * MOST_PARTS},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi!"}, "Hi!"]}]},
        {"messages": "no list at all"},
        calling('{"text": "' + "[]," * 300_000 + '"}'),
        {"seed": -(2**63) + 1, "structured_outputs": None},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"minimum": 10**25}}}},
        {"stop": ["\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")]},
    ],
)
def test_a_usual_completion_is_taken(body: dict[str, Any]) -> None:
    check_completion(body, SETTINGS)


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"prompt": "Hi!", "n": 129}, 400, "n"),
        (calling("[" + "[]," * 125_000 + "1]"), 413, "messages"),
        (calling("[" + "1," * 25_000 + "1]", 10), 413, "messages"),
        ({"top_k": 10**25}, 400, "top_k"),
        ({"stop_token_ids": [1, -(10**25)]}, 400, "stop_token_ids"),
        ({"vllm_xargs": {"a": [2**63]}}, 400, "vllm_xargs"),
        ({"stop": "\ud800"}, 400, None),
        ({"messages": [{"role": "user", "content": "\udc00"}]}, 400, None),
        ({"\ud800": 1}, 400, None),
        ({"structured_outputs": []}, 400, "structured_outputs"),
        ({"structured_outputs": 1}, 400, "structured_outputs"),
        ({"structured_outputs": {"structural_tag": "[" * (2**20 + 1)}}, 400, "structured_outputs.structural_tag"),
        ({"prompt": "Hi!", "n": "2"}, 400, "n"),
        ({"prompt": "Hi!", "n": 65}, 413, "prompt"),
        ({"prompt": ["Hi!"] * 65}, 413, "prompt"),
        ({"prompt": [[1]] * 33, "n": 2}, 413, "prompt"),
        ({"prompt": [1, "Hi!"]}, 400, "prompt"),
        ({"prompt": ["Hi!", [1]]}, 400, "prompt"),
        ({"prompt": [[1], ["Hi!"]]}, 400, "prompt"),
        ({"prompt": [{}]}, 400, "prompt"),
        ({"messages": [HI], "tools": [1] * 1001}, 413, "tools"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}] * MOST_PARTS}]}, 413, "messages"),
        ({"messages": [HI] * (MOST_PARTS + 1)}, 413, "messages"),
        ({"messages": [HI, 1]}, 400, "messages[1]"),
        ({"messages": [{"role": "user", "content": ["Hi!", 1]}]}, 400, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ["Hi!"] * MOST_PARTS}]}, 413, "messages"),
    ],
)
def test_one_that_asks_for_too_much_is_refused_by_its_field(body: dict[str, Any], status: int, param: str | None) -> None:
    with pytest.raises(ApiError) as refused:
        check_completion(body, SETTINGS)
    assert (refused.value.status, refused.value.param) == (status, param)
