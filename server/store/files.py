"""Uploaded files. A file is added a part at a time and read back so, whatever its size."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlalchemy import ColumnElement, Connection, delete, false, func, insert, select, true, update
from sqlalchemy.exc import IntegrityError

from server.store.answers import keep_answer
from server.store.database import Area, Database
from server.store.errors import StoreConflictError, StoreQuotaError
from server.store.ids import new_id
from server.store.records import Answer, FilePart, FileRecord
from server.store.room import size_of
from server.store.schema import batches, file_parts, files

UNFINISHED = ("in_progress", "cancelling")

_PART_FIELDS = ("number", "first_line", "lines", "duplicates", "data")

_RECORD = [column for column in files.c if column.name != "leased_until"]

UPLOAD_LEASE_SECONDS = 60.0
"""How long an upload stays with a server that has died, on a database that several servers share."""


class Files(Area):
    """Files and their content."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._uploading: set[str] = set()

    def begin_file(self, owner: str, purpose: str, filename: str, *, expected: int = 0, quota: int | None = None) -> FileRecord:
        """Begin a file, to which parts are added until it is finished or dropped.

        Args:
            owner: Whose it shall be.
            purpose: Kept and given back.
            filename: Kept and given back.
            expected: Bytes that it will have at least.
            quota: Bytes that all files of the owner's may have together.

        Raises:
            StoreQuotaError: The owner's files would have more.
        """
        values = {"id": new_id("file-"), "owner": owner, "purpose": purpose, "filename": filename, "bytes": 0, "lines": 0}
        with self._database.writing(more=max(1, expected)) as connection:
            _check_quota(connection, owner, quota, more=expected)
            values |= {"status": "uploading", "created_at": self._database.this_second(), "leased_until": self._lease()}
            row = connection.execute(insert(files).values(values).returning(*_RECORD)).one()
        self._uploading.add(row.id)
        return FileRecord(**row._mapping)

    def add_part(self, file_id: str, part: FilePart, *, quota: int | None = None) -> None:
        """Add a part to a file that is being uploaded. It is safe from a crash of the machine once the file is finished.

        Args:
            file_id: The file.
            part: Its next part.
            quota: Bytes that all files of its owner's may have together.

        Raises:
            StoreConflictError: The file is finished or gone, or has a part of this number.
            StoreQuotaError: The owner's files would have more.
        """
        longer = update(files).where(_uploading(file_id)).values(bytes=files.c.bytes + len(part.data), leased_until=self._lease())
        with self._database.writing(durable=False, more=len(part.data)) as connection:
            owner = connection.execute(longer.returning(files.c.owner)).scalar_one_or_none()
            if owner is None:
                raise StoreConflictError(f"file {file_id} is not being uploaded any more; upload it again")
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
        """Mark a file as whole.

        Args:
            file_id: A file that is being uploaded.
            bytes: Its length.
            lines: Lines in it that are not blank, over all its parts.
            model: The model that its lines name.
            answer: Makes what the call is answered, to be remembered.
            quota: Bytes that all files of its owner's may have together.

        Raises:
            StoreAnsweredError: The call was answered before.
            StoreQuotaError: The owner's files would have more, since another upload has come to its end.
            StoreConflictError: The file is not being uploaded, or parts of it were lost to a crash of the database.
        """
        with self._database.writing() as connection:
            counts = select(func.count(), func.coalesce(func.max(file_parts.c.number) + 1, 0), func.sum(file_parts.c.lines))
            count, end, counted = connection.execute(counts.where(file_parts.c.file_id == file_id)).one()
            if count != end or (counted or 0) != lines:
                raise StoreConflictError(
                    f"file {file_id} is not whole: {count} parts with {counted or 0} lines arrived, "
                    f"but there should be {end} with {lines}; upload it again"
                )
            owner = connection.execute(select(files.c.owner).where(files.c.id == file_id)).scalar_one_or_none()
            _check_quota(connection, owner or "", quota, file_id)
            change = update(files).where(_uploading(file_id))
            change = change.values(bytes=bytes, lines=lines, model=model, status="processed", leased_until=None)
            row = connection.execute(change.returning(*_RECORD)).one_or_none()
            if row is None:
                raise StoreConflictError(f"file {file_id} is not being uploaded any more; upload it again")
            record = FileRecord(**row._mapping)
            if answer is not None:
                keep_answer(connection, self._database, record.owner, answer(record))
        self._uploading.discard(file_id)
        return record

    def drop_file(self, file_id: str) -> None:
        """Forget a file that is being uploaded. A finished one stays."""
        self._uploading.discard(file_id)
        with self._database.freeing() as connection:
            connection.execute(delete(files).where(_uploading(file_id)))

    def renew_uploads(self) -> None:
        """Go on holding the files that are being uploaded here, from now on."""
        if self._uploading:
            with self._database.writing(durable=False) as connection:
                here = files.c.id.in_(sorted(self._uploading))
                connection.execute(update(files).where(here, files.c.status == "uploading").values(leased_until=self._lease()))

    def forget_dead_uploads(self, *, everyone: bool = False) -> int:
        """Delete files whose upload came to no end, and will come to none. Returns how many.

        Args:
            everyone: Whether all are such but those that are being uploaded here: right where nobody else can be alive.
        """
        held = files.c.id.in_(sorted(self._uploading)) if everyone else files.c.leased_until > self._database.now()
        dead = (files.c.status == "uploading") & ~func.coalesce(held, false())
        with self._database.reading() as connection:
            if connection.execute(select(files.c.id).where(dead).limit(1)).first() is None:
                return 0
        with self._database.freeing() as connection:
            return connection.execute(delete(files).where(dead)).rowcount

    def file(self, file_id: str, owner: str) -> FileRecord | None:
        """A file of the owner's."""
        with self._database.reading() as connection:
            row = connection.execute(select(*_RECORD).where(files.c.id == file_id, files.c.owner == owner)).one_or_none()
        return FileRecord(**row._mapping) if row else None

    def files(
        self, owner: str, *, after: str | None = None, limit: int = 20, newest_first: bool = True, purpose: str | None = None
    ) -> list[FileRecord]:
        """The owner's files in the order they were begun.

        Args:
            owner: Whose.
            after: Go on behind the file with this id, which may be gone.
            limit: As many, at most.
            newest_first: Which end to begin at.
            purpose: Only those with this purpose.
        """
        wanted = select(*_RECORD).where(files.c.owner == owner)
        if after is not None:
            wanted = wanted.where(files.c.id < after if newest_first else files.c.id > after)
        if purpose is not None:
            wanted = wanted.where(files.c.purpose == purpose)
        wanted = wanted.order_by(files.c.id.desc() if newest_first else files.c.id).limit(limit)
        with self._database.reading() as connection:
            return [FileRecord(**row._mapping) for row in connection.execute(wanted)]

    def file_content(self, file_id: str) -> Iterator[bytes]:
        """A file's content, a part at a time. Nothing is held open in between.

        Raises:
            StoreConflictError: The file is gone, perhaps while it was being read.
        """
        number = -1
        while True:
            part = select(file_parts.c.number, file_parts.c.data).where(file_parts.c.file_id == file_id)
            with self._database.reading() as connection:
                row = connection.execute(part.where(file_parts.c.number > number).order_by(file_parts.c.number).limit(1)).first()
                there = row or connection.execute(select(files.c.id).where(files.c.id == file_id)).first()
            if there is None:
                raise StoreConflictError(f"file {file_id} is gone")
            if row is None:
                return
            number = row.number
            yield row.data

    def delete_file(self, file_id: str, owner: str) -> bool:
        """Delete a file of the owner's; results of batches that read it stay. False where the owner has no such file.

        Raises:
            StoreConflictError: An unfinished batch still reads it.
        """
        with self._database.freeing() as connection:
            wanted = select(files.c.id).where(files.c.id == file_id, files.c.owner == owner).with_for_update()
            if connection.execute(wanted).one_or_none() is None:
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
    """Refuse an upload beyond the quota. Of several at once those that began first go on: later ones do not count for these."""
    if quota is None:
        return
    size = func.coalesce(func.sum(files.c.bytes), 0)
    of_owner = select(size).where(files.c.owner == owner)
    kept = int(connection.execute(of_owner.where(files.c.status == "processed")).scalar_one())
    before = true() if file_id is None else files.c.id <= file_id
    uploading = int(connection.execute(of_owner.where(files.c.status == "uploading", before)).scalar_one())
    if kept + uploading + more > quota:
        beside = f", and others on their way {size_of(uploading)}" if uploading and file_id is None else ""
        raise StoreQuotaError(
            f"the quota is full: your files take {size_of(kept)}{beside}, and with this upload would take more than the "
            f"{size_of(quota)} that they may; delete some that you need no longer"
        )
