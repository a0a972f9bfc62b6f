"""Judging on a Ray cluster: a stage for a dataset of Ray Data, and the units of an input."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow
import ray
import ray.data
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from judges import catalog
from judges.backend import Backend, LocalBackend
from judges.data.rows import Row, own_id, renamed
from judges.decoding import Decoding
from judges.engines.cluster import MOST_LOST, check_same, gpus_of, last_words, on_node
from judges.engines.engine import EngineIdentity
from judges.engines.settings import EngineSettings
from judges.errors import EngineError, MagistrateError
from judges.judge import Judge
from judges.runner import prepare, unscored
from judges.units.folder import Run, begin, fingerprint_fields
from judges.units.judging import UnitJudging
from judges.units.stores import Store
from judges.units.tables import read_facts, schema_of, table_of, verdict_of
from judges.units.units import Unit
from judges.verdict import Verdict
from magistrate.judging import settings_of

if TYPE_CHECKING:
    from ray.data import Dataset

AT_ONCE = 2
"""Blocks that an actor judges at a time, so that the engine works while the last rows of one are written."""

BATCH = 512
"""Rows that a stage judges as one."""

ADVICE = "\nFailed to apply UDF"


@dataclass(frozen=True)
class Asked:
    """What every actor asks, and how.

    Attributes:
        judge: The judge's name or a rubric file, or the judge.
        options: Its options.
        engine: What runs the model.
        decoding: How answers are written.
        columns: Field of a sample to the column that holds it, if the names differ.
    """

    judge: Judge | str
    engine: EngineSettings
    decoding: Decoding
    options: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)

    def open_judge(self) -> Judge:
        """Make the judge.

        Raises:
            MagistrateError: There is no such judge or option.
        """
        return self.judge if isinstance(self.judge, Judge) else catalog.open_judge(self.judge, self.options)

    def open(self) -> Backend:
        """Make the judge and its engine, which is not started.

        Raises:
            MagistrateError: There is no such judge, option, engine or model.
        """
        return LocalBackend(self.open_judge(), self.engine.with_judge().without_cluster().open(), self.decoding)


def judge(
    dataset: Dataset,
    judge: Judge | str = "llm-eval",
    model: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    fields: Mapping[str, str] | None = None,
    actors: int | tuple[int, int] | None = None,
    num_gpus: float | None = None,
    **settings: Any,
) -> Dataset:
    """Judge the rows of a dataset of Ray Data: a lazy stage of a pool of actors, each with an engine.

    Args:
        dataset: Rows with the fields that the judge reads. A row's ``id`` names its verdict, else a digest of the row.
        judge: A judge's name, a rubric file, or a judge.
        model: The model; by default the embedded judge.
        options: The judge's options.
        fields: Field that the judge reads to the column that holds it, if the names differ.
        actors: How many, or the least and the most; by default as many as the cluster has room for.
        num_gpus: GPUs of an actor; by default as many as share the model, if the cluster has any.
        settings: Other settings of ``magistrate.judge``: those of the engine, and of how answers are written.

    Returns:
        A dataset of verdicts, with the columns of ``magistrate score -o FOLDER/``.

    Raises:
        MagistrateError: There is no such judge, option or setting; or, as the dataset is read, no engine can start.
    """
    engine, decoding = settings_of(settings.pop("engine", None), {"model": model, **settings})
    asked = Asked(judge, engine, decoding, options or {}, fields or {})
    asked.open_judge()
    judged = dataset.map_batches(
        _RowActor,
        batch_size=BATCH,
        batch_format="pyarrow",
        fn_constructor_args=(asked, _witness()),
        **_pool(asked, actors, num_gpus),
    )
    judged.context.raise_original_map_exception = True
    return judged


def judge_units(
    source: Store,
    target: Store,
    units: Sequence[Unit],
    asked: Asked,
    run: Mapping[str, Any],
    *,
    actors: int | tuple[int, int] | None = None,
) -> Iterator[Mapping[str, Any]]:
    """Judge units to a folder, and yield the tally of each as it is done.

    Args:
        source: Where the units are; every node must reach it.
        target: Where their verdicts go; likewise.
        units: Those that are not done.
        asked: What is asked.
        run: What the folder is of, but for the fingerprint, which the first actor knows.
        actors: How many, or the least and the most; by default as many as the cluster has room for.

    Raises:
        MagistrateError: No engine can start, or a file cannot be written. Units judged to their end are kept.
    """
    found = ray.data.from_items([{"number": number} for number in range(len(units))], override_num_blocks=len(units))
    found = found.map_batches(
        _UnitActor,
        batch_size=1,
        batch_format="pyarrow",
        fn_constructor_args=(asked, _witness(), source, target, list(units), dict(run)),
        **_pool(asked, actors, None),
    )
    found.context.raise_original_map_exception = True
    try:
        for row in found.iter_rows():
            yield json.loads(row["tally"])
    except ray.exceptions.RayError as error:
        raise _own(error) from None


def _own(error: Exception) -> Exception:
    """The error of this project behind one of Ray's, without the advice that Ray adds to its sentence."""
    if isinstance(error, ray.exceptions.RayActorError):
        words = last_words(error)
        return EngineError(f"an actor on the Ray cluster has ended and none takes its place: {words}; the same command resumes")
    cause = getattr(error, "cause", None)
    return MagistrateError(str(cause).partition(ADVICE)[0]) if isinstance(cause, MagistrateError) else error


