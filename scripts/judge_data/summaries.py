"""Summaries of DialogSum's dialogues, good ones and worsened ones, whose scores follow from how each was made."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from judges.judge import Judge, Sample
from judges.llm_eval import FOUR_METRICS, LLMEval
from judges.rubric import Rubric
from judges.rubric_file import RubricFile
from scripts.judge_data.examples import Choice, Example
from scripts.judge_data.faults import QUALITIES, Draft, drafts, with_faults
from scripts.judge_data.sources import Dialogue, Neighbours, Split, read_dialogues

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

    def example(self, dialogue: Dialogue, draft: Draft, rng: random.Random) -> Example:
        source, answer = self.fields
        sample: Sample = {source: list(dialogue.turns), answer: draft.text}
        legal = {score.metric: score.legal for score in self.judge.numeric_scores}
        values = qualities(draft)
        scores = {name: Choice(on_scale(values[quality], legal[name], rng), legal[name]) for name, quality in self.of.items()}
        reasons = {"reasoning": draft.why or "It is faithful, covers the main points and reads well."} if self.reasoned else {}
        kind = f"summary.{'mixed' if '+' in draft.kind else draft.kind}"
        early = None if self.reasoned or answer != "response" else (round(5 * draft.quality["consistency"]), draft.text)
        return Example(self.judge, sample, ({**reasons, **scores},), kind, early)


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
        made = [_restyled(draft, rng) for draft in drafts(faults, rng.choice([4, 5]))]
        rng.shuffle(made)
        yield [question.example(faults.dialogue, draft, rng) for draft in made]


def _restyled(draft: Draft, rng: random.Random) -> Draft:
    """The draft as some systems write: in lower case, or with spaces round punctuation; it is as good."""
    text = draft.text
    if rng.random() < 0.06:
        text = " ".join(re.sub(r"([.,!?;:\"]+)", r" \1 ", text).split())
    return replace(draft, text=text.lower() if rng.random() < 0.06 else text)
