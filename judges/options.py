"""Options of a judge: a Pydantic model declared by each judge, read from JSON (a request) or from text (a command line)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError, WrapValidator
from pydantic_core import ErrorDetails

from judges.data.files import check_file
from judges.errors import MagistrateError, reason_of

NAMES = "a file of names, a JSON list or one a line"


@dataclass(frozen=True, slots=True)
class Spelling:
    """How an option is written as text: a placeholder for listings, and a function that parses a text or raises ValueError."""

    says: str
    read: Callable[[str], object]
    help: str = ""
    file: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """An option for listings: the JSON schema of its values, their spelling as text, and its default."""

    name: str
    legal: Mapping[str, Any]
    spelling: Spelling
    required: bool
    default: Any


class Settings(BaseModel):
    """Settings, each a field with its type, bounds, default and description. ``noun`` is what messages call one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    noun: ClassVar[str] = "setting"

    @classmethod
    def of(cls, **settings: Any) -> Self:
        """Check settings.

        Raises:
            MagistrateError: One is unknown or has an illegal value; the message names the first.
        """
        try:
            return cls(**settings)
        except ValidationError as error:
            name, fault = fault_in_words(error, cls)
            raise MagistrateError(f"{cls.noun} `{name}` {fault}") from None

    def flag(self, name: str) -> str:
        """A setting's flag as one types it: with ``--no-`` where it is off."""
        return ("--no-" if getattr(self, name) is False else "--") + name.replace("_", "-")


class JudgeOptions(BaseModel):
    """The options of a judge: each field declares the type, bounds, default and description of one option."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def read(cls, judge: str, values: Mapping[str, Any]) -> Self:
        """Read options from JSON values; ``judge`` is the judge's name, for error messages.

        Raises:
            MagistrateError: An option is unknown or missing, or has an illegal value.
        """
        if unknown := [name for name in values if name not in cls.model_fields]:
            raise MagistrateError(cls._unknown(judge, unknown[0]))
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise MagistrateError(cls._complaint(judge, error.errors()[0])) from None

    @classmethod
    def spelt(cls, judge: str, texts: Mapping[str, str]) -> dict[str, Any]:
        """Parse texts to JSON values. Values of the wrong type or out of bounds are left for ``read`` to refuse.

        Raises:
            MagistrateError: An option is unknown, or its text cannot be parsed.
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
        options = {}
        for name, field in cls.model_fields.items():
            legal = {key: value for key, value in schemas[name].items() if key not in ("title", "default")}
            words = ", ".join(map(str, legal.get("enum", ())))
            usual = Spelling(words, str) if words else SPELLINGS.get(str(legal.get("type")), TEXT)
            spelling = next((part for part in field.metadata if isinstance(part, Spelling)), usual)
            default = None if field.is_required() else field.get_default(call_default_factory=True)
            options[name] = Option(name, legal, spelling, field.is_required(), default)
        return options

    @classmethod
    def _unknown(cls, judge: str, name: object) -> str:
        return f"judge `{judge}` has no option `{name}`; it has: {', '.join(cls.model_fields) or 'none'}"

    @classmethod
    def _complaint(cls, judge: str, problem: ErrorDetails) -> str:
        name, *inside = problem["loc"]
        if problem["type"] == "missing" and not inside:
            return f"judge `{judge}` needs the option `{name}`: give it in `options`"
        validated = problem["type"] == "value_error" and not inside
        words = None if validated else in_words(cls.listed()[str(name)].legal)
        requirement = f"must be {words}" if words else problem["msg"].removeprefix("Value error, ")
        return f"option `{name}` of judge `{judge}` {requirement}"


def fault_in_words(error: ValidationError, model: type[BaseModel]) -> tuple[str, str]:
    """The first invalid field of a model, and a clause that says which values it may have and which it was given."""
    fault = error.errors()[0]
    name = str(fault["loc"][0])
    schema = model.model_json_schema()["properties"].get(name)
    if schema is None:
        return name, "is unknown"
    words = None if fault["type"] == "value_error" else in_words(schema)
    return name, f"must be {words}, not {fault['input']!r}" if words else fault["msg"].removeprefix("Value error, ")


def in_words(schema: Mapping[str, Any]) -> str | None:
    """Describe the values of a JSON schema; ``None`` if the schema is of a kind not described here."""
    match schema:
        case {"anyOf": kinds}:
            words = [in_words(kind) or "" for kind in kinds if kind != {"type": "null"}]
            return " or ".join(words) if all(words) else None
        case {"enum": legal}:
            return f"one of {', '.join(map(str, legal))}"
        case {"type": "boolean"}:
            return "true or false"
        case {"type": "integer" | "number" as kind, "minimum": least, "maximum": most}:
            return f"a {'whole ' * (kind == 'integer')}number from {least:,} to {most:,}"
        case {"type": "integer", "minimum": least}:
            return f"a whole number of at least {least:,}"
        case {"type": "string"}:
            return "a non-empty string" if schema.get("minLength") else "a string"
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
    """Read a file of names: a JSON list, or one name a line."""
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
    """Refuse a lone surrogate, which JSON can spell but no encoding can represent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair, which is not a character") from None
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
"""JSON type to the spelling of its values."""

FILE_OF_NAMES = Spelling("FILE", _names, NAMES, file=True)
SEPARATED_BY_COMMAS = Spelling("NAMES", lambda text: [name.strip() for name in text.split(",")])

Writable = Annotated[str, AfterValidator(_writable)]
Strings = Annotated[tuple[Writable, ...], Strict(False)]
Descriptions = Annotated[dict[Writable, Writable], Strict(False)]
"""Name to meaning."""

MaxTokens = Annotated[int, Field(ge=1, le=1_000_000)]
"""Room for an answer; the bound exceeds any model's context."""

MaxListed = Annotated[int, Field(ge=1, le=1_000)]
"""Number of names or sentences that an answer may hold."""

Factor = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False), WrapValidator(_as_given)]
"""A number that stays an integer if given as one, because the version of a judge hashes the value as given."""
