"""The words of a corpus, texts that say nothing, and the spellings of corpora."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Sequence


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return re.findall(r"[a-z]+", text.lower())


class Words:
    """What a corpus says of its words.

    Attributes:
        rarity: Word to its inverse document frequency in nats.
        common: Words of more than 20 documents, sorted.
    """

    def __init__(self, documents: Sequence[str]) -> None:
        counts = Counter(word for document in documents for word in set(words_of(document)))
        self.rarity = {word: math.log(len(documents) / count) for word, count in counts.items()}
        self.common = sorted(word for word, count in counts.items() if count > 20)

    def mass(self, text: str) -> float:
        """How much a text says: the summed rarity of its distinct words, each at most 5 nats."""
        return math.fsum(min(self.rarity.get(word, 5.0), 5.0) for word in set(words_of(text)))

    def likeness(self, one: str, other: str) -> float:
        """The cosine of two texts' sets of words, weighed by rarity."""
        first, second = set(words_of(one)), set(words_of(other))
        shared, one_norm, other_norm = (
            math.fsum(self.rarity.get(word, 5.0) ** 2 for word in words) for words in (first & second, first, second)
        )
        return shared / math.sqrt(one_norm * other_norm) if shared else 0.0


def nonsense(words: Words, rng: random.Random) -> str:
    """A text that says nothing in any context: symbols, one word many times, letters or words at random."""
    match rng.randrange(6):
        case 0:
            return " ".join(
                "".join(rng.choice(".!?,-*#_=/~") for _ in range(rng.randrange(1, 6))) for _ in range(rng.randrange(1, 8))
            )
        case 1:
            return " ".join([rng.choice(words.common)] * rng.randrange(4, 20))
        case 2:
            return " ".join(
                "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randrange(2, 9)))
                for _ in range(rng.randrange(2, 14))
            )
        case 3:
            return rng.choice(
                ["-", "none", "null", "[]", "{}", "N.A.", "n/a", "...", "response", "<unk> <unk> <unk>", "0", "1 2 3 4 5", "text"]
            )
        case _:
            return " ".join(rng.choice(words.common) for _ in range(rng.randrange(4, 25)))


def restyle(text: str, style: str) -> str:
    """A text in a corpus's spelling: ``s`` spaces round punctuation, ``a`` round apostrophes too, ``l`` lower case."""
    if "a" in style:
        text = re.sub(r"(['’])", r" \1 ", text)
    elif "s" in style:
        text = re.sub(r"n['’]t\b", " n't", text)
        text = re.sub(r"(?<=\w)(['’](?:s|m|re|ve|ll|d)\b)", r" \1", text)
    if "s" in style:
        text = " ".join(re.sub(r"([.,!?;:()\"]+)", r" \1 ", text).split())
    return text.lower() if "l" in style else text


def random_style(rng: random.Random) -> str:
    """A style for ``restyle``; the most frequent one changes nothing."""
    return rng.choices(["", "l", "s", "ls", "sa", "lsa"], [40, 14, 12, 22, 6, 6])[0]
