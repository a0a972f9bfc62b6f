"""The store's small tables: API keys, loaded LoRA adapters, and answers to calls with an idempotency key."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from server.store.database import Database, Repository
from server.store.records import AdapterRecord, Answer, Key, StoreAnsweredError, StoreConflictError
from server.store.schema import adapters, answers, api_keys

ANSWER_SECONDS = 86_400.0
"""Seconds for which an answer is kept."""


class Keys(Repository):
    """API keys. The table holds a digest of each key's secret, never the secret."""

    def add_key(self, key_id: str, name: str, digest: str) -> Key:
        """Store a new key.

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
        """List every key, oldest first, including revoked ones."""
        query = select(api_keys).order_by(api_keys.c.created_at, api_keys.c.name)
        return [Key(**row._mapping) for row in self._all(query)]

    def key(self, key_id: str) -> Key | None:
        """Find a key by its id, even if it is revoked."""
        row = self._first(select(api_keys).where(api_keys.c.id == key_id))
        return Key(**row._mapping) if row else None

    def revoke_key(self, name: str) -> bool:
        """Revoke a key. Returns False if no key in use has the name."""
        in_use = (api_keys.c.name == name) & api_keys.c.revoked_at.is_(None)
        with self._database.writing() as connection:
            change = update(api_keys).where(in_use).values(revoked_at=self._database.this_second())
            return connection.execute(change).rowcount > 0


class LoadedAdapters(Repository):
    """LoRA adapters that are loaded, so that a restarted server loads them again."""

    def keep_adapter(self, record: AdapterRecord) -> None:
        """Store an adapter. If it is the latest of its name, no other version is any longer."""
        with self._database.writing() as connection:
            connection.execute(delete(adapters).where(_is_adapter(record.model, record.version)))
            if record.latest:
                others = (adapters.c.model == record.model) & (adapters.c.name == record.name)
                connection.execute(update(adapters).where(others).values(latest=False))
            connection.execute(insert(adapters).values(asdict(record)))

    def forget_adapter(self, model: str, version: str) -> None:
        """Remove an adapter, by its full name."""
        with self._database.writing() as connection:
            connection.execute(delete(adapters).where(_is_adapter(model, version)))

    def adapters(self) -> list[AdapterRecord]:
        """List every stored adapter."""
        query = select(adapters).order_by(adapters.c.model, adapters.c.version)
        return [AdapterRecord(**row._mapping) for row in self._all(query)]


class Answers(Repository):
    """Answers by caller and idempotency key, so that a repeated call has no second effect."""

    def answer(self, owner: str, key: str) -> Answer | None:
        """Find the answer to the first call with a key, if it is recent enough."""
        query = select(answers.c.key, answers.c.digest, answers.c.answer)
        row = self._first(query.where(_is_answer(owner, key), ~_is_old(self._database)))
        return Answer(*row) if row else None

    def forget_answers(self) -> int:
        """Delete old answers. Returns how many."""
        if self._first(select(answers.c.key).where(_is_old(self._database)).limit(1)) is None:
            return 0
        with self._database.freeing() as connection:
            return connection.execute(delete(answers).where(_is_old(self._database))).rowcount


def keep_answer(connection: Connection, database: Database, owner: str, answer: Answer) -> None:
    """Store the answer to a call, within the transaction that does what the call asks for.

    Raises:
        StoreAnsweredError: An earlier call of the owner with this key was answered.
    """
    connection.execute(delete(answers).where(_is_answer(owner, answer.key), _is_old(database)))
    values = {"owner": owner, "key": answer.key, "digest": answer.digest, "answer": answer.text, "created_at": database.now()}
    try:
        connection.execute(insert(answers).values(values))
    except IntegrityError:
        raise StoreAnsweredError("an earlier call with this key was answered", answer.digest) from None


def _is_adapter(model: str, version: str) -> ColumnElement[bool]:
    return (adapters.c.model == model) & (adapters.c.version == version)


def _is_answer(owner: str, key: str) -> ColumnElement[bool]:
    return (answers.c.owner == owner) & (answers.c.key == key)


def _is_old(database: Database) -> ColumnElement[bool]:
    return answers.c.created_at <= database.now() - ANSWER_SECONDS
