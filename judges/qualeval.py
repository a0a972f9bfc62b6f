"""The judges of QualEval that score nothing: Discovery and Shrink find attributes, Insight sums up figures.

Source: Murahari et al., "QualEval", https://arxiv.org/abs/2311.02807: section 2.2, figures 8 and 10, appendix A.1. The paper
shrinks a list "by choosing the best attributes" and does not print the prompt: that one is Magistrate's. That its last turn drops
duplicates and explains what is left is from the authors' code. The words are in
``prompts/qualeval.toml`` and ``prompts/qualeval_answers.toml``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from judges.data.samples import kind_of, strings_field, text_field, well_formed
from judges.errors import AnswerError, MagistrateError, SampleError
from judges.form import AnswerModel, AnswerSchema, answer_model
from judges.judge import Fields, Judge, JudgeExample, Message, ParsedAnswer, Prompt, RenderedPrompts, Sample
from judges.options import Factor, JudgeOptions, MaxListed, Writable
from judges.prompt_files import fill, prompt_file

QUALEVAL = "https://arxiv.org/abs/2311.02807"

Kind = Literal["domain", "subtask"]
"""The two kinds of attributes: the topic of an instance, and the skills it requires."""

PLURAL: Mapping[str, str] = {"domain": "domains", "subtask": "subtasks"}

Task = Literal["mbpp", "dialogsum", "mmlu", "general"]
"""The paper's three data sets, each with its own words, and any other."""

ATTRIBUTE_TOKENS = 24
"""Room for one attribute, a short phrase."""

NUMBER_TOKENS = 6
"""Room for the number of one attribute."""

FIXED_TOKENS = 16
"""Room for the brackets and the key of a list."""

SENTENCE_TOKENS = 64
"""Room for one sentence."""

EXPLANATION_TOKENS = 48
"""Room for the line that explains one attribute, with its keys."""

INSTRUCTION = "The task instruction of the data set, shown before the question."


class Chosen(AnswerModel):
    chosen: list[Annotated[int, Field(ge=1)]]


class Choice(AnswerModel):
    number: Annotated[int, Field(ge=1)]
    explanation: str


class Explained(AnswerModel):
    chosen: list[Choice]


CHOSEN, EXPLAINED = AnswerSchema(Chosen, 0), AnswerSchema(Explained, 0)
"""Read a chosen list without knowing the number of candidates."""


@cache
def words() -> Mapping[str, str]:
    """The paper's prompts, and Magistrate's additions."""
    return {**prompt_file("qualeval"), **prompt_file("qualeval_answers")}


def numbered(texts: Sequence[str]) -> str:
    template = words()["numbered"]
    return "\n".join(fill(template, {"number": str(number), "text": text}) for number, text in enumerate(texts, start=1))


def instructed(prompt: str, instruction: str) -> str:
    """A prompt with the data set's task instruction before it, if there is one."""
    return f"{fill(words()['instruction'], {'instruction': instruction})}\n\n{prompt}" if instruction else prompt


class Discovery(Judge):
    """Names the attributes of the instances in ``examples``: a list of strings, or of objects, shown with a field on each line.

    ``ParsedAnswer.detail`` holds ``attributes``, the distinct names.
    """

    class Options(JudgeOptions):
        kind: Kind = Field("domain", description="Kind of the attributes.")
        task: Task = Field(
            "general", description="Words of the prompt: those for `mbpp`, `dialogsum` or `mmlu`, or general ones."
        )
        most: MaxListed = Field(15, description="Maximum number of attributes in an answer.")
        instruction: Writable = Field("", description=INSTRUCTION)

    name = "discovery"
    summary = "which domains or sub-tasks a few instances have"
    source = QUALEVAL
    fields = Fields(("examples",), words="examples: a list")
    example = JudgeExample(
        {
            "examples": [
                "#Person1#: A table for two, please. #Person2#: Certainly. Would you like to see the wine list?",
                "#Person1#: When does the next train to Leeds leave? #Person2#: At ten past four, from platform six.",
            ]
        }
    )
    options: Options

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        kind, most = self.options.kind, self.options.most
        listed = Annotated[list[str], Field(min_length=1, max_length=most)]
        self.form = AnswerSchema(answer_model("Attributes", {PLURAL[kind]: listed}), FIXED_TOKENS + most * ATTRIBUTE_TOKENS)

    def protocol(self) -> Mapping[str, Any]:
        return {"prompts": words(), **dict(self.options)}

    def render(self, sample: Sample) -> RenderedPrompts:
        text = words()
        shown = [{"number": str(number), "text": example} for number, example in enumerate(_examples(sample), start=1)]
        examples = "\n\n".join(fill(text["discover_example"], values) for values in shown)
        values = {"kinds": PLURAL[self.options.kind], "most": str(self.options.most), "examples": examples}
        prompt = f"{text[f'discover_{self.options.kind}_{self.options.task}']}\n\n{fill(text['discover_answer'], values)}"
        return RenderedPrompts((Prompt((Message("user", instructed(prompt, self.options.instruction)),), self.form),))

    def read(self, *answers: str) -> ParsedAnswer:
        (answer,) = answers
        listed = self.form.read(answer).model_dump(by_alias=True)[PLURAL[self.options.kind]]
        names = [" ".join(name.split()) for name in listed]
        attributes = [name for name in dict.fromkeys(names) if name]
        if not attributes:
            raise AnswerError(f"the answer names no {self.options.kind}")
        dropped = len(names) - len(attributes)
        notes = [f"{dropped} of {len(names)} names were empty or said before"] if dropped else []
        return ParsedAnswer({}, notes=notes, detail={"attributes": attributes})


