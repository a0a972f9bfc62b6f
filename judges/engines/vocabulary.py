"""The bytes of a model's tokens, over which Outlines compiles constraints.

Libraries spell each token by decoding it alone, which is wrong where a decoder treats a token at the beginning of a text in
another way than inside, or where a token holds a part of a character. Here a token's bytes follow from the tokenizer's own
decoder, and are held against what it encodes before a model is used with them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from judges.engines.chat import ChatTokenizer
from judges.engines.kept import cache_folder, file_digest, keep_text
from judges.errors import EngineError

Library = Literal["vllm", "outlines"]

SPELLING = 1
"""Version of these rules: part of the key of compiled patterns, and of the identity of models whose tokens it changes."""

RENDERING = 1
"""Version of what Magistrate adds to a chat template for thoughts: part of the identity of models whose prompts it changes."""

REPLACED = "_spelling_of_vllm"
"""Name under which vLLM's own spelling is kept where Magistrate's has replaced it."""

UNFINISHED = "\ufffd"
"""What decoders write for a part of a character."""

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
"""A token of SentencePiece that stands for one byte."""

Spell = Callable[[str], bytes]

ANCHORS = ("", "0", '"', "a")
"""Texts before another, of which one at least leaves its tokens as they are: some tokenizers put a space before a first word."""

SAMPLES = (
    "The answer {\"scores\": [3.14, 2,718]} isn't complete; don't count it!",
    "Größere Äpfel für Zoë; déjà dit, à l’œuvre, mañana, São Paulo",
    "Ответ неполный: в нём нет даты.",
    "Η απάντηση είναι σωστή· λείπει όμως η πηγή.",
    "התשובה נכונה אבל קצרה",
    "الإجابة صحيحة ومفيدة",
    "उत्तर सही है, पर अधूरा है",
    "คำตอบถูกต้องแต่สั้น",
    "这个答案是正确的。 分数 五",
    "この答えは正しいです。 カタカナ",
    "이 답은 옳습니다, 그러나 짧다",
    "პასუხი სწორია, պատասխանը ճիշտ է",
    "emoji 👋🏽 🇫🇷 👩‍👩‍👧, 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𠜎",
    "def f(x):\n\treturn {k: v for k, v in x}  # two  spaces\n",
)
"""Texts in a dozen scripts, with emoji and code."""


def spelled(tokenizer: Any) -> dict[bytes, list[int]]:
    """Bytes to the ids of the tokens that write them, without special tokens and those that write nothing.

    Args:
        tokenizer: A tokenizer of ``transformers`` with a decoder of the library ``tokenizers``.

    Raises:
        EngineError: It has no such decoder, or one whose tokens have no bytes of their own.
    """
    spell = _spell(_decoder(tokenizer))
    special = special_ids(tokenizer)
    vocabulary: dict[bytes, list[int]] = {}
    for token, number in tokenizer.get_vocab().items():
        if number not in special and (text := spell(token)):
            vocabulary.setdefault(text, []).append(number)
    return vocabulary


class Speller:
    """Turns tokens into what they write inside a text, and a text into the tokens by which it is written inside another.

    Args:
        tokenizer: A tokenizer, as ``spelled`` takes it.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._spell = _spell(_decoder(tokenizer))
        self._bytes: dict[int, bytes] = dict.fromkeys(special_ids(tokenizer), b"")

    def bytes_of(self, token: int) -> bytes:
        """The bytes that a token writes; none for a special token."""
        found = self._bytes.get(token)
        if found is None:
            found = self._bytes[token] = self._spell(self._tokenizer.convert_ids_to_tokens(token))
        return found

    def text(self, ids: Sequence[int]) -> str:
        """The text of an answer's tokens, up to the last with which no character is left unfinished.

        It is the text that vLLM puts together token by token, at a fraction of its time.
        """
        pieces = [self.bytes_of(token) for token in ids]
        while pieces:
            try:
                text = b"".join(pieces).decode()
            except UnicodeDecodeError:  # the token limit has cut a character
                text = UNFINISHED
            if not text.endswith(UNFINISHED):
                return text
            pieces.pop()
        return ""

    def encode(self, text: bytes) -> list[int]:
        """The tokens of a text inside a longer one; none if they cannot be told from those before it.

        Args:
            text: UTF-8; what begins with a part of a character is left out.
        """
        try:
            letters = text.decode()
        except UnicodeDecodeError as error:
            letters = text[: error.start].decode()
        for before in ANCHORS:
            start, whole = self._encoded(before), self._encoded(before + letters)
            ids = whole[len(start) :]
            if whole[: len(start)] == start and b"".join(map(self.bytes_of, ids)) == letters.encode():
                return ids
        return []

    def _encoded(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])


def special_ids(tokenizer: Any) -> Collection[int]:
    """Ids of the tokens that no text holds: they are left out where an answer is decoded."""
    added = tokenizer.added_tokens_decoder.items()
    return {*tokenizer.all_special_ids, tokenizer.eos_token_id, *(number for number, token in added if token.special)}


def check_spelling(tokenizer: Any, texts: Collection[str] = SAMPLES) -> None:
    """Hold the tokens' bytes against what the tokenizer encodes.

    Args:
        tokenizer: The tokenizer.
        texts: Texts of which the bytes of the tokens, joined, must be the bytes.

    Raises:
        EngineError: They are not, or the tokenizer's decoder is unknown. The message names the tokenizer and the text.
    """
    if wrong := misread(tokenizer, texts):
        raise EngineError(
            f"the tokens of {_name(tokenizer)} cannot be spelled: {wrong}, so no constraint could be kept; "
            "use `--constraint guidance`"
        )


