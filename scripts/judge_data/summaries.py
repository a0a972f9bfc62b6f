"""Summaries of DialogSum's dialogues, good ones and worsened ones, whose scores follow from how each was made."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from judges.judge import Judge, Sample
from judges.llm_eval import FOUR_METRICS, LLMEval
from judges.rubric import Rubric
from judges.rubric_file import RubricFile
from scripts.judge_data.damage import apply, break_grammar, exchange, fact_edits, sentences
from scripts.judge_data.examples import Choice, Example
from scripts.judge_data.sources import Dialogue, Neighbours, Split, draw_names, read_dialogues

QUALITIES = ("consistency", "relevance", "fluency", "coherence")

NAMES = {
    "consistency": ("consistency", "consistency", "consistency", "faithfulness", "accuracy", "factuality"),
    "relevance": ("relevance", "relevance", "relevance", "coverage", "informativeness", "importance"),
    "fluency": ("fluency", "fluency", "fluency", "grammar", "readability", "language"),
    "coherence": ("coherence", "coherence", "coherence", "structure", "flow", "organization"),
    "overall": ("overall", "quality"),
}
DESCRIPTIONS = {
    "consistency": (
        "Does the summary say only what the dialogue says?",
        "the facts of the summary agree with the dialogue, nothing is made up",
        "Are all statements of the summary supported by the dialogue?",
        "factual alignment between the summary and the dialogue",
    ),
    "relevance": (
        "Does the summary hold what matters in the dialogue, and nothing else?",
        "the summary has the important points of the dialogue and no more",
        "selection of important content from the source",
        "Does it cover the main points without needless details?",
    ),
    "fluency": (
        "Is each sentence of the summary well written?",
        "quality of individual sentences",
        "grammar and wording of each sentence, whatever it says",
        "Is the summary free of grammatical errors?",
    ),
    "coherence": (
        "Do the sentences of the summary fit together as one text?",
        "collective quality of all sentences",
        "whether the summary is well structured and in a sensible order",
        "Do the sentences follow one another naturally?",
    ),
    "overall": ("How good is the summary as a whole?", "overall quality of the summary"),
}
FOUR_DESCRIPTIONS = (
    "what the summary says",
    "whether the language is right",
    "whether it fits the dialogue",
    "whether it is fit to use",
)
INSTRUCTIONS = (
    None,
    "You judge summaries of dialogues.",
    "Rate the summary of the dialogue.",
    "You are an editor who checks summaries.",
)


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
        text = " ".join(turn.partition(":")[2].strip() if bare else turn for turn in chosen)
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


def on_scale(quality: float, legal: Sequence[int], rng: random.Random) -> int:
    """A quality from 0 to 1 on a scale; on a long one as people do it, in steps of five, a step up or down at times."""
    lowest, highest = legal[0], legal[-1]
    exact = lowest + quality * (highest - lowest)
    if len(legal) > 50:
        exact = 5 * round(exact / 5) + 5 * rng.choice((-1, 0, 0, 1))
    return min(highest, max(lowest, int(exact + 0.5)))


@dataclass(frozen=True, slots=True)
class Question:
    """A judge, and the quality that each of its metrics is about.

    Attributes:
        of: Metric to quality.
        fields: The field with the dialogue and the one with the summary.
        reasoned: Whether the answer starts with reasons.
    """

    judge: Judge
    of: Mapping[str, str]
    fields: tuple[str, str] = ("context", "response")
    reasoned: bool = False

    def example(self, dialogue: Dialogue, draft: Draft, as_text: bool, rng: random.Random) -> Example:
        source, answer = self.fields
        sample: Sample = {source: "\n".join(dialogue.turns) if as_text else list(dialogue.turns), answer: draft.text}
        legal = {score.metric: score.legal for score in self.judge.numeric_scores}
        values = qualities(draft)
        scores = {name: Choice(on_scale(values[quality], legal[name], rng), legal[name]) for name, quality in self.of.items()}
        reasons = {"reasoning": draft.why or "It is faithful, covers the main points and reads well."} if self.reasoned else {}
        return Example(self.judge, sample, ({**reasons, **scores},), f"summary.{draft.kind}")


def qualities(draft: Draft) -> dict[str, float]:
    """What any metric may be about: the four qualities, the whole, and LLM-Eval's own four."""
    consistency, relevance, fluency, coherence = (draft.quality[name] for name in QUALITIES)
    mean = (consistency + relevance + fluency + coherence) / 4
    fitting = relevance * (0.4 + 0.6 * consistency)
    own = {
        "content": (consistency + relevance) / 2,
        "grammar": fluency,
        "fitting": fitting,
        "appropriateness": (mean + fitting) / 2,
    }
    return {**draft.quality, "overall": (mean + min(draft.quality.values())) / 2, **own}


