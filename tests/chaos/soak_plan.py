"""What a soak does and what it allows, as values: the kinds of faults, their order by a seed, the bounds of growth."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from tests.chaos.circuit import seed_random

Value = TypeVar("Value")


class Engine(StrEnum):
    """The database of the control store."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


class Lane(StrEnum):
    """What a fault hits. The faults of one lane come one after the other, those of different lanes overlap."""

    STREAM = "stream"
    """One lane for each stream."""
    SERVICES = "services"
    STORE = "store"
    OPERATOR = "operator"


class Role(StrEnum):
    """What a kind is in the report."""

    FAULT = "fault"
    CHANGE = "change"
    """A command that changes the stream: it counts as a fault once it has ended with success."""
    READ = "read"
    """A command that leaves the stream as it is: it never counts as a fault."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: how often it comes in a round, and from how many to how many seconds it lasts."""

    name: str
    lane: Lane
    role: Role = Role.FAULT
    often: int = 1
    seconds: tuple[float, float] = (0.0, 1.0)
    engine: Engine | None = None
    trait: str = ""
    """Only streams of this trait can have it."""


FILES, SMALL_DISK = "files", "small disk"
KINDS = (
    Kind("kill-python", Lane.STREAM, often=2),
    Kind("kill-java", Lane.STREAM),
    Kind("kill-at-point", Lane.STREAM, often=2),
    Kind("kill-secondary", Lane.STREAM),
    Kind("kill-both", Lane.STREAM),
    Kind("pause-python", Lane.STREAM, seconds=(2.0, 20.0)),
    Kind("pause-java", Lane.STREAM, seconds=(2.0, 20.0)),
    Kind("pause-secondary", Lane.STREAM, seconds=(2.0, 20.0)),
    Kind("corrupt-snapshot", Lane.STREAM),
    Kind("lost-folder", Lane.STREAM),
    Kind("edited-yaml", Lane.STREAM, seconds=(5.0, 20.0)),
    Kind("missing-input", Lane.STREAM, often=2, seconds=(5.0, 20.0), trait=FILES),
    Kind("broken-input", Lane.STREAM, trait=FILES),
    Kind("full-disk", Lane.STREAM, often=2, seconds=(5.0, 15.0), trait=SMALL_DISK),
    Kind("pause-s3", Lane.SERVICES, often=2, seconds=(2.0, 20.0)),
    Kind("kill-s3", Lane.SERVICES),
    Kind("kill-dagster", Lane.SERVICES, seconds=(1.0, 15.0)),
    Kind("kill-dagster-process", Lane.SERVICES),
    Kind("pause-dagster", Lane.SERVICES, seconds=(2.0, 20.0)),
    Kind("pause-database", Lane.STORE, often=2, seconds=(2.0, 15.0)),
    Kind("read-only-database", Lane.STORE, seconds=(2.0, 15.0), engine=Engine.POSTGRESQL),
    Kind("restart-database", Lane.STORE, engine=Engine.POSTGRESQL),
    Kind("clock-step", Lane.STORE, often=2, seconds=(5.0, 15.0)),
    Kind("status", Lane.OPERATOR, Role.READ),
    Kind("doctor", Lane.OPERATOR, Role.READ),
    Kind("snapshot", Lane.OPERATOR, Role.READ),
    Kind("switch", Lane.OPERATOR, Role.CHANGE, often=2),
    Kind("migrate", Lane.OPERATOR, Role.CHANGE),
    Kind("drill", Lane.OPERATOR, Role.CHANGE),
    Kind("restore", Lane.OPERATOR, Role.CHANGE),
    Kind("compact", Lane.OPERATOR, Role.CHANGE),
    Kind("retention", Lane.OPERATOR, Role.CHANGE),
    Kind("killed-command", Lane.OPERATOR, seconds=(2.0, 10.0)),
    Kind("killed-migrate", Lane.OPERATOR, seconds=(5.0, 40.0)),
    Kind("killed-restore", Lane.OPERATOR, seconds=(2.0, 20.0)),
)
NAMES = tuple(kind.name for kind in KINDS)


