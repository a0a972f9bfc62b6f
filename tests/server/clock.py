"""Time that passes for leases without waiting for it."""

from __future__ import annotations

from sqlalchemy import update

from server.store import Store
from server.store.schema import queue


def pass_time(store: Store, seconds: float) -> None:
    """Bring the end of every lease nearer."""
    with store._database.writing() as connection:
        connection.execute(update(queue).values(leased_until=queue.c.leased_until - seconds))
