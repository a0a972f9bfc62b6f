"""Worsens summaries of dialogues, and knows how good each quality of what it makes is."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scripts.judge_data.damage import apply, break_grammar, exchange, fact_edits, sentences
from scripts.judge_data.sources import Dialogue, Neighbours, draw_names, words_said

QUALITIES = ("consistency", "relevance", "fluency", "coherence")
"""DialSummEval's: facts of the dialogue only; its important points, no more; sentences well formed; sentences fit together."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A summary and how good it is.

    Attributes:
        quality: Each of ``QUALITIES``, from 0 to 1.
        kind: The faults that were put in.
        why: A sentence on each fault.
    """

    text: str
    quality: Mapping[str, float]
    kind: str = "human"
    why: str = ""

    def worse(self, text: str, kind: str, why: str, **factors: float) -> Draft:
        """The draft with another text, each named quality multiplied by its factor."""
        quality = {name: value * factors.get(name, 1.0) for name, value in self.quality.items()}
        return Draft(text, quality, kind if self.kind == "human" else f"{self.kind}+{kind}", f"{self.why} {why}".strip())


@dataclass(frozen=True, slots=True)
class Faults:
    """Worsens summaries of one dialogue.

    Args:
        dialogue: The dialogue and its human summary.
        near: A dialogue about much the same, whose speakers have the same names.
        far: A dialogue about something else, whose speakers have the same names.
    """

    dialogue: Dialogue
    near: Dialogue
    far: Dialogue
    speakers: Sequence[str]
    rng: random.Random

    def facts(self, draft: Draft) -> Draft | None:
        edits = fact_edits(draft.text, self.speakers, self.rng)
        if not edits:
            return None
        made = edits[: self.rng.choice([1, 1, 2, 3, len(edits)])]
        share = len(made) / max(len(made), len(draft.text.split()) / 7)
        why = "A fact contradicts the dialogue." if len(made) == 1 else f"{len(made)} facts contradict the dialogue."
        return draft.worse(apply(draft.text, made), "facts", why, consistency=0.7 * (1 - share), relevance=1 - 0.3 * share)

    def roles(self, draft: Draft) -> Draft | None:
        """Every speaker in another's place."""
        if len(self.speakers) < 2:
            return None
        first, second = self.rng.sample(list(self.speakers), 2)
        parts = sentences(draft.text)
        turned = [part for part in parts if exchange(part, first, second) != part and not self._symmetric(part, first, second)]
        if not turned:
            return None
        share = len(turned) / len(parts)
        text = exchange(draft.text, first, second)
        return draft.worse(text, "roles", "The speakers are mixed up.", consistency=0.5 - 0.4 * share, relevance=0.8)

    def _symmetric(self, sentence: str, first: str, second: str) -> bool:
        return f"{first} and {second}" in sentence or f"{second} and {first}" in sentence

    def dropped(self, draft: Draft) -> Draft | None:
        parts = sentences(draft.text)
        if len(parts) == 1:  # A sentence loses its last clause.
            cut = re.split(r",? (?:because|and|but|so|while|since|after|when) ", draft.text)
            if len(cut) < 2 or len(cut[0].split()) < 4:
                return None
            kept, share = cut[0].rstrip(",.") + ".", len(cut[0]) / len(draft.text)
        else:
            keep = sorted(self.rng.sample(range(len(parts)), self.rng.randrange(1, len(parts))))
            kept = " ".join(parts[at] for at in keep)
            share = len(kept) / len(draft.text)
        return draft.worse(kept, "dropped", "It leaves out important points.", relevance=0.3 + 0.5 * share, coherence=0.95)

    def invented(self, draft: Draft) -> Draft | None:
        """A sentence that the dialogue has not, somewhere."""
        parts = sentences(draft.text)
        foreign = self.rng.choice(sentences(self.rng.choice((self.near, self.far)).summary))
        at = self.rng.randrange(len(parts) + 1)
        text = " ".join([*parts[:at], foreign, *parts[at:]])
        share = len(foreign) / len(text)
        factors = {"consistency": 0.7 - 0.6 * share, "relevance": 0.8 - 0.5 * share, "coherence": 0.6}
        return draft.worse(text, "invented", "A sentence is made up.", **factors)

    def trivial(self, draft: Draft) -> Draft | None:
        """A true sentence that does not matter."""
        turns = [turn for turn in self.dialogue.turns if 2 < len(turn.split()) < 12]
        if not turns:
            return None
        speaker, _, said = self.rng.choice(turns).partition(":")
        parts = sentences(draft.text)
        at = self.rng.randrange(len(parts) + 1)
        text = " ".join([*parts[:at], f'{speaker} {self.rng.choice(("says", "said"))}, "{said.strip()}"', *parts[at:]])
        return draft.worse(text, "trivial", "It quotes a detail that does not matter.", relevance=0.7, coherence=0.7)

    def other(self, draft: Draft) -> Draft | None:
        """The summary of another dialogue."""
        close = self.rng.random() < 0.6
        text = (self.near if close else self.far).summary
        return draft.worse(
            text,
            "near" if close else "far",
            "It summarizes another dialogue.",
            consistency=0.08,
            relevance=0.15 if close else 0.0,
        )

    def lead(self, draft: Draft) -> Draft | None:
        """Turns copied: the first ones, or the longest, with or without the speakers."""
        many = self.rng.randrange(1, 4)
        turns = list(self.dialogue.turns)
        longest = self.rng.random() < 0.4
        chosen = [turn for turn in turns if turn in sorted(turns, key=len)[-many:]] if longest else turns[:many]
        bare = self.rng.random() < 0.5
        text = " ".join(words_said(turn) if bare else turn for turn in chosen)
        if len(text.split()) < 4:
            return None
        relevance = (0.45 if longest else 0.25) + 0.05 * many
        factors = {"consistency": 0.85, "relevance": relevance, "fluency": 0.75, "coherence": 0.4}
        return draft.worse(text, "lead", "It copies turns instead of summarizing them.", **factors)

    def vague(self, draft: Draft) -> Draft | None:
        both = " and ".join(self.speakers[:2])
        topic = self.dialogue.topic.removeprefix("the ").removeprefix("a ")
        bare = self.rng.random() < 0.4
        text = (
            f"{both} are talking." if bare else f"{both} {self.rng.choice(('talk', 'are talking', 'have a chat'))} about {topic}."
        )
        return draft.worse(text, "vague", "It says almost nothing.", relevance=0.1 if bare else 0.35)

    def broken(self, draft: Draft) -> Draft | None:
        level = self.rng.choice([0, 1, 2, 2, 3, 3, 4, 4])
        sunk = (0.35, 0.7, 0.85, 1.0, 1.0)[level]
        text = break_grammar(draft.text, level, self.rng)
        why = (
            "It is no sentence.",
            "It is hardly readable.",
            "The grammar is bad.",
            "There are several slips of grammar.",
            "There is a slip of grammar.",
        )
        factors = {"fluency": 0.2 * level, "coherence": 0.6 * sunk + 0.4 * (level > 2), "consistency": sunk, "relevance": sunk}
        return draft.worse(text, f"broken{level}", why[level], **factors)

    def shuffled(self, draft: Draft) -> Draft | None:
        parts = sentences(draft.text)
        if len(parts) < 2:
            return None
        mixed = list(parts)
        while mixed == parts:
            self.rng.shuffle(mixed)
        return draft.worse(
            " ".join(mixed), "shuffled", "The sentences are out of order.", coherence=0.6 if len(parts) < 3 else 0.4
        )

    def repeated(self, draft: Draft) -> Draft | None:
        parts = sentences(draft.text)
        at, times = self.rng.randrange(len(parts)), self.rng.choice([1, 1, 2, 4])
        text = " ".join([*parts[: at + 1], *[parts[at]] * times, *parts[at + 1 :]])
        factors = {"coherence": 0.55 - 0.1 * times, "relevance": 0.8 - 0.08 * times, "fluency": 0.9 - 0.08 * times}
        return draft.worse(text, "repeated", "It repeats a sentence.", **factors)

    def glued(self, draft: Draft) -> Draft | None:
        """The beginning of this summary and the end of another."""
        own, foreign = draft.text.split(), self.near.summary.split()
        if min(len(own), len(foreign)) < 8:
            return None
        text = " ".join(own[: len(own) // 2] + foreign[len(foreign) // 2 :])
        factors = {"consistency": 0.35, "relevance": 0.45, "coherence": 0.3, "fluency": 0.6}
        return draft.worse(text, "glued", "Half of it belongs to another dialogue.", **factors)

    def cut(self, draft: Draft) -> Draft | None:
        words = draft.text.split()
        if len(words) < 8:
            return None
        length = self.rng.randrange(3, len(words) - 2)
        factors = {"fluency": 0.6, "relevance": 0.2 + 0.7 * length / len(words), "coherence": 0.7}
        return draft.worse(" ".join(words[:length]), "cut", "It breaks off in the middle.", **factors)

    @property
    def first(self) -> dict[Callable[[Draft], Draft | None], int]:
        """Faults of a summary to their weights."""
        return {
            self.facts: 26, self.roles: 6, self.dropped: 12, self.invented: 10, self.trivial: 6, self.other: 14, self.lead: 9,
            self.vague: 7, self.broken: 18, self.shuffled: 6, self.repeated: 7, self.glued: 5, self.cut: 5,
        }  # fmt: skip

    @property
    def second(self) -> tuple[Callable[[Draft], Draft | None], ...]:
        """Faults that a faulty summary may have besides."""
        return (self.facts, self.broken, self.broken, self.repeated, self.cut, self.dropped)


def drafts(faults: Faults, many: int) -> list[Draft]:
    """The human summary and ``many`` worsened ones, each with one fault or two."""
    rng = faults.rng
    human = Draft(faults.dialogue.summary, dict.fromkeys(QUALITIES, 1.0))
    made = [human]
    weights = faults.first
    for _ in range(5 * many):
        fault = rng.choices(list(weights), list(weights.values()))[0]
        draft = fault(human)
        if draft and rng.random() < 0.25:
            draft = rng.choice(faults.second)(draft) or draft
        if draft and draft.text not in [other.text for other in made]:
            made.append(draft)
            # A group has a fault once, but facts and grammar have their degrees.
            weights = {
                other: weight for other, weight in weights.items() if other != fault or fault in (faults.facts, faults.broken)
            }
        if len(made) > many:
            break
    return made


def with_faults(dialogue: Dialogue, neighbours: Neighbours, rng: random.Random) -> Faults:
    """The faults of a dialogue whose speakers have first names, mostly; other dialogues' summaries get the same names."""
    names = draw_names(dialogue, rng) if rng.random() < 0.9 else {}
    others = (neighbours.near(dialogue), neighbours.far(dialogue))
    near, far = (other.named(names) for other in others)
    return Faults(dialogue.named(names), near, far, list(names.values()) or dialogue.tags, rng)
