"""Rubrics at random, over texts whose quality is certain by how they were made."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.rubric import Rubric
from judges.rubric_file import PASS_FAIL, RubricFile
from scripts.judge_data.damage import break_grammar
from scripts.judge_data.examples import Choice, Example
from scripts.judge_data.faults import drafts, with_faults
from scripts.judge_data.forms import FORMS
from scripts.judge_data.sources import (
    Dialogue,
    Neighbours,
    Question,
    Split,
    draw_names,
    read_dialogues,
    read_questions,
    words_said,
)


@dataclass(frozen=True, slots=True)
class Aspect:
    """What a metric may be about.

    Attributes:
        names: Names of a metric about it.
        questions: Descriptions that "yes" answers well.
        nouns: Descriptions that a scale from low to high fits.
    """

    names: Sequence[str]
    questions: Sequence[str]
    nouns: Sequence[str]


_WHY = {True: "The form that was asked for is kept.", False: "The form that was asked for is not kept."}
ASPECTS = {
    "correctness": Aspect(
        ("correctness", "correct", "accuracy", "right"),
        ("Is the answer correct?", "Is this the right answer to the question?", "Does the answer get it right?"),
        ("how correct the answer is", "correctness of the answer"),
    ),
    "faithfulness": Aspect(
        ("faithfulness", "faithful", "consistency", "supported"),
        ("Does the summary say only what the dialogue says?", "Is everything in the summary true to the dialogue?"),
        ("whether the facts of the summary agree with the dialogue", "how faithful the summary is to its source"),
    ),
    "fluency": Aspect(
        ("fluency", "fluent", "grammar", "readability", "language_quality"),
        ("Is the text free of grammatical errors?", "Does the text read like correct English?", "Is it well written?"),
        ("quality of grammar and wording", "how well the text reads", "fluency of the text"),
    ),
    "conciseness": Aspect(
        ("conciseness", "no_repetition", "variety"),
        ("Does the text say each thing only once?", "Is the text free of repetition?"),
        ("how little the text repeats itself", "absence of repetition"),
    ),
    "completeness": Aspect(
        ("completeness", "complete", "finished"),
        ("Does the text come to its end?", "Is the text whole, not broken off?"),
        ("how complete the text is", "whether the text is whole"),
    ),
    "relevance": Aspect(
        ("relevance", "relevant", "appropriateness", "on_topic", "coherence"),
        ("Does the reply fit the conversation?", "Is the reply about what was said before?"),
        ("how well the reply fits the conversation", "relevance of the reply to the last turn"),
    ),
    "form": Aspect(
        ("instruction_following", "form", "follows_instruction", "constraint", "adherence"),
        ("Does the response follow the form that was asked for?", "Does the response do exactly what the instruction says?"),
        ("how well the response follows the instruction", "whether the form that was asked for is kept"),
    ),
}
GRADED: tuple[Any, ...] = (
    "1-5",
    "1-5",
    "1-5",
    "0-10",
    "1-3",
    "0-5",
    "1-10",
    ["bad", "fair", "good"],
    ["poor", "fair", "good", "excellent"],
)
BINARY: tuple[Any, ...] = (["no", "yes"], ["no", "yes"], PASS_FAIL, "0-1")
INSTRUCTIONS = (None, None, "You check texts.", "Judge strictly.", "You are an expert who rates answers of language models.")
UNSURE = (0.3, 0.85)
"""A quality between these is neither yes nor no."""

LANGUAGES = {
    "French": (
        "Je voudrais une table pour deux personnes, s'il vous plaît.", "Il fait très beau aujourd'hui, allons au parc.",
        "Nous avons rendez-vous avec le médecin demain matin.", "Elle ne sait pas encore si elle viendra à la fête.",
        "Le train pour Lyon part à huit heures.", "Peux-tu m'aider à porter ces valises ?",
    ),
    "German": (
        "Ich hätte gern einen Tisch für zwei Personen.", "Das Wetter ist heute sehr schön, gehen wir in den Park.",
        "Wir haben morgen früh einen Termin beim Arzt.", "Sie weiß noch nicht, ob sie zur Feier kommt.",
        "Der Zug nach München fährt um acht Uhr ab.", "Kannst du mir helfen, die Koffer zu tragen?",
    ),
    "Spanish": (
        "Quisiera una mesa para dos personas, por favor.", "Hoy hace muy buen tiempo, vamos al parque.",
        "Tenemos una cita con el médico mañana por la mañana.", "Todavía no sabe si vendrá a la fiesta.",
        "El tren para Sevilla sale a las ocho.", "¿Puedes ayudarme a llevar las maletas?",
    ),
    "Italian": (
        "Vorrei un tavolo per due persone, per favore.", "Oggi il tempo è molto bello, andiamo al parco.",
        "Abbiamo un appuntamento dal medico domani mattina.", "Non sa ancora se verrà alla festa.",
        "Il treno per Torino parte alle otto.", "Puoi aiutarmi a portare le valigie?",
    ),
}  # fmt: skip
RIGHT = ("{}", "{}", "{}.", "It is {}.", "The answer is {}.", "I would say {}.", "{} is right.")
EVASIONS = ("I don't know.", "That depends on many things.", "I cannot answer this question.", "Good question!")


@dataclass(frozen=True, slots=True)
class Text:
    """A text to judge: its quality in each aspect, from 0 to 1, how it was made, and a sentence on that."""

    text: str
    quality: Mapping[str, float]
    kind: str
    why: str


@dataclass(frozen=True, slots=True)
class Case:
    """Texts that share their other fields.

    Attributes:
        shared: The fields before the text.
        field: The field with the text.
    """

    shared: Mapping[str, Any]
    field: str
    texts: Sequence[Text]


def rubrics(folder: Path, split: Split, rng: random.Random) -> Iterator[list[Example]]:
    """A stream without end: a rubric of a metric or two, and three or four texts to judge by it."""
    maker = Maker(read_dialogues(folder, split), read_questions(folder, split, longest=50), rng)
    while True:
        case = maker.case()
        examples = _languages(case, rng) if "language" in case.texts[0].quality else _judged(case, rng)
        if len(examples) > 1:
            yield examples


@dataclass(frozen=True, slots=True)
class Scale:
    """A metric of a rubric about an aspect, and its scores from worst to best."""

    metric: dict[str, Any]
    aspect: str
    worst_to_best: Sequence[Any]

    def score(self, text: Text) -> Any:
        """The score of a text, or ``None`` if it is neither yes nor no."""
        quality, scores = text.quality[self.aspect], self.worst_to_best
        if len(scores) == 2 and UNSURE[0] < quality < UNSURE[1]:
            return None
        return scores[int(quality * (len(scores) - 1) + 0.5)]


def draw_scale(aspect: str, rng: random.Random) -> Scale:
    binary = rng.random() < 0.45
    scale = rng.choice(BINARY if binary else GRADED)
    words = ASPECTS[aspect]
    asked = words.questions if binary or rng.random() < 0.3 else words.nouns
    metric = {"name": rng.choice(words.names), "description": rng.choice(asked), "scale": scale}
    if isinstance(scale, list):
        shown = scale[::-1] if len(scale) == 2 and rng.random() < 0.5 else scale
        return Scale({**metric, "scale": shown, "ordered": len(scale) > 2}, aspect, scale)
    if scale == PASS_FAIL:
        return Scale(metric, aspect, ("fail", "pass"))
    lowest, highest = map(int, scale.split("-"))
    return Scale(metric, aspect, range(lowest, highest + 1))


def _rubric(metrics: Sequence[dict[str, Any]], case: Case, reasoned: bool, rng: random.Random) -> Rubric:
    content = {"name": "check", "instructions": rng.choice(INSTRUCTIONS), "fields": [*case.shared, case.field]}
    return Rubric(RubricFile.model_validate({**content, "reasoning": reasoned, "metric": list(metrics)}))


def _judged(case: Case, rng: random.Random) -> list[Example]:
    aspects = list(rng.choice(case.texts).quality)
    scales = [draw_scale(aspect, rng) for aspect in rng.sample(aspects, min(len(aspects), rng.choice([1, 1, 2])))]
    if len({scale.metric["name"] for scale in scales}) < len(scales):
        scales = scales[:1]
    reasoned = rng.random() < 0.25
    judge = _rubric([scale.metric for scale in scales], case, reasoned, rng)
    examples = []
    for text in case.texts:
        if not all(scale.aspect in text.quality for scale in scales):
            continue
        scores = {scale.metric["name"]: Choice(scale.score(text), list(scale.worst_to_best)) for scale in scales}
        if all(score.value is not None for score in scores.values()):
            answer = {**({"reasoning": text.why} if reasoned else {}), **scores}
            examples.append(Example(judge, {**case.shared, case.field: text.text}, (answer,), f"rubric.{text.kind}"))
    return examples


def _languages(case: Case, rng: random.Random) -> list[Example]:
    labels = rng.sample(["English", *LANGUAGES], 5)
    metric = {"name": "language", "description": "the language of the text", "scale": labels}
    judge = _rubric([metric], case, False, rng)
    return [
        Example(judge, {case.field: text.text}, ({"language": Choice(text.why, labels)},), "rubric.language")
        for text in case.texts
    ]


class Maker:
    """Makes cases.

    Args:
        dialogues: DialogSum's.
        questions: MMLU's, of which those with short options are used.
        rng: Draws everything.
    """

    def __init__(self, dialogues: Sequence[Dialogue], questions: Sequence[Question], rng: random.Random) -> None:
        self.dialogues, self.rng = dialogues, rng
        self.named = [dialogue for dialogue in dialogues if dialogue.names_itself]
        self.neighbours = Neighbours(dialogues, rng)
        self.questions = [question for question in questions if _plain(question)]
        self.kinds: dict[Callable[[], Case], int] = {
            self.answers: 20, self.summaries: 14, self.texts: 28, self.replies: 22, self.forms: 24, self.languages: 3,
        }  # fmt: skip

    def case(self) -> Case:
        case = self.rng.choices(list(self.kinds), list(self.kinds.values()))[0]()
        return Case(case.shared, case.field, self.rng.sample(case.texts, len(case.texts)))

    def dialogue(self) -> Dialogue:
        dialogue = self.rng.choice(self.named)
        return dialogue.named(draw_names(dialogue, self.rng))

    def answers(self) -> Case:
        """Answers to a question of MMLU: the right option and wrong ones, mostly beside the right one as reference."""
        rng, question = self.rng, self.rng.choice(self.questions)
        right = question.options[question.right]
        texts = [_answer(right, 1.0, "right", "It is the right answer.", rng)]
        wrong = [option for option in question.options if option != right]
        texts += [
            _answer(option, 0.0, "wrong", "It is another answer than the right one.", rng) for option in rng.sample(wrong, 2)
        ]
        if rng.random() < 0.3:
            texts.append(Text(rng.choice(EVASIONS), {"correctness": 0.0}, "evasion", "It does not answer the question."))
        asked, answered = rng.choice([("question", "answer")] * 3 + [("input", "response"), ("prompt", "output")])
        reference = {} if rng.random() < 0.2 else {rng.choice(("reference", "reference", "expected_output")): right}
        return Case({asked: question.stem, **reference}, answered, texts)

    def summaries(self) -> Case:
        """Summaries of a dialogue that are faithful or not."""
        faults = with_faults(self.rng.choice(self.dialogues), self.neighbours, self.rng)
        texts = [
            Text(
                draft.text, {"faithfulness": draft.quality["consistency"]}, f"summary-{'faithful' if not draft.why else 'worse'}",
                draft.why or "It says what the dialogue says.",
            )
            for draft in drafts(faults, 4)
        ]  # fmt: skip
        return Case({"dialogue": "\n".join(faults.dialogue.turns)}, "summary", texts)

    def texts(self) -> Case:
        """Texts alone: whole, in broken grammar, cut off, repeating themselves."""
        rng, made = self.rng, []
        for kind in ("clean", rng.choice(("clean", "broken")), "broken", rng.choice(("cut", "repeating", "repeating"))):
            dialogue = self.dialogue()
            text = dialogue.summary if rng.random() < 0.6 else " ".join(map(words_said, dialogue.turns[:2]))
            made.append(self._worsened(text, kind))
        return Case({}, rng.choice(("text", "text", "response", "output")), made)

    def _worsened(self, text: str, kind: str) -> Text:
        rng, words = self.rng, text.split()
        whole = {"fluency": 1.0, "conciseness": 1.0, "completeness": 1.0}
        if kind == "broken":
            level = rng.choice([0, 1, 2, 3, 4])
            return Text(break_grammar(text, level, rng), {"fluency": 0.2 * level}, f"broken{level}", "The grammar is wrong.")
        if kind == "cut" and len(words) > 6:
            cut = " ".join(words[: rng.randrange(3, len(words) - 2)]).rstrip(".,!?")
            return Text(cut, {**whole, "fluency": 0.6, "completeness": 0.0}, "cut", "It breaks off.")
        if kind == "repeating":
            times = rng.randrange(1, 4)
            quality = {**whole, "fluency": 0.8, "conciseness": 0.4 - 0.13 * times}
            return Text(" ".join([text] * (times + 1)), quality, "repeating", "It repeats itself.")
        return Text(text, whole, "clean", "Nothing is wrong with it.")

    def replies(self) -> Case:
        """Replies to the turns of a dialogue: the true one, one of another dialogue, an echo, the true one in broken grammar."""
        rng, dialogue = self.rng, self.dialogue()
        here = rng.choice(_telling(dialogue))
        turns, true = dialogue.turns[max(0, here - 5) : here], words_said(dialogue.turns[here])
        other = self.dialogue()
        strange = words_said(other.turns[rng.choice(_telling(other))])
        level = rng.choice([0, 1, 2, 3])
        texts = [
            Text(true, {"relevance": 1.0, "fluency": 1.0}, "true-reply", "It follows from the last turn."),
            Text(strange, {"relevance": 0.0, "fluency": 1.0}, "other-reply", "It belongs to another dialogue."),
            Text(
                break_grammar(true, level, rng), {"relevance": 0.3 if level == 0 else 0.85, "fluency": 0.2 * level},
                "broken-reply", "It fits, but the grammar is wrong.",
            ),
            Text(words_said(turns[-1]), {"relevance": 0.2, "fluency": 1.0}, "echo", "It repeats the last turn."),
        ]  # fmt: skip
        context, reply = rng.choice([("context", "response"), ("conversation", "reply"), ("dialogue", "response")])
        return Case({context: "\n".join(turns)}, reply, texts)

    def forms(self) -> Case:
        """Responses to an instruction that asks for a form: some keep it, some do not."""
        rng, dialogue = self.rng, self.dialogue()
        bodies = [dialogue.summary, " ".join(map(words_said, dialogue.turns[:2]))]
        constraint, keep, lose = rng.choice(FORMS)(rng, bodies[0])
        about = rng.choice(('Write about "{}". {}', "Tell me about {}. {}", "{1} The topic: {0}.", "Say something on {}. {}"))
        made = [keep(bodies[0]), lose(bodies[0]), rng.choice((keep, lose))(bodies[0]), rng.choice((keep, lose))(bodies[1])]
        kept = [(text, holds) for text, holds in dict(made).items() if text]
        texts = [Text(text, {"form": float(holds)}, "form-kept" if holds else "form-lost", _WHY[holds]) for text, holds in kept]
        asked, answered = rng.choice([("instruction", "response")] * 3 + [("prompt", "output"), ("input", "answer")])
        return Case({asked: about.format(dialogue.topic, constraint)}, answered, texts)

    def languages(self) -> Case:
        rng = self.rng
        texts = [Text(rng.choice(lines), {"language": 1.0}, "language", name) for name, lines in LANGUAGES.items()]
        english = Text(self.dialogue().summary, {"language": 1.0}, "language", "English")
        return Case({}, "text", [english, *rng.sample(texts, 3)])


def _plain(question: Question) -> bool:
    """Whether each option alone is an answer to the stem."""
    together = any(
        "above" in option.lower() or option.lower().startswith(("both", "neither", "all ")) for option in question.options
    )
    return question.stem.endswith("?") and not together and all(len(option.split()) <= 12 for option in question.options)


def _answer(option: str, quality: float, kind: str, why: str, rng: random.Random) -> Text:
    return Text(rng.choice(RIGHT).format(option.rstrip(".")), {"correctness": quality}, kind, why)


def _telling(dialogue: Dialogue) -> list[int]:
    """The turns after the second that say something: a short one fits anywhere."""
    long = [at for at in range(2, len(dialogue.turns)) if len(dialogue.turns[at].split()) > 6]
    return long or [len(dialogue.turns) - 1]
