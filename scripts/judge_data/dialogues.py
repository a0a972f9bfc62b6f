"""Replies for LLM-Eval whose scores follow from how they were made, from DialogSum's dialogues; and GRADE's, rated by people."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from judges.llm_eval import FOUR_METRICS, LLMEval
from scripts.judge_data.damage import break_grammar
from scripts.judge_data.examples import Choice, Example
from scripts.judge_data.sources import Split, read_dialogues, words_said
from scripts.judge_data.texts import Words, nonsense, random_style, restyle, words_of

Turns = list[str]
Scores = dict[str, int]

DRAWS = 3
"""Ratings of each rated reply."""

REPLIES = 6
"""Replies to one context, at most."""

GENERIC = (  # noqa: SIM905
    "ok .|yes .|no .|i don't know .|sure .|i see .|thank you .|that's great !|really ?|me too .|i'm not sure .|i think so .|"
    "yes , i do .|oh , that is nice .|what do you mean ?|i like it too .|that's interesting .|of course .|well , i guess so .|"
    "that is very interesting , i did not know that .|wow , that is crazy !|i agree with you .|yeah , that's true .|"
    "i have never heard of that before .|haha , that's funny .|i don't know much about that .|what do you think about it ?"
).split("|")

OPPOSITES = (
    ("yes", "no"), ("is", "isn't"), ("can", "can't"), ("do", "don't"), ("did", "didn't"), ("will", "won't"), ("love", "hate"),
    ("like", "dislike"), ("always", "never"), ("good", "bad"), ("more", "less"), ("before", "after"), ("best", "worst"),
    ("easy", "hard"),
)  # fmt: skip

FOLLOWERS = ("Really.", "You know?", "That's what I think.", "I mean it.", "As I said.", "Anyway.")

OTHER_METRICS: Mapping[str, tuple[str, str]] = {
    "engaging": ("content", "how interesting the response is"),
    "engagingness": ("content", "whether the response is interesting"),
    "interestingness": ("content", ""),
    "informativeness": ("content", "how much the response says"),
    "specificity": ("content", "whether the response is specific rather than generic"),
    "fluency": ("grammar", "whether the response reads well"),
    "understandable": ("grammar", "whether the response can be understood"),
    "readability": ("grammar", ""),
    "naturalness": ("natural", "whether a person would say it like this"),
    "natural": ("natural", ""),
    "humanlike": ("natural", "whether it sounds like a person"),
    "coherence": ("relevance", "whether the response follows from the context"),
    "maintains_context": ("relevance", "whether the response continues the conversation"),
    "on_topic": ("relevance", ""),
    "sensibleness": ("appropriateness", "whether the response makes sense here"),
    "consistency": ("appropriateness", "whether the response contradicts nothing said before"),
    "suitability": ("appropriateness", "whether the response fits the situation"),
    "overall": ("overall", "overall quality of the response"),
    "quality": ("overall", ""),
    "helpfulness": ("overall", "how much the response helps the other speaker"),
}
"""Metric to the score that answers it, and a description."""

SHARES = {"four": 0.74, "other": 0.16, "hundred": 0.03, "dialogue": 0.07}


@dataclass(frozen=True)
class Setting:
    """A judge, and for each of its metrics the quality that answers it."""

    judge: LLMEval
    qualities: Mapping[str, str]
    whole_dialogue: bool = False

    def example(
        self, sample: Mapping[str, Any], scores: Scores, kind: str, rng: random.Random, known: Sequence[str] = ()
    ) -> Example:
        """A sample with its scores; if any are ``known``, only these are learned."""
        highest = self.judge.highest
        legal = range(self.judge.lowest, highest + 1)
        answer: dict[str, Any] = {}
        for metric, quality in self.qualities.items():
            score = scores[quality] if highest == 5 else max(0, min(100, 20 * scores[quality] + rng.randrange(-8, 9)))
            answer[metric] = Choice(score, legal) if not known or quality in known else rng.choice(legal)
        early = (scores["relevance"], sample["response"]) if "response" in sample else None
        return Example(self.judge, sample, (answer,), kind, early)


FOUR = Setting(LLMEval(), dict(zip(FOUR_METRICS, FOUR_METRICS, strict=True)))


def setting(rng: random.Random) -> Setting:
    """Mostly the four metrics from 0 to 5; sometimes others, other descriptions, 0 to 100, or whole dialogues."""
    share = rng.choices(list(SHARES), list(SHARES.values()))[0]
    if share == "four":
        return FOUR
    if share == "dialogue":
        return Setting(FOUR.judge, FOUR.qualities, True)
    if share == "hundred":
        return Setting(LLMEval(scale="0-100"), FOUR.qualities)
    known = {name: (name, "") for name in FOUR_METRICS} | dict(OTHER_METRICS)
    names = rng.sample(list(known), rng.randrange(1, 5))
    described = rng.random() < 0.5
    metrics = {name: known[name][1] if described else "" for name in names}
    return Setting(LLMEval(metrics), {name: known[name][0] for name in names})


def spoken(folder: Path, split: Split) -> list[Turns]:
    """DialogSum's dialogues, each a list of turns without speaker tags; those under four turns are left out."""
    dialogues = read_dialogues(folder, split, longest=10_000)
    return [[words_said(turn) for turn in dialogue.turns] for dialogue in dialogues]


