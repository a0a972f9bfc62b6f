"""``magistrate jury``: several judges hear the same samples, and their verdicts become one."""

from __future__ import annotations

import json
import tomllib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich.console import Console

from judges import catalog
from judges.agreement import MetricAgreement, weakest_levels
from judges.engines import ENGINES, open_engine
from judges.engines.engine import Engine
from judges.errors import EngineError, MagistrateError
from judges.judge import Judge
from judges.jury import JURY, Combine, Jury, Member
from judges.located import SUFFIXES
from judges.summary import Summary
from judges.verdict import Verdict
from magistrate.scoring import score_file

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


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
        model = catalog.repository(self.model) if self.model is not None and self.engine != "endpoint" else self.model
        return open_engine(self.engine, model, **settings)


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
        try:
            return cls.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise MagistrateError(f"{path}: there is no such file") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise MagistrateError(f"{path} is no jury that can be read: {error}") from None
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
    orders = {metric: labels for court in courts.values() for metric, labels in court.label_orders.items()}
    jury = Jury(
        entries.combine,
        [Member(entry.name, entry.weight) for entry in entries.member],
        weakest_levels(court.levels for court in courts.values()),
        orders,
    )
    _check_output(source, output, overwrite=overwrite)
    files = {entry.name: output.with_name(f"{output.stem}.{entry.name}{output.suffix}") for entry in entries.member}
    failures: dict[str, str] = {}
    count = 0
    for host, members in _by_host(entries.member).items():
        waiting = list(members)
        try:
            async with _opened(host) as engine:
                for member in members:
                    console.print(f"member {member.name}: judge {courts[member.name].name}", highlight=False)
                    outcome = await score_file(
                        source,
                        files[member.name],
                        courts[member.name],
                        engine,
                        console=console,
                        columns=columns,
                        think=member.think,
                        overwrite=overwrite,
                        limit=limit,
                        debug=debug,
                    )
                    count = outcome.judged + outcome.kept
                    waiting.remove(member)
        except EngineError as error:
            for member in waiting:
                failures[member.name] = str(error)
    if len(failures) == len(entries.member):
        raise MagistrateError("every member of the jury failed: " + "; ".join(f"{name}: {why}" for name, why in failures.items()))
    heard = {name: file for name, file in files.items() if name not in failures}
    summary = _deliberate(jury, heard, failures, count, output)
    agreement = jury.agreement()
    stated = {metric: asdict(found) for metric, found in agreement.items()}
    output.with_name(output.name + ".agreement.json").write_text(json.dumps(stated, indent=2) + "\n")
    return Hearing(summary, agreement, failures, heard)


@asynccontextmanager
async def _opened(host: Host) -> AsyncIterator[Engine]:
    """An engine that is closed at the end. It is started by the first member that has something to judge."""
    engine = host.open()
    try:
        yield engine
    finally:
        await engine.close()


def _by_host(members: Sequence[MemberEntry]) -> dict[Host, list[MemberEntry]]:
    hosts: dict[Host, list[MemberEntry]] = {}
    for member in members:
        hosts.setdefault(member.host, []).append(member)
    return hosts


def _deliberate(jury: Jury, files: Mapping[str, Path], failures: Mapping[str, str], count: int, output: Path) -> Summary:
    """Combine the members' files, which are in the order of the input, a sample at a time."""
    summary = Summary()
    partial = output.with_name(output.name + ".partial")
    absent = dict.fromkeys(failures)
    try:
        with ExitStack() as stack, partial.open("w", encoding="utf-8") as target:
            streams = {name: stack.enter_context(file.open("rb")) for name, file in files.items()}
            for lines in islice(zip(*streams.values(), strict=False), count):
                heard = {name: Verdict.from_json(line) for name, line in zip(streams, lines, strict=True)}
                verdict = jury.deliberate(heard | absent, failures)
                target.write(verdict.to_json() + "\n")
                summary.add(verdict)
        partial.replace(output)
    except OSError as error:
        raise MagistrateError(f"{output} cannot be written: {error.strerror or error}") from error
    return summary


def _check_output(source: Path, output: Path, *, overwrite: bool) -> None:
    """A jury's verdicts are made anew from the members', but no other file is written over unless the user says so."""
    if not source.exists():
        raise MagistrateError(f"{source}: there is no such file")
    if output.exists() and output.samefile(source):
        raise MagistrateError(f"{output} holds the samples; give `-o` another file")
    if overwrite or not output.exists():
        return
    try:
        with output.open("rb") as file:
            ours = Verdict.from_json(file.readline()).judge == JURY
    except (OSError, ValueError):
        ours = False
    if not ours:
        raise MagistrateError(f"{output} holds something other than a jury's verdicts; give another `-o`, or `--overwrite`")


def _text(value: object) -> str:
    """An option as it is written on the command line."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(f"{part + 1}" if isinstance(part, int) else part for part in location) or "the file"
