"""The engines: one file each, behind one interface."""

from __future__ import annotations

from typing import Any

from judges.engines.engine import CONSTRAINTS, Engine
from judges.errors import MagistrateError

ENGINES = ("vllm", "transformers", "endpoint")


def open_engine(
    engine: str,
    model: str | None,
    *,
    base_url: str | None = None,
    constraint: str | None = None,
    **options: Any,
) -> Engine:
    """Make an engine by name. Nothing is loaded and no server is called until it is started.

    Args:
        engine: ``vllm``, ``transformers`` or ``endpoint``.
        model: An embedded model's name, a folder or a repository; for ``endpoint`` the name the server knows.
        base_url: Where the API lives, for ``endpoint``.
        constraint: ``outlines`` (the default), ``xgrammar`` or ``guidance``; a server chooses its own.
        options: Further arguments of the engine; those that are ``None`` are left at their defaults.

    Raises:
        MagistrateError: There is no such engine or constraint, or an argument is missing or has no meaning for it.
        EngineError: The model is not to be had.
    """
    if engine not in ENGINES:
        raise MagistrateError(f"there is no engine `{engine}`; there are {', '.join(ENGINES)}")
    if constraint not in (None, *CONSTRAINTS):
        raise MagistrateError(f"there is no constraint backend `{constraint}`; there are {', '.join(CONSTRAINTS)}")
    given = {name: value for name, value in {"constraint": constraint, **options}.items() if value is not None}
    if engine == "endpoint":
        if base_url is None:
            raise MagistrateError("engine `endpoint` needs `--base-url`, for example http://127.0.0.1:8000/v1")
        from judges.engines.endpoint import EndpointEngine

        return EndpointEngine(model, base_url=base_url, **_only(given, "window", engine=engine))
    if base_url is not None:
        raise MagistrateError(f"`--base-url` is for `--engine endpoint`, not for `{engine}`")
    if model is None:
        raise MagistrateError("no model given: `magistrate models` lists the names that work here")
    common = _only(given, "constraint", "revision", "dtype", "quantization", "max_model_len", "window", engine=engine)
    window = common.pop("window", None)
    if engine == "vllm":
        from judges.engines.vllm import VLLMEngine

        return VLLMEngine(model, **common, **({"max_num_seqs": window} if window else {}))
    from judges.engines.transformers import TransformersEngine

    return TransformersEngine(model, **common, **({"batch_size": window} if window else {}))


def _only(given: dict[str, Any], *names: str, engine: str) -> dict[str, Any]:
    strange = [name for name in given if name not in names]
    if strange:
        flags = ", ".join("`--" + name.replace("_", "-") + "`" for name in strange)
        raise MagistrateError(f"{flags} has no meaning for engine `{engine}`")
    return given
