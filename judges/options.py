"""Options of a judge: a Pydantic model that each judge declares, read from JSON (a request) or from text (a command line)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError, WrapValidator
from pydantic_core import ErrorDetails

from judges.errors import MagistrateError, reason_of
from judges.input_file import check_file

NAMES = "a file of names, a JSON list or one a line"


@dataclass(frozen=True, slots=True)
class Spelling:
    """How an option is written as text: what a listing and an error message say, and what reads it.

    ``read`` returns the JSON value that a text stands for; a ValueError's words say what is wrong with the text.
    """

    says: str
    read: Callable[[str], object]
    help: str = ""
    file: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """An option as a listing shows it: the JSON schema of its values, how they are written as text, and its default."""

    name: str
    legal: Mapping[str, Any]
    spelling: Spelling
    required: bool
    default: Any


class JudgeOptions(BaseModel):
    """The options of a judge: each field's type, bounds, default and description are those of one option."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def read(cls, judge: str, values: Mapping[str, Any]) -> Self:
        """The options that JSON values give; ``judge`` is the judge's name, for error messages.

        Raises:
            MagistrateError: There is no such option, it may not have this value, or one that must be given is missing.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise MagistrateError(cls._complaint(judge, error.errors()[0])) from None

    @classmethod
    def spelt(cls, judge: str, texts: Mapping[str, str]) -> dict[str, Any]:
        """The JSON values that texts stand for. Those of the wrong type or out of bounds are left for ``read`` to refuse.

        Raises:
            MagistrateError: There is no such option, or a text cannot be read as its value.
        """
        listed = cls.listed()
        values = {}
        for name, text in texts.items():
            if name not in listed:
                raise MagistrateError(cls._unknown(judge, name))
            try:
                values[name] = listed[name].spelling.read(text)
            except ValueError as error:
                raise MagistrateError(f"option `{name}` of judge `{judge}` {error}") from None
        return values

    @classmethod
    def listed(cls) -> Mapping[str, Option]:
        """Every option by its name."""
        schemas = cls.model_json_schema().get("properties", {})
        found = {}
        for name, field in cls.model_fields.items():
            legal = {key: value for key, value in schemas[name].items() if key not in ("title", "default")}
            usual = (
                Spelling(", ".join(map(str, legal["enum"])), str)
                if "enum" in legal
                else SPELLINGS.get(str(legal.get("type")), TEXT)
            )
            spelling = next((one for one in field.metadata if isinstance(one, Spelling)), usual)
            default = None if field.is_required() else field.get_default(call_default_factory=True)
            found[name] = Option(name, legal, spelling, field.is_required(), default)
        return found

    @classmethod
    def _unknown(cls, judge: str, name: object) -> str:
        return f"judge `{judge}` has no option `{name}`; it has: {', '.join(cls.model_fields) or 'none'}"

    @classmethod
    def _complaint(cls, judge: str, problem: ErrorDetails) -> str:
        name, *inside = problem["loc"]
        if problem["type"] == "extra_forbidden":
            return cls._unknown(judge, name)
        if problem["type"] == "missing" and not inside:
            return f"judge `{judge}` needs the option `{name}`: give it in `options`"
        own = problem["type"] == "value_error" and not inside
        words = None if own else in_words(cls.listed()[str(name)].legal)
        said = f"must be {words}" if words else problem["msg"].removeprefix("Value error, ")
        return f"option `{name}` of judge `{judge}` {said}"


def in_words(schema: Mapping[str, Any]) -> str | None:
    """The values of this JSON schema in words; ``None`` for schemas that have none here."""
    match schema:
        case {"anyOf": kinds}:
            words = [in_words(kind) or "" for kind in kinds]
            return " or ".join(words) if all(words) else None
        case {"enum": legal}:
            return f"one of {', '.join(map(str, legal))}"
        case {"type": "boolean"}:
            return "true or false"
        case {"type": "integer" | "number" as kind, "minimum": least, "maximum": most}:
            return f"a {'whole ' * (kind == 'integer')}number from {least:,} to {most:,}"
        case {"type": "array", "items": {"type": "string"}}:
            return "a list of strings"
        case {"type": "object", "additionalProperties": {"type": "string"}}:
            return "an object of strings"
        case _:
            return None


def _switch(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError("must be yes or no")
    return text == "yes"


def _number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


def _names(text: str) -> object:
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


def _writable(text: str) -> str:
    """Refuse half of a character: JSON can spell it, and no encoding can carry it."""
    text.encode()
    return text


def _as_given(value: Any, check: Callable[[Any], Any]) -> Any:
    check(value)
    return value


TEXT = Spelling("TEXT", str)
SPELLINGS = {
    "boolean": Spelling("yes, no", _switch),
    "integer": Spelling("NUMBER", lambda text: int(text) if re.fullmatch("[0-9]{1,19}", text) else text),
    "number": Spelling("NUMBER", _number),
}
"""A JSON type to how its values are written."""

FILE_OF_NAMES = Spelling("FILE", _names, NAMES, file=True)
SEPARATED_BY_COMMAS = Spelling("NAMES", lambda text: [name.strip() for name in text.split(",")])

Writable = Annotated[str, AfterValidator(_writable)]
Strings = Annotated[tuple[Writable, ...], Strict(False)]
Descriptions = Annotated[dict[Writable, Writable], Strict(False)]
"""Names to what they mean."""

MaxTokens = Annotated[int, Field(ge=1, le=1_000_000)]
"""Room for an answer: at most more than any model's context."""

MaxListed = Annotated[int, Field(ge=1, le=1_000)]
"""As many names or sentences as an answer may be asked for."""

Factor = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False), WrapValidator(_as_given)]
"""A number, which stays whole where it is given so: a version of a judge has the number as it was given."""
