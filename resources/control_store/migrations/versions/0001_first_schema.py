"""The first schema: streams, replicas, leases, epochs, ledger, snapshots, samples and the rest."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make all tables."""
    _streams()
    _replicas()
    _leases()
    _epochs()
    _ledger()
    _snapshots()
    _samples()
    _incidents()
    _journal()


def _needed(name: str, kind: sa.types.TypeEngine[Any] | type) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def _counted() -> sa.Column[int]:
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column("id", kind, primary_key=True)


def _streams() -> None:
    op.create_table(
        "streams",
        sa.Column("name", sa.Text, primary_key=True),
        _needed("declaration", sa.JSON),
        _needed("tier", sa.Text),
        _needed("desired", sa.Text),
        _needed("declared_at", sa.Double),
        _needed("changed_at", sa.Double),
    )


def _replicas() -> None:
    op.create_table(
        "replicas",
        sa.Column("id", sa.Text, primary_key=True),
        _needed("stream", sa.Text),
        _needed("slot", sa.Text),
        _needed("state", sa.Text),
        _needed("desired", sa.JSON),
        _needed("observed", sa.JSON),
        _needed("generation", sa.BigInteger),
        _needed("observed_generation", sa.BigInteger),
        _needed("snapshot_requested", sa.BigInteger),
        _needed("snapshot_served", sa.BigInteger),
        _needed("host", sa.Text),
        sa.Column("pid", sa.BigInteger),
        sa.Column("pid_started_at", sa.Double),
        _needed("folder", sa.Text),
        sa.Column("epoch", sa.BigInteger),
        sa.Column("progressed_at", sa.Double),
        _needed("registered_at", sa.Double),
        sa.Column("heartbeat_at", sa.Double),
        sa.Column("ended_at", sa.Double),
        _needed("reason", sa.Text),
    )
    op.create_index("replicas_of_stream", "replicas", ["stream", "registered_at"])
    live = sa.text("ended_at IS NULL")
    op.create_index(
        "one_live_replica_per_slot",
        "replicas",
        ["stream", "slot"],
        unique=True,
        sqlite_where=live,
        postgresql_where=live,
    )


def _leases() -> None:
    op.create_table(
        "leases",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("holder", sa.Text),
        _needed("token", sa.BigInteger),
        _needed("taken_at", sa.Double),
        _needed("renewed_at", sa.Double),
        _needed("expires_at", sa.Double),
    )


def _epochs() -> None:
    op.create_table(
        "epochs",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, primary_key=True, autoincrement=False),
        _needed("start", sa.JSON),
        _needed("end", sa.JSON),
        _needed("input", sa.JSON),
        _needed("rows", sa.BigInteger),
        _needed("token", sa.BigInteger),
        _needed("proposer", sa.Text),
        _needed("decided_at", sa.Double),
    )


def _ledger() -> None:
    op.create_table(
        "ledger",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, primary_key=True, autoincrement=False),
        _needed("replica", sa.Text),
        _needed("token", sa.BigInteger),
        _needed("rows", sa.BigInteger),
        _needed("digest", sa.Text),
        _needed("committed_at", sa.Double),
    )
    op.create_table(
        "ledger_copies",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("replica", sa.Text, primary_key=True),
        _needed("rows", sa.BigInteger),
        _needed("digest", sa.Text),
        _needed("token", sa.BigInteger),
        _needed("seen_at", sa.Double),
        sa.ForeignKeyConstraint(["stream", "epoch"], ["ledger.stream", "ledger.epoch"]),
    )


def _snapshots() -> None:
    op.create_table(
        "snapshots",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        _needed("epoch", sa.BigInteger),
        _needed("token", sa.BigInteger),
        _needed("replica", sa.Text),
        sa.Column("parent", sa.Text),
        _needed("manifest_key", sa.Text),
        _needed("files", sa.BigInteger),
        _needed("total_bytes", sa.BigInteger),
        _needed("new_bytes", sa.BigInteger),
        _needed("requests", sa.BigInteger),
        _needed("seconds", sa.Double),
        _needed("state", sa.Text),
        _needed("reason", sa.Text),
        _needed("created_at", sa.Double),
        sa.Column("verified_at", sa.Double),
    )
    op.create_index("snapshots_by_epoch", "snapshots", ["stream", "epoch"])


def _samples() -> None:
    op.create_table(
        "samples",
        _counted(),
        _needed("stream", sa.Text),
        _needed("replica", sa.Text),
        _needed("at", sa.Double),
        _needed("name", sa.Text),
        _needed("value", sa.Double),
        sa.Column("epoch", sa.BigInteger),
    )
    op.create_index("samples_by_name", "samples", ["stream", "name", "at", "id"])
    op.create_index("samples_by_age", "samples", ["at"])


def _incidents() -> None:
    op.create_table(
        "incidents",
        sa.Column("id", sa.Text, primary_key=True),
        _needed("stream", sa.Text),
        _needed("key", sa.Text),
        _needed("kind", sa.Text),
        _needed("state", sa.Text),
        _needed("opened_at", sa.Double),
        sa.Column("closed_at", sa.Double),
        _needed("detail", sa.JSON),
        _needed("outcome", sa.Text),
        sa.Column("claimed_by", sa.Text),
        sa.Column("claim_expires_at", sa.Double),
        _needed("attempts", sa.BigInteger),
    )
    op.create_index("one_incident_per_key", "incidents", ["key"], unique=True)
    op.create_index("incidents_of_stream", "incidents", ["stream", "opened_at"])


def _journal() -> None:
    op.create_table(
        "journal",
        _counted(),
        _needed("stream", sa.Text),
        _needed("playbook", sa.Text),
        _needed("run", sa.Text),
        sa.Column("incident", sa.Text),
        _needed("step", sa.Text),
        _needed("phase", sa.Text),
        _needed("at", sa.Double),
        sa.Column("seconds", sa.Double),
        _needed("detail", sa.JSON),
    )
    op.create_index("journal_of_stream", "journal", ["stream", "run", "id"])
