"""What calls that carried an idempotency key were answered, so that a call which is sent again makes nothing anew."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, delete, insert, select
from sqlalchemy.exc import IntegrityError

from server.store.database import Area, Database
from server.store.errors import StoreAnsweredError
from server.store.records import Answer
from server.store.schema import answers

ANSWER_SECONDS = 86_400.0
"""How long an answer is remembered."""


class Answers(Area):
    """Answers by their caller and key."""

    def answer(self, owner: str, key: str) -> Answer | None:
        """What the first call with a key was answered; ``None`` where there was none, or it is too long ago."""
        wanted = select(answers.c.key, answers.c.digest, answers.c.answer).where(_is(owner, key), ~_old(self._database))
        with self._database.reading() as connection:
            row = connection.execute(wanted).one_or_none()
        return Answer(*row) if row else None

    def forget_answers(self) -> int:
        """Forget answers that are too old. Returns how many."""
        with self._database.reading() as connection:
            if connection.execute(select(answers.c.key).where(_old(self._database)).limit(1)).first() is None:
                return 0
        with self._database.freeing() as connection:
            return connection.execute(delete(answers).where(_old(self._database))).rowcount


def keep_answer(connection: Connection, database: Database, owner: str, answer: Answer) -> None:
    """Remember what a call is answered, within the transaction that does what it asks for.

    Raises:
        StoreAnsweredError: A call of the owner's with this key was answered before.
    """
    connection.execute(delete(answers).where(_is(owner, answer.key), _old(database)))
    values = {"owner": owner, "key": answer.key, "digest": answer.digest, "answer": answer.text, "created_at": database.now()}
    try:
        connection.execute(insert(answers).values(values))
    except IntegrityError:
        raise StoreAnsweredError("a call with this key was answered before", answer.digest) from None


def _is(owner: str, key: str) -> ColumnElement[bool]:
    return (answers.c.owner == owner) & (answers.c.key == key)


def _old(database: Database) -> ColumnElement[bool]:
    return answers.c.created_at <= database.now() - ANSWER_SECONDS
