"""Texts that begin alike have the token ids of the whole text, whatever follows what they share."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers

from judges.engines.chat import ChatTokenizer
from judges.engines.prefixes import COMPARED, KEPT, LEAST_GAIN, PrefixCache, cuts_between_words
from judges.judge import Message
from judges.llm_eval import LLMEval
from tests.tiny import TINY
from tests.vocabularies import VOCABULARIES, tokenizer_of

KINDS = [
    name if name in ("llama2", "gemma3", "smollm2") else pytest.param(name, marks=pytest.mark.stress) for name in VOCABULARIES
]
"""One vocabulary of each kind; all under stress."""

HOSTILE = [
    *(
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "\u00a0",
        "\u2028",
        "\u3000",
        "\u2581",
        "_",
        "a",
        "Z",
        "the",
        "'s",
        "'LL",
        "é",
        "ß",
        "ǅ",
        "ﬁ",
    ),
    *("\u0301", "\u0345", "\u0323\u0307", "\u05b0", "\u0f71\u0f72", "\u1161", "\u200d", "\ufe0f", "\u0000", "\ufffd", "\ue000"),
    *(
        "0",
        "12",
        "345",
        "²",
        "Ⅷ",
        "١",
        ".",
        "...",
        "!?",
        "/",
        "—",
        "{",
        '": ',
        "👩‍👩‍👧",
        "🇫🇷",
        "这",
        "かな",
        "ア",
        "한",
        "แ",
        "अ",
        "ا",
    ),
    *("<|eot_id|>", "<s>", "</s>", "<bos>", "[INST]", "<mask>", "<think>", "<|im_end|>", "<0x0A>", "<|", "<｜User｜>", "<|EOT|>"),
]
rests = st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=3)), max_size=12).map("".join)
words = st.lists(st.sampled_from(["Score", "the", "reply", "a", "I", "x.", "it's", "ABCdef", "2", "né", "</s>"]), max_size=9).map(
    " ".join
)
instruction = LLMEval().render({"context": ["Hello there, how are you?"], "response": "fine"}).prompts[0].messages[0].content


def chat_of(vocabulary: str) -> ChatTokenizer:
    return ChatTokenizer(tokenizer_of(vocabulary))


def whole(chat: ChatTokenizer, text: str, *, special_tokens: bool) -> list[int]:
    """The ids that the tokenizer of ``transformers`` itself gives."""
    given = chat.tokenizer(text, add_special_tokens=False, split_special_tokens=not special_tokens, verbose=False)
    return list(given["input_ids"])


def check(vocabulary: str, beginning: str, endings: list[str]) -> None:
    """Encode texts that share a beginning, the second and the third by what the first leaves in the cache."""
    chat = chat_of(vocabulary)
    for special in (True, False):
        for text in [beginning + ending for ending in endings]:
            assert chat._encode(text, special_tokens=special) == whole(chat, text, special_tokens=special), (special, text)


@pytest.mark.parametrize("vocabulary", KINDS)
@settings(deadline=None, max_examples=60)
@given(words, st.lists(rests, min_size=3, max_size=4))
@example("it's a", [" \u0301b", "", " ", "b", " <mask>", "\u0301"])
@example("", [" " * 7, " \n\n1234567 ", "\n \n", "x" * 99])
def test_ids_are_those_of_whole_texts(vocabulary: str, end: str, endings: list[str]) -> None:
    check(vocabulary, f"{instruction}\n{end}", endings)


@pytest.mark.stress
@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@settings(deadline=None, max_examples=300)
@given(rests, words, st.lists(rests, min_size=3, max_size=4))
def test_ids_are_those_of_whole_texts_at_length(vocabulary: str, first: str, end: str, endings: list[str]) -> None:
    check(vocabulary, f"{first} {'word ' * (LEAST_GAIN // 5)}{end}", endings)


@pytest.mark.parametrize("vocabulary", KINDS)
def test_every_letter_may_stand_before_a_cut_and_every_text_behind(vocabulary: str) -> None:
    chat = chat_of(vocabulary)
    backend = chat.tokenizer.backend_tokenizer
    for letter in "aeglosxyzAEGLOSXYZ":
        before = f"one two{letter}"
        ids = whole(chat, before, special_tokens=True)
        lead = len(whole(chat, "a", special_tokens=True))
        for ending in HOSTILE:
            rest = whole(chat, f"a {ending}", special_tokens=True)[lead:]
            assert ids + rest == whole(chat, f"{before} {ending}", special_tokens=True), (letter, ending)
    assert cuts_between_words(backend)


@pytest.mark.parametrize("vocabulary", KINDS)
def test_conversations_have_the_ids_of_the_template(vocabulary: str) -> None:
    chat = chat_of(vocabulary)
    for ending in ["", " a", "\n<s>", "</s> b", " \u0301", "9"]:
        messages = [Message("user", f"{instruction}{ending}")]
        fresh = ChatTokenizer(chat.tokenizer).encode(messages)
        assert chat.encode(messages) == fresh


@pytest.fixture
def small() -> Tokenizer:
    """The tests' model's tokenizer, to be changed."""
    return Tokenizer.from_file(str(Path(TINY) / "tokenizer.json"))


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


def test_what_texts_share_is_tokenised_once(small: Tokenizer) -> None:
    encoded: list[str] = []

    def encode(text: str) -> list[int]:
        encoded.append(text)
        return ids_of(small, text)

    cache = PrefixCache(encode, ())
    for number in range(5):
        cache.encode(f"{instruction} {number}")
    assert [len(text) > len(instruction) - LEAST_GAIN for text in encoded] == [False, True, True, *[False] * 4]
    assert sum(map(len, encoded[-3:])) < LEAST_GAIN


def test_as_many_prefixes_are_kept_as_stated(small: Tokenizer) -> None:
    cache = PrefixCache(partial(ids_of, small), ())
    for number in range(2 * KEPT):
        for reply in ("good", "bad"):
            cache.encode(f"{number} {instruction} {reply}")
    assert len(cache._known) == KEPT
    assert len(cache._recent) == COMPARED


def test_a_text_goes_on_behind_an_added_token_as_if_it_were_new() -> None:
    """Llama 2 begins a text with a space, and again behind an added token."""
    tokenizer = Tokenizer.from_str(tokenizer_of("llama2").backend_tokenizer.to_str())
    tokenizer.add_tokens([AddedToken("[END", normalized=False)])
    cache = PrefixCache(partial(ids_of, tokenizer), tokenizer.get_added_tokens_decoder())
    for ending in (" good", " bad", " worse"):
        text = f"{'x' * LEAST_GAIN} [END{ending}"
        assert cache.encode(text) == ids_of(tokenizer, text)


def _words_and_spaces(tokenizer: Tokenizer) -> None:
    split = pre_tokenizers.Split(Regex(r"\p{L}+ ?|\s+"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _capitals_alone(tokenizer: Tokenizer) -> None:
    split = pre_tokenizers.Split(Regex(r"\p{N}|\s+"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _no_words(tokenizer: Tokenizer) -> None:
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def _bytes_first(tokenizer: Tokenizer) -> None:
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(), pre_tokenizers.Digits()])


def _strips(tokenizer: Tokenizer) -> None:
    tokenizer.normalizer = normalizers.Strip()


def _spanning_token(tokenizer: Tokenizer) -> None:
    tokenizer.add_tokens([AddedToken("New York")])


def _spanning_token_by_its_form(tokenizer: Tokenizer) -> None:
    tokenizer.add_tokens([AddedToken("Ｎｅｗ\u00a0York")])


def _token_of_a_word(tokenizer: Tokenizer) -> None:
    tokenizer.add_tokens([AddedToken("York", single_word=True)])


def _lead(tokenizer: Tokenizer) -> None:
    tokenizer.add_tokens([AddedToken("a")])


def _dropout(tokenizer: Tokenizer) -> None:
    model = tokenizer.model
    model.dropout = 0.5
    tokenizer.model = model


@pytest.mark.parametrize(
    "change",
    [
        _words_and_spaces,
        _capitals_alone,
        _no_words,
        _bytes_first,
        _strips,
        _spanning_token,
        _spanning_token_by_its_form,
        _token_of_a_word,
        _lead,
        _dropout,
    ],
)
def test_a_tokenizer_that_is_not_known_encodes_whole_texts(small: Tokenizer, change: Any) -> None:
    assert cuts_between_words(small)
    change(small)
    assert not cuts_between_words(small)


def test_a_vocabulary_with_a_token_of_several_words_encodes_whole_texts() -> None:
    """Nothing but its vocabulary keeps Gemma's words apart."""
    backend = tokenizer_of("gemma3").backend_tokenizer
    spanning = Tokenizer.from_str(backend.to_str().replace('"\u2581\u2581"', '"a\u2581"', 1))
    assert cuts_between_words(backend)
    assert not cuts_between_words(spanning)
