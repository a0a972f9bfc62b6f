"""Rows to train on: token ids, and the start of the answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from finetune.data.conversations import Conversation, Early, Rejected
from judges.engines.chat import ChatTokenizer
from judges.engines.token_texts import added_texts
from judges.errors import MagistrateError
from judges.judge import Message

MOST_EARLY = 8
"""Places in a text, at most, at which its score is learned early."""


@dataclass(frozen=True, slots=True)
class Row:
    """A conversation in tokens.

    Attributes:
        id: The conversation's.
        ids: ``(T,)`` token ids that the model reads.
        answer: Position of the first token of the answer.
        learned: ``(L,)`` positions, in order, at which a token is learned from those before; not 0.
        targets: ``(L,)`` the tokens to learn there, which need not be those that stand there.
        weights: ``(L,)`` their weights in the loss.
    """

    id: str
    ids: NDArray[np.int32]
    answer: int
    learned: NDArray[np.int64]
    targets: NDArray[np.int32]
    weights: NDArray[np.float32]

    @classmethod
    def whole(cls, name: str, ids: NDArray[np.int32], answer: int) -> Row:
        """A row of which all of the answer is learned; the first token of a row has nothing before it and is not."""
        learned = np.arange(max(answer, 1), len(ids))
        return cls(name, ids, answer, learned, ids[learned], np.ones(len(learned), np.float32))


def encode(
    conversations: Iterable[Conversation | Rejected], chat: ChatTokenizer, length: int
) -> tuple[list[Row], list[Rejected]]:
    """Tokenize conversations, exactly as the engines tokenize prompts. Of several answers only the last has loss.

    Args:
        conversations: Conversations, and rows rejected before.
        chat: The model's tokenizer, with its chat template.
        length: Most tokens of a row. A longer one is rejected, not cut: half an answer teaches to stop in the middle.

    Returns:
        The rows, and the rejected conversations, each in the order given.
    """
    encoded = [
        conversation if isinstance(conversation, Rejected) else _encoded(conversation, chat, length)
        for conversation in conversations
    ]
    rows = [row for row in encoded if isinstance(row, Row)]
    return rows, [row for row in encoded if isinstance(row, Rejected)]


def _encoded(conversation: Conversation, chat: ChatTokenizer, length: int) -> Row | Rejected:
    if not conversation.messages[-1].content.strip():
        return Rejected(conversation.id, "the answer is empty")
    try:
        ids, answer = chat.encode_answered(conversation.messages)
    except MagistrateError as error:
        return Rejected(conversation.id, str(error))
    if len(ids) > length:
        return Rejected(conversation.id, f"it has {len(ids):,} tokens, and a row may have {length:,}")
    read = np.asarray(ids, np.int32)
    if not conversation.learn:
        return Row.whole(conversation.id, read, answer)
    return _with_spans(read, answer, conversation, chat)


def _with_spans(ids: NDArray[np.int32], start: int, conversation: Conversation, chat: ChatTokenizer) -> Row | Rejected:
    """Weigh the answer's tokens by the spans that they are in. What is shown in their place is read, if it has as many tokens."""
    *prompt, answer = conversation.messages
    targets = ids[start:]
    ends = np.cumsum([len(text) for text in added_texts(chat.tokenizer, targets.tolist())])
    starts = ends - np.diff(ends, prepend=0)
    weights = np.zeros(len(targets), np.float32)
    shown = answer.content
    for span in sorted(conversation.learn, key=lambda span: -span.start):
        inside = (starts < span.end) & (ends > span.start)
        weights[inside] = np.maximum(weights[inside], span.weight)
        if span.shown is not None:
            shown = shown[: span.start] + span.shown + shown[span.end :]
    places = np.flatnonzero(weights)
    if not len(places):
        return Rejected(conversation.id, "no token of the answer has a weight: check its `learn`")
    other, other_start = chat.encode_answered([*prompt, Message(answer.role, shown)])
    read = np.asarray(other, np.int32)
    outside = np.flatnonzero(weights == 0) + start
    same = other_start == start and len(read) == len(ids) and bool((read[outside] == ids[outside]).all())
    kept = (read if same else ids)[: start + places[-1] + 1]  # nothing is learned after it
    row = Row(conversation.id, kept, start, places + start, targets[places], weights[places])
    return row if conversation.early is None else _with_early(row, conversation.early, prompt[-1].content, chat)


def _with_early(row: Row, early: Early, prompt: str, chat: ChatTokenizer) -> Row:
    """Learn a score besides after some tokens of the text that ends the prompt."""
    places = _within(prompt[-early.characters :], row.answer, chat)
    (target,) = chat.tokenizer.encode(early.target, add_special_tokens=False)[-1:]
    return replace(
        row,
        learned=np.concatenate([places, row.learned]),
        targets=np.concatenate([np.full(len(places), target, np.int32), row.targets]),
        weights=np.concatenate([np.full(len(places), early.weight, np.float32), row.weights]),
    )


def _within(text: str, start: int, chat: ChatTokenizer) -> NDArray[np.int64]:
    """Positions that follow tokens of a text with which the prompt ends, before an answer that begins at ``start``."""
    end = start - _closing(chat)
    length = len(chat.tokenizer.encode(text, add_special_tokens=False))
    return np.unique(np.linspace(max(end - length, 0) + 1, end, min(length, MOST_EARLY)).round().astype(np.int64))


@cache
def _closing(chat: ChatTokenizer) -> int:
    """Number of tokens that the chat template puts between the end of a prompt's last message and the answer."""
    one, other = (chat.encode([Message("user", text)])[::-1] for text in ("x", "y"))
    return next(place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
