"""``magistrate jury``: several judges hear the same samples, and their verdicts become one."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich.console import Console

from judges import catalog
from judges.agreement import MetricAgreement, weakest_levels
from judges.bench import OwnBench
from judges.engines import ENGINES, open_engine
from judges.engines.engine import Engine
from judges.errors import EngineError, MagistrateError, counted, reason_of
from judges.input_file import check_file
from judges.judge import Judge, Level
from judges.jury import JURY, Combine, Jury, Member
from judges.located import SUFFIXES
from judges.summary import Summary
from judges.verdict import Verdict
from magistrate.fitting import check_source
from magistrate.scoring import score_file
from magistrate.studies import judge_model, named_model

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"


class Host(BaseModel):
    """What runs a member's model. Members of equal hosts share one engine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = None
    engine: str = ENGINES[0]
    base_url: str | None = None
    constraint: str | None = None
    dtype: str | None = None
    revision: str | None = None
    max_model_len: int | None = Field(None, ge=1)
    window: int | None = Field(None, ge=1)

    def open(self) -> Engine:
        """The engine, not started.

        Raises:
            MagistrateError: The settings make no sense together.
            EngineError: The model is not to be had.
        """
        settings = self.model_dump(exclude={"model", "engine"})
        model = judge_model(self.engine, self.model)
        return open_engine(self.engine, named_model(self.engine, model), **settings)


class MemberEntry(Host):
    """A member as a jury's file has it: a name, a judge with its options, and what runs its model."""

    name: str = Field(pattern=NAME)
    judge: str | None = None
    options: dict[str, str | int | float | bool] = Field(default_factory=dict)
    weight: float = Field(1.0, gt=0, allow_inf_nan=False)
    think: int = Field(0, ge=0)

    @property
    def host(self) -> Host:
        return Host(**self.model_dump(include=set(Host.model_fields)))

    def court(self, folder: Path) -> Judge:
        """The member's judge. A rubric and a list of attributes are looked for beside the jury's file.

        Raises:
            MagistrateError: There is no such judge or option.
        """
        name = self.judge or catalog.usual_judge(self.model)
        rubric = Path(name).suffix.lower() in SUFFIXES
        options = {key: _text(value) for key, value in self.options.items()}
        if "attributes" in options:
            options["attributes"] = str(folder / options["attributes"])
        return catalog.open_judge(str(folder / name) if rubric else name, options)