class Replies:
    """Makes contexts with replies.

    Args:
        dialogues: Turns without tags.
        words: Their words.
        rng: Draws everything.
    """

    def __init__(self, dialogues: Sequence[Turns], words: Words, rng: random.Random) -> None:
        self.dialogues, self.words, self.rng = dialogues, words, rng
        self.holders: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, turns in enumerate(dialogues):
            for place, turn in enumerate(turns):
                for word in set(words_of(turn)):
                    if 3.5 < words.rarity.get(word, 9.0) < 7.5:
                        self.holders[word].append((number, place))
        sample = [turn for turns in dialogues[:800] for turn in turns]
        self.content_steps = np.quantile([words.mass(turn) for turn in sample], (0.08, 0.22, 0.42, 0.65, 0.85))

    def group(self, asked: Setting) -> list[Example]:
        """One context from some dialogue with several replies."""
        if asked.whole_dialogue:
            return self._dialogues(asked)
        rng = self.rng
        number = rng.randrange(len(self.dialogues))
        turns = self.dialogues[number]
        here = rng.randrange(1, len(turns))
        start = max(0, here - rng.choice((1, 2, 3, 4, 4, 6, 8, 30)))
        style = random_style(rng)
        context: list[str] | str = [restyle(turn, style) for turn in turns[start:here]]
        if rng.random() < 0.12:
            context = [f"#Person{1 + at % 2}#: {turn}" for at, turn in enumerate(context)]
        elif rng.random() < 0.15:
            context = rng.choice((" ", "\n")).join(context)
        reference = self._reference(turns, here) if rng.random() < 0.3 else None
        kinds = ["true", "true", "near", "random"]
        kinds += rng.choices(
            [
                "later",
                "echo",
                "generic",
                "cut",
                "stutter",
                "opposite",
                "earlier",
                "glued",
                "nonsense",
                "near",
                "random",
                "padded",
            ],
            [3, 1.5, 1.5, 0.6, 0.6, 1, 0.8, 1, 1, 1.5, 1, 0.8],
            k=REPLIES,
        )
        examples, said = [], set()
        for kind in kinds[:REPLIES]:
            made = self._reply(kind, number, here, start)
            if made is None or made[0] in said:
                continue
            text, scores = made
            said.add(text)
            sample: dict[str, Any] = {"context": context}
            if reference is not None:
                sample["reference"] = restyle(reference, style)
            sample["response"] = restyle(text, style if rng.random() < 0.85 else random_style(rng))
            clean = "" if scores["grammar"] == 5 else " broken"
            examples.append(asked.example(sample, scores, kind + clean, rng))
        return examples

    def _reply(self, kind: str, number: int, here: int, start: int) -> tuple[str, Scores] | None:
        """A reply to turns of a dialogue made as ``kind`` says, and its scores; ``None`` where the dialogue has none."""
        rng, turns = self.rng, self.dialogues[number]
        grammar, natural, says_more = 5, 5, True
        true = turns[here]
        match kind:
            case "true":
                text, relevance, fitness = true, 5, 5
            case "near":
                text, relevance, fitness = self._near(number, turns[max(start, here - 2) : here]), 3, 2
            case "random":
                text, relevance, fitness = rng.choice(self.dialogues[rng.randrange(len(self.dialogues))]), 0, 1
                if self.words.likeness(text, " ".join(turns[max(start, here - 4) : here])) > 0.12:
                    relevance = 1
            case "later":
                if here + 1 >= len(turns):
                    return None
                there = rng.randrange(here + 1, len(turns))
                text, relevance, fitness = turns[there], 4 if there - here < 4 else 3, 2
            case "earlier":
                if start < 1:
                    return None
                text, relevance, fitness = turns[rng.randrange(start)], 3, 2
            case "echo":
                said = here - 1 if rng.random() < 0.6 else rng.randrange(start, here)
                text, relevance, fitness, natural, says_more = turns[said], 3, 1, 2, False
            case "generic":
                text, relevance, fitness, natural = rng.choice(GENERIC), 2, 3, 4
            case "opposite":
                opposite = _opposite(true, rng)
                if opposite is None:
                    return None
                text, relevance, fitness = opposite, 4, 3
            case "glued":
                other = rng.choice(self.dialogues[rng.randrange(len(self.dialogues))])
                text, relevance, fitness, natural = f"{true} {other}" if rng.random() < 0.6 else f"{other} {true}", 3, 2, 3
            case "padded":
                text, relevance, fitness, natural = f"{true} {rng.choice(FOLLOWERS)} {true}", 4, 3, 2
            case "nonsense":
                text, relevance, fitness, grammar, natural, says_more = nonsense(self.words, rng), 0, 0, 0, 0, False
                return text, dict.fromkeys((*FOUR_METRICS, "natural", "overall"), 0)
            case "cut":
                parts = true.split()
                if len(parts) < 6:
                    return None
                text = " ".join(parts[: rng.randrange(2, 2 + len(parts) // 2)])
                relevance, fitness, grammar, natural = 4, 3, 3, 2
            case _:
                parts = true.split()
                if len(parts) < 5:
                    return None
                at = rng.randrange(len(parts) - 3)
                text = " ".join(parts[: at + 3] + parts[at : at + 3] * rng.randrange(1, 4))
                relevance, fitness, grammar, natural = 3, 2, 2, 1
        if kind in ("true", "random", "later", "near") and len(text.split()) >= 4 and rng.random() < 0.35:
            grammar = rng.randrange(5)
            text = break_grammar(text, grammar, rng)
        return text, self._scores(text, relevance, fitness, grammar, natural, says_more=says_more)

    def _scores(self, text: str, relevance: int, fitness: int, grammar: int, natural: int, *, says_more: bool = True) -> Scores:
        """The scores of a reply, each 0 to 5. ``fitness`` bounds appropriateness."""
        mass = self.words.mass(text)
        content = int(np.searchsorted(self.content_steps, mass))
        if mass < self.content_steps[1]:  # A short reply fits almost anywhere: neither right nor wrong.
            relevance, fitness = (relevance + 3) // 2, (fitness + 4) // 2
        content -= (grammar <= 2) + (relevance <= 1)
        relevance -= grammar <= 1
        scores = {
            "content": content if says_more else min(content, 2),
            "grammar": grammar,
            "relevance": relevance,
            "appropriateness": min(fitness, grammar + 1),
            "natural": min(natural, grammar, fitness + 1),
        }
        scores = {name: max(0, min(5, score)) for name, score in scores.items()}
        return scores | {"overall": round(sum(scores[name] for name in FOUR_METRICS) / 4)}

    def rated(self, row: Mapping[str, str]) -> Example:
        """A reply of GRADE's file, with the rating of one of those who rated it."""
        rating = self.rng.choice(json.loads(row["HumanScores"]))
        score = max(0, min(5, round((rating - 1) * 5 / 4 + self.rng.uniform(-0.3, 0.3))))
        content = int(np.searchsorted(self.content_steps, self.words.mass(row["Response"])))
        scores = {"content": content, "grammar": 5, "relevance": score, "appropriateness": score}
        sample = {"context": row["Context"].split("|||"), "response": row["Response"]}
        return FOUR.example(sample, scores, "rated", self.rng, ("content", "relevance", "appropriateness"))

    def _near(self, number: int, context: Sequence[str]) -> str:
        """A turn of another dialogue that shares a rare word with the context, or any turn."""
        shared = [word for word in words_of(" ".join(context)) if len(self.holders[word]) > 1]
        self.rng.shuffle(shared)
        for word in shared:
            other, place = self.rng.choice(self.holders[word])
            if other != number:
                return self.dialogues[other][place]
        return self.rng.choice(self.dialogues[self.rng.randrange(len(self.dialogues))])

    def _reference(self, turns: Turns, here: int) -> str:
        """The true next turn; or with words left out, or the turn after it, as a good reply need not repeat the reference."""
        parts = turns[here].split()
        chance = self.rng.random()
        if chance < 0.3 and len(parts) > 5:
            return " ".join(word for word in parts if self.rng.random() < 0.6) or turns[here]
        return turns[here + 1] if chance < 0.55 and here + 1 < len(turns) else turns[here]

    def _dialogues(self, asked: Setting) -> list[Example]:
        """One dialogue, and the same with some turns replaced by turns of others or broken."""
        rng, style, examples = self.rng, random_style(self.rng), []
        turns = rng.choice(self.dialogues)[: rng.randrange(3, 8)]
        for variant in range(REPLIES // 2):
            foreign, broken = (0.0, 0.0) if variant == 0 else (rng.choice((0, 0.3, 0.6, 1)), rng.choice((0, 0.4, 0.8)))
            strange = [at > 0 and rng.random() < foreign for at in range(len(turns))]
            turned = [rng.choice(rng.choice(self.dialogues)) if odd else turn for odd, turn in zip(strange, turns, strict=True)]
            grades = [rng.randrange(4) if rng.random() < broken and len(turn.split()) > 3 else 5 for turn in turned]
            turned = [break_grammar(turn, grade, rng) if grade < 5 else turn for turn, grade in zip(turned, grades, strict=True)]
            grammar, relevance = round(sum(grades) / len(turns)), 5 - round(5 * sum(strange) / len(turns))
            scores = self._scores(max(turned, key=len), relevance, relevance, grammar, relevance)
            examples.append(asked.example({"dialogue": [restyle(turn, style) for turn in turned]}, scores, "dialogue", rng))
        return examples


def _opposite(text: str, rng: random.Random) -> str | None:
    """A text that says the contrary, by one word; ``None`` if it has none that can be turned."""
    turned = {one: other for pair in OPPOSITES for one, other in (pair, pair[::-1])}
    parts = text.split()
    places = [at for at, word in enumerate(parts) if word.lower().strip(".,!?") in turned]
    if not places:
        return None
    at = rng.choice(places)
    bare = parts[at].lower().strip(".,!?")
    parts[at] = parts[at].lower().replace(bare, turned[bare])
    return " ".join(parts)


def replies(folder: Path, split: Split, rng: random.Random) -> Iterator[list[Example]]:
    """Contexts of DialogSum's dialogues with replies, without end."""
    train = spoken(folder, "train")
    maker = Replies(train if split == "train" else spoken(folder, split), _words(train), rng)
    while True:
        yield maker.group(setting(rng))


def rated(folder: Path, split: Split, rng: random.Random) -> Iterator[list[Example]]:
    """One pass over GRADE's replies: relevance and appropriateness as three of the people who rated each drew them.

    Every tenth reply is held out.
    """
    train = spoken(folder, "train")
    maker = Replies(train[:800], _words(train), rng)
    published = json.loads((folder / "grade" / "human_judgement.json").read_text(encoding="utf-8"))
    chosen = [row for number, row in enumerate(published) if (number % 10 == 0) == (split == "held-out")]
    for row in rng.sample(chosen, len(chosen)):
        yield [maker.rated(row) for _ in range(DRAWS)]


def _words(dialogues: Sequence[Turns]) -> Words:
    return Words([" ".join(turns) for turns in dialogues])
