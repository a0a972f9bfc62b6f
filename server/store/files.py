"""Uploaded files. A file is added a part at a time and read back so, whatever its size."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from server.store.database import Area
from server.store.errors import StoreConflictError, StoreError
from server.store.ids import new_id
from server.store.records import FilePart, FileRecord
from server.store.schema import batches, file_parts, files

UNFINISHED = ("in_progress", "cancelling")

_PART_FIELDS = ("number", "first_line", "lines", "duplicates", "data")

# Nothing is added to a file that is finished or gone.
_ADD_PART = (
    insert(file_parts)
    .from_select(
        ["file_id", *_PART_FIELDS],
        select(files.c.id, *(bindparam(name, type_=file_parts.c[name].type) for name in _PART_FIELDS)).where(
            files.c.id == bindparam("of_file"), files.c.status == "uploading"
        ),
    )
    .returning(file_parts.c.number)
)


class Files(Area):
    """Files and their content."""

    def begin_file(self, owner: str, purpose: str, filename: str) -> FileRecord:
        """Begin a file, to which parts are added until it is finished or dropped."""
        values = {"id": new_id("file-"), "owner": owner, "purpose": purpose, "filename": filename, "bytes": 0, "lines": 0}
        with self._database.writing() as connection:
            values |= {"status": "uploading", "created_at": self._database.this_second()}
            row = connection.execute(insert(files).values(values).returning(files)).one()
        return FileRecord(**row._mapping)

    def add_part(self, file_id: str, part: FilePart) -> None:
        """Add a part to a file that is being uploaded. It is safe from a crash of the machine once the file is finished.

        Raises:
            StoreConflictError: The file is finished or gone, or has a part of this number.
        """
        values = {name: getattr(part, name) for name in _PART_FIELDS}
        with self._database.writing(durable=False) as connection:
            try:
                added = connection.execute(_ADD_PART, {"of_file": file_id, **values}).one_or_none()
            except IntegrityError:
                raise StoreConflictError(f"file {file_id} has a part {part.number} already") from None
        if added is None:
            raise StoreConflictError(f"file {file_id} is not being uploaded any more; upload it again")

    def finish_file(self, file_id: str, *, bytes: int, lines: int, model: str | None) -> FileRecord:  # noqa: A002
        """Mark a file as whole.

        Args:
            file_id: A file that is being uploaded.
            bytes: Its length.
            lines: Lines in it that are not blank, over all its parts.
            model: The model that its lines name.

        Raises:
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
            uploading = (files.c.id == file_id) & (files.c.status == "uploading")
            change = update(files).where(uploading).values(bytes=bytes, lines=lines, model=model, status="processed")
            row = connection.execute(change.returning(files)).one_or_none()
        if row is None:
            raise StoreConflictError(f"file {file_id} is not being uploaded any more; upload it again")
        return FileRecord(**row._mapping)

    def drop_file(self, file_id: str) -> None:
        """Forget a file that is being uploaded. A finished one stays."""
        with self._database.writing() as connection:
            connection.execute(delete(files).where(files.c.id == file_id, files.c.status == "uploading"))

    def file(self, file_id: str, owner: str) -> FileRecord | None:
        """A file of the owner's."""
        with self._database.reading() as connection:
            row = connection.execute(select(files).where(files.c.id == file_id, files.c.owner == owner)).one_or_none()
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
        wanted = select(files).where(files.c.owner == owner)
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
        with self._database.writing() as connection:
            wanted = select(files.c.id).where(files.c.id == file_id, files.c.owner == owner).with_for_update()
            if connection.execute(wanted).one_or_none() is None:
                return False
            reads = (batches.c.input_file_id == file_id) & batches.c.status.in_(UNFINISHED)
            reader = connection.execute(select(batches.c.id).where(reads).limit(1)).scalar_one_or_none()
            if reader is not None:
                raise StoreConflictError(f"file {file_id} cannot be deleted: batch {reader} still reads it; cancel that first")
            connection.execute(delete(files).where(files.c.id == file_id))
        return True

    def forget_unfinished_files(self, older_than_seconds: float) -> int:
        """Delete files that were begun so long ago and never finished. Returns how many."""
        if older_than_seconds < 0:
            raise StoreError(f"an age is not negative, but {older_than_seconds} was asked for")
        abandoned = (files.c.status == "uploading") & (files.c.created_at <= self._database.now() - older_than_seconds)
        with self._database.writing() as connection:
            return connection.execute(delete(files).where(abandoned)).rowcount
