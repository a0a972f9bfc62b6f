"""The queue: parts of batches are leased to workers, and each line's result is recorded exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, bindparam, delete, exists, func, or_, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from server.store.batches import leave_queue
from server.store.database import Database, Repository
from server.store.records import LeasedPart, Result, StoreError
from server.store.schema import batches, file_parts, files, queue, results

PartKey = tuple[str, int]
"""A queued part: its batch's id and its number."""

_ORDER = (queue.c.batch, queue.c.number)

_OF_PART = (queue.c.batch == bindparam("of_batch")) & (queue.c.number == bindparam("of_number"))
_COUNT_DOWN = update(queue).where(_OF_PART).values(open_lines=queue.c.open_lines - bindparam("fewer"))
_LEASE = update(queue).where(_OF_PART).values(worker=bindparam("to"), leased_until=bindparam("until"))


class Queue(Repository):
    """Leases and results. Any number of workers, threads and, on PostgreSQL, servers may call at once.

    Results are on disk when they are recorded. Leases do not wait for the disk: if a crash of the machine undoes one, its lines
    are judged again, and still recorded once.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        dialect = sqlite if database.is_sqlite else postgresql
        self._insert_new = (
            dialect.insert(results).on_conflict_do_nothing().returning(results.c.batch, results.c.part, results.c.failed)
        )

    def lease(self, worker: str, models: Collection[str | None], *, parts: int, seconds: float) -> list[LeasedPart]:
        """Lease free parts to a worker, those of the oldest batch first.

        Args:
            worker: Name under which the leases are renewed and released.
            models: Models whose batches may be leased; ``None`` among them for batches that name none.
            parts: Most parts to lease.
            seconds: Time until the leases expire.
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

    def renew(self, worker: str, seconds: float) -> set[PartKey]:
        """Renew a worker's leases for so many seconds. Those of batches that are no longer in progress are released.

        Returns:
            The parts that it still holds: another worker may have taken an expired one.
        """
        with self._database.writing(durable=False) as connection:
            query = select(queue.c.batch, queue.c.number, batches.c.id, batches.c.status).join(batches)
            held = connection.execute(_locking(query.where(queue.c.worker == worker))).all()
            still = [part for part in held if part.status == "in_progress"]
            gone = {part.batch for part in held} - {part.batch for part in still}
            of_worker = update(queue).where(queue.c.worker == worker)
            if still:
                until = self._database.now() + seconds
                connection.execute(of_worker.where(queue.c.batch.in_({part.batch for part in still})).values(leased_until=until))
            if gone:
                connection.execute(of_worker.where(queue.c.batch.in_(gone)).values(worker=None, leased_until=None))
        return {(part.id, part.number) for part in still}

    def release(self, worker: str, parts: Collection[PartKey] | None = None) -> None:
        """Release some of a worker's leases, or all of them."""
        with self._database.writing(durable=False) as connection:
            query = select(queue.c.batch, queue.c.number, batches.c.id).join(batches).where(queue.c.worker == worker)
            held = connection.execute(_locking(query)).all()
            released = [(part.batch, part.number) for part in held if parts is None or (part.id, part.number) in parts]
            if released:
                connection.execute(update(queue).where(tuple_(*_ORDER).in_(released)).values(worker=None, leased_until=None))

    def release_all(self) -> None:
        """Release every lease. For a server that knows that no other is running."""
        with self._database.writing() as connection:
            connection.execute(update(queue).where(queue.c.worker.is_not(None)).values(worker=None, leased_until=None))

    def record(self, new: Sequence[Result]) -> int:
        """Store results, only the first of each line, and count them. They are on disk when this returns.

        A batch becomes completed with its last line. Results of a cancelled or failed batch come too late and are dropped, so
        the counts of an ended batch never change.

        Returns:
            How many were new.

        Raises:
            StoreError: A result names an unknown batch.
        """
        if not new:
            return 0
        with self._database.writing(more=sum(len(result.record) for result in new)) as connection:
            locked = _lock_batches(connection, self._database, {result.batch_id for result in new})
            running = [result for result in new if locked[result.batch_id].status in ("in_progress", "cancelling")]
            rows = [_row(result, locked[result.batch_id]) for result in running]
            kept = connection.execute(self._insert_new, rows).all() if rows else []
            if not kept:
                return 0
            fewer = sorted(Counter((row.batch, row.part) for row in kept).items())
            connection.execute(
                _COUNT_DOWN, [{"of_batch": batch, "of_number": part, "fewer": count} for (batch, part), count in fewer]
            )
            done = tuple_(*_ORDER).in_([part for part, _ in fewer]) & (queue.c.open_lines <= 0)
            connection.execute(delete(queue).where(done))
            for batch in locked.values():
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
        """Mark batches as cancelled that are being cancelled and have no leases left. Returns how many."""
        of_batch = queue.c.batch == batches.c.number
        leased = exists().where(of_batch, queue.c.worker.is_not(None), queue.c.leased_until > self._database.now())
        idle = select(batches.c.number).where(batches.c.status == "cancelling", ~leased).order_by(batches.c.number)
        if self._first(idle.limit(1)) is None:
            return 0
        with self._database.freeing() as connection:
            numbers = list(connection.execute(idle.with_for_update(key_share=True)).scalars())
            if numbers:
                values = {"status": "cancelled", "cancelled_at": self._database.this_second()}
                connection.execute(update(batches).where(batches.c.number.in_(numbers)).values(values))
                leave_queue(connection, numbers)
        return len(numbers)

    def depth(self) -> dict[str, int]:
        """Count the lines without a result in running batches, by the model that judges them."""
        left = func.sum(batches.c.total - batches.c.completed - batches.c.failed)
        query = select(batches.c.model, left).where(batches.c.status == "in_progress").group_by(batches.c.model)
        return {model or "": int(lines) for model, lines in self._all(query)}


def _locking(query: Select[Any]) -> Select[Any]:
    # Whoever locks several parts does so in the queue's order, so that no two wait for each other.
    return query.order_by(*_ORDER).with_for_update(of=queue)


def _read_parts(connection: Connection, batch: Row[Any], open_lines: dict[int, int]) -> list[LeasedPart]:
    of_file = file_parts.c.file_id == batch.input_file_id
    query = select(file_parts).where(of_file, file_parts.c.number.in_(list(open_lines))).order_by(file_parts.c.number)
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
        for part in connection.execute(query).all()
    ]


def _done(connection: Connection, batch: int, part: Row[Any]) -> set[int]:
    # By line, as the results are indexed. The last line of a file may lack its end.
    end = part.first_line + part.data.count(b"\n") + 1
    lines = results.c.line.between(part.first_line, end) & (results.c.part == part.number)
    return set(connection.execute(select(results.c.line).where(results.c.batch == batch, lines)).scalars())


def _lock_batches(connection: Connection, database: Database, ids: set[str]) -> dict[str, Row[Any]]:
    """Lock batches to the end of the transaction: other recorders wait, so that the counts add up."""
    fields = (batches.c.id, batches.c.number, batches.c.owner, batches.c.status)
    counts = (batches.c.total, batches.c.completed, batches.c.failed)
    query = select(*fields, *counts, database.now().label("now")).where(batches.c.id.in_(ids)).order_by(batches.c.number)
    locked = {row.id: row for row in connection.execute(query.with_for_update(key_share=True))}
    if missing := ids - locked.keys():
        raise StoreError(f"results name an unknown batch: {min(missing)}")
    return locked


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
    """Escape unpaired surrogates and NULs, which databases refuse, as JSON does."""
    return record.encode("utf-8", "backslashreplace").decode().replace("\0", "\\u0000")
