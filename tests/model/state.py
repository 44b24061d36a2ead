"""A state of the model: one immutable, hashable value."""

from typing import NamedTuple, TypeAlias

from holdfast.ft_policies.playbooks.recover.steps import RecoverStep
from tests.model.rules import Rules
from tests.model.store import Lease, Output, Range, Store

CLOSED = 2**62
OFF, IDLE, READ, STAGED, WRITTEN, SENT = "off", "idle", "read", "staged", "written", "sent"


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

    def commit_of(self, epoch: int) -> Commit | None:
        return next((commit for commit in self.commits if commit.epoch == epoch), None)


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
    restored: int = 0
    """How many epochs were in the snapshot that its process started from."""
    claim: tuple[str | None, Lease | None] | None = None
    """What it observed of a failed primary, on its way to a takeover."""

    @property
    def sends(self) -> bool:
        return self.leading or "send" in self.switches


Pending: TypeAlias = RecoverStep | tuple[str, str] | None


class State(NamedTuple):
    store: Store
    table: Table = Table()
    replicas: tuple[Replica, ...] = ()
    snapshot: Output = ()
    """The newest checkpoint that a primary may have shipped."""
    before: Store | None = None
    """The store without its last commit, while that can be lost."""
    step: Pending = None
    """The step that a recovery run has decided on, and not done yet."""
    launched: int = 0
    request: str = ""
    """What the operator will do or is doing."""
    faults: int = 0
    read_only: bool = False
    losses: int = 0
    incidents: tuple[str, ...] = ()

    def replica(self, name: str) -> Replica | None:
        return next((one for one in self.replicas if one.id == name), None)

    def put(self, old: Replica, new: Replica) -> "State":
        return self._replace(replicas=tuple(new if one is old else one for one in self.replicas))

    def without(self, gone: Replica) -> "State":
        return self._replace(replicas=tuple(one for one in self.replicas if one is not gone))

    def with_incident(self, kind: str) -> "State":
        return self._replace(incidents=tuple(sorted({*self.incidents, kind})))


class Bound(NamedTuple):
    """How far a search goes."""

    epochs: int = 2
    launches: int = 3
    faults: int = 1
    kinds: tuple[str, ...] = ("kill", "pause", "lose", "jump", "read_only")
    request: str = ""
    one_host: bool = True
    rules: Rules = Rules()