def draw_question(rng: random.Random) -> Question:
    """A judge: mostly LLM-Eval with the four qualities by name, since prompts that begin alike cost least."""
    draw = rng.random()
    if draw < 0.22:
        return _own_four(rng)
    if draw < 0.4:
        return _rubric(rng)
    of = (
        dict.fromkeys(QUALITIES)
        if rng.random() < 0.5
        else dict.fromkeys(rng.sample((*QUALITIES, "overall"), rng.randrange(1, 6)))
    )
    plain = rng.random() < 0.7
    named = {quality if plain else rng.choice(NAMES[quality]): quality for quality in of}
    scale = "0-100" if rng.random() < 0.15 else "0-5"
    if rng.random() < 0.3:
        described = {name: rng.choice(DESCRIPTIONS[quality]) for name, quality in named.items()}
        return Question(LLMEval(metrics=described, scale=scale), named)
    return Question(LLMEval(metrics=list(named), scale=scale), named)


def _own_four(rng: random.Random) -> Question:
    of = dict(zip(FOUR_METRICS, ("content", "grammar", "fitting", "appropriateness"), strict=True))
    scale = "0-100" if rng.random() < 0.15 else "0-5"
    metrics = dict(zip(FOUR_METRICS, FOUR_DESCRIPTIONS, strict=True)) if rng.random() < 0.1 else None
    return Question(LLMEval(metrics=metrics, scale=scale), of)


def _rubric(rng: random.Random) -> Question:
    chosen = list(QUALITIES) if rng.random() < 0.4 else rng.sample((*QUALITIES, "overall"), rng.randrange(1, 4))
    of = {rng.choice(NAMES[quality]): quality for quality in chosen}
    scale = rng.choice(["1-5", "1-5", "1-5", "1-5", "0-10", "1-3", "1-10"])
    metrics = [{"name": name, "description": rng.choice(DESCRIPTIONS[quality]), "scale": scale} for name, quality in of.items()]
    fields = rng.choice(
        [("dialogue", "summary")] * 4 + [("conversation", "summary"), ("source", "summary"), ("dialogue", "output")]
    )
    reasoned = rng.random() < 0.35
    content = {"name": "summary-quality", "instructions": rng.choice(INSTRUCTIONS), "fields": fields, "reasoning": reasoned}
    return Question(Rubric(RubricFile.model_validate({**content, "metric": metrics})), of, fields, reasoned)


def with_faults(dialogue: Dialogue, neighbours: Neighbours, rng: random.Random) -> Faults:
    """The faults of a dialogue whose speakers have first names, mostly; other dialogues' summaries get the same names."""
    names = draw_names(dialogue, rng) if rng.random() < 0.9 else {}
    others = (neighbours.near(dialogue), neighbours.far(dialogue))
    near, far = (other.named(names) for other in others)
    return Faults(dialogue.named(names), near, far, list(names.values()) or dialogue.tags, rng)


def summaries(folder: Path, split: Split, rng: random.Random) -> Iterator[list[Example]]:
    """One pass over DialogSum in random order: for each dialogue a judge and five or six summaries.

    Of the dialogues whose speakers keep their tags six in ten are left out, since dialogues elsewhere have names.
    """
    dialogues = read_dialogues(folder, split)
    neighbours = Neighbours(dialogues, rng)
    for dialogue in rng.sample(dialogues, len(dialogues)):
        if not dialogue.names_itself and rng.random() < 0.6:
            continue
        faults = with_faults(dialogue, neighbours, rng)
        question = draw_question(rng)
        ask = partial(question.example, faults.dialogue, as_text=rng.random() < 0.3, rng=rng)
        made = [_restyled(draft, rng) for draft in drafts(faults, rng.choice([4, 5]))]
        rng.shuffle(made)
        yield [ask(draft) for draft in made]


def _restyled(draft: Draft, rng: random.Random) -> Draft:
    """The draft as some systems write: in lower case, or with spaces round punctuation; it is as good."""
    text = draft.text
    if rng.random() < 0.06:
        text = " ".join(re.sub(r"([.,!?;:\"]+)", r" \1 ", text).split())
    return replace(draft, text=text.lower() if rng.random() < 0.06 else text)
