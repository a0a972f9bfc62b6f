"""OpenAI's responses, by way of chat completions, which share their checks, limits and constraints.

vLLM's own handler is not used (0.32): it reports the answer of a stopped engine as completed, and begins a stream before the
constraint is checked.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from server.errors import ApiError
from server.hosting.openai_layer import Reply

REFUSED = {
    "background": "send a batch instead, or wait for the answer",
    "conversation": "nothing is kept; send the earlier turns in `input`",
    "messages": "send `input`, or use `/v1/chat/completions`",
    "n": "a response has one answer; use `/v1/chat/completions`",
    "previous_response_id": "nothing is kept; send the earlier turns in `input`",
    "prompt": "send `input` and `instructions`",
    "tools": "the models call no tools; for an answer of a certain form give `text.format`",
}
"""Fields that are not offered, each with what to do instead."""

UNUSED = ("metadata", "parallel_tool_calls", "prompt_cache_key", "safety_identifier", "service_tier", "store", "user")
"""Fields that change nothing in an answer."""

TRANSLATED = ("include", "input", "instructions", "max_output_tokens", "reasoning", "stream", "stream_options", "text")

OPTIONAL = ("tool_choice", "top_logprobs", "truncation")
"""Fields that ask for nothing by themselves."""

LOGPROBS = "message.output_text.logprobs"
"""The entry of `include` that asks for log-probabilities."""

ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
"""Roles of input by those of chats: the templates of open models know no developer."""

PARTS = ("input_text", "output_text", "text")

NAMES = {
    "response_format.json_schema": "text.format",
    "response_format": "text.format",
    "max_completion_tokens": "max_output_tokens",
    "max_tokens": "max_output_tokens",
}
"""Fields of chats that errors name, and those of responses."""


def as_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a request for a response into one for a chat completion. Other fields, such as ``temperature``, are passed on.

    Raises:
        ApiError: 400: it asks for what is not offered, or a field has a wrong type.
    """
    for name, advice in REFUSED.items():
        if body.get(name):
            raise ApiError(400, f"`{name}` is not offered by `/v1/responses`: {advice}", "unsupported_parameter", name)
    chat = {name: value for name, value in body.items() if name not in (*REFUSED, *UNUSED, *TRANSLATED, *OPTIONAL)}
    chat["messages"] = [*_instructions(body.get("instructions")), *_messages(body.get("input"))]
    if body.get("stream"):
        chat |= {"stream": body["stream"], "stream_options": {"include_usage": True}}
    if (most := body.get("max_output_tokens")) is not None:
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise _wrong("max_output_tokens", "must be a whole number of at least 1")
        chat["max_completion_tokens"] = most
    if LOGPROBS in _typed(body, "include", list, "a list"):
        chat |= {"logprobs": True, "top_logprobs": body.get("top_logprobs") or 0}
    if effort := _typed(body, "reasoning", dict, "an object").get("effort"):
        chat["reasoning_effort"] = effort
    if form := _typed(_typed(body, "text", dict, "an object"), "format", dict, "an object", "text.format"):
        chat["response_format"] = _response_format(form)
    return chat


def as_response(body: Mapping[str, Any], reply: Reply) -> Reply:
    """Translate the answer of a chat completion into a response."""
    if reply.events is not None:
        return replace(reply, events=_events(body, reply.events))
    if reply.status != 200 or reply.body is None:
        return replace(reply, body=_renamed(reply.body or {}))
    choice = reply.body["choices"][0]
    answer = _Answer(body, reply.body, choice["finish_reason"], choice["message"]["content"] or "", reply.body["usage"])
    answer.logprobs += (choice.get("logprobs") or {}).get("content") or ()
    return Reply(200, answer.response(answer.status))


def _typed(body: Mapping[str, Any], name: str, kind: type, wanted: str, path: str | None = None) -> Any:
    value = body.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise _wrong(path or name, f"must be {wanted}")
    return value


def _wrong(where: str, why: str) -> ApiError:
    return ApiError(400, f"`{where}` {why}", "invalid_value", where)


def _instructions(text: Any) -> list[dict[str, Any]]:
    if not isinstance(text, str | None):
        raise _wrong("instructions", "must be a text")
    return [{"role": "system", "content": text}] if text else []


def _messages(given: Any) -> Iterator[dict[str, Any]]:
    if isinstance(given, str):
        yield {"role": "user", "content": given}
        return
    if not isinstance(given, list) or not given:
        raise _wrong("input", "must be a text, or a list of messages")
    for number, item in enumerate(given):
        where = f"input[{number}]"
        if not isinstance(item, dict) or item.get("type", "message") != "message":
            raise _wrong(where, "must be a message: an object with `role` and `content`")
        role = item.get("role")
        if not isinstance(role, str) or role not in ROLES:
            raise _wrong(f"{where}.role", f"must be one of {', '.join(ROLES)}")
        yield {"role": ROLES[role], "content": _content(item.get("content"), f"{where}.content")}


def _content(content: Any, where: str) -> str | list[dict[str, str]]:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _wrong(where, "must be a text, or a list of parts")
    for number, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") not in PARTS or not isinstance(part.get("text"), str):
            raise _wrong(f"{where}[{number}]", "must be a part of type `input_text` with a `text`; nothing but text is read here")
    return [{"type": "text", "text": part["text"]} for part in content]


