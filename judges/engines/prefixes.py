r"""Encodes texts that begin alike, and tokenises what they share once.

A text is cut before a space that follows an ASCII letter. For the tokenizers that ``cuts_between_words`` knows, what stands on
one side of a cut changes no token of the other side:

- Added tokens: none holds a letter followed by a space, so none spans a cut.
- Normalizers: Unicode's forms never join a space to what precedes it; SentencePiece's only spell or prepend spaces.
- Tokens of a regular expression: its alternatives match no space after a letter, and nothing in them tells a space from the end
  of a text (``(?!\S)`` holds before both). No alternative looks back, so a match depends on nothing before it. All letters are
  matched, so a match ends at every cut.
- BPE without a regular expression: no token of the vocabulary holds a letter followed by a space, so no merge spans a cut.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from string import ascii_letters
from typing import Any
from unicodedata import normalize

LEAST_GAIN = 64
"""Characters that a prefix must have more than a known one to be kept."""

KEPT = 16
"""Number of prefixes kept."""

COMPARED = 8
"""Number of recent texts with which a text is compared."""

LEAD = "a"
"""A letter that stands for the prefix where the rest of a text is encoded alone: some tokenizers begin a text in another way."""

_LAST_CUT = re.compile(r".*[A-Za-z](?= )", re.DOTALL)
_CUT, _SPELT_CUT = re.compile(r"[A-Za-z]\s"), re.compile("[A-Za-z][\\s\u2581]")
"""A letter and a space, as it stands or also as SentencePiece spells it."""

Encode = Callable[[str], list[int]]


class PrefixCache:
    """Encodes texts, and keeps the token ids of beginnings that two recent texts share.

    Args:
        encode: Encodes a whole text by a tokenizer for which ``cuts_between_words`` holds.
        added: Ids of the added tokens.
    """

    def __init__(self, encode: Encode, added: Collection[int]) -> None:
        self._encode = encode
        self._added = added
        self._lead = len(encode(LEAD))
        self._known: dict[str, list[int]] = {}  # the latest used last; each key ends with the space behind the cut
        self._recent: deque[str] = deque(maxlen=COMPARED)

    def encode(self, text: str) -> list[int]:
        """Encode a text to the ids that the tokenizer gives the whole of it."""
        start, ids = self._longest_known(text)
        cut = self._shared_cut(text, start)
        self._recent.append(text)
        if cut:
            ids = ids + self._rest(text, start, cut)
            start = cut if self._keep(text[: cut + 1], ids) else 0
        return ids + self._rest(text, start) if start else self._encode(text)

    def _rest(self, text: str, start: int, end: int | None = None) -> list[int]:
        return self._encode(LEAD + text[start:end])[self._lead :] if start else self._encode(text[:end])

    def _longest_known(self, text: str) -> tuple[int, list[int]]:
        """The cut behind the longest known prefix of a text and the prefix's ids; no ids and 0 if none is known."""
        found = max(filter(text.startswith, self._known), key=len, default="")
        if not found:
            return 0, []
        self._known[found] = ids = self._known.pop(found)
        return len(found) - 1, ids

    def _shared_cut(self, text: str, start: int) -> int:
        """The last cut in what a text shares with a recent one; 0 if that gains too little."""
        least = start + LEAST_GAIN
        beginning = text[:least]
        other = next((other for other in reversed(self._recent) if other.startswith(beginning)), None)
        if other is None or len(text) < least:
            return 0
        cut = _LAST_CUT.match(text, 0, _shared_length(text, other, least))
        return cut.end() if cut and cut.end() >= least else 0

    def _keep(self, prefix: str, ids: list[int]) -> bool:
        """Keep a prefix unless an added token ends it, behind which some tokenizers begin a text anew."""
        if ids[-1] in self._added:
            return False
        self._known[prefix] = ids
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return True


def _shared_length(first: str, second: str, low: int) -> int:
    """The number of characters with which two texts begin alike; at least ``low`` of them do."""
    high = min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


_OF_CASES = tuple(
    rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]{upper}[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]{lower}"
    for upper, lower in ("*+", "+*")
)
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"

