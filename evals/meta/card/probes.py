"""What is done to a judged answer: edits that should change nothing, padding that adds nothing, and answers that say nothing.

All words here are ours. Content-free answers go back to "null" models on arena benchmarks (Zheng et al., "Cheating Automatic LLM
Benchmarks: Null Models Achieve High Win Rates", 2024), and padding to the repetitive list of Zheng et al. (2023), "Judging
LLM-as-a-Judge with MT-Bench and Chatbot Arena", section 3.3.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

AGAIN = "To say it once more:"
"""Brings in the padding."""

NOTHING: Mapping[str, str] = {
    "punctuation": "... !!! ???",
    "one word": " ".join(["well"] * 12),
    "not applicable": "N/A",
}
"""Answers that say nothing, whatever is asked."""

ELSEWHERE = "another sample's answer"
COPIED = "the question said again"

_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])\s+|(?<=[。！？])|\n+")
_DOUBLE = re.compile(r'"([^"]*)"')


def spaced(text: str) -> str:
    """With doubled spaces and a line's end behind it."""
    return text.replace(" ", "  ") + "\n"


def quoted(text: str) -> str:
    """With typographic quotes and apostrophes for straight ones; where there are none, the other way round."""
    if "'" in text or '"' in text:
        return _DOUBLE.sub("“\\1”", text).replace("'", "’")
    return text.translate({ord("‘"): "'", ord("’"): "'", ord("“"): '"', ord("”"): '"'})


def bold(text: str) -> str:
    """In Markdown's bold."""
    return f"**{text.strip()}**"


def item(text: str) -> str:
    """As the one item of a list in Markdown."""
    return f"- {text}"


EDITS: Mapping[str, Callable[[str], str]] = {
    "spaces doubled, a line's end behind": spaced,
    "the other kind of quotes": quoted,
    "in bold": bold,
    "as an item of a list": item,
}
"""Neutral edits, by what they do. An answer that one leaves as it is is not judged again for it."""


def padded(text: str) -> str:
    """With its own last sentence said once more behind it."""
    sentences = [one for one in _SENTENCE_END.split(text.strip()) if one.strip()]
    return f"{text.rstrip()} {AGAIN} {sentences[-1].strip() if sentences else text.strip()}"


def from_elsewhere(questions: Sequence[str | None], answers: Sequence[str | None]) -> list[str | None]:
    """For each sample the answer of the next one, going round, that asks and answers something else.

    A sample that asks nothing has none: any answer would do as well.

    Args:
        questions: What each sample asks; ``None`` where it has no question.
        answers: What it answers; likewise.
    """
    pairs = zip(questions, answers, strict=True)
    usable = [place for place, (question, answer) in enumerate(pairs) if question is not None and answer is not None]
    asked, answered = ([side[place] for place in usable] for side in (questions, answers))
    if len(set(asked)) < 2 or len(set(answered)) < 2:  # then no two are apart
        return [None] * len(answers)
    past_question, past_answer = _to_another(asked), _to_another(answered)
    found: list[str | None] = []
    for place, (question, answer) in enumerate(zip(questions, answers, strict=True)):
        begin, step = bisect_right(usable, place), 0
        while question is not None and step < len(usable):
            other = (begin + step) % len(usable)
            if asked[other] == question:
                step += past_question[other]
            elif answered[other] == answer:
                step += past_answer[other]
            else:
                break
        found.append(answered[(begin + step) % len(usable)] if question is not None and step < len(usable) else None)
    return found


def _to_another(values: Sequence[str | None]) -> list[int]:
    """How far after each value, going round, one stands that is another. There are two different ones at the least."""
    count = len(values)
    found = [1] * count
    for place in range(2 * count - 1, -1, -1):  # twice round, so that a run across the end is counted whole
        here, following = place % count, (place + 1) % count
        found[here] = found[following] + 1 if values[here] == values[following] else 1
    return found
