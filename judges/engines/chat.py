"""Encodes conversations with the model's chat template, without turning a sample's text into special tokens."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from judges.engines.engine import HARMONY, PLAIN, THINK, Request, ThoughtMarks
from judges.engines.prefixes import PrefixCache, cuts_between_words
from judges.errors import ContextOverflowError, EngineError, RequestError, reason_of
from judges.judge import Message

MASK = "\ue000"
"""A private-use character that masks one character of a special token's text inside a message."""

LIKELY_LETTERS = 4
"""Characters per token of English. A prompt with more of them per available token is first counted in slices."""

SLICE = 1 << 14
"""Characters counted at a time."""

CUT_TOKENS = 16
"""Maximum number of extra tokens of a slice that is cut inside a word."""


class ChatTokenizer:
    """Renders messages with a model's own chat template and encodes them, for a Hugging Face tokenizer.

    The template writes all special tokens, so the encoder adds none: no double BOS. A message that contains the text of a special
    token such as ``<|eot_id|>`` is encoded as plain text.

    Attributes:
        marks: What stands around the model's thoughts.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.template: str | None = None
        special = {str(token) for token in tokenizer.all_special_tokens}
        special |= {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
        self._special_ids = {tokenizer.convert_tokens_to_ids(token) for token in special if token}
        longest_first = sorted(filter(None, special), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest_first))) if longest_first else re.compile(r"(?!)")
        self.marks = _marks(special)
        self._encoders = self._make_encoders()

    @classmethod
    def load(cls, folder: Path) -> ChatTokenizer:
        """Load the tokenizer in a model's folder.

        Raises:
            EngineError: The folder holds no readable tokenizer.
        """
        from transformers import AutoTokenizer

        try:
            loaded = cls(AutoTokenizer.from_pretrained(str(folder)))
        except Exception as error:  # each kind raises its own
            raise EngineError(f"cannot load the tokenizer of {folder}: {reason_of(error)}") from error
        loaded._check_template(folder)
        return loaded

    def _check_template(self, folder: Path) -> None:
        """Refuse a template that shows nothing of a message: every sample would get one answer."""
        text = "magistrate"
        try:
            shown = self._templated([Message("user", text)], add_generation_prompt=True)
        except RequestError:
            return  # it may take other conversations
        if text not in shown.lower():
            raise EngineError(f"{folder} has a chat template that leaves out what the user says")

    def with_template(self, template: str | None) -> ChatTokenizer:
        """The same tokenizer with another chat template; ``None`` keeps its own."""
        changed = copy.copy(self)
        changed.template = template or self.template
        return changed

    def prompt(self, request: Request, context: int) -> list[int]:
        """Encode a request's prompt to token ids.

        Raises:
            ContextOverflowError: The prompt and the room for its answer exceed ``context`` tokens. A prompt many times too long
                is refused before it is encoded as a whole.
        """
        room = context - request.max_tokens
        texts = [message.content.strip() for message in request.messages]
        if sum(map(len, texts)) > LIKELY_LETTERS * max(room, 0):
            self._check_least(texts, request.max_tokens, context)
        ids = self.asked(request)
        if len(ids) > room:
            raise ContextOverflowError(len(ids), request.max_tokens, context)
        return ids

    def asked(self, request: Request) -> list[int]:
        """Encode what a request shows the model, up to where the model goes on."""
        if request.classifies:
            return self._encode_judged(request.messages)
        if request.plain:
            ids = self._encode_plain(PLAIN.join(message.content for message in request.messages))
        else:
            ids = self._encode_messages(request.messages, thinks=request.thinks or request.thought is not None)
        return ids + self._encode_start(request.thought, request.answer_start)

    def _encode_judged(self, messages: Sequence[Message]) -> list[int]:
        """Encode a whole conversation for a classification head.

        Without a chat template, a tokenizer that separates texts has them as its model was trained on: ``[CLS] a [SEP] b [SEP]``.
        A beginning-of-text token that the tokenizer puts before any text, and the template does not write, comes first.
        """
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if self._template is None and self.tokenizer.sep_token is not None and backend is not None and len(messages) == 2:
            backend.encode_special_tokens = True
            return list(backend.encode(messages[0].content, messages[1].content).ids)
        ids = self._encode_messages(messages, answered=True)
        return ids if ids[:1] == self._start else self._start + ids

    @cached_property
    def _start(self) -> list[int]:
        """The beginning-of-text token, if the tokenizer puts it before any text by itself."""
        first = list(self.tokenizer("")["input_ids"])[:1]
        return first if first == [self.tokenizer.bos_token_id] else []

    def second_text(self, ids: Sequence[int]) -> int | None:
        """Where the second of two separated texts begins, for models that are shown that by token types; ``None`` for others."""
        shown = self._template is None and "token_type_ids" in self.tokenizer.model_input_names
        ends = self.tokenizer.sep_token_id
        return ids.index(ends) + 1 if shown and ends in ids else None

    def _check_least(self, texts: Sequence[str], answer_tokens: int, context: int) -> None:
        """Count tokens slice by slice until there are too many."""
        count = 0
        for text in texts:
            for start in range(0, len(text), SLICE):
                ids = self._encode(text[start : start + SLICE], special_tokens=False)
                count += max(0, len(ids) - CUT_TOKENS)
                if count + answer_tokens > context:
                    raise ContextOverflowError(count, answer_tokens, context, at_least=True)

    def continuation(self, prompt: str, text: str, context: int) -> tuple[list[int], int]:
        """Encode plain text without the chat template, after the beginning-of-text token if the tokenizer has one.

        Returns:
            The ids of ``prompt`` and ``text`` together, and how many of the last ones hold any of ``text``.

        Raises:
            ContextOverflowError: They leave no room for a token in ``context``.
            RequestError: The text has no tokens.
        """
        before, ids = (self._encode_plain(part) for part in (prompt, prompt + text))
        if len(ids) >= context:
            raise ContextOverflowError(len(ids), 1, context)
        same = (one == other for one, other in zip(before, ids, strict=False))
        shared = max(1, sum(takewhile(bool, same)))  # the first token follows nothing, so it has no probability
        if shared >= len(ids):
            raise RequestError("the text has no tokens")
        return ids, len(ids) - shared

    def _encode_plain(self, text: str) -> list[int]:
        """Encode text after the beginning-of-text token, if the tokenizer has one."""
        start = [] if self.tokenizer.bos_token_id is None else [self.tokenizer.bos_token_id]
        return start + self._encode(text, special_tokens=False)

    @property
    def thought_end(self) -> int | str:
        """What ends a thought: the id of a special token, which no text shows, or text."""
        number = self.tokenizer.convert_tokens_to_ids(self.marks.ends)
        return number if number in self._special_ids else self.marks.ends

    @property
    def is_plain(self) -> bool:
        """Whether prompts are the template's as it stands, without regard to thoughts."""
        message = Message("user", "x")
        try:
            return self._templated([message], add_generation_prompt=True) == self._rendered([message])
        except RequestError:
            return True

    @property
    def _template(self) -> str | None:
        return self.template or self.tokenizer.chat_template

    def encode(self, messages: Sequence[Message], answer_start: str = "") -> list[int]:
        """Encode a conversation to token ids, up to the end of ``answer_start``, the given beginning of the answer."""
        return self._encode_messages(messages) + self._encode_start(None, answer_start)

    def _encode_start(self, thought: str | None, answer_start: str) -> list[int]:
        """Encode a thought with its closing marks, and the beginning of an answer."""
        if thought is None:
            return self._encode(answer_start, special_tokens=False) if answer_start else []
        if not self._special.search(self.marks.closes):
            return self._encode(thought + self.marks.closes + answer_start, special_tokens=False)
        closes = self._encode(self.marks.closes, special_tokens=True)
        return self._encode(thought, special_tokens=False) + closes + self._encode(answer_start, special_tokens=False)

    def encode_answered(self, messages: Sequence[Message]) -> tuple[list[int], int]:
        """Encode a conversation whose last message is its answer.

        The ids before the answer are those of ``encode``, so that training matches later prompts. The answer ends with the
        template's own end of turn, or with the end of text if it has none.

        Returns:
            The ids, and the position of the answer's first one.

        Raises:
            RequestError: The template refuses the conversation, or does not put the answer at its end.
        """
        *conversation, answer = messages
        start = self._encode_messages(conversation)
        ids = self._encode_messages(messages, answered=True)
        if ids[: len(start)] != start:  # the first token of the answer has merged with the end of the prompt
            before, whole = self._rendered(conversation), self._rendered(messages, answered=True)
            if not whole.startswith(before):
                raise RequestError("the model's chat template changes the conversation when an answer follows it")
            if self._special.search(answer.content):
                raise RequestError("the answer contains a special token that cannot be kept apart from the chat template's")
            ids = start + self._encode(whole[len(before) :], special_tokens=True)
        special = self._special_ids
        end = next((place for place in range(len(start), len(ids)) if ids[place] in special), None)
        if end is None:
            return [*ids, self.tokenizer.eos_token_id], len(start)
        return ids[: end + 1], len(start)

    def _encode_messages(self, messages: Sequence[Message], **options: bool) -> list[int]:
        rendered = self._rendered(messages, **options)
        if any(self._special.search(message.content) for message in messages):
            return self._encode_hostile(rendered, messages, **options)
        return self._encode(rendered, special_tokens=True)

    def _rendered(self, messages: Sequence[Message], *, answered: bool = False, thinks: bool = False) -> str:
        """A conversation as text, up to where the thought or the answer begins, or to the end of an answered one."""
        if answered:
            return self._templated(messages)
        # Qwen's and DeepSeek's names of the setting. Templates pass over names that they do not know.
        text = self._templated(messages, add_generation_prompt=True, enable_thinking=thinks, thinking=thinks)
        if thinks:
            return text if text.rstrip().endswith(self.marks.opens.rstrip()) else text + self.marks.opens
        if self._template is None:
            return text
        # Some templates begin a thought whatever they are asked.
        return text + (THINK.closes if text.rstrip().endswith("<think>") else self.marks.skips)

    def _templated(self, messages: Sequence[Message], **options: bool) -> str:
        """A conversation as text by the chat template, in another order of roles if it refuses the first."""
        if self._template is None:
            # A base model has no turns: it gets plain text after its beginning-of-text token.
            prompt, answer = (messages, "") if options.get("add_generation_prompt") else (messages[:-1], messages[-1].content)
            return (self.tokenizer.bos_token or "") + PLAIN.join(message.content for message in prompt) + "\n" + answer
        refusal: TemplateError | None = None
        for form in (messages, _alternating(messages)):
            turns = [{"role": message.role, "content": message.content} for message in form]
            try:
                return str(self.tokenizer.apply_chat_template(turns, chat_template=self.template, tokenize=False, **options))
            except TemplateError as error:
                refusal = error
            except Exception as error:
                raise RequestError(f"the chat template fails ({type(error).__name__}: {reason_of(error)})") from error
        raise RequestError(f"the chat template refuses the conversation: {' '.join(str(refusal).split())}") from refusal

    def _encode_hostile(self, rendered: str, messages: Sequence[Message], **options: bool) -> list[int]:
        """Encode a conversation whose messages contain the text of special tokens.

        Rendering the conversation with that text masked, character for character, shows which special tokens are the template's
        own. The text between them is encoded without special tokens.
        """
        turns = [Message(m.role, self._special.sub(lambda match: MASK * len(match[0]), m.content)) for m in messages]
        masked = self._rendered(turns, **options)
        if len(masked) != len(rendered):
            raise RequestError("the chat template changes text inside messages, so special tokens in them cannot be kept apart")
        ids: list[int] = []
        end = 0
        for match in self._special.finditer(masked):
            ids += self._encode(rendered[end : match.start()], special_tokens=False)
            ids.append(self.tokenizer.convert_tokens_to_ids(match[0]))
            end = match.end()
        return ids + self._encode(rendered[end:], special_tokens=False)

    def _encode(self, text: str, *, special_tokens: bool) -> list[int]:
        return self._encoders[special_tokens](text)

    def _encode_whole(self, text: str, *, special_tokens: bool) -> list[int]:
        encoded = self.tokenizer(text, add_special_tokens=False, split_special_tokens=not special_tokens, verbose=False)
        return list(encoded["input_ids"])

    def _make_encoders(self) -> dict[bool, Callable[[str], list[int]]]:
        """What encodes a text, with special tokens or without: the quickest way known to give the tokenizer's own ids."""
        if not _is_plain_backend(self.tokenizer):
            return {special: partial(self._encode_whole, special_tokens=special) for special in (False, True)}
        backend = self.tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        encoders = {special: partial(_encode_on, backend, not special) for special in (False, True)}
        if not cuts_between_words(backend):
            return dict(encoders)
        added = self.tokenizer.added_tokens_decoder
        return {special: PrefixCache(encode, added).encode for special, encode in encoders.items()}


