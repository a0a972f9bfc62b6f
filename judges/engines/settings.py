"""What runs a model, and how: the settings of engines, each declared here once.

A field of ``EngineSettings`` is a flag of every command that runs a model, an entry of a jury's member and of ``models.toml``.
All of them are made from its declaration.
"""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from judges.engines.engine import CONSTRAINTS, ConstraintName, Engine
from judges.errors import MagistrateError

EngineName = Literal["vllm", "transformers", "endpoint"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
"""Engines by name. The first is the default."""

WINDOWS = {"vllm": "max_num_seqs", "transformers": "batch_size", "endpoint": "window"}
"""Engine to its own name for how many answers it writes at once."""


class EngineSettings(BaseModel):
    """An engine and its model. What is ``None`` is left to the engine.

    Attributes:
        model: A short name, an embedded model's name, a folder or a repository on the Hugging Face hub; for ``endpoint`` the name
            that the server knows, ``None`` for the only one it serves.
        engine: What runs the model.
        base_url: Where the API lives, for ``endpoint``.
        constraint: What holds answers to their pattern; ``outlines`` where left out. A server chooses its own.
        dtype: Number format of weights and activations that are not quantised; the checkpoint's where left out.
        quantization: ``8bit`` or ``4bit`` by bitsandbytes; ``none`` leaves the weights as they are.
        revision: Branch, tag or commit on the hub.
        max_model_len: Context length in tokens; the model's where left out.
        window: Answers written at once.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = Field(None, min_length=1, description="Short name, folder or hub repository; see `magistrate models`.")
    engine: EngineName = Field(ENGINES[0], description="What runs the model.")
    base_url: str | None = Field(None, description="API of a running server, for `--engine endpoint`.")
    constraint: ConstraintName | None = Field(None, description=f"Constraint backend; {CONSTRAINTS[0]} by default.")
    dtype: str | None = Field(None, description="Number format, e.g. bfloat16; the checkpoint's by default.")
    quantization: Literal["none", "8bit", "4bit"] | None = Field(None, description="Quantise the weights by bitsandbytes.")
    revision: str | None = Field(None, description="Branch, tag or commit of the model on the hub.")
    max_model_len: int | None = Field(None, ge=1, description="Context length in tokens; the model's by default.")
    window: int | None = Field(None, ge=1, description="How many answers are written at once.")

    @classmethod
    def of(cls, **settings: Any) -> Self:
        """The settings, checked.

        Raises:
            MagistrateError: There is no such setting, or it may not have this value; the first fault is named.
        """
        try:
            return cls(**settings)
        except ValidationError as error:
            fault = error.errors()[0]
            name, value = ".".join(map(str, fault["loc"])), fault["input"]
            if name == "engine":
                raise MagistrateError(f"there is no engine `{value}`; there are {', '.join(ENGINES)}") from None
            if name == "constraint":
                raise MagistrateError(f"there is no constraint backend `{value}`; there are {', '.join(CONSTRAINTS)}") from None
            raise MagistrateError(f"engine setting `{name}`: {fault['msg']}") from None

    def given(self) -> dict[str, Any]:
        """What differs from the defaults besides the model: how it is run."""
        return self.model_dump(exclude_defaults=True, exclude={"model"})

    def engine_options(self) -> dict[str, Any]:
        """Arguments of the engine's class besides the model, by its own names. What is ``None`` is left out."""
        settings = {name: getattr(self, name) for name in ("constraint", "dtype", "quantization", "revision", "max_model_len")}
        if self.quantization == "none":
            del settings["quantization"]
        settings[WINDOWS[self.engine]] = self.window
        return {name: value for name, value in settings.items() if value is not None}

    def open(self) -> Engine:
        """The engine. Nothing is loaded and no server is called until it is started.

        Raises:
            MagistrateError: A setting is missing, or has no meaning for this engine.
            EngineError: There is no such model, or the engine is not installed.
        """
        options = self.engine_options()
        if self.engine == "endpoint":
            if self.base_url is None:
                raise MagistrateError("engine `endpoint` needs `--base-url`, for example http://127.0.0.1:8000/v1")
            if strange := [name for name in options if name != WINDOWS["endpoint"]]:
                flags = ", ".join("`--" + name.replace("_", "-") + "`" for name in strange)
                raise MagistrateError(f"{flags} has no meaning for engine `endpoint`")
            from judges.engines.endpoint import EndpointEngine

            return EndpointEngine(self.model, base_url=self.base_url, **options)
        if self.base_url is not None:
            raise MagistrateError(f"`--base-url` is for `--engine endpoint`, not for `{self.engine}`")
        if self.model is None:
            raise MagistrateError("no model given: `magistrate models` lists the names that work here")
        from judges.catalog import repository

        if self.engine == "vllm":
            from judges.engines.vllm import VLLMEngine

            return VLLMEngine(repository(self.model), **options)
        from judges.engines.transformers import TransformersEngine

        return TransformersEngine(repository(self.model), **options)


def open_engine(engine: str, model: str | None, **settings: Any) -> Engine:
    """Make an engine by name. Nothing is loaded and no server is called until it is started.

    Args:
        engine: ``vllm``, ``transformers`` or ``endpoint``.
        model: A short name, an embedded model's name, a folder or a repository; for ``endpoint`` the name the server knows.
        settings: The other fields of ``EngineSettings``.

    Raises:
        MagistrateError: There is no such engine or setting, or one is missing or has no meaning for it.
        EngineError: There is no such model, or the engine is not installed.
    """
    return EngineSettings.of(engine=engine, model=model, **settings).open()
