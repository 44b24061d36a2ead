"""Which table a stream writes to, and in which boot of which host a replica's process runs."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add both; replicas that live are identified by the name of their host, as before."""
    op.create_table(
        "outputs",
        sa.Column("stream", sa.Text, primary_key=True, autoincrement=False, nullable=False),
        sa.Column("table_id", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("recorded_at", sa.Double(), nullable=False),
    )
    op.add_column("replicas", sa.Column("boot", sa.Text, nullable=False, server_default=""))
