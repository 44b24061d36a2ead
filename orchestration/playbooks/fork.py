"""The fork playbook: a new stream with the past of another up to an epoch, which is only read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from assets import catalogue
from configs.forking import ForkedDeclaration, forked
from ft_policies.errors import PermanentError
from ft_policies.fork import (
    CopyEpochs,
    CopyOutput,
    CopySnapshot,
    Observed,
    Step,
    WriteDeclaration,
    foreseen,
    next_step,
)
from orchestration.playbooks.declaring import demand_same_past
from orchestration.playbooks.performing import Journaled, Performed, perform
from orchestration.playbooks.restore_point import (
    Asked,
    Point,
    demand_source,
    find_point,
    vault_of,
)
from orchestration.playbooks.restore_tables import tables_of
from resources.vault.manifest import SnapshotName
from resources.vault.vault import SnapshotVault
from streaming.connections import connector
from streaming.sinks.copy import TableCopy
from streaming.sinks.lineage import dead_letter_writer, writer
from streaming.world import World

PLAYBOOK = "fork"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """One fork on its way: from a point of a stream to a declaration of its own."""

    world: World
    point: Point
    declaration: ForkedDeclaration
    snapshots: SnapshotVault
    run: str

    def steps(self) -> Iterator[Performed[Step]]:
        """Perform what is left of it; whoever performs it may die at any point."""
        journal = Journaled(
            store=self.world.store, stream=self.name, playbook=PLAYBOOK, run=self.run
        )

        def decide() -> Step | None:
            return next_step(self.observed())

        return perform(decide, self._act, journal)

    @property
    def name(self) -> str:
        """The fork's own name."""
        return self.declaration.model.name

    def observed(self) -> Observed:
        """What there is of it by now; an error if something else has its place."""
        return Observed(
            epoch=self.point.epoch,
            snapshot=self.point.snapshot_id,
            file=str(self.declaration.file.relative_to(self.world.project.root)),
            has_snapshot=self._has_snapshot(),
            has_output=self._has_output(),
            has_epochs=self._has_epochs(),
            declared=self.declaration.is_written(),
        )

    def _act(self, step: Step) -> Mapping[str, Any]:
        match step:
            case CopySnapshot():
                return self._copy_snapshot(step.snapshot)
            case CopyOutput():
                return self._copy_output()
            case CopyEpochs():
                copy = self.world.store.forks.copy
                return {
                    "entries": copy(self.point.stream, into=self.name, through_epoch=step.epoch)
                }
            case WriteDeclaration():
                self.declaration.write()
                return {"file": step.file}

    def _copy_snapshot(self, snapshot: str) -> Mapping[str, Any]:
        """Copy it; what an earlier attempt has copied, before there was a newer one, goes."""
        manifest = self.snapshots.manifest(snapshot)
        copied = catalogue.adopt(self.world, self.name, manifest, self.snapshots)
        for older in self._copies() - {_copied_id(manifest.name)}:
            catalogue.forget(self.world, self.name, older)
        return copied

    def _copy_output(self) -> Mapping[str, Any]:
        output = tables_of(self.world, self.point.stream).output
        assert output is not None, "others cannot be forked"  # noqa: S101
        found: dict[str, int] = {}
        if not self._table.is_done():
            version = output.version(self.point.stream, self.point.epoch)
            found["files"] = self._table.copy(version)
        if (aside := self._dead_letters) is not None and not aside.is_done():
            found["dead_letters"] = aside.copy_dead_letters()
        return found

    def _has_output(self) -> bool:
        aside = self._dead_letters
        return self._table.is_done() and (aside is None or aside.is_done())

    def _has_snapshot(self) -> bool:
        """A fork has no other snapshot than the one that is copied, until it is declared and runs."""
        snapshot, copies = self.point.snapshot, self._copies()
        return snapshot is not None and copies == {_copied_id(snapshot.name)}

    def _copies(self) -> set[str]:
        """What was copied by now; an error if there is anything that the original does not have."""
        ids = {record.id for record in self.world.vault(self.name).list()}
        theirs = [one.name for one in self.snapshots.list() if one.epoch <= self.point.epoch]
        if self.point.snapshot is not None:  # retention may have dropped it since
            theirs.append(self.point.snapshot.name)
        if foreign := ids - set(map(_copied_id, theirs)):
            raise PermanentError(
                f"there are snapshots of a stream {self.name} already, one is {min(foreign)}",
                hint="fork under another name",
            )
        return ids

    def _has_epochs(self) -> bool:
        store, point = self.world.store, self.point
        last, entry = store.epochs.last(self.name), store.ledger.last(self.name)
        if last is None and entry is None:
            return False
        theirs = store.epochs.get(point.stream, point.epoch)
        same = last is not None and theirs is not None and last.decided_at == theirs.decided_at
        if not same or last is None or last.epoch != point.epoch:
            raise PermanentError(
                f"there are epochs of a stream {self.name} already",
                hint="fork under another name",
            )
        return entry is not None and entry.epoch == point.epoch

    @property
    def _table(self) -> TableCopy:
        project = self.world.project
        source, target = (
            project.table_path(self.point.stream),
            project.table_path(self.declaration.model),
        )
        return self._copy(source, target, writer(self.name, 0))

    @property
    def _dead_letters(self) -> TableCopy | None:
        project = self.world.project
        source = project.dead_letters_path(self.point.stream)
        target = project.dead_letters_path(self.declaration.model)
        if source is None or target is None:
            return None
        return self._copy(source, target, dead_letter_writer(self.name, 0))

    def _copy(self, source: str, target: str, name: str) -> TableCopy:
        if source == target:
            raise PermanentError(
                f"the fork would write to {source}, as the original does",
                hint="name another place for its output",
            )
        project = self.world.project
        return TableCopy(
            source=source,
            target=target,
            stream=self.name,
            writer=name,
            epoch=self.point.epoch,
            connect=connector(project.deployment.object_store, project.home),
        )

    def demand_possible(self) -> None:
        """Refuse what cannot be forked, before anything is written."""
        project, point = self.world.project, self.point
        if self.name in project.streams or self.declaration.is_written():
            raise PermanentError(
                f"there is a stream {self.name} already", hint="fork under another name"
            )
        self._table.require_copyable()
        output = tables_of(self.world, point.stream).output
        if output is not None:
            output.version(point.stream, point.epoch)
        demand_source(self.world, point.stream, point.first_computed, point.epoch)
        self.observed()


