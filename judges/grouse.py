"""GroUSE: grades two grounded answers, the ground truth and the one to evaluate, on four metrics; two more follow from these.

Source: model card of illuin/llama-3-grouse, after Muller et al., "GroUSE", https://arxiv.org/abs/2409.06595. The words stand in
``prompts/grouse.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

from judges.form import AnswerModel, Form, answer_model
from judges.judge import Fields, Inquiry, Judge, JudgeExample, Level, Message, NumericScore, Prompt, Reading, Sample, Score
from judges.options import JudgeOptions, MaxTokens
from judges.prompt_files import fill, prompt_file
from judges.samples import spelt_tags, strings_field, text_field

MOST_REFERENCES = 10
"""As many as Llama-3-GroUSE was trained on."""

TAGS = tuple(f"[{slash}{name}]" for name in ("TASK", "EVALUATION INSTRUCTIONS", "SAMPLE", "TO EVALUATE") for slash in ("", "/"))
CITATION = re.compile(r"\[\d+\]")
CITATIONS = re.compile(r"\[\d{1,6}(?:\s*[,;]\s*\d{1,6})*\]")
"""One reference, or several; a number of more digits is none."""

NUMBER = re.compile(r"\d+")

Grade = Literal[1, 2, 3, 4, 5, None]
Yes = Literal[0, 1, None]
Kind = TypeVar("Kind", bound=AnswerModel)


class Both(AnswerModel, Generic[Kind]):
    """What the judge says of the ground truth (1) and of the answer to evaluate (2)."""

    answer_1: Kind
    answer_2: Kind


class Relevancy(AnswerModel):
    answer_affirms_no_document_answers: bool
    answer_relevancy_justification: str
    answer_relevancy: Grade


class Completeness(AnswerModel):
    completeness_justification: str
    completeness: Grade


class Usefulness(AnswerModel):
    answer_affirms_no_document_answers: bool
    answer_contains_related_information: bool
    usefulness_justification: str
    usefulness: Yes


class Sentence(AnswerModel):
    sentence: str
    criterion_1: str
    criterion_2: str
    criterion_3: str


class Faithfulness(AnswerModel):
    answer_only_asserts_no_document_answers: bool
    content_analysis_sentence_by_sentence: list[Sentence]
    faithfulness_justification: str
    faithfulness: Yes


METRICS: Mapping[str, type[AnswerModel]] = {
    "answer_relevancy": Both[Relevancy],
    "completeness": Both[Completeness],
    "usefulness": Both[Usefulness],
    "faithfulness": Both[Faithfulness],
}
"""The metrics a model grades, in the card's order."""

GRADES = ("answer_relevancy", "completeness")
"""Those graded from 1 to 5; the others are 0 or 1."""

ANSWERS = {"answer_2": "", "answer_1": "ground_truth_"}
"""The two answers, the one to evaluate first, and how the names of their scores begin."""


def acceptance_and_rejection(answer_relevancy: Score, completeness: Score) -> tuple[int | None, int | None]:
    """Positive acceptance and negative rejection, by the card's algorithm as it is printed."""
    match (answer_relevancy, completeness):
        case (None, None):
            return 1, 1
        case (None, _):
            return 0, None
        case (_, None):
            return None, 0
        case _:
            return None, None


