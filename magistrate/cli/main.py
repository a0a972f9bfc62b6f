"""The ``magistrate`` command."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from judges import catalog
from judges.data.files import check_file, same_file
from judges.data.rows import local
from judges.data.sources import forget_standard_input
from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.engines.engine import and_close
from judges.errors import MagistrateError
from judges.extras import MissingExtraError, naming_extras
from judges.fitting import check_source
from judges.judge import Judge
from judges.rubric import Rubric, check_criteria, check_rubric
from judges.templates.shipped import TEMPLATES, check_template, is_template, lacks_name
from magistrate import __version__
from magistrate.cli.arena import arena
from magistrate.cli.augmenting import augment, improve
from magistrate.cli.estimating import estimate
from magistrate.cli.finetuning import finetune
from magistrate.cli.flags import (
    AssignFlags,
    Columns,
    Debug,
    Encoding,
    JudgeFlags,
    RowFlags,
    RunFlags,
    Samples,
    ServerUrl,
    Source,
    with_flags,
)
from magistrate.cli.meta import meta
from magistrate.cli.meta.card import card
from magistrate.cli.models import Template, keep_template, models
from magistrate.cli.preview import DryRun, previewed, say_columns
from magistrate.cli.serve import keys, serve
from magistrate.cli.share import check_share
from magistrate.cli.stopping import stopping_command
from magistrate.cli.studies import generate, qualeval, with_judge_model
from magistrate.cli.terminal import UNITS_ARE_KEPT, cli_errors, opening, pairs
from magistrate.cli.unit_flags import UnitFlags, check_lines, folder_of, goes_to_folder
from magistrate.cli.verdicts import verdicts

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
judges = typer.Typer(invoke_without_command=True)
app.add_typer(judges, name="judges")
app.add_typer(models, name="models")
app.add_typer(keys, name="keys")
app.add_typer(qualeval, name="qualeval")
app.add_typer(finetune, name="finetune")
app.add_typer(arena, name="arena")
app.add_typer(meta, name="meta")
app.add_typer(verdicts, name="verdicts")
app.command()(generate)
finetune.command()(augment)
judges.command("card")(card)
app.command()(improve)
app.command()(estimate)

SAMPLE = Path(__file__).parents[1] / "sample" / "dialogues.jsonl"
"""Bundled dialogues, to try Magistrate on."""


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"magistrate {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_say_version)] = False,
) -> None:
    """Open judge models on your own hardware."""


@app.command()
@with_flags()
def score(
    source: Samples,
    judging: JudgeFlags,
    engine: EngineSettings,
    decoding: Decoding,
    rows: RowFlags,
    run: RunFlags,
    units: UnitFlags,
    dry_run: DryRun = False,
) -> None:
    """Judge every sample of a file, or of a folder's files. The same command again resumes a stopped run."""
    from magistrate.cli.output import preview_result, result_of, stopped
    from magistrate.cli.report import outcome_fields, print_outcome
    from magistrate.cli.scoring import Scoring, score_file
    from magistrate.remote import open_backend, usual_judge

    if goes_to_folder(source, run.output, units, on_ray=engine.ray is not None):
        _score_units(source, judging, engine, decoding, rows, run, units, dry_run=dry_run)
        return
    with cli_errors(debug=run.debug, stopped=stopped(run)):
        check_lines(run.output)
        with (
            preview_result(run) if dry_run else result_of(run) as result,
            previewed(engine, result.file, wanted=dry_run) as (engine, output),
        ):
            name = judging.judge or usual_judge(engine)
            judge = catalog.open_judge(name, judging.options(), **judging.own_options(name))
            columns = rows.columns()
            check_source(source, [judge], columns, rows.limit, rows.encoding)
            if same_file(run.output, source):
                raise MagistrateError(f"{run.output} holds the samples; give `-o` another file")
            if dry_run:
                say_columns(source, judge, columns, rows.encoding)
            how = Scoring.of(result.progress, rows, run)
            model = with_judge_model(engine, name, silent=run.quiet)
            with opening(debug=run.debug, silent=run.quiet):
                backend = open_backend(name, judge, model, decoding, how.texts(output))
            outcome = asyncio.run(and_close(score_file(source, output, backend, how), backend))
            if run.as_json:
                result.write(json.dumps(outcome_fields(outcome, run.output)))
            else:
                print_outcome(result.summary, outcome, run.output)
        check_share(outcome.summary, run.fail_under)


