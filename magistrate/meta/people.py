"""The command that sets a judge's scores against people's ratings."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.errors import MagistrateError
from judges.llm_eval import LLMEval
from judges.sources import Row
from magistrate.fitting import check_columns
from magistrate.flags import Columns, Encoding, FolderFlags, JudgeFlags, Level, Limit, Seed, with_flags
from magistrate.meta.asking import Asking, Rounds, VerdictFlags, verdicts_on, write_samples
from magistrate.terminal import JUDGED_IS_KEPT, clear_errors, pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedFlags:
    """What people rated."""

    human: Annotated[
        list[str] | None,
        typer.Option(help="What people rated and where: QUALITY=COLUMN[,COLUMN...], a column a rater. A cell may be a list."),
    ] = None
    field: Columns = None
    item: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="What samples are about, e.g. the document; each its own by default.")
    ] = None
    limit: Limit = None
    encoding: Encoding = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelationFlags:
    """What the judge is set beside, and how sure the figures are."""

    embeddings: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Also compare with references by token vectors of this model.")
    ] = None
    layer: Annotated[int | None, typer.Option(help="Of that model; by default three quarters of the way up.", min=1)] = None
    rounds: Rounds = 2000
    level: Level = 0.95
    seed: Seed = 0


@with_flags(
    defaults={"output": Path("people"), "judge": LLMEval.name}, expected="Also set the judge's expected scores against people."
)
def people(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="Rated samples: USR's TopicalChat, GRADE, DialSummEval, or any file with `--human`."),
    ],
    rated: RatedFlags,
    engine: EngineSettings,
    decoding: Decoding,
    source: VerdictFlags,
    figures: CorrelationFlags,
    asked: JudgeFlags,
    folder: FolderFlags,
) -> None:
    """How far a judge's scores go along with people's ratings, beside other people, BLEU and the like."""
    from evals.meta.people.reading import read_rated
    from evals.meta.people.report import document
    from evals.meta.people.study import Options, check_enough, study
    from evals.reports.files import check_folder, write
    from evals.reports.terminal import show
    from magistrate.quiet import quiet

    with clear_errors(debug=folder.debug, stopped=JUDGED_IS_KEPT):
        if figures.layer is not None and figures.embeddings is None:
            raise MagistrateError("`--layer` is of the model of `--embeddings`; give that too")
        columns = {
            quality: [column.strip() for column in text.split(",")]
            for quality, text in pairs(rated.human, "--human", "QUALITY=COLUMN[,COLUMN...]").items()
        }
        fields = pairs(rated.field, "--field", "field=column")
        ratings = read_rated(data, columns, fields=fields, item=rated.item, encoding=rated.encoding, limit=rated.limit)
        rows = [Row(one.id, one.id, one.sample) for one in ratings.samples]
        if source.samples is not None:
            write_samples(rows, source.samples, overwrite=folder.overwrite)
            return
        judge = asked.judge or LLMEval.name
        asking = Asking(
            judge=judge,
            options=asked.options(),
            own=asked.own_options(judge),
            engine=engine,
            decoding=decoding,
            source=source,
            overwrite=folder.overwrite,
            debug=folder.debug,
        )
        check_folder(folder.output, "people", None if folder.overwrite else data.name)
        if asking.judges:
            check_columns([asking.court()], fields)
        check_enough(ratings)
        asking = asking.with_model()
        judged, faults = verdicts_on(rows, folder.output, asking, data.name)
        options = Options(
            expected=decoding.expected,
            embeddings=figures.embeddings,
            layer=figures.layer,
            rounds=figures.rounds,
            level=figures.level,
            seed=figures.seed,
            called=asking.called,
            scales={one.metric: one.legal for one in asking.court().numeric_scores} if asking.judges else None,
        )
        with quiet(enabled=not folder.debug):
            found = study(ratings, judged, options)
        found = replace(found, faults=[*found.faults, *faults])
        made = document(found)
        sources = {
            "data": data.name,
            "ratings": ", ".join(rated.human or ()) or None,
            "fields": ", ".join(rated.field or ()) or None,
            "items": rated.item,
            "limit": rated.limit,
            **asking.told(judged),
            "rounds": figures.rounds,
            "seed": figures.seed,
        }
        show(made, write(folder.output, "people", asdict(found), made, sources)[0])
