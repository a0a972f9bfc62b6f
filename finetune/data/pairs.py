"""Pairs of answers of which people prefer one, as a reward model learns from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from evals.data.choice_labels import FIRST, SECOND
from evals.data.compared_answers import Compared
from finetune.data.batches import Batch
from finetune.data.conversations import Rejected
from judges.engines.chat import ChatTokenizer
from judges.engines.engine import Request
from judges.errors import ContextOverflowError, RequestError, SampleError
from judges.judge import Prompt
from judges.reward import RewardPairwise


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair in tokens, as judge ``reward-pairwise`` shows each of its answers.

    Attributes:
        id: The row's.
        chosen: Token ids of the conversation with the better answer.
        rejected: Token ids of that with the other.
    """

    id: str
    chosen: list[int]
    rejected: list[int]


def encode_pairs(compared: Iterable[Compared], chat: ChatTokenizer, length: int) -> tuple[list[Pair], list[Rejected]]:
    """Encode the pairs of which most people prefer one answer.

    Args:
        compared: The pairs.
        chat: The tokenizer, with the chat template.
        length: Most tokens of a conversation.

    Returns:
        The pairs, and those that are not trained on.
    """
    pairs: list[Pair] = []
    rejected: list[Rejected] = []
    judge = RewardPairwise()
    for one in compared:
        if one.majority not in (FIRST, SECOND):
            rejected.append(Rejected(one.id, "people prefer neither answer"))
            continue
        try:
            first, second = (_encoded(prompt, chat, length) for prompt in judge.render(one.sample).prompts)
        except ContextOverflowError as error:
            rejected.append(
                Rejected(one.id, f"a conversation has {error.prompt_tokens:,} tokens, and the recipe's length is {length:,}")
            )
            continue
        except (SampleError, RequestError) as error:
            rejected.append(Rejected(one.id, str(error)))
            continue
        pairs.append(Pair(one.id, first, second) if one.majority == FIRST else Pair(one.id, second, first))
    return pairs, rejected


def _encoded(prompt: Prompt, chat: ChatTokenizer, length: int) -> list[int]:
    return chat.prompt(Request.of(prompt), length)


class Pairs:
    """Pairs as a training takes them, one at a time."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, number: int) -> Pair:
        return self.pairs[number]

    def collate(self, pairs: Sequence[Pair]) -> Batch:
        """Put pairs in one batch.

        Returns:
            ``input_ids`` and ``attention_mask``, ``(2 N, T)``: the better answers, then the others, padded in front, so that each
            ends at the last place; ``weights``, ``(N,)``, ones; and the ids of ``rows``.
        """
        rows = [*(pair.chosen for pair in pairs), *(pair.rejected for pair in pairs)]
        longest = max(map(len, rows))
        batch: dict[str, Any] = {
            "input_ids": torch.tensor([[0] * (longest - len(row)) + row for row in rows]),
            "attention_mask": torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows]),
            "weights": torch.ones(len(pairs)),
            "rows": [pair.id for pair in pairs],
        }
        return batch
