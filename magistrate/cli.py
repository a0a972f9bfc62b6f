"""The ``magistrate`` command."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from judges import catalog
from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.engines.engine import and_close
from judges.errors import MagistrateError
from judges.judge import Judge
from judges.rubric import Rubric
from judges.rubric_check import check_rubric
from magistrate.arena import arena
from magistrate.augmenting import augment, improve
from magistrate.estimating import estimate
from magistrate.finetuning import finetune
from magistrate.fitting import check_source
from magistrate.flags import AssignFlags, Debug, JudgeFlags, RowFlags, RunFlags, ServerUrl, Source, with_flags
from magistrate.meta import meta
from magistrate.meta.card import card
from magistrate.share import check_share
from magistrate.stopping import stopping_command
from magistrate.studies import generate, qualeval, with_judge_model
from magistrate.terminal import JUDGED_IS_KEPT, clear_errors

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
judges = typer.Typer(invoke_without_command=True)
keys = typer.Typer(invoke_without_command=True)
app.add_typer(judges, name="judges")
app.add_typer(keys, name="keys")
app.add_typer(qualeval, name="qualeval")
app.add_typer(finetune, name="finetune")
app.add_typer(arena, name="arena")
app.add_typer(meta, name="meta")
app.command()(generate)
finetune.command()(augment)
judges.command("card")(card)
app.command()(improve)
app.command()(estimate)

DATABASE_HERE = "sqlite:///magistrate.db"
DATABASE = typer.Option(help="Where files, batches and keys are kept: sqlite:///FILE or postgresql://USER@HOST/NAME.")
SAMPLE = Path(__file__).parent / "sample" / "dialogues.jsonl"
"""Dialogues that come with Magistrate, to try it on."""


@app.callback()
def main() -> None:
    """A court of open judge models on your own hardware."""


@app.command()
@with_flags()
def score(
    source: Source,
    asked: JudgeFlags,
    engine: EngineSettings,
    decoding: Decoding,
    rows: RowFlags,
    run: RunFlags,
    server: ServerUrl = None,
) -> None:
    """Judge every sample of a file. The same command again goes on where it was."""
    from judges.bench import OwnBench
    from magistrate import remote
    from magistrate.quiet import own_console
    from magistrate.report import print_outcome
    from magistrate.scoring import Scoring, score_file

    with clear_errors(debug=run.debug, stopped=JUDGED_IS_KEPT):
        if server is not None:
            remote.refuse_settings(engine)
        name = asked.judge or (
            remote.usual_judge(server, engine.model) if server is not None else catalog.usual_judge(engine.model)
        )
        court = catalog.open_judge(name, asked.options(), **asked.own_options(name))
        columns = rows.columns()
        check_source(source, [court], columns, rows.limit)
        if run.output.exists() and run.output.samefile(source):
            raise MagistrateError(f"{run.output} holds the samples; give `-o` another file")
        how = Scoring(own_console(), columns, rows.limit, strict=rows.strict, overwrite=run.overwrite, debug=run.debug)
        if server is not None:
            spec = remote.asked(name, court, remote.asking(engine.model, decoding))
            outcome = asyncio.run(remote.score_there(server, source, run.output, spec, how))
        else:
            host = with_judge_model(engine).open()
            bench = OwnBench(court, host, decoding)
            outcome = asyncio.run(and_close(score_file(source, run.output, bench, how), host))
        print_outcome(Console(), outcome, run.output)
        check_share(outcome.summary, run.fail_under)


@app.command()
@with_flags(defaults={"output": Path("jury.jsonl")})
def jury(
    source: Source,
    members: Annotated[Path, typer.Option("--members", help="The jury: a .toml file of members and how to combine them.")],
    rows: RowFlags,
    run: RunFlags,
) -> None:
    """Have several judges hear every sample, combine their verdicts, and say how far they agree."""
    from magistrate.jury import hear
    from magistrate.quiet import own_console
    from magistrate.report import print_jury
    from magistrate.scoring import Scoring

    with clear_errors(debug=run.debug, stopped=JUDGED_IS_KEPT):
        how = Scoring(own_console(), rows.columns(), rows.limit, strict=rows.strict, overwrite=run.overwrite, debug=run.debug)
        heard = asyncio.run(hear(source, run.output, members, how))
        print_jury(Console(), heard, run.output)
        check_share(heard.summary, run.fail_under)


@app.command()
@with_flags()
def assign(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="Affinities, a column an attribute: .parquet, .csv, .jsonl or .json.")
    ],
    how: AssignFlags,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where they go: .parquet, .csv or .jsonl.")] = Path(
        "assigned.parquet"
    ),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier output.")] = False,
    debug: Debug = False,
) -> None:
    """Give every row of a file its best k attributes, each attribute about as often as its prior says. Proven optimal."""
    from magistrate.assigning import assign_file

    with clear_errors(debug=debug, stopped="nothing is written"):
        assign_file(source, output, how, console=Console(), overwrite=overwrite)


@judges.callback()
def list_judges(context: typer.Context) -> None:
    """List the judges, or check a rubric of your own."""
    if context.invoked_subcommand is not None:
        return
    table = Table.grid(padding=(0, 2))
    found: dict[str, type[Judge]] = {**catalog.JUDGES.working, "FILE.toml": Rubric}
    for name, judge in found.items():
        table.add_row(Text(name, style="bold"), Text(judge.summary))
        options = "  ".join(f"{key}={option.spelling.says.replace(', ', '|')}" for key, option in judge.Options.listed().items())
        for heading, words in (("needs", str(judge.fields)), ("options", options), ("source", judge.source)):
            table.add_row("", Text.assemble((f"{heading:<9}", "dim"), words))
    Console().print(table)
    for fault in catalog.JUDGES.faults.values():
        print(fault, file=sys.stderr)
    print("Options are given as `-O name=value`.")


@judges.command()
def check(rubric: Annotated[Path, typer.Argument(metavar="FILE", help="A rubric: .toml, .yaml or .yml.")]) -> None:
    """Say what is wrong with a rubric, with line numbers."""
    with clear_errors(debug=False):
        problems = check_rubric(rubric)
        for problem in problems:
            place = "" if problem.line is None else f" line {problem.line}"
            print(f"{rubric}{place}: {problem.message}")
        if problems:
            raise typer.Exit(1)
        court = catalog.open_judge(str(rubric))
        print(f"{rubric} is in order: judge `{court.name}` scores {', '.join(court.levels)}")


@app.command()
def models() -> None:
    """List the models that have a short name. Any folder or hub repository works as well."""
    table = Table("name", Column("repository", no_wrap=True), "good for", "judge", "GPU memory", header_style="bold")
    for name, entry in catalog.MODELS.items():
        memory = "none needed" if entry.embedded else f"{entry.gpu_gib:.0f} GiB"
        table.add_row(name, entry.repository, entry.good_for, entry.judge, memory)
    Console().print(table)
    print(f"Decoding: {catalog.DECODING}.")


@app.command()
def doctor(debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False) -> None:
    """Check this machine: Python, PyTorch, vLLM, memory, which models fit, and a judgement of one sample."""
    from magistrate.doctor import examine

    with clear_errors(debug=debug):
        if not examine(Console()):
            raise typer.Exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessFlags:
    """Where a server listens, and to whom."""

    host: Annotated[str, typer.Option(help="Address to listen on. Any but this machine's own needs keys.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8700
    require_keys: Annotated[bool, typer.Option("--require-keys", help="Ask for a key on this machine too.")] = False
    hostname: Annotated[list[str] | None, typer.Option(help="A name that clients reach the server by.")] = None
    rate: Annotated[int | None, typer.Option(help="Calls a minute for each key.", min=1)] = None
    quota: Annotated[float, typer.Option(help="GiB of uploaded files that each key may keep.")] = 64.0


@app.command()
@with_flags()
def serve(
    access: AccessFlags,
    models: Annotated[
        str | None, typer.Option(help="A models.toml, or a preset: cpu, 24gb, 80gb. The one for this machine by default.")
    ] = None,
    database: Annotated[str, DATABASE] = DATABASE_HERE,
    adapters: Annotated[list[Path] | None, typer.Option(help="A folder that adapters may be loaded from.")] = None,
    dashboards: Annotated[Path, typer.Option(help="The folder shown at /dashboards/.")] = Path("dashboards"),
    log_samples: Annotated[bool, typer.Option("--log-samples", help="Write the text of samples to the log.")] = False,
    debug: Debug = False,
) -> None:
    """Serve judges over HTTP: judging now or in batches that survive a crash, and OpenAI's API."""
    from magistrate import serving
    from server.settings import GIB, Settings

    with clear_errors(debug=debug, stopped=JUDGED_IS_KEPT):
        settings = Settings(
            host=access.host,
            port=access.port,
            database=database,
            require_keys=access.require_keys,
            hosts=tuple(access.hostname or ()),
            rate=access.rate,
            quota=int(access.quota * GIB),
            adapter_folders=serving.absolute(adapters),
            dashboards=dashboards.resolve(),
            log_samples=log_samples,
        )
        serving.serve(settings, models, Console(stderr=True))


