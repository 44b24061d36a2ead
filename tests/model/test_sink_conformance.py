"""The sink of the model decides as the real one: the same calls on a real table and ledger have the same results."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.epoch_records import digest_input
from holdfast.resources.control_store.incident_kinds import IncidentKind
from holdfast.resources.control_store.records import EpochProposal
from holdfast.resources.control_store.schema import epochs, ledger
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.object_store.connection import S3Connection
from holdfast.streaming.sinks.delta.rollback import RollbackPoint, TableRollback
from holdfast.streaming.sinks.staging import Staged
from tests.builders.control_rows import lose
from tests.builders.delta_sinks import NAME, SCHEMA, PlainDeltaSink, Rows, SinkSetup
from tests.model import sink, store as rule
from tests.model.operating import roll_output
from tests.model.rules import PRODUCT
from tests.model.state import Replica, Table
from tests.model.store import InputDiffersError, Output, Range, RefusedError, Store

pytestmark = pytest.mark.timeout(300)

CALLS = 200


class Process:
    """A replica in the model, the same one on the real table, and what it does next with its epoch."""

    def __init__(self, name: str, real: PlainDeltaSink, history: int, past: Output) -> None:
        self.name, self.real = name, real
        self.model = Replica(name, history, 0, computed=past, since=len(past))
        self.next = "read"
        self.slice: Range = (0, 0)
        self.digest = ""
        self.staged: Staged | None = None

    @property
    def epoch(self) -> int:
        return len(self.model.computed)

    @property
    def output(self) -> Output:
        return (*self.model.computed, self.slice)


class Pair:
    """The model and the real sinks, side by side: each method calls both and compares."""

    def __init__(self, setup: SinkSetup, seed: int) -> None:
        self.setup, self.random = setup, random.Random(seed)  # noqa: S311 (a seeded walk)
        self.store, self.table = Store(), Table()
        self.met = dict.fromkeys(("done", "committed", "too late", "entered", "differs"), 0)
        self.stuck = False
        self.processes = {name: self.start(name) for name in "ab"}

    def start(self, name: str) -> Process:
        """A new process, which goes on where the ledger was some time."""
        past = self.store.log[: self.random.randrange(len(self.store.ledger) + 1)]
        real = self.setup.sink(name, history=self.store.history)
        return Process(name, real, self.store.history, past)

    def walk_on(self) -> None:
        act = self.random.random()
        if act < 0.04:
            self.restart()
        elif act < 0.06:
            self.lose_entry()
        elif act < 0.10:
            self.lose_decision()
        elif self.stuck or act < 0.13:
            self.restore()
        else:
            process = self.processes[self.random.choice("ab")]
            steps = {"read": self.read, "look": self.look, "commit": self.commit}
            steps.get(process.next, self.enter)(process)
        self.compare()

    def restart(self) -> None:
        name = self.random.choice("ab")
        self.processes[name] = self.start(name)

    def lose_entry(self) -> None:
        if len(self.store.ledger) > 1:
            lose(self.setup.store, ledger, len(self.store.ledger) - 1)
            self.store = self.store._replace(ledger=self.store.ledger[:-1])

    def lose_decision(self) -> None:
        if len(self.store.ledger) == len(self.store.log):
            self.lose_entry()
        if len(self.store.log) > 1:
            lose(self.setup.store, epochs, len(self.store.log) - 1)
            self.store = self.store._replace(log=self.store.log[:-1])

    def restore(self) -> None:
        """Roll ledger and table back; a process of the older history may live on."""
        self.stuck = False
        if not self.table.commits or not self.store.ledger:
            return
        epoch, restores = self.random.randrange(len(self.store.ledger)), self.setup.store.restores
        request = restores.request(NAME, epoch=epoch, snapshot=None, why="", run="")
        self.store = rule.request_restore(self.store._replace(wanted=False), epoch)
        self.store, _ = rule.close_history(self.store)
        self.store, moved = rule.begin_history(self.store)
        assert restores.begin(request) == moved
        undone = restores.set_aside(NAME, request.history)
        point = RollbackPoint(stream=NAME, history=request.history, epoch=epoch, undone=undone)
        TableRollback(str(self.setup.folder / "table"), nowhere).roll_back(point)
        assert self.store.restore is not None
        self.table = roll_output(self.table, self.store.restore, PRODUCT)
        restores.finish(request)
        self.store = rule.finish_restore(self.store)

    def read(self, process: Process) -> None:
        """Read the decision of the next epoch; the first to come decides."""
        epoch, real = process.epoch, self.setup.store.epochs
        if epoch > len(self.store.log):
            self.processes[process.name] = self.start(process.name)  # as the reader would refuse
            return
        start = self.store.log[epoch - 1][1] if epoch else 0
        slice_ = (start, start + self.random.randrange(3))
        self.store, process.slice = rule.propose(self.store, epoch, slice_, PRODUCT)
        row = real.get(NAME, epoch) or real.propose(a_proposal(epoch, slice_))
        assert (row.start["row"], row.end["row"]) == process.slice
        process.digest, process.next = digest_input(row), "look"

    def look(self, process: Process) -> None:
        """Open the table, and ask whether the epoch is out; otherwise stage it."""

        def modelled() -> bool:
            store, replica = self.store, process.model
            if not replica.opened:
                store, replica = sink.open_table(store, self.table, replica, PRODUCT)
            done, self.store, process.model = sink.is_done(
                store, self.table, replica, process.output, PRODUCT
            )
            return done

        def real() -> bool:
            process.real.prepare(SCHEMA)
            return process.real.is_done(process.epoch, read=process.digest)

        done = self.both(process, modelled, real)
        if done is None:
            return
        self.met["done"] += done
        rows = Rows([] if sink.is_empty(process.slice) else [process.epoch])
        unique = {"replica": f"{process.name}-{self.random.random()}"}  # the folder of its files
        process.real.spec = process.real.spec.model_copy(update=unique)
        staged = process.real.stage(rows, process.epoch, write=not done)
        process.staged = replace(staged, read=process.digest, digest=str(process.output))
        process.next = "enter" if done else "commit"

    def commit(self, process: Process) -> None:
        staged = process.staged
        assert staged is not None

        def modelled() -> None:
            before = len(self.table.commits)
            self.table, process.model = sink.commit(
                self.store, self.table, process.model, process.output, PRODUCT
            )
            late = len(self.table.commits) == before and not sink.is_empty(process.slice)
            self.met["too late" if late else "committed"] += 1

        self.both(process, modelled, lambda: process.real.commit(staged, process.epoch))
        process.next = "enter"

    def enter(self, process: Process) -> None:
        staged = process.staged
        assert staged is not None

        def modelled() -> None:
            self.store, _ = sink.enter(self.store, process.model, process.output, PRODUCT)
            self.met["entered"] += 1

        def real() -> None:
            process.real.ledger.write(
                process.epoch, rows=staged.rows, digest=staged.digest, read=process.digest
            )

        self.both(process, modelled, real)
        process.model = process.model._replace(computed=process.output)
        process.next = "read"

    def both(self, process: Process, modelled: Callable[[], Any], real: Callable[[], Any]) -> Any:
        """Call both; both refuse with the same incident, or neither does. A process that refuses ends."""
        incidents = len(self.incidents())
        try:
            result = modelled()
        except RefusedError as refused:
            with pytest.raises(PermanentError):
                real()
            epoch = refused.epoch if isinstance(refused, InputDiffersError) else None
            opened = [incident.detail["epoch"] for incident in self.incidents()]
            assert epoch in opened if epoch is not None else len(opened) == incidents
            self.met["differs"] += epoch is not None
            self.stuck = epoch is not None and self.random.random() < 0.3
            entered = self.entered()  # what it has entered before it refused stays
            assert list(self.store.ledger) == entered[: len(self.store.ledger)]
            self.store = self.store._replace(ledger=tuple(entered))
            self.processes[process.name] = self.start(process.name)
            return None
        returned = real()
        assert result == returned
        return returned

    def incidents(self) -> list[Any]:
        return [
            incident
            for incident in self.setup.store.incidents.of(NAME)
            if incident.kind == IncidentKind.INPUT_DIFFERS
        ]

    def entered(self) -> list[Output]:
        rows = self.setup.store.ledger.between(NAME, 0, 10**6)
        return [eval(row.digest) for row in rows]  # noqa: S307 (the test has written it)

    def compare(self) -> None:
        assert self.entered() == list(self.store.ledger)
        if self.table.commits:
            assert self.setup.output() == sorted(commit.epoch for commit in self.table.commits)


def a_proposal(epoch: int, slice_: Range) -> EpochProposal:
    place: dict[str, Any] = {"start": {"row": slice_[0]}, "end": {"row": slice_[1]}, "input": {}}
    rows = slice_[1] - slice_[0]
    return EpochProposal(stream=NAME, epoch=epoch, **place, rows=rows, token=1, proposer="a")


def nowhere() -> S3Connection:
    raise AssertionError("the table is on a disk")


@pytest.mark.parametrize("seed", [2, 3])
def test_random_calls_have_the_same_results_on_a_real_table(tmp_path: Path, seed: int) -> None:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        pair = Pair(SinkSetup(tmp_path, store), seed)
        for _ in range(CALLS):
            pair.walk_on()
        assert min(pair.met.values()) > 0, pair.met
        assert pair.store.history > 0
