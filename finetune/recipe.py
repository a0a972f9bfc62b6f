"""A recipe: everything that decides how a model is trained. A TOML file says it, and is the one place that does."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from judges.errors import MagistrateError, reason_of
from judges.input_file import check_file

FOLDER = Path(__file__).parent / "recipes"
SUFFIX = ".toml"

Weights = Literal["8bit", "nf4", "bfloat16", "float32"]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Lora(Part):
    """The adapter (Hu et al. 2021)."""

    rank: int = Field(gt=0, description="Of each pair of matrices.")
    alpha: float = Field(gt=0, description="What an adapter adds is scaled by alpha over rank.")
    dropout: float = Field(0.0, ge=0, lt=1)
    targets: Text | tuple[Text, ...] = Field("all-linear", description="Layers that are adapted, by the ends of their names.")


class Rows(Part):
    """How rows become batches."""

    length: int = Field(gt=0, description="Most tokens of a row.")
    packing: bool = Field(True, description="Whether several rows share a pack. They never see each other.")


class Training(Part):
    """The optimisation."""

    learning_rates: tuple[Annotated[float, Field(gt=0)], ...] = Field(min_length=1, description="Each is tried.")
    schedule: Literal["constant", "constant_with_warmup", "linear", "cosine"] = "constant"
    warmup_steps: int = Field(0, ge=0)
    batch: int = Field(gt=0, description="Lengths of a step: so many times `length` tokens, over all processes.")
    at_once: int = Field(1, gt=0, description="Lengths of a pack, which a process takes at a time; a step accumulates packs.")
    steps: int | None = Field(None, gt=0)
    epochs: float | None = Field(None, gt=0)
    optimizer: Literal["adamw", "adamw_8bit"] = "adamw"
    weight_decay: float = Field(0.0, ge=0)
    clip: float = Field(1.0, ge=0, description="Longest gradient; 0 for any.")
    checkpoints: int | None = Field(None, gt=0, description="Steps between two, each with its validation; an epoch if left out.")
    gradient_checkpointing: bool = False

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either `steps` or `epochs`")
        if self.schedule == "constant" and self.warmup_steps:
            raise ValueError("a constant schedule has no `warmup_steps`; there is `constant_with_warmup`")
        return self


class Recipe(Part):
    """How a model is trained."""

    name: str
    title: Text
    source: Text = Field(description="Where it comes from, and what of it is stated there.")
    base: Text = Field(description="The model: a folder, an embedded one's name, or a repository on the hub.")
    weights: Weights = Field(description="How the base's weights are held. The adapter's are float32 with any.")
    compute: Literal["bfloat16", "float32"] = Field(description="What products of matrices are computed in.")
    chat_template: Text | None = Field(None, description="For a base without one: a name in `recipes/`, or a file.")
    pad_token: Text | None = Field(None, description="For a base without one; its end of text by default.")
    lora: Lora
    rows: Rows
    training: Training

    @model_validator(mode="after")
    def _computes(self) -> Self:
        if self.weights == "bfloat16" and self.compute == "float32":
            raise ValueError("weights of bfloat16 are computed with in bfloat16")
        return self

    @classmethod
    def load(cls, name: str | Path, variant: str | None = None, **changed: Any) -> Self:
        """Read a recipe.

        Args:
            name: One of ``recipe_names()``, or a TOML file.
            variant: One of its ``[variants]``, whose values take the place of the recipe's.
            changed: Values of the recipe itself that a user has said otherwise, such as ``base``; ``None`` leaves one as it is.

        Raises:
            MagistrateError: There is no such recipe or variant, or its file is wrong, with the place.
        """
        path = Path(name)
        if path.suffix.lower() != SUFFIX:
            if str(name) not in recipe_names():
                raise MagistrateError(f"there is no recipe `{name}`: give one of {', '.join(recipe_names())}, or a {SUFFIX} file")
            path = FOLDER / f"{name}{SUFFIX}"
        check_file(path)
        try:
            found = tomllib.loads(path.read_bytes().decode())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise MagistrateError(f"the recipe {path} cannot be read: {reason_of(error)}") from None
        variants = found.pop("variants", {})
        if variant is not None:
            if variant not in variants:
                there = f"there are {', '.join(variants)}" if variants else "it has none"
                raise MagistrateError(f"the recipe {path} has no variant `{variant}`; {there}")
            found = _laid_over(found, variants[variant])
        found |= {key: value for key, value in changed.items() if value is not None}
        try:
            return cls.model_validate({"name": path.stem if variant is None else f"{path.stem}-{variant}", **found})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise MagistrateError(f"the recipe {path}: `{place}`: {first['msg'].removeprefix('Value error, ')}") from None

    def template(self) -> str | None:
        """The text of the chat template that it names.

        Raises:
            MagistrateError: There is no such file.
        """
        if self.chat_template is None:
            return None
        path = Path(self.chat_template)
        path = path if path.suffix else FOLDER / f"{self.chat_template}.jinja"
        try:
            return path.read_text(encoding="utf-8")
        except OSError as error:
            raise MagistrateError(f"the chat template {path} cannot be read: {error.strerror}") from None


def recipe_names() -> list[str]:
    """The recipes that come with Magistrate."""
    return sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}"))


def _laid_over(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are laid over each other; of anything else the upper one is taken."""
    both = dict(under)
    for key, value in over.items():
        there = both.get(key)
        both[key] = _laid_over(there, value) if isinstance(there, Mapping) and isinstance(value, Mapping) else value
    return both
