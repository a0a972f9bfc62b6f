"""Pairwise: which of two answers is better, judged in both orders.

Source: OpenCompass, "Subjective Evaluation Guidance", whose four choices these are. The words stand in ``prompts/pairwise.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, Literal, get_args

from pydantic import Field

from judges.errors import AnswerError, SampleError
from judges.form import AnswerModel, Form
from judges.judge import Fields, Inquiry, Judge, JudgeExample, Label, Level, Message, Prompt, Reading, Sample, Score
from judges.options import JudgeOptions, MaxTokens
from judges.prompt_files import fill, prompt_file
from judges.samples import spelt_tags, text_field, turns_of

Choice = Literal["A", "both", "B", "neither"]
Orders = Literal["both", "given"]
Disagreement = Literal["tie", "given", "unscored"]
Language = Literal["en", "zh", "auto"]

CHOICES: tuple[str, ...] = get_args(Choice)
TIE = "tie"
"""The preference of a judge whose choice depends on the order. None of the four choices: it finds no difference of its own."""

SWAPPED = {"A": "B", "B": "A"}
_DISAGREE = re.compile(r"the orders disagree: (\w+) with A first, (\w+) with B first")
CHINESE = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
LATIN = re.compile(r"[A-Za-z]")
SECTIONS = ("question", "reference", "guidance", "answer_a", "answer_b")


class Reasoned(AnswerModel):
    reasoning: str
    choice: Choice


class Plain(AnswerModel):
    choice: Choice


class Pairwise(Judge):
    """Compares ``answer_a`` with ``answer_b`` as answers to ``question``.

    A sample may have ``reference_answer`` and ``evaluating_guidance``; empty ones count as absent. A question of several turns is
    a list, and so is each answer to it. ``preference`` is the choice; in both orders also ``orders_agree``, 1 or 0.
    ``Reading.detail`` holds ``choices``, one for each order, told of A and B as the sample has them; and likewise
    ``probabilities``, where expected scores are wanted.
    """

    class Options(JudgeOptions):
        orders: Orders = Field("both", description="`both` orders, A first and B first, or as the sample has them (`given`).")
        disagreement: Disagreement = Field(
            "tie", description="What counts where the orders disagree; `given` is that order's choice."
        )
        language: Language = Field("en", description="Of the prompt; `auto` is Chinese where most of the question is in Chinese.")
        reasoning: bool = Field(True, description="Whether reasons stand before the choice.")
        max_tokens: MaxTokens = Field(400, description="Room for each answer with reasons, in tokens.")

    name = "pairwise"
    summary = "which of two answers is better, in both orders"
    source = "https://github.com/open-compass/opencompass"
    fields = Fields(
        ("question", "answer_a", "answer_b"), ("reference_answer", "evaluating_guidance"), answer="answer_a", question="question"
    )
    example = JudgeExample(
        {
            "question": "How do I keep basil fresh for a week?",
            "answer_a": "Stand the stems in a glass of water at room temperature and cover the leaves loosely with a bag.",
            "answer_b": "Put it in the fridge.",
        }
    )
    samples = "evals:meta/card/pairs.jsonl"
    options: Options

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        reasoning, max_tokens = self.options.reasoning, self.options.max_tokens
        self.form: Form[Reasoned] | Form[Plain] = Form(Reasoned, max_tokens) if reasoning else Form(Plain, 24)

    @property
    def levels(self) -> Mapping[str, Level]:
        metrics = ("preference", "orders_agree") if self.options.orders == "both" else ("preference",)
        return dict.fromkeys(metrics, "nominal")

    @property
    def legal(self) -> Mapping[str, Collection[Score]]:
        return {metric: (0, 1) if metric == "orders_agree" else (*CHOICES, TIE) for metric in self.levels}

    @property
    def label(self) -> Label:
        return Label(("choice",), CHOICES)

    def weighed(self, probabilities: Sequence[Mapping[str, float] | None]) -> dict[str, Any]:
        told: list[Mapping[str, float] | None] = list(probabilities)
        if len(told) > 1 and told[1] is not None:
            told[1] = {choice: told[1][SWAPPED.get(choice, choice)] for choice in CHOICES}
        return super().weighed(told)

    def protocol(self) -> Mapping[str, Any]:
        return {"prompts": prompt_file("pairwise"), **self.options.model_dump(include={"orders", "disagreement", "language"})}

    def render(self, sample: Sample) -> Inquiry:
        question = turns_of(sample, "question")
        if not question:
            raise SampleError("question", "is an empty list")
        language = self._language_of("".join(question))
        words = _words(language)
        answers = {"answer_a": _answer(sample, "answer_a", question), "answer_b": _answer(sample, "answer_b", question)}
        given = {"question": question}
        for section, name in (("reference", "reference_answer"), ("guidance", "evaluating_guidance")):
            if sample.get(name):
                given[section] = [text_field(sample, name)]
        orders = (
            [("answer_a", "answer_b"), ("answer_b", "answer_a")] if self.options.orders == "both" else [("answer_a", "answer_b")]
        )
        prompts = [
            self._prompt(words, {**given, "answer_a": answers[first], "answer_b": answers[second]}) for first, second in orders
        ]
        shown = {name: "\n".join(turns) for name, turns in (given | answers).items()}
        return Inquiry(tuple(prompts), tuple(spelt_tags(shown, [words[section] for section in SECTIONS])))

    def read(self, *answers: str) -> Reading:
        read = [self.form.read(answer) for answer in answers]
        choices: list[str] = [answer.choice for answer in read]
        reasons = [answer.reasoning for answer in read if isinstance(answer, Reasoned)]
        if len(choices) > 1:
            choices[1] = SWAPPED.get(choices[1], choices[1])
        agree = len(set(choices)) == 1
        preference = choices[0]
        notes = []
        if not agree:
            said = f"the orders disagree: {choices[0]} with A first, {choices[1]} with B first"
            if self.options.disagreement == "unscored":
                raise AnswerError(said)
            preference = TIE if self.options.disagreement == "tie" else preference
            notes.append(f"{said}; counted as {preference}")
        scores: dict[str, Score] = {"preference": preference}
        if self.options.orders == "both":
            scores["orders_agree"] = int(agree)
        firsts = ("A first: ", "B first: ") if len(reasons) > 1 else ("",)
        told = "\n".join(first + reason for first, reason in zip(firsts, reasons, strict=False))
        return Reading(scores, told or None, notes, {"choices": choices})

    def _language_of(self, question: str) -> str:
        if self.options.language != "auto":
            return self.options.language
        return "zh" if len(CHINESE.findall(question)) > len(LATIN.findall(question)) else "en"

    def _prompt(self, words: Mapping[str, str], shown: Mapping[str, Sequence[str]]) -> Prompt:
        asked = words["instructions"] + fill(words["reasoned" if self.form.model is Reasoned else "plain"], {})
        for section in SECTIONS:
            if section in shown:
                asked += f"\n\n{words[section]}\n{_told(shown[section], words['turn'])}"
        return Prompt((Message("user", asked),), self.form)


def disagreement_in(reason: str | None) -> tuple[str, str] | None:
    """The choices with A first and with B first, where a verdict's reason says that for their sake it is not scored."""
    found = _DISAGREE.search(reason or "")
    return (found[1], found[2]) if found else None


@cache
def _words(language: str) -> Mapping[str, str]:
    end = f"_{language}"
    return {key.removesuffix(end): text for key, text in prompt_file("pairwise").items() if key.endswith(end)}


def _answer(sample: Sample, name: str, question: Sequence[str]) -> list[str]:
    turns = turns_of(sample, name)
    if len(turns) not in (1, len(question)):
        raise SampleError(name, f"has {len(turns)} turns, and the question has {len(question)}")
    return turns


def _told(turns: Sequence[str], template: str) -> str:
    if len(turns) == 1:
        return turns[0]
    return "\n".join(fill(template, {"number": str(n), "text": text}) for n, text in enumerate(turns, start=1))
