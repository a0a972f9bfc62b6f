"""The judges and the models that go by a short name: which model, which judge, which decoding."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from judges.affinity import Affinity, Evidence, Output
from judges.discovery import Discovery, Shrink, Task
from judges.engines import weights
from judges.errors import MagistrateError, reason_of
from judges.grouse import Grouse
from judges.input_file import check_file
from judges.insight import Insight
from judges.judge import Judge
from judges.jury import JURY
from judges.llm_eval import SCALES, LLMEval
from judges.located import SUFFIXES
from judges.pairwise import Disagreement, Language, Orders, Pairwise
from judges.qualeval import Kind
from judges.rubric import Rubric


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a judge. Its value comes as JSON, from a request, or as text, from a command line or a jury's file.

    Attributes:
        schema: The values it may have, as a JSON schema; ``take`` checks what is said here, and nothing else.
        says: What it may be as text, for a listing: its values, or a word in capitals.
        spell: The JSON value that a text stands for; a ValueError's words say what is wrong with the text.
    """

    schema: Mapping[str, Any]
    says: str
    spell: Callable[[str], object] = str

    def read(self, text: str) -> Any:
        """The value that a text stands for.

        Raises:
            ValueError: It stands for none that the option may have. The words go on from the option's name.
        """
        return self.take(self.spell(text))

    def take(self, value: object) -> Any:
        """A JSON value, as the judge takes it.

        Raises:
            ValueError: The option may not have it. The words go on from the option's name.
        """
        kinds = self.schema.get("anyOf", [self.schema])
        if not any(_obeys(value, kind) for kind in kinds):
            raise ValueError(f"must be {' or '.join(map(_in_words, kinds))}")
        return value


def _obeys(value: object, schema: Mapping[str, Any]) -> bool:
    kind = schema["type"]
    if isinstance(value, bool):
        return bool(kind == "boolean")
    match value:
        case str():
            return kind == "string" and not LONE_SURROGATE.search(value) and value in schema.get("enum", (value,))
        case int() | float():
            fits = kind == "number" or (kind == "integer" and isinstance(value, int))
            return fits and bool(schema["minimum"] <= value <= schema["maximum"])
        case list():
            return kind == "array" and all(_obeys(item, schema["items"]) for item in value)
        case dict():
            texts = {"type": "string"}
            return kind == "object" and all(
                _obeys(name, texts) and _obeys(part, schema["additionalProperties"]) for name, part in value.items()
            )
        case _:
            return False


def _in_words(schema: Mapping[str, Any]) -> str:
    match schema["type"]:
        case "boolean":
            return "true or false"
        case "string":
            return f"one of {', '.join(schema['enum'])}"
        case "integer":
            return f"a whole number from {schema['minimum']} to {schema['maximum']:,}"
        case "number":
            return f"a number from {schema['minimum']} to {schema['maximum']:,}"
        case "array":
            return "a list of strings"
        case _:
            return "an object of strings"


LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character: JSON can spell it, and no encoding can carry it."""

MOST_TOKENS = 1_000_000
"""Room for an answer, at most: more than any model's context."""

MOST_LISTED = 1_000
"""As many names or sentences as an answer may be asked for."""

STRINGS = {"type": "array", "items": {"type": "string"}}


def _one_of(*legal: str) -> Option:
    return Option({"type": "string", "enum": list(legal)}, ", ".join(legal))


def _whole(most: int) -> Option:
    """A whole number from 1 to ``most``."""
    return Option({"type": "integer", "minimum": 1, "maximum": most}, "NUMBER", _spell_whole)


def _spell_whole(text: str) -> object:
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 20 else text


def _spell_switch(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError("must be yes or no")
    return text == "yes"


NAMES = "a file of names, a JSON list or one a line"


def _spell_names(text: str) -> object:
    """What a file of names holds: a JSON list, or one name a line."""
    try:
        check_file(Path(text))
    except MagistrateError as error:
        raise ValueError(str(error)) from None
    try:
        content = Path(text).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"must be {NAMES}; {text} cannot be read ({reason_of(error)})") from None
    if not content.lstrip().startswith("["):
        return [line.strip() for line in content.splitlines() if line.strip()]
    try:
        return json.loads(content)
    except ValueError as error:
        raise ValueError(f"is not a JSON list: {error}") from None


