"""The flags that LLM-Eval has of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from judges.errors import MagistrateError
from judges.llm_eval import SCALES, LLMEval

Metric = Annotated[list[str] | None, typer.Option(help="LLM-Eval: a metric of your own, `name` or `name=description`.")]
Scale = Annotated[str | None, typer.Option(help=f"LLM-Eval: range of scores, {' or '.join(SCALES)}.")]
Reference = Annotated[
    bool | None, typer.Option("--reference/--no-reference", help="LLM-Eval: show a sample's reference where it has one.")
]

FLAGS = {"metrics": "--metric", "scale": "--scale", "use_reference": "--reference"}
"""Option of the judge to its flag."""


def llm_eval_options(judge: str, metric: list[str] | None, scale: str | None, reference: bool | None) -> dict[str, object]:
    """The judge's options that these flags stand for.

    Raises:
        MagistrateError: Another judge is given one of them, or a metric is named twice.
    """
    given = {"--metric": metric, "--scale": scale, "--reference": reference}
    strange = [flag for flag, value in given.items() if value is not None]
    if strange and judge != LLMEval.name:
        raise MagistrateError(f"{', '.join(strange)} has no meaning for judge `{judge}`; its options are given with `-O`")
    metrics = None
    if metric:
        pairs = [text.partition("=")[::2] for text in metric]
        metrics = {name.strip(): description.strip() for name, description in pairs}
        if len(metrics) < len(metric):
            raise MagistrateError("a metric is named twice")
    return {"metrics": metrics, "scale": scale, "use_reference": reference}
