"""The default engine: vLLM in this process, stepped by a thread.

One process is the fastest way to judge a file: there is no second process to start, and nothing to pickle.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from typing import Any

from judges.calibration import read_calibration
from judges.engines.chat import ChatTokenizer
from judges.engines.engine import EngineIdentity, Generation
from judges.engines.heads import classified
from judges.engines.own_session import engine_processes
from judges.engines.vllm.intake import Intake
from judges.engines.vllm.logs import hint
from judges.engines.vllm.settings import MAX_LOGPROBS, HostedModel, generation, given, last_line, refusals
from judges.engines.vocabulary import Speller, check_spelling
from judges.engines.worker import Job, LocalEngine, settle_all
from judges.errors import EngineError, MagistrateError, RequestError

SCHEDULER = "judges.engines.vllm.scheduler.FileScheduler"
"""Class of the scheduler."""

IDLE_STEP = 0.001
"""Seconds below which a step has computed nothing."""

_open: set[int] = set()
_closed: list[Any] = []
_counting = threading.Lock()
"""Open and closed engines of this process. vLLM's shutdown, and the deletion of an engine, destroy state that all engines of a
process share, so all are shut down together with the last one."""


class VLLMEngine(LocalEngine):
    """Runs a model on vLLM; ``settings`` are the other fields of ``HostedModel``."""

    max_alternatives = MAX_LOGPROBS

    def __init__(self, model: str, **settings: Any) -> None:
        super().__init__()
        self.hosted = HostedModel(model, **settings)
        self.calibration = read_calibration(self.hosted.folder)
        self.labels = self.hosted.labels
        self.concurrency = self.hosted.concurrency
        self._jobs: dict[str, Job] = {}
        self._number = 0

    @property
    def identity(self) -> EngineIdentity:
        return self.hosted.identity

    def _load(self) -> None:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        on_cpu = self.hosted.prepare()
        from vllm import EngineArgs
        from vllm.usage.usage_lib import UsageContext
        from vllm.v1.engine.llm_engine import LLMEngine

        from judges.engines.vllm.plugin import adapt_cpu, keep_patterns, make_searchable

        self.chat = ChatTokenizer.load(self.hosted.folder)
        self._texts = self.hosted.texts(self.chat.tokenizer, on_cpu=on_cpu)
        if on_cpu:
            make_searchable()
            adapt_cpu()
        spells = self.identity.constraint == "outlines"
        if spells:
            check_spelling(self.chat.tokenizer)
            keep_patterns()
        self._count_in()
        try:
            with engine_processes():
                arguments = EngineArgs(**self.hosted.arguments(on_cpu=on_cpu), **({"scheduler_cls": SCHEDULER} if on_cpu else {}))
                # vLLM chooses the tokens of a step by it: without one 2,048, on an H100 for files 16,384.
                self._engine = LLMEngine.from_engine_args(arguments, usage_context=UsageContext.LLM_CLASS)
        except Exception as error:
            self._count_out()
            raise EngineError(f"vLLM cannot start {self.identity.model}: {last_line(error)}{hint()}") from error
        self.context = int(self._engine.vllm_config.model_config.max_model_len)
        self._speller = Speller(self.chat.tokenizer) if spells else None
        self._intake = Intake(self._engine, self.chat, spells=self._speller is not None, reports=self._texts is not None)

    def _work(self) -> None:
        try:
            self._answer_all()
        except Exception:
            self._count_out()
            raise
        self._count_out(self._engine)

    def _count_in(self) -> None:
        with _counting:
            _open.add(id(self))

    def _count_out(self, engine: Any = None) -> None:
        with _counting:
            _open.discard(id(self))
            if engine is not None:
                _closed.append(engine)
            while _closed and not _open:
                _closed.pop().engine_core.shutdown()

    def _answer_all(self) -> None:
        stop = False
        while not stop:
            arrived, stop = self._drain(wait=not self._jobs)
            for job in arrived:
                self._add(job)
            self._forget_cancelled()
            finished = [output for output in self._step() if output.finished] if self._jobs else ()
            jobs = [self._jobs.pop(output.request_id) for output in finished]
            settle_all([(job, self._outcome(job, output)) for job, output in zip(jobs, finished, strict=True)])
        self._engine.abort_request(list(self._jobs))

    def _step(self) -> Any:
        """Step vLLM. A step that takes no time waits for a constraint, so its compiler gets the interpreter's lock."""
        began = time.perf_counter()
        outputs = self._engine.step()
        if not outputs and time.perf_counter() - began < IDLE_STEP:
            time.sleep(IDLE_STEP)
        return outputs

    def _add(self, job: Job) -> None:
        self._number += 1
        key = str(self._number)
        try:
            self._intake.add(key, job.request, job.prompt_ids)
        except refusals() as error:
            job.fail(RequestError(f"vLLM refused the request: {last_line(error)}"))
        else:
            self._jobs[key] = job

    def _forget_cancelled(self) -> None:
        gone = [key for key, job in self._jobs.items() if job.future.cancelled()]
        if gone:
            self._engine.abort_request(gone)
            for key in gone:
                del self._jobs[key]

    def _outcome(self, job: Job, output: Any) -> Generation | MagistrateError:
        if self.labels is not None:
            return classified(output.outputs.data.tolist(), self.labels, len(job.prompt_ids), output.num_cached_tokens)
        try:
            answer = generation(output, self._texts)
        except MagistrateError as error:
            return error
        if job.request.given:
            return replace(answer, given=given(output, job.request.given))
        if self._speller is not None and self._intake.spells(job.request):
            written = output.outputs[0].token_ids
            return replace(answer, text=self._speller.text(written[:-1] if answer.complete else written))
        return answer
