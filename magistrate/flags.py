"""Flags that several commands have: what runs a model, what is studied, and where errors go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judges.engines import ENGINES

EngineName = Annotated[str, typer.Option(help=f"What runs it: {', '.join(ENGINES)}.")]
BaseUrl = Annotated[str | None, typer.Option(help="API of a running server, for `--engine endpoint`.")]
Dtype = Annotated[str | None, typer.Option(help="Number format, e.g. bfloat16; the checkpoint's by default.")]
Window = Annotated[int | None, typer.Option(help="How many answers are written at once.", min=1)]
Limit = Annotated[int | None, typer.Option(help="Only the first rows, this many.", min=1)]
Seed = Annotated[int, typer.Option(help="Of every random choice.", min=0)]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks and what libraries print.")]

DataFile = Annotated[Path, typer.Option(help="The data set: .jsonl, .json, .csv, .parquet or .xlsx.")]
TaskName = Annotated[str | None, typer.Option(help="What its rows mean: dialogsum, mbpp, mmlu.")]
TaskFile = Annotated[Path | None, typer.Option(help="Or a task of your own, as a TOML file.")]
