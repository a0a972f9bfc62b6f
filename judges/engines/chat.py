"""From a conversation to token ids: the chat template once, and text from a sample never as a special token."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from judges.engines.engine import Request
from judges.errors import ContextOverflowError, EngineError, RequestError
from judges.judge import Message

MASK = "\ue000"
"""A private-use character that stands for one character of a special token's text inside a message."""

LIKELY_LETTERS = 4
"""Characters of a token of English. A prompt of more than so many for each token that has room is counted in slices first."""

SLICE = 1 << 14
"""Characters that are counted at a time."""

CUT_TOKENS = 16
"""Tokens by which a slice may have more than its text has as a part of the whole, since it is cut inside a word."""


class ChatTokenizer:
    """Renders messages with a model's own chat template and encodes them.

    The template writes the special tokens, the beginning of the text included, so the encoder adds none: no double BOS.
    A message that contains the text of a special token, ``<|eot_id|>`` say, is encoded so that this text stays text.

    Args:
        tokenizer: A Hugging Face tokenizer.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        special = {str(token) for token in tokenizer.all_special_tokens}
        special |= {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
        self._special_ids = {tokenizer.convert_tokens_to_ids(token) for token in special if token}
        longest_first = sorted(filter(None, special), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest_first))) if longest_first else re.compile(r"(?!)")

    @classmethod
    def load(cls, folder: Path) -> ChatTokenizer:
        """Load the tokenizer that lies beside a model's weights.

        Raises:
            EngineError: The folder holds no tokenizer that can be read.
        """
        from transformers import AutoTokenizer

        try:
            return cls(AutoTokenizer.from_pretrained(str(folder)))
        except (OSError, ValueError) as error:
            raise EngineError(f"cannot load the tokenizer of {folder}: {error}") from error

    def prompt(self, request: Request, context: int) -> list[int]:
        """Token ids of a request's prompt.

        Args:
            request: What is asked.
            context: Tokens that the prompt and the room for the answer may have together.

        Raises:
            ContextOverflowError: They have more. A prompt that is many times too long is refused before it is encoded as a whole.
        """
        room = context - request.max_tokens
        texts = [message.content.strip() for message in request.messages]
        if sum(map(len, texts)) > LIKELY_LETTERS * max(room, 0):
            self._check_least(texts, request.max_tokens, context)
        ids = self.encode(request.messages, request.answer_start)
        if len(ids) > room:
            raise ContextOverflowError(len(ids), request.max_tokens, context)
        return ids

    def _check_least(self, texts: Sequence[str], answer_tokens: int, context: int) -> None:
        """Count tokens slice by slice until there are too many."""
        counted = 0
        for text in texts:
            for start in range(0, len(text), SLICE):
                part = self._encode(text[start : start + SLICE], special_tokens=False)
                counted += max(0, len(part) - CUT_TOKENS)
                if counted + answer_tokens > context:
                    raise ContextOverflowError(counted, answer_tokens, context, at_least=True)

    def encode(self, messages: Sequence[Message], answer_start: str = "") -> list[int]:
        """Token ids of the conversation, up to where the answer starts or goes on.

        Args:
            messages: The conversation.
            answer_start: Text of the answer that already stands.
        """
        ids = self._encode_messages(messages, answered=False)
        return ids + self._encode(answer_start, special_tokens=False) if answer_start else ids

    def encode_answered(self, messages: Sequence[Message]) -> tuple[list[int], int]:
        """Token ids of a conversation that ends with its answer, and where the answer begins.

        What stands before the answer is what ``encode`` gives for the conversation without it, so a model that learns from these
        ids is asked the very same way later. The answer ends with the template's own end of a turn, or the end of text where it
        has none.

        Args:
            messages: The conversation; the last message is the answer.

        Returns:
            The ids, and the position of the answer's first one.

        Raises:
            RequestError: The template refuses the conversation, or does not put the answer behind it.
        """
        *asked, answer = messages
        start = self._encode_messages(asked, answered=False)
        ids = self._encode_messages(messages, answered=True)
        if ids[: len(start)] != start:  # the first token of the answer has swallowed some of the prompt
            before, whole = self._rendered(asked, answered=False), self._rendered(messages, answered=True)
            if not whole.startswith(before):
                raise RequestError("the model's chat template does not put an answer behind the conversation as it stands")
            if self._special.search(answer.content):
                raise RequestError("the answer spells a special token, and the model's chat template does not keep it apart")
            ids = start + self._encode(whole[len(before) :], special_tokens=True)
        special = self._special_ids
        end = next((place for place in range(len(start), len(ids)) if ids[place] in special), None)
        if end is None:
            return [*ids, self.tokenizer.eos_token_id], len(start)
        return ids[: end + 1], len(start)

    def _encode_messages(self, messages: Sequence[Message], *, answered: bool) -> list[int]:
        rendered = self._rendered(messages, answered=answered)
        if any(self._special.search(message.content) for message in messages):
            return self._encode_hostile(rendered, messages, answered=answered)
        return self._encode(rendered, special_tokens=True)

    def _rendered(self, messages: Sequence[Message], *, answered: bool) -> str:
        return self._render([(message.role, message.content) for message in messages], answered=answered)

    def _render(self, messages: Sequence[tuple[str, str]], *, answered: bool) -> str:
        if self.tokenizer.chat_template is None:
            # A base model has no turns: it gets the plain text behind its beginning-of-text token.
            asked, answer = (messages[:-1], messages[-1][1]) if answered else (messages, "")
            return (self.tokenizer.bos_token or "") + "\n\n".join(content for _, content in asked) + "\n" + answer
        turns = [{"role": role, "content": content} for role, content in messages]
        try:
            return str(self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=not answered))
        except TemplateError as error:
            raise RequestError(f"the chat template refuses it: {error}") from error

    def _encode_hostile(self, rendered: str, messages: Sequence[Message], *, answered: bool) -> list[int]:
        """Encode a conversation whose messages spell special tokens.

        Rendering the same conversation with those spellings masked, character for character, shows which special tokens
        are the template's own. The text between two of them is encoded with every special token switched off.
        """
        turns = [(m.role, self._special.sub(lambda match: MASK * len(match[0]), m.content)) for m in messages]
        masked = self._render(turns, answered=answered)
        if len(masked) != len(rendered):
            raise EngineError("the model's chat template changes text inside messages; special tokens cannot be kept apart")
        ids: list[int] = []
        end = 0
        for match in self._special.finditer(masked):
            ids += self._encode(rendered[end : match.start()], special_tokens=False)
            ids.append(self.tokenizer.convert_tokens_to_ids(match[0]))
            end = match.end()
        return ids + self._encode(rendered[end:], special_tokens=False)

    def _encode(self, text: str, *, special_tokens: bool) -> list[int]:
        encoded = self.tokenizer(text, add_special_tokens=False, split_special_tokens=not special_tokens, verbose=False)
        return list(encoded["input_ids"])
