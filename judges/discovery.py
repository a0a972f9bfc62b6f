"""Discovery: which domains or sub-tasks a data set has, from a few of its instances at a time; and the shrinking of a long list.

Source: QualEval, section 2.2 and figure 8. The paper shrinks a list "by choosing the best attributes" and does not print the
prompt: that one is Magistrate's. The words stand in ``prompts/qualeval.toml`` and ``prompts/qualeval_answers.toml``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from judges.errors import AnswerError, MagistrateError, SampleError
from judges.form import AnswerModel, Form, answer_model
from judges.judge import Fields, Inquiry, Judge, JudgeExample, Message, Prompt, Reading, Sample
from judges.options import Factor, JudgeOptions, MaxListed
from judges.prompt_files import fill
from judges.qualeval import PLURAL, QUALEVAL, Kind, numbered, words
from judges.samples import kind_of, strings_field, well_formed

Task = Literal["mbpp", "dialogsum", "mmlu", "general"]
"""The paper's three data sets, each with words of its own, and any other."""

ATTRIBUTE_TOKENS = 24
"""Room for one attribute, a short phrase."""

NUMBER_TOKENS = 6
"""Room for the number of one attribute."""

FIXED_TOKENS = 16
"""Room for the brackets and the key of a list."""


class Chosen(AnswerModel):
    chosen: list[Annotated[int, Field(ge=1)]]


READING = Form(Chosen, 0)
"""A chosen list as it is read, when how many candidates there were is not known any more."""


class Discovery(Judge):
    """Names the attributes of the instances in ``examples``: a list of strings, or of objects, shown a field a line.

    It scores nothing: ``Reading.detail`` holds ``attributes``, the list found, each name once.
    """

    class Options(JudgeOptions):
        kind: Kind = Field("domain", description="What is named.")
        task: Task = Field("general", description="Whose words ask: those for `mbpp`, `dialogsum` or `mmlu`, or `general`.")
        most: MaxListed = Field(15, description="As many attributes as an answer may hold.")

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
        self.form = Form(answer_model("Attributes", {PLURAL[kind]: listed}), FIXED_TOKENS + most * ATTRIBUTE_TOKENS)

    def protocol(self) -> Mapping[str, Any]:
        return {"prompts": words(), **dict(self.options)}

    def render(self, sample: Sample) -> Inquiry:
        text = words()
        shown = [{"number": str(number), "text": example} for number, example in enumerate(_examples(sample), start=1)]
        examples = "\n\n".join(fill(text["discover_example"], values) for values in shown)
        values = {"kinds": PLURAL[self.options.kind], "most": str(self.options.most), "examples": examples}
        asked = f"{text[f'discover_{self.options.kind}_{self.options.task}']}\n\n{fill(text['discover_answer'], values)}"
        return Inquiry((Prompt((Message("user", asked),), self.form),))

    def read(self, *answers: str) -> Reading:
        (answer,) = answers
        listed = self.form.read(answer).model_dump(by_alias=True)[PLURAL[self.options.kind]]
        names = [" ".join(name.split()) for name in listed]
        attributes = [name for name in dict.fromkeys(names) if name]
        if not attributes:
            raise AnswerError(f"the answer names no {self.options.kind}")
        dropped = len(names) - len(attributes)
        notes = [f"{dropped} of {len(names)} names were empty or said before"] if dropped else []
        return Reading({}, notes=notes, detail={"attributes": attributes})


class Shrink(Judge):
    """Chooses the best of the candidates in ``attributes``, a list of strings: one in ``factor`` of them, but at least ``least``.

    The answer is a list of the candidates' numbers, so that no other attribute can be chosen and none is reworded. It scores
    nothing: ``Reading.detail`` holds ``chosen``, the numbers from 1, each once and in order.

    Raises:
        MagistrateError: The factor shrinks nothing.
    """

    class Options(JudgeOptions):
        kind: Kind = Field("domain", description="What the candidates are.")
        factor: Factor = Field(4.0, description="By which the list shrinks; the paper's is 4.")
        least: MaxListed = Field(15, description="Attributes that the list is not shrunk below; the paper's N is 15.")

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
    def forms(self) -> Sequence[Form[BaseModel]]:
        return ()

    def protocol(self) -> Mapping[str, Any]:
        room = {"fixed": FIXED_TOKENS, "each": NUMBER_TOKENS}
        return {"prompts": words(), **dict(self.options), "room": room}

    def render(self, sample: Sample) -> Inquiry:
        candidates = _some(sample, "attributes")
        most = min(len(candidates), max(self.options.least, math.ceil(len(candidates) / self.options.factor)))
        numbers = Literal[tuple(range(1, len(candidates) + 1))]  # type: ignore[valid-type]
        chosen = Annotated[list[numbers], Field(min_length=1, max_length=most)]  # type: ignore[valid-type]
        form = Form(answer_model("Chosen", {"chosen": chosen}), FIXED_TOKENS + most * NUMBER_TOKENS)
        values = {"kinds": PLURAL[self.options.kind], "most": str(most), "candidates": numbered(candidates)}
        return Inquiry((Prompt((Message("user", fill(words()["shrink"], values)),), form),))

    def read(self, *answers: str) -> Reading:
        (answer,) = answers
        chosen = READING.read(answer).chosen
        once = sorted(set(chosen))
        if not once:
            raise AnswerError("the answer chooses nothing")
        notes = [f"{len(chosen) - len(once)} of {len(chosen)} numbers were chosen before"] if len(once) < len(chosen) else []
        return Reading({}, notes=notes, detail={"chosen": once})


def _examples(sample: Sample) -> list[str]:
    if isinstance(sample.get("examples"), list | tuple) and all(isinstance(one, Mapping) for one in sample["examples"]):
        return _some({"examples": [_fields(one) for one in sample["examples"]]}, "examples")
    return _some(sample, "examples")


def _some(sample: Sample, name: str) -> list[str]:
    found = strings_field(sample, name)
    if not found:
        raise SampleError(name, "is an empty list")
    return found


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
