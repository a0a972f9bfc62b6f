"""How Alembic runs the migrations: on the connection, and within the transaction, that the store opened."""

from alembic import context

from server.store.schema import tables

context.configure(connection=context.config.attributes["connection"], target_metadata=tables)
with context.begin_transaction():
    context.run_migrations()