def _spell_number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


SWITCH = Option({"type": "boolean"}, "yes, no", _spell_switch)
FACTOR = Option({"type": "number", "minimum": 0, "maximum": 1_000_000}, "NUMBER", _spell_number)
KIND = _one_of(*get_args(Kind))
METRICS = Option(
    {"anyOf": [STRINGS, {"type": "object", "additionalProperties": {"type": "string"}}]},
    "NAMES",
    lambda text: [name.strip() for name in text.split(",")],
)
"""Metrics of one's own: names, or as JSON also an object from each name to its description."""


@dataclass(frozen=True, slots=True)
class JudgeEntry:
    """A judge that can be called by name.

    Attributes:
        make: Makes it; its keywords are the options.
        asks: What it judges, in a line.
        needs: The fields of a sample, in words.
        source: Where the method comes from.
        options: Name to option.
        required: Options that must be given.
    """

    make: Callable[..., Judge]
    asks: str
    needs: str
    source: str
    options: Mapping[str, Option] = field(default_factory=dict)
    required: tuple[str, ...] = ()

    def values(self, name: str, options: Mapping[str, Any], *, as_text: bool = False) -> dict[str, Any]:
        """The options as the judge takes them.

        Args:
            name: The judge's name, for error messages.
            options: Name to JSON value.
            as_text: Whether the values are text, as a command line has them, in place of JSON.

        Raises:
            MagistrateError: There is no such option, or it may not have this value.
        """
        found: dict[str, Any] = {}
        for key, value in options.items():
            if key not in self.options:
                known = ", ".join(self.options) or "none"
                raise MagistrateError(f"judge `{name}` has no option `{key}`; it has: {known}")
            option = self.options[key]
            try:
                found[key] = option.read(value) if as_text else option.take(value)
            except ValueError as error:
                raise MagistrateError(f"option `{key}` of judge `{name}` {error}") from None
        return found


QUALEVAL = "https://arxiv.org/abs/2311.02807"

JUDGES: Mapping[str, JudgeEntry] = {
    LLMEval.name: JudgeEntry(
        LLMEval,
        asks="a reply, or a whole dialogue: content, grammar, relevance, appropriateness, or metrics of your own",
        needs=str(LLMEval.fields),
        source="https://arxiv.org/abs/2305.13711",
        options={"metrics": METRICS, "scale": _one_of(*SCALES), "use_reference": SWITCH},
    ),
    Grouse.name: JudgeEntry(
        Grouse,
        asks="an answer grounded in references: relevancy, completeness, usefulness, faithfulness",
        needs=str(Grouse.fields),
        source="https://arxiv.org/abs/2409.06595",
        options={"per_metric": SWITCH, "max_tokens": _whole(MOST_TOKENS)},
    ),
    Pairwise.name: JudgeEntry(
        Pairwise,
        asks="which of two answers is better, in both orders",
        needs=str(Pairwise.fields),
        source="https://github.com/open-compass/opencompass",
        options={
            "orders": _one_of(*get_args(Orders)),
            "disagreement": _one_of(*get_args(Disagreement)),
            "language": _one_of(*get_args(Language)),
            "reasoning": SWITCH,
            "max_tokens": _whole(MOST_TOKENS),
        },
    ),
    Affinity.name: JudgeEntry(
        Affinity,
        asks="how much an instance has of each attribute, 1 to 5, with evidence",
        needs=str(Affinity.fields),
        source=QUALEVAL,
        options={
            "attributes": Option(STRINGS, "FILE", _spell_names),
            "kind": KIND,
            "output": _one_of(*get_args(Output)),
            "evidence": _one_of(*get_args(Evidence)),
        },
        required=("attributes",),
    ),
    Discovery.name: JudgeEntry(
        Discovery,
        asks="which domains or sub-tasks a few instances have",
        needs=f"{Discovery.fields}: a list",
        source=QUALEVAL,
        options={"kind": KIND, "task": _one_of(*get_args(Task)), "most": _whole(MOST_LISTED)},
    ),
    Shrink.name: JudgeEntry(
        Shrink,
        asks="which of many attributes are the best",
        needs=f"{Shrink.fields}: a list",
        source=QUALEVAL,
        options={"kind": KIND, "factor": FACTOR, "least": _whole(MOST_LISTED)},
    ),
    Insight.name: JudgeEntry(
        Insight,
        asks="what the figures of a breakdown say, in a few sentences",
        needs=str(Insight.fields),
        source=QUALEVAL,
        options={"most": _whole(MOST_LISTED)},
    ),
}

