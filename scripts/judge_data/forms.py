"""Instructions that ask for a form, texts that keep it, and texts that do not."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

Formed = tuple[str, bool]
Constraint = tuple[str, Callable[[str], Formed], Callable[[str], Formed]]
"""An instruction, and how a text is made to keep it and to break it: the text, and whether it keeps the form."""


def _constraint(
    instruction: str, keep: Callable[[str], str], lose: Callable[[str], str], holds: Callable[[str], bool]
) -> Constraint:
    def formed(change: Callable[[str], str], text: str) -> Formed:
        return change(text), holds(change(text))

    return instruction, partial(formed, keep), partial(formed, lose)


def _upper(rng: random.Random, body: str) -> Constraint:
    asked = rng.choice(("Write in capital letters only.", "Use upper case only.", "ALL CAPS, please."))
    return _constraint(asked, str.upper, rng.choice((str, str.lower)), str.isupper)


def _lower(rng: random.Random, body: str) -> Constraint:
    return _constraint("Write in lower case only.", str.lower, rng.choice((str, str.upper)), str.islower)


def _short(rng: random.Random, body: str) -> Constraint:
    most = rng.choice([5, 8, 10, 12])
    asked = rng.choice(("Use at most {} words.", "Answer in no more than {} words.", "{} words or fewer.")).format(most)

    def shortened(text: str) -> str:
        return " ".join(text.split()[:most]).rstrip(",.") + "."

    return _constraint(asked, shortened, lambda text: f"{text} {body}", lambda text: len(text.split()) <= most)


def _question(rng: random.Random, body: str) -> Constraint:
    asked = rng.choice(("End with a question.", "Finish your answer with a question mark."))
    closing = rng.choice(("What do you think?", "Is that right?", "Would you do the same?"))
    return _constraint(asked, lambda text: f"{text} {closing}", rng.choice((str, lambda text: f"{closing} {text}")), _asks)


def _asks(text: str) -> bool:
    return text.endswith("?")


def _mention(rng: random.Random, body: str) -> Constraint:
    word = rng.choice(("garden", "winter", "honest", "copper", "river", "pencil", "window", "market", "silver", "velvet"))
    asked = rng.choice(("Use the word '{}'.", "Mention '{}' somewhere.", "Your answer must contain the word '{}'.")).format(word)
    added = rng.choice((f"And there is the {word}.", f"It has to do with {word}."))
    other = rng.choice(("And there is the table.", "It has to do with time."))
    return _constraint(asked, lambda text: f"{text} {added}", lambda text: f"{text} {other}", lambda text: word in text.lower())


def _list(rng: random.Random, body: str) -> Constraint:
    many = rng.choice([2, 3, 4])
    wrong = rng.choice([number for number in (1, 2, 3, 4, 5) if number != many])
    mark = rng.choice(("-", "*"))
    asked = rng.choice(("Give a list of exactly {} points.", "List {} things, each on its own line.")).format(many)

    def listed(count: int, text: str) -> str:
        words = text.split()
        size = max(1, len(words) // count)
        return "\n".join(f"{mark} {' '.join(words[at * size : (at + 1) * size])}" for at in range(count))

    return _constraint(asked, partial(listed, many), rng.choice((str, partial(listed, wrong))), partial(_has_points, many, mark))


def _has_points(many: int, mark: str, text: str) -> bool:
    lines = text.split("\n")
    return len(lines) == many and all(line.startswith(mark) for line in lines)


def _opening(rng: random.Random, body: str) -> Constraint:
    word = rng.choice(("Sure", "Hello", "Today", "Listen", "Dear reader"))
    asked = rng.choice(("Begin with '{}'.", "Start your answer with the word '{}'.")).format(word)
    return _constraint(
        asked,
        lambda text: f"{word}, {text}",
        rng.choice((str, lambda text: f"{text} {word}.")),
        lambda text: text.startswith(word),
    )


FORMS = (_upper, _lower, _short, _short, _question, _mention, _mention, _list, _opening)
