"""The commands of the arena."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console

from judges import catalog
from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.engines.engine import and_close
from judges.errors import MagistrateError, reason_of
from magistrate.cli.flags import Comparing, Debug, Encoding, Folder, JudgeOptions, Limit, Seed, with_flags
from magistrate.cli.preview import DryRun, previewed
from magistrate.cli.share import check_any
from magistrate.cli.studies import with_judge_model
from magistrate.cli.terminal import ANSWERED_IS_KEPT, JUDGED_IS_KEPT, cli_errors, opening, pairs

if TYPE_CHECKING:
    from evals.arena.rating import Options, Ties, Unit
    from evals.arena.tournament import Method, Played, Tournament
    from evals.data.answers import Answers
    from evals.data.questions import QuestionSet
    from judges.backend import Backend
    from judges.judge import Judge
    from magistrate.cli.arena_file import ArenaFile

arena = typer.Typer(no_args_is_help=True)

HIGHEST = 1_000_000
"""The highest rating that an anchor may have."""

NOT_IN_A_FILES_NAME = re.compile(r"[^\w.-]")

KINDS_OF_FILE = ".xlsx, .csv, .json, .jsonl or .parquet"

QUESTIONS_HELP = f"The questions: {KINDS_OF_FILE}, as published or with columns of your own."
Questions = Annotated[Path, typer.Option(help=QUESTIONS_HELP)]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFlags:
    """How questions are read."""

    field: Annotated[list[str] | None, typer.Option(help="Where a field of a question stands: `field=column`.")] = None
    encoding: Encoding = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestantFlags(QuestionFlags):
    """The questions, what models answered, and how both are read."""

    questions: Annotated[Path | None, typer.Option(help=QUESTIONS_HELP)] = None
    answers: Annotated[list[str] | None, typer.Option(help="A model's answers: FILE, or NAME=FILE. Repeat for each model.")] = (
        None
    )
    answer_column: Annotated[
        list[str] | None,
        typer.Option(help="A column of the questions' file with a model's answers, or `*` for all such columns."),
    ] = None

    def files(self) -> Sequence[tuple[str | None, Path]]:
        """Each file of answers, and its model's name where one is given."""
        from magistrate.cli.studies import named_file

        return [named_file(text) for text in self.answers or ()]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestantsOfFile(ContestantFlags):
    """The same as an arena's file has it."""

    named: Sequence[tuple[str | None, Path]] = ()

    def files(self) -> Sequence[tuple[str | None, Path]]:
        return self.named


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingFlags:
    """Which answers meet, and who compares them."""

    pairing: Annotated[str, typer.Option("--pairs", help="Who meets: all, baseline or swiss.")] = "all"
    rounds: Annotated[int, typer.Option(help="Swiss rounds: games of a model on each question.", min=1)] = 4
    judge: Comparing = catalog.PAIRWISE
    option: JudgeOptions = None
    limit: Limit = None
    reuse: Annotated[bool, typer.Option("--reuse/--overwrite", "-r", help="Reuse existing verdicts, or discard them.")] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingFlags:
    """How models are rated."""

    baseline: Annotated[str | None, typer.Option(help="The model that win rates compare with.")] = None
    anchor: Annotated[
        str | None, typer.Option(help="The model whose rating is given: NAME or NAME=RATING. By default the mean is 1000.")
    ] = None
    k: Annotated[float, typer.Option("--k", help="The most points that a game moves in bootstrap Elo: 32 in the guide.")] = 32.0
    count: Annotated[
        str, typer.Option(help="What the guide's tables count: orders, without pairs whose orders disagree, or pairs.")
    ] = "orders"
    ties: Annotated[str, typer.Option(help="What a tie is in ratings: half (a win) or davidson.")] = "half"
    bootstrap: Annotated[int, typer.Option(help="Rounds of the bootstraps.", min=2)] = 1000
    seed: Seed = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideFlags:
    """What accompanies existing verdicts."""

    pairs_file: Annotated[
        Path | None, typer.Option("--pairs", help="The samples that `magistrate score` judged, with `model_a` and `model_b`.")
    ] = None
    judged_by: Annotated[str | None, typer.Option(help="The judge's name in the report, if the verdicts do not say.")] = None
    rename: Annotated[list[str] | None, typer.Option(help="Another name for a model of the files: `OLD=NEW`.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFlags:
    """How a model answers."""

    temperature: Annotated[float, typer.Option(help="Sampling temperature; 0 decodes greedily.", min=0)] = 0.0
    max_tokens: Annotated[int, typer.Option(help="Room for an answer to a turn, in tokens.", min=1)] = 1024
    limit: Limit = None
    seed: Seed = 0


@arena.callback()
def about_arena() -> None:
    """Compare models' answers two by two: who wins, with intervals, and the judge's biases."""


@arena.command()
@with_flags(expected="Also ask for the judge's probabilities, and rate by them.")
def run(
    contestants: ContestantFlags,
    engine: EngineSettings,
    decoding: Decoding,
    how: PairingFlags,
    rating: RatingFlags,
    config: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE.toml]", help="A file of questions, contestants, judge and report, instead of flags."),
    ] = None,
    output: Folder = Path("arena"),
    dry_run: DryRun = False,
    debug: Debug = False,
) -> None:
    """Compare every pair of answers, and report. The same command again resumes a stopped run."""
    from evals.arena.pairing import METHODS
    from evals.arena.tournament import Tournament
    from magistrate.remote import open_backend

    with cli_errors(debug=debug, stopped=JUDGED_IS_KEPT), previewed(engine, output, wanted=dry_run) as (engine, output):
        if config is not None:
            if dry_run:
                raise MagistrateError(f"`--dry-run` shows what flags describe; the models of {config} may have to answer first")
            flags = (contestants, engine, decoding, replace(how, reuse=True), rating)
            if flags != (ContestantFlags(), EngineSettings(), Decoding(), PairingFlags(), RatingFlags()):
                raise MagistrateError(f"settings stand in {config}; give only `-o`, `-r`, `--overwrite` and `--debug` beside it")
            contestants, engine, decoding, how, rating = _from_file(config, output, reuse=how.reuse, debug=debug)
        if contestants.questions is None:
            raise MagistrateError(
                "give `--questions FILE` and the models' answers, or a file of all settings: `arena run FILE.toml`"
            )
        engine.check()
        if how.pairing not in METHODS:
            raise MagistrateError(f"`--pairs {how.pairing}` must be one of {', '.join(METHODS)}")
        question_set = _questions(contestants.questions, contestants, how.limit)
        tournament = Tournament(
            questions=question_set,
            answers=_contestants(question_set, contestants),
            method=cast("Method", how.pairing),
            baseline=rating.baseline,
            rounds=how.rounds,
            seed=rating.seed,
        )
        options = _options(rating, tournament.models)
        judge = _judge(how.judge, pairs(how.option, "-O", "name=value"))
        engine = with_judge_model(engine, how.judge)
        with opening(debug=debug):
            backend = open_backend(how.judge, judge, engine, decoding)
        played = asyncio.run(and_close(_play(tournament, output, backend, overwrite=not how.reuse, debug=debug), backend))
        _report(tournament, played, options, output, expected=decoding.expected)
        check_any(played.verdicts.values())


