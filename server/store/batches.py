"""Batches, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sqlalchemy import ColumnElement, Connection, LargeBinary, cast, delete, func, insert, literal, select, update

from server.store.answers import keep_answer
from server.store.database import Area
from server.store.errors import StoreConflictError, StoreError
from server.store.ids import new_id
from server.store.records import Answer, BatchRecord, FileRecord, Result
from server.store.schema import batches, file_parts, files, queue, results

RESULTS_PAGE = 1000

_RECORD = [column for column in batches.c if column.name != "number"]


class Batches(Area):
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
            owner: Whose.
            file: The input.
            endpoint: What each line is a call of.
            completion_window: Kept and given back.
            metadata: Kept and given back.
            model: Which model is meant by the name that the file's lines give; by default the one called so.
            answer: Makes what the call is answered, to be remembered.

        Raises:
            StoreAnsweredError: The call was answered before.
            StoreConflictError: The file is still being uploaded, or is gone.
        """
        with self._database.writing(more=1) as connection:
            # Held until the batch is there, so that the file is not deleted in between.
            held = select(files.c.status, files.c.model).where(files.c.id == file.id, files.c.owner == owner)
            found = connection.execute(held.with_for_update(read=True)).one_or_none()
            if found is None:
                raise StoreConflictError(f"file {file.id} is gone; upload it again")
            if found.status != "processed":
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
                "model": model or found.model,
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
        """A batch of the owner's."""
        with self._database.reading() as connection:
            row = connection.execute(select(*_RECORD).where(_is(batch_id, owner))).one_or_none()
        return BatchRecord(**row._mapping) if row else None

    def batches(self, owner: str, *, after: str | None = None, limit: int = 20) -> list[BatchRecord]:
        """The owner's batches, newest first.

        Args:
            owner: Whose.
            after: Go on behind the batch with this id.
            limit: As many, at most.
        """
        wanted = select(*_RECORD).where(batches.c.owner == owner).order_by(batches.c.id.desc()).limit(limit)
        if after is not None:
            wanted = wanted.where(batches.c.id < after)
        with self._database.reading() as connection:
            return [BatchRecord(**row._mapping) for row in connection.execute(wanted)]

    def cancel_batch(self, batch_id: str, owner: str) -> BatchRecord | None:
        """Lease no more of a batch. It is cancelled once what is leased is let go; one that is finished stays as it is."""
        running = _is(batch_id, owner) & (batches.c.status == "in_progress")
        with self._database.freeing() as connection:
            connection.execute(
                update(batches).where(running).values(status="cancelling", cancelling_at=self._database.this_second())
            )
            row = connection.execute(select(*_RECORD).where(_is(batch_id, owner))).one_or_none()
        return BatchRecord(**row._mapping) if row else None

    def fail_batch(self, batch_id: str, reason: str) -> bool:
        """Give a batch up. Its results stay. False where it was not in progress.

        Args:
            batch_id: The batch.
            reason: Why, for its owner to read.
        """
        running = (batches.c.id == batch_id) & (batches.c.status == "in_progress")
        with self._database.writing() as connection:
            change = update(batches).where(running).values(status="failed", failed_at=self._database.this_second(), error=reason)
            number = connection.execute(change.returning(batches.c.number)).scalar_one_or_none()
            if number is None:
                return False
            leave_queue(connection, [number])
        return True

    def results(self, batch_id: str, *, failed: bool | None, after_line: int = 0) -> Iterator[Result]:
        """A batch's results in the order of its lines, as far as there are any. Nothing is held open in between.

        Args:
            batch_id: The batch.
            failed: Only those for the error file, only those for the output file, or with ``None`` both.
            after_line: Go on behind this line.

        Raises:
            StoreError: There is no such batch.
        """
        with self._database.reading() as connection:
            number = connection.execute(select(batches.c.number).where(batches.c.id == batch_id)).scalar_one_or_none()
        if number is None:
            raise StoreError(f"there is no batch {batch_id}")
        wanted = select(results.c.part, results.c.line, results.c.custom_id, results.c.failed, results.c.record)
        wanted = wanted.where(results.c.batch == number).order_by(results.c.line).limit(RESULTS_PAGE)
        if failed is not None:
            wanted = wanted.where(results.c.failed.is_(failed))
        page = None
        while page is None or len(page) == RESULTS_PAGE:
            with self._database.reading() as connection:
                page = connection.execute(wanted.where(results.c.line > after_line)).all()
            for row in page:
                yield Result(batch_id, *row)
                after_line = row.line

    def results_size(self, batch_id: str, *, failed: bool) -> int:
        """Bytes of a batch's output file, or of its error file, as far as there is one."""
        record = results.c.record
        size = func.length(cast(record, LargeBinary)) if self._database.is_sqlite else func.octet_length(record)
        wanted = select(func.coalesce(func.sum(size + 1), 0)).join(batches, batches.c.number == results.c.batch)
        with self._database.reading() as connection:
            wanted = wanted.where(batches.c.id == batch_id, results.c.failed.is_(failed))
            return int(connection.execute(wanted).scalar_one())

    def recent_results(self, owner: str, limit: int) -> list[Result]:
        """The owner's latest results, newest first; of those recorded together, the last line first."""
        wanted = select(batches.c.id, results.c.part, results.c.line, results.c.custom_id, results.c.failed, results.c.record)
        newest = (results.c.recorded_at.desc(), results.c.batch.desc(), results.c.line.desc())
        wanted = wanted.join(batches, batches.c.number == results.c.batch).where(results.c.owner == owner)
        with self._database.reading() as connection:
            return [Result(*row) for row in connection.execute(wanted.order_by(*newest).limit(limit))]


def leave_queue(connection: Connection, numbers: list[int]) -> None:
    """Take what is left of some batches out of the queue, leased or not."""
    # In the queue's order, like everyone who locks several parts, so that no two wait for each other.
    of_batches = queue.c.batch.in_(numbers)
    connection.execute(select(queue.c.number).where(of_batches).order_by(queue.c.batch, queue.c.number).with_for_update())
    connection.execute(delete(queue).where(of_batches))


def _is(batch_id: str, owner: str) -> ColumnElement[bool]:
    return (batches.c.id == batch_id) & (batches.c.owner == owner)