def misread(tokenizer: Any, texts: Collection[str] = SAMPLES) -> str | None:
    """What is read of a text whose tokens' bytes, joined, are not its own; ``None`` if there is no such text.

    Raises:
        EngineError: The tokenizer's decoder is unknown.
    """
    spell = _spell(_decoder(tokenizer))
    for text in texts:
        tokens = tokenizer.convert_ids_to_tokens(
            tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        )
        if tokenizer.unk_token is not None and tokenizer.unk_token in tokens:
            continue  # the vocabulary has no token for a part of it, so no answer holds that either
        written = b"".join(map(spell, tokens))
        if text.encode() not in (written, written.removeprefix(b" ")):
            return f"those of {text[:20]!r} are read as {written.decode(errors='replace')[:20]!r}"
    return None


def identity_options(folder: Path, constraint: str, library: Library, version: str) -> dict[str, int]:
    """The part of an engine's identity that says how prompts are rendered and tokens are spelled.

    It is empty where prompts are the template's as it stands, and the library spells tokens so too: files that were made before
    either had a version are resumed wherever that was right. The answer is cached, since it takes a large tokenizer some seconds.

    Args:
        folder: The model's folder.
        constraint: The constraint backend; only Outlines' takes these bytes.
        library: Whose spelling Magistrate's takes the place of.
        version: The library's version.
    """
    spells = constraint == "outlines"
    key = f"{SPELLING} {RENDERING} {library if spells else ''} {version} {_tokenizer_digest(folder)}"
    file = cache_folder() / "tokenizers" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    try:
        options: dict[str, int] = json.loads(file.read_text())
    except (OSError, ValueError):
        chat = ChatTokenizer.load(folder)
        options = {} if chat.is_plain else {"rendering": RENDERING}
        if spells and _is_changed(chat.tokenizer, library):
            options["spelling"] = SPELLING
        keep_text(file, json.dumps(options))
    return options


def _tokenizer_digest(folder: Path) -> str:
    files = sorted(file for part in ("*token*", "*.jinja") for file in folder.glob(part) if file.is_file())
    return hashlib.sha256("".join(f"{file.name}:{file_digest(file)}\n" for file in files).encode()).hexdigest()


def _is_changed(tokenizer: Any, library: Library) -> bool:
    try:
        ours = spelled(tokenizer)
    except EngineError:
        return False  # the engine says why when it starts
    if library == "vllm":
        from vllm.v1.structured_output import utils

        theirs: dict[bytes, list[int]] = dict(getattr(utils, REPLACED, utils._reduced_vocabulary)(tokenizer))
    else:
        from outlines.models.transformers import TransformerTokenizer

        convert = TransformerTokenizer(tokenizer).convert_token_to_string
        theirs = {}
        for token, number in tokenizer.get_vocab().items():
            if number != tokenizer.eos_token_id:
                theirs.setdefault(convert(token).encode(), []).append(number)
        theirs.pop(b"", None)
    return {text: sorted(ids) for text, ids in ours.items()} != {text: sorted(ids) for text, ids in theirs.items()}


def _decoder(tokenizer: Any) -> Mapping[str, Any]:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = backend.decoder if backend is not None else None
    if decoder is None:
        raise EngineError(f"{_name(tokenizer)} says nothing of how its tokens are decoded; use `--constraint guidance`")
    return dict(json.loads(decoder.__getstate__()))


def _spell(decoder: Mapping[str, Any]) -> Spell:
    """How a decoder writes a token inside a text."""
    steps = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    if any(step["type"] == "ByteLevel" for step in steps):
        return _of_byte_level
    replaced: list[tuple[str, str]] = []
    for step in steps:
        match step:
            case {"type": "Replace", "pattern": {"String": old}, "content": new}:
                replaced.append((old, new))
            case {"type": "Metaspace", "replacement": old}:
                replaced.append((old, " "))
            case {"type": "ByteFallback" | "Fuse" | "Strip"}:  # one concerns tokens of bytes, the others whole texts
                pass
            case _:
                raise EngineError(f"a decoder of type `{step['type']}` is not known; use `--constraint guidance`")

    def of_sentencepiece(token: str) -> bytes:
        if byte := _BYTE.fullmatch(token):
            return bytes([int(byte[1], 16)])
        for old, new in replaced:
            token = token.replace(old, new)
        return token.encode()

    return of_sentencepiece


def _of_byte_level(token: str) -> bytes:
    try:
        return token.translate(_bytes_of_letters()).encode("latin-1")
    except UnicodeEncodeError:  # an added token is written as it stands
        return token.encode()


@cache
def _bytes_of_letters() -> Mapping[int, int]:
    """GPT-2's letters to the bytes for which they stand: printable ones for themselves, those from U+0100 on for the others.

    A letter that stands for none becomes one that Latin-1 does not have.
    """
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return dict.fromkeys(others, 9216) | {256 + place: byte for place, byte in enumerate(others)}


def _name(tokenizer: Any) -> str:
    return str(getattr(tokenizer, "name_or_path", "") or "the tokenizer")
