"""Uploaded files, written and read a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlalchemy import ColumnElement, Connection, delete, false, func, insert, select, true, update
from sqlalchemy.exc import IntegrityError

from server.store.database import Database, Repository
from server.store.records import Answer, FilePart, FileRecord, StoreConflictError, StoreQuotaError, new_id
from server.store.registry import keep_answer
from server.store.room import size_of
from server.store.schema import batches, file_parts, files

UNFINISHED = ("in_progress", "cancelling")

_PART_FIELDS = ("number", "first_line", "lines", "duplicates", "data")

_RECORD = [column for column in files.c if column.name != "leased_until"]

UPLOAD_LEASE_SECONDS = 60.0
"""Seconds for which an upload outlives its server, on a database that several servers share."""


class Files(Repository):
    """Files and their content."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._uploading: set[str] = set()

    def begin_file(self, owner: str, purpose: str, filename: str, *, expected: int = 0, quota: int | None = None) -> FileRecord:
        """Begin a file, to which parts are added until it is finished or dropped.

        Args:
            owner: The caller's name.
            purpose: Stored as given.
            filename: Stored as given.
            expected: Least size, in bytes.
            quota: Most bytes of all the owner's files together.

        Raises:
            StoreQuotaError: The owner's files would exceed the quota.
        """
        values = {"id": new_id("file-"), "owner": owner, "purpose": purpose, "filename": filename, "bytes": 0, "lines": 0}
        with self._database.writing(more=max(1, expected)) as connection:
            _check_quota(connection, owner, quota, more=expected)
            values |= {"status": "uploading", "created_at": self._database.this_second(), "leased_until": self._lease()}
            row = connection.execute(insert(files).values(values).returning(*_RECORD)).one()
        self._uploading.add(row.id)
        return FileRecord(**row._mapping)

    def add_part(self, file_id: str, part: FilePart, *, quota: int | None = None) -> None:
        """Add the next part to a file that is being uploaded. It survives a crash of the machine once the file is finished.

        Raises:
            StoreConflictError: The file is finished or gone, or has a part of this number.
            StoreQuotaError: The owner's files would exceed ``quota`` bytes.
        """
        longer = update(files).where(_uploading(file_id)).values(bytes=files.c.bytes + len(part.data), leased_until=self._lease())
        with self._database.writing(durable=False, more=len(part.data)) as connection:
            owner = connection.execute(longer.returning(files.c.owner)).scalar_one_or_none()
            if owner is None:
                raise StoreConflictError(f"file {file_id} is no longer being uploaded; upload it again")
            _check_quota(connection, owner, quota, file_id)
            values = {name: getattr(part, name) for name in _PART_FIELDS}
            try:
                connection.execute(insert(file_parts).values(file_id=file_id, **values))
            except IntegrityError:
                raise StoreConflictError(f"file {file_id} has a part {part.number} already") from None

    def finish_file(
        self,
        file_id: str,
        *,
        bytes: int,  # noqa: A002
        lines: int,
        model: str | None,
        answer: Callable[[FileRecord], Answer] | None = None,
        quota: int | None = None,
    ) -> FileRecord:
        """Mark a file as complete.

        Args:
            file_id: A file that is being uploaded.
            bytes: Its size.
            lines: Lines of all its parts that are not blank.
            model: The model that its lines name.
            answer: Makes the answer to the call, which is stored with the file.
            quota: Most bytes of all the owner's files together.

        Raises:
            StoreAnsweredError: An earlier call with the same key was answered.
            StoreQuotaError: Another upload ended meanwhile, and the owner's files would exceed the quota.
            StoreConflictError: The file is not being uploaded, or a crash of the database lost parts of it.
        """
        with self._database.writing() as connection:
            counts = select(func.count(), func.coalesce(func.max(file_parts.c.number) + 1, 0), func.sum(file_parts.c.lines))
            count, end, counted = connection.execute(counts.where(file_parts.c.file_id == file_id)).one()
            if count != end or (counted or 0) != lines:
                raise StoreConflictError(
                    f"file {file_id} is incomplete: {count} parts with {counted or 0} lines arrived, "
                    f"of {end} with {lines}; upload it again"
                )
            owner = connection.execute(select(files.c.owner).where(files.c.id == file_id)).scalar_one_or_none()
            _check_quota(connection, owner or "", quota, file_id)
            change = update(files).where(_uploading(file_id))
            change = change.values(bytes=bytes, lines=lines, model=model, status="processed", leased_until=None)
            row = connection.execute(change.returning(*_RECORD)).one_or_none()
            if row is None:
                raise StoreConflictError(f"file {file_id} is no longer being uploaded; upload it again")
            record = FileRecord(**row._mapping)
            if answer is not None:
                keep_answer(connection, self._database, record.owner, answer(record))
        self._uploading.discard(file_id)
        return record

    def drop_file(self, file_id: str) -> None:
        """Delete a file that is being uploaded. A finished one stays."""
        self._uploading.discard(file_id)
        with self._database.freeing() as connection:
            connection.execute(delete(files).where(_uploading(file_id)))

    def renew_uploads(self) -> None:
        """Renew the leases of the files that are being uploaded here."""
        if self._uploading:
            with self._database.writing(durable=False) as connection:
                here = files.c.id.in_(sorted(self._uploading))
                connection.execute(update(files).where(here, files.c.status == "uploading").values(leased_until=self._lease()))

    def forget_dead_uploads(self, *, everyone: bool = False) -> int:
        """Delete files whose uploads were abandoned. Returns how many.

        Args:
            everyone: Whether every upload but those of this process is abandoned: true if no other server can be running.
        """
        held = files.c.id.in_(sorted(self._uploading)) if everyone else files.c.leased_until > self._database.now()
        dead = (files.c.status == "uploading") & ~func.coalesce(held, false())
        if self._first(select(files.c.id).where(dead).limit(1)) is None:
            return 0
        with self._database.freeing() as connection:
            return connection.execute(delete(files).where(dead)).rowcount

    def file(self, file_id: str, owner: str) -> FileRecord | None:
        """Find a file of the owner's."""
        row = self._first(select(*_RECORD).where(files.c.id == file_id, files.c.owner == owner))
        return FileRecord(**row._mapping) if row else None

    def files(
        self, owner: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True, purpose: str | None = None
    ) -> list[FileRecord]:
        """List at most ``limit`` files of the owner's, in the order they were begun or the reverse.

        Args:
            owner: The caller's name.
            after: The id to start after, whose file may be gone.
            limit: Most files to list.
            newest_first: Whether the order is reversed.
            purpose: Lists only files with this purpose.
        """
        query = select(*_RECORD).where(files.c.owner == owner)
        if after is not None:
            query = query.where(files.c.id < after if newest_first else files.c.id > after)
        if purpose is not None:
            query = query.where(files.c.purpose == purpose)
        query = query.order_by(files.c.id.desc() if newest_first else files.c.id).limit(limit)
        return [FileRecord(**row._mapping) for row in self._all(query)]

    def file_content(self, file_id: str) -> Iterator[bytes]:
        """Read a file's content, a part at a time. No transaction stays open between two parts.

        Raises:
            StoreConflictError: The file is gone, perhaps since reading began.
        """
        number = -1
        parts = select(file_parts.c.number, file_parts.c.data).where(file_parts.c.file_id == file_id)
        parts = parts.order_by(file_parts.c.number).limit(1)
        while True:
            with self._database.reading() as connection:
                part = connection.execute(parts.where(file_parts.c.number > number)).first()
                exists = part or connection.execute(select(files.c.id).where(files.c.id == file_id)).first()
            if exists is None:
                raise StoreConflictError(f"file {file_id} is gone")
            if part is None:
                return
            number = part.number
            yield part.data

    def delete_file(self, file_id: str, owner: str) -> bool:
        """Delete a file of the owner's; results of batches that read it stay. Returns False if the owner has no such file.

        Raises:
            StoreConflictError: An unfinished batch still reads it.
        """
        with self._database.freeing() as connection:
            owned = select(files.c.id).where(files.c.id == file_id, files.c.owner == owner).with_for_update()
            if connection.execute(owned).one_or_none() is None:
                return False
            reads = (batches.c.input_file_id == file_id) & batches.c.status.in_(UNFINISHED)
            reader = connection.execute(select(batches.c.id).where(reads).limit(1)).scalar_one_or_none()
            if reader is not None:
                raise StoreConflictError(f"file {file_id} cannot be deleted: batch {reader} still reads it; cancel that first")
            connection.execute(delete(files).where(files.c.id == file_id))
        return True

    def _lease(self) -> ColumnElement[float]:
        return self._database.now() + UPLOAD_LEASE_SECONDS


def _uploading(file_id: str) -> ColumnElement[bool]:
    return (files.c.id == file_id) & (files.c.status == "uploading")


def _check_quota(connection: Connection, owner: str, quota: int | None, file_id: str | None = None, more: int = 0) -> None:
    """Refuse an upload beyond the quota. Of several at once the earliest continue: later ones do not count against them."""
    if quota is None:
        return
    size = func.coalesce(func.sum(files.c.bytes), 0)
    of_owner = select(size).where(files.c.owner == owner)
    kept = int(connection.execute(of_owner.where(files.c.status == "processed")).scalar_one())
    before = true() if file_id is None else files.c.id <= file_id
    uploading = int(connection.execute(of_owner.where(files.c.status == "uploading", before)).scalar_one())
    if kept + uploading + more > quota:
        beside = f", other uploads {size_of(uploading)}" if uploading and file_id is None else ""
        raise StoreQuotaError(
            f"the quota is full: your files take {size_of(kept)}{beside}, and with this upload would exceed the quota of "
            f"{size_of(quota)}; delete files that you no longer need"
        )