@arena.command()
@with_flags()
def report(
    verdicts: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Verdicts from anywhere: battles, reviews, judgments.")
    ],
    contestants: ContestantFlags,
    beside: BesideFlags,
    rating: RatingFlags,
    output: Folder = Path("arena"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a report on something else in the folder.")] = False,
    debug: Debug = False,
) -> None:
    """Report on existing verdicts."""
    from evals.arena.report import check_folder, document, write
    from evals.arena.sources import Beside, gather
    from evals.arena.storage import examples, write_workbooks
    from evals.arena.study import report as figures
    from evals.reports.terminal import show

    with cli_errors(debug=debug):
        questions = contestants.questions
        question_set = None if questions is None else _questions(questions, contestants, None)
        answered = contestants.answers or contestants.answer_column
        if question_set is None and answered:
            raise MagistrateError("answers go with the questions they answer: give `--questions FILE`")
        if question_set is None and contestants.field:
            raise MagistrateError("`--field` says where a question's fields stand: give `--questions FILE`")
        answers = [] if question_set is None or not answered else _contestants(question_set, contestants)
        renamed = pairs(beside.rename, "--rename", "OLD=NEW")
        rest = Beside(
            questions=question_set, answers=answers, pairs=beside.pairs_file, renamed=renamed, encoding=contestants.encoding
        )
        battles, faults = gather(verdicts, rest)
        options = _options(rating, battles.models)
        known = battles.judge.names
        provenance: dict[str, Any] = {"source": ", ".join(path.name for path in verdicts)}
        provenance["judge_model"] = beside.judged_by or (", ".join(known) if known else None)
        shown = None
        if question_set is not None and answers:
            texts = {renamed.get(contestant.model, contestant.model): contestant.texts for contestant in answers}
            shown = examples(battles, question_set.questions, texts)
        faults = [
            *(question_set.faults if question_set else ()),
            *(fault for contestant in answers for fault in contestant.faults),
            *faults,
        ]
        study = figures(battles, options, faults=faults, made=provenance)
        if not overwrite:
            check_folder(study, output)
        written = write(study, output, shown)
        with _writing(output):
            write_workbooks(battles, output)
        show(document(study), written[0])


