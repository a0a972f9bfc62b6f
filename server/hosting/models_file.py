"""Reads ``models.toml``, which says what models a server hosts, and how."""

from __future__ import annotations

import json
import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from judges.catalog import repository
from judges.data.described import first_fault
from judges.engines.engine import Engine
from judges.engines.settings import MEANINGLESS, EngineSettings
from judges.engines.vllm.async_engine import AsyncVLLMEngine
from judges.errors import MagistrateError

PRESETS = ("cpu", "24gb", "80gb")
"""Files that come with Magistrate, named by the GPU memory they are for."""

ONLY_VLLM = frozenset({"data_parallel", "adapters", "max_num_batched_tokens", "max_completion_tokens"})
"""Fields that mean nothing to other engines."""


class ModelSpec(EngineSettings):
    """One model of ``models.toml``: the settings of every engine, and those by which models share a machine.

    Attributes:
        window: Answers written at once in bulk; ``max_num_seqs`` in the file.
        gpu_memory: Share of the GPU's memory that it may use; ``memory`` in the file.
        data_parallel: Copies of the model, each on GPUs of its own.
        max_num_batched_tokens: Tokens computed in one step; vLLM's choice by default. With fewer, calls wait less.
        adapters: LoRA adapters that may be loaded at once; 0 for none.
        max_lora_rank: The largest rank of an adapter.
        answer_schema: JSON schema of answers of ``/v1/chat/completions``, unless a client asks for a format of its own. A table,
            or the name of a JSON file beside this one.
        max_completion_tokens: Tokens of a chat answer for which a client gives no limit. It then ends with ``length``.
    """

    model: str = Field(min_length=1)
    max_model_len: int | None = Field(None, ge=16)
    window: int | None = Field(None, ge=1, le=4096, alias="max_num_seqs")
    gpu_memory: float | None = Field(None, gt=0, le=1, alias="memory")
    data_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    max_num_batched_tokens: Annotated[int, Field(ge=64)] | None = None
    adapters: Annotated[int, Field(ge=0, le=64)] = 0
    max_lora_rank: Literal[8, 16, 32, 64, 128, 256] = 64
    answer_schema: dict[str, Any] | str | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] = 2048

    @model_validator(mode="after")
    def _fits(self) -> ModelSpec:
        given = self.model_fields_set
        others = ONLY_VLLM if self.engine != "vllm" else frozenset()
        meaningless = (MEANINGLESS[self.engine] - {"base_url"} | others | {"server", "ray", "actors"}) & given
        if meaningless:
            names = sorted(type(self).model_fields[name].alias or name for name in meaningless)
            raise ValueError(f"{', '.join(names)} has no meaning for engine {self.engine}")
        if (self.engine == "endpoint") != (self.base_url is not None):
            raise ValueError("base_url must be set for engine endpoint, and for no other")
        return self

    @property
    def schema_of_answers(self) -> dict[str, Any] | None:
        """The JSON schema of ``answer_schema``."""
        assert not isinstance(self.answer_schema, str), "read_models reads the file it names"
        return self.answer_schema

    def open(self, *, sleeps: bool = False) -> Engine:
        """Make the engine without starting it; vLLM in processes of its own.

        Args:
            sleeps: Whether it frees its memory while other models answer, if it can.

        Raises:
            MagistrateError: There is no such model, or the engine is not installed.
        """
        if self.engine != "vllm":
            return super().open()
        return AsyncVLLMEngine(repository(self.model), sleeps=sleeps, **self.engine_options())

    def vllm_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            **super().vllm_options(),
            "data_parallel_size": self.data_parallel if self.data_parallel > 1 else None,
            "max_num_batched_tokens": self.max_num_batched_tokens,
        }
        if self.adapters:
            options |= {"enable_lora": True, "max_loras": self.adapters, "max_lora_rank": self.max_lora_rank}
        return {name: value for name, value in options.items() if value is not None}


class ModelsFile(BaseModel):
    """A whole ``models.toml``.

    Attributes:
        models: Served name to model.
        default: The model of a request that names none; the first by default.
        swap: Whether the models are swapped in and out of memory, because they do not fit together.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$")], ModelSpec] = Field(min_length=1)
    default: str | None = None
    swap: bool = False

    @model_validator(mode="after")
    def _has_default(self) -> ModelsFile:
        if self.default is not None and self.default not in self.models:
            raise ValueError(f"default: there is no model `{self.default}` in this file")
        return self

    @property
    def first(self) -> str:
        return self.default or next(iter(self.models))


def read_models(source: str) -> ModelsFile:
    """Read a ``models.toml``, or one of ``PRESETS`` by its name.

    Raises:
        MagistrateError: It cannot be read, or a value is not allowed; the message names the key.
    """
    if source in PRESETS:
        text, folder = resources.files("server.hosting").joinpath(f"presets/{source}.toml").read_text(), None
    else:
        path = Path(source)
        try:
            text, folder = path.read_text(encoding="utf-8"), path.parent
        except (OSError, UnicodeDecodeError) as error:
            presets = ", ".join(PRESETS)
            raise MagistrateError(f"{source} cannot be read ({error}); give a models.toml, or a preset: {presets}") from None
    try:
        content = tomllib.loads(text)
        file = ModelsFile.model_validate(content)
        schemas = {name: _schema(spec, folder) for name, spec in file.models.items()}
    except tomllib.TOMLDecodeError as error:
        raise MagistrateError(f"{source} is not TOML: {error}") from None
    except ValidationError as error:
        raise MagistrateError(f"{source}: {first_fault(error, ModelsFile)}") from None
    except ValueError as error:
        raise MagistrateError(f"{source}: {error}") from None
    models = {
        name: (spec if folder is None else spec.relative_to(folder)).model_copy(update={"answer_schema": schemas[name]})
        for name, spec in file.models.items()
    }
    return file.model_copy(update={"models": models})


def _schema(spec: ModelSpec, folder: Path | None) -> dict[str, Any] | None:
    if not isinstance(spec.answer_schema, str):
        return spec.answer_schema
    path = (folder or Path()) / spec.answer_schema
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"answer_schema {path} cannot be read: {error}") from None
    if not isinstance(schema, dict):
        raise ValueError(f"answer_schema {path} must hold a JSON schema, an object")
    return schema


def preset_for_this_machine() -> str:
    """Choose the preset for this machine's GPU, or ``cpu`` without one."""
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    gib = torch.cuda.get_device_properties(0).total_memory / (1 << 30)
    return "80gb" if gib > 60 else "24gb"
