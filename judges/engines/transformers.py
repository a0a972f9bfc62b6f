"""Runs a model on transformers with Outlines' constrained generation, anywhere PyTorch runs."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from judges.calibration import read_calibration
from judges.engines import quantized, weights
from judges.engines.chat import ChatTokenizer
from judges.engines.engine import EngineIdentity, Generation, Request, Token, Usage, alternatives_of
from judges.engines.hardware import find_gpu
from judges.engines.heads import NO_CONSTRAINT, classified, labels_of
from judges.engines.pattern_guard import Constraint, PatternGuard
from judges.engines.token_texts import added_texts
from judges.engines.vocabulary import check_spelling, identity_options, spelled
from judges.engines.worker import Job, LocalEngine
from judges.errors import EngineError

OUTLINES_BACKENDS = {"outlines": "outlines_core", "xgrammar": "xgrammar", "guidance": "llguidance"}

MOST_PROCESSORS = 128
"""Maximum number of compiled patterns in memory."""


UNPADDED = -1
"""No token's id: a classification head that looks for padding finds none, and reads the last token, as vLLM does. Its padding is
often the end of a text, with which a conversation may end."""


@dataclass(frozen=True, slots=True)
class OutlinesCompiler:
    """Compiles patterns as Outlines does for transformers, for the tokenizer in a folder and Outlines' name of a backend."""

    folder: Path
    backend: str

    def load(self) -> Callable[[Constraint], Constraint]:
        """Load the tokenizer."""
        import torch
        from outlines import Transformers

        tokenizer = ChatTokenizer.load(self.folder).tokenizer
        processor_of = _processors(Transformers(None, tokenizer), tokenizer, self.backend)

        def compiled(constraint: Constraint) -> Constraint:
            processor = processor_of(constraint["regex"])
            processor(torch.zeros((1, 1), dtype=torch.long), torch.zeros((1, len(tokenizer))))  # some compile at the first token
            return constraint

        compiled({"regex": "a"})  # loads the backend
        return compiled


def _processors(model: Any, tokenizer: Any, backend: str) -> Callable[[str], Any]:
    """What makes the logits processor of a pattern. Outlines' own spelling of tokens loses parts of characters."""
    if backend != OUTLINES_BACKENDS["outlines"]:
        from outlines.backends import get_regex_logits_processor

        return partial(get_regex_logits_processor, backend, model)
    from outlines.backends.outlines_core import OutlinesCoreLogitsProcessor
    from outlines_core import Index, Vocabulary

    vocabulary = Vocabulary(tokenizer.eos_token_id, spelled(tokenizer))
    return lambda pattern: OutlinesCoreLogitsProcessor(Index(pattern, vocabulary), "torch")


