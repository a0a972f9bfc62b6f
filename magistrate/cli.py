"""The ``magistrate`` command."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from judges import catalog
from judges.engines import ENGINES, open_engine
from judges.engines.engine import CONSTRAINTS, and_close
from judges.errors import MagistrateError
from judges.rubric_check import check_rubric
from magistrate.arena import arena
from magistrate.augmenting import augment, improve
from magistrate.estimating import estimate
from magistrate.finetuning import finetune
from magistrate.fitting import check_source
from magistrate.flags import BaseUrl, Debug, Dtype, JudgeOptions, Window
from magistrate.llm_eval_flags import Metric, Reference, Scale, llm_eval_options
from magistrate.meta import meta
from magistrate.meta.card import card
from magistrate.share import FailUnder, check_share
from magistrate.stopping import stopping_command
from magistrate.studies import generate, judge_model, named_model, qualeval
from magistrate.terminal import clear_errors, pairs

if TYPE_CHECKING:
    from magistrate.scoring import Outcome

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
def score(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="Samples: .jsonl, .json, .csv, .parquet or .xlsx.")],
    judge: Annotated[
        str | None, typer.Option(help="Which judge; see `magistrate judges`. Or a rubric file. The model's own by default.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Short name, folder or hub repository; see `magistrate models`.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where verdicts go, a line each.")] = Path("verdicts.jsonl"),
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="Have a running `magistrate serve` judge; nothing is loaded here.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help=f"What runs the model: {', '.join(ENGINES)}. The first by default.")] = None,
    base_url: BaseUrl = None,
    option: JudgeOptions = None,
    column: Annotated[
        list[str] | None, typer.Option("--field", help="Where a field of the sample stands: `field=column` of the file.")
    ] = None,
    metric: Metric = None,
    scale: Scale = None,
    reference: Reference = None,
    think: Annotated[int, typer.Option(help="Tokens a model that thinks first may think for.", min=0)] = 0,
    expected: Annotated[bool, typer.Option(help="Also give each score's expectation and entropy under the model.")] = False,
    constraint: Annotated[
        str | None, typer.Option(help=f"Constraint backend: {', '.join(CONSTRAINTS)}. The first by default.")
    ] = None,
    dtype: Dtype = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of the model on the hub.")] = None,
    max_model_len: Annotated[int | None, typer.Option(help="Context length in tokens; the model's by default.", min=1)] = None,
    window: Window = None,
    limit: Annotated[int | None, typer.Option(help="Judge only the first rows, this many.", min=1)] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at a row that cannot be judged.")] = False,
    fail_under: FailUnder = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Throw away an earlier output.")] = False,
    debug: Debug = False,
) -> None:
    """Judge every sample of a file. The same command again goes on where it was."""
    from judges.bench import OwnBench
    from magistrate import remote
    from magistrate.quiet import own_console
    from magistrate.scoring import Scoring, score_file

    with clear_errors(debug=debug, stopped="what is judged is kept, and the same command goes on from there"):
        if server is not None:
            remote.refuse_settings(
                engine=engine,
                base_url=base_url,
                constraint=constraint,
                dtype=dtype,
                revision=revision,
                max_model_len=max_model_len,
                window=window,
            )
        name = judge or (remote.usual_judge(server, model) if server is not None else catalog.usual_judge(model))
        options = pairs(option, "-O", "name=value")
        own_options = llm_eval_options(name, metric, scale, reference)
        court = catalog.open_judge(name, options, **own_options)
        columns = pairs(column, "--field", "field=column")
        check_source(source, [court], columns, limit)
        if output.exists() and output.samefile(source):
            raise MagistrateError(f"{output} holds the samples; give `-o` another file")
        how: Scoring = {
            "console": own_console(),
            "columns": columns,
            "strict": strict,
            "overwrite": overwrite,
            "limit": limit,
            "debug": debug,
        }
        if server is not None:
            asked = remote.asked(name, court, options, own_options, {"model": model, "expected": expected, "think": think})
            outcome = asyncio.run(remote.score_there(server, source, output, asked, **how))
            _tell(outcome, output, fail_under)
            return
        engine = engine or ENGINES[0]
        host = open_engine(
            engine,
            named_model(engine, judge_model(engine, model)),
            base_url=base_url,
            constraint=constraint,
            dtype=dtype,
            revision=revision,
            max_model_len=max_model_len,
            window=window,
        )
        bench = OwnBench(court, host, expected=expected, think=think)
        run = score_file(source, output, bench, **how)
        _tell(asyncio.run(and_close(run, host)), output, fail_under)


def _tell(outcome: Outcome, output: Path, fail_under: float | None) -> None:
    from magistrate.report import print_outcome

    print_outcome(Console(), outcome, output)
    check_share(outcome.summary, fail_under)


@app.command()
def jury(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="Samples: .jsonl, .json, .csv, .parquet or .xlsx.")],
    members: Annotated[Path, typer.Option("--members", help="The jury: a .toml file of members and how to combine them.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where verdicts go, a line each.")] = Path("jury.jsonl"),
    column: Annotated[
        list[str] | None, typer.Option("--field", help="Where a field of the sample stands: `field=column` of the file.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Judge only the first rows, this many.", min=1)] = None,
    fail_under: FailUnder = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Throw away earlier verdicts, the members' too.")] = False,
    debug: Debug = False,
) -> None:
    """Have several judges hear every sample, combine their verdicts, and say how far they agree."""
    from magistrate.jury import hear
    from magistrate.quiet import own_console
    from magistrate.report import print_jury

    with clear_errors(debug=debug, stopped="what is judged is kept, and the same command goes on from there"):
        columns = pairs(column, "--field", "field=column")
        hearing = hear(
            source, output, members, console=own_console(), columns=columns, overwrite=overwrite, limit=limit, debug=debug
        )
        heard = asyncio.run(hearing)
        print_jury(Console(), heard, output)
        check_share(heard.summary, fail_under)


@app.command()
def assign(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="Affinities, a column an attribute: .parquet, .csv, .jsonl or .json.")
    ],
    attribute: Annotated[
        list[str] | None, typer.Option(help="A column to use, once for each; by default all but the ids.")
    ] = None,
    row_id: Annotated[str | None, typer.Option("--id", help="Column of row ids; `id` by default, where there is one.")] = None,
    k: Annotated[int, typer.Option("-k", "--k", help="Attributes a row.", min=1)] = 2,
    slack: Annotated[str, typer.Option(help="By which part counts may differ from the priors'; or `auto`.")] = "0.1",
    priors: Annotated[
        Path | None, typer.Option(help="JSON object of a share or count an attribute; by default from the affinities.")
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where they go: .parquet, .csv or .jsonl.")] = Path(
        "assigned.parquet"
    ),
    method: Annotated[str, typer.Option(help="How to solve it: search or highs. Both give the same.")] = "search",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier output.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Give every row of a file its best k attributes, each attribute about as often as its prior says. Proven optimal."""
    from magistrate.assigning import assign_file

    with clear_errors(debug=debug, stopped="nothing is written"):
        assign_file(
            source,
            output,
            console=Console(),
            attributes=attribute or (),
            row_id=row_id,
            k=k,
            slack=slack,
            priors=priors,
            method=method,
            overwrite=overwrite,
        )


