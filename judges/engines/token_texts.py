"""The text that each token of an answer adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

UNKNOWN = "\ufffd"
"""What a part of a character is decoded to."""


class TokenTexts:
    """The texts of a tokenizer's tokens, each decoded once."""

    def __init__(self, tokenizer: Any) -> None:
        from vllm.tokenizers.detokenizer_utils import convert_ids_list_to_tokens

        self._tokenizer = tokenizer
        self.alone = cache(lambda token: convert_ids_list_to_tokens(tokenizer, [token])[0])

    def inside(self, ids: Sequence[int]) -> list[str]:
        """What each token adds to an answer."""
        texts = [self.alone(token) for token in ids]
        return list(added_texts(self._tokenizer, ids)) if any(UNKNOWN in text for text in texts) else texts


def added_texts(tokenizer: Any, ids: Sequence[int]) -> Iterator[str]:
    """The text that each token adds; a character of several tokens is the last one's."""
    context = read = 0
    for end in range(1, len(ids) + 1):
        known, text = (tokenizer.decode(ids[context:stop], skip_special_tokens=True) for stop in (read, end))
        if text.endswith(UNKNOWN):
            yield ""
        else:
            yield text[len(known) :]
            context, read = read, end
