"""The queue: parts of batches, leased to workers for a time, and results recorded against them exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from server.store.batches import leave_queue
from server.store.database import Area, Database
from server.store.errors import StoreError
from server.store.records import LeasedPart, Result
from server.store.schema import batches, file_parts, files, queue, results

Place = tuple[str, int]
"""A part in the queue: its batch's id and its number."""

_ORDER = (queue.c.batch, queue.c.number)

_OF_PART = (queue.c.batch == bindparam("of_batch")) & (queue.c.number == bindparam("of_number"))
_COUNT_DOWN = update(queue).where(_OF_PART).values(open_lines=queue.c.open_lines - bindparam("fewer"))
_LEASE = update(queue).where(_OF_PART).values(worker=bindparam("to"), leased_until=bindparam("until"))


class Queue(Area):
    """Leases and results. Any number of workers, threads and, on PostgreSQL, servers may call at once.

    Results are on disk when they are recorded. Leases wait for no disk: what a crash of the machine undoes of them is at
    worst judged again, and recorded once all the same.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        dialect = sqlite if database.is_sqlite else postgresql
        self._insert_new = (
            dialect.insert(results).on_conflict_do_nothing().returning(results.c.batch, results.c.part, results.c.failed)
        )

    def lease(self, worker: str, models: Collection[str | None], *, parts: int, seconds: float) -> list[LeasedPart]:
        """Give a worker parts that nobody has, those of the oldest batch first.

        Args:
            worker: Who asks; renews, releases.
            models: Batches of these only; ``None`` is the batches that name none.
            parts: As many, at most.
            seconds: For how long, unless renewed.
        """
        of_model: ColumnElement[bool] = batches.c.model.in_([model for model in models if model is not None])
        if None in models:
            of_model = of_model | batches.c.model.is_(None)
        fields = (batches.c.number, batches.c.id, batches.c.endpoint, batches.c.owner, batches.c.input_file_id, batches.c.model)
        named = files.c.model.label("named")
        leased: list[LeasedPart] = []
        with self._database.writing(durable=False) as connection:
            open_batches = select(*fields, named, self._database.now().label("now")).where(
                batches.c.status == "in_progress", of_model
            )
            open_batches = open_batches.join(files, files.c.id == batches.c.input_file_id)
            for batch in connection.execute(open_batches.order_by(batches.c.number)).all():
                if len(leased) >= parts:
                    break
                free = select(queue.c.number, queue.c.open_lines).where(
                    queue.c.batch == batch.number, or_(queue.c.leased_until.is_(None), queue.c.leased_until <= batch.now)
                )
                free = free.order_by(queue.c.number).limit(parts - len(leased)).with_for_update(skip_locked=True)
                taken = connection.execute(free).all()
                if taken:
                    lease = {"of_batch": batch.number, "to": worker, "until": batch.now + seconds}
                    connection.execute(_LEASE, [{**lease, "of_number": part.number} for part in taken])
                    leased += _read_parts(connection, batch, {part.number: part.open_lines for part in taken})
        return leased

    def renew(self, worker: str, seconds: float) -> set[Place]:
        """Go on holding what a worker has, from now on.

        Args:
            worker: Who.
            seconds: For how long.

        Returns:
            What it still has. Parts that another took since, and those of batches that are not in progress any more, are
            not among it; those of batches being cancelled are let go.
        """
        with self._database.writing(durable=False) as connection:
            wanted = select(queue.c.batch, queue.c.number, batches.c.id, batches.c.status).join(batches)
            held = connection.execute(_locking(wanted.where(queue.c.worker == worker))).all()
            still = [part for part in held if part.status == "in_progress"]
            gone = {part.batch for part in held} - {part.batch for part in still}
            of_worker = update(queue).where(queue.c.worker == worker)
            if still:
                until = self._database.now() + seconds
                connection.execute(of_worker.where(queue.c.batch.in_({part.batch for part in still})).values(leased_until=until))
            if gone:
                connection.execute(of_worker.where(queue.c.batch.in_(gone)).values(worker=None, leased_until=None))
        return {(part.id, part.number) for part in still}

    def release(self, worker: str, parts: Collection[Place] | None = None) -> None:
        """Let others have what a worker has: some parts, or all of them."""
        with self._database.writing(durable=False) as connection:
            wanted = select(queue.c.batch, queue.c.number, batches.c.id).join(batches).where(queue.c.worker == worker)
            held = connection.execute(_locking(wanted)).all()
            let_go = [part for part in held if parts is None or (part.id, part.number) in parts]
            if let_go:
                places = tuple_(*_ORDER).in_([(part.batch, part.number) for part in let_go])
                connection.execute(update(queue).where(places).values(worker=None, leased_until=None))

    def release_all(self) -> None:
        """Let go whatever anyone has: right where nobody else can be alive."""
        with self._database.writing() as connection:
            connection.execute(update(queue).where(queue.c.worker.is_not(None)).values(worker=None, leased_until=None))

    def record(self, new: Sequence[Result]) -> int:
        """Keep results, each line's first only, and count them. When this returns they are on disk.

        A batch whose last line this is becomes completed with it. Those of a batch that has ended, because it was cancelled or
        failed, come too late and are dropped: what is told of a batch that has ended stays true.

        Returns:
            How many were new.

        Raises:
            StoreError: A result names a batch that there is not.
        """
        if not new:
            return 0
        with self._database.writing(more=sum(len(result.record) for result in new)) as connection:
            found = _lock_batches(connection, self._database, {result.batch_id for result in new})
            wanted = [result for result in new if found[result.batch_id].status in ("in_progress", "cancelling")]
            rows = [_row(result, found[result.batch_id]) for result in wanted]
            kept = connection.execute(self._insert_new, rows).all() if rows else []
            if not kept:
                return 0
            fewer = sorted(Counter((row.batch, row.part) for row in kept).items())
            connection.execute(
                _COUNT_DOWN, [{"of_batch": batch, "of_number": part, "fewer": count} for (batch, part), count in fewer]
            )
            done = tuple_(*_ORDER).in_([place for place, _ in fewer]) & (queue.c.open_lines <= 0)
            connection.execute(delete(queue).where(done))
            for batch in found.values():
                outcomes = Counter(row.failed for row in kept if row.batch == batch.number)
                if outcomes:
                    self._count(connection, batch, outcomes[False], outcomes[True])
        return len(kept)

    def _count(self, connection: Connection, batch: Row[Any], completed: int, failed: int) -> None:
        completed += batch.completed
        failed += batch.failed
        change = update(batches).where(batches.c.number == batch.number).values(completed=completed, failed=failed)
        if batch.status == "in_progress" and completed + failed >= batch.total:
            change = change.values(status="completed", completed_at=self._database.this_second())
        connection.execute(change)

    def settle_cancelled(self) -> int:
        """Mark batches being cancelled, of which nothing is leased any more, as cancelled. Returns how many."""
        of_batch = queue.c.batch == batches.c.number
        leased = exists().where(of_batch, queue.c.worker.is_not(None), queue.c.leased_until > self._database.now())
        idle = select(batches.c.number).where(batches.c.status == "cancelling", ~leased).order_by(batches.c.number)
        with self._database.reading() as connection:
            if connection.execute(idle.limit(1)).first() is None:
                return 0
        with self._database.freeing() as connection:
            numbers = list(connection.execute(idle.with_for_update(key_share=True)).scalars())
            if numbers:
                values = {"status": "cancelled", "cancelled_at": self._database.this_second()}
                connection.execute(update(batches).where(batches.c.number.in_(numbers)).values(values))
                leave_queue(connection, numbers)
        return len(numbers)

    def depth(self) -> dict[str, int]:
        """Lines without a result by the model that judges them, in batches in progress."""
        left = func.sum(batches.c.total - batches.c.completed - batches.c.failed)
        wanted = select(batches.c.model, left).where(batches.c.status == "in_progress").group_by(batches.c.model)
        with self._database.reading() as connection:
            return {model or "": int(lines) for model, lines in connection.execute(wanted)}


def _locking(wanted: Select[Any]) -> Select[Any]:
    # Everyone who locks several parts does so in the queue's order, so that no two wait for each other.
    return wanted.order_by(*_ORDER).with_for_update(of=queue)


def _read_parts(connection: Connection, batch: Row[Any], open_lines: dict[int, int]) -> list[LeasedPart]:
    of_file = file_parts.c.file_id == batch.input_file_id
    wanted = select(file_parts).where(of_file, file_parts.c.number.in_(list(open_lines))).order_by(file_parts.c.number)
    return [
        LeasedPart(
            batch.id,
            part.number,
            part.first_line,
            batch.endpoint,
            batch.owner,
            part.data,
            part.duplicates,
            _done(connection, batch.number, part) if open_lines[part.number] < part.lines else set(),
            batch.model,
            batch.named,
        )
        for part in connection.execute(wanted).all()
    ]


def _done(connection: Connection, batch: int, part: Row[Any]) -> set[int]:
    # By line, as the results are indexed. The last line of a file may lack its end.
    end = part.first_line + part.data.count(b"\n") + 1
    lines = results.c.line.between(part.first_line, end) & (results.c.part == part.number)
    return set(connection.execute(select(results.c.line).where(results.c.batch == batch, lines)).scalars())


def _lock_batches(connection: Connection, database: Database, ids: set[str]) -> dict[str, Row[Any]]:
    """The batches by id, held to the end of this transaction: who else records for one waits, so that its counts add up."""
    fields = (batches.c.id, batches.c.number, batches.c.owner, batches.c.status)
    counts = (batches.c.total, batches.c.completed, batches.c.failed)
    wanted = select(*fields, *counts, database.now().label("now")).where(batches.c.id.in_(ids)).order_by(batches.c.number)
    found = {row.id: row for row in connection.execute(wanted.with_for_update(key_share=True))}
    if missing := ids - found.keys():
        raise StoreError(f"results name a batch that there is not: {min(missing)}")
    return found


def _row(result: Result, batch: Row[Any]) -> dict[str, Any]:
    return {
        "batch": batch.number,
        "line": result.line,
        "part": result.part,
        "failed": result.failed,
        "owner": batch.owner,
        "recorded_at": batch.now,
        "custom_id": result.custom_id,
        "record": _storable(result.record),
    }


def _storable(record: str) -> str:
    """A JSON line as databases take it: halves of surrogate pairs and NULs as JSON's own escapes."""
    return record.encode("utf-8", "backslashreplace").decode().replace("\0", "\\u0000")