class JuryFile(BaseModel):
    """A jury as its file has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    combine: Combine = "mean"
    member: list[MemberEntry] = Field(min_length=2)

    @classmethod
    def load(cls, path: Path) -> JuryFile:
        """Read a jury from a TOML file.

        Raises:
            MagistrateError: There is no such file, or it is not in order; the first fault is named.
        """
        check_file(path)
        try:
            return cls.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise MagistrateError(f"{path}: there is no such file") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise MagistrateError(f"{path} is no jury that can be read: {reason_of(error)}") from None
        except ValidationError as error:
            problem = error.errors()[0]
            raise MagistrateError(f"{path}: {_place(problem['loc'])}: {problem['msg']}") from None


@dataclass(slots=True)
class Hearing:
    """What came of a jury.

    Attributes:
        summary: A tally of the jury's verdicts.
        agreement: Metric to the agreement among members.
        failures: Member to why it failed.
        files: Member to the file of its own verdicts.
    """

    summary: Summary
    agreement: dict[str, MetricAgreement]
    failures: dict[str, str]
    files: dict[str, Path] = field(default_factory=dict)


async def hear(
    source: Path,
    output: Path,
    jury_file: Path,
    *,
    console: Console,
    columns: Mapping[str, str] | None = None,
    overwrite: bool = False,
    limit: int | None = None,
    debug: bool = False,
) -> Hearing:
    """Have every member judge every sample, one member after another, and combine what they say.

    Each member's verdicts are kept in a file of their own beside the output, which a second run goes on with. A member whose
    engine fails is left out and named; the others go on.

    Args:
        source: The samples.
        output: The jury's verdicts, a line each, in the input's order. What the members agree on goes beside it.
        jury_file: The members, and how they are combined.
        console: Where progress is shown.
        columns: Field of a sample to the column of the file that holds it, where the names differ.
        overwrite: Whether to throw away earlier verdicts, the members' too.
        limit: Judge only the first rows, this many.
        debug: Whether to let libraries print.

    Raises:
        MagistrateError: Something that the user can mend, or every member failed.
    """
    entries = JuryFile.load(jury_file)
    courts = {entry.name: entry.court(jury_file.parent) for entry in entries.member}
    jury = Jury(entries.combine, [Member(entry.name, entry.weight) for entry in entries.member], *_scales(courts))
    files = {entry.name: output.with_name(f"{output.stem}.{entry.name}{output.suffix}") for entry in entries.member}
    _check_output(source, output, files.values(), overwrite=overwrite)
    check_source(source, list(courts.values()), columns or {}, limit)
    engines, failures = _open(entries.member)
    count = 0
    first = next((entry for entry in entries.member if entry.host in engines), None)
    for host, engine in engines.items():
        try:
            for member in (entry for entry in entries.member if entry.host == host):
                console.print(f"member {member.name}: judge {courts[member.name].name}", highlight=False)
                try:
                    outcome = await score_file(
                        source,
                        files[member.name],
                        OwnBench(courts[member.name], engine, think=member.think),
                        console=console,
                        columns=columns,
                        overwrite=overwrite,
                        limit=limit,
                        say_repeats=member is first,
                        debug=debug,
                    )
                except EngineError as error:
                    failures[member.name] = str(error)
                else:
                    count = outcome.tally.judged + outcome.tally.kept
        finally:
            await engine.close()
    if len(failures) == len(entries.member):
        raise MagistrateError("every member of the jury failed: " + "; ".join(f"{name}: {why}" for name, why in failures.items()))
    heard = {name: file for name, file in files.items() if name not in failures}
    summary = _deliberate(jury, heard, failures, count, output)
    return Hearing(summary, jury.agreement(), failures, heard)


def _scales(courts: Mapping[str, Judge]) -> tuple[dict[str, Level], dict[str, Sequence[str]]]:
    """Each metric's level of measurement and the order of its labels.

    Raises:
        MagistrateError: Two members score one metric on different scales.
    """
    scales: dict[str, tuple[str, object]] = {}
    for name, court in courts.items():
        legal = {score.metric: score.legal for score in court.numeric_scores}
        for metric in court.levels:
            scale = (legal.get(metric), tuple(court.label_orders.get(metric, ())))
            first, its_scale = scales.setdefault(metric, (name, scale))
            if scale != its_scale:
                raise MagistrateError(
                    f"members {first} and {name} score `{metric}` on different scales, which cannot be combined; "
                    "give both the same scale, or the metric another name in one of them"
                )
    orders = {metric: labels for court in courts.values() for metric, labels in court.label_orders.items()}
    return weakest_levels(court.levels for court in courts.values()), orders


def _open(members: Sequence[MemberEntry]) -> tuple[dict[Host, Engine], dict[str, str]]:
    """An engine for each host, none of them started, and the members whose model is not to be had."""
    engines: dict[Host, Engine] = {}
    failures: dict[str, str] = {}
    for member in members:
        try:
            if member.host not in engines:
                engines[member.host] = member.host.open()
        except EngineError as error:
            failures[member.name] = str(error)
    return engines, failures


def _deliberate(jury: Jury, files: Mapping[str, Path], failures: Mapping[str, str], count: int, output: Path) -> Summary:
    """Combine the members' files, which are in the order of the input, a sample at a time."""
    summary = Summary()
    verdicts, agreement = (output.with_name(f".{output.name}.{kind}") for kind in ("partial", "agreement"))
    absent = dict.fromkeys(failures)
    try:
        with ExitStack() as stack, verdicts.open("w", encoding="utf-8") as target:
            streams = {name: stack.enter_context(file.open("rb")) for name, file in files.items()}
            for lines in islice(zip(*streams.values(), strict=False), count):
                heard = {name: Verdict.from_json(line) for name, line in zip(streams, lines, strict=True)}
                verdict = jury.deliberate(heard | absent, failures)
                target.write(verdict.to_json() + "\n")
                summary.add(verdict)
        if summary.scored + summary.unscored.total() < count:
            raise MagistrateError(f"a member's file has fewer than {counted(count, 'verdict')}: run the same command again")
        stated = {metric: asdict(found) for metric, found in jury.agreement().items()}
        agreement.write_text(json.dumps(stated, indent=2) + "\n")
        agreement.replace(output.with_name(output.name + ".agreement.json"))
        verdicts.replace(output)
    except OSError as error:
        raise MagistrateError(f"{output} cannot be written: {error.strerror or error}") from error
    finally:
        for scratch in (verdicts, agreement):
            scratch.unlink(missing_ok=True)
    return summary


def _check_output(source: Path, output: Path, files: Iterable[Path], *, overwrite: bool) -> None:
    """A jury's verdicts are made anew from the members', but no other file is written over unless the user says so."""
    if not source.exists():
        raise MagistrateError(f"{source}: there is no such file")
    for file in (output, *files):
        if file.exists() and file.samefile(source):
            raise MagistrateError(f"{file} holds the samples; give `-o` another file")
    if overwrite or not output.exists():
        return
    try:
        with output.open("rb") as earlier:
            ours = Verdict.from_json(earlier.readline()).judge == JURY
    except (OSError, ValueError):
        ours = False
    if not ours:
        raise MagistrateError(f"{output} holds something other than a jury's verdicts; give another `-o`, or `--overwrite`")


def _text(value: object) -> str:
    """An option as it is written on the command line."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(f"{part + 1}" if isinstance(part, int) else part for part in location) or "the file"
