"""How Alembic runs here: on the connection and in the transaction that `migrate` gives it."""

from alembic import context

from ft_policies.errors import PermanentError
from resources.control_store.schema import metadata

connection = context.config.attributes.get("connection")
if connection is None:
    raise PermanentError(
        "migrations run when a control store is opened, not from the alembic command",
        hint="use `resources.control_store.store.ControlStore.open(url)`",
    )
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
