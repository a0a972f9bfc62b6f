"""Rows to train on: token ids, and the start of the answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from finetune.data.conversations import Conversation, Rejected
from judges.engines.chat import ChatTokenizer
from judges.engines.token_texts import added_texts
from judges.errors import MagistrateError
from judges.judge import Message


@dataclass(frozen=True, slots=True)
class Row:
    """A conversation in tokens.

    Attributes:
        id: The conversation's.
        ids: ``(T,)`` token ids that the model reads.
        answer: Position of the first token of the answer.
        targets: ``(T - answer,)`` ids of the answer as it is learned; ``None`` if it is what the model reads.
        weights: ``(T - answer,)`` weight of each of its tokens in the loss; ``None`` if all have the same.
    """

    id: str
    ids: NDArray[np.int32]
    answer: int
    targets: NDArray[np.int32] | None = None
    weights: NDArray[np.float32] | None = None

    @property
    def learned(self) -> NDArray[np.int64]:
        """Positions of the tokens with loss. The first of a row has nothing before it and so never has any."""
        answer = np.arange(self.answer, len(self.ids))
        return answer[answer > 0] if self.weights is None else answer[(self.weights > 0) & (answer > 0)]

    def target(self, position: NDArray[np.int64]) -> NDArray[np.int32]:
        """The tokens to learn at positions of the answer."""
        return self.ids[position] if self.targets is None else self.targets[position - self.answer]

    def weight(self, position: NDArray[np.int64]) -> NDArray[np.float32]:
        """The weights in the loss of positions of the answer."""
        return np.ones(len(position), np.float32) if self.weights is None else self.weights[position - self.answer]


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
        return Row(conversation.id, read, answer)
    return _with_spans(Row(conversation.id, read, answer), conversation, chat)


def _with_spans(row: Row, conversation: Conversation, chat: ChatTokenizer) -> Row | Rejected:
    """Weigh the answer's tokens by the spans that they are in. What is shown in their place is read, if it has as many tokens."""
    *prompt, answer = conversation.messages
    targets = row.ids[row.answer :]
    ends = np.cumsum([len(text) for text in added_texts(chat.tokenizer, targets.tolist())])
    starts = ends - np.diff(ends, prepend=0)
    weights = np.zeros(len(targets), np.float32)
    shown = answer.content
    for span in sorted(conversation.learn, key=lambda span: -span.start):
        inside = (starts < span.end) & (ends > span.start)
        weights[inside] = np.maximum(weights[inside], span.weight)
        if span.shown is not None:
            shown = shown[: span.start] + span.shown + shown[span.end :]
    if not weights.any():
        return Rejected(row.id, "no token of the answer has a weight: check its `learn`")
    end = int(np.flatnonzero(weights)[-1]) + 1  # nothing is learned after it
    ids, start = chat.encode_answered([*prompt, Message(answer.role, shown)])
    read = np.asarray(ids, np.int32)
    outside = np.flatnonzero(weights == 0) + row.answer
    same = start == row.answer and len(read) == len(row.ids) and bool((read[outside] == row.ids[outside]).all())
    return Row(row.id, (read if same else row.ids)[: row.answer + end], row.answer, targets[:end], weights[:end])
