"""Six tiers: which one a stream declares, which one it should have, and how that came about."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Keep what is declared apart from what is wanted, and begin the history of it."""
    _tier_changes()
    only_one_so_far = "passive_replication"
    declared = sa.Column("declared_tier", sa.Text, nullable=False, server_default=only_one_so_far)
    op.add_column("streams", declared)
    op.execute("UPDATE streams SET declared_tier = tier")
    op.execute(
        "INSERT INTO tier_changes (stream, at, tier_to, why, run, reached_at) "
        "SELECT name, declared_at, tier, 'declared', '', declared_at FROM streams ORDER BY name"
    )


def _tier_changes() -> None:
    op.create_table(
        "tier_changes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("tier_from", sa.Text),
        sa.Column("tier_to", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("reached_at", sa.Double),
    )
    op.create_index("tier_changes_of_stream", "tier_changes", ["stream", "id"])
