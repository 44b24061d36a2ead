"""Rollouts: another declaration for the replicas of a running stream, and which of them runs which."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """What runs was never rolled out: number 0."""
    number = sa.text("0")
    op.add_column(
        "streams", sa.Column("rollout", sa.BigInteger, nullable=False, server_default=number)
    )
    op.add_column(
        "replicas", sa.Column("rollout", sa.BigInteger, nullable=False, server_default=number)
    )
    op.create_table(
        "rollouts",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("rollout", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("target", sa.JSON, nullable=False),
        sa.Column("target_tier", sa.Text, nullable=False),
        sa.Column("protocol", sa.Text, nullable=False),
        sa.Column("may_differ", sa.Boolean, nullable=False),
        sa.Column("begun_at", sa.Double, nullable=False),
        sa.Column("deadline_at", sa.Double, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("ended_at", sa.Double),
        sa.Column("done", sa.Boolean),
        sa.Column("outcome", sa.Text, nullable=False),
    )
    is_open = sa.text("ended_at IS NULL")
    op.create_index(
        "one_open_rollout_per_stream",
        "rollouts",
        ["stream"],
        unique=True,
        sqlite_where=is_open,
        postgresql_where=is_open,
    )
