"""Pairwise: which of two answers is better, judged in both orders.

Source: OpenCompass, "Subjective Evaluation Guidance", for the four choices. The words are in ``prompts/pairwise.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from pydantic import Field

from judges.data.samples import spelt_tags, text_field, turns_of
from judges.errors import SampleError, counted
from judges.examples import COMPARED
from judges.form import AnswerModel, AnswerSchema
from judges.judge import (
    Fields,
    Judge,
    JudgeExample,
    Label,
    MeasurementLevel,
    Message,
    ParsedAnswer,
    Prompt,
    RenderedPrompts,
    Sample,
    Score,
)
from judges.options import JudgeOptions, MaxTokens
from judges.orders import AGREE, CHOICES, PREFERENCE, TIE, Choice, Disagreement, Orders, preferred, swapped_back
from judges.prompt_files import fill, prompt_file

Language = Literal["en", "zh", "auto"]

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
    a list, and so is each answer to it. The scores are ``preference`` and, if both orders are judged, ``orders_agree`` (1 or 0).
    ``ParsedAnswer.detail`` holds ``choices``, one for each order in terms of the sample's A and B, and likewise
    ``probabilities`` if expected scores are requested.
    """

    class Options(JudgeOptions):
        orders: Orders = Field("both", description="`both` orders, A first and B first, or as the sample has them (`given`).")
        disagreement: Disagreement = Field(
            "tie", description="Preference if the orders disagree; `given` takes that order's choice."
        )
        language: Language = Field("en", description="Language of the prompt; `auto` is Chinese if most of the question is.")
        reasoning: bool = Field(True, description="Whether the answer gives reasons before the choice.")
        max_tokens: MaxTokens = Field(2048, description="Room for each answer with reasons, in tokens; 2,048 is the guide's.")

    name = "pairwise"
    summary = "which of two answers is better, in both orders"
    source = "https://github.com/open-compass/opencompass"
    fields = Fields(
        ("question", "answer_a", "answer_b"), ("reference_answer", "evaluating_guidance"), answer="answer_a", question="question"
    )
    example = JudgeExample(COMPARED)
    samples = "evals:meta/card/pairs.jsonl"
    options: Options

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        reasoning, max_tokens = self.options.reasoning, self.options.max_tokens
        self.form: AnswerSchema[Reasoned] | AnswerSchema[Plain] = (
            AnswerSchema(Reasoned, max_tokens) if reasoning else AnswerSchema(Plain, 24)
        )

    @property
    def levels(self) -> Mapping[str, MeasurementLevel]:
        metrics = (PREFERENCE, AGREE) if self.options.orders == "both" else (PREFERENCE,)
        return dict.fromkeys(metrics, "nominal")

    @property
    def legal(self) -> Mapping[str, Collection[Score]]:
        return {metric: (0, 1) if metric == AGREE else (*CHOICES, TIE) for metric in self.levels}

    @property
    def labels(self) -> Sequence[Label]:
        return [Label(("choice",), CHOICES)] * (2 if self.options.orders == "both" else 1)

    def weighed(self, probabilities: Sequence[Mapping[str, float] | None]) -> dict[str, Any]:
        ordered = [each and {choice: each[choice] for choice in CHOICES} for each in swapped_back(probabilities)]
        return super().weighed(ordered)

    def protocol(self) -> Mapping[str, Any]:
        return {"prompts": prompt_file("pairwise"), **self.options.model_dump(include={"orders", "disagreement", "language"})}

    def render(self, sample: Sample) -> RenderedPrompts:
        question = turns_of(sample, "question")
        if not question:
            raise SampleError("question", "is an empty list")
        language = self._language_of("".join(question))
        words = _words(language)
        answers = {"answer_a": _answer(sample, "answer_a", question), "answer_b": _answer(sample, "answer_b", question)}
        shared = {"question": question}
        for section, name in (("reference", "reference_answer"), ("guidance", "evaluating_guidance")):
            if sample.get(name):
                shared[section] = [text_field(sample, name)]
        prompts = [self._prompt(words, shared | answers)]
        if self.options.orders == "both":
            swapped = {"answer_a": answers["answer_b"], "answer_b": answers["answer_a"]}
            prompts.append(self._prompt(words, shared | swapped))
        shown = {name: "\n".join(turns) for name, turns in (shared | answers).items()}
        return RenderedPrompts(tuple(prompts), tuple(spelt_tags(shown, [words[section] for section in SECTIONS])))

    def read(self, *answers: str) -> ParsedAnswer:
        read = [self.form.read(answer) for answer in answers]
        reasons = [answer.reasoning for answer in read if isinstance(answer, Reasoned)]
        return preferred([answer.choice for answer in read], reasons, self.options.disagreement)

    def _language_of(self, question: str) -> str:
        if self.options.language != "auto":
            return self.options.language
        return "zh" if len(CHINESE.findall(question)) > len(LATIN.findall(question)) else "en"

    def _prompt(self, words: Mapping[str, str], shown: Mapping[str, Sequence[str]]) -> Prompt:
        text = words["instructions"] + fill(words["reasoned" if self.form.model is Reasoned else "plain"], {})
        for section in SECTIONS:
            if section in shown:
                text += f"\n\n{words[section]}\n{_joined(shown[section], words['turn'])}"
        return Prompt((Message("user", text),), self.form)


@cache
def _words(language: str) -> Mapping[str, str]:
    end = f"_{language}"
    return {key.removesuffix(end): text for key, text in prompt_file("pairwise").items() if key.endswith(end)}


def _answer(sample: Sample, name: str, question: Sequence[str]) -> list[str]:
    turns = turns_of(sample, name)
    if not isinstance(sample[name], str) and len(turns) != len(question):
        raise SampleError(name, f"has {counted(len(turns), 'turn')}, and the question has {len(question)}")
    return turns


def _joined(turns: Sequence[str], template: str) -> str:
    if len(turns) == 1:
        return turns[0]
    return "\n".join(fill(template, {"number": str(n), "text": text}) for n, text in enumerate(turns, start=1))
