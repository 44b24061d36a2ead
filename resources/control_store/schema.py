"""The tables, made from the records: a column for each field, plus keys and indexes.

This is the only description of the schema: a new control store is made from it. A change of it is a new
`HEAD` with a script in `versions/` that brings the stores of the last release there.
"""

from types import NoneType
from typing import Any, get_args, get_type_hints

import sqlalchemy as sa

from holdfast.ft_policies.tiers import Switches
from holdfast.resources.control_store.database import EnumText, JsonByEpoch, SwitchesJson
from holdfast.resources.control_store.epoch_records import (
    EpochFile,
    EpochFloor,
    Gap,
    OutputRow,
    RowsByFile,
)
from holdfast.resources.control_store.records import (
    DecisionRow,
    Epoch,
    IdentityRow,
    Incident,
    JournalLine,
    JsonObject,
    Lease,
    LedgerEntry,
    Migration,
    ReplicaRow,
    RestoreRow,
    SnapshotRow,
    StreamRow,
    TierChange,
)

HEAD = "0006"
"""The version of this schema: the newest script in `versions/`."""

metadata = sa.MetaData()

_KINDS: dict[Any, sa.types.TypeEngine[Any]] = {
    str: sa.Text(),
    int: sa.BigInteger(),
    float: sa.Double(),
    bool: sa.Boolean(),
    JsonObject: sa.JSON(),
    Switches: SwitchesJson(),
    dict[int, RowsByFile]: JsonByEpoch(),
}
_COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite counts only INTEGER keys


def _table(
    name: str, record: type, *more: sa.Column[Any] | sa.Index | sa.Constraint, key: tuple[str, ...]
) -> sa.Table:
    fields = get_type_hints(record).items()
    columns = [_column(field, kind, in_key=field in key) for field, kind in fields]
    return sa.Table(name, metadata, *columns, *more)


def _column(name: str, annotation: Any, *, in_key: bool) -> sa.Column[Any]:
    """A column for a field; the store counts an `id` that is a number."""
    if in_key and name == "id" and annotation is int:
        return sa.Column(name, _COUNTER, primary_key=True)
    kinds = get_args(annotation) if NoneType in get_args(annotation) else (annotation,)
    kind = kinds[0]
    return sa.Column(
        name,
        _KINDS[kind] if kind in _KINDS else EnumText(kind),
        primary_key=in_key,
        autoincrement=False,
        nullable=NoneType in kinds,
    )


def _one_without_end(name: str, *columns: str) -> sa.Index:
    """A unique index over the rows that have not ended."""
    live = sa.text("ended_at IS NULL")
    return sa.Index(name, *columns, unique=True, sqlite_where=live, postgresql_where=live)


streams = _table("streams", StreamRow, key=("name",))

tier_changes = _table(
    "tier_changes",
    TierChange,
    sa.Index("tier_changes_of_stream", "stream", "id"),
    key=("id",),
)

migrations = _table(
    "migrations",
    Migration,
    _one_without_end("one_open_migration_per_stream", "stream"),
    key=("stream", "rollout"),
)

decisions = _table(
    "decisions", DecisionRow, sa.Index("decisions_of_stream", "stream", "id"), key=("id",)
)

replicas = _table(
    "replicas",
    ReplicaRow,
    sa.Index("replicas_of_stream", "stream", "registered_at"),
    _one_without_end("one_live_replica_per_slot", "stream", "slot"),
    key=("id",),
)

leases = _table("leases", Lease, key=("stream",))

epochs = _table("epochs", Epoch, key=("stream", "epoch"))

epoch_files = _table(
    "epoch_files",
    EpochFile,
    sa.Index("epoch_files_by_epoch", "stream", "epoch"),
    key=("stream", "name"),
)

epoch_floors = _table("epoch_floors", EpochFloor, key=("stream",))

gaps = _table("gaps", Gap, key=("stream", "gap"))

ledger = _table("ledger", LedgerEntry, key=("stream", "epoch"))

ledger_copies = _table(
    "ledger_copies",
    LedgerEntry,
    sa.ForeignKeyConstraint(["stream", "epoch"], ["ledger.stream", "ledger.epoch"]),
    key=("stream", "epoch", "replica"),
)

ledger_superseded = _table(
    "ledger_superseded",
    LedgerEntry,
    sa.Column("history", sa.BigInteger, primary_key=True, autoincrement=False),
    key=("stream", "epoch"),
)

restores = _table("restores", RestoreRow, key=("stream", "history"))

snapshots = _table(
    "snapshots",
    SnapshotRow,
    sa.Index("snapshots_by_epoch", "stream", "epoch"),
    sa.Index("snapshots_by_state", "stream", "state", "epoch"),
    key=("stream", "id"),
)

sample_series = sa.Table(
    "sample_series",
    metadata,
    sa.Column("id", _COUNTER, primary_key=True),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("stream", "name", "replica")),
    sa.Index("one_series_per_name", "stream", "name", "replica", unique=True),
)
"""What `sample_values` measure. Names are long and values many: each name is stored once."""

sample_values = sa.Table(
    "sample_values",
    metadata,
    sa.Column("series", _COUNTER, sa.ForeignKey("sample_series.id"), primary_key=True),
    sa.Column("at", sa.Double, primary_key=True),
    sa.Column("value", sa.Double, nullable=False),
    sa.Column("epoch", sa.BigInteger),
    sqlite_with_rowid=False,  # the key is the table: no second copy of it in an index
)

incidents = _table(
    "incidents",
    Incident,
    sa.Index("one_incident_per_key", "key", unique=True),
    sa.Index("incidents_of_stream", "stream", "opened_at"),
    key=("id",),
)

journal = _table(
    "journal", JournalLine, sa.Index("journal_of_stream", "stream", "run", "id"), key=("id",)
)

identity = _table("identity", IdentityRow, key=("scope",))

outputs = _table("outputs", OutputRow, key=("stream",))
