"""Rows to train on: token ids, and the start of the answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from finetune.data.conversations import Conversation, Rejected
from judges.engines.chat import ChatTokenizer
from judges.errors import MagistrateError


@dataclass(frozen=True, slots=True)
class Row:
    """A conversation in tokens.

    Attributes:
        id: The conversation's.
        ids: ``(T,)`` token ids.
        answer: Position of the first token of the answer. It and all tokens after it have loss, and no others.
    """

    id: str
    ids: NDArray[np.int32]
    answer: int

    @property
    def learned(self) -> int:
        """Number of tokens with loss."""
        return len(self.ids) - self.answer


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
    return Row(conversation.id, np.asarray(ids, np.int32), answer)
