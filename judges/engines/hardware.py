"""The GPU that an engine runs on, which its answers depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

HARDWARE = ("gpu", "model_runner")
"""Options of an engine's identity that say on what hardware a model ran. An identity without them is of a CPU."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU: its name, and its CUDA compute capability."""

    name: str
    capability: tuple[int, int]

    @property
    def identity_options(self) -> dict[str, Any]:
        """The entry in an engine's identity. Kernels differ from one kind of GPU to the next, and so do close scores."""
        return {"gpu": self.name}


def find_gpu() -> Gpu | None:
    """Find the first GPU that PyTorch sees; ``None`` on a machine without one.

    This initialises CUDA in this process, upon which vLLM spawns its own processes instead of forking them.
    """
    import torch

    if not torch.cuda.is_available():
        return None
    return Gpu(torch.cuda.get_device_name(0), torch.cuda.get_device_capability(0))
