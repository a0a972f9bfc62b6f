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

from judges import catalog
from judges.agreement import MetricAgreement, weakest_levels
from judges.bench import OwnBench
from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.engines.engine import Engine
from judges.errors import EngineError, MagistrateError, counted, reason_of
from judges.input_file import check_file
from judges.judge import Judge, Level
from judges.jury import JURY, Combine, Jury, Member
from judges.located import SUFFIXES
from judges.summary import Summary
from judges.verdict import Verdict
from magistrate.fitting import check_source
from magistrate.scoring import Scoring, score_file
from magistrate.studies import with_judge_model

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"


class MemberEntry(EngineSettings, Decoding):
    """A member as a jury's file has it: a name, a judge with its options, and what runs its model and how."""

    name: str = Field(pattern=NAME)
    judge: str | None = None
    options: dict[str, str | int | float | bool] = Field(default_factory=dict)
    weight: float = Field(1.0, gt=0, allow_inf_nan=False)

    @property
    def settings(self) -> EngineSettings:
        """What runs the model. Members of equal settings share one engine."""
        return EngineSettings(**self.model_dump(include=set(EngineSettings.model_fields)))

    @property
    def decoding(self) -> Decoding:
        """How answers are written."""
        return Decoding(**self.model_dump(include=set(Decoding.model_fields)))

    def court(self, folder: Path) -> Judge:
        """The member's judge. A rubric and a list of attributes are looked for beside the jury's file.

        Raises:
            MagistrateError: There is no such judge or option.
        """
        name = self.judge or catalog.usual_judge(self.model)
        rubric = Path(name).suffix.lower() in SUFFIXES
        listed = catalog.judge_class(name).Options.listed()
        files = {key for key, option in listed.items() if option.spelling.file}
        options = {key: str(folder / _text(value)) if key in files else _text(value) for key, value in self.options.items()}
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


async def hear(source: Path, output: Path, jury_file: Path, how: Scoring) -> Hearing:
    """Have every member judge every sample, one member after another, and combine what they say.

    Each member's verdicts are kept in a file of their own beside the output, which a second run goes on with. A member whose
    engine fails is left out and named; the others go on.

    Args:
        source: The samples.
        output: The jury's verdicts, a line each, in the input's order. What the members agree on goes beside it.
        jury_file: The members, and how they are combined.
        how: What is judged of it, and how. What is overwritten are the members' verdicts too.

    Raises:
        MagistrateError: Something that the user can mend, or every member failed.
    """
    entries = JuryFile.load(jury_file)
    courts = {entry.name: entry.court(jury_file.parent) for entry in entries.member}
    jury = Jury(entries.combine, [Member(entry.name, entry.weight) for entry in entries.member], *_scales(courts))
    files = {entry.name: output.with_name(f"{output.stem}.{entry.name}{output.suffix}") for entry in entries.member}
    _check_output(source, output, files.values(), overwrite=how.overwrite)
    check_source(source, list(courts.values()), how.columns, how.limit)
    engines, failures = _open(entries.member)
    count = 0
    first = next((entry for entry in entries.member if entry.settings in engines), None)
    for settings, engine in engines.items():
        try:
            for member in (entry for entry in entries.member if entry.settings == settings):
                how.console.print(f"member {member.name}: judge {courts[member.name].name}", highlight=False)
                try:
                    bench = OwnBench(courts[member.name], engine, member.decoding)
                    outcome = await score_file(source, files[member.name], bench, how, say_repeats=member is first)
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


def _open(members: Sequence[MemberEntry]) -> tuple[dict[EngineSettings, Engine], dict[str, str]]:
    """An engine for all members of equal settings, none of them started, and the members whose model cannot be found."""
    engines: dict[EngineSettings, Engine] = {}
    failures: dict[str, str] = {}
    for member in members:
        try:
            if member.settings not in engines:
                engines[member.settings] = with_judge_model(member.settings).open()
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
