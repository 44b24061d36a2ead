"""Restores in place: the histories of a stream, and what an older one had committed beyond its end."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """No stream was restored before: all that there is belongs to history 0."""
    op.create_table(
        "histories",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("history", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("snapshot", sa.Text),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("was_running", sa.Boolean, nullable=False),
        sa.Column("asked_at", sa.Double, nullable=False),
        sa.Column("begun_at", sa.Double),
        sa.Column("finished_at", sa.Double),
    )
    op.create_table(
        "ledger_superseded",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("history", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("replica", sa.Text, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("committed_at", sa.Double, nullable=False),
    )
    op.add_column(
        "snapshots", sa.Column("history", sa.BigInteger, nullable=False, server_default="0")
    )