RUBRIC = JudgeEntry(Rubric.load, "metrics of your own", "the fields that the rubric names", "the file", {"reasoning": SWITCH})


def open_judge(name: str, options: Mapping[str, str] | None = None, **given: Any) -> Judge:
    """A judge by name, or from a rubric file.

    Args:
        name: A name in ``JUDGES``, or a ``.toml``, ``.yaml`` or ``.yml`` file.
        options: Options as text.
        given: Options as values; those that are ``None`` are left at their defaults.

    Raises:
        MagistrateError: There is no such judge or option, an option has a value it may not have, or the rubric is not in order.
    """
    file = Path(name) if Path(name).suffix.lower() in SUFFIXES else None
    if file is None and name not in JUDGES:
        listed = ", ".join(JUDGES)
        raise MagistrateError(f"there is no judge `{name}`; there are {listed}, and rubrics: files in .toml or .yaml")
    entry = RUBRIC if file else JUDGES[name]
    values = {key: value for key, value in given.items() if value is not None}
    for key, value in entry.values(name, options or {}, as_text=True).items():
        if key in values:
            raise MagistrateError(f"option `{key}` of judge `{name}` is given twice")
        values[key] = value
    for key in entry.required:
        if key not in values:
            raise MagistrateError(f"judge `{name}` needs `-O {key}=FILE`: {NAMES}")
    if file is None:
        return entry.make(**values)
    judge = entry.make(file, **values)
    check_own_name(judge, str(file))
    return judge


def check_own_name(rubric: Judge, place: str) -> None:
    """See that a rubric is not called what another judge is called.

    Args:
        rubric: The rubric's judge.
        place: Where the rubric stands, for the error message.

    Raises:
        MagistrateError: It is.
    """
    if rubric.name in (*JUDGES, JURY):
        raise MagistrateError(f"{place}: `{rubric.name}` is the name of another judge; give the rubric one of its own")


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model that can be called by name.

    Attributes:
        repository: Where it lives: an embedded model's name, or a repository on the Hugging Face hub.
        good_for: What to use it for.
        weights_gib: Memory of its weights in bfloat16.
        judge: The judge it is used with where none is named.
    """

    repository: str
    good_for: str
    weights_gib: float
    judge: str = LLMEval.name

    @property
    def embedded(self) -> bool:
        return (weights.EMBEDDED / self.repository).is_dir()

    @property
    def gpu_gib(self) -> float:
        """GPU memory to judge with it at a context of 8,192: the weights, 4 GiB of keys and values, and a tenth for the rest."""
        return (self.weights_gib + 4.0) * 1.1


EMBEDDED = "magistrate-tiny"
"""The model that comes with Magistrate, which judges where none is named."""

MODELS: Mapping[str, ModelEntry] = {
    EMBEDDED: ModelEntry(EMBEDDED, "trying the stack on a CPU; not for real judgements", 0.01),
    "llama-3.1-8b": ModelEntry("meta-llama/Llama-3.1-8B-Instruct", "LLM-Eval as its article runs it", 15.0),
    "llama-3-grouse": ModelEntry("illuin/llama-3-grouse", "grounded question answering", 15.0, judge=Grouse.name),
}
"""Presets: each name stands for a model, its judge and ``DECODING``."""

DECODING = "greedy (temperature 0), constrained to the judge's JSON"
"""How every model answers. LLM-Eval's article asks for top_k 1 and top_p 0, which means the same; vLLM refuses a top_p of 0."""


def repository(model: str) -> str:
    """The repository or folder that a model's short name stands for; any other name stands for itself."""
    return MODELS[model].repository if model in MODELS else model


def usual_judge(model: str | None) -> str:
    """The judge that a model's short name stands for; LLM-Eval for any other model."""
    return MODELS[model].judge if model is not None and model in MODELS else LLMEval.name