class Grouse(Judge):
    """Grades ``actual_output`` beside ``expected_output``, given ``input`` and ``references``: GroUSE's own file format.

    Every score may be ``None``: the metric does not apply. The scores of the ground truth are called ``ground_truth_...``.
    Contradictions within an answer are noted on the verdict and left as they are. ``Reading.detail`` is the whole answer.
    """

    class Options(JudgeOptions):
        per_metric: bool = Field(
            False, description="A prompt for each metric: better for all but Llama-3-GroUSE (the card's table)."
        )
        max_tokens: MaxTokens = Field(2048, description="Room for each answer, in tokens; 2,048 is that of the card's training.")

    name = "grouse"
    summary = "an answer grounded in references: relevancy, completeness, usefulness, faithfulness"
    source = "https://arxiv.org/abs/2409.06595"
    fields = Fields(("input", "actual_output", "expected_output", "references"), answer="actual_output", question="input")
    example = JudgeExample(
        {
            "input": "When did the Eiffel Tower open to the public?",
            "references": [
                "The Eiffel Tower was built from 1887 to 1889 as the centrepiece of the World's Fair.",
                "The tower opened to the public on 15 May 1889.",
            ],
            "expected_output": "It opened to the public on 15 May 1889 [2].",
            "actual_output": "It opened in 1887 [1].",
        }
    )
    samples = "evals:meta/grounded/cases.jsonl"
    reordering = "The references are given in the opposite order, and the answers’ citations are renumbered to match."
    options: Options

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        per_metric, max_tokens = self.options.per_metric, self.options.max_tokens
        asked = [{metric: METRICS[metric]} for metric in METRICS] if per_metric else [dict(METRICS)]
        self._forms = {tuple(parts): Form(answer_model("Grades", parts), max_tokens) for parts in asked}

    @property
    def forms(self) -> Sequence[Form[BaseModel]]:
        return tuple(self._forms.values())

    @property
    def levels(self) -> Mapping[str, Level]:
        one: dict[str, Level] = {metric: "ordinal" if metric in GRADES else "nominal" for metric in METRICS}
        one |= {"positive_acceptance": "nominal", "negative_rejection": "nominal"}
        return {prefix + metric: level for prefix in ANSWERS.values() for metric, level in one.items()}

    @property
    def legal(self) -> Mapping[str, Collection[Score]]:
        return {metric: (*(range(1, 6) if level == "ordinal" else (0, 1)), None) for metric, level in self.levels.items()}

    @property
    def numeric_scores(self) -> Sequence[NumericScore]:
        return [
            NumericScore(prefix + metric, (metric, answer, metric), (1, 2, 3, 4, 5) if metric in GRADES else (0, 1), bool(prefix))
            for answer, prefix in ANSWERS.items()
            for metric in METRICS
        ]

    def protocol(self) -> Mapping[str, Any]:
        return {"prompts": prompt_file("grouse"), "per_metric": self.options.per_metric}

    def render(self, sample: Sample) -> Inquiry:
        words = prompt_file("grouse")
        references = strings_field(sample, "references")
        numbered = [{"number": str(number), "text": text} for number, text in enumerate(references, start=1)]
        values = {
            "references": "".join(fill(words["reference"], each) for each in numbered),
            "user_request": text_field(sample, "input"),
            "ground_truth": text_field(sample, "expected_output"),
            "prediction_to_evaluate": text_field(sample, "actual_output"),
        }
        shown = fill(words["sample"], values)
        prompts = [Prompt((Message("user", _instructions(metrics) + shown),), form) for metrics, form in self._forms.items()]
        return Inquiry(tuple(prompts), (*_notes(references), *spelt_tags(values, TAGS)))

    def reordered_sample(self, sample: Sample) -> Sample | None:
        """The sample with its references in the opposite order; the citations follow them."""
        references = sample.get("references")
        if not isinstance(references, list) or len(references) < 2:
            return None
        texts = {name: sample.get(name) for name in ("actual_output", "expected_output")}
        answers = {name: renumbered(text, len(references)) for name, text in texts.items() if isinstance(text, str)}
        return {**sample, **answers, "references": references[::-1]}

    def read(self, *answers: str) -> Reading:
        found: dict[str, Any] = {}
        for form, answer in zip(self._forms.values(), answers, strict=True):
            found |= form.read(answer).model_dump(by_alias=True)
        scores: dict[str, Score] = {}
        notes: list[str] = []
        for answer, prefix in ANSWERS.items():
            grades: dict[str, Score] = {metric: found[metric][answer][metric] for metric in METRICS}
            grades["positive_acceptance"], grades["negative_rejection"] = acceptance_and_rejection(
                grades["answer_relevancy"], grades["completeness"]
            )
            scores |= {prefix + metric: score for metric, score in grades.items()}
            said = {metric: found[metric][answer] for metric in METRICS}
            notes += [f"contradiction in {answer}: {problem}" for problem in contradictions(said)]
        if (scores["completeness"] is None) != (scores["ground_truth_completeness"] is None):
            notes.append("contradiction: completeness is null for one answer alone, though that depends on the references only")
        reasons = [f"{metric}: {found[metric]['answer_2'][f'{metric}_justification']}" for metric in METRICS]
        return Reading(scores, "\n".join(reasons), notes, found)