@keys.callback()
def list_keys(context: typer.Context, database: Annotated[str, DATABASE] = DATABASE_HERE) -> None:
    """List the keys that open a server, make one, or revoke one."""
    from magistrate import serving

    if context.invoked_subcommand is None:
        with clear_errors(debug=False):
            serving.list_keys(database, Console())


@keys.command("add")
def add_key(
    name: Annotated[str, typer.Argument(help="Whom it is for.")], database: Annotated[str, DATABASE] = DATABASE_HERE
) -> None:
    """Make a key and print it. It is shown this once."""
    from magistrate import serving

    with clear_errors(debug=False):
        print(serving.add_key(database, name))


@keys.command("revoke")
def revoke_key(name: Annotated[str, typer.Argument(help="Whose.")], database: Annotated[str, DATABASE] = DATABASE_HERE) -> None:
    """Let a key open nothing any more; a running server notices within seconds."""
    from magistrate import serving

    with clear_errors(debug=False):
        serving.revoke_key(database, name)


def run() -> None:
    """Run the command and end the process without the libraries' own farewell: vLLM's takes seconds and prints on the way."""
    try:
        with stopping_command():
            app()
    except SystemExit as stop:
        if "vllm" not in sys.modules:
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(stop.code if isinstance(stop.code, int) else 1)