def _score_units(
    source: Path,
    judging: JudgeFlags,
    engine: EngineSettings,
    decoding: Decoding,
    rows: RowFlags,
    run: RunFlags,
    units: UnitFlags,
    *,
    dry_run: bool,
) -> None:
    """``score``, where verdicts go to a folder."""
    from magistrate.cli.output import result_of
    from magistrate.cli.units import Plan, check_faults, check_flags, print_units, score_units, score_units_on_ray, units_fields
    from magistrate.remote import open_backend, usual_judge

    with cli_errors(debug=run.debug, stopped=UNITS_ARE_KEPT):
        check_flags(rows, run, dry_run=dry_run)
        run = replace(run, output=folder_of(run.output))
        with result_of(run) as result:
            name = judging.judge or usual_judge(engine)
            judge = catalog.open_judge(name, judging.options(), **judging.own_options(name))
            model = with_judge_model(engine, name, silent=run.quiet)
            plan = Plan.of(source, run.output, judge, units, rows.columns())
            if model.ray is not None:
                from magistrate.ray import Asked

                tally = score_units_on_ray(plan, Asked(judge, model, decoding), result.progress, debug=run.debug)
            else:
                with opening(debug=run.debug, silent=run.quiet):
                    backend = open_backend(name, judge, model, decoding, None)
                tally = asyncio.run(and_close(score_units(plan, backend, result.progress, debug=run.debug), backend))
            if run.as_json:
                result.write(units_fields(tally, judge.legal, run.output))
            else:
                print_units(result.summary, tally, judge.legal, run.output)
        check_faults(tally)
        check_share(tally.summary, run.fail_under)


@app.command()
@with_flags(defaults={"output": Path("jury.jsonl")})
def jury(
    source: Source,
    members: Annotated[
        Path,
        typer.Option(
            "--members", help="The jury: a .toml file of members and how to combine them, or 24gb or 80gb: three judges of pairs."
        ),
    ],
    rows: RowFlags,
    run: RunFlags,
    server: ServerUrl = None,
) -> None:
    """Judge every sample with several judges, combine their verdicts, and report how far they agree."""
    from magistrate.cli.jury import hear
    from magistrate.cli.output import result_of, stopped
    from magistrate.cli.report import hearing_fields, print_jury
    from magistrate.cli.scoring import Scoring

    with cli_errors(debug=run.debug, stopped=stopped(run)):
        with result_of(run) as result:
            how = Scoring.of(result.progress, rows, run)
            heard = asyncio.run(hear(source, result.file, members, how, server=server))
            if run.as_json:
                result.write(json.dumps(hearing_fields(heard, run.output)))
            else:
                print_jury(result.summary, heard, run.output)
        check_share(heard.summary, run.fail_under)


@app.command()
@with_flags()
def assign(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="Affinities, a column an attribute: .parquet, .csv, .jsonl or .json.")
    ],
    how: AssignFlags,
    output: Annotated[Path, typer.Option("-o", "--output", help="The output: .parquet, .csv or .jsonl.")] = Path(
        "assigned.parquet"
    ),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier output.")] = False,
    debug: Debug = False,
) -> None:
    """Give every row of a file its best k attributes, each attribute about as often as its prior says. Proven optimal."""
    from magistrate.cli.assigning import assign_file

    with cli_errors(debug=debug, stopped="nothing is written"):
        assign_file(source, output, how, console=Console(), overwrite=overwrite)


