"""The commands of the arena."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console

from judges import catalog
from judges.bench import OwnBench
from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.engines.engine import and_close
from judges.errors import MagistrateError, reason_of
from magistrate.flags import Debug, Encoding, Folder, Limit, Seed, ServerUrl, with_flags
from magistrate.share import check_any
from magistrate.studies import with_judge_model
from magistrate.terminal import ANSWERED_IS_KEPT, JUDGED_IS_KEPT, clear_errors, pairs

if TYPE_CHECKING:
    from evals.arena.answers import Answers
    from evals.arena.questions import QuestionSet
    from evals.arena.rating import Options, Ties
    from evals.arena.tournament import Method, Played, Tournament
    from judges.bench import Bench
    from magistrate.client import Asking

arena = typer.Typer(no_args_is_help=True)

HIGHEST = 1_000_000
"""The highest rating that an anchor may have."""

KINDS_OF_FILE = ".xlsx, .csv, .json, .jsonl or .parquet"

Questions = Annotated[Path, typer.Option(help=f"What is asked: {KINDS_OF_FILE}, as published or with columns of your own.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFlags:
    """How questions are read."""

    field: Annotated[list[str] | None, typer.Option(help="Where a field of a question stands: `field=column`.")] = None
    encoding: Encoding = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestantFlags(QuestionFlags):
    """What models answered, and how the questions are read."""

    answers: Annotated[list[str] | None, typer.Option(help="What a model answered: FILE, or NAME=FILE. Once for each model.")] = (
        None
    )
    answer_column: Annotated[
        list[str] | None,
        typer.Option(help="A column of the questions' file with a model's answers, or `*` for all such columns."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingFlags:
    """Which answers meet, and who compares them."""

    pairing: Annotated[str, typer.Option("--pairs", help="Who meets: all, baseline or swiss.")] = "all"
    rounds: Annotated[int, typer.Option(help="Swiss rounds: games of a model on each question.", min=1)] = 4
    option: Annotated[list[str] | None, typer.Option("-O", "--option", help="An option of the pairwise judge: `name=value`.")] = (
        None
    )
    limit: Limit = None
    server: ServerUrl = None
    reuse: Annotated[
        bool, typer.Option("--reuse/--overwrite", "-r", help="Reuse the verdicts that are there, or throw them away.")
    ] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingFlags:
    """How models are rated."""

    baseline: Annotated[str | None, typer.Option(help="The model that win rates are told against.")] = None
    anchor: Annotated[
        str | None, typer.Option(help="The model whose rating is given: NAME or NAME=RATING. By default the mean is 1000.")
    ] = None
    ties: Annotated[str, typer.Option(help="What a tie is in ratings: half (a win) or davidson.")] = "half"
    bootstrap: Annotated[int, typer.Option(help="Rounds of the bootstraps.", min=2)] = 1000
    seed: Seed = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideFlags:
    """What goes with verdicts that are there already."""

    pairs_file: Annotated[
        Path | None, typer.Option("--pairs", help="The samples that `magistrate score` judged, with `model_a` and `model_b`.")
    ] = None
    judged_by: Annotated[str | None, typer.Option(help="Who judged, for the report, where the verdicts do not tell.")] = None
    rename: Annotated[list[str] | None, typer.Option(help="Another name for a model of the files: `OLD=NEW`.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFlags:
    """How a model answers."""

    temperature: Annotated[float, typer.Option(help="Of the sampling; 0 for none.", min=0)] = 0.0
    max_tokens: Annotated[int, typer.Option(help="Room for an answer to a turn, in tokens.", min=1)] = 1024
    limit: Limit = None
    seed: Seed = 0


@arena.callback()
def about_arena() -> None:
    """Models' answers compared two by two: who wins, with intervals, and what the judge goes by."""


