"""What a completion may ask for, looked at before anything reads it."""

from __future__ import annotations

from typing import Any

import pytest

from server.errors import ApiError
from server.hosting.completion_size import MOST_PARTS, check_size

HI = {"role": "user", "content": "Hi!"}


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
    ],
)
def test_a_usual_completion_is_taken(body: dict[str, Any]) -> None:
    check_size(body, 64)


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"prompt": "Hi!", "n": 129}, 400, "n"),
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
def test_one_that_asks_for_too_much_is_refused_by_its_field(body: dict[str, Any], status: int, param: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_size(body, 64)
    assert (refused.value.status, refused.value.param) == (status, param)