@judges.callback()
def list_judges(context: typer.Context) -> None:
    """List the judges, check a judge of your own, or fetch the prompts of one of the authors'."""
    if context.invoked_subcommand is not None:
        return
    table = Table.grid(padding=(0, 2))
    kinds: dict[str, type[Judge]] = {**catalog.JUDGES.working, **TEMPLATES, "FILE.toml": Rubric}
    for name, judge in kinds.items():
        table.add_row(Text(name, style="bold"), Text(judge.summary))
        options = "  ".join(f"{key}={option.spelling.says.replace(', ', '|')}" for key, option in judge.Options.listed().items())
        facts = {"needs": str(judge.fields), "options": options, "source": judge.source}
        if name in TEMPLATES and name not in TEMPLATES.ready():
            facts["first"] = f"`magistrate judges fetch {name}` fetches its authors' words"
        for heading, words in facts.items():
            table.add_row("", Text.assemble((f"{heading:<9}", "dim"), words))
    Console().print(table)
    for fault in catalog.JUDGES.faults.values():
        print(fault, file=sys.stderr)
    print("Options are given as `-O name=value`.")


@judges.command()
def check(file: Annotated[Path, typer.Argument(metavar="FILE", help="A rubric or a template: .toml, .yaml or .yml.")]) -> None:
    """Check a rubric or a template, and list its faults with line numbers."""
    with cli_errors(debug=False):
        criteria = lacks_name(file)
        problems = check_template(file) if is_template(file) else check_criteria(file) if criteria else check_rubric(file)
        for problem in problems:
            place = "" if problem.line is None else f" line {problem.line}"
            print(f"{file}{place}: {problem.message}")
        if problems:
            raise typer.Exit(1)
        if criteria:
            print(f"{file} is valid: criteria for `-O criteria=`, with neither the name nor the fields of a rubric")
            return
        kind = catalog.judge_class(str(file))
        judge = catalog.open_judge(str(file), **kind.example.options)
        reads = f"; it reads {judge.fields}" if is_template(file) else ""
        print(f"{file} is valid: judge `{judge.name}` scores {', '.join(judge.levels)}{reads}")


@judges.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A judge that asks in its authors' words; `magistrate judges` lists the judges.")],
    template: Template = None,
    debug: Debug = False,
) -> None:
    """Fetch the authors' files that a judge's prompts are cut out of, and keep them. They are held against their digests."""
    with cli_errors(debug=debug, stopped="what is fetched whole is kept, and the same command begins again"):
        print(keep_template(name, template))


@app.command()
@with_flags()
def view(
    verdicts: Annotated[Path, typer.Argument(metavar="VERDICTS", help="Verdicts: a file, or a folder of units' verdicts.")],
    judging: JudgeFlags,
    source: Annotated[
        Path | None, typer.Option("--input", help="The samples, to show prompts where the run did not keep them.")
    ] = None,
    field: Columns = None,
    encoding: Encoding = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The page; FILE.html by default.")] = None,
    debug: Debug = False,
) -> None:
    """Write a page on which verdicts are read: what was asked and answered, filtered by status and score."""
    from magistrate.cli.output import STANDARD_OUTPUT
    from magistrate.cli.viewing import check_page, view_file

    with cli_errors(debug=debug):
        if output is None and verdicts == STANDARD_OUTPUT:
            raise MagistrateError("give the page a name with `-o`: the verdicts come from standard input")
        if not verdicts.is_dir():
            check_file(local(verdicts))
        page = verdicts.with_suffix(".html") if output is None else output
        check_page(page, verdicts, source)
        count = view_file(verdicts, page, source, judging, pairs(field, "--field", "field=column"), encoding)
        print(f"{count:,} verdicts: {page}")


@app.command()
def doctor(debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False) -> None:
    """Check this machine: Python, PyTorch, vLLM, memory, which models fit, and a judgement of one sample."""
    from magistrate.cli.doctor import examine

    with cli_errors(debug=debug):
        if not examine(Console()):
            raise typer.Exit(1)


app.command()(serve)


@contextmanager
def ending_with_a_sentence() -> Iterator[None]:
    """Name the extra of a library that a command imports before its work; ``cli_errors`` does so during it."""
    try:
        with naming_extras():
            yield
    except MissingExtraError as error:
        print(f"magistrate: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def run() -> None:
    """Run the command, and end the process without the libraries' exit handlers: vLLM's take seconds and print."""
    try:
        with stopping_command(), ending_with_a_sentence():
            app()
    except SystemExit as stop:
        forget_standard_input()
        if "vllm" not in sys.modules:
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(stop.code if isinstance(stop.code, int) else 1)
