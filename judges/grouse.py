"""GroUSE: grades two grounded answers, the ground truth and the one to evaluate, on four metrics; two more follow from these.

Source: model card of illuin/llama-3-grouse, after Muller et al., "GroUSE", https://arxiv.org/abs/2409.06595. The words are in
``prompts/grouse.toml``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from jinja2 import Environment
from pydantic import BaseModel, Field

from judges.constraint import ON_ONE_LINE, Layout
from judges.data.samples import spelt_tags, strings_field, text_field
from judges.errors import AnswerError, MagistrateError
from judges.form import AnswerModel, AnswerSchema, answer_model
from judges.judge import (
    Fields,
    Judge,
    JudgeExample,
    MeasurementLevel,
    Message,
    NumericScore,
    ParsedAnswer,
    Prompt,
    RenderedPrompts,
    Sample,
    Score,
)
from judges.options import JudgeOptions, MaxTokens
from judges.prompt_files import fill, prompt_file

MOST_REFERENCES = 10
"""Maximum number of references that Llama-3-GroUSE was trained on."""

TAGS = tuple(f"[{slash}{name}]" for name in ("TASK", "EVALUATION INSTRUCTIONS", "SAMPLE", "TO EVALUATE") for slash in ("", "/"))
CITATION = re.compile(r"\[\d+\]")
CITATIONS = re.compile(r"\[\d{1,6}(?:\s*[,;]\s*\d{1,6})*\]")
"""Cites one or several references; a longer number is not a citation."""

NUMBER = re.compile(r"\d+")

PRINTED = Layout(indent=4)
"""White space of the JSON that the card's prompt and the authors' prompts show."""

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


class FaithfulnessByBoolean(Faithfulness):
    """The form that the authors' prompt for faithfulness alone asks for: true, false or null."""

    faithfulness: Literal[True, False, None]  # type: ignore[assignment]


METRICS: Mapping[str, type[AnswerModel]] = {
    "answer_relevancy": Both[Relevancy],
    "completeness": Both[Completeness],
    "usefulness": Both[Usefulness],
    "faithfulness": Both[Faithfulness],
}
"""The metrics graded by the model, in the card's order."""

AUTHORS_FORMS: Mapping[str, type[AnswerModel]] = {**METRICS, "faithfulness": Both[FaithfulnessByBoolean]}
"""Metric to the form of its answer in the authors' prompts of one metric each."""

AUTHORS_PACKAGE = "grouse==0.4.2"
"""The package that holds these prompts; none of its dependencies is needed for reading them."""

GRADES = ("answer_relevancy", "completeness")
"""The metrics graded from 1 to 5; the others are 0 or 1."""

ANSWERS = {"answer_2": "", "answer_1": "ground_truth_"}
"""Answer to the prefix of its scores' names, beginning with the answer to evaluate."""


def acceptance_and_rejection(answer_relevancy: Score, completeness: Score) -> tuple[int | None, int | None]:
    """Positive acceptance and negative rejection by the algorithm printed on the card."""
    match (answer_relevancy, completeness):
        case (None, None):
            return 1, 1
        case (None, _):
            return 0, None
        case (_, None):
            return None, 0
        case _:
            return None, None


@cache
def authors_prompts() -> Mapping[str, str]:
    """Read the authors' prompts of one metric each, metric to Jinja template, from their installed package ``grouse``.

    Raises:
        MagistrateError: The package is not installed, or holds no such prompts.
    """
    spec = find_spec("grouse")
    folder = Path(spec.origin).parent / "gpt4_prompts" if spec is not None and spec.origin else None
    try:
        if folder is None:
            raise FileNotFoundError
        return {metric: (folder / f"{metric}.txt.jinja").read_text(encoding="utf-8") for metric in METRICS}
    except OSError:
        raise MagistrateError(
            "the prompts of one metric each are read from the authors' package `grouse`, which is not installed: run"
            f" `pip install --no-deps {AUTHORS_PACKAGE}`, or set the judge's option `prompts` to `card`"
        ) from None


