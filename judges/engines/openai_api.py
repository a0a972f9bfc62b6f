"""The bodies of requests to OpenAI's API, and what its answers say."""

from __future__ import annotations

from typing import Any

from judges.engines.engine import PLAIN, Generation, Token, Usage, alternatives_of
from judges.errors import RequestError
from judges.judge import Message

FINISHED = ("stop", "length", "eos", None)
"""Reasons for which a whole answer ends."""


def chat_body(messages: list[Message], start: str, alternatives: int) -> dict[str, Any]:
    """The fields of a conversation, whose answer begins with ``start``."""
    turns = [{"role": message.role, "content": message.content} for message in messages]
    body: dict[str, Any] = {"messages": turns}
    if alternatives:
        body |= {"logprobs": True, "top_logprobs": alternatives}
    if start:
        turns.append({"role": "assistant", "content": start})
        body |= {"add_generation_prompt": False, "continue_final_message": True}
    return body


def plain_body(messages: list[Message], start: str, alternatives: int) -> dict[str, Any]:
    """The fields of a prompt without a chat template."""
    prompt = PLAIN.join(message.content for message in messages) + start
    return {"prompt": prompt, **({"logprobs": alternatives} if alternatives else {})}


def generation(answer: dict[str, Any]) -> Generation:
    """The answer to a conversation.

    Raises:
        RequestError: It holds no message, or was broken off.
    """
    try:
        choice = answer["choices"][0]
        text = choice["message"]["content"] or ""
        reason = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise RequestError("the server's answer holds no message") from None
    positions = (choice.get("logprobs") or {}).get("content")
    tokens = [_token(position) for position in positions] if positions else None
    return Generation(text, _is_complete(reason), usage_of(answer), tokens)


def completed(answer: dict[str, Any]) -> Generation:
    """The answer to a prompt without a chat template.

    Raises:
        RequestError: It holds no text, or was broken off.
    """
    try:
        choice = answer["choices"][0]
        text = choice["text"] or ""
        reason = choice.get("finish_reason")
        listed = choice.get("logprobs") or {}
        likeliest = zip(listed.get("tokens") or (), listed.get("top_logprobs") or (), strict=False)
        tokens = [Token(str(token), alternatives_of((choices or {}).items())) for token, choices in likeliest]
    except (KeyError, IndexError, TypeError, AttributeError):
        raise RequestError("the server's answer holds no text") from None
    return Generation(text, _is_complete(reason), usage_of(answer), tokens or None)


def _is_complete(reason: object) -> bool:
    if reason not in FINISHED:
        raise RequestError(f"the server broke the answer off ({reason})")
    return reason != "length"


def usage_of(answer: dict[str, Any]) -> Usage:
    """The tokens that an answer says were used."""
    counted = answer.get("usage") or {}
    cached = (counted.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Usage(counted.get("prompt_tokens") or 0, cached, counted.get("completion_tokens") or 0)


def given(answer: dict[str, Any], length: int) -> list[float]:
    """The log-probabilities of the tokens that hold the last ``length`` characters of the prompt, of an echoed completion."""
    try:
        echoed = answer["choices"][0]["logprobs"]
        prompt = int(answer["usage"]["prompt_tokens"])
        values = echoed["token_logprobs"][:prompt]
        places = [*echoed["text_offset"], echoed["text_offset"][-1] + len(echoed["tokens"][-1])]
        first = places[prompt] - length
        held = [value for value, end in zip(values, places[1 : prompt + 1], strict=True) if end > first]
        return [float(value) for value in held]
    except (KeyError, IndexError, TypeError, ValueError):
        raise RequestError("the server does not report the log-probabilities of a prompt (`echo` of its completions)") from None


def _token(position: dict[str, Any]) -> Token:
    listed = [(choice.get("token"), choice.get("logprob") or 0.0) for choice in position.get("top_logprobs") or []]
    possible = ((text, logprob) for text, logprob in listed if text is not None and logprob > -1000)  # -9999 stands for none
    return Token(str(position.get("token", "")), alternatives_of(possible))