@arena.command()
@with_flags(model="Who answers: short name, folder or hub repository.")
def answer(
    questions: Questions,
    reading: QuestionFlags,
    engine: EngineSettings,
    how: AnswerFlags,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where answers go, a line each.")] = Path("answers.jsonl"),
    name: Annotated[str | None, typer.Option(help="The contestant's name; by default its model's.")] = None,
    debug: Debug = False,
) -> None:
    """Have a model answer an arena's questions, turn by turn. The same command again resumes a stopped run."""
    with cli_errors(debug=debug, stopped=ANSWERED_IS_KEPT):
        _answer(_questions(questions, reading, how.limit), engine, how, output, name, debug=debug)


def _answer(
    questions: QuestionSet, engine: EngineSettings, how: AnswerFlags, output: Path, name: str | None, *, debug: bool
) -> None:
    """Have a model answer the questions that the output does not hold yet."""
    from evals.arena.answering import answer_questions
    from evals.arena.phrases import fault_words
    from evals.generation import Sampling
    from magistrate.cli.terminal import ConsoleProgress, own_console

    for fault in questions.faults:
        Console().print(f"not asked: {fault_words(asdict(fault))}", markup=False, highlight=False)
    sampling = Sampling(temperatures=(how.temperature,), shots=0, max_tokens=how.max_tokens, seed=how.seed)
    with opening(debug=debug):
        llm = engine.open()
    progress = ConsoleProgress(own_console(), len(questions.questions), what="answering", debug=debug)

    async def answering() -> int:
        await llm.identify()
        called = name or Path(llm.identity.model).name
        return await answer_questions(questions.questions, called, llm, output, sampling, progress)

    count = asyncio.run(and_close(answering(), llm))
    Console().print(f"{count:,} answered now; {output}", markup=False, highlight=False)


def _from_file(
    path: Path, output: Path, *, reuse: bool, debug: bool
) -> tuple[ContestantFlags, EngineSettings, Decoding, PairingFlags, RatingFlags]:
    """What a file says in place of flags. Models that answer do so first, into the folder ``answers`` of the output."""
    from magistrate.cli.arena_file import ArenaFile

    arena = ArenaFile.load(path)
    reading = QuestionFlags(field=[f"{name}={column}" for name, column in arena.field.items()], encoding=arena.encoding)
    questions = _questions(arena.questions, reading, arena.limit)
    columns = [entry.column for entry in arena.contestant if entry.column is not None]
    given = [(entry.name, entry.answers) for entry in arena.contestant if entry.answers is not None]
    rating = RatingFlags(seed=arena.seed, **arena.report.model_dump())
    _check_before_answering(
        arena, rating, questions, ContestantsOfFile(named=given, answer_column=columns or None, encoding=arena.encoding)
    )
    answers: list[tuple[str | None, Path]] = []
    for number, entry in enumerate(arena.contestant, start=1):
        file = entry.answers
        if entry.answers is None and entry.column is None:
            name = entry.called or f"contestant-{number}"
            file = output / "answers" / (NOT_IN_A_FILES_NAME.sub("_", name) + ".jsonl")
            if not reuse:
                file.unlink(missing_ok=True)
            how = AnswerFlags(temperature=entry.temperature, max_tokens=entry.max_tokens, seed=arena.seed)
            _answer(questions, entry.settings, how, file, entry.called, debug=debug)
        if file is not None:
            answers.append((entry.name, file))
    return (
        ContestantsOfFile(
            questions=arena.questions,
            field=reading.field,
            encoding=reading.encoding,
            named=answers,
            answer_column=columns or None,
        ),
        arena.judge.settings,
        arena.judge.decoding,
        PairingFlags(
            pairing=arena.pairs,
            rounds=arena.rounds,
            judge=arena.judge.name,
            option=[f"{name}={value}" for name, value in arena.judge.options.items()],
            limit=arena.limit,
            reuse=reuse,
        ),
        rating,
    )