@arena.command()
@with_flags(expected="Also ask for the judge's probabilities, and rate by them.")
def run(
    questions: Questions,
    contestants: ContestantFlags,
    engine: EngineSettings,
    decoding: Decoding,
    how: PairingFlags,
    rating: RatingFlags,
    output: Folder = Path("arena"),
    debug: Debug = False,
) -> None:
    """Have every pair of answers compared, and report. The same command again goes on where it was."""
    from evals.arena.pairing import METHODS
    from evals.arena.tournament import Tournament

    with clear_errors(debug=debug, stopped=JUDGED_IS_KEPT):
        if how.server is not None:
            from magistrate import remote

            remote.refuse_settings(engine)
        if how.pairing not in METHODS:
            raise MagistrateError(f"`--pairs {how.pairing}` is none of {', '.join(METHODS)}")
        asked = _questions(questions, contestants, how.limit)
        tournament = Tournament(
            questions=asked,
            answers=_contestants(asked, contestants),
            method=cast("Method", how.pairing),
            baseline=rating.baseline,
            rounds=how.rounds,
            seed=rating.seed,
        )
        options = _options(rating, tournament.models)
        texts = {"language": "auto", **pairs(how.option, "-O", "name=value")}
        if how.server is not None:
            spec = remote.asking(engine.model, decoding)
            played = _play_there(tournament, output, how.server, texts, spec, overwrite=not how.reuse, debug=debug)
        else:
            host = with_judge_model(engine).open()
            bench = OwnBench(catalog.open_judge("pairwise", texts), host, decoding)
            played = asyncio.run(and_close(_play(tournament, output, bench, overwrite=not how.reuse, debug=debug), host))
        _report(tournament, played, options, output, expected=decoding.expected)
        check_any(played.verdicts.values())


@arena.command()
@with_flags()
def report(
    verdicts: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Verdicts of any making: battles, reviews, judgments.")
    ],
    contestants: ContestantFlags,
    beside: BesideFlags,
    rating: RatingFlags,
    output: Folder = Path("arena"),
    questions: Annotated[Path | None, typer.Option(help="What was asked, for capabilities and languages.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a report on something else in the folder.")] = False,
    debug: Debug = False,
) -> None:
    """Report on verdicts that are there already."""
    from evals.arena.gathering import Beside, gather
    from evals.arena.keeping import examples
    from evals.arena.report import check_folder, document, write
    from evals.arena.study import report as figures
    from evals.reports.terminal import show

    with clear_errors(debug=debug):
        asked = None if questions is None else _questions(questions, contestants, None)
        answered = contestants.answers or contestants.answer_column
        if asked is None and answered:
            raise MagistrateError("answers go with the questions they answer: give `--questions FILE`")
        if asked is None and contestants.field:
            raise MagistrateError("`--field` says where a question's fields stand: give `--questions FILE`")
        answers = [] if asked is None or not answered else _contestants(asked, contestants)
        renamed = pairs(beside.rename, "--rename", "OLD=NEW")
        rest = Beside(questions=asked, answers=answers, pairs=beside.pairs_file, renamed=renamed, encoding=contestants.encoding)
        battles, faults = gather(verdicts, rest)
        options = _options(rating, battles.models)
        known = battles.judge.names
        made: dict[str, Any] = {"source": ", ".join(path.name for path in verdicts)}
        made["judge_model"] = beside.judged_by or (", ".join(known) if known else None)
        shown = None
        if asked is not None and answers:
            texts = {renamed.get(one.model, one.model): one.texts for one in answers}
            shown = examples(battles, asked.questions, texts)
        faults = [*(asked.faults if asked else ()), *(fault for one in answers for fault in one.faults), *faults]
        found = figures(battles, options, faults=faults, made=made)
        if not overwrite:
            check_folder(found, output)
        show(document(found), write(found, output, shown)[0])


@arena.command()
@with_flags(model="Who answers: short name, folder or hub repository.")
def answer(
    questions: Questions,
    reading: QuestionFlags,
    engine: EngineSettings,
    how: AnswerFlags,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where answers go, a line each.")] = Path("answers.jsonl"),
    name: Annotated[str | None, typer.Option(help="What the contestant is called; by default as its model.")] = None,
    debug: Debug = False,
) -> None:
    """Have a model answer an arena's questions, turn by turn. The same command again goes on where it was."""
    from evals.arena.answering import answer_questions
    from evals.arena.phrases import fault_words
    from evals.generation import Sampling
    from magistrate.quiet import own_console
    from magistrate.terminal import Watching

    with clear_errors(debug=debug, stopped=ANSWERED_IS_KEPT):
        found = _questions(questions, reading, how.limit)
        asked = found.questions
        for fault in found.faults:
            Console().print(f"not asked: {fault_words(asdict(fault))}", markup=False, highlight=False)
        sampling = Sampling(temperature=how.temperature, shots=0, max_tokens=how.max_tokens, seed=how.seed)
        host = engine.open()
        watching = Watching(own_console(), len(asked), what="answering", debug=debug)

        async def answering() -> int:
            await host.identify()
            called = name or Path(host.identity.model).name
            return await answer_questions(asked, called, host, output, sampling, watching)

        count = asyncio.run(and_close(answering(), host))
        Console().print(f"{count:,} answered now; {output}", markup=False, highlight=False)


