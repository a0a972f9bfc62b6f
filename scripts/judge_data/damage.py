"""Damages texts by known amounts: grammar, facts, order."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

AGREEMENT = {
    "is": "are", "are": "is", "was": "were", "were": "was", "do": "does", "does": "do", "has": "have", "have": "has",
    "i": "me", "he": "him", "she": "her", "they": "them", "him": "he", "their": "they", "a": "an", "an": "a",
    "don't": "doesn't", "doesn't": "don't", "go": "goes", "goes": "go", "this": "these", "these": "this", "my": "me",
    "can": "can to", "will": "will to", "think": "thinks", "want": "wants", "i'm": "i are", "it's": "it are", "you": "your",
    "we": "us", "much": "many", "many": "much",
}  # fmt: skip
LITTLE = frozenset("a an the to of in on at for with is are was be that and".split())  # noqa: SIM905
STRAY = "the of is to very it and what was for them been thing more quickly yellow".split()  # noqa: SIM905
BROKEN_SHARE = (0.0, 0.45, 0.28, 0.15, 0.06)
"""Share of a text's words that are damaged, by the level of grammar that is left."""

SIBLINGS = [
    line.split()
    for line in (
        "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
        "January February March April June July August September October November December",
        "two three four five six seven eight nine ten twelve twenty thirty",
        "first second third last",
        "morning afternoon evening night",
        "yesterday today tomorrow tonight",
        "summer winter spring autumn",
        "day week month year hour",
        "father mother brother sister wife husband son daughter uncle aunt grandmother",
        "boss manager secretary teacher doctor lawyer neighbour classmate colleague dentist",
        "bus train taxi plane car bike ship subway",
        "breakfast lunch dinner",
        "coffee tea beer wine juice milk water",
        "red blue green black white yellow brown pink",
        "China Japan France Germany Italy Spain Canada England Australia India Mexico Brazil",
        "London Beijing Paris Rome Tokyo Shanghai Boston Chicago Madrid Berlin",
        "English Chinese French German Spanish Japanese Italian",
        "restaurant hotel library bank office hospital museum airport supermarket school park cinema station",
        "book movie song game letter computer phone camera newspaper television",
        "chicken beef fish rice soup salad pizza cake bread noodles",
        "basketball football tennis swimming golf skiing chess",
        "shirt dress coat shoes hat trousers sweater jacket",
        "wedding birthday party interview exam meeting concert trip holiday",
        "dollars yuan euros pounds",
        "house apartment room flat",
        "dog cat horse rabbit",
    )
]
OPPOSITES = [
    pair.split("/")
    for line in (
        "likes/dislikes loves/hates agrees/refuses accepts/rejects before/after more/less cheap/expensive good/bad",
        "happy/unhappy always/never will/won't can/can't is/isn't does/doesn't has/hasn't should/shouldn't wants/refuses",
        "buys/sells recommends/forbids early/late big/small old/new satisfied/dissatisfied safe/dangerous easy/difficult",
        "interesting/boring remembers/forgets believes/doubts with/without increases/decreases wins/loses better/worse",
        "best/worst high/low right/wrong many/few decides/refuses gives/takes borrows/lends arrives/leaves suggests/rules_out",
        "enjoys/avoids praises/blames hopes/doubts promises/refuses finds/loses cannot/can are/aren't was/wasn't",
    )
    for pair in line.split()
]
DENIED = re.compile(
    "tells|asks|thinks|helps|invites|needs|calls|shows|pays|offers|explains|introduces|talks|works|comes|gets|makes|sends"
)
"""Verbs that are turned into their contrary by a negation: tells, doesn't tell."""


class Edit(NamedTuple):
    """A change of a text: what stands in place of its characters ``start`` to ``end``, and whether it says the contrary."""

    start: int
    end: int
    text: str
    contrary: bool = False


def sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])(?<!Mr\.)(?<!Mrs\.)(?<!Ms\.)(?<!Dr\.)\s+", text) if part]


def break_grammar(text: str, level: int, rng: random.Random) -> str:
    """Text in broken grammar; ``level`` from 4, a slip, to 0, no sentence at all."""
    words = text.split()
    if level == 0:
        return _babble(words, rng)
    for _ in range(max(1, round(len(words) * BROKEN_SHARE[level]))):
        _break_once(words, rng)
    broken = " ".join(words)
    return broken if broken != text else break_grammar(text, level, rng)


def _babble(words: list[str], rng: random.Random) -> str:
    if len(set(words)) < 4 or rng.random() < 0.4:  # What a model writes that is caught in a loop.
        start = rng.randrange(max(1, len(words) - 3))
        return " ".join((words[start : start + rng.randrange(1, 4)] or words) * rng.randrange(4, 8))
    shuffled = list(words)
    while shuffled == words:
        rng.shuffle(shuffled)
    return " ".join(shuffled)