def renumbered(text: str, count: int) -> str:
    """A text with its citations of ``count`` references as they are when the references stand the other way round."""

    def turned(found: re.Match[str]) -> str:
        number = int(found[0])
        return str(count + 1 - number) if 1 <= number <= count else found[0]

    return CITATIONS.sub(lambda citation: NUMBER.sub(turned, citation[0]), text)


def contradictions(said: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """What the card's instructions do not allow to be said of one answer together.

    Args:
        said: Metric to what the judge says of this answer.
    """
    relevancy, usefulness, faithfulness = said["answer_relevancy"], said["usefulness"], said["faithfulness"]
    affirms = relevancy["answer_affirms_no_document_answers"]
    related = usefulness["answer_contains_related_information"]
    useful = usefulness["answer_affirms_no_document_answers"] and related
    alone = faithfulness["answer_only_asserts_no_document_answers"]
    if affirms != (relevancy["answer_relevancy"] is None):
        yield f"answer_relevancy is {_spelt(relevancy['answer_relevancy'])}, and {_says(affirms)} that no document answers"
    if affirms != usefulness["answer_affirms_no_document_answers"]:
        yield f"for answer_relevancy {_says(affirms)} that no document answers, for usefulness {_says(not affirms)} it"
    if useful and usefulness["usefulness"] is None:
        yield "usefulness is null, though the answer asserts that no document answers and adds related information"
    if not useful and usefulness["usefulness"] is not None:
        yield f"usefulness is {usefulness['usefulness']}, though the answer does not both assert that none answers and add to it"
    if alone != (faithfulness["faithfulness"] is None):
        yield f"faithfulness is {_spelt(faithfulness['faithfulness'])}, and {_says(alone)} only that no document answers"
    if alone and (related or not affirms):
        yield "for faithfulness the answer asserts only that no document answers, for the other metrics it says more"


def _says(so: bool) -> str:
    return "the answer asserts" if so else "the answer does not assert"


def _spelt(score: Score) -> str:
    return "null" if score is None else str(score)


def _notes(references: Sequence[str]) -> Iterator[str]:
    if not references:
        yield "there are no references, so only null is right for completeness"
    if len(references) > MOST_REFERENCES:
        yield f"{len(references)} references: Llama-3-GroUSE was trained on at most {MOST_REFERENCES}"
    for number, reference in enumerate(references, start=1):
        if citation := CITATION.search(reference):
            yield f"reference {number} holds `{citation[0]}`, which reads like a citation of another reference"


def _instructions(metrics: Sequence[str]) -> str:
    words = prompt_file("grouse")
    sections = "".join(words[metric] for metric in metrics)
    if len(metrics) == len(METRICS):
        return words["opening"] + sections + words["format"]
    (metric,) = metrics
    opening = words["opening"].rstrip().rpartition("\n")[0]
    criterion = fill(words["one_criterion"], {"criterion": metric.removeprefix("answer_")})
    return f"{opening}\n{criterion}\n\n{sections}{_format_of(metric, words['format'])}"


def _format_of(metric: str, whole: str) -> str:
    """The card's description of the JSON, for one metric."""
    start, _, rest = whole.partition("{\n")
    block = re.search(rf'    "{metric}": {{\n.*?\n    }}', rest, re.DOTALL)
    end = rest.rpartition("\n}\n")[2]
    assert block is not None
    return f"{start}{{\n{block[0]}\n}}\n{end}"
