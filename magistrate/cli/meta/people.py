"""The command that compares a judge's scores with people's ratings."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judges.calibration import FILE as CALIBRATION
from judges.data.rows import Row
from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.engines.engine import Engine
from judges.errors import MagistrateError
from judges.fitting import check_columns
from judges.llm_eval import LLMEval
from magistrate.cli.flags import Columns, Encoding, FolderFlags, JudgeFlags, Level, Limit, Seed, with_flags
from magistrate.cli.meta.judging import JudgeSpec, Rounds, VerdictFlags, verdicts_on, write_samples
from magistrate.cli.preview import DryRun, previewed
from magistrate.cli.terminal import JUDGED_IS_KEPT, cli_errors, pairs

if TYPE_CHECKING:
    from evals.data.published_ratings import RatedSet
    from evals.meta.people.gpt_score import Likelihoods
    from evals.metrics.embedding import EmbeddingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedFlags:
    """The ratings of people."""

    human: Annotated[
        list[str] | None,
        typer.Option(help="What people rated and where: QUALITY=COLUMN[,COLUMN...], a column a rater. A cell may be a list."),
    ] = None
    field: Columns = None
    item: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The column of what a sample is about, e.g. its document; each its own by default.",
        ),
    ] = None
    system: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column of who wrote what is rated: also correlate the systems' means."),
    ] = None
    limit: Limit = None
    encoding: Encoding = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelationFlags:
    """What the judge is compared with, and how sure the figures are."""

    embeddings: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Also compare with references by token vectors of this model.")
    ] = None
    layer: Annotated[
        int | None, typer.Option(help="The layer of that model; by default three quarters of the way up.", min=1)
    ] = None
    idf: Annotated[bool, typer.Option("--idf", help="Weigh tokens by their rarity among the references.")] = False
    rescale: Annotated[
        str | None,
        typer.Option(
            metavar="LANGUAGE|FILE", help="Rescale token vectors' F1 by bert-score's baseline of a language, or a file's."
        ),
    ] = None
    gptscore: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Also compare with how likely this model finds responses (GPTScore).")
    ] = None
    calibrate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC=QUALITY",
            help="Fit expected scores of METRIC to people's QUALITY, and write calibration.json for the model's folder.",
        ),
    ] = None
    rounds: Rounds = 2000
    level: Level = 0.95
    seed: Seed = 0

    def embedding_options(self) -> EmbeddingOptions | None:
        """How texts are compared by token vectors, if they are.

        Raises:
            MagistrateError: A flag of this comparison is given without its model.
        """
        from evals.metrics.embedding import EmbeddingOptions

        given = {"--layer": self.layer is not None, "--idf": self.idf, "--rescale": self.rescale is not None}
        if self.embeddings is None:
            for flag in [flag for flag, there in given.items() if there]:
                raise MagistrateError(f"`{flag}` needs the model of `--embeddings`; give that too")
            return None
        return EmbeddingOptions(self.embeddings, self.layer, self.idf, self.rescale)


@with_flags(
    defaults={"output": Path("people"), "judge": LLMEval.name}, expected="Also compare the judge's expected scores with people."
)
def people(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="Rated samples: USR's two files, GRADE, DialSummEval, or any file with `--human`."),
    ],
    rated: RatedFlags,
    engine: EngineSettings,
    decoding: Decoding,
    source: VerdictFlags,
    figures: CorrelationFlags,
    judging: JudgeFlags,
    folder: FolderFlags,
    dry_run: DryRun = False,
) -> None:
    """Correlate a judge's scores with people's ratings, beside other people, BLEU and the like."""
    from evals.data.rated_samples import read_rated
    from evals.meta.people.calibrate import calibration, check_wanted
    from evals.meta.people.report import document
    from evals.meta.people.report import figures as figures_of
    from evals.meta.people.study import Options, check_enough, study
    from evals.reports.files import check_folder, write
    from evals.reports.terminal import show
    from magistrate.cli.terminal import quiet

    with (
        cli_errors(debug=folder.debug, stopped=JUDGED_IS_KEPT),
        previewed(engine, folder.output, wanted=dry_run) as (engine, output),
    ):
        folder = replace(folder, output=output)
        embeddings = figures.embedding_options()
        columns = {
            quality: [column.strip() for column in text.split(",")]
            for quality, text in pairs(rated.human, "--human", "QUALITY=COLUMN[,COLUMN...]").items()
        }
        fields = pairs(rated.field, "--field", "field=column")
        ratings = read_rated(
            data,
            columns,
            fields=fields,
            item=rated.item,
            system=rated.system,
            encoding=rated.encoding,
            limit=rated.limit,
        )
        rows = [Row(sample.id, sample.id, sample.sample) for sample in ratings.samples]
        if source.samples is not None:
            write_samples(rows, source.samples, overwrite=folder.overwrite)
            return
        judge = judging.judge or LLMEval.name
        spec = JudgeSpec(
            judge=judge,
            options=judging.options(),
            own=judging.own_options(judge),
            engine=engine,
            decoding=decoding,
            source=source,
            overwrite=folder.overwrite,
            debug=folder.debug,
        )
        if figures.gptscore is not None and not spec.judges:
            spec = replace(spec, engine=EngineSettings(model=engine.model))  # the other settings are GPTScore's alone
        check_folder(folder.output, "people", None if folder.overwrite else data.name)
        if spec.judges:
            check_columns([spec.open_judge()], fields)
        check_enough(ratings)
        wanted = dict(pairs(figures.calibrate, "--calibrate", "METRIC=QUALITY"))
        scales = {score.metric: score.legal for score in spec.open_judge().numeric_scores} if spec.judges else None
        if wanted:
            if scales is None or not decoding.expected:
                raise MagistrateError(
                    "`--calibrate` needs the judge's expected scores, not `--verdicts` or `--no-judge`: give `--expected` too"
                )
            check_wanted(wanted, ratings, scales)  # before anything is judged
        spec = spec.with_model()
        judged, faults = verdicts_on(rows, folder.output, spec, data.name)
        options = Options(
            expected=decoding.expected,
            embeddings=embeddings,
            likelihoods=likelihoods_of(ratings, engine, figures.gptscore, debug=folder.debug),
            rounds=figures.rounds,
            level=figures.level,
            seed=figures.seed,
            called=spec.title,
            scales=scales,
            calibrate=wanted,
        )
        with quiet(enabled=not folder.debug):
            result = study(ratings, judged, options)
        result = replace(result, faults=[*result.faults, *faults])
        report = document(result)
        sources = {
            "data": data.name,
            "ratings": ", ".join(rated.human or ()) or None,
            "fields": ", ".join(rated.field or ()) or None,
            "items": rated.item,
            "systems": rated.system,
            "limit": rated.limit,
            "gptscore": figures.gptscore,
            "calibrated": ", ".join(figures.calibrate or ()) or None,
            **spec.provenance(judged),
            "rounds": figures.rounds,
            "seed": figures.seed,
        }
        others = {}
        if result.calibrated:
            others[CALIBRATION] = calibration(spec.open_judge().name, result.calibrated).model_dump_json(indent=1) + "\n"
        show(report, write(folder.output, "people", figures_of(result), report, sources, others, [CALIBRATION])[0])


def likelihoods_of(ratings: RatedSet, settings: EngineSettings, model: str | None, *, debug: bool) -> Likelihoods:
    """How likely a model finds the rated responses, on the engine that judges too; nothing without a model.

    Raises:
        MagistrateError: The model cannot be run, or its engine cannot tell.
    """
    from evals.meta.people.gpt_score import Likelihoods, check_samples, gpt_scores
    from magistrate.cli.terminal import own_console, quiet

    if model is None:
        return Likelihoods()
    check_samples(ratings.samples)

    async def run(engine: Engine) -> Likelihoods:
        async with engine:
            return await gpt_scores(engine, ratings.samples, ratings.qualities, Path(model).name)

    with own_console().status("GPTScore"), quiet(enabled=not debug):
        return asyncio.run(run(settings.model_copy(update={"model": model}).open()))
