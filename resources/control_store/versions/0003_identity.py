"""The id of the project, by which it recognises its snapshots."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the table; the id is made when it is first asked for."""
    op.create_table(
        "identity",
        sa.Column("scope", sa.Text, primary_key=True, autoincrement=False, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
    )