def fork(
    world: World, stream: str, asked: Asked, run: str, *, name: str, output: str | None = None
) -> Iterator[Performed[Step]]:
    """Fork a stream at a point; the original is only read, and the fork is not started."""
    return prepared(world, stream, asked, run, name=name, output=output).steps()


def fork_plan(
    world: World, stream: str, asked: Asked, *, name: str, output: str | None = None
) -> tuple[Point, list[Step]]:
    """What `fork` would do, as far as one look can tell; an error says why it would not."""
    prepared_fork = prepared(world, stream, asked, "", name=name, output=output)
    return prepared_fork.point, foreseen(prepared_fork.observed())


def prepared(
    world: World, stream: str, asked: Asked, run: str, *, name: str, output: str | None
) -> Fork:
    """A fork that nothing stands in the way of."""
    world.ensure_object_store()
    demand_same_past(world, stream, done="forked")
    declaration = forked(world.project.root, stream, name=name, output=output)
    found = Fork(
        world=world,
        point=find_point(world, stream, asked),
        declaration=declaration,
        snapshots=vault_of(world, stream, asked),
        run=run,
    )
    found.demand_possible()
    return found


def _copied_id(name: SnapshotName) -> str:
    """The id of the copy: a fork begins with history 0."""
    return replace(name, history=0).id