def _response_format(form: Mapping[str, Any]) -> dict[str, Any]:
    if form.get("type") != "json_schema":
        return dict(form)
    return {"type": "json_schema", "json_schema": {name: value for name, value in form.items() if name != "type"}}


def _renamed(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Name the fields of a response in an error about the chat that it became."""
    error = body.get("error")
    if not isinstance(error, Mapping):
        return body
    message = str(error["message"])
    for chat, response in NAMES.items():
        message = message.replace(chat, response)
    param: Any = error.get("param")
    return {**body, "error": {**error, "message": message, "param": NAMES.get(param, param)}}


@dataclass(slots=True)
class _Answer:
    """The answer of a chat completion, complete or so far.

    Attributes:
        asked: The request for a response.
        chat: The completion, or a piece of it, which names the model.
        finish_reason: Why it ended; ``None`` while it has not.
        text: Its text.
        usage: Its tokens.
        logprobs: Log-probabilities of its tokens.
    """

    asked: Mapping[str, Any]
    chat: Mapping[str, Any]
    finish_reason: str | None = None
    text: str = ""
    usage: Mapping[str, Any] | None = None
    logprobs: list[Any] = field(default_factory=list)

    @property
    def status(self) -> str:
        return "incomplete" if self.finish_reason == "length" else "completed"

    @property
    def _id(self) -> str:
        return str(self.chat["id"]).removeprefix("chatcmpl-")

    @property
    def item_id(self) -> str:
        return f"msg_{self._id}"

    def part(self) -> dict[str, Any]:
        return {"type": "output_text", "text": self.text, "annotations": [], "logprobs": self.logprobs}

    def message(self, status: str) -> dict[str, Any]:
        content = [] if status == "in_progress" else [self.part()]
        return {"id": self.item_id, "type": "message", "role": "assistant", "status": status, "content": content}

    def response(self, status: str) -> dict[str, Any]:
        asked = self.asked
        return {
            "id": f"resp_{self._id}",
            "object": "response",
            "created_at": self.chat.get("created") or int(time.time()),
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "model": self.chat["model"],
            "output": [] if status == "in_progress" else [self.message(status)],
            "usage": _usage(self.usage),
            "text": {"format": {"type": "text"}, **(asked.get("text") or {})},
            "parallel_tool_calls": False,
            "tool_choice": "none",
            "tools": [],
            "truncation": "disabled",
            "store": False,
            "previous_response_id": None,
            **{name: asked.get(name) for name in ("instructions", "max_output_tokens", "metadata", "reasoning", "user")},
            **{name: asked.get(name) for name in ("temperature", "top_logprobs", "top_p")},
        }


def _usage(usage: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage["total_tokens"],
    }


async def _events(body: Mapping[str, Any], chunks: AsyncIterator[str]) -> AsyncIterator[str]:
    """Translate the events of a chat's stream."""
    number = 0
    async for event in _unnumbered(body, chunks):
        yield f"event: {event['type']}\ndata: {json.dumps(event | {'sequence_number': number}, ensure_ascii=False)}\n\n"
        number += 1


async def _unnumbered(body: Mapping[str, Any], chunks: AsyncIterator[str]) -> AsyncIterator[dict[str, Any]]:
    answer: _Answer | None = None
    async for chunk in _chunks(chunks):
        if "error" in chunk:
            yield {"type": "error", "code": None, "message": chunk["error"]["message"], "param": None, "error": chunk["error"]}
            return
        if answer is None:
            answer = _Answer(body, chunk)
            for event in _beginning(answer):
                yield event
        answer.usage = chunk.get("usage") or answer.usage
        for choice in chunk["choices"]:
            answer.finish_reason = choice["finish_reason"] or answer.finish_reason
            logprobs = (choice.get("logprobs") or {}).get("content") or []
            answer.logprobs += logprobs
            if piece := choice["delta"].get("content"):
                answer.text += piece
                yield _at(answer, "response.output_text.delta", delta=piece, logprobs=logprobs)
    if answer is not None:
        for event in _end(answer):
            yield event


async def _chunks(events: AsyncIterator[str]) -> AsyncIterator[Any]:
    """Read the server-sent events of a chat's stream."""
    async for event in events:
        data = event.removeprefix("data: ").strip()
        if data and data != "[DONE]":
            yield json.loads(data)


def _at(answer: _Answer, kind: str, **values: Any) -> dict[str, Any]:
    """Make an event about the text of the answer."""
    return {"type": kind, "item_id": answer.item_id, "output_index": 0, "content_index": 0, **values}


def _beginning(answer: _Answer) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": answer.response("in_progress")}
    yield {"type": "response.in_progress", "response": answer.response("in_progress")}
    yield {"type": "response.output_item.added", "output_index": 0, "item": answer.message("in_progress")}
    yield _at(answer, "response.content_part.added", part=answer.part())


def _end(answer: _Answer) -> Iterator[dict[str, Any]]:
    yield _at(answer, "response.output_text.done", text=answer.text, logprobs=answer.logprobs)
    yield _at(answer, "response.content_part.done", part=answer.part())
    yield {"type": "response.output_item.done", "output_index": 0, "item": answer.message(answer.status)}
    yield {"type": f"response.{answer.status}", "response": answer.response(answer.status)}
