"""Makes statements of MMLU's questions and their options."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.judge_data.sources import Question, Split, read_questions

VERB = (
    r"is|are|was|were|has|have|had|can|will|would|may|must|should|best \w+|most \w+|provides?|causes?|means|requires?|occurs?"
    r"|describes?|contains?|produces?|results?|involves?|states?|explains?|refers?|led|affects?|determines?|increases?|shows?"
)
WHICH = re.compile(
    rf"(?:which|what) (?:one )?(?:of (?:the following|these) )?(?:(?!not )\w+ ){{0,3}}?((?:{VERB}) .+)\?", re.IGNORECASE
)
WHO = re.compile(
    r"who ((?:is|was|were|wrote|said|first|invented|discovered|played|won|became|founded|painted|developed|coined) .+)\?", re.I
)
IS = re.compile(r"what (is|are|was|were) (the .+)\?", re.IGNORECASE)
DENIES = re.compile(
    r"\b(?:not|except|least|never|false|incorrect|statements?|true|correct|below|refers? to the)\b|_{2,}|[$|]|[.?] ",
    re.IGNORECASE,
)
"""A stem that asks for what is wrong, that refers to a text that is not there, or that is more than a sentence."""

OTHERS = re.compile(
    r"\b(?:all|none|both|neither|either) (?:of )?(?:the |these )?|\babove\b|\b[A-D] and [A-D]\b|\bI{1,3}\b", re.IGNORECASE
)
ORDERS = re.compile(
    r"(?:find|choose|select|compute|calculate|evaluate|solve|let|suppose|if|use|which|what|who|how|why|when) ", re.IGNORECASE
)


def read_clear_questions(folder: Path, split: Split) -> list[Question]:
    """MMLU's questions that are clear; those to train on are none of the held-out ones, some of which MMLU has twice."""
    held_out = {question.stem for question in read_questions(folder, "held-out")} if split == "train" else ()
    return [question for question in read_questions(folder, split) if clear(question) and question.stem not in held_out]


def clear(question: Question) -> bool:
    """Whether each option stands for itself and the question denies nothing."""
    texts = (question.stem, *question.options)
    return (
        not DENIES.search(question.stem) and not any(map(OTHERS.search, question.options)) and not any("\n" in t for t in texts)
    )


def statement(question: Question, option: int) -> str | None:
    """A sentence that gives an option as the answer; ``None`` where the question has no form that is known here."""
    stem, chosen = " ".join(question.stem.split()), question.options[option].rstrip(" .")
    if found := IS.fullmatch(stem):
        return _sentence(f"{found[2]} {found[1]} {_lower(chosen)}")
    if found := WHO.fullmatch(stem) or WHICH.fullmatch(stem):
        return _sentence(f"{chosen} {found[1]}")
    if stem.endswith(("?", ".")) or " which " in stem or ORDERS.match(stem) or len(stem.split()) < 3:
        return None
    return _sentence(f"{stem.rstrip(' :')} {_lower(chosen)}")


def asked(question: Question) -> str:
    """The question as a question, also where MMLU has the beginning of a sentence."""
    stem = " ".join(question.stem.split())
    if stem.endswith(("?", ".")):
        return stem
    return f"{stem.rstrip(' :')}?" if " which " in stem else f"{stem.rstrip(' :')} what?"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _lower(text: str) -> str:
    """The text to stand within a sentence: a word of capitals, or with one inside, keeps them."""
    first = text.split()[0] if text.split() else ""
    return text[0].lower() + text[1:] if first[:1].isupper() and first[1:].islower() and text.count(" ") > 1 else text
