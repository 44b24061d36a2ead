"""The control store: the one place where replicas, playbooks and Dagster meet."""

from types import TracebackType
from typing import Self

import sqlalchemy as sa

from resources.control.auditing import Auditing
from resources.control.database import Database
from resources.control.decisions import Decisions
from resources.control.epochs import Epochs
from resources.control.forks import Forks
from resources.control.gaps import Gaps
from resources.control.histories import Histories
from resources.control.incidents import Incidents
from resources.control.journal import Journal
from resources.control.lately import Lately
from resources.control.leases import Leases
from resources.control.ledger import Ledger
from resources.control.migrate import migrate
from resources.control.replicas import Replicas
from resources.control.rollouts import Rollouts
from resources.control.samples import Samples
from resources.control.snapshots import Snapshots
from resources.control.sql import store_now
from resources.control.streams import Streams
from resources.control.takeovers import Takeovers
from resources.control.tiers import Tiers

_NOW = sa.select(store_now().label("now"))


class ControlStore:
    """Streams, replicas, leases, epoch log, ledger and the rest, in SQLite or PostgreSQL.

    Threads may share one; a process opens its own. After a `TransientError` nothing was changed, or
    it was and the answer got lost: every call may be repeated, and a compare-and-set that had won
    then says that it lost, so look at the row.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.streams = Streams(database)
        self.tiers = Tiers(database)
        self.rollouts = Rollouts(database)
        self.decisions = Decisions(database)
        self.replicas = Replicas(database)
        self.leases = Leases(database)
        self.takeovers = Takeovers(database)
        self.epochs = Epochs(database)
        self.gaps = Gaps(database)
        self.ledger = Ledger(database)
        self.histories = Histories(database)
        self.forks = Forks(database)
        self.auditing = Auditing(database)
        self.snapshots = Snapshots(database)
        self.samples = Samples(database)
        self.lately = Lately(database)
        self.incidents = Incidents(database)
        self.journal = Journal(database)

    @classmethod
    def open(cls, url: str) -> Self:
        """Open the store at this URL, making and migrating it as needed."""
        database = Database(url)
        try:
            migrate(database)
        except BaseException:
            database.close()
            raise
        return cls(database)

    @property
    def url(self) -> str:
        """The address another process on this host may open, password included."""
        return self._database.address.render_as_string(hide_password=False)

    def now(self) -> float:
        """Unix seconds on the store's clock, by which all `*_at` are meant."""
        return float(self._database.fetch(_NOW)[0]["now"])

    def close(self) -> None:
        """Close all connections."""
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
