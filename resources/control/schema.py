"""The tables as queries see them.

The migrations are the single truth for DDL; a test holds this module to them on both engines.
"""

from typing import Any

import sqlalchemy as sa

from ft_policies.playbooks.recover.migration import Protocol
from ft_policies.tiers import Mode, Tier
from resources.control.records import (
    DesiredState,
    IncidentState,
    Phase,
    ReplicaState,
    Slot,
    SnapshotState,
)
from resources.control.sql import EnumText, SwitchesJson

HEAD = "0007"
"""The revision this code is written for: the newest migration."""

metadata = sa.MetaData()
_AutoId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite counts only INTEGER keys


def _needed(name: str, kind: sa.types.TypeEngine[Any] | type) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


streams = sa.Table(
    "streams",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    _needed("declaration", sa.JSON),
    _needed("declared_tier", EnumText(Tier)),
    _needed("tier", EnumText(Tier)),
    _needed("desired", EnumText(DesiredState)),
    _needed("declared_at", sa.Double),
    _needed("changed_at", sa.Double),
    sa.Column("snapshot_every", sa.Double),
    sa.Column("sync_every", sa.Double),
    sa.Column("rollout", sa.BigInteger, nullable=False, server_default=sa.text("0")),
)

rollouts = sa.Table(
    "rollouts",
    metadata,
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("rollout", sa.BigInteger, primary_key=True, autoincrement=False),
    _needed("target", sa.JSON),
    _needed("target_tier", EnumText(Tier)),
    _needed("protocol", EnumText(Protocol)),
    _needed("may_differ", sa.Boolean),
    _needed("begun_at", sa.Double),
    _needed("deadline_at", sa.Double),
    _needed("why", sa.Text),
    _needed("run", sa.Text),
    sa.Column("ended_at", sa.Double),
    sa.Column("done", sa.Boolean),
    _needed("outcome", sa.Text),
)
sa.Index(
    "one_open_rollout_per_stream",
    rollouts.c.stream,
    unique=True,
    sqlite_where=rollouts.c.ended_at.is_(None),
    postgresql_where=rollouts.c.ended_at.is_(None),
)

tier_changes = sa.Table(
    "tier_changes",
    metadata,
    sa.Column("id", _AutoId, primary_key=True),
    _needed("stream", sa.Text),
    _needed("at", sa.Double),
    sa.Column("tier_from", EnumText(Tier)),
    _needed("tier_to", EnumText(Tier)),
    _needed("why", sa.Text),
    _needed("run", sa.Text),
    sa.Column("reached_at", sa.Double),
    sa.Index("tier_changes_of_stream", "stream", "id"),
)

decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("id", _AutoId, primary_key=True),
    _needed("stream", sa.Text),
    _needed("at", sa.Double),
    _needed("mode", EnumText(Mode)),
    _needed("chosen", EnumText(Tier)),
    sa.Column("snapshot_every", sa.Double),
    sa.Column("sync_every", sa.Double),
    _needed("reason", sa.Text),
    _needed("record", sa.JSON),
    _needed("run", sa.Text),
    sa.Index("decisions_of_stream", "stream", "id"),
)

