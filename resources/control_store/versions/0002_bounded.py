"""The index of assigned files, filled from the epoch log; the floors of pruned epoch logs; an index of snapshots."""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_PORTION = 1_000
_EPOCHS = sa.table("epochs", sa.column("stream"), sa.column("epoch"), sa.column("input", sa.JSON()))
_FILL = sa.text(
    "INSERT INTO epoch_files (stream, name, epoch, size, changed_ns)"
    " VALUES (:stream, :name, :epoch, :size, :changed_ns) ON CONFLICT DO NOTHING"
)


def upgrade() -> None:
    """Add both tables; a file belongs to the first epoch that has it."""
    op.create_table(
        "epoch_files",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("size", sa.BigInteger),
        sa.Column("changed_ns", sa.BigInteger),
    )
    op.create_index("epoch_files_by_epoch", "epoch_files", ["stream", "epoch"])
    op.create_table(
        "epoch_floors",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("first_epoch", sa.BigInteger, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("entered_rows", sa.BigInteger, nullable=False),
        sa.Column("pruned_at", sa.Double, nullable=False),
    )
    op.create_index("snapshots_by_state", "snapshots", ["stream", "state", "epoch"])
    connection = op.get_bind()
    for stream in connection.execute(sa.select(_EPOCHS.c.stream).distinct()).scalars().all():
        for portion in _portions(connection, stream):
            files = [file for row in portion for file in _files(row)]
            if files:
                connection.execute(_FILL, files)


def _portions(connection: sa.Connection, stream: str) -> Iterator[list[Any]]:
    last = -1
    while True:
        query = (
            sa.select(_EPOCHS)
            .where(_EPOCHS.c.stream == stream, _EPOCHS.c.epoch > last)
            .order_by(_EPOCHS.c.epoch)
            .limit(_PORTION)
        )
        rows = connection.execute(query).mappings().all()
        if not rows:
            return
        yield list(rows)
        last = rows[-1]["epoch"]


def _files(row: Any) -> list[dict[str, Any]]:
    return [
        {
            "stream": row["stream"],
            "epoch": row["epoch"],
            "name": file["name"],
            "size": file.get("size"),
            "changed_ns": file.get("changed_ns"),
        }
        for file in row["input"].get("files", ())
    ]
