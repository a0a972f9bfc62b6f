"""``models.toml``: which models a server hosts, and how."""

from __future__ import annotations

import json
import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from judges.catalog import repository
from judges.engines.async_vllm import AsyncVLLMEngine
from judges.engines.engine import Engine
from judges.engines.settings import EngineSettings
from judges.errors import MagistrateError

PRESETS = ("cpu", "24gb", "80gb")
"""Files that come with Magistrate, by the memory they are for."""


class ModelSpec(EngineSettings):
    """One model of ``models.toml``. It has the settings of every engine, and those by which a server shares a machine.

    Attributes:
        window: Called ``max_num_seqs`` in the file: answers of bulk written at once.
        memory: Share of the GPU's memory that it may take.
        tensor_parallel: GPUs that share each layer.
        data_parallel: Copies of the model, each on GPUs of its own.
        max_num_batched_tokens: Tokens computed in one step; vLLM's choice by default. Fewer make a step, and so the wait of a
            call, shorter.
        adapters: LoRA adapters that may be loaded at once; 0 for none.
        max_lora_rank: The largest rank of an adapter.
        answer_schema: JSON schema that answers of ``/v1/chat/completions`` follow where a client asks for no format, or for JSON.
            A table, or the name of a JSON file beside this one.
    """

    model: str = Field(min_length=1)
    max_model_len: int | None = Field(None, ge=16)
    window: int | None = Field(None, ge=1, le=4096, alias="max_num_seqs")
    memory: Annotated[float, Field(gt=0, le=1)] | None = None
    tensor_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    data_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    max_num_batched_tokens: Annotated[int, Field(ge=64)] | None = None
    adapters: Annotated[int, Field(ge=0, le=64)] = 0
    max_lora_rank: Literal[8, 16, 32, 64, 128, 256] = 64
    answer_schema: dict[str, Any] | str | None = None

    @model_validator(mode="after")
    def _fits(self) -> ModelSpec:
        given = self.model_fields_set
        only_vllm = {"memory", "tensor_parallel", "data_parallel", "adapters", "max_num_batched_tokens"} & given
        if self.engine != "vllm" and only_vllm:
            raise ValueError(f"{', '.join(sorted(only_vllm))} can be set for engine vllm only")
        if self.engine == "endpoint" and "quantization" in given:
            raise ValueError("quantization can be set for engines vllm and transformers only")
        if (self.engine == "endpoint") != (self.base_url is not None):
            raise ValueError("base_url is for engine endpoint, which needs it")
        return self

    @property
    def schema_of_answers(self) -> dict[str, Any] | None:
        """``answer_schema``, read."""
        assert not isinstance(self.answer_schema, str), "read_models reads the file it names"
        return self.answer_schema

    def open(self, *, sleeps: bool = False) -> Engine:
        """The engine as a server hosts it, not started: vLLM in processes of its own.

        Args:
            sleeps: Whether it is to give its memory back between its turns, where it can.

        Raises:
            MagistrateError: There is no such model, or the engine is not installed.
        """
        if self.engine != "vllm":
            return super().open()
        return AsyncVLLMEngine(repository(self.model), options=self._options(), sleeps=sleeps, **self.engine_options())

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if self.memory is not None:
            options["gpu_memory_utilization"] = self.memory
        if self.tensor_parallel > 1:
            options["tensor_parallel_size"] = self.tensor_parallel
        if self.data_parallel > 1:
            options["data_parallel_size"] = self.data_parallel
        if self.max_num_batched_tokens is not None:
            options["max_num_batched_tokens"] = self.max_num_batched_tokens
        if self.adapters:
            options |= {"enable_lora": True, "max_loras": self.adapters, "max_lora_rank": self.max_lora_rank}
        return options


class ModelsFile(BaseModel):
    """A whole ``models.toml``.

    Attributes:
        models: Served name to model.
        default: The model of a request that names none; the first by default.
        swap: Whether the models share the memory and take turns, because they do not fit together.
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
    """Read a ``models.toml``, or a preset by its name.

    Args:
        source: A file, or one of ``PRESETS``.

    Raises:
        MagistrateError: It cannot be read, or says something that it may not; the message names the place.
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
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise MagistrateError(f"{source}: {place}: {first['msg'].removeprefix('Value error, ')}") from None
    except ValueError as error:
        raise MagistrateError(f"{source}: {error}") from None
    models = {name: spec.model_copy(update={"answer_schema": schemas[name]}) for name, spec in file.models.items()}
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
    """The preset for the GPU that is here, ``cpu`` where there is none."""
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    gib = torch.cuda.get_device_properties(0).total_memory / (1 << 30)
    return "80gb" if gib > 60 else "24gb"