class Shrink(Judge):
    """Chooses the best of the candidates in ``attributes``, a list of strings: one in ``factor`` of them, but at least ``least``.

    The answer is a list of the candidates' numbers, so that none is invented or reworded. ``ParsedAnswer.detail`` holds
    ``chosen``, the distinct numbers, from 1, in order; and of the ``last`` turn ``explanations``, a line on each of them.

    Raises:
        MagistrateError: The factor is not more than 1.
    """

    class Options(JudgeOptions):
        kind: Kind = Field("domain", description="Kind of the candidates.")
        factor: Factor = Field(4.0, description="Factor by which the list shrinks; 4 in the paper.")
        least: MaxListed = Field(15, description="Minimum length of the list; N = 15 in the paper.")
        last: bool = Field(False, description="Whether this is the last turn: no duplicates, and a line on each that is chosen.")
        instruction: Writable = Field("", description=INSTRUCTION)

    name = "shrink"
    summary = "which of many attributes are the best"
    source = QUALEVAL
    fields = Fields(("attributes",), words="attributes: a list")
    example = JudgeExample(
        {"attributes": ["Food", "Eating out", "Trains", "Public transport", "Work", "Job interviews", "Weather", "Sport"]},
        {"least": 4},
    )
    options: Options

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.options.factor <= 1:
            raise MagistrateError(f"a list cannot be shrunk by a factor of {self.options.factor:g}: it must be more than 1")

    @property
    def forms(self) -> Sequence[AnswerSchema[BaseModel]]:
        return ()

    def protocol(self) -> Mapping[str, Any]:
        room = {"fixed": FIXED_TOKENS, "each": NUMBER_TOKENS, "explanation": EXPLANATION_TOKENS}
        return {"prompts": words(), **dict(self.options), "room": room}

    def render(self, sample: Sample) -> RenderedPrompts:
        candidates = _some(sample, "attributes")
        most = min(len(candidates), max(self.options.least, math.ceil(len(candidates) / self.options.factor)))
        numbers = Literal[tuple(range(1, len(candidates) + 1))]  # type: ignore[valid-type]
        last = self.options.last
        choice: Any = answer_model("Choice", {"number": numbers, "explanation": str}) if last else numbers
        chosen = Annotated[list[choice], Field(min_length=1, max_length=most)]
        each = NUMBER_TOKENS + (EXPLANATION_TOKENS if last else 0)
        form = AnswerSchema(answer_model("Chosen", {"chosen": chosen}), FIXED_TOKENS + most * each)
        values = {"kinds": PLURAL[self.options.kind], "most": str(most), "candidates": numbered(candidates)}
        prompt = instructed(fill(words()["shrink_last" if last else "shrink"], values), self.options.instruction)
        return RenderedPrompts((Prompt((Message("user", prompt),), form),))

    def read(self, *answers: str) -> ParsedAnswer:
        (answer,) = answers
        lines: dict[int, str] = {}
        if self.options.last:
            choices = EXPLAINED.read(answer).chosen
            chosen = [choice.number for choice in choices]
            lines = {choice.number: " ".join(choice.explanation.split()) for choice in reversed(choices)}
        else:
            chosen = CHOSEN.read(answer).chosen
        distinct = sorted(set(chosen))
        if not distinct:
            raise AnswerError("the answer chooses nothing")
        repeated = len(chosen) - len(distinct)
        notes = [f"{repeated} of {len(chosen)} numbers were chosen before"] if repeated else []
        explanations = {"explanations": [lines[number] for number in distinct]} if self.options.last else {}
        return ParsedAnswer({}, notes=notes, detail={"chosen": distinct, **explanations})


