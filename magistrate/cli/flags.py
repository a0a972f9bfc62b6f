"""The flags of commands, and the groups of them that several commands share.

A parameter of a command that is annotated with a group, a Pydantic model or a dataclass, stands for a flag for each field of the
group: see ``with_flags``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from judges.engines import EngineSettings
from judges.errors import MagistrateError
from judges.llm_eval import SCALES, LLMEval
from judges.options import fault_in_words
from magistrate.cli.share import FailUnder
from magistrate.cli.terminal import pairs

Command = Callable[..., None]


def with_flags(
    *, without: Collection[str] = (), defaults: Mapping[str, object] | None = None, **words: str
) -> Callable[[Command], Command]:
    """Give a command a flag for each field of the groups that its parameters are annotated with.

    A field of a Pydantic model brings its type, default, description and bounds. A field of a dataclass is annotated as a
    command's parameter is.

    Args:
        without: Fields that the command does not use: they keep their defaults.
        defaults: Field to this command's default, if it differs.
        words: Field of a Pydantic model to this command's help, if its description does not fit.

    Raises:
        TypeError: Two groups of a command have a flag of the same name.
    """

    def decorate(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        groups: dict[str, type] = {}
        flags: dict[str, inspect.Parameter] = {}
        for name, parameter in inspect.signature(command).parameters.items():
            kind = hints[name]
            if _is_group(kind):
                groups[name] = kind
                added = [flag for flag in _flags_of(kind, words) if flag.name not in without]
            else:
                added = [parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY)]
            for flag in added:
                if flag.name in flags:
                    raise TypeError(f"{command.__name__} has two flags called {flag.name}")
                flags[flag.name] = flag.replace(default=(defaults or {}).get(flag.name, flag.default))

        @functools.wraps(command)
        def called(**given: Any) -> None:
            filled = {name: _filled(group, given) for name, group in groups.items()}
            command(**filled, **{name: given[name] for name in hints if name in given and name not in groups})

        called.__signature__ = inspect.Signature(list(flags.values()))  # type: ignore[attr-defined]
        called.__annotations__ = {name: flag.annotation for name, flag in flags.items()}
        return called

    return decorate


def _is_group(kind: object) -> bool:
    return isinstance(kind, type) and (issubclass(kind, BaseModel) or is_dataclass(kind))


def _filled(group: type, given: dict[str, Any]) -> object:
    try:
        return group(**{name: given[name] for name in inspect.signature(group).parameters if name in given})
    except ValidationError as error:
        assert issubclass(group, BaseModel)
        name, fault = fault_in_words(error, group)
        raise typer.BadParameter(fault, param_hint=f"--{name.replace('_', '-')}") from None


def _flags_of(group: type, words: Mapping[str, str]) -> Iterator[inspect.Parameter]:
    """A parameter for each field of a group."""
    hints = get_type_hints(group, include_extras=True)
    for name, parameter in inspect.signature(group).parameters.items():
        annotation = _described(group.model_fields[name], words.get(name)) if issubclass(group, BaseModel) else hints[name]
        yield parameter.replace(annotation=annotation, kind=inspect.Parameter.KEYWORD_ONLY)


def _described(field: FieldInfo, words: str | None) -> object:
    """The type of a field's flag, with what the help says of it and its bounds."""
    rules = [(part, *rule) for part in field.metadata for rule in (("ge", "min"), ("le", "max"))]
    bounds = {end: getattr(part, rule) for part, rule, end in rules if hasattr(part, rule)}
    return Annotated[field.annotation, typer.Option(help=words or field.description, **bounds)]


Source = Annotated[Path, typer.Argument(metavar="FILE", help="Samples: .jsonl, .json, .csv, .parquet, .xlsx; `-`; hf://NAME.")]
Samples = Annotated[
    Path,
    typer.Argument(
        metavar="INPUT",
        help="Samples: .jsonl, .json, .csv, .parquet, .xlsx; `-`; hf://NAME; or, judged in units, a folder, pattern or bucket.",
    ),
]
Limit = Annotated[int | None, typer.Option(help="Only the first rows, this many.", min=1)]
Seed = Annotated[int, typer.Option(help="Seed of every random choice.", min=0)]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks and what libraries print.")]
JudgeName = Annotated[
    str | None, typer.Option(help="A judge of `magistrate judges`, or a rubric file. The model's own by default.")
]
Comparing = Annotated[str, typer.Option("--judge", help="A judge that prefers one of two answers; see `magistrate judges`.")]
JudgeOptions = Annotated[
    list[str] | None, typer.Option("-O", "--option", help="An option of the judge: `name=value`; see `magistrate judges`.")
]
Encoding = Annotated[str | None, typer.Option(help="Encoding of a CSV file that is not UTF-8, e.g. gb18030.")]
Columns = Annotated[
    list[str] | None, typer.Option("--field", help="The column that holds a field of the sample: `field=column`.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Discard verdicts of an earlier run.")]
Level = Annotated[float, typer.Option(help="Confidence level of intervals.", min=0.5, max=0.999)]
Folder = Annotated[Path, typer.Option("-o", "--output", help="The folder for the report.")]
ServerUrl = Annotated[str | None, typer.Option(metavar="URL", help=EngineSettings.model_fields["server"].description)]