def _pool(asked: Asked, actors: int | tuple[int, int] | None, num_gpus: float | None) -> dict[str, Any]:
    """Arguments of ``map_batches`` for a pool of actors."""
    least, most = (actors, actors) if isinstance(actors, int) else actors or (1, None)
    if num_gpus is None:
        num_gpus = gpus_of(asked.engine.gpus)
    pool = ray.data.ActorPoolStrategy(min_size=least, max_size=most, max_concurrent_calls_per_actor=AT_ONCE)
    return {"compute": pool, "num_gpus": num_gpus, "num_cpus": 1}


@ray.remote(num_cpus=0)
class Witness:
    """What the actors of a run have in common: the first one's engine, and how often a block's engine has failed."""

    def __init__(self) -> None:
        self._identity: EngineIdentity | None = None
        self._lost: dict[str, int] = {}

    def agree(self, identity: EngineIdentity) -> EngineIdentity:
        """The engine of the first actor that asked."""
        self._identity = self._identity or identity
        return self._identity

    def lost(self, block: str) -> int:
        """How often the engine has failed at a block, this time included."""
        self._lost[block] = self._lost.get(block, 0) + 1
        return self._lost[block]


def _witness() -> Any:
    """A witness on the driver's node, which cannot end before the run."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return Witness.options(scheduling_strategy=here).remote()  # type: ignore[attr-defined]


class _Actor:
    """Opens an engine once, and starts it at the first block that asks it something."""

    def __init__(self, asked: Asked, witness: Any) -> None:
        self.asked = asked
        self._witness = witness
        self._starting: asyncio.Lock | None = None
        self._opened = self._started = False

    async def ready(self, *, starts: bool = True) -> None:
        """Open the engine, if its verdicts are those of the first actor's, and start it unless it will not be asked.

        Raises:
            MagistrateError: The node has no such model, the engine cannot start, or its fingerprint is another.
        """
        self._starting = self._starting or asyncio.Lock()
        async with self._starting:
            try:
                if not self._opened:
                    await self._open()
                    self._opened = True
                if starts and not self._started:
                    await self.backend.start()
                    self._started = True
            except MagistrateError as error:
                raise on_node(error) from None

    async def _open(self) -> None:
        self.backend = self.asked.open()  # not in the constructor, whose faults Ray wraps
        ours = (await self.backend.fingerprint()).identity
        check_same(ours, await self._witness.agree.remote(ours))

    async def lose(self, block: str, error: EngineError) -> None:
        """End this actor, so that another takes its blocks with an engine of its own.

        Raises:
            EngineError: Engines have failed at this block before.
        """
        if await self._witness.lost.remote(block) >= MOST_LOST:
            raise EngineError(f"{MOST_LOST} engines have failed at {block}, the last one so: {error}")
        print(f"magistrate: the engine has failed at {block} ({error}); another takes it", file=sys.stderr, flush=True)
        os._exit(1)


class _RowActor(_Actor):
    """Judges batches of rows."""

    async def __call__(self, batch: pyarrow.Table) -> AsyncIterator[pyarrow.Table]:
        await self.ready()
        judge = self.backend.judge
        digest = (await self.backend.fingerprint()).digest
        samples = [prepare(renamed(_row(content), self.asked.columns), judge) for content in batch.to_pylist()]
        verdicts = {
            sample.key: unscored(sample, sample.problem or "the row holds no sample", judge, digest)
            for sample in samples
            if sample.rendered is None
        }
        asked = {sample.key: sample for sample in samples if sample.rendered is not None}
        try:
            async for verdict in self.backend.run(asked.values()):
                verdicts[verdict.sample] = verdict
        except EngineError as error:
            await self.lose(f"the rows from `{samples[0].row.id}`", error)
        yield table_of([verdicts[sample.key] for sample in samples], schema_of(judge))


def _row(content: dict[str, Any]) -> Row:
    """A row of a dataset, which has no place: without an id it is known by a digest of its fields."""
    name = own_id(content)
    if name is None:
        name = hashlib.sha256(json.dumps(content, sort_keys=True, default=repr).encode()).hexdigest()[:16]
    return Row(name, f"row `{name}`", content)


class _UnitActor(_Actor):
    """Judges units to a folder."""

    def __init__(
        self, asked: Asked, witness: Any, source: Store, target: Store, units: Sequence[Unit], run: Mapping[str, Any]
    ) -> None:
        super().__init__(asked, witness)
        self._source, self._target, self._units, self._run = source, target, units, run

    async def __call__(self, batch: pyarrow.Table) -> AsyncIterator[pyarrow.Table]:
        unit = self._units[batch["number"][0].as_py()]
        done = {unit.name: read_facts(self._target, unit.name)} if self._target.is_whole(unit.name) else {}
        await self.ready(starts=not done or done[unit.name].repeated > 0)
        fingerprint = await self.backend.fingerprint()
        begin(self._target, Run(**self._run, fingerprint=fingerprint_fields(fingerprint)))
        said: list[str] = []
        judging = UnitJudging(self._source, self._target, self.backend, done, columns=self.asked.columns, report=said.append)
        try:
            tally = await judging.run([unit])
        except EngineError as error:
            await self.lose(str(unit), error)
            raise
        yield pyarrow.table({"tally": [json.dumps({"said": said, **tally.as_fields()})]})


def verdicts_of(dataset: Dataset) -> Iterator[Verdict]:
    """Read the verdicts of a judged dataset.

    Raises:
        MagistrateError: No engine can start.
    """
    try:
        for row in dataset.iter_rows():
            yield verdict_of(dict(row))
    except ray.exceptions.RayError as error:
        raise _own(error) from None