LETTERS: tuple[frozenset[str], ...] = (
    frozenset({r"[^\r\n\p{L}\p{N}]?\p{L}+"}),
    frozenset({r"[^\r\n\p{L}\p{N}]?+\p{L}+"}),
    frozenset({r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+"}),
    frozenset({r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"}),
    frozenset(_OF_CASES),
    frozenset(f"{one}{_CONTRACTIONS}?" for one in _OF_CASES),
)
"""Alternatives of regular expressions that together match every letter."""

ALTERNATIVES = frozenset.union(*LETTERS) | {
    _CONTRACTIONS,
    "'(?i:[sdmt]|ll|ve|re)",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+""",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"\p{N}",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r" ?[^\s\p{L}\p{N}]++[\r\n]*",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
    r" ?[\p{P}\p{S}]+[\r\n]*",
    r"\s*[\r\n]+",
    r"\s*[\r\n]",
    r"\s+(?!\S)",
    r"\s+",
}
"""Alternatives of the regular expressions of Llama 3, Qwen, DeepSeek, Mistral, Phi and gpt-oss, all as the module requires."""

_ALTERNATIVE = re.compile(r"(?:\\.|\[(?:\\.|[^\]\\])*\]|\((?:\\.|[^()\\])*\)|[^|()\[\\])+", re.DOTALL)


def cuts_between_words(backend: Any) -> bool:
    """Whether a tokenizer of the library ``tokenizers`` is known to be one that the module's rules hold for."""
    model = backend.model
    if type(model).__name__ != "BPE" or model.dropout or model.continuing_subword_prefix or model.end_of_word_suffix:
        return False
    normalizers = _steps(backend.normalizer, "normalizers")
    steps = _steps(backend.pre_tokenizer, "pretokenizers")
    if all(step["type"] in ("NFC", "NFD", "NFKC", "NFKD") for step in normalizers) and _splits_words(steps):
        return _added_stay_apart(backend, _CUT)
    spells = all(map(_spells_spaces, normalizers))
    return spells and _leaves_whole(steps) and _merges_inside_words(backend) and _added_stay_apart(backend, _SPELT_CUT)


def _added_stay_apart(backend: Any, cut: re.Pattern[str]) -> bool:
    """Whether no added token spans a cut, depends on the letters around it or is the lead itself."""
    added = backend.get_added_tokens_decoder().values()
    contents = [normalize("NFKC", token.content) for token in added]
    return LEAD not in contents and not any(token.single_word for token in added) and not any(map(cut.search, contents))


def _steps(component: Any, inner: str) -> list[Mapping[str, Any]]:
    """A normalizer's or a pre-tokenizer's steps, as they stand in ``tokenizer.json``."""
    if component is None:
        return []
    state = json.loads(component.__getstate__())
    return list(state[inner]) if state["type"] == "Sequence" else [state]


def _spells_spaces(step: Mapping[str, Any]) -> bool:
    match step:
        case {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"} | {"type": "Prepend", "prepend": "\u2581"}:
            return True
    return False


def _splits_words(steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all pre-tokenizers are known ones, one of them matches every letter, and none sees letters spelt as bytes."""
    spelt = any(step["type"] == "ByteLevel" for step in steps[:-1])
    return not spelt and all(map(_is_known, steps)) and any(map(_matches_letters, steps))


def _is_known(step: Mapping[str, Any]) -> bool:
    match step:
        case {"type": "ByteLevel" | "Digits"}:
            return True
        case {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}:
            return _alternatives(pattern) <= ALTERNATIVES
    return False


def _matches_letters(step: Mapping[str, Any]) -> bool:
    if step["type"] == "ByteLevel":
        return bool(step["use_regex"])  # GPT-2's expression, in which a word is ` ?\p{L}+`
    return step["type"] == "Split" and any(letters <= _alternatives(step["pattern"]["Regex"]) for letters in LETTERS)


def _alternatives(pattern: str) -> frozenset[str]:
    found = _ALTERNATIVE.findall(pattern)
    if "|".join(found) != pattern:
        return frozenset({pattern})
    return frozenset(one.replace("\r", r"\r").replace("\n", r"\n") for one in found)


def _leaves_whole(steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether pre-tokenizers cut at most at spaces."""
    return all(
        step.get("replacement" if step["type"] == "Metaspace" else "pattern") in ("\u2581", {"String": " "}) for step in steps
    )


def _merges_inside_words(backend: Any) -> bool:
    """Whether BPE's merges join no letter with a space behind it, and both are tokens."""
    vocabulary = backend.get_vocab(with_added_tokens=False)
    return (
        not backend.model.ignore_merges
        and vocabulary.keys() >= {*ascii_letters, "\u2581"}
        and not any(map(_SPELT_CUT.search, vocabulary))
    )