async def _play(tournament: Tournament, output: Path, bench: Bench, *, overwrite: bool, debug: bool) -> Played:
    from evals.arena.tournament import play
    from magistrate.quiet import own_console
    from magistrate.terminal import Watching

    console = own_console()
    return await play(tournament, output, bench, lambda count: Watching(console, count, debug=debug), overwrite=overwrite)


def _play_there(
    tournament: Tournament, output: Path, server: str, texts: Mapping[str, str], asking: Asking, *, overwrite: bool, debug: bool
) -> Played:
    """Have a running server judge."""
    from magistrate import remote
    from magistrate.client import AsyncClient

    name = "pairwise"
    asked = remote.asked(name, catalog.open_judge(name, texts), asking)

    async def played() -> Played:
        async with AsyncClient(server, patience=remote.PATIENCE_SECONDS, urgent=False) as client:
            return await _play(tournament, output, remote.ServerBench(client, asked), overwrite=overwrite, debug=debug)

    return asyncio.run(played())


def _report(tournament: Tournament, played: Played, options: Options, output: Path, *, expected: bool) -> None:
    import numpy as np

    from evals.arena.keeping import examples, write_battles
    from evals.arena.report import document, write
    from evals.arena.study import report as figures
    from evals.reports.terminal import show
    from evals.tasks import Fault

    faults = [*tournament.questions.faults, *(fault for one in tournament.answers for fault in one.faults)]
    if expected and played.judged and np.isnan(played.battles.probability).all():
        faults.append(Fault("verdict without probabilities, which `--expected` asks for: the engine gives none", played.judged))
    found = figures(played.battles, options, faults=faults, made=played.made)
    try:
        write_battles(played.battles, output)
    except OSError as error:
        raise MagistrateError(f"the battles cannot be written to {output}: {reason_of(error)}") from error
    answers = {one.model: one.texts for one in tournament.answers}
    shown = examples(played.battles, tournament.questions.questions, answers, played.verdicts)
    show(document(found), write(found, output, shown)[0])


def _questions(path: Path, how: QuestionFlags, limit: int | None) -> QuestionSet:
    from evals.arena.questions import read_questions

    return read_questions(path, fields=pairs(how.field, "--field", "field=column"), encoding=how.encoding, limit=limit)


def _contestants(questions: QuestionSet, how: ContestantFlags) -> list[Answers]:
    """The answers of each model, from files and from the questions' own columns.

    Raises:
        MagistrateError: There are none.
    """
    from evals.arena.answers import answers_in, read_answers
    from magistrate.studies import named_file

    if not how.answers and not how.answer_column:
        there = f", or columns of {questions.path.name} as `--answer-column`" if questions.columns else ""
        raise MagistrateError(f"give what the models answered: `--answers FILE` for each model{there}")
    found = []
    for text in how.answers or ():
        name, path = named_file(text)
        found += read_answers(path, questions, name=name, encoding=how.encoding)
    return [*found, *(answers_in(questions, how.answer_column) if how.answer_column else ())]


def _options(how: RatingFlags, models: Sequence[str]) -> Options:
    from evals.arena.rating import Options

    anchor = how.anchor
    name, rating = anchor, 1000.0
    if anchor is not None and anchor not in models:
        name, _, text = anchor.rpartition("=")
        try:
            rating = float(text)
        except ValueError:
            rating = math.nan
        if not abs(rating) <= HIGHEST:
            raise MagistrateError(f"`--anchor {anchor}` is no model, nor NAME=RATING; the models are {', '.join(models)}")
    options = Options(
        baseline=how.baseline,
        anchor=name,
        anchor_rating=rating,
        ties=cast("Ties", how.ties),
        rounds=how.bootstrap,
        seed=how.seed,
    )
    options.check(models)
    return options