Metric = Annotated[list[str] | None, typer.Option(help="LLM-Eval: a metric of your own, `name` or `name=description`.")]
Scale = Annotated[str | None, typer.Option(help=f"LLM-Eval: range of scores, {' or '.join(SCALES)}.")]
Reference = Annotated[
    bool | None, typer.Option("--reference/--no-reference", help="LLM-Eval: show a sample's reference if it has one.")
]

LLM_EVAL_FLAGS = {"metrics": "--metric", "scale": "--scale", "use_reference": "--reference"}
"""Option of LLM-Eval to its flag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFlags:
    """Which of a judge's scores are used."""

    metric: Annotated[
        list[str] | None, typer.Option(help="A metric, `name` or `name=column` of the labels; by default all of them.")
    ] = None
    expected: Annotated[bool, typer.Option("--expected", help="Use the judge's expected scores.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureFlags(MetricFlags):
    """Which of a judge's scores are used, and how wide intervals are."""

    level: Level = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFlags:
    """Where the report goes."""

    output: Folder
    overwrite: Overwrite = False
    debug: Debug = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFlags:
    """How labels are read, and what the samples are about."""

    items: Annotated[Path | None, typer.Option(help="A file with `id` and a column of what each sample is about.")] = None
    item: Annotated[str | None, typer.Option(metavar="COLUMN", help="That column, e.g. the document or dialogue.")] = None
    encoding: Encoding = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFlags:
    """What the rows of a data set mean."""

    task: Annotated[str | None, typer.Option(help="The task of its rows: dialogsum, mbpp, mmlu.")] = None
    config: Annotated[Path | None, typer.Option(help="A task of your own, as a TOML file.")] = None
    limit: Limit = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFlags(TaskFlags):
    """The data set of a study, and what its rows mean."""

    data: Annotated[Path, typer.Option(help="The data set: .jsonl, .json, .csv, .parquet or .xlsx.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeFlags:
    """Which judge judges, and with which options."""

    judge: JudgeName = None
    option: JudgeOptions = None
    metric: Metric = None
    scale: Scale = None
    reference: Reference = None

    def options(self) -> dict[str, str]:
        """The options given with ``-O``, as text.

        Raises:
            MagistrateError: One is not of the form ``name=value``, or is given twice.
        """
        return pairs(self.option, "-O", "name=value")

    def own_options(self, judge: str) -> dict[str, object]:
        """The options given with LLM-Eval's own flags.

        Raises:
            MagistrateError: The judge is not LLM-Eval.
        """
        return _llm_eval_options(judge, self.metric, self.scale, self.reference)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFlags:
    """Which rows are judged, and which columns are read."""

    column: Columns = None
    limit: Limit = None
    encoding: Encoding = None
    strict: Annotated[bool, typer.Option("--strict", help="Stop at a row that cannot be judged.")] = False

    def columns(self) -> dict[str, str]:
        """Field of a sample to its column.

        Raises:
            MagistrateError: One is not of the form ``field=column``, or is given twice.
        """
        return pairs(self.column, "--field", "field=column")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFlags:
    """Where verdicts go, and when a run counts as failed."""

    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="The file of verdicts, a line each (of units a folder); `-`: standard output."),
    ] = Path("verdicts.jsonl")
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False
    fail_under: FailUnder = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Discard an earlier output.")] = False
    keep_texts: Annotated[
        bool, typer.Option("--keep-texts", help="Keep prompts and answers too, in OUTPUT.texts.jsonl, for `magistrate view`.")
    ] = False
    allow_mixed: Annotated[bool, typer.Option("--allow-mixed", help="Resume an output of other hardware.")] = False
    debug: Debug = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignFlags:
    """How attributes are assigned to rows; ``solver.assign`` has the same settings."""

    attribute: Annotated[
        list[str] | None, typer.Option(help="A column to use, repeated for each; by default all but the ids.")
    ] = None
    row_id: Annotated[str | None, typer.Option("--id", help="Column of row ids; `id` by default, if there is one.")] = None
    k: Annotated[int, typer.Option("-k", "--k", help="Attributes a row.", min=1)] = 2
    slack: Annotated[str, typer.Option(help="Share by which counts may differ from the priors'; or `auto`.")] = "0.1"
    priors: Annotated[
        Path | None, typer.Option(help="JSON object of each attribute's share or count; by default from the affinities.")
    ] = None
    method: Annotated[str, typer.Option(help="The solver: search or highs. Both give the same assignment.")] = "search"


def _llm_eval_options(judge: str, metric: list[str] | None, scale: str | None, reference: bool | None) -> dict[str, object]:
    """The options given with LLM-Eval's own flags.

    Raises:
        MagistrateError: The judge is not LLM-Eval, or a metric is named twice.
    """
    given = {"--metric": metric, "--scale": scale, "--reference": reference}
    strange = [flag for flag, value in given.items() if value is not None]
    if strange and judge != LLMEval.name:
        raise MagistrateError(f"{', '.join(strange)} has no meaning for judge `{judge}`; its options are given with `-O`")
    metrics = None
    if metric:
        pairs = [text.partition("=")[::2] for text in metric]
        metrics = {name.strip(): description.strip() for name, description in pairs}
        if len(metrics) < len(metric):
            raise MagistrateError("a metric is named twice")
    return {"metrics": metrics, "scale": scale, "use_reference": reference}
