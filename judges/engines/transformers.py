"""Outlines' own constrained generation on transformers: runs anywhere PyTorch does."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from judges.engines import quantized, weights
from judges.engines.chat import ChatTokenizer
from judges.engines.engine import EngineIdentity, Generation, Request, Token, Usage
from judges.engines.pattern_guard import Constraint, PatternGuard
from judges.engines.worker import Job, LocalEngine
from judges.errors import EngineError

OUTLINES_BACKENDS = {"outlines": "outlines_core", "xgrammar": "xgrammar", "guidance": "llguidance"}

MOST_PROCESSORS = 128
"""Compiled patterns that are kept."""


@dataclass(frozen=True, slots=True)
class OutlinesCompiler:
    """Compiles patterns as Outlines does for transformers.

    Attributes:
        folder: Where the tokenizer lies.
        backend: Outlines' name of the constraint backend.
    """

    folder: Path
    backend: str

    def load(self) -> Callable[[Constraint], Constraint]:
        """Load the tokenizer."""
        import torch
        from outlines import Transformers
        from outlines.backends import get_regex_logits_processor

        tokenizer = ChatTokenizer.load(self.folder).tokenizer
        without_model = Transformers(None, tokenizer)

        def compiled(constraint: Constraint) -> Constraint:
            processor = get_regex_logits_processor(self.backend, without_model, constraint["regex"])
            processor(torch.zeros((1, 1), dtype=torch.long), torch.zeros((1, len(tokenizer))))  # some compile at the first token
            return constraint

        compiled({"regex": "a"})  # loads what a first pattern takes
        return compiled


class TransformersEngine(LocalEngine):
    """Hosts a model on transformers, constrained by Outlines' logits processors.

    Args:
        model: An embedded model's name, a folder, or a repository on the Hugging Face hub.
        revision: Branch, tag or commit on the hub.
        constraint: ``outlines``, ``xgrammar`` or ``guidance``.
        dtype: Number format of weights and activations; ``auto`` takes the checkpoint's.
        quantization: ``8bit`` or ``4bit`` by bitsandbytes; ``None`` leaves the weights as they are.
        max_model_len: Context length in tokens; ``None`` takes the model's own.
        batch_size: How many answers are written at once.
    """

    max_alternatives = 1024

    def __init__(
        self,
        model: str,
        *,
        revision: str | None = None,
        constraint: str = "outlines",
        dtype: str = "auto",
        quantization: str | None = None,
        max_model_len: int | None = None,
        batch_size: int = 16,
    ) -> None:
        super().__init__()
        self.folder: Path = weights.locate(model, revision)
        if quantization is not None:
            quantized.check_for_transformers(self.folder, quantization)
        self.dtype = dtype
        self.quantization = quantization
        self.batch_size = batch_size
        self.window = 4 * batch_size
        self.max_model_len = max_model_len
        self._identity = EngineIdentity(
            engine="transformers",
            engine_version=f"{metadata.version('transformers')}, outlines {metadata.version('outlines')}",
            model=model,
            weights=weights.digest(self.folder),
            constraint=constraint,
            options={"dtype": dtype, "max_model_len": max_model_len, **quantized.identity_options(quantization)},
        )
        self.guard = PatternGuard(OutlinesCompiler(self.folder, OUTLINES_BACKENDS[constraint]))
        self._waiting: deque[Job] = deque()
        self._processors: OrderedDict[str, Any] = OrderedDict()

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    async def admit(self, pattern: str) -> None:
        await self.guard.admit({"regex": pattern})

    async def close(self) -> None:
        await self.guard.close()
        await super().close()

    def _load(self) -> None:
        import torch
        from outlines import from_transformers
        from transformers import AutoModelForCausalLM

        self.chat = ChatTokenizer.load(self.folder)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        options: dict[str, Any] = {"dtype": self.dtype}
        if self.quantization is not None:
            quantized.hush()
            config = quantized.transformers_config(self.quantization, self.dtype)
            options |= {"quantization_config": config, "device_map": {"": device}}
        try:
            model = AutoModelForCausalLM.from_pretrained(str(self.folder), **options)
        except (OSError, ValueError) as error:
            raise EngineError(f"transformers cannot load {self._identity.model}: {error}") from error
        self._model = (model if self.quantization is not None else model.to(device)).eval()
        self.context = self.max_model_len or int(self._model.config.max_position_embeddings)
        self._outlined = from_transformers(self._model, self.chat.tokenizer)

    def _work(self) -> None:
        stop = False
        while not stop:
            arrived, stop = self._drain(wait=not self._waiting)
            self._waiting.extend(arrived)
            if batch := self._next_batch():
                for job, generation in zip(batch, self._generate(batch), strict=True):
                    job.succeed(generation)

    def _next_batch(self) -> list[Job]:
        """The oldest job and those behind it that want an answer of the same kind."""
        batch: list[Job] = []
        others: deque[Job] = deque()
        while self._waiting and len(batch) < self.batch_size:
            job = self._waiting.popleft()
            if job.future.cancelled():
                continue
            same = not batch or _kind(job.request) == _kind(batch[0].request)
            (batch if same else others).append(job)
        self._waiting.extendleft(reversed(others))
        return batch

    def _generate(self, batch: list[Job]) -> list[Generation]:
        import torch
        from transformers import GenerationConfig

        request = batch[0].request
        longest = max(len(job.prompt_ids) for job in batch)
        pad = self.chat.tokenizer.pad_token_id
        ids = torch.tensor([[pad] * (longest - len(job.prompt_ids)) + job.prompt_ids for job in batch])
        mask = torch.tensor([[0] * (longest - len(j.prompt_ids)) + [1] * len(j.prompt_ids) for j in batch])
        recorder = _Recorder(request.alternatives)
        processors = [recorder]
        if request.pattern is not None:
            processors.insert(0, self._processor(request.pattern))
        sampled = {"do_sample": True, "temperature": request.temperature, "top_k": 0, "top_p": 1.0}
        with torch.inference_mode(), torch.random.fork_rng(enabled=request.temperature > 0):
            if request.temperature > 0 and request.seed is not None:
                torch.manual_seed(request.seed)
            written = self._model.generate(
                input_ids=ids.to(self._model.device),
                attention_mask=mask.to(self._model.device),
                # The checkpoint's own settings, a repetition penalty for example, have no say in greedy decoding.
                generation_config=GenerationConfig(
                    max_new_tokens=request.max_tokens,
                    eos_token_id=self._stop_ids(),
                    pad_token_id=pad,
                    **(sampled if request.temperature > 0 else {"do_sample": False}),
                ),
                logits_processor=processors,
                **({"stop_strings": request.stop, "tokenizer": self.chat.tokenizer} if request.stop else {}),
            )[:, longest:]
        rows = enumerate(zip(batch, written.tolist(), strict=True))
        return [self._generation(job, ids, recorder, row) for row, (job, ids) in rows]

    def _processor(self, pattern: str) -> Any:
        """The processor for a pattern; compiling one takes seconds on a large vocabulary, so they are kept."""
        from outlines.backends import get_regex_logits_processor

        if pattern not in self._processors:
            backend = OUTLINES_BACKENDS[self._identity.constraint]
            self._processors[pattern] = get_regex_logits_processor(backend, self._outlined, pattern)
            if len(self._processors) > MOST_PROCESSORS:
                self._processors.popitem(last=False)
        self._processors.move_to_end(pattern)
        processor = self._processors[pattern]
        processor.reset()
        return processor

    def _generation(self, job: Job, ids: list[int], recorder: _Recorder, row: int) -> Generation:
        tokenizer = self.chat.tokenizer
        ends = self._stop_ids()
        length = next((place for place, token in enumerate(ids) if token in ends), None)
        answer = ids[:length]
        text = tokenizer.decode(answer, skip_special_tokens=True)
        stopped = bool(job.request.stop) and job.request.stop in text
        if stopped:  # behind it stands only the padding of a row that ended before others
            answer = [token for token in answer if token != tokenizer.pad_token_id]
            text = text.partition(job.request.stop)[0]
        complete = stopped or length is not None
        tokens = None
        if job.request.alternatives:
            tokens = [
                Token(tokenizer.decode([token]), recorder.alternatives(tokenizer, place, row))
                for place, token in enumerate(answer)
            ]
        usage = Usage(len(job.prompt_ids), 0, len(answer) + (complete and not stopped))
        return Generation(text, complete, usage, tokens)

    def _stop_ids(self) -> list[int]:
        stop = self._model.generation_config.eos_token_id
        ids = stop if isinstance(stop, list) else [stop]
        return sorted({*ids, self.chat.tokenizer.eos_token_id} - {None})


def _kind(request: Request) -> tuple[object, ...]:
    return request.pattern, request.max_tokens, request.alternatives, request.stop, request.temperature, request.seed


class _Recorder:
    """Stands behind the constraint and notes the likeliest legal tokens at each position.

    Keeping the logits themselves would take 16 MB a position for 32 answers over a vocabulary of 128,000.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.steps: list[tuple[Any, Any]] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if self.count:
            top = scores.float().log_softmax(dim=-1).topk(min(self.count, scores.shape[-1]), dim=-1)
            self.steps.append((top.indices.tolist(), top.values.tolist()))
        return scores

    def alternatives(self, tokenizer: Any, place: int, row: int) -> dict[str, float]:
        ids, logprobs = self.steps[place]
        found: dict[str, float] = {}
        for token, logprob in zip(ids[row], logprobs[row], strict=True):
            if logprob > float("-inf"):
                found.setdefault(tokenizer.decode([token]), logprob)
        return found
