"""Restore drills: when a snapshot was last proven by going on from it, and how long that took."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Nothing was proven before."""
    op.add_column("snapshots", sa.Column("proven_at", sa.Double))
    op.add_column("snapshots", sa.Column("proven_seconds", sa.Double))
