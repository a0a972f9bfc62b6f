"""LLM-Eval: one prompt that scores a dialogue on several metrics at once.

Source: "LLM-Eval: A Streamlined Approach to Evaluating LLM Conversations" (Zilliz Learn), after Lin and Chen,
https://arxiv.org/abs/2305.13711. The words are in ``prompts/llm_eval.toml``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from judges.data.samples import text_field, turns_field
from judges.errors import MagistrateError
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
)
from judges.options import SEPARATED_BY_COMMAS, Descriptions, JudgeOptions, Strings
from judges.prompt_files import fill, prompt_file

FOUR_METRICS = ("content", "grammar", "relevance", "appropriateness")
"""The article's metrics, in its order."""

SCALES = {"0-5": (0, 5), "0-100": (0, 100)}
"""The article's scales: name to lowest and highest score."""

Metrics = Annotated[Strings | Descriptions, SEPARATED_BY_COMMAS]
METRIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class LLMEval(Judge):
    """Scores a reply given its context, with or without a human reference, or a whole dialogue.

    A sample with ``dialogue`` is judged as a whole dialogue. Any other sample needs ``context`` and ``response`` and may have
    ``reference``. An empty optional field counts as absent, because a CSV cell cannot distinguish the two. A conversation is a
    string, or a list of turns, each a string or an object with ``content`` or ``text`` and optionally ``role`` or ``speaker``.

    Raises:
        MagistrateError: There is no metric, or one is repeated or has an illegal name.
    """

    class Options(JudgeOptions):
        metrics: Metrics = Field(
            FOUR_METRICS, description="Metric names, or names to descriptions; the article's four by default."
        )
        scale: Literal["0-5", "0-100"] = Field("0-5", description="The range of every score.")
        use_reference: bool = Field(True, description="Whether a sample's `reference` is shown to the judge.")

    name = "llm-eval"
    summary = "a reply, or a whole dialogue: content, grammar, relevance, appropriateness, or metrics of your own"
    source = "https://arxiv.org/abs/2305.13711"
    fields = Fields(("context", "response"), ("reference",), instead="dialogue", answer="response", question="context")
    example = JudgeExample(
        {
            "context": ["Do you like hiking?", "I love it. I was in the hills last weekend.", "Nice! Was it not too cold?"],
            "response": "It was freezing, but the view from the top was worth it.",
            "reference": "A little, but we had warm jackets.",
        }
    )
    samples = "magistrate:sample/dialogues.jsonl"
    one_scale = True
    reordering = (
        "The metrics stand in the answer in the opposite order. The prompt names them in that order too, except for "
        "the article’s four metrics from 0 to 5, whose words are the article’s."
    )
    options: Options

    def __init__(self, metrics: Sequence[str] | Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(metrics=metrics, **options)
        self.metrics = _check_metrics(self.options.metrics)
        self.lowest, self.highest = SCALES[self.options.scale]
        legal = Literal[tuple(range(self.lowest, self.highest + 1))]  # type: ignore[valid-type]
        # Every token has at least one character, which bounds the answer. The slack is for white space, which some constraint
        # backends do not limit.
        longest = json.dumps(dict.fromkeys(self.metrics, self.highest), indent=1)
        self.form: AnswerSchema[AnswerModel] = AnswerSchema(
            answer_model("Scores", dict.fromkeys(self.metrics, legal)), len(longest) + 16
        )

    def calibrated(self, metric: str) -> bool:
        return not self.metrics.get(metric)

    def protocol(self) -> Mapping[str, Any]:
        return {"prompts": prompt_file("llm_eval"), "schema": self.evaluation_schema, "use_reference": self.options.use_reference}

    @property
    def levels(self) -> Mapping[str, MeasurementLevel]:
        return dict.fromkeys(self.metrics, "interval")

    @property
    def numeric_scores(self) -> Sequence[NumericScore]:
        legal = tuple(range(self.lowest, self.highest + 1))
        return [NumericScore(metric, (metric,), legal) for metric in self.metrics]

    @property
    def evaluation_schema(self) -> str:
        """The article's ``{evaluation_schema}``: its own words for its four metrics from 0 to 5, similar ones for others."""
        words = prompt_file("llm_eval")
        if self.metrics == dict.fromkeys(FOUR_METRICS, "") and (self.lowest, self.highest) == SCALES["0-5"]:
            return f"{words['instruction']}\n{words['four_metrics']}"
        properties = {
            name: {
                "title": name.replace("_", " ").replace("-", " ").capitalize(),
                "description": f"{name} score in the range of {self.lowest} to {self.highest}"
                + (f": {description}" if description else ""),
                "type": "integer",
            }
            for name, description in self.metrics.items()
        }
        schema = json.dumps({"properties": properties, "required": list(self.metrics)}, ensure_ascii=False)
        return f"{words['instruction']}\n{schema}"

    def render(self, sample: Sample) -> RenderedPrompts:
        values = {
            "evaluation_schema": self.evaluation_schema,
            "score_min": str(self.lowest),
            "score_max": str(self.highest),
        }
        if sample.get("dialogue"):
            form = "dialogue"
            values["dialog"] = turns_field(sample, "dialogue")
        else:
            values["context"] = turns_field(sample, "context")
            values["response"] = text_field(sample, "response")
            form = "turn"
            if self.options.use_reference and sample.get("reference"):
                form = "turn_with_reference"
                values["reference"] = text_field(sample, "reference")
        message = Message("user", fill(prompt_file("llm_eval")[form], values))
        return RenderedPrompts((Prompt((message,), self.form),))

    def reordered(self) -> LLMEval | None:
        metrics = dict(reversed(self.metrics.items()))
        return LLMEval(**{**dict(self.options), "metrics": metrics}) if len(metrics) > 1 else None

    def read(self, *answers: str) -> ParsedAnswer:
        (answer,) = answers
        return ParsedAnswer(scores=self.form.read(answer).model_dump(by_alias=True))


def _check_metrics(metrics: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Metric name to description, empty if the metric has none."""
    pairs = list(metrics.items()) if isinstance(metrics, Mapping) else [(name, "") for name in metrics]
    if not pairs:
        raise MagistrateError("LLM-Eval needs at least one metric")
    checked: dict[str, str] = {}
    for name, description in pairs:
        if not METRIC_NAME.fullmatch(name):
            raise MagistrateError(f"`{name}` cannot name a metric: use a letter, then letters, digits, `_` or `-`")
        if name in checked:
            raise MagistrateError(f"metric `{name}` is named twice")
        checked[name] = description
    return checked
