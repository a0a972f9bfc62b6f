"""API keys, by their digests."""

from __future__ import annotations

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from server.store.database import Area
from server.store.errors import StoreConflictError
from server.store.records import Key
from server.store.schema import api_keys


class Keys(Area):
    """The keys that callers show."""

    def add_key(self, key_id: str, name: str, digest: str) -> Key:
        """Keep a new key.

        Args:
            key_id: Finds it again.
            name: Who uses it.
            digest: Of its secret.

        Raises:
            StoreConflictError: A key with this name is in use.
        """
        with self._database.writing() as connection:
            values = {"id": key_id, "name": name, "digest": digest, "created_at": self._database.this_second()}
            try:
                row = connection.execute(insert(api_keys).values(values).returning(api_keys)).one()
            except IntegrityError:
                raise StoreConflictError(
                    f"there is a key named {name!r} already; revoke it first, or choose another name"
                ) from None
        return Key(**row._mapping)

    def keys(self) -> list[Key]:
        """Every key, oldest first, those revoked among them."""
        with self._database.reading() as connection:
            rows = connection.execute(select(api_keys).order_by(api_keys.c.created_at, api_keys.c.name)).all()
        return [Key(**row._mapping) for row in rows]

    def key(self, key_id: str) -> Key | None:
        """The key with an id, even where it is revoked."""
        with self._database.reading() as connection:
            row = connection.execute(select(api_keys).where(api_keys.c.id == key_id)).one_or_none()
        return Key(**row._mapping) if row else None

    def revoke_key(self, name: str) -> bool:
        """Let a key open nothing more. False where no key in use has the name."""
        in_use = (api_keys.c.name == name) & api_keys.c.revoked_at.is_(None)
        with self._database.writing() as connection:
            change = update(api_keys).where(in_use).values(revoked_at=self._database.this_second())
            return connection.execute(change).rowcount > 0
