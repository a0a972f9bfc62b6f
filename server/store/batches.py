"""Batches and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sqlalchemy import ColumnElement, Connection, LargeBinary, cast, delete, func, insert, literal, select, update

from server.store.database import Repository
from server.store.records import Answer, BatchRecord, FileRecord, Result, StoreConflictError, StoreError, new_id
from server.store.registry import keep_answer
from server.store.schema import batches, file_parts, files, queue, results

RESULTS_PAGE = 1000

_RECORD = [column for column in batches.c if column.name != "number"]


class Batches(Repository):
    """Batches and their results."""

    def create_batch(
        self,
        owner: str,
        file: FileRecord,
        endpoint: str,
        completion_window: str,
        metadata: Mapping[str, str] | None,
        model: str | None = None,
        answer: Callable[[BatchRecord], Answer] | None = None,
    ) -> BatchRecord:
        """Queue every part of a file. A file without lines makes a batch that is completed at once.

        Args:
            owner: The caller's name.
            file: The input.
            endpoint: The path that each line calls.
            completion_window: Stored as given.
            metadata: Stored as given.
            model: The model that the name in the file's lines stands for; that name by default.
            answer: Makes the answer to the call, which is stored with the batch.

        Raises:
            StoreAnsweredError: An earlier call with the same key was answered.
            StoreConflictError: The file is still being uploaded, or is gone.
        """
        with self._database.writing(more=1) as connection:
            # Locked until the batch exists, so that the file is not deleted in between.
            query = select(files.c.status, files.c.model).where(files.c.id == file.id, files.c.owner == owner)
            stored = connection.execute(query.with_for_update(read=True)).one_or_none()
            if stored is None:
                raise StoreConflictError(f"file {file.id} is gone; upload it again")
            if stored.status != "processed":
                raise StoreConflictError(f"file {file.id} is still being uploaded")
            of_file = file_parts.c.file_id == file.id
            total = connection.execute(select(func.coalesce(func.sum(file_parts.c.lines), 0)).where(of_file)).scalar_one()
            now = self._database.this_second()
            values = {
                "id": new_id("batch_"),
                "owner": owner,
                "input_file_id": file.id,
                "endpoint": endpoint,
                "completion_window": completion_window,
                "metadata": dict(metadata) if metadata is not None else None,
                "model": model or stored.model,
                "status": "in_progress" if total else "completed",
                "total": total,
                "completed": 0,
                "failed": 0,
                "created_at": now,
                "in_progress_at": now,
                "completed_at": None if total else now,
            }
            number, *fields = connection.execute(insert(batches).values(values).returning(batches.c.number, *_RECORD)).one()
            parts = select(literal(number), file_parts.c.number, file_parts.c.lines).where(of_file, file_parts.c.lines > 0)
            connection.execute(insert(queue).from_select(["batch", "number", "open_lines"], parts))
            record = BatchRecord(*fields)
            if answer is not None:
                keep_answer(connection, self._database, owner, answer(record))
        return record

    def batch(self, batch_id: str, owner: str) -> BatchRecord | None:
        """Find a batch of the owner's."""
        row = self._first(select(*_RECORD).where(_is(batch_id, owner)))
        return BatchRecord(**row._mapping) if row else None

    def batches(self, owner: str, *, after: str | None = None, limit: int = 20) -> list[BatchRecord]:
        """List at most ``limit`` batches of the owner's, newest first, those that follow the id ``after`` if it is given."""
        query = select(*_RECORD).where(batches.c.owner == owner).order_by(batches.c.id.desc()).limit(limit)
        if after is not None:
            query = query.where(batches.c.id < after)
        return [BatchRecord(**row._mapping) for row in self._all(query)]

    def cancel_batch(self, batch_id: str, owner: str) -> BatchRecord | None:
        """Stop leasing a batch. It becomes cancelled once its leases have ended; a finished batch stays as it is."""
        running = _is(batch_id, owner) & (batches.c.status == "in_progress")
        with self._database.freeing() as connection:
            connection.execute(
                update(batches).where(running).values(status="cancelling", cancelling_at=self._database.this_second())
            )
            row = connection.execute(select(*_RECORD).where(_is(batch_id, owner))).one_or_none()
        return BatchRecord(**row._mapping) if row else None

    def fail_batch(self, batch_id: str, reason: str) -> bool:
        """Mark a batch as failed, with a reason for its owner. Its results stay. Returns False if it was not in progress."""
        running = (batches.c.id == batch_id) & (batches.c.status == "in_progress")
        with self._database.writing() as connection:
            change = update(batches).where(running).values(status="failed", failed_at=self._database.this_second(), error=reason)
            number = connection.execute(change.returning(batches.c.number)).scalar_one_or_none()
            if number is None:
                return False
            leave_queue(connection, [number])
        return True

    def results(self, batch_id: str, *, failed: bool | None, after_line: int = 0) -> Iterator[Result]:
        """Read a batch's results so far, in the order of its lines, those after ``after_line``.

        ``failed`` chooses those of the error file or of the output file; ``None`` is both. No transaction stays open meanwhile.

        Raises:
            StoreError: There is no such batch.
        """
        batch = self._first(select(batches.c.number).where(batches.c.id == batch_id))
        if batch is None:
            raise StoreError(f"there is no batch {batch_id}")
        query = select(results.c.part, results.c.line, results.c.custom_id, results.c.failed, results.c.record)
        query = query.where(results.c.batch == batch.number).order_by(results.c.line).limit(RESULTS_PAGE)
        if failed is not None:
            query = query.where(results.c.failed.is_(failed))
        page = None
        while page is None or len(page) == RESULTS_PAGE:
            page = self._all(query.where(results.c.line > after_line))
            for row in page:
                yield Result(batch_id, *row)
                after_line = row.line

    def results_size(self, batch_id: str, *, failed: bool) -> int:
        """Measure a batch's output file or error file, in bytes."""
        record = results.c.record
        size = func.length(cast(record, LargeBinary)) if self._database.is_sqlite else func.octet_length(record)
        query = select(func.coalesce(func.sum(size + 1), 0)).join(batches, batches.c.number == results.c.batch)
        (total,) = self._all(query.where(batches.c.id == batch_id, results.c.failed.is_(failed)))
        return int(total[0])

    def recent_results(self, owner: str, limit: int) -> list[Result]:
        """List the owner's latest results, newest first; of those recorded together, the last line first."""
        query = select(batches.c.id, results.c.part, results.c.line, results.c.custom_id, results.c.failed, results.c.record)
        newest = (results.c.recorded_at.desc(), results.c.batch.desc(), results.c.line.desc())
        query = query.join(batches, batches.c.number == results.c.batch).where(results.c.owner == owner)
        return [Result(*row) for row in self._all(query.order_by(*newest).limit(limit))]


def leave_queue(connection: Connection, numbers: list[int]) -> None:
    """Remove the remaining parts of some batches from the queue, leased or not."""
    # Whoever locks several parts does so in the queue's order, so that no two wait for each other.
    of_batches = queue.c.batch.in_(numbers)
    connection.execute(select(queue.c.number).where(of_batches).order_by(queue.c.batch, queue.c.number).with_for_update())
    connection.execute(delete(queue).where(of_batches))


def _is(batch_id: str, owner: str) -> ColumnElement[bool]:
    return (batches.c.id == batch_id) & (batches.c.owner == owner)
