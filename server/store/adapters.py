"""LoRA adapters that are loaded, so that a server which is started again has them again."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import ColumnElement, delete, insert, select, update

from server.store.database import Area
from server.store.records import AdapterRecord
from server.store.schema import adapters


class LoadedAdapters(Area):
    """The adapters that were loaded and not unloaded since."""

    def keep_adapter(self, record: AdapterRecord) -> None:
        """Remember an adapter. Where it is the latest of its name, no other is any more."""
        with self._database.writing() as connection:
            connection.execute(delete(adapters).where(_is(record.model, record.version)))
            if record.latest:
                others = (adapters.c.model == record.model) & (adapters.c.name == record.name)
                connection.execute(update(adapters).where(others).values(latest=False))
            connection.execute(insert(adapters).values(asdict(record)))

    def forget_adapter(self, model: str, version: str) -> None:
        """Forget an adapter, by its full name."""
        with self._database.writing() as connection:
            connection.execute(delete(adapters).where(_is(model, version)))

    def adapters(self) -> list[AdapterRecord]:
        """Every adapter that is remembered."""
        with self._database.reading() as connection:
            rows = connection.execute(select(adapters).order_by(adapters.c.model, adapters.c.version))
            return [AdapterRecord(**row._mapping) for row in rows]


def _is(model: str, version: str) -> ColumnElement[bool]:
    return (adapters.c.model == model) & (adapters.c.version == version)
