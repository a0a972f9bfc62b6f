"""``magistrate jury``: several judges judge the same samples, and their verdicts are combined."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from itertools import islice
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from judges import catalog
from judges.agreement import MetricAgreement, weakest_levels
from judges.backend import Backend, LocalBackend
from judges.data.described import described, read_toml
from judges.data.files import same_file
from judges.data.located import SUFFIXES
from judges.decoding import Decoding
from judges.engines import EngineSettings
from judges.engines.engine import Engine
from judges.errors import EngineError, MagistrateError, counted
from judges.fitting import check_source
from judges.judge import Judge, MeasurementLevel, Score
from judges.jury import JURY, Combine, Jury, Member
from judges.summary import Summary
from judges.verdict import Verdict
from magistrate.cli.scoring import Scoring, mixture, score_file
from magistrate.cli.studies import with_judge_model
from magistrate.cli.terminal import opening
from magistrate.remote import open_backend, usual_judge

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"


PRESETS = ("24gb", "80gb")
"""Juries for a GPU of that memory, each of three models of different families, which are loaded one after the other."""


class MemberEntry(EngineSettings, Decoding):
    """A member in a jury's file: a name, a judge with its options, and the settings of its engine and decoding."""

    name: str = Field(pattern=NAME)
    judge: str | None = None
    options: dict[str, str | int | float | bool] = Field(default_factory=dict)
    weight: float = Field(1.0, gt=0, allow_inf_nan=False)

    @property
    def settings(self) -> EngineSettings:
        """The engine's settings. Members of equal settings share one engine."""
        return EngineSettings(**self.model_dump(include=set(EngineSettings.model_fields)))

    @property
    def decoding(self) -> Decoding:
        """The settings of decoding."""
        return Decoding(**self.model_dump(include=set(Decoding.model_fields)))

    def judge_name(self, folder: Path) -> str:
        """The name of the member's judge, or its rubric, whose path is relative to the jury's file.

        Raises:
            MagistrateError: The member's server cannot say which judge its model is meant for.
        """
        name = self.judge or usual_judge(self.settings)
        return str(folder / name) if Path(name).suffix.lower() in SUFFIXES else name

    def open_judge(self, folder: Path) -> Judge:
        """The member's judge. Paths of a rubric and of a list of attributes are relative to the jury's file.

        Raises:
            MagistrateError: There is no such judge or option.
        """
        name = self.judge_name(folder)
        listed = catalog.judge_class(name).Options.listed()
        files = {key for key, option in listed.items() if option.spelling.file}
        options = {key: _text(value) for key, value in self.options.items()}
        options |= {key: str(folder / options[key]) for key in files & options.keys() if _is_there(folder / options[key])}
        return catalog.open_judge(name, options)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a text that is too long for a name
        return False


