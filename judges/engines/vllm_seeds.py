"""Lets vLLM sample with seeds on a CPU."""

from __future__ import annotations

from functools import wraps
from typing import Any


def rewind_on_cpu() -> None:
    """Give vLLM a way to take back a draw of a CPU's random generator.

    Where a step has room for a part of a prompt only, vLLM samples a token all the same, throws it away, and sets the request's
    generator back by an offset. A CPU's generators have none, and the engine would fail. Such a draw comes before the first token
    of the answer, so the generator goes back to its seed. Where memory runs out and vLLM computes a request a second time, the
    rest of its answer is drawn as from the start: a legal draw, though not the one that it would have been.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    original = getattr(GPUModelRunner, "_bookkeeping_sync", None)
    if original is None or hasattr(original, "rewinds"):
        return

    @wraps(original)
    def bookkeeping(self: Any, *args: Any, **options: Any) -> Any:
        generators = self.input_batch.generators
        discarded = self.discard_request_mask.np[: self.input_batch.num_reqs].nonzero()[0].tolist() if generators else []
        taken = {place: generators.pop(place) for place in discarded if place in generators}
        for generator in taken.values():
            generator.manual_seed(generator.initial_seed())
        try:
            return original(self, *args, **options)
        finally:
            generators.update(taken)

    bookkeeping.rewinds = True  # type: ignore[attr-defined]
    GPUModelRunner._bookkeeping_sync = bookkeeping
