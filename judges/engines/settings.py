"""Settings of engines, each declared here once.

Each field of ``EngineSettings`` becomes a flag of every command that runs a model, and an entry of a jury's member and of
``models.toml``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import Field

from judges.engines.engine import CONSTRAINTS, ConstraintName, Engine
from judges.errors import MagistrateError
from judges.options import Settings

EngineName = Literal["vllm", "transformers", "endpoint"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
"""Names of the engines. The first is the default."""

VLLM_NAMES = {"tensor_parallel": "tensor_parallel_size", "gpu_memory": "gpu_memory_utilization"}
"""Setting that vLLM alone has to its name there."""

MEANINGLESS = {
    "vllm": {"base_url"},
    "transformers": {"base_url", "deterministic", "forced_tokens", *VLLM_NAMES},
    "endpoint": {
        *("constraint", "dtype", "quantization", "revision", "max_model_len", "deterministic", "forced_tokens"),
        *VLLM_NAMES,
    },
}
"""Engine to the settings that it refuses, since they would do nothing."""

CONCURRENCY = {"vllm": "max_num_seqs", "transformers": "batch_size", "endpoint": "concurrency"}
"""Engine to its own name for the number of answers written at once."""


class EngineSettings(Settings):
    """An engine and its model. ``None`` selects the engine's own default.

    Attributes:
        model: A short name, an embedded model's name, a folder or a repository on the Hugging Face hub; for ``endpoint`` the
            server's name of the model, ``None`` if it serves only one.
        engine: The engine that runs the model.
        base_url: URL of the API, for ``endpoint``.
        server: Address of a running ``magistrate serve``, whose models.toml says how its models run; it stands for an engine.
        constraint: Backend that constrains answers to their pattern; ``outlines`` by default. A server chooses its own.
        dtype: Number format of unquantised weights and of activations; the checkpoint's by default.
        quantization: ``8bit`` or ``4bit`` by bitsandbytes; ``fp8`` by ``vllm`` on a GPU; ``none`` for unquantised weights.
        revision: Branch, tag or commit on the hub.
        max_model_len: Context length in tokens. By default the model's; on a GPU as much of it as fits the memory, for ``vllm``.
        window: Number of answers written at once.
        tensor_parallel: Number of GPUs that share each layer, for ``vllm``.
        gpu_memory: Share of the GPU's memory to use, for ``vllm``.
        deterministic: Whether answers do not depend on what else is asked at the same time, for ``vllm`` on a GPU.
        forced_tokens: Whether tokens that the constraint forces are computed in one step, for ``vllm`` on a CPU. Answers are the
            same without.
        ray: Address of a Ray cluster whose nodes run the engine; ``auto`` takes the one that this machine belongs to, or makes
            one of this machine.
        actors: Number of engines on the cluster; by default as many as it has room for.
    """

    noun: ClassVar[str] = "engine setting"

    model: str | None = Field(
        None, min_length=1, description="Short name (`magistrate models`), folder, GGUF file or hub repository."
    )
    engine: EngineName = Field(ENGINES[0], description="What runs the model.")
    base_url: str | None = Field(None, description="API of a running server, for `--engine endpoint`.")
    server: str | None = Field(None, min_length=1, description="Address of a running `magistrate serve`; nothing is loaded here.")
    constraint: ConstraintName | None = Field(None, description=f"Constraint backend; {CONSTRAINTS[0]} by default.")
    dtype: str | None = Field(None, description="Number format, e.g. bfloat16; the checkpoint's by default.")
    quantization: Literal["none", "8bit", "4bit", "fp8"] | None = Field(
        None, description="Quantise the weights: 8bit and 4bit by bitsandbytes, fp8 by vLLM on a GPU."
    )
    revision: str | None = Field(None, description="Branch, tag or commit of the model on the hub.")
    max_model_len: int | None = Field(None, ge=1, description="Context length in tokens; what the model has and memory holds.")
    window: int | None = Field(None, ge=1, description="How many answers are written at once.")
    tensor_parallel: int | None = Field(None, ge=1, le=64, description="GPUs that share each layer, for vLLM.")
    gpu_memory: float | None = Field(None, gt=0, le=1, description="Share of the GPU's memory to use, for vLLM.")
    deterministic: bool = Field(False, description="Batch-invariant kernels, for vLLM on a GPU; slower.")
    forced_tokens: bool = Field(True, description="Compute tokens that the constraint forces in one step, for vLLM on a CPU.")

    ray: str | None = Field(
        None,
        min_length=1,
        description="The Ray cluster that runs it, an address; `auto` finds one, or makes one of this machine.",
    )
    actors: int | None = Field(None, ge=1, description="Engines on the Ray cluster; as many as it has room for.")

    def given(self) -> dict[str, Any]:
        """The settings that differ from their defaults, without the model."""
        return self.model_dump(exclude_defaults=True, exclude={"model"})

    def engine_options(self) -> dict[str, Any]:
        """Arguments of the engine's class besides the model, by its own names, without those that are ``None``."""
        settings = {name: getattr(self, name) for name in ("constraint", "dtype", "quantization", "revision", "max_model_len")}
        if self.quantization == "none":
            del settings["quantization"]
        settings[CONCURRENCY[self.engine]] = self.window
        if self.engine == "vllm":
            settings |= {
                "deterministic": self.deterministic or None,
                "forced_tokens": None if self.forced_tokens else False,
                "options": self.vllm_options() or None,
            }
        return {name: value for name, value in settings.items() if value is not None}

    def vllm_options(self) -> dict[str, Any]:
        """Further arguments of vLLM's ``EngineArgs``, without those at their defaults."""
        options = {theirs: getattr(self, name) for name, theirs in VLLM_NAMES.items()}
        if self.tensor_parallel == 1:  # as without it, so it must not change a fingerprint
            del options["tensor_parallel_size"]
        return {name: value for name, value in options.items() if value is not None}

    def meaningless(self) -> list[str]:
        """The settings that are given, and that mean nothing to the engine or the server."""
        if self.server is None:
            of_cluster = {"actors"} if self.ray is None else set()
            return [name for name in self.given() if name in MEANINGLESS[self.engine] | of_cluster]
        return [name for name in self.given() if name != "server" and (name, self.engine) != ("engine", "endpoint")]

    def check(self) -> None:
        """Check that every setting means something.

        Raises:
            MagistrateError: One has no meaning for this engine, or beside a server.
        """
        if meaningless := self.meaningless():
            flags = ", ".join(f"`{self.flag(name)}`" for name in meaningless)
            where = "without `--ray`" if meaningless == ["actors"] else f"for engine `{self.engine}`"
            if self.server is not None:
                where = "with `--server`, whose models.toml says how its models run"
            raise MagistrateError(f"{flags} has no meaning {where}")

    @property
    def gpus(self) -> int:
        """GPUs that the engine takes, where there are any: as many as share a layer, none if its model runs elsewhere."""
        return 0 if self.engine == "endpoint" or self.server is not None else self.tensor_parallel or 1

    def without_cluster(self) -> Self:
        """The same engine on this machine."""
        return self.model_copy(update={"ray": None, "actors": None})

    def relative_to(self, folder: Path) -> Self:
        """The settings as a file in ``folder`` means them: a model's path is relative to the file, if there is such a model."""
        from judges.catalog import MODELS

        elsewhere = self.server is not None or self.engine == "endpoint"
        if self.model is None or self.model in MODELS or elsewhere or not (folder / self.model).exists():
            return self
        return self.model_copy(update={"model": str(folder / self.model)})

    def with_judge(self) -> Self:
        """The settings with a model that judges: the embedded judge if none is named. A server may choose its own."""
        from judges.catalog import EMBEDDED

        named = self.model is not None or self.server is not None or self.engine == "endpoint"
        return self if named else self.model_copy(update={"model": EMBEDDED})

    def open(self) -> Engine:
        """Make the engine. Starting it loads the model or calls the server.

        Raises:
            MagistrateError: A setting is missing, or does not apply to this engine.
            EngineError: The model does not exist, or the engine is not installed.
        """
        self.check()
        if self.ray is not None:
            from judges.engines.cluster import ClusterEngine

            return ClusterEngine(self.without_cluster(), self.ray, gpus=self.gpus, actors=self.actors)
        options = self.engine_options()
        if self.server is not None or self.engine == "endpoint":
            base_url = self.base_url if self.server is None else f"{self.server.rstrip('/')}/v1"
            if base_url is None:
                raise MagistrateError("engine `endpoint` needs `--base-url`, for example http://127.0.0.1:8000/v1")
            from judges.engines.endpoint import EndpointEngine

            return EndpointEngine(self.model, base_url=base_url, **options)
        if self.model is None:
            raise MagistrateError("no model given: `magistrate models` lists the names that work here")
        from judges.catalog import repository

        if self.engine == "vllm":
            from judges.engines.vllm.engine import VLLMEngine

            return VLLMEngine(repository(self.model), **options)
        from judges.engines.transformers import TransformersEngine

        return TransformersEngine(repository(self.model), **options)


def open_engine(engine: str, model: str | None, **settings: Any) -> Engine:
    """Make an engine by name; ``settings`` are the other fields of ``EngineSettings``. Starting it loads the model.

    Raises:
        MagistrateError: The engine or a setting is unknown, or a setting is missing or does not apply to the engine.
        EngineError: The model does not exist, or the engine is not installed.
    """
    return EngineSettings.of(engine=engine, model=model, **settings).open()
