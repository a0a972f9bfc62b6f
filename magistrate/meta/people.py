"""The command that sets a judge's scores against people's ratings."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from judges.engines import ENGINES
from judges.errors import MagistrateError
from judges.llm_eval import LLMEval
from judges.sources import Row
from magistrate.fitting import check_columns
from magistrate.flags import (
    BaseUrl,
    Debug,
    Dtype,
    Encoding,
    EngineName,
    Folder,
    JudgeOptions,
    Level,
    Limit,
    ModelName,
    Overwrite,
    Seed,
    Think,
    Window,
)
from magistrate.llm_eval_flags import Metric, Reference, Scale, llm_eval_options
from magistrate.meta.asking import Asking, NoJudge, Rounds, VerdictsFlag, WriteSamples, verdicts_on, write_samples
from magistrate.meta.running import STOPPED
from magistrate.terminal import clear_errors, pairs


def people(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="Rated samples: USR's TopicalChat, GRADE, DialSummEval, or any file with `--human`."),
    ],
    human: Annotated[
        list[str] | None,
        typer.Option(help="What people rated and where: QUALITY=COLUMN[,COLUMN...], a column a rater. A cell may be a list."),
    ] = None,
    field: Annotated[
        list[str] | None, typer.Option(help="Where a field of the sample stands: `field=column` of the file.")
    ] = None,
    item: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="What samples are about, e.g. the document; each its own by default.")
    ] = None,
    judge: Annotated[str, typer.Option(help="Which judge; see `magistrate judges`. Or a rubric file.")] = LLMEval.name,
    model: ModelName = None,
    option: JudgeOptions = None,
    metric: Metric = None,
    scale: Scale = None,
    reference: Reference = None,
    engine: EngineName = ENGINES[0],
    base_url: BaseUrl = None,
    dtype: Dtype = None,
    window: Window = None,
    limit: Limit = None,
    think: Think = 0,
    expected: Annotated[bool, typer.Option("--expected", help="Also set the judge's expected scores against people.")] = False,
    verdicts: VerdictsFlag = None,
    no_judge: NoJudge = False,
    samples: WriteSamples = None,
    embeddings: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Also compare with references by token vectors of this model.")
    ] = None,
    layer: Annotated[int | None, typer.Option(help="Of that model; by default three quarters of the way up.", min=1)] = None,
    rounds: Rounds = 2000,
    level: Level = 0.95,
    output: Folder = Path("people"),
    overwrite: Overwrite = False,
    encoding: Encoding = None,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """How far a judge's scores go along with people's ratings, beside other people, BLEU and the like."""
    from evals.meta.page import markdown
    from evals.meta.people.reading import read_rated
    from evals.meta.people.study import Options, check_enough, study
    from evals.meta.people.words import page
    from evals.meta.writing import check_folder, write
    from magistrate.meta.showing import show
    from magistrate.quiet import quiet

    with clear_errors(debug=debug, stopped=STOPPED):
        if layer is not None and embeddings is None:
            raise MagistrateError("`--layer` is of the model of `--embeddings`; give that too")
        columns = {
            quality: [column.strip() for column in text.split(",")]
            for quality, text in pairs(human, "--human", "QUALITY=COLUMN[,COLUMN...]").items()
        }
        fields = pairs(field, "--field", "field=column")
        rated = read_rated(data, columns, fields=fields, item=item, encoding=encoding, limit=limit)
        rows = [Row(one.id, one.id, one.sample) for one in rated.samples]
        if samples is not None:
            write_samples(rows, samples, overwrite=overwrite)
            return
        asking = Asking(
            judge=judge,
            option=option,
            own=llm_eval_options(judge, metric, scale, reference),
            model=model,
            host=(engine, base_url, dtype, window),
            think=think,
            expected=expected,
            verdicts=verdicts,
            no_judge=no_judge,
            overwrite=overwrite,
            debug=debug,
        )
        check_folder(output, "people", None if overwrite else data.name)
        if asking.judges:
            check_columns([asking.court()], fields)
        check_enough(rated)
        asking = asking.with_model()
        judged, faults = verdicts_on(rows, output, asking, data.name)
        options = Options(
            expected=expected,
            embeddings=embeddings,
            layer=layer,
            rounds=rounds,
            level=level,
            seed=seed,
            called=asking.called,
            scales={one.metric: one.legal for one in asking.court().numeric_scores} if asking.judges else None,
        )
        with quiet(enabled=not debug):
            found = study(rated, judged, options)
        found = replace(found, faults=[*found.faults, *faults])
        made = page(found)
        sources = {
            "data": data.name,
            "ratings": ", ".join(human or ()) or None,
            "fields": ", ".join(field or ()) or None,
            "items": item,
            "limit": limit,
            **asking.told(judged),
            "rounds": rounds,
            "seed": seed,
        }
        write(output, "people", asdict(found), markdown(made), sources)
        show(made, output)