class TransformersEngine(LocalEngine):
    """Runs a model on transformers, constrained by Outlines' logits processors.

    The parameters are those of ``EngineSettings``; ``batch_size`` is the number of answers written at once.
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
        gpu = find_gpu()  # first: without PyTorch a model that is to be fetched would be of no use
        self.folder: Path = weights.locate(model, revision)
        if quantization is not None:
            quantized.check_for_transformers(self.folder, quantization)
        self.calibration = read_calibration(self.folder)
        self.labels = labels_of(self.folder)
        self.dtype = dtype
        self.quantization = quantization
        self.batch_size = batch_size
        self.concurrency = 4 * batch_size
        self.max_model_len = max_model_len
        asked = constraint if self.labels is None else NO_CONSTRAINT
        self._identity = EngineIdentity(
            engine="transformers",
            engine_version=f"{metadata.version('transformers')}, outlines {metadata.version('outlines')}",
            model=model,
            weights=weights.digest(self.folder),
            constraint=asked,
            options={
                "dtype": dtype,
                "max_model_len": max_model_len,
                **quantized.identity_options(quantization),
                **identity_options(self.folder, asked, "outlines", metadata.version("outlines")),
                **(gpu.identity_options if gpu is not None else {}),
            },
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
        from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

        self.chat = ChatTokenizer.load(self.folder)
        if self._identity.constraint == "outlines":
            check_spelling(self.chat.tokenizer)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        options: dict[str, Any] = {"dtype": self.dtype}
        if self.quantization is not None:
            quantized.hush()
            config = quantized.transformers_config(self.quantization, self.dtype)
            options |= {"quantization_config": config, "device_map": {"": device}}
        kind = AutoModelForCausalLM if self.labels is None else AutoModelForSequenceClassification
        try:
            model = kind.from_pretrained(str(self.folder), **options)
        except (OSError, ValueError) as error:
            raise EngineError(f"transformers cannot load {self._identity.model}: {error}") from error
        self._model = (model if self.quantization is not None else model.to(device)).eval()
        config = self._model.config
        limit = getattr(config, "max_position_embeddings", None)  # models without attention have none
        if self.max_model_len and limit and self.max_model_len > limit:
            raise EngineError(
                f"{self._identity.model} has a context of {limit:,} tokens, and {self.max_model_len:,} were asked for"
            )
        self.context = self.max_model_len or int(config.max_position_embeddings)
        if self.labels is None:
            self._prepare_constraints()
        else:
            self.context = min(self.context, int(self.chat.tokenizer.model_max_length))  # RoBERTa's first positions are no text's
            config.pad_token_id = UNPADDED

    def _prepare_constraints(self) -> None:
        from outlines import from_transformers

        outlined = from_transformers(self._model, self.chat.tokenizer)
        self._processor_of = _processors(outlined, self.chat.tokenizer, OUTLINES_BACKENDS[self._identity.constraint])

    def _work(self) -> None:
        stop = False
        while not stop:
            arrived, stop = self._drain(wait=not self._waiting)
            self._waiting.extend(arrived)
            if batch := self._next_batch():
                for job, generation in zip(batch, self._answers(batch), strict=True):
                    job.succeed(generation)

    def _answers(self, batch: list[Job]) -> Iterable[Generation]:
        if batch[0].request.classifies:
            return self._classify(batch)
        return map(self._likelihood, batch) if batch[0].request.given else self._generate(batch)

    def _next_batch(self) -> list[Job]:
        """The oldest job and the later ones that can be generated together with it."""
        batch: list[Job] = []
        others: deque[Job] = deque()
        while self._waiting and len(batch) < self.batch_size:
            job = self._waiting.popleft()
            if job.future.cancelled():
                continue
            same = not batch or _kind(job) == _kind(batch[0])
            (batch if same else others).append(job)
        self._waiting.extendleft(reversed(others))
        return batch

    def _classify(self, batch: list[Job]) -> list[Generation]:
        """The logits of the classification head for prompts of one length."""
        import torch

        ids = torch.tensor([job.prompt_ids for job in batch], device=self._model.device)
        shown = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        starts = [self.chat.second_text(job.prompt_ids) for job in batch]
        if None not in starts:
            places = torch.arange(ids.shape[1], device=ids.device)
            shown["token_type_ids"] = (places >= torch.tensor(starts, device=ids.device)[:, None]).long()
        with torch.inference_mode():
            logits = self._model(**shown).logits
        assert self.labels is not None
        rows = zip(batch, logits.float().tolist(), strict=True)
        return [classified(row, self.labels, len(job.prompt_ids)) for job, row in rows]

    def _likelihood(self, job: Job) -> Generation:
        """The log-probabilities of a prompt's last tokens: one forward pass, nothing is written."""
        import torch

        count = job.request.given
        ids = torch.tensor([job.prompt_ids], device=self._model.device)
        with torch.inference_mode():
            logits = self._model(input_ids=ids).logits[0, -count - 1 : -1].float()
        chosen = logits.log_softmax(dim=-1).gather(-1, ids[0, -count:, None])[:, 0]
        return Generation("", True, Usage(len(job.prompt_ids)), given=chosen.tolist())

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
        end = self._stop_text(request)
        sampled = {"do_sample": True, "temperature": request.temperature, "top_k": request.top_k, "top_p": 1.0}
        with torch.inference_mode(), torch.random.fork_rng(enabled=request.temperature > 0):
            if request.temperature > 0 and request.seed is not None:
                torch.manual_seed(request.seed)
            written = self._model.generate(
                input_ids=ids.to(self._model.device),
                attention_mask=mask.to(self._model.device),
                # The checkpoint's own settings, for example a repetition penalty, must not affect greedy decoding.
                generation_config=GenerationConfig(
                    max_new_tokens=request.max_tokens,
                    eos_token_id=self._stop_ids(request),
                    pad_token_id=pad,
                    **(sampled if request.temperature > 0 else {"do_sample": False}),
                ),
                logits_processor=processors,
                **({"stop_strings": end, "tokenizer": self.chat.tokenizer} if end else {}),
            )[:, longest:]
        rows = enumerate(zip(batch, written.tolist(), strict=True))
        return [self._generation(job, ids, recorder, row) for row, (job, ids) in rows]

    def _processor(self, pattern: str) -> Any:
        """The processor for a pattern, cached because compiling one takes seconds with a large vocabulary."""
        if pattern not in self._processors:
            self._processors[pattern] = self._processor_of(pattern)
            if len(self._processors) > MOST_PROCESSORS:
                self._processors.popitem(last=False)
        self._processors.move_to_end(pattern)
        processor = self._processors[pattern]
        processor.reset()
        return processor

    def _generation(self, job: Job, ids: list[int], recorder: _Recorder, row: int) -> Generation:
        tokenizer = self.chat.tokenizer
        ends = self._stop_ids(job.request)
        length = next((position for position, token in enumerate(ids) if token in ends), None)
        answer = ids[:length]
        text = tokenizer.decode(answer, skip_special_tokens=True)
        end = self._stop_text(job.request)
        stopped = bool(end) and end in text
        if stopped:  # only padding follows in a row that ended before others
            answer = [token for token in answer if token != tokenizer.pad_token_id]
            text = text.partition(end)[0]
        complete = stopped or length is not None
        tokens = None
        if job.request.alternatives:
            tokens = [
                Token(said, recorder.alternatives(tokenizer, position, row))
                for position, said in enumerate(added_texts(tokenizer, answer))
            ]
        usage = Usage(len(job.prompt_ids), 0, len(answer) + (complete and not stopped))
        return Generation(text, complete, usage, tokens)

    def _stop_ids(self, request: Request) -> list[int]:
        stop = self._model.generation_config.eos_token_id
        ids = stop if isinstance(stop, list) else [stop]
        end = self.chat.thought_end if request.thinks else None
        return sorted({*ids, self.chat.tokenizer.eos_token_id, *([end] if isinstance(end, int) else [])} - {None})

    def _stop_text(self, request: Request) -> str:
        """Text that ends an answer; empty for none."""
        end = self.chat.thought_end
        return end if request.thinks and isinstance(end, str) else ""


def _kind(job: Job) -> tuple[object, ...]:
    request = job.request
    if request.classifies:  # a head reads the last token, so there is no padding
        return True, len(job.prompt_ids)
    sampled = request.temperature, request.top_k, request.seed
    return request.pattern, request.max_tokens, request.alternatives, request.thinks, *sampled, request.given > 0


class _Recorder:
    """Runs after the constraint and records the likeliest legal tokens at each position.

    Keeping the logits themselves would take 16 MB per position for 32 answers over a vocabulary of 128,000.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.steps: list[tuple[Any, Any]] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if self.count:
            top = scores.float().log_softmax(dim=-1).topk(min(self.count, scores.shape[-1]), dim=-1)
            self.steps.append((top.indices.tolist(), top.values.tolist()))
        return scores

    def alternatives(self, tokenizer: Any, position: int, row: int) -> dict[str, float]:
        ids, logprobs = self.steps[position]
        return alternatives_of(
            (tokenizer.decode([token]), logprob) for token, logprob in zip(ids[row], logprobs[row], strict=True)
        )
