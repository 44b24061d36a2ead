"""A state of the model: one immutable, hashable value."""

from typing import NamedTuple

from holdfast.ft_policies.health import Health
from holdfast.ft_policies.playbooks.recover.steps import RecoverStep
from tests.model.rules import Rules
from tests.model.store import Lease, Output, Range, Row, Store

CLOSED = 2**62
OFF, IDLE, READ, STAGED, CHECKED, WRITTEN, SENT = (
    "off",
    "idle",
    "read",
    "staged",
    "checked",
    "written",
    "sent",
)


class Commit(NamedTuple):
    epoch: int
    history: int
    output: Output


class Table(NamedTuple):
    """The output: its commits in force, and the application transaction of each history."""

    versions: tuple[int, ...] = (-1,)
    commits: tuple[Commit, ...] = ()

    def newest(self, history: int) -> int:
        return self.versions[history] if history < len(self.versions) else -1

    def commit_of(self, epoch: int, history: int) -> Commit | None:
        """The commit of an epoch in one history: a replica does not look for those of another."""
        of = (epoch, history)
        return next((commit for commit in self.commits if commit[:2] == of), None)


class Replica(NamedTuple):
    """A process that lives, and what it knows.

    `computed` is its checkpoint: the input of the epochs that it has processed; those in `held` are held
    back. `at` is where it is in the next epoch, whose input is `input`.
    """

    id: str
    history: int
    rollout: int
    token: int = 0
    leading: bool = False
    switches: tuple[str, ...] = ()
    at: str = OFF
    input: Range | None = None
    computed: Output = ()
    held: tuple[int, ...] = ()
    follows_own: bool = False
    """Whether it knows the last decision itself; otherwise it reads it."""
    since: int = 0
    """The first epoch that its process has entered, and remembers."""
    opened: bool = False
    """Whether it has opened the table."""
    compared: int = -1
    """The newest epoch of the table that it has compared."""
    hung: bool = False
    """Whether it processes nothing any more, although it still sends heartbeats."""
    slow_at: int = -1
    """How many epochs it had computed when it had computed none for long."""
    claim: tuple[str | None, Lease | None] | None = None
    """What it observed of a failed primary, on its way to a takeover."""

    @property
    def sends(self) -> bool:
        return self.leading or "send" in self.switches

    @property
    def is_quiet(self) -> bool:
        """Whether it has computed no epoch for long."""
        return self.slow_at == len(self.computed)


class Pending(NamedTuple):
    """A step that a recovery run has decided on, and what it has observed of the primary."""

    step: RecoverStep
    health: Health | None = None
    row: Row | None = None
    lease: Lease | None = None


class Incident(NamedTuple):
    kind: str
    epoch: int


class Stop(NamedTuple):
    """What was written when the stream was found to be unable to continue, with the writes that were under way."""

    commits: int
    entries: int


class State(NamedTuple):
    store: Store
    table: Table = Table()
    replicas: tuple[Replica, ...] = ()
    snapshot: Output = ()
    """The newest checkpoint that a primary may have shipped."""
    before: Store | None = None
    """The store without its last commit, while that can be lost."""
    step: Pending | None = None
    """The step that a recovery run has decided on, and not done yet."""
    launched: int = 0
    request: str = ""
    """What the operator will do or is doing."""
    faults: int = 0
    read_only: bool = False
    losses: int = 0
    incidents: tuple[Incident, ...] = ()
    """Those that are open."""
    stop: Stop | None = None
    """What was written when the first incident was opened that is still open."""

    def replica(self, name: str) -> Replica | None:
        return next((replica for replica in self.replicas if replica.id == name), None)

    def put(self, old: Replica, new: Replica) -> "State":
        return self._replace(
            replicas=tuple(new if replica is old else replica for replica in self.replicas)
        )

    def without(self, gone: Replica) -> "State":
        return self._replace(
            replicas=tuple(replica for replica in self.replicas if replica is not gone)
        )

    def with_incident(self, kind: str, epoch: int) -> "State":
        incidents = tuple(sorted({*self.incidents, Incident(kind, epoch)}))
        under_way = [replica.at for replica in self.replicas]
        commits = len(self.table.commits) + under_way.count(CHECKED)
        entries = len(self.store.ledger) + under_way.count(WRITTEN) + under_way.count(SENT)
        stop = self.stop or Stop(commits, entries)
        return self._replace(incidents=incidents, stop=stop)


class Bound(NamedTuple):
    """How far a search goes; it begins when the epochs `done` are out."""

    epochs: int = 2
    done: int = 0
    launches: int = 3
    faults: int = 1
    kinds: tuple[str, ...] = ("kill", "pause", "lose", "jump", "read_only")
    request: str = ""
    one_host: bool = True
    rules: Rules = Rules()

    def epochs_of(self, state: "State") -> int:
        """A lost commit may be of the last epoch: it shows in the one after."""
        return self.epochs + state.losses

    @property
    def reports_epochs(self) -> bool:
        """Whether replicas report their last epoch: only a stuck one is recognised by it."""
        return "hang" in self.kinds