@dataclass(frozen=True, slots=True)
class Injection:
    """One fault that is to be injected; `draw` from 0 to 1 decides what its kind leaves open."""

    kind: Kind
    seconds: float
    draw: float

    def choose(self, values: Sequence[Value]) -> Value:
        """One of them, by the seed."""
        return values[int(self.draw * len(values))]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was injected; a command may have been refused as documented, and then it has injected nothing."""

    what: str
    refused: bool = False


class NotApplicableError(Exception):
    """There is nothing to inject the fault into at this moment."""


def kinds_of(
    lane: Lane, *, engine: Engine, names: Iterable[str], traits: Iterable[str] = ()
) -> list[Kind]:
    """The chosen kinds that a lane can have."""
    chosen, traits = set(names), {"", *traits}
    return [
        kind
        for kind in KINDS
        if kind.lane is lane
        and kind.name in chosen
        and kind.trait in traits
        and kind.engine in (None, engine)
    ]


def build_schedule(seed: int, lane: str, kinds: Sequence[Kind]) -> Iterator[Injection]:
    """The faults of a lane, for ever: each round has every kind as often as declared, in another order."""
    chance = seed_random(f"{seed} {lane}")
    deck = [kind for kind in kinds for _ in range(kind.often)]
    while deck:
        chance.shuffle(deck)
        for kind in deck:
            yield Injection(kind, chance.uniform(*kind.seconds), chance.random())


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How much has happened: what may grow grows with it."""

    epochs: int
    replicas: int
    faults: int
    minutes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The most that a measure may come to."""

    fixed: float = 0.0
    per_epoch: float = 0.0
    per_replica: float = 0.0
    per_fault: float = 0.0
    per_minute: float = 0.0

    def most(self, work: Work) -> float:
        """What this much work allows."""
        return (
            self.fixed
            + self.per_epoch * work.epochs
            + self.per_replica * work.replicas
            + self.per_fault * work.faults
            + self.per_minute * work.minutes
        )


MEGABYTE = 2.0**20
BOUNDS: Mapping[str, Bound] = {
    "rows of epochs": Bound(per_epoch=1.0, fixed=10),
    "rows of epoch_files": Bound(per_epoch=2.0, fixed=100),
    "rows of ledger": Bound(per_epoch=1.0),
    "rows of ledger_copies": Bound(per_epoch=2.0, fixed=100),
    "rows of ledger_superseded": Bound(fixed=10, per_fault=5.0),
    "rows of streams": Bound(fixed=3),
    "rows of outputs": Bound(fixed=3),
    "rows of leases": Bound(fixed=3),
    "rows of identity": Bound(fixed=2),
    "rows of epoch_floors": Bound(fixed=3),
    "rows of gaps": Bound(),
    "rows of restores": Bound(fixed=3, per_fault=0.3),
    "rows of replicas": Bound(fixed=10, per_fault=1.5),
    "rows of tier_changes": Bound(fixed=10, per_fault=0.5),
    "rows of migrations": Bound(fixed=3, per_fault=0.2),
    "rows of decisions": Bound(fixed=10, per_minute=6.0),
    "rows of snapshots": Bound(fixed=10, per_epoch=0.5, per_fault=0.5),
    "rows of incidents": Bound(fixed=10, per_fault=1.0),
    "rows of journal": Bound(fixed=100, per_fault=12.0),
    "rows of sample_series": Bound(fixed=100, per_replica=40.0),
    "rows of sample_values": Bound(fixed=1000, per_minute=1000.0, per_epoch=5.0),
    "megabytes of one log": Bound(fixed=16.0),
    "megabytes of logs": Bound(fixed=5, per_replica=0.1, per_epoch=0.005),
    "megabytes of replica folders": Bound(fixed=20, per_replica=0.3),
    "files of replica folders": Bound(fixed=500, per_replica=100.0),
    "megabytes of objects": Bound(fixed=5, per_epoch=0.02),
    "files of objects": Bound(fixed=50, per_epoch=1.0),
    "megabytes of tables": Bound(fixed=2, per_epoch=0.01),
    "files of tables": Bound(fixed=50, per_epoch=3.0, per_replica=2.0),
    "megabytes of Dagster": Bound(fixed=20, per_fault=0.1, per_minute=1.0),
    "megabytes of the control store": Bound(fixed=5, per_minute=0.5, per_epoch=0.02),
}


def list_excesses(measured: Mapping[str, float], work: Work) -> list[str]:
    """Each measure above its bound, and each that has none, as a sentence."""
    excesses = []
    for name, amount in measured.items():
        if name not in BOUNDS:
            excesses.append(f"{name}: {amount:g}, without a bound")
        elif amount > (most := BOUNDS[name].most(work)):
            excesses.append(f"{name}: {amount:g}, at most {most:g}")
    return excesses
