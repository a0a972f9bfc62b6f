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

ModelName = Annotated[str | None, typer.Option(help="Who judges: short name, folder or hub repository.")]
JudgeOptions = Annotated[
    list[str] | None, typer.Option("-O", "--option", help="An option of the judge: `name=value`; see `magistrate judges`.")
]
Think = Annotated[int, typer.Option(help="Tokens a model that thinks first may think for.", min=0)]
Encoding = Annotated[str | None, typer.Option(help="Of a CSV file that is not UTF-8, e.g. gb18030.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Throw away verdicts of an earlier run.")]
Level = Annotated[float, typer.Option(help="How often intervals are to hold.", min=0.5, max=0.999)]
Folder = Annotated[Path, typer.Option("-o", "--output", help="The folder for what is found.")]
Items = Annotated[Path | None, typer.Option(help="A file with `id` and a column that says what each sample is about.")]
Item = Annotated[str | None, typer.Option(metavar="COLUMN", help="That column, e.g. the document or dialogue.")]

DataFile = Annotated[Path, typer.Option(help="The data set: .jsonl, .json, .csv, .parquet or .xlsx.")]
TaskName = Annotated[str | None, typer.Option(help="What its rows mean: dialogsum, mbpp, mmlu.")]
TaskFile = Annotated[Path | None, typer.Option(help="Or a task of your own, as a TOML file.")]