def _judge(name: str, options: Mapping[str, str]) -> Judge:
    """The judge of an arena, which asks in the question's language if it can.

    Raises:
        MagistrateError: There is no such judge or option, or the judge does not compare two answers.
    """
    usual = {"language": "auto"} if name == catalog.PAIRWISE else {}
    return catalog.open_comparing(name, {**usual, **options})


def _check_before_answering(arena: ArenaFile, rating: RatingFlags, questions: QuestionSet, given: ContestantFlags) -> None:
    """Refuse a file whose answers, judge or report cannot be used, before a model answers.

    Raises:
        MagistrateError: That is so.
    """
    from evals.arena.tournament import check_contestants

    _judge(arena.judge.name, arena.judge.options)
    names = [contestant.model for contestant in _contestants(questions, given)] if given.files() or given.answer_column else []
    answering = [entry.called for entry in arena.contestant if entry.answers is None and entry.column is None]
    known = [name for name in answering if name is not None]
    if len(known) == len(answering):
        names += known
        check_contestants(names, method=arena.pairs, baseline=rating.baseline, rounds=arena.rounds)
        _options(rating, names)


@contextmanager
def _writing(output: Path) -> Iterator[None]:
    """Say in a sentence that the battles cannot be written."""
    try:
        yield
    except OSError as error:
        raise MagistrateError(f"the battles cannot be written to {output}: {reason_of(error)}") from error


async def _play(tournament: Tournament, output: Path, backend: Backend, *, overwrite: bool, debug: bool) -> Played:
    from evals.arena.tournament import play
    from magistrate.cli.terminal import ConsoleProgress, own_console

    console = own_console()
    return await play(
        tournament, output, backend, lambda count: ConsoleProgress(console, count, debug=debug), overwrite=overwrite
    )


def _report(tournament: Tournament, played: Played, options: Options, output: Path, *, expected: bool) -> None:
    import numpy as np

    from evals.arena.report import document, write
    from evals.arena.storage import examples, write_battles, write_workbooks
    from evals.arena.study import report as figures
    from evals.data.tasks import Fault
    from evals.reports.terminal import show

    faults = [*tournament.questions.faults, *(fault for contestant in tournament.answers for fault in contestant.faults)]
    if expected and played.judged and np.isnan(played.battles.probability).all():
        faults.append(Fault("verdict without probabilities, which `--expected` asks for: the engine gives none", played.judged))
    study = figures(played.battles, options, faults=faults, made=played.made)
    with _writing(output):
        write_battles(played.battles, output)
        write_workbooks(played.battles, output)
    answers = {contestant.model: contestant.texts for contestant in tournament.answers}
    shown = examples(played.battles, tournament.questions.questions, answers, played.verdicts)
    show(document(study), write(study, output, shown)[0])


def _questions(path: Path, how: QuestionFlags, limit: int | None) -> QuestionSet:
    from evals.data.questions import read_questions

    return read_questions(path, fields=pairs(how.field, "--field", "field=column"), encoding=how.encoding, limit=limit)


def _contestants(questions: QuestionSet, how: ContestantFlags) -> list[Answers]:
    """The answers of each model, from files and from the questions' own columns.

    Raises:
        MagistrateError: There are none.
    """
    from evals.data.answers import answers_in, read_answers

    if not how.files() and not how.answer_column:
        there = f", or columns of {questions.path.name} as `--answer-column`" if questions.columns else ""
        raise MagistrateError(f"give what the models answered: `--answers FILE` for each model{there}")
    contestants: list[Answers] = []
    for name, path in how.files():
        contestants += read_answers(path, questions, name=name, encoding=how.encoding)
    return [*contestants, *(answers_in(questions, how.answer_column) if how.answer_column else ())]


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
            raise MagistrateError(f"`--anchor {anchor}` is neither a model nor NAME=RATING; the models are {', '.join(models)}")
    options = Options(
        baseline=how.baseline,
        anchor=name,
        anchor_rating=rating,
        k=how.k,
        count=cast("Unit", how.count),
        ties=cast("Ties", how.ties),
        rounds=how.bootstrap,
        seed=how.seed,
    )
    options.check(models)
    return options