class Grouse(Judge):
    """Grades ``actual_output`` and ``expected_output``, given ``input`` and ``references``: GroUSE's own file format.

    Every score may be ``None``: the metric does not apply. The scores of the ground truth are called ``ground_truth_...``.
    Contradictions within an answer are noted on the verdict and not resolved. ``ParsedAnswer.detail`` is the whole answer.
    """

    class Options(JudgeOptions):
        per_metric: bool = Field(
            False, description="Ask each metric in its own prompt: better for all models but Llama-3-GroUSE (the card's table)."
        )
        prompts: Literal["grouse", "card"] = Field(
            "grouse", description="Words of one prompt a metric: those of the authors' package `grouse`, or parts of the card's."
        )
        indented: bool = Field(
            False, description="Answers are indented as the prompt shows them, in place of standing on one line."
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
    averaged = (*METRICS, "positive_acceptance", "negative_rejection")
    options: Options

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        per_metric, max_tokens = self.options.per_metric, self.options.max_tokens
        if not per_metric and self.options.prompts == "card":
            raise MagistrateError("option `prompts` of judge `grouse` is for one prompt a metric; set `per_metric` too")
        self._authors = authors_prompts() if per_metric and self.options.prompts == "grouse" else {}
        groups = [{metric: METRICS[metric]} for metric in METRICS] if per_metric else [dict(METRICS)]
        models: dict[tuple[str, ...], type[BaseModel]] = {tuple(group): answer_model("Grades", group) for group in groups}
        if self._authors:
            models = {(metric,): model for metric, model in AUTHORS_FORMS.items()}
        layout = PRINTED if self.options.indented else ON_ONE_LINE
        self._forms = {metrics: AnswerSchema(model, max_tokens, layout) for metrics, model in models.items()}

    @property
    def forms(self) -> Sequence[AnswerSchema[BaseModel]]:
        return tuple(self._forms.values())

    @property
    def levels(self) -> Mapping[str, MeasurementLevel]:
        levels: dict[str, MeasurementLevel] = {metric: "ordinal" if metric in GRADES else "nominal" for metric in METRICS}
        levels |= {"positive_acceptance": "nominal", "negative_rejection": "nominal"}
        return {prefix + metric: level for prefix in ANSWERS.values() for metric, level in levels.items()}

    @property
    def legal(self) -> Mapping[str, Collection[Score]]:
        return {metric: (*(range(1, 6) if level == "ordinal" else (0, 1)), None) for metric, level in self.levels.items()}

    @property
    def numeric_scores(self) -> Sequence[NumericScore]:
        return [
            NumericScore(
                prefix + metric, self._path(answer, metric), (1, 2, 3, 4, 5) if metric in GRADES else (0, 1), bool(prefix)
            )
            for answer, prefix in ANSWERS.items()
            for metric in METRICS
            if not (self._authors and metric == "faithfulness")  # true or false there, no number
        ]

    def _path(self, answer: str, metric: str) -> tuple[str, ...]:
        return (answer, metric) if self._authors else (metric, answer, metric)

    def protocol(self) -> Mapping[str, Any]:
        return {"prompts": self._authors or prompt_file("grouse"), "per_metric": self.options.per_metric}

    def render(self, sample: Sample) -> RenderedPrompts:
        words = prompt_file("grouse")
        references = strings_field(sample, "references")
        numbered = [{"number": str(number), "text": text} for number, text in enumerate(references, start=1)]
        values = {
            "references": "".join(fill(words["reference"], each) for each in numbered),
            "user_request": text_field(sample, "input"),
            "ground_truth": text_field(sample, "expected_output"),
            "prediction_to_evaluate": text_field(sample, "actual_output"),
        }
        notes = (*_notes(references), *spelt_tags(values, TAGS))
        if self._authors:
            shown_to_authors = {name: sample[name] for name in ("input", "expected_output", "actual_output")}
            return RenderedPrompts(tuple(self._of_authors(shown_to_authors | {"contexts": references})), notes)
        shown = fill(words["sample"], values)
        prompts = [Prompt((Message("user", _instructions(metrics) + shown),), form) for metrics, form in self._forms.items()]
        return RenderedPrompts(tuple(prompts), notes)

    def _of_authors(self, values: Mapping[str, Any]) -> Iterator[Prompt]:
        """The authors' prompts. Their words show no references for relevancy and usefulness, no request for faithfulness."""
        for (metric,), form in self._forms.items():
            asked = Environment(autoescape=False).from_string(self._authors[metric]).render(values)
            yield Prompt((Message("user", asked),), form)

    def implied(self, earlier: Sequence[str]) -> str | None:
        """The answer for usefulness or faithfulness that the authors' code does not ask for.

        The second answer decides: usefulness is null if it has a relevancy, faithfulness if it has neither of the two.
        """
        if not self._authors or len(earlier) < 2 or len(earlier) == len(METRICS):
            return None
        try:
            said = self._content(earlier)
        except AnswerError:
            return None
        if len(earlier) == 2:
            return _usefulness_unasked(said) if _grade(said, "answer_relevancy", "answer_2") is not None else None
        nothing = all(_grade(said, metric, "answer_2") is None for metric in ("answer_relevancy", "usefulness"))
        return FAITHFULNESS_UNASKED if nothing else None

    def _content(self, answers: Sequence[str]) -> dict[str, Any]:
        """The answers in the card's form, metric by metric.

        Raises:
            AnswerError: One does not match its schema.
        """
        content: dict[str, Any] = {}
        for (metrics, form), answer in zip(self._forms.items(), answers, strict=False):
            read = form.read(answer).model_dump(by_alias=True)
            content |= {metrics[0]: read} if self._authors else read
        for part in content["faithfulness"].values() if self._authors and "faithfulness" in content else ():
            part["faithfulness"] = None if part["faithfulness"] is None else int(part["faithfulness"])
        return content

    def reordered_sample(self, sample: Sample) -> Sample | None:
        """The sample with its references in the opposite order and the citations renumbered."""
        references = sample.get("references")
        if not isinstance(references, list) or len(references) < 2:
            return None
        texts = {name: sample.get(name) for name in ("actual_output", "expected_output")}
        answers = {name: renumbered(text, len(references)) for name, text in texts.items() if isinstance(text, str)}
        return {**sample, **answers, "references": references[::-1]}

    def read(self, *answers: str) -> ParsedAnswer:
        content = self._content(answers)
        unasked = [metric for number, metric in enumerate(METRICS) if self.implied(answers[:number]) is not None]
        scores: dict[str, Score] = {}
        notes: list[str] = []
        for answer, prefix in ANSWERS.items():
            parts = {metric: content[metric][answer] for metric in METRICS}
            grades: dict[str, Score] = {metric: parts[metric][metric] for metric in METRICS}
            grades["positive_acceptance"], grades["negative_rejection"] = acceptance_and_rejection(
                grades["answer_relevancy"], grades["completeness"]
            )
            scores |= {prefix + metric: score for metric, score in grades.items()}
            problems = of_relevancy(parts["answer_relevancy"]) if unasked else contradictions(parts)
            notes += [f"contradiction in {answer}: {problem}" for problem in problems]
        for metric in unasked:
            if not _follows(content, metric):
                del scores[f"ground_truth_{metric}"]
                notes.append(f"ground_truth_{metric} is unknown: answer 2 alone decides, and for it {metric} is not asked")
        if (scores["completeness"] is None) != (scores["ground_truth_completeness"] is None):
            notes.append("contradiction: completeness is null for one answer alone, though that depends on the references only")
        reasons = [f"{metric}: {content[metric]['answer_2'][f'{metric}_justification']}" for metric in METRICS]
        return ParsedAnswer(scores, "\n".join(reasons), notes, content)


_ONE_UNASKED = {
    "answer_only_asserts_no_document_answers": True,
    "content_analysis_sentence_by_sentence": [],
    "faithfulness_justification": "",
    "faithfulness": None,
}
FAITHFULNESS_UNASKED = json.dumps({"answer_1": _ONE_UNASKED, "answer_2": _ONE_UNASKED})
"""What stands for the answer on faithfulness where it is not asked."""


def _usefulness_unasked(said: Mapping[str, Any]) -> str:
    """What stands for the answer on usefulness where it is not asked: null, with no related information."""
    return json.dumps(
        {
            answer: {
                "answer_affirms_no_document_answers": said["answer_relevancy"][answer]["answer_affirms_no_document_answers"],
                "answer_contains_related_information": False,
                "usefulness_justification": "",
                "usefulness": None,
            }
            for answer in ("answer_1", "answer_2")
        }
    )


def _grade(said: Mapping[str, Any], metric: str, answer: str) -> Score:
    grade: Score = said[metric][answer][metric]
    return grade


def _follows(content: Mapping[str, Any], metric: str) -> bool:
    """Whether the ground truth's null for a metric that was not asked follows by the same rule from its own grades."""
    relevant = _grade(content, "answer_relevancy", "answer_1") is not None
    if metric == "usefulness":
        return relevant
    return not relevant and _grade(content, "usefulness", "answer_1") is None


def renumbered(text: str, count: int) -> str:
    """Renumber a text's citations of ``count`` references for the opposite order of the references."""

    def reverse(match: re.Match[str]) -> str:
        number = int(match[0])
        return str(count + 1 - number) if 1 <= number <= count else match[0]

    return CITATIONS.sub(lambda citation: NUMBER.sub(reverse, citation[0]), text)


def of_relevancy(said: Mapping[str, Any]) -> Iterator[str]:
    """Find a contradiction within what is said of an answer's relevancy alone."""
    affirms = said["answer_affirms_no_document_answers"]
    if affirms != (said["answer_relevancy"] is None):
        yield f"answer_relevancy is {_spelt(said['answer_relevancy'])}, and {_says(affirms)} that no document answers"


def contradictions(parts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Find statements about one answer that the card's instructions exclude together; ``parts`` maps metric to statements."""
    relevancy, usefulness, faithfulness = parts["answer_relevancy"], parts["usefulness"], parts["faithfulness"]
    affirms = relevancy["answer_affirms_no_document_answers"]
    related = usefulness["answer_contains_related_information"]
    useful = usefulness["answer_affirms_no_document_answers"] and related
    alone = faithfulness["answer_only_asserts_no_document_answers"]
    yield from of_relevancy(relevancy)
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
    """The card's description of the JSON, reduced to one metric."""
    start, _, rest = whole.partition("{\n")
    block = re.search(rf'    "{metric}": {{\n.*?\n    }}', rest, re.DOTALL)
    end = rest.rpartition("\n}\n")[2]
    assert block is not None
    return f"{start}{{\n{block[0]}\n}}\n{end}"
