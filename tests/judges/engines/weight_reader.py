"""Looks at weights where vLLM holds them, in the process of its engine."""

from __future__ import annotations

from typing import Any


class WeightReader:
    """Added to vLLM's worker (``worker_extension_cls``)."""

    model_runner: Any

    def weight_dtypes(self) -> dict[str, str]:
        """Number formats by the names of the weights."""
        return {name: str(weight.dtype) for name, weight in self.model_runner.get_model().named_parameters()}