class Insight(Judge):
    """Sums up a model's results on the attributes of a data set in a few sentences, from the figures alone.

    A sample has ``task_instruction`` (a string), ``priors`` and ``proficiency`` (objects: attribute to number), and optionally
    ``distances`` (likewise): how far the model's use of a skill is from the ground truth's. ``ParsedAnswer.detail`` holds
    ``insights``, a list of sentences, and ``ParsedAnswer.justification`` is their text.
    """

    class Options(JudgeOptions):
        most: MaxListed = Field(8, description="Maximum number of sentences in an answer.")

    name = "insight"
    summary = "what the figures of a breakdown say, in a few sentences"
    source = QUALEVAL
    fields = Fields(("task_instruction", "priors", "proficiency"), ("distances",))
    example = JudgeExample(
        {
            "task_instruction": "Sum up the dialogue in one sentence.",
            "priors": {"Travel": 0.4, "Work": 0.35, "Health": 0.25},
            "proficiency": {"Travel": 0.31, "Work": 0.27, "Health": 0.18},
        }
    )
    options: Options

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        most = self.options.most
        listed = Annotated[list[str], Field(min_length=1, max_length=most)]
        self.form = AnswerSchema(answer_model("Insights", {"insights": listed}), FIXED_TOKENS + most * SENTENCE_TOKENS)

    def protocol(self) -> Mapping[str, Any]:
        return {"prompts": words(), "most": self.options.most}

    def render(self, sample: Sample) -> RenderedPrompts:
        text = words()
        priors = _figures(sample, "priors")
        values = {
            "task_instruction": text_field(sample, "task_instruction"),
            "attributes": ", ".join(priors),
            "priors": json.dumps(priors, ensure_ascii=False),
            "proficiency": json.dumps(_figures(sample, "proficiency"), ensure_ascii=False),
        }
        prompt = fill(text["insight"], values)
        if sample.get("distances"):
            distances = json.dumps(_figures(sample, "distances"), ensure_ascii=False)
            prompt += " " + fill(text["insight_distances"], {"distances": distances})
        prompt = "\n\n".join([prompt, text["insight_summary"], fill(text["insight_answer"], {"most": str(self.options.most)})])
        return RenderedPrompts((Prompt((Message("system", text["insight_system"]), Message("user", prompt)), self.form),))

    def read(self, *answers: str) -> ParsedAnswer:
        (answer,) = answers
        listed = self.form.read(answer).model_dump(by_alias=True)["insights"]
        insights = [sentence.strip() for sentence in listed if sentence.strip()]
        if not insights:
            raise AnswerError("the answer says nothing")
        return ParsedAnswer({}, justification="\n".join(insights), detail={"insights": insights})


def _examples(sample: Sample) -> list[str]:
    if isinstance(sample.get("examples"), list | tuple) and all(isinstance(example, Mapping) for example in sample["examples"]):
        return _some({"examples": [_fields(example) for example in sample["examples"]]}, "examples")
    return _some(sample, "examples")


def _some(sample: Sample, name: str) -> list[str]:
    texts = strings_field(sample, name)
    if not texts:
        raise SampleError(name, "is an empty list")
    return texts


def _fields(example: Mapping[str, Any]) -> str:
    shown = []
    for name, value in example.items():
        if not isinstance(value, str | int | float | list | None):
            raise SampleError("examples", f"field `{name}` of an example is {kind_of(value)}")
        try:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            raise SampleError("examples", f"field `{name}` of an example holds something that JSON cannot") from None
        shown.append(f"{name}: {text}")
    return well_formed("\n".join(shown))


def _figures(sample: Sample, name: str) -> dict[str, float]:
    value = sample.get(name)
    if name not in sample:
        raise SampleError(name, "is missing")
    if not isinstance(value, Mapping) or not value:
        raise SampleError(name, f"must be an object of attributes and numbers, not {kind_of(value)}" if value else "is empty")
    for attribute, figure in value.items():
        if isinstance(figure, bool) or not isinstance(figure, int | float):
            raise SampleError(name, f"must hold numbers; `{attribute}` is {kind_of(figure)}")
    return {well_formed(attribute): figure for attribute, figure in value.items()}