def _is_plain_backend(tokenizer: Any) -> bool:
    """Whether calling a tokenizer of ``transformers`` is calling its backend, of the library ``tokenizers``."""
    from transformers import PreTrainedTokenizerBase, TokenizersBackend

    kind = type(tokenizer)
    return (
        isinstance(tokenizer, TokenizersBackend)
        and kind.__call__ is PreTrainedTokenizerBase.__call__
        and kind._encode_plus is TokenizersBackend._encode_plus
    )


def _encode_on(backend: Any, splits_special: bool, text: str) -> list[int]:
    if backend.encode_special_tokens != splits_special:
        backend.encode_special_tokens = splits_special
    (encoding,) = backend.encode_batch_fast([text], add_special_tokens=False)
    return list(encoding.ids)


def _marks(special: Collection[str]) -> ThoughtMarks:
    """What stands around thoughts, by a vocabulary's special tokens."""
    if {"<|channel|>", "<|message|>"} <= set(special):
        return HARMONY
    return replace(THINK, opens="<think>\n") if THINK.ends in special else THINK


def _alternating(messages: Sequence[Message]) -> list[Message]:
    """A conversation in which the user begins and roles take turns, for templates that know no other.

    What a system says stands before what the user says first, and messages of one role are joined.
    """
    joined: list[Message] = []
    for message in messages:
        role = "user" if message.role == "system" else message.role
        if joined and joined[-1].role == role:
            joined[-1] = Message(role, joined[-1].content + PLAIN + message.content)
        else:
            joined.append(Message(role, message.content))
    return joined
