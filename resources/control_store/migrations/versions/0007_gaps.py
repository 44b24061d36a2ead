"""Gaps: input that was lost and is skipped, by whom, and how many rows it had."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """No input was skipped so far."""
    op.create_table(
        "gaps",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("gap", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("first_epoch", sa.BigInteger, nullable=False),
        sa.Column("last_entered", sa.BigInteger, nullable=False),
        sa.Column("files", sa.JSON, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("opened_at", sa.Double, nullable=False),
    )
