"""Rows as a model is trained on them: token ids, and where the answer begins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from finetune.conversations import Conversation, Rejected
from judges.engines.chat import ChatTokenizer
from judges.errors import MagistrateError


@dataclass(frozen=True, slots=True)
class Row:
    """A conversation in tokens.

    Attributes:
        id: The conversation's.
        ids: ``(T,)`` token ids.
        answer: Position of the first token of the answer. Loss is taken on it and on all behind it, and on nothing else.
    """

    id: str
    ids: NDArray[np.int32]
    answer: int

    @property
    def learned(self) -> int:
        """Tokens that loss is taken on."""
        return len(self.ids) - self.answer


def encode(
    conversations: Iterable[Conversation | Rejected], chat: ChatTokenizer, length: int
) -> tuple[list[Row], list[Rejected]]:
    """Put conversations into tokens, exactly as the engines ask a model.

    An earlier answer of a conversation is part of what the model is given; loss is taken on the last one.

    Args:
        conversations: What is learned.
        chat: The model's tokenizer, with its chat template.
        length: Most tokens of a row. A longer one is rejected, not cut: half an answer teaches to stop in the middle.

    Returns:
        The rows, and what was rejected and why, each in the order given.
    """
    rows: list[Row] = []
    rejected: list[Rejected] = []
    for one in conversations:
        found = one if isinstance(one, Rejected) else _encoded(one, chat, length)
        if isinstance(found, Row):
            rows.append(found)
        else:
            rejected.append(found)
    return rows, rejected


def _encoded(one: Conversation, chat: ChatTokenizer, length: int) -> Row | Rejected:
    if not one.messages[-1].content.strip():
        return Rejected(one.id, "the answer is empty")
    try:
        ids, answer = chat.encode_answered(one.messages)
    except MagistrateError as error:
        return Rejected(one.id, str(error))
    if len(ids) > length:
        return Rejected(one.id, f"it has {len(ids):,} tokens, and a row may have {length:,}")
    return Row(one.id, np.asarray(ids, np.int32), answer)
