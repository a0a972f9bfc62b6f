"""Runs Alembic's migrations on the store's connection, within its transaction."""

from alembic import context

from server.store.schema import tables

context.configure(connection=context.config.attributes["connection"], target_metadata=tables)
with context.begin_transaction():
    context.run_migrations()
