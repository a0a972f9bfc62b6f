"""Answers that are right or wrong: a choice of several, or the very words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.metrics.metric import Measured, Pair, measured, one_answer
from judges.errors import MagistrateError

NOUNS = r"(?:answer|choice|option|response|letter)"
ARE = r"(?:is|would\sbe|must\sbe|should\sbe)"
ADVERBS = r"(?:therefore|thus|clearly|definitely|probably|(?:most\s)?likely|indeed)"
REASONS = r"(?:because|since|as)\b"
WHAT_FOLLOWS = r"(?:because|since|as|for|and|or|which|due|is)\b"
DENIALS = r"not\b|wrong\b|incorrect\b|false\b"

LONGEST_LABEL = 40
"""Characters of a line that may be nothing but a choice, with what stands around it."""

NO_CHOICE = "the answer names no choice"


class Accuracy:
    """Whether an answer names the right one of several choices: 1 or 0.

    An answer that names none is wrong, since a model that gives no answer is; its note says so. A right answer that is no choice
    cannot be measured.

    A choice is read where a person would see one. The first of these decides:

    1. The first line is nothing but a choice: ``B``, ``(B)``, ``**B.**``. What a model goes on to write does not count.
    2. The last statement of an answer: ``the answer is B``, ``Answer: (b)``, ``the correct option is B``, ``B is correct``,
       ``\\boxed{B}``.
    3. The first line begins with a choice that a mark or a reason sets apart: ``b) because``, ``B. Insulin``, ``B since``. Lines
       that begin with the choices in their order, from the first on, are the question repeated, and name none.
    4. The last line is nothing but a choice.
    5. ``option B``, ``I choose B`` and the like, if no two of them name different choices; ``option B is wrong`` names none.

    Letters count in either case, but not where they are words: ``the answer is a drug`` names no choice. The words of the rules
    are English; the first, the third and the fourth hold in any language.

    Args:
        choices: The letters or digits that stand for choices.

    Raises:
        MagistrateError: Fewer than two, or one that is neither letter nor digit or stands twice.
    """

    name = "accuracy"
    title = "Accuracy"
    scale = (0.0, 1.0)

    def __init__(self, *, choices: str = "ABCD") -> None:
        if not isinstance(choices, str) or not re.fullmatch("[A-Za-z0-9]{2,}", choices):
            raise MagistrateError(f"option `choices` of metric `accuracy` must be letters or digits, like ABCD, not {choices!r}")
        self.choices = choices.upper()
        if len(set(self.choices)) < len(self.choices):
            raise MagistrateError(f"option `choices` of metric `accuracy` has a letter or digit twice: {choices}")
        self._reader = _Reader(self.choices)

    def identity(self) -> Mapping[str, Any]:
        return {"metric": self.name, "choices": self.choices, "reader": 1}

    async def measure(self, pairs: Sequence[Pair], keep: Path | None = None) -> list[Measured]:
        return [measured(pair, self._measure) for pair in pairs]

    def choice(self, answer: str) -> str | None:
        """The choice that an answer names, as it stands among the choices; ``None`` for none."""
        return self._reader.read(answer)

    def _measure(self, pair: Pair) -> Measured:
        right = self._reader.alone(" ".join(plain_lines(pair.truth)))
        if right is None:
            raise MagistrateError(f"the right answer must be one of {', '.join(self.choices)}, and it is {pair.truth[:40]!r}")
        named = self.choice(one_answer(pair))
        return Measured(float(named == right), note=NO_CHOICE if named is None else None)


class Exact:
    """Whether an answer is the right one: 1 or 0. White space around both does not count, nor how Unicode spells a character.

    Args:
        ignore_case: Whether large and small letters are the same.

    Raises:
        MagistrateError: ``ignore_case`` is neither true nor false.
    """

    name = "exact"
    title = "Exact match"
    scale = (0.0, 1.0)

    def __init__(self, *, ignore_case: bool = False) -> None:
        if not isinstance(ignore_case, bool):
            raise MagistrateError(f"option `ignore_case` of metric `exact` must be true or false, not {ignore_case!r}")
        self.ignore_case = ignore_case

    def identity(self) -> Mapping[str, Any]:
        return {"metric": self.name, "ignore_case": self.ignore_case, "unicode": unicodedata.unidata_version}

    async def measure(self, pairs: Sequence[Pair], keep: Path | None = None) -> list[Measured]:
        return [measured(pair, self._measure) for pair in pairs]

    def _measure(self, pair: Pair) -> Measured:
        return Measured(float(self._plain(one_answer(pair)) == self._plain(pair.truth)))

    def _plain(self, text: str) -> str:
        text = unicodedata.normalize("NFC", text.strip())
        return unicodedata.normalize("NFC", text.casefold()) if self.ignore_case else text


class _Reader:
    """Reads a choice out of an answer, as ``Accuracy`` says."""

    def __init__(self, choices: str) -> None:
        lower = choices.lower()
        either = "".join(sorted({*choices, *lower}))
        bracketed = rf"\(\s?[{either}]\s?\)|\[\s?[{either}]\s?\]|[{either}]\)"
        # No choice is part of a word, of a number or of a name such as B12, B-cell or D'Arcy,
        apart = r"(?![^\W_]|['’-]\w|[.,]\d)"
        # nor is it a word of its own, unless the sentence ends there or goes on with a reason.
        words = rf"(?!(?<=[AI])\s(?!{WHAT_FOLLOWS})[a-z])"
        letter = rf"[{choices}]{apart}{words}|[{lower}]{apart}(?=\s?(?:[.,;:!?)<]|$))"
        named = rf"(?:{bracketed}|{letter})"
        alone = rf"(?!\s(?:and|or)\s(?:{NOUNS}\s)?(?:{bracketed}|[{choices}]{apart}))"
        self._choices = choices
        self._alone = re.compile(rf"\W*(?:(?:option|choice|answer)\b)?\W*([{either}])\W*", re.IGNORECASE)
        self._stated = re.compile(
            rf"(?i:\b{NOUNS}(?:\sto\s(?:this|the)\squestion)?\s?(?:{ARE}|[:=>])\s?:?\s?(?:{ADVERBS}\s)?(?:{NOUNS}\s?:?\s?)?)({named}){alone}"
            rf"|(?<![\w'’-])(?<!or\s)(?<!and\s)((?:{bracketed}|[{choices}]))(?i:\s{ARE}\s(?:the\s)?(?:correct|right|best|answer)\b)"
            rf"|\\boxed\{{\s?(?:\\text\s?\{{)?\s?\(?([{either}])\)?\s?\}}",
            re.MULTILINE,
        )
        self._first = re.compile(
            rf"(?:({bracketed})(?!\s(?:and|or)\b|,\s?[(\[])|([{choices}])(?:\s?[.:;]|\s?[-–—]\s|,?\s(?={REASONS}))|([{lower}])[.:])(?!\d|\w\.)"
        )
        self._chosen = re.compile(
            rf"(?i:\b(?:{NOUNS}|choose|pick|select|(?:go|going|went)\swith)\s(?:{NOUNS}\s)?)({named})(?!\s(?:{ARE}\s)?(?:{DENIALS}))",
            re.MULTILINE,
        )

    def alone(self, line: str) -> str | None:
        """The choice that a line consists of."""
        found = self._alone.fullmatch(line) if len(line) <= LONGEST_LABEL else None
        return found[1].upper() if found else None

    def read(self, answer: str) -> str | None:
        lines = plain_lines(answer)
        if not lines:
            return None
        text = "\n".join(lines)
        return (
            self.alone(lines[0])
            or next(reversed([_letter(found) for found in self._stated.finditer(text)]), None)
            or self._leading(lines)
            or self.alone(lines[-1])
            or self._agreed(text)
        )

    def _leading(self, lines: Sequence[str]) -> str | None:
        """The choice that the first line begins with. All choices in their order are the question's, repeated."""
        leading = [_letter(found) for found in map(self._first.match, lines) if found]
        if not self._first.match(lines[0]) or (len(leading) > 1 and self._choices.startswith("".join(leading))):
            return None
        return leading[0]

    def _agreed(self, text: str) -> str | None:
        chosen = {_letter(found) for found in self._chosen.finditer(text)}
        return chosen.pop() if len(chosen) == 1 else None


def plain_lines(text: str) -> list[str]:
    """The lines that hold something, without emphasis, with single spaces, and with full-width letters as others are."""
    plain = re.sub(r"[*_`$#]+", "", unicodedata.normalize("NFKC", text))
    return [" ".join(line.split()) for line in plain.splitlines() if line.strip()]


def _letter(found: re.Match[str]) -> str:
    whole = next(group for group in found.groups() if group is not None)
    return re.sub(r"[^A-Za-z0-9]", "", whole).upper()
