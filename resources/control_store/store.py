"""The control store: the state that replicas, playbooks and Dagster share."""

from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import sqlalchemy as sa

from holdfast.resources.control_store import lock_holders
from holdfast.resources.control_store.database import CONNECTIONS, Database, store_now
from holdfast.resources.control_store.tables.epochs.files import EpochFiles
from holdfast.resources.control_store.tables.epochs.ledger import Auditing, Ledger
from holdfast.resources.control_store.tables.epochs.log import Epochs, Gaps
from holdfast.resources.control_store.tables.identity import Identity, Outputs
from holdfast.resources.control_store.tables.leases import Leases, Takeovers
from holdfast.resources.control_store.tables.playbooks.decisions import Decisions
from holdfast.resources.control_store.tables.playbooks.incidents import Incidents
from holdfast.resources.control_store.tables.playbooks.journal import Journal
from holdfast.resources.control_store.tables.playbooks.migrations import Migrations
from holdfast.resources.control_store.tables.playbooks.restores import Forks, Restores
from holdfast.resources.control_store.tables.recent import RecentActivity
from holdfast.resources.control_store.tables.replicas import Replicas
from holdfast.resources.control_store.tables.retention import Retention
from holdfast.resources.control_store.tables.samples import Samples
from holdfast.resources.control_store.tables.snapshots import Snapshots
from holdfast.resources.control_store.tables.streams import Streams, Tiers
from holdfast.resources.control_store.upgrade import is_newer, require_schema, upgrade_schema

_NOW = sa.select(store_now().label("now"))


CONNECTIONS_OF_REPLICA = 1
"""Those of a driver, besides that of its heartbeat, and of the process of its source: statements are short."""


class ControlStore:
    """Streams, replicas, leases, epoch log, ledger and the rest, in SQLite or PostgreSQL.

    Threads may share one; each process opens its own. After a `TransientError` the change may have been
    made or not: every call may be repeated, and a compare-and-set that had won then reports that it
    lost, so read the row.

    In a replica a refusal of the database is transient, too, unless a newer version of Holdfast has upgraded it.
    """

    def __init__(self, database: Database, *, in_replica: bool = False) -> None:
        self._database = database
        self._in_replica = in_replica
        if in_replica:
            database.refuses_for_good = partial(is_newer, database)
        self._closes_with: list[ControlStore] = []
        database.on_busy = self._settle_lock
        self.identity = Identity(database)
        self.outputs = Outputs(database)
        self.streams = Streams(database)
        self.tiers = Tiers(database)
        self.migrations = Migrations(database)
        self.decisions = Decisions(database)
        self.replicas = Replicas(database)
        self.leases = Leases(database)
        self.takeovers = Takeovers(database)
        self.epochs = Epochs(database)
        self.epoch_files = EpochFiles(database)
        self.gaps = Gaps(database)
        self.ledger = Ledger(database)
        self.restores = Restores(database)
        self.forks = Forks(database)
        self.auditing = Auditing(database)
        self.retention = Retention(database)
        self.snapshots = Snapshots(database)
        self.samples = Samples(database)
        self.recent = RecentActivity(database)
        self.incidents = Incidents(database)
        self.journal = Journal(database)

    @classmethod
    def open(cls, url: str, *, in_replica: bool = False) -> Self:
        """Open the store at this URL, creating or upgrading it as needed; a replica does neither."""
        connections = CONNECTIONS_OF_REPLICA if in_replica else CONNECTIONS
        database = Database(url, connections=connections)
        store = cls(database, in_replica=in_replica)
        try:
            if in_replica:
                require_schema(database)
            else:
                upgrade_schema(database)
        except BaseException:
            store.close()
            raise
        return store

    def with_own_connection(self) -> Self:
        """The same store by one connection of its own, which waits for no other thread; closed with this one."""
        store = type(self)(Database(self.url, connections=1), in_replica=self._in_replica)
        self._closes_with.append(store)
        return store

    @property
    def url(self) -> str:
        """The URL by which another process on this host opens the store, password included."""
        return self._database.address.render_as_string(hide_password=False)

    @property
    def is_local(self) -> bool:
        """Whether only processes of this host can open the store."""
        return self._database.is_sqlite

    def lock_holders(self) -> set[int]:
        """The processes of this host that are writing now; empty in PostgreSQL, where none holds up the others."""
        file = self._file
        return set() if file is None else lock_holders.find_lock_holders(file)

    def _settle_lock(self) -> str:
        file = self._file
        return "" if file is None else lock_holders.settle_lock(file)

    @property
    def _file(self) -> Path | None:
        address = self._database.address
        return Path(str(address.database)) if self._database.is_sqlite else None

    def now(self) -> float:
        """Unix seconds on the store's clock, which all `*_at` use."""
        return float(self._database.fetch(_NOW)[0]["now"])

    def close(self) -> None:
        for store in self._closes_with:
            store.close()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ControlStore({self._database.address.render_as_string(hide_password=True)!r})"
