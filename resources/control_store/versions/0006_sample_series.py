"""Samples by the number of their series, which has the names: a fifth of the size."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_SERIES = sa.text(
    "INSERT INTO sample_series (stream, name, replica)"
    " SELECT DISTINCT stream, name, replica FROM samples"
)
_NAMES = sa.text("SELECT DISTINCT stream, name FROM sample_series")
# In the order of an index of the old table, so that the database sorts nothing and needs little memory.
_VALUES = sa.text(
    "INSERT INTO sample_values (series, at, value, epoch)"
    " SELECT sample_series.id, samples.at, samples.value, samples.epoch FROM samples"
    " JOIN sample_series ON sample_series.stream = samples.stream"
    " AND sample_series.name = samples.name AND sample_series.replica = samples.replica"
    " WHERE samples.stream = :stream AND samples.name = :name AND NOT EXISTS ("
    "SELECT 1 FROM samples later WHERE later.stream = samples.stream AND later.name = samples.name"
    " AND later.at = samples.at AND later.id > samples.id AND later.replica = samples.replica)"
    " ORDER BY samples.at, samples.id"
)


def upgrade() -> None:
    """Move the samples to the new tables; of two of one series at one time the later stays."""
    op.create_table(
        "sample_series",
        sa.Column("id", _COUNTER, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("stream", "name", "replica")),
    )
    op.create_index(
        "one_series_per_name", "sample_series", ["stream", "name", "replica"], unique=True
    )
    op.create_table(
        "sample_values",
        sa.Column("series", _COUNTER, sa.ForeignKey("sample_series.id"), primary_key=True),
        sa.Column("at", sa.Double, primary_key=True),
        sa.Column("value", sa.Double, nullable=False),
        sa.Column("epoch", sa.BigInteger),
        sqlite_with_rowid=False,
    )
    connection = op.get_bind()
    connection.execute(_SERIES)
    for row in connection.execute(_NAMES).mappings().all():
        connection.execute(_VALUES, dict(row))
    op.drop_table("samples")