def _break_once(words: list[str], rng: random.Random) -> None:
    """Damage one place: forms where there are any, since they are what people get wrong."""
    formed = [at for at, word in enumerate(words) if word.lower() in AGREEMENT]
    little = [at for at, word in enumerate(words) if word.lower() in LITTLE]
    verbs = [at for at, word in enumerate(words) if re.fullmatch(r"[a-z]{3,}[^s]s", word)]
    at = rng.randrange(len(words))
    match rng.choice(("form", "form", "little", "little", "verb", "verb", "double", "swap", "move", "stray", "cut", "ing")):
        case "form" if formed:
            at = rng.choice(formed)
            words[at] = AGREEMENT[words[at].lower()]
        case "little" if little and len(words) > 3:
            del words[rng.choice(little)]
        case "verb" if verbs:
            at = rng.choice(verbs)
            words[at] = words[at][:-1]
        case "double":
            length = rng.randrange(1, 4)
            words[at:at] = words[at : at + length]
        case "move" if len(words) > 3:
            words.insert(rng.randrange(len(words)), words.pop(at))
        case "stray":
            words.insert(at, rng.choice(STRAY))
        case "cut" if len(words) > 6:
            del words[-rng.randrange(1, 3) :]
        case "ing" if "to" in words[:-1]:
            at = words.index("to") + 1
            words[at] = re.sub(r"^([a-z]+?)(?:e|ing)?$", r"\1ing", words[at])
        case _ if len(words) > 1:
            at = min(at, len(words) - 2)
            words[at : at + 2] = reversed(words[at : at + 2])
        case _:
            words.append(words[0])


def fact_edits(text: str, speakers: Sequence[str], rng: random.Random) -> list[Edit]:
    """Edits of which each makes a statement of ``text`` false: numbers, kinds of things, opposites, who does what."""
    numbers = re.finditer(r"(?<![\w#])\d+", text)
    edits = [Edit(*found.span(), str(_other_number(int(found[0]), rng))) for found in numbers]
    for found in re.finditer(r"[\w']+", text):
        edits += [Edit(*found.span(), other, contrary) for other, contrary in _others(found[0], rng)]
    if len(speakers) > 1:
        edits += _swapped(text, speakers, rng)
    rng.shuffle(edits)
    free: list[Edit] = []
    for edit in edits:
        if not any(_clash(edit, other, text) for other in free):
            free.append(edit)
    return free


def _clash(one: Edit, other: Edit, text: str) -> bool:
    """Whether two edits overlap, or say the contrary twice in a sentence, which is true again."""
    between = text[min(one.start, other.start) : max(one.start, other.start)]
    return (one.end > other.start and one.start < other.end) or (one.contrary and other.contrary and "." not in between)


def _other_number(number: int, rng: random.Random) -> int:
    return number + rng.choice([1, 2, 3, 5, 10]) * (-1 if number > 12 and rng.random() < 0.5 else 1)


def _others(word: str, rng: random.Random) -> Iterator[tuple[str, bool]]:
    """What may stand in the place of a word, and whether it says the contrary."""
    for siblings in SIBLINGS:
        if word in siblings:
            yield rng.choice([sibling for sibling in siblings if sibling != word]), False
            return
    for left, right in rng.sample(OPPOSITES, len(OPPOSITES)):
        if word in (left, right):
            yield (right if word == left else left).replace("_", " "), True
            return
    if DENIED.fullmatch(word):
        yield f"doesn't {word[:-1]}", True


def _swapped(text: str, speakers: Sequence[str], rng: random.Random) -> Iterator[Edit]:
    """Who does what, the other way round, a sentence at a time, where the sentence does not say the same of both."""
    offset = 0
    for sentence in sentences(text):
        start = text.index(sentence, offset)
        offset = start + len(sentence)
        named = [speaker for speaker in speakers if re.search(rf"{re.escape(speaker)}(?!\w)", sentence)]
        together = any(f"{one} and {other}" in sentence for one in named for other in named) or "both" in sentence.lower()
        if not named or together:
            continue
        first = named[0] if len(named) == 1 else rng.choice(named)
        other = rng.choice([speaker for speaker in speakers if speaker != first])
        turned = exchange(sentence, first, other)
        yield Edit(start, offset, turned)


def exchange(text: str, first: str, second: str) -> str:
    """Text with two names in each other's place."""
    either = re.compile(rf"({re.escape(first)}|{re.escape(second)})(?!\w)")
    return either.sub(lambda name: second if name[0] == first else first, text)


def apply(text: str, edits: Sequence[Edit]) -> str:
    """Text with edits made that do not overlap."""
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text
