"""The command that sets a pairwise judge's preferences against people's."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from judges.engines import ENGINES
from judges.errors import MagistrateError
from judges.pairwise import Pairwise
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
from magistrate.meta.asking import Asking, NoJudge, Rounds, VerdictsFlag, WriteSamples, verdicts_on, write_samples
from magistrate.meta.running import STOPPED
from magistrate.terminal import clear_errors, pairs


def preferences(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="Pairs that people compared: PandaLM's, Auto-J's, JudgeBench's, AlpacaEval's, or any file with `--human`.",
        ),
    ],
    human: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN,COLUMN,...",
            help="What people say, a column a rater: A, B, tie, both, neither, A>B, B>A, A=B, or what `--labels` says.",
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(metavar="first=0,second=1,tie=2", help="Which answer the file's labels name; a known file's are known."),
    ] = None,
    field: Annotated[
        list[str] | None, typer.Option(help="Where a field of the sample stands, e.g. `answer_a=column` of the file.")
    ] = None,
    model: ModelName = None,
    option: JudgeOptions = None,
    engine: EngineName = ENGINES[0],
    base_url: BaseUrl = None,
    dtype: Dtype = None,
    window: Window = None,
    limit: Limit = None,
    think: Think = 0,
    expected: Annotated[bool, typer.Option("--expected", help="Also keep the judge's probabilities in its verdicts.")] = False,
    verdicts: VerdictsFlag = None,
    no_judge: NoJudge = False,
    samples: WriteSamples = None,
    rounds: Rounds = 2000,
    level: Level = 0.95,
    output: Folder = Path("preferences"),
    overwrite: Overwrite = False,
    encoding: Encoding = None,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """How often a judge prefers the answer that people prefer, in both orders, beside how often people do among themselves."""
    from evals.meta.page import Page, markdown
    from evals.meta.people.choice_labels import labels_given
    from evals.meta.people.compared import read_compared
    from evals.meta.people.preference_words import choices, page
    from evals.meta.people.preferences import check_enough, chosen, study
    from evals.meta.people.rater_choices import Options
    from evals.meta.writing import check_folder, write
    from magistrate.meta.showing import show

    with clear_errors(debug=debug, stopped=STOPPED):
        columns = [column.strip() for column in human.split(",")] if human else []
        fields = pairs(field, "--field", "field=column")
        check_columns([Pairwise()], fields)
        given = None if labels is None else labels_given(labels)
        compared = read_compared(data, columns, labels=given, fields=fields, encoding=encoding, limit=limit)
        rows = [Row(one.id, one.id, one.sample) for one in compared.pairs]
        if samples is not None:
            write_samples(rows, samples, overwrite=overwrite)
            return
        asking = Asking(
            judge=Pairwise.name,
            option=option,
            model=model,
            host=(engine, base_url, dtype, window),
            think=think,
            expected=expected,
            verdicts=verdicts,
            no_judge=no_judge,
            overwrite=overwrite,
            debug=debug,
        )
        check_folder(output, "preferences", None if overwrite else data.name)
        if no_judge and len(compared.raters) < 2:
            show(Page("", list(choices(chosen(compared), compared.whose))), None)
            raise MagistrateError("with one rater and no judge there is nothing to set beside each other; leave out `--no-judge`")
        check_enough(compared)
        asking = asking.with_model()
        judged, faults = verdicts_on(rows, output, asking, data.name)
        found = study(compared, judged, Options(rounds=rounds, level=level, seed=seed, called=asking.called))
        found = replace(found, faults=[*found.faults, *faults])
        made = page(found)
        sources = {
            "data": data.name,
            "choices": human,
            "labels": labels,
            "fields": ", ".join(field or ()) or None,
            "limit": limit,
            **asking.told(judged),
            "rounds": rounds,
            "seed": seed,
        }
        write(output, "preferences", asdict(found), markdown(made), sources)
        show(made, output)
