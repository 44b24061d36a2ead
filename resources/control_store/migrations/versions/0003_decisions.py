"""The controller: what it decided about each stream, and the intervals that it wants."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Begin the history of decisions; until there is one, the intervals are as declared."""
    op.create_table(
        "decisions",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("chosen", sa.Text, nullable=False),
        sa.Column("snapshot_every", sa.Double),
        sa.Column("sync_every", sa.Double),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("record", sa.JSON, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
    )
    op.create_index("decisions_of_stream", "decisions", ["stream", "id"])
    op.add_column("streams", sa.Column("snapshot_every", sa.Double))
    op.add_column("streams", sa.Column("sync_every", sa.Double))
