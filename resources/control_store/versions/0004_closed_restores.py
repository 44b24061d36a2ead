"""A restore closes the older history before it sets aside the entries, which takes several transactions."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the time of closing; restores that have begun were closed at the same moment."""
    op.add_column("restores", sa.Column("closed_at", sa.Double()))
    op.execute("UPDATE restores SET closed_at = begun_at")