@judges.callback()
def list_judges(context: typer.Context) -> None:
    """List the judges, or check a rubric of your own."""
    if context.invoked_subcommand is not None:
        return
    table = Table.grid(padding=(0, 2))
    for name, entry in {**catalog.JUDGES, "FILE.toml": catalog.RUBRIC}.items():
        table.add_row(Text(name, style="bold"), Text(entry.asks))
        options = "  ".join(f"{key}={option.says.replace(', ', '|')}" for key, option in entry.options.items())
        for heading, words in (("needs", entry.needs), ("options", options), ("source", entry.source)):
            table.add_row("", Text.assemble((f"{heading:<9}", "dim"), words))
    Console().print(table)
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


@app.command()
def serve(
    models: Annotated[
        str | None, typer.Option(help="A models.toml, or a preset: cpu, 24gb, 80gb. The one for this machine by default.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on. Any but this machine's own needs keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8700,
    database: Annotated[str, DATABASE] = DATABASE_HERE,
    require_keys: Annotated[bool, typer.Option("--require-keys", help="Ask for a key on this machine too.")] = False,
    name: Annotated[list[str] | None, typer.Option("--hostname", help="A name that clients reach the server by.")] = None,
    rate: Annotated[int | None, typer.Option(help="Calls a minute for each key.", min=1)] = None,
    quota: Annotated[float, typer.Option(help="GiB of uploaded files that each key may keep.")] = 64.0,
    adapters: Annotated[list[Path] | None, typer.Option(help="A folder that adapters may be loaded from.")] = None,
    dashboards: Annotated[Path, typer.Option(help="The folder shown at /dashboards/.")] = Path("dashboards"),
    log_samples: Annotated[bool, typer.Option("--log-samples", help="Write the text of samples to the log.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Serve judges over HTTP: judging now or in batches that survive a crash, and OpenAI's API."""
    from magistrate import serving
    from server.settings import GIB, Settings

    with clear_errors(debug=debug, stopped="what is judged is kept, and the same command goes on from there"):
        settings = Settings(
            host=host,
            port=port,
            database=database,
            require_keys=require_keys,
            hosts=tuple(name or ()),
            rate=rate,
            quota=int(quota * GIB),
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