replicas = sa.Table(
    "replicas",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    _needed("stream", sa.Text),
    _needed("slot", EnumText(Slot)),
    _needed("state", EnumText(ReplicaState)),
    _needed("desired", SwitchesJson),
    _needed("observed", SwitchesJson),
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
    sa.Column("rollout", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Index("replicas_of_stream", "stream", "registered_at"),
)
sa.Index(
    "one_live_replica_per_slot",
    replicas.c.stream,
    replicas.c.slot,
    unique=True,
    sqlite_where=replicas.c.ended_at.is_(None),
    postgresql_where=replicas.c.ended_at.is_(None),
)

leases = sa.Table(
    "leases",
    metadata,
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("holder", sa.Text),
    _needed("token", sa.BigInteger),
    _needed("taken_at", sa.Double),
    _needed("renewed_at", sa.Double),
    _needed("expires_at", sa.Double),
)

epochs = sa.Table(
    "epochs",
    metadata,
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

ledger = sa.Table(
    "ledger",
    metadata,
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("epoch", sa.BigInteger, primary_key=True, autoincrement=False),
    _needed("replica", sa.Text),
    _needed("token", sa.BigInteger),
    _needed("rows", sa.BigInteger),
    _needed("digest", sa.Text),
    _needed("committed_at", sa.Double),
)

ledger_copies = sa.Table(
    "ledger_copies",
    metadata,
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("epoch", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("replica", sa.Text, primary_key=True),
    _needed("rows", sa.BigInteger),
    _needed("digest", sa.Text),
    _needed("token", sa.BigInteger),
    _needed("seen_at", sa.Double),
    sa.ForeignKeyConstraint(["stream", "epoch"], ["ledger.stream", "ledger.epoch"]),
)

histories = sa.Table(
    "histories",
    metadata,
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("history", sa.BigInteger, primary_key=True, autoincrement=False),
    _needed("epoch", sa.BigInteger),
    sa.Column("snapshot", sa.Text),
    _needed("why", sa.Text),
    _needed("run", sa.Text),
    _needed("was_running", sa.Boolean),
    _needed("asked_at", sa.Double),
    sa.Column("begun_at", sa.Double),
    sa.Column("finished_at", sa.Double),
)

gaps = sa.Table(
    "gaps",
    metadata,
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("gap", sa.BigInteger, primary_key=True, autoincrement=False),
    _needed("first_epoch", sa.BigInteger),
    _needed("last_entered", sa.BigInteger),
    _needed("files", sa.JSON),
    _needed("run", sa.Text),
    _needed("opened_at", sa.Double),
)

ledger_superseded = sa.Table(
    "ledger_superseded",
    metadata,
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("history", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("epoch", sa.BigInteger, primary_key=True, autoincrement=False),
    _needed("replica", sa.Text),
    _needed("token", sa.BigInteger),
    _needed("rows", sa.BigInteger),
    _needed("digest", sa.Text),
    _needed("committed_at", sa.Double),
)

snapshots = sa.Table(
    "snapshots",
    metadata,
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
    _needed("state", EnumText(SnapshotState)),
    _needed("reason", sa.Text),
    _needed("created_at", sa.Double),
    sa.Column("verified_at", sa.Double),
    sa.Column("proven_at", sa.Double),
    sa.Column("proven_seconds", sa.Double),
    _needed("history", sa.BigInteger),
    sa.Index("snapshots_by_epoch", "stream", "epoch"),
)

samples = sa.Table(
    "samples",
    metadata,
    sa.Column("id", _AutoId, primary_key=True),
    _needed("stream", sa.Text),
    _needed("replica", sa.Text),
    _needed("at", sa.Double),
    _needed("name", sa.Text),
    _needed("value", sa.Double),
    sa.Column("epoch", sa.BigInteger),
    sa.Index("samples_by_name", "stream", "name", "at", "id"),
    sa.Index("samples_by_age", "at"),
)

incidents = sa.Table(
    "incidents",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    _needed("stream", sa.Text),
    _needed("key", sa.Text),
    _needed("kind", sa.Text),
    _needed("state", EnumText(IncidentState)),
    _needed("opened_at", sa.Double),
    sa.Column("closed_at", sa.Double),
    _needed("detail", sa.JSON),
    _needed("outcome", sa.Text),
    sa.Column("claimed_by", sa.Text),
    sa.Column("claim_expires_at", sa.Double),
    _needed("attempts", sa.BigInteger),
    sa.Index("one_incident_per_key", "key", unique=True),
    sa.Index("incidents_of_stream", "stream", "opened_at"),
)

journal = sa.Table(
    "journal",
    metadata,
    sa.Column("id", _AutoId, primary_key=True),
    _needed("stream", sa.Text),
    _needed("playbook", sa.Text),
    _needed("run", sa.Text),
    sa.Column("incident", sa.Text),
    _needed("step", sa.Text),
    _needed("phase", EnumText(Phase)),
    _needed("at", sa.Double),
    sa.Column("seconds", sa.Double),
    _needed("detail", sa.JSON),
    sa.Index("journal_of_stream", "stream", "run", "id"),
)