class JuryFile(BaseModel):
    """A jury's file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    combine: Combine = "mean"
    member: list[MemberEntry] = Field(min_length=2)

    @classmethod
    def load(cls, path: Path) -> JuryFile:
        """Read a jury from a TOML file, or by the name of one of the ``PRESETS``.

        Raises:
            MagistrateError: There is no such file, or it has a fault; the first one is named.
        """
        if str(path) in PRESETS:
            path = Path(str(files("magistrate").joinpath(f"juries/{path}.toml")))
        jury = described(cls, read_toml(path, "a jury"), path)
        return jury.model_copy(update={"member": [entry.relative_to(path.parent) for entry in jury.member]})

    def on_server(self, server: str) -> JuryFile:
        """The same jury, of which each member without a server of its own is asked on this one."""
        members = [entry if entry.server else entry.model_copy(update={"server": server}) for entry in self.member]
        return self.model_copy(update={"member": members})


@dataclass(slots=True)
class Hearing:
    """The result of a jury.

    Attributes:
        summary: A tally of the combined verdicts.
        agreement: Metric to the agreement among members.
        failures: Member to why it failed.
        files: Member to the file of its own verdicts.
        legal: Metric to every score that a member may give.
    """

    summary: Summary
    agreement: dict[str, MetricAgreement]
    failures: dict[str, str]
    files: dict[str, Path] = field(default_factory=dict)
    legal: Mapping[str, Collection[Score]] = field(default_factory=dict)


async def hear(source: Path, output: Path, jury_file: Path, how: Scoring, *, server: str | None = None) -> Hearing:
    """Have every member judge every sample, one member after another, and combine the verdicts.

    Each member's verdicts are kept in their own file beside the output, which a second run resumes. A member whose engine
    fails is left out and named.

    Args:
        source: The samples.
        output: The combined verdicts, a line each, in the input's order. The members' agreement goes beside it.
        jury_file: The members, and how they are combined.
        how: Which rows are judged, and how. Overwriting applies to the members' verdicts too.
        server: A running server that is asked for every member that names none.

    Raises:
        MagistrateError: Something that the user can mend, or every member failed.
    """
    entries = JuryFile.load(jury_file)
    if server is not None:
        entries = entries.on_server(server)
    judges = {entry.name: entry.open_judge(jury_file.parent) for entry in entries.member}
    jury = Jury(entries.combine, [Member(entry.name, entry.weight) for entry in entries.member], *_scales(judges))
    files = {entry.name: output.with_name(f"{output.stem}.{entry.name}{output.suffix}") for entry in entries.member}
    check_source(source, list(judges.values()), how.columns, how.limit, how.encoding)
    _check_output(source, output, files.values(), overwrite=how.overwrite)
    engines, failures = _open(entries.member, silent=how.console.quiet)
    count = 0
    first = next((entry for entry in entries.member if entry.settings in engines), None)
    for settings, engine in engines.items():
        backends: dict[str, Backend] = {
            member.name: open_backend(
                member.judge_name(jury_file.parent), judges[member.name], settings, member.decoding, how.texts(files[member.name])
            )
            if engine is None
            else LocalBackend(judges[member.name], engine, member.decoding, how.texts(files[member.name]))
            for member in entries.member
            if member.settings == settings
        }
        try:
            for member in (entry for entry in entries.member if entry.name in backends):
                how.console.print(f"member {member.name}: judge {judges[member.name].name}", highlight=False)
                try:
                    backend = backends[member.name]
                    outcome = await score_file(source, files[member.name], backend, how, say_repeats=member is first)
                except EngineError as error:
                    failures[member.name] = str(error)
                else:
                    count = outcome.tally.judged + outcome.tally.kept
                    if mixed := mixture(outcome.summary, files[member.name]):
                        how.console.print(f"member {member.name}: {mixed}", markup=False, highlight=False)
        finally:
            for backend in backends.values():
                await backend.close()
    if len(failures) == len(entries.member):
        raise MagistrateError("every member of the jury failed: " + "; ".join(f"{name}: {why}" for name, why in failures.items()))
    heard = {name: file for name, file in files.items() if name not in failures}
    summary = _deliberate(jury, heard, failures, count, output)
    legal = {metric: scores for judge in judges.values() for metric, scores in judge.legal.items()}
    return Hearing(summary, jury.agreement(), failures, heard, legal)


def _scales(judges: Mapping[str, Judge]) -> tuple[dict[str, MeasurementLevel], dict[str, Sequence[str]]]:
    """Each metric's level of measurement and the order of its labels.

    Raises:
        MagistrateError: Two members score one metric on different scales.
    """
    scales: dict[str, tuple[str, object]] = {}
    for name, judge in judges.items():
        legal = {score.metric: score.legal for score in judge.numeric_scores}
        for metric in judge.levels:
            scale = (legal.get(metric), tuple(judge.label_orders.get(metric, ())))
            first, its_scale = scales.setdefault(metric, (name, scale))
            if scale != its_scale:
                raise MagistrateError(
                    f"members {first} and {name} score `{metric}` on different scales, which cannot be combined; "
                    "give both the same scale, or the metric another name in one of them"
                )
    orders = {metric: labels for judge in judges.values() for metric, labels in judge.label_orders.items()}
    return weakest_levels(judge.levels for judge in judges.values()), orders


def _open(members: Sequence[MemberEntry], *, silent: bool) -> tuple[dict[EngineSettings, Engine | None], dict[str, str]]:
    """One engine, not started, for all members of equal settings, ``None`` for a server; and members without a model."""
    engines: dict[EngineSettings, Engine | None] = {}
    failures: dict[str, str] = {}
    for member in members:
        member.settings.check()
        try:
            if member.settings not in engines:
                settings = with_judge_model(member.settings, member.judge or catalog.USUAL, silent=silent)
                with opening(silent=silent):
                    engines[member.settings] = None if member.server else settings.open()
        except EngineError as error:
            failures[member.name] = str(error)
    return engines, failures


def _deliberate(jury: Jury, files: Mapping[str, Path], failures: Mapping[str, str], count: int, output: Path) -> Summary:
    """Combine the members' files, which are in the input's order, sample by sample."""
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
        stated = {metric: asdict(agreed) for metric, agreed in jury.agreement().items()}
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
    """Refuse to overwrite any file but an earlier jury's verdicts, which are made anew from the members'."""
    for file in (output, *files):
        if same_file(file, source):
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
    """An option as the command line spells it."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
