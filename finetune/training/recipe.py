"""Recipes: TOML files with every setting of a training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from judges.data.described import described, read_toml
from judges.errors import MagistrateError

FOLDER = Path(__file__).parents[1] / "recipes"
SUFFIX = ".toml"

ROOMY = 40 * 10**9
"""Bytes of a GPU on which an 8B model is trained unquantised: that is faster, and closer to what is served."""

Weights = Literal["8bit", "nf4", "bfloat16", "float32"]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Part(BaseModel):
    """Base of a recipe's tables."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Lora(Part):
    """The adapter (Hu et al. 2021)."""

    rank: int = Field(gt=0, description="Rank of each pair of matrices.")
    alpha: float = Field(gt=0, description="The adapter's output is scaled by alpha over rank.")
    dropout: float = Field(0.0, ge=0, lt=1)
    kept: Literal["bfloat16", "float32"] = Field("float32", description="Number format of the adapter that a training leaves.")
    targets: Text | tuple[Text, ...] = Field("all-linear", description="Layers to adapt, by the ends of their names.")


class Rows(Part):
    """Length and packing of rows."""

    length: int = Field(gt=0, description="Most tokens of a row.")
    packing: bool | Literal["shared"] = Field(
        True,
        description="Whether rows share a pack, isolated from each other; `shared`: what they begin with alike is computed once.",
    )


class Training(Part):
    """The optimisation."""

    objective: Literal["answers", "reward"] = Field(
        "answers", description="Whether the words of answers are learned, or a head whose number is higher for the better one."
    )
    learning_rates: tuple[Annotated[float, Field(gt=0)], ...] = Field(min_length=1, description="Each is tried.")
    schedule: Literal["constant", "constant_with_warmup", "linear", "cosine"] = "constant"
    warmup_steps: int = Field(0, ge=0)
    batch: int = Field(
        gt=0, description="Size of a step in multiples of `length` tokens, over all processes; of rewards, in pairs."
    )
    at_once: int = Field(
        1,
        gt=0,
        description="Size of a pack, which a process takes at a time, in multiples of `length` tokens.",
    )
    steps: int | None = Field(None, gt=0)
    epochs: float | None = Field(None, gt=0)
    optimizer: Literal["adamw", "adamw_8bit"] = "adamw"
    weight_decay: float = Field(0.0, ge=0)
    clip: float = Field(1.0, ge=0, description="Largest norm of the gradient; 0 for any.")
    checkpoints: int | None = Field(None, gt=0, description="Steps between two, each with a validation; an epoch if left out.")
    gradient_checkpointing: bool = False

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either `steps` or `epochs`")
        if self.schedule == "constant" and self.warmup_steps:
            raise ValueError("a constant schedule has no `warmup_steps`: choose `constant_with_warmup`")
        return self


class Recipe(Part):
    """A recipe for training a model."""

    name: str
    title: Text
    source: Text = Field(description="Its source, and what is stated there.")
    base: Text = Field(description="The model: a folder, an embedded model's name, or a repository on the hub.")
    weights: Weights = Field(description="Number format of the base's weights. The adapter is trained in float32.")
    compute: Literal["bfloat16", "float32"] = Field(description="Number format of matrix products.")
    chat_template: Text | None = Field(None, description="For a base without one: a name in `recipes/`, or a file.")
    pad_token: Text | None = Field(None, description="For a base without one; its end of text by default.")
    start_from: Text | None = Field(None, description="Folder of an adapter to train further; a new one by default.")
    lora: Lora
    rows: Rows
    training: Training

    @model_validator(mode="after")
    def _computes(self) -> Self:
        if self.weights == "bfloat16" and self.compute == "float32":
            raise ValueError('weights of bfloat16 need compute = "bfloat16"')
        return self

    @classmethod
    def load(cls, name: str | Path, variant: str | None = None, **changed: Any) -> Self:
        """Read a recipe.

        Args:
            name: One of ``recipe_names()``, or a TOML file.
            variant: One of its ``[variants]``, whose values replace the recipe's.
            changed: Values that replace the recipe's, such as ``base``; ``None`` keeps one.

        Raises:
            MagistrateError: The recipe or variant does not exist, or a value is not allowed; the message names the key.
        """
        path = _path(name)
        content = read_toml(path, "a recipe")
        variants = content.pop("variants", {})
        if variant is not None:
            if variant not in variants:
                known = f"give one of {', '.join(variants)}" if variants else "it has none"
                raise MagistrateError(f"the recipe {path} has no variant `{variant}`: {known}")
            content = _merged(content, variants[variant])
        content |= {key: value for key, value in changed.items() if value is not None}
        return described(cls, {"name": path.stem if variant is None else f"{path.stem}-{variant}", **content}, path)

    def as_fields(self) -> dict[str, Any]:
        """The recipe as JSON values. A setting added later is omitted at its default, so that earlier trainings are resumed."""
        content = self.model_dump(mode="json")
        if self.training.objective == "answers":
            del content["training"]["objective"]
        return content

    def template(self) -> str | None:
        """Read the chat template that it names.

        Raises:
            MagistrateError: The file cannot be read.
        """
        if self.chat_template is None:
            return None
        path = Path(self.chat_template)
        path = path if path.suffix else FOLDER / f"{self.chat_template}.jinja"
        try:
            return path.read_text(encoding="utf-8")
        except OSError as error:
            raise MagistrateError(f"the chat template {path} cannot be read: {error.strerror}") from None


def usual_variant(name: str | Path) -> str | None:
    """Choose the variant of a recipe for this machine: ``bf16``, if it has that, on a GPU with room for it.

    Raises:
        MagistrateError: The recipe does not exist, or cannot be read.
    """
    import torch

    if not torch.cuda.is_available() or torch.cuda.get_device_properties(0).total_memory < ROOMY:
        return None
    return "bf16" if "bf16" in read_toml(_path(name), "a recipe").get("variants", {}) else None


def _path(name: str | Path) -> Path:
    path = Path(name)
    if path.suffix.lower() == SUFFIX:
        return path
    if str(name) not in recipe_names():
        raise MagistrateError(f"there is no recipe `{name}`: give one of {', '.join(recipe_names())}, or a {SUFFIX} file")
    return FOLDER / f"{name}{SUFFIX}"


def recipe_names() -> list[str]:
    """List the recipes that come with Magistrate."""
    return sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}"))


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge tables recursively; any other value is replaced."""
    merged = dict(base)
    for key, value in changes.items():
        before = merged.get(key)
        merged[key] = _merged(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    return merged
